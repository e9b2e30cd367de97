test_cluster("the status of each worker is a row", {
  cl <- local_cluster(2)
  clusterCall(cl[2L], identity, 1)
  status <- cluster_status(cl)
  expect_identical(names(status), c(
    "worker", "host", "pid", "state", "done", "running", "restarts", "heartbeat", "rss", "cpu"
  ))
  expect_identical(status$worker, 1:2)
  expect_identical(status$done, c(0, 1))
  expect_identical(status$state, c("idle", "idle"))
  expect_identical(status$running, c(NA_real_, NA_real_))
  parallel:::sendCall(cl[[1L]], Sys.sleep, list(0.2))
  status <- cluster_status(cl)
  expect_identical(status$state, c("busy", "idle"))
  expect_gte(status$running[1L], 0)
  parallel:::recvResult(cl[[1L]])
  if (has_proc()) expect_gt(status$rss[1L], 1e6)
})

test_cluster("what workers print is shown in calls and kept", {
  cl <- local_cluster(2)
  file <- tempfile()
  defer(function() unlink(file))
  con <- file(file, "w")
  sink(con, type = "message")
  clusterCall(cl, function() {
    cat("by R\nunfinished")
    system("echo by a child")
    message("by message()")
    NULL
  })
  sink(type = "message")
  close(con)
  expect_true(all(c("worker 1: by R", "worker 2: by message()") %in% readLines(file)))
  logs <- cluster_logs(cl)
  expect_setequal(unique(logs$worker), 1:2)
  expect_true(any(grepl("by a child", logs$line)))
  expect_identical(names(cluster_logs(cl[1L])), c("worker", "line"))
  expect_identical(unique(cluster_logs(cl[1L])$worker), 1L)
})

test_cluster("a quiet session shows nothing of workers", {
  cl <- local_cluster(1)
  local_settings(muster.quiet = TRUE)
  expect_silent(clusterCall(cl, function() cat("noise\n")))
  expect_identical(cluster_logs(cl)$line, "noise")
})

test_cluster("a journal shows the calls that are kept", {
  cl <- local_cluster(1)
  x <- 1
  clusterExport(cl, "x", environment())
  clusterEvalQ(cl, library(stats4))
  journal <- cluster_journal(cl)
  expect_identical(journal$kind, c("call", "call"))
  expect_identical(journal$call[2L], "library(stats4)")
  expect_true(all(journal$bytes > 0))
})

test_cluster("only clusters of muster have a status", {
  for (f in list(cluster_status, cluster_logs, cluster_journal)) {
    expect_error(f(list()), class = "muster_error_input")
  }
  cl <- local_cluster(1)
  cluster_stop(cl)
  expect_identical(cluster_status(cl)$state, "stopped")
  expect_error(cluster_logs(cl), class = "muster_error_input")
  expect_error(cluster_journal(cl), class = "muster_error_input")
})
