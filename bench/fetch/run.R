# Do fetches of a shuffle stall? Measured for five naive settings and for muster:
#   tools/bench-fetch.sh [RUNS]          which runs this in a network namespace of its own
# RUNS (100) of each setting, in a new random order each round, then a sweep over the size of
# the data and the number of hosts. Raw figures go to bench/raw/fetch.csv and fetch-sweep.csv,
# the tables and figures into bench/. Status 1 if a run had a wrong result.

# Says all that is missing, at once.
check_needs <- function() {
  missing <- c(
    if (!file.exists("/proc/self/net/netstat")) "Linux: the kernel's counters are in /proc",
    if (!requireNamespace("muster", quietly = TRUE)) "muster, in ./.lib: make install",
    if (!requireNamespace("ggplot2", quietly = TRUE)) {
      "the R package ggplot2: apt-get install r-cran-ggplot2, or install.packages(\"ggplot2\")"
    },
    if (!capabilities("png")) "an R that draws PNG files",
    if (file.access("/proc/sys/net/core/somaxconn", 2L) != 0L ||
          length(readLines("/proc/self/net/route")) > 1L) {
      "a network namespace of its own: tools/bench-fetch.sh makes one"
    }
  )
  if (length(missing)) {
    cat("bench-fetch: missing here:", paste0("  ", missing), sep = "\n")
    quit(status = 1L)
  }
}

# Every setting once a round.
run_settings <- function(program, muster, runs) {
  rounds <- lapply(seq_len(runs), function(run) {
    if (run %% 10L == 0L) cat(sprintf("  round %d of %d\n", run, runs))
    arms <- sample(c(fetch_settings, "muster"))
    do.call(rbind, lapply(arms, function(arm) {
      if (arm == "muster") muster(run) else fetch_run(program, arm, run)
    }))
  })
  do.call(rbind, rounds)
}

# One handler, with all combinations of little and much data, few and many hosts.
sweep_cells <- expand.grid(block = c(1024L, 262144L), hosts = c(2L, 4L, 8L))

run_sweep <- function(program, runs) {
  rounds <- lapply(seq_len(runs), function(run) {
    cells <- sample(nrow(sweep_cells))
    do.call(rbind, lapply(cells, function(i) {
      cell <- sweep_cells[i, ]
      cbind(cell, fetch_run(program, "one-handler", run, unlist(cell)), row.names = NULL)
    }))
  })
  do.call(rbind, rounds)
}

write_runs <- function(name, runs, facts) {
  dir.create("bench/raw", showWarnings = FALSE)
  output <- file(file.path("bench/raw", paste0(name, ".csv")), "w")
  on.exit(close(output))
  writeLines(paste0("# ", names(facts), ": ", facts), output)
  write.csv(runs, output, row.names = FALSE)
}

local({
  this <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
  setwd(file.path(dirname(normalizePath(this)), "../.."))
})
runs <- suppressWarnings(as.integer(c(commandArgs(trailingOnly = TRUE), "100")[1L]))
if (is.na(runs) || runs < 4L) {
  cat("bench-fetch: RUNS must be a number from 4\n")
  quit(status = 1L)
}
check_needs()
for (file in c("bench/report.R", "bench/fetch/play.R", "bench/fetch/show.R")) source(file)
where <- facts()
where <- where[!grepl("^(parallelly|mirai|nanonext|future|future.apply|crew)$", names(where))]
set.seed(20)
began <- proc.time()[["elapsed"]]
program <- fetch_build("bench/fetch")
cat("bench-fetch:", runs, "runs of each setting\n")
muster <- fetch_muster()
settings <- run_settings(program, muster, runs)
muster::cluster_stop(environment(muster)$cl)
sweep_runs <- max(4L, runs %/% 5L)
cat("bench-fetch:", sweep_runs, "runs of each of", nrow(sweep_cells), "sizes\n")
sweep <- run_sweep(program, sweep_runs)

write_runs("fetch", settings, where)
write_runs("fetch-sweep", sweep, where)
where <- c(where, "whole" = sprintf("%.0f s", proc.time()[["elapsed"]] - began))
invisible(write_section("fetch", fetch_section(settings, sweep, where)))
plot_settings(settings, "bench/fetch-runs.png")
plot_sweep(sweep, "bench/fetch-sweep.png")
wrong <- sum(settings$right != 1) + sum(sweep$right != 1)
cat(sprintf("bench-fetch: %d runs, %d of them wrong, %s\n",
  nrow(settings) + nrow(sweep), wrong, where[["whole"]]))
quit(status = as.integer(wrong > 0L))
