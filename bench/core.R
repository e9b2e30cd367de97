# Is one build of muster slower than another? Base and new in turn, in pairs:
#   Rscript bench/core.R BASE_LIBRARY [NEW_LIBRARY [PAIRS [CASE ...]]]
# Both have muster installed; NEW_LIBRARY is ./.lib unless said, PAIRS 11. Each measurement has
# a session of its own; which of a pair goes first is chance. Prints, for each case, the medians
# and the ratio new / base with its 95 % interval (t, on logarithms of the pairs' ratios).
# FAIL only where all of the interval lies above 1.03. Raw times: bench/raw/core.csv.

ratio_max <- 1.03
cases <- c(
  call = "one call, us",
  task = "one task, us",
  tasks = "100,000 tasks, s",
  map = "cluster_map over 200,000, s",
  heal = "an answer after a kill, ms",
  warm = "warm start of 8, ms",
  cold = "cold start of 2, ms",
  shuffle = "sums of 1e5 groups in 2e6 rows, s"
)

# ---- in a session of one library

now <- function() unclass(Sys.time())
time_of <- function(code) {
  began <- now()
  force(code)
  now() - began
}
block_median <- function(f, n) stats::median(vapply(seq_len(n), function(i) time_of(f()), 0))

# Functions are sent as a user's script has them.
trivial <- function(...) 1L

measures <- list(
  call = function() {
    cl <- muster::cluster_start(1)
    on.exit(muster::cluster_stop(cl))
    one <- compiler::cmpfun(function() parallel::clusterCall(cl, trivial))
    block_median(one, 500L)
    block_median(one, 5000L) * 1e6
  },
  task = function() {
    cl <- muster::cluster_start(1)
    on.exit(muster::cluster_stop(cl))
    one <- compiler::cmpfun(function() muster::task_value(muster::task_submit(cl, trivial)))
    block_median(one, 500L)
    block_median(one, 5000L) * 1e6
  },
  tasks = function() {
    cl <- muster::cluster_start(2)
    on.exit(muster::cluster_stop(cl))
    time_of({
      tasks <- lapply(seq_len(1e5), function(i) muster::task_submit(cl, trivial, i))
      muster::task_wait(tasks)
      values <- lapply(tasks, muster::task_value)
      stopifnot(length(values) == 1e5)
    })
  },
  map = function() {
    cl <- muster::cluster_start(2)
    on.exit(muster::cluster_stop(cl))
    time_of(stopifnot(length(muster::cluster_map(cl, seq_len(2e5), trivial)) == 2e5))
  },
  heal = function() {
    cl <- muster::cluster_start(1)
    on.exit(muster::cluster_stop(cl))
    times <- vapply(1:11, function(i) {
      parallel::clusterCall(cl, trivial)
      tools::pskill(cl[[1L]]$pid, 9L)
      time_of(parallel::clusterCall(cl, trivial))
    }, 0)
    stats::median(times) * 1e3
  },
  warm = function() {
    times <- vapply(1:8, function(i) {
      cl <- NULL
      took <- time_of({
        cl <- muster::cluster_start(8)
        parallel::clusterCall(cl, trivial)
      })
      muster::cluster_stop(cl)
      took
    }, 0)
    stats::median(times[-1L]) * 1e3
  },
  cold = function() {
    loadNamespace("muster")
    cl <- NULL
    took <- time_of({
      cl <- muster::cluster_start(2)
      parallel::clusterCall(cl, trivial)
    })
    muster::cluster_stop(cl)
    took * 1e3
  },
  shuffle = function() {
    set.seed(1)
    rows <- data.frame(g = sample.int(1e5L, 2e6, TRUE), v = runif(2e6))
    cl <- muster::cluster_start(2)
    on.exit(muster::cluster_stop(cl))
    parts <- muster::partition_scatter(cl, rows)
    times <- vapply(1:4, function(i) {
      gc()
      time_of(muster::partition_collect(muster::partition_summarise(parts, .by = "g", s = sum(v))))
    }, 0)
    stats::median(times[-1L])
  }
)

# ---- both in turn

this <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))

measured <- function(case, library) {
  libraries <- paste(c(library, Sys.getenv("R_LIBS")), collapse = ":")
  words <- c(paste0("R_LIBS=", libraries), file.path(R.home("bin"), "Rscript"), this, "--one", case)
  said <- suppressWarnings(system2("env", shQuote(words), stdout = TRUE))
  number <- as.numeric(sub("^took ", "", grep("^took ", said, value = TRUE)))
  if (length(number) != 1L) stop("no time of '", case, "' with ", library, call. = FALSE)
  number
}

measure_pair <- function(case, libraries) {
  times <- c(base = NA, new = NA)
  for (arm in sample(names(times))) times[[arm]] <- measured(case, libraries[[arm]])
  times
}

# One line of the table; FALSE if the case fails.
report <- function(case, pairs) {
  logs <- log(pairs["new", ] / pairs["base", ])
  n <- length(logs)
  half <- if (n > 1L) stats::qt(0.975, n - 1L) * stats::sd(logs) / sqrt(n) else Inf
  range <- exp(mean(logs) + c(-half, half))
  fails <- range[1L] > ratio_max
  cat(sprintf("%-36s %9.3f %9.3f  %.3f [%.3f, %.3f]%s\n", cases[[case]],
    stats::median(pairs["base", ]), stats::median(pairs["new", ]), exp(mean(logs)), range[1L],
    range[2L], if (fails) "  FAIL" else ""))
  !fails
}

compare_builds <- function(arguments) {
  if (!length(arguments)) {
    cat("bench/core.R BASE_LIBRARY [NEW_LIBRARY [PAIRS [CASE ...]]]\n")
    return(FALSE)
  }
  libraries <- list(base = arguments[1L], new = c(arguments, ".lib")[2L])
  libraries <- lapply(libraries, normalizePath, mustWork = TRUE)
  n <- if (length(arguments) >= 3L) as.integer(arguments[3L]) else 11L
  chosen <- if (length(arguments) >= 4L) arguments[-(1:3)] else names(cases)
  cat(sprintf("%-36s %9s %9s  ratio [95 %% interval], %d pairs\n", "", "base", "new", n))
  raw <- NULL
  good <- TRUE
  for (case in chosen) {
    pairs <- vapply(seq_len(n), function(i) measure_pair(case, libraries), c(base = 0, new = 0))
    raw <- rbind(raw, data.frame(case = case, pair = seq_len(n), t(pairs)))
    good <- report(case, pairs) && good
  }
  dir.create("bench/raw", showWarnings = FALSE)
  utils::write.csv(raw, "bench/raw/core.csv", row.names = FALSE)
  good
}

arguments <- commandArgs(trailingOnly = TRUE)
if (identical(arguments[1L], "--one")) {
  options(muster.quiet = TRUE)
  cat(sprintf("took %.9f\n", measures[[arguments[2L]]]()))
} else {
  quit("no", status = as.integer(!compare_builds(arguments)))
}
