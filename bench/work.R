# How long does a user's work take on workers that have just started, and on those that have worked?
#
# Jobs that users run, by the verbs that they write: models, matrices, strings, many small objects,
# bags of tasks. Each run is a session of its own that starts 2 workers, exports what the job needs,
# and calls it 5 times. Figures: the first call and the median of the others, in seconds and in
# processor time of the workers; their page faults; and what the workers take at the end (Pss: with
# their share of what is shared). Page faults are counts, and nearly the same on each machine: what
# one takes isn't (4 us where these were measured, 20 on small virtual machines).

measure <- function(quick) {
  rounds <- if (quick) 1L else 5L
  raw <- do.call(rbind, lapply(names(works), function(name) {
    measure_work(name, rounds, arms_of(name))
  }))
  list(raw = raw, rows = work_rows(raw), notes = character())
}

# A job: `make` gives what is exported, `call` calls it once. cl: 2 workers.
works <- list(
  "200 glm()" = list(
    make = function() list(d = people(2000)),
    call = function(cl) parallel::parLapply(cl, 1:200, resampled_fit)
  ),
  "200 glm(), balanced" = list(
    make = function() list(d = people(2000)),
    call = function(cl) parallel::clusterApplyLB(cl, 1:200, resampled_fit)
  ),
  "200 glm(), cluster_map()" = list(
    make = function() list(d = people(2000)),
    call = function(cl) {
      if (!inherits(cl, "muster_cluster")) return(parallel::parLapply(cl, 1:200, resampled_fit))
      muster::cluster_map(cl, 1:200, resampled_fit, .seed = NULL)
    }
  ),
  "lm(), 64 MB" = list(
    make = function() list(d = people(2e6)),
    call = function(cl) {
      parallel::clusterCall(cl, in_global(function() stats::coef(stats::lm(z ~ x, d))))
    }
  ),
  "crossprod(), solve()" = list(
    make = function() list(m = matrix(sin(1:250000), 500)),
    call = function(cl) {
      parallel::parLapply(cl, 1:8, in_global(function(i) {
        sum(solve(crossprod(m) + diag(i, ncol(m))))
      }))
    }
  ),
  "strings" = list(
    make = function() list(),
    call = function(cl) {
      parallel::parLapply(cl, 1:8, in_global(function(i) {
        words <- paste0("word-", i, "-", seq_len(20000))
        length(unique(sub("-([0-9]+)$", "", toupper(words))))
      }))
    }
  ),
  "2e5 small objects" = list(
    make = function() list(),
    call = function(cl) {
      parallel::parLapply(cl, 1:8, in_global(function(i) {
        length(lapply(seq_len(2e5), function(k) c(i, k)))
      }))
    }
  ),
  "64 bags of 5 ms" = list(
    make = function() list(x = sin(1:1e5)),
    call = function(cl) {
      parallel::clusterApplyLB(cl, 1:64, in_global(function(i) sum(sort(x * i))))
    }
  )
)

people <- function(n) {
  set.seed(1)
  d <- data.frame(x = rnorm(n), z = rnorm(n))
  d$y <- rbinom(n, 1, plogis(d$x))
  d
}

resampled_fit <- in_global(function(i) {
  b <- d[sample(nrow(d), replace = TRUE), ]
  stats::coef(stats::glm(y ~ x + z, stats::binomial, b))
})

starts <- list(
  muster = function() muster::cluster_start(2L),
  spawned = function() muster::cluster_start(2L, start = "spawn"),
  parallel = function() parallel::makePSOCKcluster(2L),
  mclapply = function() NULL
)

# The first job is measured by others' ways, too.
arms_of <- function(name) {
  if (name == names(works)[1L]) names(starts) else c("muster", "parallel")
}

work_figures <- c(
  first = "first call", later = "later calls", first_cpu = "first call, processor time",
  later_cpu = "later calls, processor time", faults = "page faults of the first call",
  later_faults = "page faults of a later call", memory = "workers' memory"
)
work_case <- function(name, figure) paste0(name, ": ", work_figures[[figure]])

measure_work <- function(name, rounds, arms) {
  counts <- stats::setNames(rep(rounds, length(arms)), arms)
  details <- list()
  raw <- interleave(work_case(name, "first"), counts, function(arm) {
    got <- fresh(call("work_of", name, arm), "bench/work.R")
    details[[length(details) + 1L]] <<- got
    got[["first"]]
  })
  others <- lapply(setdiff(names(work_figures), "first"), function(figure) {
    raw$case <- work_case(name, figure)
    raw$value <- vapply(details, `[[`, 1, figure)
    raw$unit <- if (figure == "memory") "MB" else if (grepl("faults", figure)) "" else "s"
    raw[!is.na(raw$value), ]
  })
  do.call(rbind, c(list(raw), others))
}

# In a fresh session: the figures of one run.
work_of <- function(name, arm) {
  loadNamespace("muster")
  work <- works[[name]]
  cl <- starts[[arm]]()
  list2env(work$make(), globalenv())
  if (is.null(cl)) {
    return(forked_work())
  }
  pids <- unlist(parallel::clusterCall(cl, Sys.getpid))
  parallel::clusterExport(cl, names(work$make()), globalenv())
  used <- function() c(cpu = cpu_s(pids), faults = sum(vapply(pids, faults_of, 1)))
  runs <- lapply(1:5, function(k) {
    before <- used()
    took <- time_of(work$call(cl))
    c(wall = took, used() - before)
  })
  later <- do.call(rbind, runs[-1L])
  got <- c(
    first = runs[[1L]][["wall"]], later = stats::median(later[, "wall"]),
    first_cpu = runs[[1L]][["cpu"]], later_cpu = stats::median(later[, "cpu"]),
    faults = runs[[1L]][["faults"]], later_faults = stats::median(later[, "faults"]),
    memory = sum(pss_mb(pids))
  )
  parallel::stopCluster(cl)
  got
}

# mclapply() forks the session for each call.
forked_work <- function() {
  took <- vapply(1:5, function(k) {
    time_of(parallel::mclapply(1:200, resampled_fit, mc.cores = 2L))
  }, 1)
  got <- stats::setNames(rep(NA_real_, length(work_figures)), names(work_figures))
  got[c("first", "later")] <- c(took[1L], stats::median(took[-1L]))
  got
}

faults_of <- function(pid) {
  line <- readLines(file.path("/proc", pid, "stat"), warn = FALSE)
  as.numeric(strsplit(sub(".*[)] ", "", line), " ")[[1L]][8L])
}

# The ratio is parallel's figure over muster's: 0.91 is 1.10 times parallel's time.
work_bars <- list(
  first = ratio_bar(0.91), later = ratio_bar(0.98), first_cpu = ratio_bar(0.91),
  later_cpu = ratio_bar(0.98), memory = ratio_bar(0.95)
)

work_rows <- function(raw) {
  show <- function(figure) {
    if (figure == "memory") show_mb else if (grepl("faults", figure)) signif3 else show_s
  }
  rows <- lapply(names(works), function(name) {
    do.call(rbind, lapply(names(work_figures), function(figure) {
      compare(raw, work_case(name, figure), "parallel", bar = work_bars[[figure]],
        show = show(figure)
      )
    }))
  })
  others <- lapply(c("spawned", "mclapply"), function(arm) {
    do.call(rbind, lapply(c("first", "later"), function(figure) {
      compare(raw, work_case(names(works)[1L], figure), arm, show = show_s)
    }))
  })
  do.call(rbind, c(rows, others))
}
