# What goes wrong between two ends, as R sees it. tests/c/test_net_faults.c makes the rest
# happen: lost packets, half-open connections, resets.

test_cluster("S4 a full queue delays clients, is told, and heals", {
  skip_without_proc()
  server <- local_listener(backlog = 1)
  waiting <- lapply(1:2, function(i) socket_connect("127.0.0.1", server$port))
  # S6: the connect timeout is enforced.
  e <- expect_error(socket_connect("127.0.0.1", server$port, timeout = 0.15),
    class = "muster_error_timeout")
  expect_gte(e$elapsed_s, 0.15)
  expect_identical(e$port, server$port)
  status <- socket_status(server)
  if (built_with("socket states") && built_with("proc")) {
    expect_identical(status[c("depth", "backlog", "depth_max")],
      list(depth = 2L, backlog = 1L, depth_max = 2L))
    expect_gt(status$overflows, 0)
    expect_gt(status$drops, 0)
  } else {
    expect_identical(c(status$depth, status$backlog), c(NA_integer_, NA_integer_))
  }
  peers <- lapply(1:2, function(i) socket_accept(server, timeout = 60))
  late <- socket_connect("127.0.0.1", server$port, timeout = 60)
  unknown <- !built_with("socket states")
  expect_identical(socket_status(server)$depth, if (unknown) NA_integer_ else 1L)
  expect_identical(socket_status(late)$state, "established")
  expect_identical(socket_status(late)$retransmits, if (unknown) NA_real_ else 0)
  lapply(c(waiting, peers, list(late)), socket_close)
})

test_cluster("S4 a slow drip of bytes doesn't prolong a call", {
  skip_without_fork()
  server <- local_listener()
  local_fork({
    client <- socket_connect("127.0.0.1", server$port)
    # The head of a frame of 1000 bytes.
    socket_send(client, as.raw(c(1, 0, 0, 0, 0, 0, 3, 232)), "raw")
    repeat {
      socket_send(client, as.raw(1), "raw")
      pass_time(0.03)
    }
  })
  peer <- socket_accept(server, timeout = 60)
  for (receive in list(
    function() socket_receive(peer, "raw", n = 1000, timeout = 0.2),
    function() socket_receive(peer, "frame", timeout = 0.2),
    function() socket_receive_lines(peer, timeout = 0.2)
  )) {
    e <- expect_error(receive(), class = "muster_error_timeout")
    expect_gte(e$elapsed_s, 0.2)
  }
  socket_close(peer)
})

test_cluster("S4 a reset is told as one", {
  server <- socket_listen()
  client <- socket_connect("127.0.0.1", server$port, timeout = 60)
  # Who waits to be accepted when a listener closes is reset.
  socket_close(server)
  expect_true(socket_select(client, timeout = 60))
  e <- expect_error(socket_receive(client), class = "muster_error_closed")
  expect_gt(e$errno, 0L)
  expect_match(conditionMessage(e), "has failed", fixed = TRUE)
  expect_identical(socket_status(client)$state, "failed")
  expect_error(socket_send(client, raw(1e6)), class = "muster_error_closed")
  expect_error(socket_receive_lines(client), class = "muster_error_closed")
  socket_close(client)
})

test_cluster("S7 clients that are gone don't end an accept", {
  server <- local_listener()
  # An end that has closed is no reset: it may have said all it wanted to.
  client <- socket_connect("127.0.0.1", server$port)
  socket_send(client, "all I want to say")
  socket_close(client)
  peer <- socket_accept(server, timeout = 60)
  expect_identical(socket_receive(peer), "all I want to say")
  socket_close(peer)
  expect_error(socket_accept(server, timeout = 0.05), class = "muster_error_timeout")
})

test_cluster("S6 a name that nobody has, or that is still looked up, is an error with it", {
  e <- caught(socket_connect("nosuchhost.invalid", 80, timeout = 0.5))
  expect_true(inherits(e, c("muster_error_connect", "muster_error_timeout")))
  expect_match(conditionMessage(e), "nosuchhost.invalid")
})

test_cluster("an interrupt ends a wait and leaves the socket as it was", {
  skip_without_fork()
  pair <- local_pair(timeout = Inf)
  parent <- Sys.getpid()
  flag <- file.path(local_folder(), "in")
  local_fork({
    wait_until(file.exists(flag))
    pass_time(0.2)
    tools::pskill(parent, tools::SIGINT)
    pass_time(60)
  })
  # Whenever it comes after the flag, it is caught.
  got <- tryCatch(
    {
      file.create(flag)
      socket_receive(pair$peer)
    },
    interrupt = function(e) "interrupted"
  )
  expect_identical(got, "interrupted")
  socket_send(pair$client, "after it")
  expect_identical(socket_receive(pair$peer), "after it")
})
