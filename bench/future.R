# What does a future cost above one that is evaluated in the session?
#
# future::value(future(1)), one after the other, and future_lapply() over 400 numbers, a future
# for each, with plans of 2 workers; sequential is the same code without workers: what future itself
# takes. A plan's workers are started before, and have evaluated some futures. And future.tests,
# the conformance suite of future's backends, each time in an R of its own.

measure <- function(quick) {
  lacks <- Filter(function(package) !is_here(package), c("future", "future.apply"))
  if (length(lacks)) {
    return(list(
      raw = NULL, notes = character(),
      rows = left_out("futures", paste0("left out: ", toString(lacks), " isn't installed"))
    ))
  }
  arms <- names(future_plans)
  if (!is_here("future.mirai")) arms <- setdiff(arms, "mirai")
  on.exit(future::plan("sequential"))
  raw <- rbind(measure_future_one(arms, quick), measure_future_map(arms, quick))
  if (is_here("future.tests")) raw <- rbind(raw, measure_future_suite(quick))
  list(raw = raw, rows = future_rows(raw), notes = character())
}

future_plans <- list(
  muster = function() future::plan(muster::muster_future, workers = I(2L)),
  multisession = function() future::plan(future::multisession, workers = I(2L)),
  mirai = function() future::plan(future.mirai::mirai_multisession, workers = I(2L)),
  sequential = function() future::plan(future::sequential)
)

one_future <- compiler::cmpfun(function() future::value(future::future(1, globals = TRUE)))

measure_future_one <- function(arms, quick) {
  counts <- c(muster = 15L, multisession = 3L, mirai = 5L, sequential = 15L)[arms]
  if (quick) counts[] <- 2L
  interleave("value(future(1))", counts, function(arm) {
    future_plans[[arm]]()
    block(one_future, if (quick) 3L else 20L)
    block(one_future, if (quick) 5L else if (arm == "multisession") 40L else 300L)
  })
}

measure_future_map <- function(arms, quick) {
  n <- if (quick) 20L else 400L
  itself <- in_global(function(x) x)
  counts <- c(muster = 11L, multisession = 1L, mirai = 1L, sequential = 11L)[arms]
  if (quick) counts[] <- 1L
  interleave("future_lapply() of 400, one a future", counts, function(arm) {
    future_plans[[arm]]()
    future.apply::future_lapply(1:4, itself, future.chunk.size = 1)
    time_of(future.apply::future_lapply(seq_len(n), itself, future.chunk.size = 1))
  })
}

measure_future_suite <- function(quick) {
  counts <- c(muster = 1L, multisession = 1L) * if (quick) 1L else 3L
  plans <- c(muster = "muster::muster_future", multisession = "multisession")
  interleave("future.tests", counts, function(arm) {
    code <- paste0(
      "options(future.tests.timeout = 120); future.tests::check('", plans[[arm]],
      if (quick) "', tags = 'value", "', exit_value = FALSE)"
    )
    time_of(system2(rscript(), c("-e", shQuote(code)), stdout = FALSE, stderr = FALSE,
      env = paste0("R_LIBS=", paste(.libPaths(), collapse = ":"))
    ))
  })
}

future_rows <- function(raw) {
  above <- function(text, seconds) {
    bar(text, function(ours, theirs, ratio) ours - theirs <= seconds)
  }
  bars <- list(
    above("at most 0.5 ms above", 0.5e-3), above("at most 0.5 ms a future above", 400 * 0.5e-3)
  )
  rows <- list()
  cases <- unique(raw$case)
  for (i in 1:2) {
    there <- unique(raw$arm[raw$case == cases[i]])
    show <- list(show_us, show_s)[[i]]
    rows <- c(rows, list(compare(raw, cases[i], "sequential", bar = bars[[i]], show = show)))
    for (peer in intersect(c("multisession", "mirai"), there)) {
      rows <- c(rows, list(compare(raw, cases[i], peer, show = show)))
    }
  }
  if (length(cases) == 3L) {
    rows <- c(rows, list(compare(raw, cases[3L], "multisession", bar = ratio_bar(1.43))))
  }
  do.call(rbind, rows)
}
