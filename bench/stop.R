# How long until all workers of a stopped cluster are gone?
#
# stopCluster() of an idle cluster, and then until no worker runs any more. muster's
# returns when all are reaped; the peers' return earlier, so their processes are
# waited for. parallelly's clusters are stopped by parallel's own code.

measure <- function(quick) {
  n <- if (quick) 8L else 64L
  counts <- if (quick) {
    c(muster = 3L, parallel = 2L, mirai = 2L)
  } else {
    c(muster = 11L, parallel = 3L, mirai = 3L)
  }
  chosen <- select_peers(names(counts), n)
  case <- paste(n, "workers")
  raw <- interleave(case, counts[chosen$here], function(peer) {
    cl <- peers[[peer]]$start(n)
    pids <- worker_pids(peer, cl, n)
    time_stop(peer, cl, pids)
  })
  list(raw = raw, rows = compare_all(raw, case), notes = chosen$notes)
}
