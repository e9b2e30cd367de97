# What is called: all that computes with a cluster, changes one, or ends one.
#
# Each has run(cl, work, more, cell), which gives a value: work(i, more) is what workers compute for
# an element, 2 * i + 4 * mean(more); `more` is evaluated where the verb does that; cell$cl is told
# if the cluster isn't `cl` afterwards. want(n): the right value, with n workers and 10 for
# 4 * mean(more). Further fields say what a verb does, and so where code of the user's can be in it:
#   works: workers call `work`.     sends: `more` goes to workers, as a large vector if `large`.
#   tells: what workers signal is signalled in the session.
#   picks(cl, work, elements): as run, for elements of a class of the user's.
#   globals(cl): as run, where a variable `user_more` of the global environment is `more`.
#   parts: makes parts of data.
#   ends: the cluster isn't what it was afterwards.     workers: that it is called with, else 2.

each_of <- function(n) as.list(2 * seq_len(4) + 10)
frame_of <- function() data.frame(i = 1:4, k = c(1, 2, 1, 2))
values_of <- function(p) sort(partition_collect(p)$v)

verb_list <- list(
  clusterCall = list(
    works = TRUE, sends = TRUE, want = function(n) rep(list(12), n),
    run = function(cl, work, more, cell) clusterCall(cl, work, 1, more)
  ),
  clusterEvalQ = list(
    works = TRUE, want = function(n) rep(list(12), n),
    run = function(cl, work, more, cell) {
      eval(bquote(clusterEvalQ(cl, .(work)(1, .(as.integer(more))))))
    }
  ),
  clusterApply = list(
    works = TRUE, sends = TRUE, want = each_of,
    run = function(cl, work, more, cell) clusterApply(cl, 1:4, work, more),
    picks = function(cl, work, elements) clusterApply(cl, elements, work, 2.5)
  ),
  clusterApplyLB = list(
    works = TRUE, sends = TRUE, want = each_of,
    run = function(cl, work, more, cell) clusterApplyLB(cl, 1:4, work, more),
    picks = function(cl, work, elements) clusterApplyLB(cl, elements, work, 2.5)
  ),
  clusterMap = list(
    works = TRUE, sends = TRUE, want = each_of,
    run = function(cl, work, more, cell) {
      clusterMap(cl, work, 1:4, MoreArgs = list(more), .scheduling = "dynamic")
    }
  ),
  parLapply = list(
    works = TRUE, sends = TRUE, want = each_of,
    run = function(cl, work, more, cell) parLapply(cl, 1:4, work, more),
    picks = function(cl, work, elements) parLapply(cl, elements, work, 2.5)
  ),
  parSapplyLB = list(
    works = TRUE, sends = TRUE, want = function(n) 2 * (1:4) + 10,
    run = function(cl, work, more, cell) parSapplyLB(cl, 1:4, work, more, chunk.size = 1)
  ),
  clusterExport = list(
    sends = TRUE, want = function(n) rep(list(10), n),
    run = function(cl, work, more, cell) {
      around <- new.env()
      delayedAssign("exported", more, assign.env = around)
      clusterExport(cl, "exported", around)
      exported_means(cl, "exported")
    },
    globals = function(cl) {
      clusterExport(cl, "user_more")
      exported_means(cl, "user_more")
    }
  ),
  cluster_share = list(
    sends = TRUE, large = TRUE, want = function(n) rep(list(10), n),
    run = function(cl, work, more, cell) {
      cluster_share(cl, exported = more)
      exported_means(cl, "exported")
    }
  ),
  large = list( # in a segment of shared memory
    works = TRUE, sends = TRUE, large = TRUE, want = function(n) rep(list(12), n),
    run = function(cl, work, more, cell) {
      before <- options(muster.share_min = 4096)
      on.exit(options(before))
      clusterCall(cl, work, 1, more)
    }
  ),
  cluster_map = list(
    works = TRUE, sends = TRUE, tells = TRUE, want = each_of,
    run = function(cl, work, more, cell) cluster_map(cl, 1:4, work, more),
    picks = function(cl, work, elements) cluster_map(cl, elements, work, 2.5),
    globals = function(cl) cluster_map(cl, 1:4, function(i) 2 * i + 4 * mean(user_more))
  ),
  pieces = list( # of several elements each
    works = TRUE, sends = TRUE, tells = TRUE, want = function(n) as.list(2 * seq_len(400) + 10),
    run = function(cl, work, more, cell) {
      cluster_map(cl, seq_len(400), function(i, work, more) {
        if (i == 300) work(i, more) else 2 * i + 4 * mean(more)
      }, work, more)
    }
  ),
  task_value = list(
    works = TRUE, sends = TRUE, tells = TRUE, want = function(n) 12,
    run = function(cl, work, more, cell) task_value(task_submit(cl, work, 1, more))
  ),
  task_wait = list(
    works = TRUE, sends = TRUE, tells = TRUE, want = each_of,
    run = function(cl, work, more, cell) {
      tasks <- lapply(1:4, function(i) task_submit(cl, work, i, more))
      while (!all(task_wait(tasks, any = TRUE))) NULL
      lapply(tasks, task_value)
    }
  ),
  task_cancel = list(
    works = TRUE, sends = TRUE, tells = TRUE, want = function(n) list(12, NULL),
    run = function(cl, work, more, cell) {
      tasks <- lapply(1:4, function(i) task_submit(cl, work, i, more))
      task_cancel(tasks[2:4])
      value <- task_value(tasks[[1L]])
      # One that was done before stays so.
      list(value, tryCatch(
        if (identical(task_value(tasks[[4L]]), 18)) NULL else "another value",
        muster_error_cancelled = function(e) NULL
      ))
    }
  ),
  partition_scatter = list(
    parts = TRUE, want = function(n) 1:4,
    run = function(cl, work, more, cell) {
      partition_collect(partition_scatter(cl, frame_of(), parts = 4))$i
    }
  ),
  partition_map = list(
    works = TRUE, sends = TRUE, tells = TRUE, parts = TRUE, want = function(n) 2 * (1:4) + 10,
    run = function(cl, work, more, cell) {
      p <- partition_scatter(cl, frame_of(), parts = 4)
      values_of(partition_map(p, function(d, work, more) {
        d$v <- work(d$i[1L], more)
        d
      }, work, more))
    },
    globals = function(cl) {
      p <- partition_scatter(cl, frame_of(), parts = 4)
      values_of(partition_map(p, function(d) {
        d$v <- 2 * d$i + 4 * mean(user_more)
        d
      }))
    }
  ),
  partition_shuffle = list(
    parts = TRUE, want = function(n) 1:4,
    run = function(cl, work, more, cell) {
      p <- partition_scatter(cl, frame_of(), parts = 4)
      sort(partition_collect(partition_shuffle(p, "k", parts = 2))$i)
    }
  ),
  partition_reduce = list(
    works = TRUE, sends = TRUE, tells = TRUE, parts = TRUE, want = function(n) c(28, 32),
    run = function(cl, work, more, cell) {
      p <- partition_scatter(cl, frame_of(), parts = 4)
      values_of(partition_reduce(p, "k", function(g, work, more) {
        c(v = sum(vapply(g$i, work, 0, more)))
      }, work, more, .parts = 2))
    }
  ),
  partition_join = list(
    parts = TRUE, want = function(n) c(1, 1, 2, 2),
    run = function(cl, work, more, cell) {
      p <- partition_scatter(cl, frame_of(), parts = 4)
      sort(partition_collect(partition_join(p, data.frame(k = 1:2, v = 1:2), "k"))$v + 0)
    }
  ),
  map_reduce = list(
    works = TRUE, sends = TRUE, tells = TRUE, parts = TRUE, want = function(n) c(28, 32),
    run = function(cl, work, more, cell) {
      counts <- map_reduce(cl, 1:4, function(i, work, more) {
        list(key = i %% 2, value = work(i, more))
      }, function(key, values) sum(values), work = work, more = more)
      sort(counts$value)
    }
  ),
  grow = list(
    workers = 1L, ends = TRUE, want = function(n) list(2L, list(1, 1)),
    run = function(cl, work, more, cell) {
      cl <- cluster_resize(cl, 2)
      if (is.null(cell$cl)) cluster_stop(cl) else cell$cl <- cl # it was stopped meanwhile
      list(length(cl), clusterCall(cl, function() 1))
    }
  ),
  shrink = list(
    ends = TRUE, want = function(n) list(1L, list(1)),
    run = function(cl, work, more, cell) {
      cl <- cluster_resize(cl, 1)
      if (!is.null(cell$cl)) cell$cl <- cl
      list(length(cl), clusterCall(cl, function() 1))
    }
  ),
  start = list( # of another cluster, whose workers call `work` as their `setup`
    works = TRUE, want = function(n) list(12),
    run = function(cl, work, more, cell) {
      other <- cluster_start(1, setup = bquote(made <- .(work)(1, .(more))))
      on.exit(cluster_stop(other))
      clusterEvalQ(other, made)
    }
  ),
  stop_one = list(
    ends = TRUE, want = function(n) NULL,
    run = function(cl, work, more, cell) {
      cluster_stop(cl[1L])
      if (!is.null(cell$cl)) cell$cl <- cl[2L]
      NULL
    }
  ),
  stop = list(
    ends = TRUE, want = function(n) NULL,
    run = function(cl, work, more, cell) {
      cluster_stop(cl)
      cell$cl <- NULL
    }
  )
)

