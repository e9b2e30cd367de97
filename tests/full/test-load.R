# A loaded machine: eight processes compute beside each test. A worker that waits for the processor
# isn't late, and muster's own work after a call isn't the call's.

test_that("L1 a cancel, a limit, an error, an interrupt end no worker that obeys", {
  local_settings(muster.quiet = TRUE)
  local_load()
  cl <- local_cluster(2)
  pids <- unlist(parallel::clusterCall(cl, Sys.getpid))
  packages <- c(
    "stats4", "splines", "grid", "boot", "dplyr", "ggplot2", "terra", "data.table", "testthat"
  )
  load <- remote(function(all) for (one in all) requireNamespace(one, quietly = TRUE))
  parallel::clusterCall(cl, load, packages)
  compute <- remote(function(s) {
    end <- Sys.time() + s
    while (Sys.time() < end) sqrt(s)
    s
  })
  ways <- list(
    cancel = function() {
      task <- task_submit(cl, compute, 600)
      pass_time(stats::runif(1, 0, 0.2))
      task_cancel(task)
    },
    limit = function() {
      expect_error(task_value(task_submit(cl, compute, 600, .timeout = 0.1)),
        class = "muster_error_timeout")
    },
    interrupt = function() {
      wait <- stats::runif(1, 0.1, 0.3)
      system(sprintf("(sleep %.3f; kill -INT %d) &", wait, Sys.getpid()))
      got <- tryCatch(parallel::clusterCall(cl, compute, 600), interrupt = function(e) "stopped")
      expect_identical(got, "stopped")
    },
    error = function() {
      expect_error(cluster_map(cl, 1:8, remote(function(i) {
        if (i == 3) stop("no")
        end <- Sys.time() + 600
        while (i > 4 && Sys.time() < end) sqrt(i)
      })), "no")
    }
  )
  local_seed(62)
  for (k in 1:4) {
    for (way in names(ways)) {
      ways[[way]]()
      expect_identical(parallel::clusterCall(cl, remote(function(k) k), k), list(k, k))
      expect_identical(unlist(parallel::clusterCall(cl, Sys.getpid)), pids, info = paste(way, k))
    }
  }
})

test_that("L1 a call that doesn't obey is ended after a second of its own", {
  local_settings(muster.quiet = TRUE)
  local_load()
  cl <- local_cluster(1)
  pid <- parallel::clusterCall(cl, Sys.getpid)[[1]]
  for (deaf in list(
    remote(function(file) {
      file.create(file)
      suspendInterrupts(repeat sqrt(2))
    }),
    remote(function(file) {
      file.create(file)
      repeat tryCatch(Sys.sleep(600), interrupt = function(e) NULL) # tidy: doesn't obey
    })
  )) {
    file <- tempfile()
    task <- task_submit(cl, deaf, file)
    wait_until(file.exists(file))
    task_cancel(task)
    again <- parallel::clusterCall(cl, Sys.getpid)[[1]]
    expect_false(again == pid)
    pid <- again
  }
})

test_that("L1 a worker that waits for the processor longer than a heartbeat is heard later", {
  skip_if_not(nzchar(Sys.which("chrt")), "chrt")
  local_settings(muster.quiet = TRUE)
  local_load(16L)
  cl <- local_cluster(2, heartbeat = 0.1)
  pids <- unlist(parallel::clusterCall(cl, Sys.getpid))
  for (pid in pids) starve(pid)
  values <- cluster_map(cl, 1:200, remote(function(i) sum(seq_len(1e4)) + i))
  expect_identical(values, as.list(sum(seq_len(1e4)) + 1:200))
  expect_identical(unlist(parallel::clusterCall(cl, Sys.getpid)), pids)
  expect_identical(sum(cluster_status(cl)$restarts), 0L)
})
