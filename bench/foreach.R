# What does an iteration of foreach's cost above one of `%do%`?
#
# 10,000 iterations that do nothing, and 1,000 that read one element of a vector of 8 MB beside the
# loop, with 2 workers; sequential is `%do%`, which has foreach's own cost. Workers are started
# before, and have evaluated a loop.

measure <- function(quick) {
  if (!is_here("foreach")) {
    return(list(
      raw = NULL, notes = character(),
      rows = left_out("loops", "left out: foreach isn't installed")
    ))
  }
  arms <- Filter(function(arm) is_here(loop_packages[[arm]]), names(loop_packages))
  clusters <- list(muster = muster::cluster_start(2))
  psock <- parallel::makeCluster(2)
  on.exit({
    foreach::registerDoSEQ()
    parallel::stopCluster(psock)
    muster::cluster_stop(clusters$muster)
    if ("doFuture" %in% arms) future::plan("sequential")
  })
  register <- list(
    muster = function() muster::registerDoMuster(clusters$muster),
    doParallel = function() doParallel::registerDoParallel(psock),
    doSNOW = function() doSNOW::registerDoSNOW(psock),
    doFuture = function() {
      future::plan(future::cluster, workers = psock)
      doFuture::registerDoFuture()
    },
    sequential = function() foreach::registerDoSEQ()
  )
  raw <- rbind(
    measure_loop("10,000 iterations of nothing", empty_loop, if (quick) 100L else 10000L,
      arms, register, quick
    ),
    measure_loop("1,000 that read of 8 MB", reading_loop, if (quick) 10L else 1000L,
      arms, register, quick
    )
  )
  list(raw = raw, rows = loop_rows(raw), notes = character())
}

loop_packages <- list(
  muster = "foreach", doParallel = "doParallel", doSNOW = "doSNOW", doFuture = "doFuture",
  sequential = "foreach"
)

empty_loop <- function(n, `%op%`) foreach::foreach(i = seq_len(n)) %op% i

reading_loop <- function(n, `%op%`) {
  values <- seq(0, 1, length.out = 1e6)
  foreach::foreach(i = seq_len(n), .combine = c) %op% values[i]
}

measure_loop <- function(case, loop, n, arms, register, quick) {
  loop <- in_global(loop)
  counts <- c(muster = 11L, doParallel = 5L, doSNOW = 5L, doFuture = 5L, sequential = 11L)[arms]
  if (quick) counts[] <- 1L
  interleave(case, counts, function(arm) {
    register[[arm]]()
    op <- if (arm == "sequential") foreach::`%do%` else foreach::`%dopar%`
    loop(4L, op)
    time_of(loop(n, op))
  })
}

loop_rows <- function(raw) {
  rows <- list()
  n <- c(1e4, 1e3)
  cases <- unique(raw$case)
  for (k in seq_along(cases)) {
    above <- bar("at most 100 us each above", function(ours, theirs, ratio) {
      ours - theirs <= n[k] * 100e-6
    })
    rows <- c(rows, list(compare(raw, cases[k], "sequential", bar = above, show = show_s)))
    for (peer in setdiff(unique(raw$arm), c("muster", "sequential"))) {
      rows <- c(rows, list(compare(raw, cases[k], peer, show = show_s)))
    }
  }
  do.call(rbind, rows)
}
