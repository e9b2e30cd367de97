# A fork server that is stopped, or hangs, is ended and replaced: nothing waits for it in vain.

# The process that a cluster's first worker was forked by, wherever that is.
server_of <- function(cl) parent_of(cl[[1L]]$pid)

test_cluster("a worker that is lost comes back although its fork server is stopped", {
  skip_without_fork()
  skip_without_proc()
  skip_behind_link("a fork server there may be silent for 90 s")
  cl <- local_cluster(2, heartbeat = 1, start = "fork")
  k <- 5
  clusterExport(cl, "k", environment())
  pid <- server_of(cl)
  server <- processes(pid)
  tools::pskill(pid, tools::SIGSTOP)
  tools::pskill(cl[[1]]$pid, 9L)
  values <- suppressMessages(clusterApply(cl, 1:4, function(i) i * k))
  expect_identical(unlist(values), 1:4 * 5)
  expect_false(identical(server_of(cl), pid))
  wait_until(!still_exists(server))
})

test_cluster("a cluster starts although the warm fork server is stopped", {
  skip_without_fork()
  skip_without_proc()
  skip_behind_link("a new link has a fork server of its own")
  warm <- cluster_start(1, start = "fork")
  pid <- server_of(warm)
  cluster_stop(warm)
  tools::pskill(pid, tools::SIGSTOP)
  cl <- suppressMessages(cluster_start(2, heartbeat = 1, start = "fork"))
  defer(function() cluster_stop(cl))
  expect_identical(clusterCall(cl, function() 1), list(1, 1))
  expect_false(identical(server_of(cl), pid))
})

test_cluster("workers are added although the fork server is stopped", {
  skip_without_fork()
  skip_without_proc()
  skip_behind_link("a fork server there may be silent for 90 s")
  cl <- local_cluster(1, heartbeat = 1, start = "fork")
  tools::pskill(server_of(cl), tools::SIGSTOP)
  cl2 <- suppressMessages(cluster_resize(cl, 2))
  defer(function() cluster_stop(cl2))
  expect_identical(clusterCall(cl2, function() 1), list(1, 1))
})

test_cluster("L2 how a worker ended is known, however late its fork server is", {
  skip_without_fork()
  skip_without_proc()
  cl <- local_cluster(1, healing = FALSE, start = "fork")
  pid <- server_of(cl)
  tools::pskill(pid, tools::SIGSTOP)
  defer(function() tools::pskill(pid, tools::SIGCONT))
  tools::pskill(cl[[1]]$pid, tools::SIGTERM)
  system(sprintf("(sleep 1.2; kill -CONT %d) &", pid))
  lost <- expect_error(clusterCall(cl, function() 1), class = "muster_error_lost")
  expect_identical(lost$signal, 15L)
})
