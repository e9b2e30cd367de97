# How long after its task is over does a promise resolve?
#
# A task of 5 ms gives the time at its end, and the promise's handler takes the time again, in R's
# event loop; a block is the median of 40, one after the other. And 500 tasks at once, each with a
# promise: until the last handler has run. Peers: promises of mirais, which are told too, and of
# futures, which are polled. sequential: a promise that is resolved when it is made, so what
# packages promises and later take themselves. Workers and the event loop's thread are started
# before.

measure <- function(quick) {
  lacks <- Filter(function(package) !is_here(package), c("promises", "later"))
  if (length(lacks) || packageVersion("later") < "1.4.0") {
    return(list(
      raw = NULL, notes = character(),
      rows = left_out("promises", "left out: promises, or later >= 1.4.0, isn't installed")
    ))
  }
  cl <- muster::cluster_start(2)
  arms <- c("muster", if (is_here("mirai")) "mirai", if (is_here("future")) "multisession")
  if ("mirai" %in% arms) mirai::daemons(2)
  if ("multisession" %in% arms) future::plan(future::multisession, workers = I(2L))
  on.exit({
    muster::cluster_stop(cl)
    if ("mirai" %in% arms) mirai::daemons(0)
    if ("multisession" %in% arms) future::plan("sequential")
  })
  start <- list(
    muster = function(f) muster::task_submit(cl, f),
    mirai = function(f) mirai::mirai(f(), f = f),
    multisession = function(f) future::future(f(), globals = list(f = f)),
    sequential = function(f) promises::promise_resolve(f())
  )
  arms <- c(arms, "sequential")
  for (arm in arms) settle_all(lapply(1:4, function(i) start[[arm]](ended)))
  raw <- rbind(measure_delay(arms, start, quick), measure_many(arms, start, quick))
  list(raw = raw, rows = promise_rows(raw), notes = character())
}

ended <- in_global(function() {
  Sys.sleep(0.005)
  as.numeric(Sys.time())
})
nothing <- in_global(function() 1)

# Runs the event loop until all promises have a value, and gives for each what `get` makes of it.
settle_all <- function(promises, get = identity) {
  values <- list()
  for (promise in promises) {
    promises::then(promise, function(value) values[[length(values) + 1L]] <<- get(value))
  }
  while (length(values) < length(promises)) later::run_now(1)
  unlist(values)
}

measure_delay <- function(arms, start, quick) {
  counts <- c(muster = 15L, mirai = 15L, multisession = 5L, sequential = 15L)[arms]
  if (quick) counts[] <- 1L
  interleave("from a task's end to its promise", counts, function(arm) {
    median(vapply(seq_len(if (quick) 3L else 40L), function(k) {
      settle_all(list(start[[arm]](ended)), function(end) as.numeric(Sys.time()) - end)
    }, 0))
  })
}

measure_many <- function(arms, start, quick) {
  counts <- c(muster = 11L, mirai = 11L, multisession = 1L, sequential = 11L)[arms]
  if (quick) counts[] <- 1L
  n <- if (quick) 10L else 500L
  interleave("500 promises at once", counts, function(arm) {
    time_of(settle_all(lapply(seq_len(n), function(i) start[[arm]](nothing))))
  })
}

promise_rows <- function(raw) {
  within_1_ms <- bar("at most 1 ms", function(ours, theirs, ratio) ours <= 1e-3)
  rows <- list()
  cases <- unique(raw$case)
  for (k in seq_along(cases)) {
    show <- list(show_us, show_s)[[k]]
    for (peer in setdiff(unique(raw$arm), "muster")) {
      rows <- c(rows, list(compare(raw, cases[k], peer,
        bar = if (k == 1L && peer == "sequential") within_1_ms, show = show
      )))
    }
  }
  do.call(rbind, rows)
}
