# What does makeClusterPSOCK() cost, ours and parallelly's?
#
# Starts: one session starts and stops clusters in random order, ours by the fork server that
# an earlier start booted, with cluster_start() beside it as the limit: the drop-in is a
# thin layer over that. Calls: 1,000 times clusterEvalQ(cl, iris) on 2 workers, the
# example of parallelly's release notes; the limit is the same with nodes that do nothing.

source("bench/starts.R")

measure <- function(quick) {
  sizes <- if (quick) 2L else c(2L, 64L)
  starts <- do.call(rbind, lapply(sizes, measure_psock_starts, quick = quick))
  calls <- measure_psock_calls(quick)
  rows <- lapply(unique(starts$case), function(case) {
    same <- bar("at most 1.2 times cluster_start()", function(ours, theirs, ratio) {
      ours <= 1.2 * median(values(starts, case, "limit"))
    })
    bars <- if (startsWith(case, "64 ")) list(parallelly = same) else list()
    compare_all(starts, case, bars, limit = "limit")
  })
  case <- calls$case[1L]
  bars <- list(parallelly = ratio_bar(2))
  rows <- c(rows, list(compare_all(calls, case, bars, limit = "limit")))
  list(raw = rbind(starts, calls), rows = do.call(rbind, rows), notes = character())
}

psock_start <- list(
  muster = function(n) muster::makeClusterPSOCK(n),
  parallelly = function(n) parallelly::makeClusterPSOCK(n),
  limit = function(n) muster::cluster_start(n)
)

measure_psock_starts <- function(n, quick) {
  arms <- names(psock_start)
  counts <- structure(rep(if (quick) 3L else 11L, 3L), names = arms)
  if (!quick && n > 8L) counts["parallelly"] <- 3L # 30 s each
  parallel::stopCluster(muster::cluster_start(2L))
  interleave(paste(n, "workers started and answered"), counts, function(arm) {
    took <- time_of({
      cl <- psock_start[[arm]](n)
      parallel::clusterCall(cl, in_global(function() NULL))
    })
    parallel::stopCluster(cl)
    took
  })
}

measure_psock_calls <- function(quick) {
  count <- if (quick) 100L else 1000L
  clusters <- list(
    muster = muster::makeClusterPSOCK(2L), parallelly = parallelly::makeClusterPSOCK(2L)
  )
  on.exit(for (cl in clusters) parallel::stopCluster(cl))
  clusters$limit <- null_cluster(2L)
  counts <- structure(rep(if (quick) 3L else 11L, 3L), names = names(clusters))
  run <- function(arm) {
    cl <- clusters[[arm]]
    time_of(for (i in seq_len(count)) parallel::clusterEvalQ(cl, iris))
  }
  for (arm in names(clusters)) run(arm)
  interleave(paste(format(count, big.mark = ","), "times clusterEvalQ(cl, iris)"), counts, run)
}
