# A fork server that is stopped, or hangs, is ended and replaced: nothing waits for it in vain.

# The server of a cluster, as a process.
server_of <- function(cl) {
  base <- the_servers()
  .Call(muster:::ffi_server_state, base[[length(base)]]$pointer)$pid
}
the_servers <- function() get("the_cluster", asNamespace("muster"))$servers

test_cluster("a worker that is lost comes back although its fork server is stopped", {
  skip_without_fork()
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
  cluster_stop(cluster_start(1, start = "fork"))
  pid <- server_of()
  tools::pskill(pid, tools::SIGSTOP)
  cl <- suppressMessages(cluster_start(2, heartbeat = 1, start = "fork"))
  defer(function() cluster_stop(cl))
  expect_identical(clusterCall(cl, function() 1), list(1, 1))
  expect_false(identical(server_of(cl), pid))
})

test_cluster("workers are added although the fork server is stopped", {
  skip_without_fork()
  cl <- local_cluster(1, heartbeat = 1, start = "fork")
  tools::pskill(server_of(cl), tools::SIGSTOP)
  cl2 <- suppressMessages(cluster_resize(cl, 2))
  defer(function() cluster_stop(cl2))
  expect_identical(clusterCall(cl2, function() 1), list(1, 1))
})

test_cluster("L2 how a worker ended is known, however late its fork server is", {
  skip_without_fork()
  cl <- local_cluster(1, healing = FALSE, start = "fork")
  pid <- server_of(cl)
  tools::pskill(pid, tools::SIGSTOP)
  defer(function() tools::pskill(pid, tools::SIGCONT))
  tools::pskill(cl[[1]]$pid, tools::SIGTERM)
  system(sprintf("(sleep 1.2; kill -CONT %d) &", pid))
  lost <- expect_error(clusterCall(cl, function() 1), class = "muster_error_lost")
  expect_identical(lost$signal, 15L)
})
