# Fork servers that were killed: what they leave. How clusters go on is in test-heal.R.

test_cluster("servers that were killed leave no zombies, and no directory that is of no use", {
  skip_without_fork()
  local_settings(muster.quiet = TRUE)
  server <- function() utils::tail(the$servers, 1L)[[1L]]
  pid_of_server <- function() .Call(ffi_server_state, server()$pointer)$pid
  cl <- local_cluster(2)
  first <- server()$base
  killed <- bases <- NULL
  for (round in 1:3) {
    killed <- c(killed, pid_of_server())
    bases <- c(bases, server()$base)
    tools::pskill(c(utils::tail(killed, 1L), node_pids(cl[1L])), 9L)
    expect_identical(unlist(clusterCall(cl, Sys.getpid)), node_pids(cl))
    # The session is the only one that can wait for them.
    expect_false(any(pid_exists(utils::head(killed, -1L))))
  }
  # Its workers, and those that came in their place, live in the first one's.
  expect_identical(dir.exists(bases), c(TRUE, FALSE, FALSE))
  where <- unlist(clusterCall(cl, tempdir))
  expect_identical(dirname(where), rep(first, 2L))
  expect_true(all(dir.exists(where)))
  expect_length(the$servers, 2L)
  cluster_stop(cl)
  expect_false(any(pid_exists(killed)))
  expect_false(any(dir.exists(bases)))
  expect_length(the$servers, 1L)
})

test_cluster("a server that was killed with nobody using it goes at the next start", {
  skip_without_fork()
  cluster_stop(cluster_start(1))
  server <- utils::tail(the$servers, 1L)[[1L]]
  pid <- .Call(ffi_server_state, server$pointer)$pid
  tools::pskill(pid, 9L)
  wait_until(!is_running(pid))
  cluster_stop(cluster_start(1))
  expect_false(pid_exists(pid))
  expect_false(dir.exists(server$base))
})