exported_means <- function(cl, name) {
  clusterCall(cl, function(name) 4 * mean(get(name, globalenv())), name)
}

# ---- what workers do at an element

# about: files by which they know what was done, and the session's process.
work_of <- function(kind, about) {
  work <- switch(kind,
    quiet = function(i, more) 2 * i + 4 * mean(more),
    prints = function(i, more) {
      cat("a line\n")
      2 * i + 4 * mean(more)
    },
    tells = function(i, more) {
      message("a message")
      warning("a warning")
      2 * i + 4 * mean(more)
    },
    fails = function(i, more) stop("told by the worker"),
    dies = function(i, more) {
      if (dir.create(mark, showWarnings = FALSE)) tools::pskill(Sys.getpid(), 9L)
      2 * i + 4 * mean(more)
    },
    perishes = function(i, more) tools::pskill(Sys.getpid(), 9L),
    waits = function(i, more) {
      for (k in 1:2000) if (file.exists(go)) break else Sys.sleep(0.01)
      2 * i + 4 * mean(more)
    },
    signals = function(i, more) {
      if (dir.create(mark, showWarnings = FALSE)) {
        tools::pskill(session, 2L)
        for (k in 1:2000) if (file.exists(go)) break else Sys.sleep(0.01)
      }
      2 * i + 4 * mean(more)
    }
  )
  work <- utils::removeSource(work)
  environment(work) <- list2env(about, parent = globalenv())
  work
}
