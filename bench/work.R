# How long does a user's work take on workers that have just started, and on those that have worked?
#
# Jobs that users run, by the verbs that they write: models, matrices, strings, many small objects,
# data by group, bags of tasks. Each run is a session of its own that starts 2 workers, exports what
# the job needs, and calls it 5 times, the first job 10 times. Figures: the first call and the
# median of the others, in seconds and in processor time of the workers; their page faults; and what
# the workers take at the end (Pss: with their share of what is shared). Page faults are counts, and
# nearly the same on each machine: what one takes isn't (4 us where these were measured, 20 on small
# virtual machines). A job whose packages aren't here is left out.

measure <- function(quick) {
  here <- Filter(function(name) all(vapply(works[[name]]$packages, is_here, NA)), names(works))
  raw <- do.call(rbind, lapply(here, function(name) {
    measure_work(name, if (quick) 1L else works[[name]]$rounds %||% 5L, arms_of(name))
  }))
  rows <- work_rows(raw, here)
  out <- lapply(setdiff(names(works), here), function(name) {
    left_out(name, paste("left out:", toString(works[[name]]$packages), "isn't installed"))
  })
  list(raw = raw, rows = do.call(rbind, c(list(rows), out)), notes = character())
}

`%||%` <- function(x, other) if (is.null(x)) other else x

# A job: `make` gives what is exported, `call` calls it once; cl: the workers. May have: `mine`, how
# muster's workers are called, where that differs; `ready(cl)`, before the first call; `workers`,
# `calls`, `rounds`, `packages`, and `beside`, a number of busy loops that run at the same time.
glm_work <- function(call, ...) list(make = function() list(d = people(2000)), call = call, ...)
fit_all <- function(cl) parallel::parLapply(cl, 1:200, resampled_fit)

