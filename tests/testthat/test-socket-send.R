# Objects, frames, bytes, and what becomes of messages that don't get through at once.

test_cluster("objects, frames and bytes arrive as they were sent", {
  pair <- local_pair()
  values <- list(NULL, 1:3, letters, list(a = mtcars, b = function(x) x), raw(0), as.raw(1:9),
    structure(list(1), class = "muster_failure"))
  for (value in values) {
    expect_identical(withVisible(socket_send(pair$client, value)),
      list(value = TRUE, visible = FALSE))
    expect_equal(socket_receive(pair$peer), value, ignore_function_env = TRUE)
  }
  socket_send(pair$peer, charToRaw("abc"), "frame")
  socket_send(pair$peer, raw(), "frame")
  expect_identical(socket_receive(pair$client, "frame"), charToRaw("abc"))
  expect_identical(socket_receive(pair$client, "frame"), raw())
  socket_send(pair$client, 1:2)
  expect_identical(unserialize(socket_receive(pair$peer, "frame")), 1:2)
  socket_send(pair$client, as.raw(1:10), "raw")
  expect_identical(socket_receive(pair$peer, "raw", n = 4), as.raw(1:4))
  expect_identical(socket_receive(pair$peer, "raw", limit = 2), as.raw(5:6))
  expect_identical(socket_receive(pair$peer, "raw"), as.raw(7:10))
})

test_cluster("a large object goes through while its receiver reads", {
  skip_without_fork()
  x <- as.double(seq_len(2e6))
  server <- local_listener(timeout = 30)
  job <- local_fork({
    client <- socket_connect("127.0.0.1", server$port, timeout = 30)
    socket_send(client, x)
    socket_receive(client)
  })
  peer <- socket_accept(server)
  got <- socket_receive(peer)
  expect_identical(got, x)
  socket_send(peer, "done")
  expect_identical(parallel::mccollect(job)[[1L]], "done")
  socket_close(peer)
})

test_cluster("S8 a connection that doesn't block returns NULL, on either end", {
  pair <- local_pair(blocking = FALSE, timeout = Inf)
  for (end in list(pair$client, pair$peer)) {
    expect_null(socket_receive(end))
    expect_null(socket_receive(end, "raw"))
    expect_null(socket_receive(end, "frame", timeout = Inf))
    expect_null(socket_receive_lines(end))
  }
  # Its buffers fill up: a message is taken, what comes next isn't until there is room.
  large <- raw(2e7)
  expect_true(socket_send(pair$client, large, "frame"))
  expect_null(socket_send(pair$client, large, "frame"))
  expect_gt(socket_status(pair$client)$unsent_bytes, 0)
  expect_false(socket_select(pair$client, write = TRUE, timeout = 0))
  got <- NULL
  wait_until({
    socket_select(list(pair$client, pair$peer), timeout = 0.1)
    got <- socket_receive(pair$peer, "frame")
    !is.null(got)
  })
  expect_identical(got, large)
  expect_true(socket_select(pair$client, write = TRUE, timeout = 60))
})

test_cluster("what a timeout cuts is neither lost nor torn", {
  pair <- local_pair(timeout = 0.05)
  e <- expect_error(socket_send(pair$client, raw(2e7), "frame"), class = "muster_error_timeout")
  expect_gt(e$bytes, 0)
  expect_gte(e$elapsed_s, 0.05)
  socket_timeout(pair$peer, 20)
  e <- expect_error(socket_receive(pair$peer, "frame", timeout = 0.05),
    class = "muster_error_timeout")
  expect_gt(e$bytes, 0)
  got <- NULL
  wait_until({
    socket_select(pair$client, write = TRUE, timeout = 0.01)
    got <- socket_receive(pair$peer, "frame", timeout = 0)
    !is.null(got)
  })
  expect_identical(got, raw(2e7))
  socket_timeout(pair$client, 10)
  socket_send(pair$client, "next")
  expect_identical(socket_receive(pair$peer), "next")
})

test_cluster("a message past the limit is refused before it is read", {
  pair <- local_pair()
  socket_send(pair$client, raw(5000), "frame")
  for (type in c("frame", "object")) {
    e <- expect_error(socket_receive(pair$peer, type, limit = 4999), class = "muster_error_limit")
    expect_identical(e$bytes, 5000)
  }
  expect_identical(socket_receive(pair$peer, "frame", limit = 5000), raw(5000))
  # A peer's word for how much is to come takes no memory.
  socket_send(pair$client, as.raw(c(1, 0, 0, 255, 255, 255, 255, 255)), "raw")
  expect_error(socket_receive(pair$peer, "frame"), class = "muster_error_limit")
  expect_error(socket_receive(pair$peer, "frame", limit = 1e13, timeout = 0.05),
    class = "muster_error_timeout")
})

test_cluster("a peer that speaks something else is known by its first byte", {
  pair <- local_pair()
  socket_send_lines(pair$client, "GET / HTTP/1.1")
  e <- expect_error(socket_receive(pair$peer), class = "muster_error_protocol")
  expect_match(conditionMessage(e), "0x47")
  expect_error(socket_receive(pair$peer, "frame"), class = "muster_error_protocol")
  expect_identical(socket_receive_lines(pair$peer), "GET / HTTP/1.1")
  socket_send(pair$client, as.raw(1), "frame")
  expect_error(socket_receive(pair$peer), "not an R object", class = "muster_error_protocol")
  expect_identical(socket_receive(pair$peer, "frame"), as.raw(1))
})

test_cluster("the end of a connection is told, with what was cut off", {
  pair <- local_pair()
  socket_send(pair$client, as.raw(c(1, 0, 0, 0, 0, 0, 0, 9, 1, 2)), "raw")
  socket_close(pair$client)
  e <- expect_error(socket_receive(pair$peer), class = "muster_error_closed")
  expect_identical(e$bytes, 10)
  expect_identical(socket_receive(pair$peer, "raw"), as.raw(c(1, 0, 0, 0, 0, 0, 0, 9, 1, 2)))
  expect_identical(socket_receive(pair$peer, "raw"), raw())
  expect_identical(socket_receive(pair$peer, "raw", n = 5), raw())
  expect_error(socket_receive(pair$peer, "frame"), "closed by the other end",
    class = "muster_error_closed")
  if (has_proc()) expect_identical(socket_status(pair$peer)$state, "close-wait")
})

test_cluster("S3 a timeout is changed and asked for, and is for the whole call", {
  pair <- local_pair(timeout = 3)
  expect_identical(socket_timeout(pair$client), 3)
  expect_identical(socket_timeout(pair$client, 30 * 24 * 3600), 3)
  expect_identical(socket_timeout(pair$client, -1), 2592000)
  expect_identical(socket_timeout(pair$client), 2592000)
  expect_identical(socket_timeout(pair$server), 3)
  expect_identical(socket_timeout(pair$peer, 0.02), 3)
  e <- expect_error(socket_receive(pair$peer), class = "muster_error_timeout")
  expect_gte(e$elapsed_s, 0.02)
  expect_identical(socket_timeout(pair$peer, 0), 0.02)
  expect_null(socket_receive(pair$peer))
  socket_timeout(pair$peer, Inf)
  expect_identical(socket_timeout(pair$peer), Inf)
})
