# Lines of text.

test_cluster("lines arrive without their ends, whichever these are", {
  pair <- local_pair()
  socket_send_lines(pair$client, c("one", "", "three"), sep = "\r\n")
  socket_send_lines(pair$client, c("four", "fi\rve"))
  socket_send_lines(pair$client, character())
  expect_identical(socket_receive_lines(pair$peer), "one")
  expect_identical(socket_receive_lines(pair$peer, 2), c("", "three"))
  expect_identical(socket_receive_lines(pair$peer, NULL), c("four", "fi\rve"))
  e <- expect_error(socket_receive_lines(pair$peer, 2, timeout = 0.02),
    class = "muster_error_timeout")
  expect_match(conditionMessage(e), "Fewer than 2 lines")
})

test_cluster("a line that comes in pieces is waited for, within the time", {
  pair <- local_pair()
  socket_send(pair$client, charToRaw("half "), "raw")
  expect_error(socket_receive_lines(pair$peer, timeout = 0.02), class = "muster_error_timeout")
  expect_null(socket_receive_lines(pair$peer, timeout = 0))
  socket_send(pair$client, charToRaw("a line\nand"), "raw")
  expect_identical(socket_receive_lines(pair$peer), "half a line")
  expect_null(socket_receive_lines(pair$peer, timeout = 0))
  socket_send_lines(pair$client, c(" another", "more"))
  # Those that are there are given to a call that doesn't wait.
  wait_until(socket_status(pair$peer)$unread_bytes >= 0)
  expect_identical(socket_receive_lines(pair$peer, 2), c("and another", "more"))
  socket_send(pair$client, charToRaw("last"), "raw")
  socket_close(pair$client)
  expect_identical(socket_receive_lines(pair$peer, 5), "last")
  expect_identical(socket_receive_lines(pair$peer), character())
})

test_cluster("text is converted from and to the other end's encoding", {
  pair <- local_pair()
  text <- c("caf\u00e9", "na\u00efve")
  socket_send_lines(pair$client, text)
  expect_identical(socket_receive(pair$peer, "raw", n = 5), charToRaw("caf\xc3\xa9"))
  expect_identical(socket_receive_lines(pair$peer, 2), c("", text[2L]))
  for (encoding in c("latin1", "ISO-8859-15", "UTF-8")) {
    socket_send_lines(pair$client, text, encoding = encoding)
    got <- socket_receive_lines(pair$peer, 2, encoding = encoding)
    expect_identical(got, text)
    expect_identical(unique(Encoding(got)), "UTF-8")
  }
  socket_send_lines(pair$client, marked(c(0x61, 0xff), "bytes"), encoding = "bytes")
  got <- socket_receive_lines(pair$peer, encoding = "bytes")
  expect_identical(charToRaw(got), as.raw(c(0x61, 0xff)))
  expect_error(socket_send_lines(pair$client, "\u20ac", encoding = "latin1"),
    class = "muster_error_input")
  for (encoding in c("UTF-16", "nonsense", NA)) {
    expect_error(socket_receive_lines(pair$peer, encoding = encoding),
      class = "muster_error_input")
  }
})

test_cluster("bytes that are no text are an error that has them", {
  pair <- local_pair()
  for (bytes in list(as.raw(c(0x61, 0xff)), as.raw(c(0x61, 0x00, 0x62)))) {
    socket_send(pair$client, c(bytes, as.raw(10)), "raw")
    e <- expect_error(socket_receive_lines(pair$peer), class = "muster_error_protocol")
    expect_identical(e$lines, list(bytes))
  }
  socket_send_lines(pair$client, "good")
  expect_identical(socket_receive_lines(pair$peer), "good")
})

test_cluster("a line without end is refused at the limit, a line end inside of one too", {
  pair <- local_pair()
  socket_send(pair$client, rep(charToRaw("x"), 100), "raw")
  expect_error(socket_receive_lines(pair$peer, limit = 50), class = "muster_error_limit")
  socket_send_lines(pair$client, "")
  expect_identical(nchar(socket_receive_lines(pair$peer, limit = 100)), 100L)
  socket_send_lines(pair$client, c("short", strrep("x", 20)))
  expect_identical(socket_receive_lines(pair$peer, 2, limit = 10), "short")
  expect_error(socket_receive_lines(pair$peer, limit = 10), class = "muster_error_limit")
  expect_error(socket_send_lines(pair$client, "a\r\nDATA"), "line break",
    class = "muster_error_input")
  expect_error(socket_send_lines(pair$client, NA_character_), class = "muster_error_input")
  expect_error(socket_send_lines(pair$client, 1), class = "muster_error_input")
})
