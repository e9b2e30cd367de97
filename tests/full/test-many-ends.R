# Many workers that end at once, while nobody reads what the fork server says of it.

test_that("700 workers that don't answer are killed without a deadlock", {
  skip_if(.Call(muster:::ffi_limits)[1] < 3000, "needs `ulimit -n` of 3,000")
  limit_time(100)
  # More ends than fit into a socket's buffer, and more kills too: session and server
  # would wait for each other if either wrote without reading.
  cl <- cluster_start(700)
  workers <- node_processes(cl)
  tools::pskill(node_pids(cl), tools::SIGSTOP)
  stopCluster(cl)
  expect_false(any(still_exists(workers)))
})

test_that("a fork server goes on when 600 workers end while the session computes", {
  skip_if(.Call(muster:::ffi_limits)[1] < 3000, "needs `ulimit -n` of 3,000")
  cl <- cluster_start(600)
  pids <- node_pids(cl)
  workers <- processes(pids)
  tools::pskill(pids[-1], tools::SIGKILL)
  end <- Sys.time() + 2
  while (Sys.time() < end) sum(runif(1e4)) # computes: nothing is read
  expect_identical(clusterCall(cl[1], Sys.getpid), list(pids[1]))
  more <- cluster_start(2)
  expect_length(clusterCall(more, Sys.getpid), 2)
  stopCluster(more)
  stopCluster(cl)
  expect_false(any(still_exists(workers)))
})

test_that("C3: a task for 129 of 130 workers is whole, wherever R collects garbage meanwhile", {
  limit_time(100)
  cl <- cluster_start(130)
  one <- function(k) {
    invisible(gctorture2(1e6, wait = k))
    on.exit(gctorture2(0))
    task_submit(cl[1:129], function() 1)
  }
  tasks <- lapply(1:80, one)
  gc()
  expect_identical(vapply(tasks, function(task) inherits(task, "muster_task"), NA), rep(TRUE, 80L))
  expect_identical(lapply(tasks, task_value), rep(list(1), 80L))
  stopCluster(cl)
})
