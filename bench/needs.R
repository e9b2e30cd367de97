# What does a task cost whose argument is another task?
#
# A chain of 1,000, each of which adds 1 to what the one before it gives; and one of 50 over 8 MB.
# Submitted at once, and the last one's value asked for. Beside it the same calls one after the
# other, each value fetched by the session and sent on: with tasks of the same cluster, with mirai,
# and evaluated in the session itself, which is the floor.

measure <- function(quick) {
  cl <- muster::cluster_start(2)
  arms <- c("muster", "value by value", if (is_here("mirai")) "mirai", "sequential")
  if ("mirai" %in% arms) mirai::daemons(2)
  on.exit({
    muster::cluster_stop(cl)
    if ("mirai" %in% arms) mirai::daemons(0)
  })
  add <- in_global(function(x) x + 1)
  steps <- list(
    muster = function(x) muster::task_submit(cl, add, x),
    `value by value` = function(x) muster::task_value(muster::task_submit(cl, add, x)),
    mirai = function(x) mirai::mirai(add(x), add = add, x = x)[],
    sequential = add
  )
  chain <- function(arm, first, n) {
    step <- compiler::cmpfun(steps[[arm]])
    gc()
    time_of({
      last <- first
      for (i in seq_len(n)) last <- step(last)
      if (arm == "muster") last <- muster::task_value(last)
    }) / n
  }
  counts <- structure(rep(if (quick) 1L else 21L, length(arms)), names = arms)
  n <- if (quick) 50L else 1000L
  for (arm in arms) for (k in 1:4) chain(arm, 0, n) # warm
  raw <- rbind(
    interleave("a chain of 1,000, each", counts, function(arm) chain(arm, 0, n)),
    interleave("a chain of 50 over 8 MB, each", counts, function(arm) {
      chain(arm, as.numeric(seq_len(1e6)), if (quick) 5L else 50L)
    })
  )
  list(raw = raw, rows = needs_rows(raw), notes = character())
}

needs_rows <- function(raw) {
  within_60_us <- bar("at most 60 us", function(ours, theirs, ratio) ours <= 60e-6)
  rows <- list()
  cases <- unique(raw$case)
  for (k in seq_along(cases)) {
    for (peer in setdiff(unique(raw$arm), "muster")) {
      rows <- c(rows, list(compare(raw, cases[k], peer,
        bar = if (k == 1L && peer == "sequential") within_60_us, show = show_us
      )))
    }
  }
  do.call(rbind, rows)
}
