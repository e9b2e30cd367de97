# Hosts that are told to end: LEAVING.

test_cluster("workers leave a host that is told to end, and nothing is lost", {
  skip_if_limited()
  skip_without_fork()
  skip_without_proc()
  local_variables(SLURM_JOB_ID = NA)
  cl <- cluster_start(list(1, here_by_link(2L)))
  defer(function() cluster_stop(cl))
  x <- 7
  clusterExport(cl, "x", environment())
  clusterEvalQ(cl[3L], y <- x + 1)
  before <- node_pids(cl)
  server <- parent_of(before[2L])
  host <- processes(c(parent_of(server), server, before[2:3]))
  got <- healed({
    tools::pskill(process_pids(host)[1L], tools::SIGTERM)
    mapped <- cluster_map(cl, 1:60, function(i) {
      Sys.sleep(0.02)
      i
    }, .retries = 0)
    wait_until({
      cluster_map(cl, 1:2, identity)
      !any(still_runs(host))
    })
    exported <- clusterEvalQ(cl, x) # the other host has come then
    mapped
  })
  expect_identical(got$value, as.list(1:60))
  expect_identical(got$messages, c("muster_message_leaving", "muster_message_joined"))
  expect_match(got$text, "was told to end; another one is asked for.", fixed = TRUE, all = FALSE)
  expect_identical(exported, list(7, 7, 7))
  expect_identical(clusterEvalQ(cl[3L], y), list(8))
  expect_identical(node_pids(cl) == before, c(TRUE, FALSE, FALSE))
})

test_cluster("a worker that moves says so if it draws random numbers again", {
  skip_if_limited()
  skip_without_fork()
  skip_without_proc()
  local_variables(SLURM_JOB_ID = NA)
  local_settings(muster.quiet = TRUE)
  cl <- cluster_start(list(1, here_by_link(3L)))
  defer(function() cluster_stop(cl))
  keep <- function() assign("kept", stats::runif(1), globalenv())
  # Which isn't replayed, as it changes nothing else.
  task_value(task_submit(cl[2L], function() stats::runif(1), .seed = NULL))
  tasks <- list(task_submit(cl[2L], keep, .seed = NULL), task_submit(cl[3L], keep, .seed = 1))
  values <- lapply(tasks, task_value)
  # This one draws from a stream that it can begin again.
  values <- c(values, clusterEvalQ(cl[4L], {
    set.seed(1)
    kept <- stats::runif(1)
  }))
  before <- node_pids(cl)
  host <- processes(c(parent_of(parent_of(before[2L])), before[2:4]))
  tools::pskill(process_pids(host)[1L], tools::SIGTERM)
  warnings <- list()
  kept <- withCallingHandlers(
    {
      wait_until({
        cluster_map(cl, 1:2, identity)
        all(node_pids(cl)[2:4] != before[2:4])
      })
      clusterEvalQ(cl[2:4], kept) # by then each is back, and has said so
    },
    muster_warning_rng = function(w) {
      warnings[[length(warnings) + 1L]] <<- w
      invokeRestart("muffleWarning")
    }
  )
  expect_identical(vapply(warnings, `[[`, 0L, "worker"), 2L)
  expect_match(conditionMessage(warnings[[1L]]), "has drawn random numbers again")
  expect_false(identical(kept[[1L]], values[[1L]]))
  expect_identical(kept[2:3], values[2:3])
})

test_cluster("without healing a host that is told to end is used until it ends", {
  skip_without_fork()
  skip_without_proc()
  local_variables(SLURM_JOB_ID = NA)
  cl <- cluster_start(here_by_link(1L), healing = FALSE)
  defer(function() cluster_stop(cl))
  host <- parent_of(parent_of(cl[[1L]]$pid))
  tools::pskill(host, tools::SIGTERM)
  for (i in 1:3) expect_identical(clusterCall(cl, function() 5), list(5))
  expect_true(tools::pskill(host, 0L))
})

test_cluster("a worker that is killed while it leaves a host leaves it with its checkpoint, too", {
  skip_if_limited()
  skip_without_fork()
  skip_without_proc()
  limit_time(100)
  local_variables(SLURM_JOB_ID = NA)
  local_settings(muster.quiet = TRUE, muster.checkpoints = 0.1)
  cl <- cluster_start(list(1, here_by_link(2L)))
  defer(function() cluster_stop(cl))
  for (i in 1:4) {
    clusterCall(cl[2L], function(i) {
      Sys.sleep(0.2) # tidy: long enough for a checkpoint
      assign(paste0("x", i), i, globalenv())
      NULL
    }, i)
  }
  wait_until({
    clusterCall(cl[1L], function() 5)
    cluster_status(cl)$healing[2L] == "state"
  })
  host <- far_host(cl)
  known <- processes(host)
  busy <- lapply(2:3, function(i) task_submit(cl[i], Sys.sleep, 5))
  wait_until(all(cluster_status(cl)$state[2:3] == "busy"))
  killed <- cl[[2L]]$pid
  tools::pskill(host, tools::SIGTERM)
  wait_until({
    clusterCall(cl[1L], function() 5)
    all(cluster_status(cl)$state[2:3] == "draining")
  })
  tools::pskill(killed, 9L)
  task_wait(busy)
  wait_until({
    clusterCall(cl[1L], function() 5)
    !any(still_runs(known))
  })
  expect_identical(clusterEvalQ(cl[2L], c(x1, x2, x3, x4)), list(1:4))
})
