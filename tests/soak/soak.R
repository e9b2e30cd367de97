# Kills workers by the thousand, under load of every kind, and expects that nobody notices:
#   Rscript tests/soak/soak.R [KILLS [SEED]]
# Signals come from outside (tests/tools/killer.sh) and from within; after each round all
# results must be the expected ones and the state of all workers what it was. At the end no
# process, descriptor or file is left, and memory has not grown. Ends with
# `soak: N passed, N failed, N skipped`, one for all rounds and one for each thing that must
# not be left, and before it how many kills there were. Linux only: reads /proc.

arguments <- commandArgs(trailingOnly = TRUE)
kills <- if (length(arguments) >= 1L) as.integer(arguments[1L]) else 10000L
seed <- if (length(arguments) >= 2L) as.integer(arguments[2L]) else 1L
workers <- 8L
# A worker that is killed more than three times in 5 s and has no task meanwhile is given
# up, as it should be; so not faster than that can come to.
pause_s <- 0.1
growth_bytes_max <- 64 * 2^20

counts <- c(passed = 0L, failed = 0L, skipped = 0L)
done <- function() {
  if (counts[["failed"]] > 0L) {
    cat(sprintf("again: Rscript tests/soak/soak.R %d %d\n", kills, seed))
  }
  cat(sprintf("soak: %d passed, %d failed, %d skipped\n",
    counts[["passed"]], counts[["failed"]], counts[["skipped"]]))
  quit("no", status = as.integer(counts[["failed"]] > 0L))
}
note <- function(ok, what) {
  verdict <- if (isTRUE(ok)) "passed" else "failed"
  counts[verdict] <<- counts[verdict] + 1L
  if (!isTRUE(ok)) cat("failed: ", what, "\n", sep = "")
  invisible(isTRUE(ok))
}
if (!file.exists("/proc/self/stat")) {
  cat("skipped: there is no /proc\n")
  counts["skipped"] <- 1L
  done()
}
set.seed(seed)
suppressPackageStartupMessages(library(muster))
options(muster.quiet = TRUE)
cat(sprintf("%d kills of %d workers, seed %d\n", kills, workers, seed))

# ---- what must not be left

descriptors <- function() {
  targets <- Sys.readlink(file.path("/proc/self/fd", list.files("/proc/self/fd")))
  sort(sub("[0-9]+", "", targets[nzchar(targets)]))
}
children <- function() {
  sort(scan(file.path("/proc/self/task", Sys.getpid(), "children"), 0L, quiet = TRUE))
}
files <- function() {
  sort(list.files(tempdir(), all.files = TRUE, recursive = TRUE, include.dirs = TRUE, no.. = TRUE))
}
resident_bytes <- function() {
  gc(full = TRUE)
  pages <- scan("/proc/self/statm", 0, quiet = TRUE)[2L]
  pages * 4096
}

# ---- one round: TRUE, or what is wrong

# Functions as a user's script has them: with the global environment.
square <- function(i) {
  Sys.sleep(0.002) # tidy: the worker's work
  i^2
}
dies_once <- function(i, file) {
  file <- paste0(file, i)
  if (i %in% c(5L, 9L) && !file.exists(file)) {
    file.create(file)
    if (i == 5L) quit("no", 3L)
    tools::pskill(Sys.getpid(), 11L)
  }
  -i
}
count <- function() n <<- n + 1
filled <- function(x) x + 1
drawn <- function(i) rnorm(3)

draws <- function(cl, k) {
  clusterSetRNGStream(cl, k)
  list(parSapply(cl, 1:18, drawn), clusterApply(cl, 1:8, drawn), clusterMap(cl, drawn, 1:6))
}

