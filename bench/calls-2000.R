# How long do 2,000 tasks that do nothing take, balanced over 2 workers?
#
# clusterApplyLB() gives every task to the worker that is free, one by one; mirai_map()
# is the peer's verb for it. One session has 2 workers of each kind and uses them in
# random order. The limit is clusterApplyLB() itself with nodes that do nothing.

measure <- function(quick) {
  tasks <- if (quick) 200L else 2000L
  chosen <- select_peers(c("muster", "parallel", "parallelly", "mirai"), 2L)
  here <- chosen$here
  clusters <- lapply(peers[here], function(peer) peer$start(2L))
  on.exit(for (peer in here) peers[[peer]]$stop(clusters[[peer]]))
  clusters$limit <- null_cluster(2L)
  run <- function(arm) run_tasks(arm, clusters[[arm]], tasks)
  arms <- c(here, "limit")
  for (arm in arms) run(arm)

  case <- paste(format(tasks, big.mark = ","), "tasks")
  counts <- structure(rep(if (quick) 3L else 15L, length(arms)), names = arms)
  raw <- interleave(case, counts, run)
  rows <- compare_all(raw, case, list(parallel = ratio_bar(2.5)), limit = "limit")
  list(raw = raw, rows = rows, notes = chosen$notes)
}

run_tasks <- function(arm, cl, tasks) {
  nothing <- in_global(function(i) NULL)
  took <- time_of(
    values <- if (arm == "mirai") {
      mirai::mirai_map(seq_len(tasks), nothing)[]
    } else {
      parallel::clusterApplyLB(cl, seq_len(tasks), nothing)
    }
  )
  stopifnot(length(values) == tasks)
  took
}
