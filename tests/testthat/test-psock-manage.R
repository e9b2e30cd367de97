test_cluster("alive means answering", {
  cl <- local_cluster(2, heartbeat = Inf)
  expect_identical(isNodeAlive(cl), c(TRUE, TRUE))
  parallel:::sendCall(cl[[1L]], function() Sys.sleep(0.3), list())
  expect_true(isNodeAlive(cl[[1L]]))
  parallel:::recvResult(cl[[1L]])
  tools::pskill(cl[[1L]]$pid, tools::SIGSTOP)
  # It takes the kernel a moment to stop all threads.
  wait_until(!isNodeAlive(cl[[1L]], timeout = 0.1))
  expect_identical(isNodeAlive(cl, timeout = 5), c(FALSE, TRUE))
  tools::pskill(cl[[1L]]$pid, tools::SIGCONT)
  expect_true(isNodeAlive(cl[[1L]], timeout = 10))
  cluster_stop(cl)
  expect_identical(isNodeAlive(cl), c(FALSE, FALSE))
})

test_cluster("a node that was killed stays so, and can be cloned", {
  cl <- local_cluster(2)
  workers <- node_processes(cl)
  expect_true(killNode(cl[[1L]]))
  expect_identical(still_exists(workers), c(FALSE, TRUE))
  expect_false(killNode(cl[[1L]]))
  expect_false(isNodeAlive(cl[[1L]]))
  expect_error(clusterCall(cl[1L], identity, 1), class = "muster_error_lost")
  expect_identical(clusterCall(cl[2L], identity, 2), list(2))
  cl[[1L]] <- cloneNode(cl[[1L]])
  expect_s3_class(cl[[1L]], "muster_node")
  expect_identical(clusterCall(cl, identity, 3), list(3, 3))
  cluster_stop(cl)
})

test_cluster("a cluster gets more workers and fewer", {
  cl <- local_cluster(1)
  cl <- cluster_resize(cl, 2)
  expect_length(cl, 2L)
  expect_identical(clusterCall(cl, identity, 1), list(1, 1))
  workers <- node_processes(cl)
  cl <- cluster_resize(cl, 1)
  expect_length(cl, 1L)
  expect_identical(still_exists(workers), c(TRUE, FALSE))
  expect_identical(clusterCall(cl, identity, 1), list(1))
  expect_identical(cluster_resize(cl, 1), cl)
  first <- cl
  cl <- cluster_resize(cl, 2)
  cluster_stop(cl)
  expect_identical(cluster_status(first)$state, "stopped")
  expect_error(cluster_resize(cl, 0), class = "muster_error_input")
  expect_error(cluster_resize(list(), 1), class = "muster_error_input")
})

test_cluster("U4: workers that join have what all others were told", {
  skip_if_limited()
  cl <- local_cluster(2)
  small <- 1
  shared <- as.numeric(1:1e5)
  clusterExport(cl, c("small", "shared"), environment())
  cluster_share(cl, wide = shared)
  clusterEvalQ(cl, {
    library(splines)
    own <- Sys.getpid()
  })
  clusterCall(cl, function() options(digits.secs = 3))
  clusterCall(cl[1L], function() alone <<- 1) # of a single one
  clusterApply(cl, 1:2, function(i) each <<- i) # another call for each
  clusterEvalQ(cl[2:1], small <- small + 1)
  more <- cluster_resize(cl, 3)
  pids <- more[[3L]]$pid
  look <- function() {
    list(
      small, identical(shared, wide), "package:splines" %in% search(), own %in% pids,
      getOption("digits.secs"), exists("alone"), exists("each")
    )
  }
  environment(look) <- list2env(list(pids = pids), parent = globalenv())
  expect_identical(clusterCall(more[3L], look)[[1L]], list(2, TRUE, TRUE, TRUE, 3, FALSE, FALSE))
  # It heals as the others do, and counts among them: what it isn't told isn't of all. `own` is its
  # first process's number, or the next one's if the call was replayed.
  tools::pskill(more[[3L]]$pid, tools::SIGKILL)
  local_settings(muster.quiet = TRUE)
  clusterCall(more[3L], identity, 1)
  environment(look)$pids <- c(pids, more[[3L]]$pid)
  expect_identical(clusterCall(more[3L], look)[[1L]], list(2, TRUE, TRUE, TRUE, 3, FALSE, FALSE))
  clusterExport(cl, "more", list2env(list(more = 5)))
  clusterEvalQ(more, small <- 7)
  more[[3L]] <- cloneNode(more[[3L]])
  expect_identical(clusterEvalQ(more[3L], list(small, exists("more"))), list(list(7, FALSE)))
  cluster_stop(more)
})

test_cluster("U4: a worker that can't do what the others did doesn't join", {
  cl <- local_cluster(1)
  folder <- local_folder()
  there <- file.path(folder, "there")
  clusterCall(cl, function(folder) working <<- setwd(folder), folder)
  expect_error(clusterCall(cl, function() {
    half <<- 1
    stop("as here")
  }))
  more <- cluster_resize(cl, 2)
  expect_identical(clusterEvalQ(more, half), list(1, 1))
  cl <- cluster_resize(more, 1)
  clusterCall(cl, function(there) {
    if (file.exists(there)) stop("there is one")
    once <<- file.create(there)
  }, there)
  expect_error(suppressMessages(cluster_resize(cl, 2)), "journal", class = "muster_error_launch")
  expect_identical(clusterEvalQ(cl, once), list(TRUE))
})

test_cluster("U4: snapshots of workers take nothing from those that join", {
  cl <- local_cluster(1)
  clusterExport(cl, "n", list2env(list(n = 0)))
  for (i in 1:70) clusterEvalQ(cl, n <- n + 1)
  more <- cluster_resize(cl, 2)
  expect_identical(clusterEvalQ(more, n), list(70, 70))
  cluster_stop(more)
})

test_cluster("U4: a worker that joins draws from a stream of its own", {
  local_seed(1)
  cl <- local_cluster(1)
  clusterSetRNGStream(cl, 1)
  more <- cluster_resize(cl, 2)
  drawn <- unlist(clusterCall(more, runif, 1))
  expect_false(drawn[1L] == drawn[2L])
  cluster_stop(more)
})
