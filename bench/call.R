# How long does one trivial call take?
#
# One session has a cluster of each kind. Blocks of calls go to one after the other in
# random order; every call is timed, and a block's figure is the median of its calls.
# Then the same with two foreign processes that compute without pause. Beside them:
# parallel's own R code with a node that does nothing, which no cluster can get below,
# and the limit, one byte to another process and back over a socket pair.

measure <- function(quick) {
  arms <- call_arms()
  on.exit(arms$end())
  for (arm in names(arms$calls)) block(arms$calls[[arm]], 100L)
  plain <- measure_blocks("one call", arms$calls,
    rounds = if (quick) 5L else 41L, calls_each = if (quick) 50L else 400L
  )
  busy <- with_busy(2L, {
    measure_blocks("one call beside two busy processes", arms$calls,
      rounds = if (quick) 3L else 21L, calls_each = if (quick) 20L else 100L
    )
  })
  raw <- rbind(plain, busy)
  list(raw = raw, rows = call_rows(raw), notes = arms$notes)
}

# The calls to time, by arm, and how to end what they need.
call_arms <- function() {
  one <- in_global(function() 1L)
  chosen <- select_peers(c("muster", "parallel", "mirai"), 1L)
  here <- chosen$here
  clusters <- lapply(peers[here], function(peer) peer$start(1L))
  clusters$null <- null_cluster(1L)
  calls <- lapply(clusters[setdiff(names(clusters), "mirai")], function(cl) {
    function() parallel::clusterCall(cl[1], one)
  })
  if ("mirai" %in% here) calls$mirai <- function() mirai::mirai(1L)[]
  list(
    calls = lapply(calls, compiler::cmpfun),
    notes = chosen$notes,
    end = function() for (peer in here) peers[[peer]]$stop(clusters[[peer]])
  )
}

# Medians of blocks of calls, in seconds; the limit's blocks are taken in turn too.
measure_blocks <- function(case, calls, rounds, calls_each) {
  arms <- c(names(calls), "limit")
  counts <- structure(rep(rounds, length(arms)), names = arms)
  interleave(case, counts, function(arm) {
    if (arm == "limit") {
      median(.Call(native$round_trips, calls_each))
    } else {
      block(calls[[arm]], calls_each)
    }
  })
}

call_rows <- function(raw) {
  near_floor <- bar(
    "under 45 us, or at most 25 us above parallel's R code",
    function(ours, theirs, ratio) ours < 45e-6 || ours - theirs <= 25e-6
  )
  bars <- list(
    "one call parallel" = ratio_bar(2),
    "one call null" = near_floor,
    "one call beside two busy processes parallel" = ratio_bar(1)
  )
  labels <- c(parallel = "parallel", null = "parallel's R code alone", mirai = "mirai")
  rows <- lapply(unique(raw$case), function(case) {
    lapply(intersect(names(labels), raw$arm), function(peer) {
      compare(raw, case, peer,
        bar = bars[[paste(case, peer)]], limit = "limit", show = show_us, label = labels[[peer]]
      )
    })
  })
  do.call(rbind, unlist(rows, recursive = FALSE))
}