works <- list(
  "200 glm()" = glm_work(fit_all, calls = 10L, rounds = 11L),
  "200 glm(), beside four busy loops" = glm_work(fit_all, beside = 4L, rounds = 11L),
  "200 glm(), 4 workers" = glm_work(fit_all, workers = 4L),
  "200 glm(), balanced" = glm_work(function(cl) {
    parallel::clusterApplyLB(cl, 1:200, resampled_fit)
  }),
  "200 glm(), cluster_map()" = glm_work(fit_all, rounds = 11L, mine = function(cl) {
    muster::cluster_map(cl, 1:200, resampled_fit, .seed = NULL)
  }),
  "200 glm(), cluster_map(), beside four busy loops" = glm_work(fit_all,
    beside = 4L,
    mine = function(cl) muster::cluster_map(cl, 1:200, resampled_fit, .seed = NULL)
  ),
  "200 glm(), foreach()" = glm_work(function(cl) {
    foreach::`%dopar%`(foreach::foreach(i = 1:200), resampled_fit(i))
  }, ready = function(cl) {
    if (inherits(cl, "muster_cluster")) muster::registerDoMuster(cl) else
      doParallel::registerDoParallel(cl)
  }, packages = c("foreach", "doParallel")),
  "200 glm(), future_lapply()" = glm_work(function(cl) {
    future.apply::future_lapply(1:200, resampled_fit, future.seed = TRUE)
  }, ready = function(cl) {
    if (inherits(cl, "muster_cluster")) {
      future::plan(muster::muster_future, workers = cl)
    } else {
      future::plan(future::cluster, workers = cl)
    }
  }, packages = c("future", "future.apply")),
  "64 tasks of 30 ms" = list(
    make = function() list(x = sin(1:4e5)),
    call = function(cl) parallel::clusterApplyLB(cl, 1:64, sort_times),
    mine = function(cl) {
      tasks <- lapply(1:64, function(i) muster::task_submit(cl, sort_times, i))
      lapply(tasks, muster::task_value)
    }
  ),
  "64 bags of 5 ms" = list(
    make = function() list(x = sin(1:1e5)),
    call = function(cl) parallel::clusterApplyLB(cl, 1:64, sort_times)
  ),
  "lm(), 64 MB" = list(make = function() list(d = people(2e6)), call = function(cl) fit_lm(cl)),
  "lm(), 380 MB" = list(
    make = function() list(d = people(1.9e7)), call = function(cl) fit_lm(cl),
    calls = 3L, rounds = 3L
  ),
  "bam(cluster = )" = list(
    make = function() list(d = people(3e4)),
    call = function(cl) {
      stats::coef(mgcv::bam(z ~ s(x, k = 30), data = d, cluster = cl, chunk.size = 5000))
    },
    packages = "mgcv", rounds = 3L
  ),
  "boot(cl = )" = list(
    make = function() list(d = people(2000)),
    call = function(cl) {
      boot::boot(d, in_global(function(d, i) stats::coef(stats::lm(z ~ x, d[i, ]))),
        1000, parallel = "snow", ncpus = 2L, cl = cl
      )$t0
    },
    packages = "boot"
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
  "data.table, 1e6 rows by group" = list(
    make = function() list(d = grouped(1e6)),
    call = function(cl) {
      parallel::parLapply(cl, 1:8, in_global(function(i) {
        data.table::setDTthreads(1L)
        rows <- data.table::as.data.table(d)
        nrow(rows[x > i / 10, list(mean(x), length(x)), by = "g"])
      }))
    },
    packages = "data.table"
  ),
  "dplyr, 1e6 rows by group" = list(
    make = function() list(d = grouped(1e6)),
    call = function(cl) {
      parallel::parLapply(cl, 1:4, in_global(function(i) {
        rows <- dplyr::group_by(d[d$x > i / 10, ], g)
        nrow(dplyr::summarise(rows, m = mean(x), n = dplyr::n()))
      }))
    },
    packages = "dplyr"
  ),
  "lm() of 400 groups, partition_reduce()" = list(
    make = function() list(d = grouped(2e5)),
    ready = function(cl) {
      if (inherits(cl, "muster_cluster")) p <<- muster::partition_scatter(cl, d)
    },
    call = function(cl) do.call(rbind, parallel::parLapply(cl, split(d, d$g), group_fit)),
    mine = function(cl) muster::partition_reduce(p, "g", group_fit)
  )
)

sort_times <- in_global(function(i) sum(sort(x * i)))
fit_lm <- function(cl) {
  parallel::clusterCall(cl, in_global(function() stats::coef(stats::lm(z ~ x, d))))
}
group_fit <- in_global(function(rows) stats::coef(stats::lm(y ~ x, rows))[[2L]])

grouped <- function(n) {
  set.seed(2)
  d <- data.frame(g = sample.int(400L, n, TRUE), x = rnorm(n))
  d$y <- d$x + rnorm(n)
  d
}

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

is_muster <- function(arm) arm %in% c("muster", "spawned", "host")
starts <- list(
  muster = function(n) muster::cluster_start(n),
  spawned = function(n) muster::cluster_start(n, start = "spawn"),
  # On this machine, behind a link as on another.
  host = function(n) {
    libraries <- paste(.libPaths(), collapse = ":")
    muster::cluster_start(muster::launch_command(paste0(
      "R_LIBS=", shQuote(libraries), " exec ", rscript(), " -e 'muster::muster_host()'"
    ), n))
  },
  parallel = function(n) parallel::makePSOCKcluster(n)
)

# The first job is done in others' ways, too.
other_ways <- list(
  mclapply = function() list(
    call = function() parallel::mclapply(1:200, resampled_fit, mc.cores = 2L)
  ),
  mirai = function() {
    mirai::daemons(2L)
    mirai::everywhere(assign("d", d, globalenv()), d = d)
    list(
      call = function() mirai::mirai_map(1:200, resampled_fit)[],
      end = function() mirai::daemons(0L)
    )
  }
)
arms_of <- function(name) {
  if (name != names(works)[1L]) return(c("muster", "parallel"))
  c(names(starts), setdiff(names(other_ways), if (!is_here("mirai")) "mirai"))
}

work_figures <- c(
  first = "first call", later = "later calls", last = "tenth call",
  first_cpu = "first call, processor time",
  later_cpu = "later calls, processor time", faults = "page faults of the first call",
  later_faults = "page faults of a later call", memory = "workers' memory"
)
work_case <- function(name, figure) paste0(name, ": ", work_figures[[figure]])

measure_work <- function(name, rounds, arms) {
  counts <- stats::setNames(rep(rounds, length(arms)), arms)
  counts[!arms %in% c("muster", "parallel")] <- min(rounds, 5L)
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
  calls <- work$calls %||% 5L
  list2env(work$make(), globalenv())
  if (arm %in% names(other_ways)) return(other_work(arm, calls))
  cl <- starts[[arm]](work$workers %||% 2L)
  pids <- unlist(parallel::clusterCall(cl, Sys.getpid))
  shared <- c(names(work$make()), intersect(all.names(body(work$call)), "resampled_fit"))
  parallel::clusterExport(cl, shared, globalenv())
  if (!is.null(work$ready)) work$ready(cl)
  call <- if (is_muster(arm) && !is.null(work$mine)) work$mine else work$call
  loops <- busy_loops(work$beside %||% 0L)
  used <- function() c(cpu = cpu_s(pids), faults = sum(vapply(pids, faults_of, 1)))
  runs <- lapply(seq_len(calls), function(k) {
    before <- used()
    took <- time_of(call(cl))
    c(wall = took, used() - before)
  })
  later <- do.call(rbind, runs[-1L])
  got <- c(
    first = runs[[1L]][["wall"]], later = stats::median(later[, "wall"]),
    last = if (calls == 10L) later[[9L, "wall"]] else NA,
    first_cpu = runs[[1L]][["cpu"]], later_cpu = stats::median(later[, "cpu"]),
    faults = runs[[1L]][["faults"]], later_faults = stats::median(later[, "faults"]),
    memory = sum(pss_mb(pids))
  )
  tools::pskill(loops)
  parallel::stopCluster(cl)
  got
}

# Processes that use a core as long as somebody may measure: their ids.
busy_loops <- function(n) {
  vapply(seq_len(n), function(i) {
    as.integer(system("timeout 120 sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!",
      intern = TRUE
    ))
  }, 1L)
}

other_work <- function(arm, calls) {
  way <- other_ways[[arm]]()
  took <- vapply(seq_len(calls), function(k) time_of(way$call()), 1)
  if (!is.null(way$end)) way$end()
  got <- stats::setNames(rep(NA_real_, length(work_figures)), names(work_figures))
  got[c("first", "later", "last")] <- c(took[1L], stats::median(took[-1L]), took[calls])
  got
}

faults_of <- function(pid) {
  line <- readLines(file.path("/proc", pid, "stat"), warn = FALSE)
  as.numeric(strsplit(sub(".*[)] ", "", line), " ")[[1L]][8L])
}

# The ratio is parallel's figure over muster's: 0.91 is 1.10 times parallel's time.
work_bars <- list(
  first = ratio_bar(0.91), later = ratio_bar(0.98), last = ratio_bar(0.98),
  first_cpu = ratio_bar(0.91), later_cpu = ratio_bar(0.98), memory = ratio_bar(0.95)
)

work_rows <- function(raw, names) {
  show <- function(figure) {
    if (figure == "memory") show_mb else if (grepl("faults", figure)) signif3 else show_s
  }
  has <- function(name, figure) work_case(name, figure) %in% raw$case
  rows <- lapply(names, function(name) {
    do.call(rbind, lapply(Filter(function(figure) has(name, figure), base::names(work_figures)),
      function(figure) {
        compare(raw, work_case(name, figure), "parallel", bar = work_bars[[figure]],
          show = show(figure)
        )
      }
    ))
  })
  others <- lapply(setdiff(arms_of(names[1L]), c("muster", "parallel")), function(arm) {
    do.call(rbind, lapply(c("first", "later"), function(figure) {
      compare(raw, work_case(names[1L], figure), arm, show = show_s)
    }))
  })
  do.call(rbind, c(rows, others))
}
