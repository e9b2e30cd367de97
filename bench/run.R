# Runs the benchmarks of bench/registry.R, all or those named:
#   Rscript bench/run.R [NAME ...] [--quick]
# Raw times go to bench/raw/NAME.csv, tables into bench/README.md. --quick is a trial
# of the benchmarks themselves, with few workers and rounds: its tables are printed
# and go nowhere else, its raw times to bench/raw/quick-NAME.csv.
#
# muster and its peers are taken from ./.lib, as `make install` and tools/setup.sh
# put them there, and then from R's other libraries. Needs Linux. Every question has
# a session of its own. Status 1 if one failed, or missed a bar.

local({
  this <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
  setwd(file.path(dirname(normalizePath(this)), ".."))
})

# Gives what was asked for: list(names, quick).
read_arguments <- function(registry) {
  arguments <- commandArgs(trailingOnly = TRUE)
  quick <- "--quick" %in% arguments
  wanted <- setdiff(arguments, "--quick")
  unknown <- setdiff(wanted, names(registry))
  if (length(unknown)) {
    cat("There is no benchmark", unknown, "\nThere are:", names(registry), "\n")
    quit(status = 1L)
  }
  list(names = if (length(wanted)) wanted else names(registry), quick = quick)
}

# The checkout's own library goes first, here and in all sessions to come.
use_library <- function() {
  own <- normalizePath(".lib", mustWork = FALSE)
  if (dir.exists(own)) {
    Sys.setenv(R_LIBS = paste(c(own, Sys.getenv("R_LIBS")), collapse = ":"))
    .libPaths(c(own, .libPaths()))
  }
  if (!requireNamespace("muster", quietly = TRUE)) {
    cat("muster isn't installed: make install\n")
    quit(status = 1L)
  }
}

# Compiles bench/limits.c in this session's temporary directory.
build_limits <- function() {
  file.copy("bench/limits.c", tempdir())
  log <- file.path(tempdir(), "limits.log")
  source <- shQuote(file.path(tempdir(), "limits.c"))
  R <- file.path(R.home("bin"), "R")
  if (system2(R, c("CMD", "SHLIB", source), stdout = log, stderr = log) != 0L) {
    writeLines(readLines(log))
    quit(status = 1L)
  }
  Sys.setenv(BENCH_LIMITS = file.path(tempdir(), paste0("limits", .Platform$dynlib.ext)))
}

# In the question's own session: its file defines measure().
question_call <- function(name, quick) {
  list(call = call("measure", quick), file = file.path("bench", paste0(name, ".R")))
}

# Measures one question and reports it. FALSE, with the reason printed, if it failed or missed a
# bar; a trial can't miss any.
run_one <- function(name, quick) {
  cat(name, ": ", registry[[name]], "\n", sep = "")
  where <- facts()
  began <- now()
  ask <- question_call(name, quick)
  result <- tryCatch(fresh(ask$call, ask$file, timeout_s = 3600), error = identity)
  if (inherits(result, "error")) {
    cat("  failed: ", conditionMessage(result), "\n", sep = "")
    return(FALSE)
  }
  write_raw(name, result$raw, where, quick)
  lines <- section(name, registry[[name]], result, where)
  if (quick) cat("", lines, "", sep = "\n") else write_section(name, lines)
  cat(sprintf("  %.0f s\n", now() - began))
  missed <- !quick & grepl("**not met**", result$rows$bar, fixed = TRUE)
  for (row in which(missed)) {
    cat("  bar missed: ", result$rows$case[row], ": ", result$rows$bar[row], "\n", sep = "")
  }
  !any(missed)
}

if (!file.exists("/proc/self/smaps_rollup")) {
  cat("bench/ needs Linux (4.14 or later): it reads /proc\n")
  quit(status = 1L)
}
source("bench/registry.R")
asked <- read_arguments(registry)
use_library()
build_limits()
source("bench/bench.R")
source("bench/report.R")
done <- vapply(asked$names, run_one, NA, quick = asked$quick)
cat(sprintf("bench: %d measured, %d failed\n", sum(done), sum(!done)))
quit(status = as.integer(!all(done)))
