# How long until N workers answer, in a session that has just begun?
#
# Every start is the first thing that a fresh R session does, after the package is
# loaded: muster boots its fork server then. The limit is what any fork server pays:
# one boot of R with the default packages, and N bare forks of such an R.

source("bench/starts.R")

measure <- function(quick) {
  measure_starts(start_plan(quick, cold = TRUE), time_cold, bars = list(
    "64" = list(parallel = ratio_bar(12)),
    "1000" = list(muster = bar("under 5 s", function(ours, theirs, ratio) ours < 5))
  ))
}

time_cold <- function(arm, n) {
  call <- if (arm == "limit") call("time_limit", n) else call("time_start", arm, n)
  fresh(call, "bench/start-cold.R")
}

# The program itself, without the shell script around it, as muster boots it.
time_limit <- function(n) {
  program <- file.path(R.home("bin"), "exec", "R")
  arguments <- c("--no-echo", "--no-restore", "--no-save", "--file=/dev/null")
  boot <- time_of(status <- system2(program, arguments))
  stopifnot(status == 0L)
  boot + .Call(native$forks, n)
}