deaths <- tempfile("deaths-")
round_of <- function(cl, k) {
  file <- file.path(deaths, k) # stays: a worker that comes back repeats its last calls
  exported <<- k
  big <- as.numeric(seq_len(1e5)) * k
  is <- function(value, expected, what) if (!identical(value, expected)) what
  wrong <- c(
    is(parLapply(cl, 1:40, square), as.list((1:40)^2), "parLapply"),
    is(parLapplyLB(cl, 1:40, square), as.list((1:40)^2), "parLapplyLB"),
    is(clusterApplyLB(cl, 1:30, square), as.list((1:30)^2), "clusterApplyLB"),
    is(clusterMap(cl, function(a, b) a * b, 1:20, 20:1, .scheduling = "dynamic"),
      as.list(1:20 * 20:1), "clusterMap"),
    is(clusterApplyLB(cl, 1:12, dies_once, file), as.list(-(1:12)), "tasks that die"),
    is(clusterCall(cl, filled, big), rep(list(big + 1), workers), "big values"),
    is(draws(cl, k), reference[[k %% length(reference) + 1L]], "random numbers")
  )
  clusterExport(cl, "exported")
  unlist(clusterCall(cl, count))
  c(wrong,
    is(clusterCall(cl, function() exported), rep(list(k), workers), "exported"),
    is(clusterCall(cl, function() n), rep(list(rounds + 1), workers), "counted"),
    is(clusterCall(cl, function() "package:splines" %in% search()), rep(list(TRUE), workers),
      "packages"),
    is(length(unique(unlist(clusterCall(cl, Sys.getpid)))), workers, "number of workers")
  )
}

# ---- the run

# A first cluster boots the fork server, which stays by design.
cl <- cluster_start(workers)
reference <- lapply(0:9, function(k) NULL)
for (k in 1:10) reference[[k %% 10L + 1L]] <- draws(cl, k)
stopCluster(cl)
before <- list(descriptors = descriptors(), children = children(), files = files())
dir.create(deaths)

cl <- cluster_start(workers, retries = 1000, heartbeat = 1)
invisible(clusterEvalQ(cl, {
  library(splines)
  n <- 0
}))
server <- before$children
killer <- as.integer(system2("sh", c("-c", shQuote(sprintf(
  "sh tests/tools/killer.sh %d %f 'KILL KILL KILL SEGV TERM STOP' '%s' >/dev/null 2>&1 & echo $!",
  seed, pause_s, paste(server, collapse = " ")
))), stdout = TRUE))
end_killer <- function() tools::pskill(killer, tools::SIGKILL)

rounds <- 0
restarts <- 0
memory <- NULL
shown <- 0
repeat {
  wrong <- tryCatch(round_of(cl, as.integer(rounds %% 10 + 1)), error = function(e) {
    paste0("an error of class ", class(e)[1L], ": ", conditionMessage(e))
  })
  rounds <- rounds + 1
  restarts <- sum(cluster_status(cl)$restarts)
  if (!is.null(wrong)) {
    cat(sprintf("round %.0f after %.0f kills: %s\n", rounds, restarts,
      paste(wrong, collapse = ", ")))
    print(cluster_status(cl))
    break
  }
  if (is.null(memory) && restarts >= kills / 10) memory <- resident_bytes()
  if (restarts >= shown + kills / 10) {
    shown <- restarts
    cat(sprintf("%7.0f kills, %.0f rounds, %.0f MB\n", restarts, rounds, resident_bytes() / 2^20))
  }
  if (restarts >= kills) break
}
end_killer()
note(is.null(wrong), "a round went wrong, see above")

if (counts[["failed"]] == 0L) {
  growth <- resident_bytes() - memory
  note(growth < growth_bytes_max, sprintf("memory grew by %.0f MB", growth / 2^20))
  note(restarts >= kills, "there were too few kills")
}
pids <- cluster_status(cl)$pid
stopCluster(cl)
unlink(deaths, recursive = TRUE)
end <- Sys.time() + 60
repeat {
  after <- list(descriptors = descriptors(), children = children(), files = files())
  if (identical(after, before) || Sys.time() > end) break
  Sys.sleep(0.05) # tidy: no testthat here
}
for (what in names(before)) {
  new <- setdiff(as.character(after[[what]]), as.character(before[[what]]))
  note(identical(after[[what]], before[[what]]), paste0(what, " were left: ",
    paste(utils::head(new, 5L), collapse = ", "), " (", length(after[[what]]), " of ",
    length(before[[what]]), ")"))
}
note(!any(file.exists(file.path("/proc", stats::na.omit(pids)))), "workers were left")
cat(sprintf("beside: %.0f kills in %.0f rounds\n", restarts, rounds))
done()
