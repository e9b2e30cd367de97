# What does healing cost, when nothing fails and when something does?
#
# A call to a cluster that heals and to one that doesn't, in blocks in random order. Then
# how long a call takes whose worker was killed just before: its process's end is seen,
# another is forked, and the call runs there. Last a load-balanced map of 200 tasks of 20
# ms on 4 workers, with one of them killed half a second after the start, and without.

measure <- function(quick) {
  raw <- rbind(measure_calm(quick), measure_kill(quick), measure_map(quick))
  list(raw = raw, rows = heal_rows(raw), notes = character())
}

measure_calm <- function(quick) {
  one <- in_global(function() 1L)
  clusters <- list(
    muster = muster::cluster_start(1), off = muster::cluster_start(1, healing = FALSE)
  )
  on.exit(for (cl in clusters) muster::cluster_stop(cl))
  calls <- lapply(clusters, function(cl) {
    compiler::cmpfun(function() parallel::clusterCall(cl, one))
  })
  for (call in calls) block(call, 500L)
  rounds <- if (quick) 5L else 41L
  interleave("one call", c(muster = rounds, off = rounds), function(arm) {
    block(calls[[arm]], if (quick) 50L else 400L)
  })
}

measure_kill <- function(quick) {
  options(muster.quiet = TRUE)
  cl <- muster::cluster_start(1)
  on.exit(muster::cluster_stop(cl))
  one <- in_global(function() 1L)
  interleave("a call to a worker that was just killed", c(muster = if (quick) 3L else 21L),
    function(arm) {
      parallel::clusterCall(cl, one)
      tools::pskill(cl[[1L]]$pid, 9L)
      time_of(parallel::clusterCall(cl, one))
    }
  )
}

measure_map <- function(quick) {
  options(muster.quiet = TRUE)
  cl <- muster::cluster_start(4)
  on.exit(muster::cluster_stop(cl))
  task <- in_global(function(i) {
    Sys.sleep(0.02)
    i
  })
  rounds <- if (quick) 1L else 7L
  interleave("200 tasks of 20 ms on 4 workers", c(muster = rounds, killed = rounds), function(arm) {
    if (arm == "killed") {
      pid <- cl[[2L]]$pid
      system(paste("( sleep 0.5; kill -9", pid, ") &"))
    }
    time_of(parallel::parLapplyLB(cl, 1:200, task, chunk.size = 1L))
  })
}

heal_rows <- function(raw) {
  rbind(
    compare(raw, "one call", "off",
      label = "healing = FALSE", show = show_us,
      bar = bar("at most 3 % above", function(ours, theirs, ratio) ratio >= 1 / 1.03)
    ),
    alone(raw, "a call to a worker that was just killed",
      bar = bar("under 30 ms", function(ours, theirs, ratio) ours < 0.03)
    ),
    compare(raw, "200 tasks of 20 ms on 4 workers", "killed",
      label = "the same with a worker killed",
      bar = bar("at most 1.15 times", function(ours, theirs, ratio) ratio <= 1.15)
    )
  )
}
