# What all questions share: the clock, fresh sessions, runs in random order, medians
# with intervals, rows of the table.

# ---- Time --------------------------------------------------------------------------

# The compiled bench/limits.c; bench/run.R says where it is.
limits <- dyn.load(Sys.getenv("BENCH_LIMITS"))
native <- lapply(
  c(
    now = "bench_now", forks = "bench_forks", round_trips = "bench_round_trips",
    echoes = "bench_echoes",
    connects = "bench_connects", refused = "bench_refused", probes = "bench_probes",
    exchange = "bench_exchange"
  ),
  getNativeSymbolInfo, limits
)

now <- compiler::cmpfun(function() .Call(native$now))

time_of <- function(code) {
  began <- now()
  force(code)
  now() - began
}

# The median time of so many calls.
block <- compiler::cmpfun(function(call, count) {
  times <- numeric(count)
  for (i in seq_len(count)) {
    began <- now()
    call()
    times[i] <- now() - began
  }
  median(times)
})

# ---- Fresh sessions ----------------------------------------------------------------

# Evaluates a call in an R of its own, which has sourced what bench/session.R says and
# `file`, and gives its value. wrap: a command that runs the rest, such as unshare's.
fresh <- function(call, file = character(), timeout_s = 240, wrap = character()) {
  request <- tempfile("request-", fileext = ".rds")
  on.exit(unlink(c(request, answer_file(request))))
  saveRDS(list(call = call, file = file), request)
  command <- c(wrap, rscript(), "bench/session.R", shQuote(request))
  system2(command[1L], command[-1L],
    stdin = "/dev/null", timeout = timeout_s
  )
  if (!file.exists(answer_file(request))) {
    stop("no answer from ", deparse1(call), " within ", timeout_s, " s", call. = FALSE)
  }
  answer <- readRDS(answer_file(request))
  if (!is.null(answer$error)) {
    stop(answer$error, call. = FALSE)
  }
  answer$value
}

answer_file <- function(request) paste0(request, ".answer")
rscript <- function() file.path(R.home("bin"), "Rscript")

# A task's function, as if it were written at top level: else its environment, with
# all that the benchmark keeps there, would be sent along.
in_global <- function(f) {
  environment(f) <- globalenv()
  f
}

# ---- Runs in random order ------------------------------------------------------------

# Measures every arm of a comparison once a round, in a new random order each round.
# counts: rounds by name of arm; one with fewer drops out after its last.
# measure: function(arm) that gives a number.
interleave <- function(case, counts, measure, unit = "s") {
  counts <- counts[counts > 0L]
  cat("  ", case, ": ", paste(names(counts), counts, collapse = ", "), "\n", sep = "")
  rounds <- lapply(seq_len(max(counts, 0L)), function(round) {
    due <- names(counts)[counts >= round]
    due <- due[sample.int(length(due))]
    value <- vapply(due, measure, numeric(1), USE.NAMES = FALSE)
    data.frame(case = case, round = round, arm = due, value = value, unit = unit)
  })
  do.call(rbind, rounds)
}

values <- function(raw, case, arm) {
  rows <- raw[raw$case == case & raw$arm == arm, ]
  structure(rows$value, names = rows$round)
}

# A peer's figure over muster's, in the rounds that have both.
ratios <- function(raw, case, peer) {
  ours <- values(raw, case, "muster")
  theirs <- values(raw, case, peer)
  both <- intersect(names(ours), names(theirs))
  unname(theirs[both] / ours[both])
}

# The median with an interval between two of the sorted values: the narrowest one that
# has it with probability 0.95 whatever the distribution (signs of the differences are
# fair coins), or, below 6 values, all of them, with the probability that this gives.
median_interval <- function(x) {
  n <- length(x)
  coverage <- function(k) 1 - 2 * pbinom(k - 1L, n, 0.5)
  k <- max(1L, Filter(function(k) coverage(k) >= 0.95, seq_len(n %/% 2L)))
  x <- sort(x)
  list(
    median = median(x), low = x[k], high = x[n + 1L - k], n = n,
    coverage = if (n > 1L) coverage(k) else NA
  )
}

# ---- Rows of the table ---------------------------------------------------------------

