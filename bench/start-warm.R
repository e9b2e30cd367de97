# How long until N workers answer, with the fork server up?
#
# One session starts and stops clusters of all kinds in random order. muster's fork
# server was booted by an earlier start; the workers are new each time. The peers
# have nothing of the kind and start as they do in a fresh session. The limit is N
# bare forks of the session.

source("bench/starts.R")

measure <- function(quick) {
  time_start("muster", 2L)
  measure_starts(start_plan(quick, cold = FALSE), time_warm, bars = list(
    "64" = list(parallel = ratio_bar(25))
  ))
}

time_warm <- function(arm, n) {
  if (arm == "limit") .Call(native$forks, n) else time_start(arm, n)
}