# What a figure must reach: met is function(ours, theirs, ratio), of medians.
bar <- function(text, met) list(text = text, met = met)
ratio_bar <- function(least) {
  bar(paste("ratio at least", least), function(ours, theirs, ratio) ratio >= least)
}

# A row where muster and a peer were measured in the same rounds.
# peer: the arm; label: its name in the table. limit: an arm, or NULL.
compare <- function(raw, case, peer, bar = NULL, limit = NULL, show = show_s, label = peer) {
  ours <- median(values(raw, case, "muster"))
  theirs <- median(values(raw, case, peer))
  ratio <- median_interval(ratios(raw, case, peer))
  if (!is.finite(ratio$median)) {
    ratio$median <- ratio$low <- ratio$high <- NA
  }
  table_row(case, show(ours), label, show(theirs),
    ratio = interval_text(ratio, show_ratio), runs = runs_text(ratio, "pair"),
    limit = limit_text(raw, case, limit, show),
    bar = bar_text(bar, ours, theirs, ratio$median)
  )
}

# A row of muster's own: no peer was measured, `why` says the reason.
alone <- function(raw, case, peer = "", why = "", bar = NULL, limit = NULL, show = show_s) {
  ours <- median_interval(values(raw, case, "muster"))
  table_row(case, interval_text(ours, show), peer, why,
    runs = runs_text(ours, "run"), limit = limit_text(raw, case, limit, show),
    bar = bar_text(bar, ours$median, NA, NA)
  )
}

# Rows that compare muster with every peer that was measured, or one row of its own.
# bars: by peer, where the ratio is judged; `muster` for one that judges its own figure.
# why: why parallel, of all peers, wasn't measured.
compare_all <- function(raw, case, bars = list(), limit = NULL, show = show_s, why = "") {
  measured <- setdiff(intersect(names(peers), raw$arm[raw$case == case]), "muster")
  if (!length(measured)) {
    peer <- if (nzchar(why)) "parallel" else ""
    return(alone(raw, case, peer, why, bar = bars$muster, limit = limit, show = show))
  }
  rows <- lapply(measured, function(peer) {
    own <- if (peer == measured[1L]) bars$muster
    bar <- if (is.null(bars[[peer]])) own else bars[[peer]]
    compare(raw, case, peer, bar = bar, limit = limit, show = show)
  })
  do.call(rbind, rows)
}

# A row for what could not be measured here.
left_out <- function(case, why) table_row(case, why)

table_row <- function(case, ours, peer = "", theirs = "", ratio = "", runs = "", limit = "",
                      bar = "") {
  data.frame(case, ours, peer, theirs, ratio, runs, limit, bar)
}

bar_text <- function(bar, ours, theirs, ratio) {
  if (is.null(bar)) {
    return("")
  }
  met <- isTRUE(bar$met(ours, theirs, ratio))
  paste0(bar$text, ": **", if (met) "met" else "not met", "**")
}

limit_text <- function(raw, case, arm, show) {
  measured <- if (!is.null(arm)) values(raw, case, arm)
  if (length(measured)) show(median(measured)) else ""
}

interval_text <- function(x, show) {
  if (is.na(x$median)) {
    return("")
  }
  if (x$n == 1L) {
    return(show(x$median))
  }
  paste0(show(x$median), " (", show(x$low), " to ", show(x$high), ")")
}

runs_text <- function(x, what) {
  paste0(
    x$n, " ", what, if (x$n != 1L) "s",
    if (!is.na(x$coverage)) sprintf(", %.0f %%", 100 * x$coverage)
  )
}

show_s <- function(x) {
  if (x >= 1) paste(signif3(x), "s") else paste(signif3(1e3 * x), "ms")
}
show_us <- function(x) paste(signif3(1e6 * x), "us")
show_mb <- function(x) paste(signif3(x), "MB")
show_gb <- function(x) paste(signif3(x / 1024), "GB")
show_percent <- function(x) sprintf("%.3f %%", x)
show_ratio <- function(x) signif3(x)
signif3 <- function(x) {
  sub("[.]$", "", formatC(signif(x, 3L), digits = 3L, format = "fg", flag = "#"))
}
