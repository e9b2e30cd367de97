# Listeners, accepts and connects.

test_cluster("S2 one listener gives many connections, and is an object", {
  server <- local_listener()
  expect_s3_class(server, c("muster_listener", "muster_socket"), exact = TRUE)
  expect_true(server$port > 0)
  expect_identical(server$host, "127.0.0.1")
  expect_match(format(server), paste0("^muster listener at 127.0.0.1:", server$port, "$"))
  clients <- lapply(1:5, function(i) socket_connect("127.0.0.1", server$port))
  peers <- lapply(1:5, function(i) socket_accept(server, timeout = 60))
  for (i in 1:5) socket_send(clients[[i]], i)
  expect_setequal(vapply(peers, socket_receive, 0L), 1:5)
  expect_s3_class(peers[[1L]], c("muster_connection", "muster_socket"), exact = TRUE)
  expect_output(print(peers[[1L]]), "muster connection with 127.0.0.1:")
  lapply(c(clients, peers), socket_close)
  expect_output(print(peers[[1L]]), "(closed)", fixed = TRUE)
})

test_cluster("sockets work over IPv6 and unix paths", {
  local_pair("127.0.0.1")
  skip_without_ip6()
  pair <- local_pair("::1")
  expect_match(format(pair$server), paste0("[::1]:", pair$server$port), fixed = TRUE)
  socket_send(pair$client, "over IPv6")
  expect_identical(socket_receive(pair$peer), "over IPv6")
})

test_cluster("a unix socket's file is its user's, and goes with the listener", {
  folder <- local_folder()
  path <- file.path(folder, "x.sock")
  pair <- local_pair(path)
  expect_identical(pair$server$port, NA_integer_)
  expect_identical(as.character(file.mode(path)), "600")
  socket_send(pair$peer, 1:3)
  expect_identical(socket_receive(pair$client), 1:3)
  expect_error(socket_listen(host = path), class = "muster_error_connect")
  socket_close(pair$server)
  expect_false(file.exists(path))
  expect_error(socket_connect(path), class = "muster_error_connect")
})

test_cluster("handlers share a port, each with a queue of its own", {
  server <- local_listener(handlers = 4, backlog = 20)
  clients <- lapply(1:40, function(i) socket_connect("127.0.0.1", server$port))
  status <- socket_status(server)
  expect_length(status$depth, 4L)
  if (built_with("socket states")) {
    expect_identical(sum(status$depth), 40L)
    expect_gt(sum(status$depth > 0L), 1L)
    expect_identical(status$backlog, rep(20L, 4L))
  }
  peers <- lapply(1:40, function(i) socket_accept(server, timeout = 60))
  expect_null(socket_accept(server, timeout = 0))
  expect_identical(socket_status(server)$accepted, 40)
  lapply(c(clients, peers), socket_close)
})

test_cluster("S4 the backlog is the longest that the system allows", {
  skip_without_feature("socket states")
  skip_if_not(file.exists("/proc/sys/net/core/somaxconn"), "no /proc/sys")
  most <- as.integer(readLines("/proc/sys/net/core/somaxconn"))
  expect_identical(socket_status(local_listener())$backlog, most)
  expect_identical(socket_status(local_listener(backlog = 3))$backlog, 3L)
})

test_cluster("S6 a refused connect is told with the facts", {
  server <- socket_listen()
  socket_close(server)
  e <- expect_error(socket_connect("127.0.0.1", server$port), class = "muster_error_connect")
  expect_identical(e$host, "127.0.0.1")
  expect_identical(e$port, server$port)
  expect_true(is.integer(e$errno) && e$errno > 0L)
  expect_match(conditionMessage(e), "connection refused", fixed = TRUE)
})

test_cluster("S7 the accept timeout is enforced", {
  server <- local_listener(timeout = 0.05)
  for (timeout in list(NULL, 0.08)) {
    e <- expect_error(socket_accept(server, timeout), class = "muster_error_timeout")
    expect_gte(e$elapsed_s, if (is.null(timeout)) 0.05 else timeout)
    expect_identical(e$port, server$port)
  }
  expect_null(socket_accept(server, timeout = 0))
})

test_cluster("a port in use, and an address that isn't ours, say so", {
  server <- local_listener()
  e <- expect_error(socket_listen(server$port), class = "muster_error_connect")
  expect_match(conditionMessage(e), "already in use")
  expect_error(socket_listen(host = "192.0.2.1"), class = "muster_error_connect")
})

test_cluster("wrong arguments are named", {
  server <- local_listener()
  bad <- list(
    quote(socket_listen(-1)), quote(socket_listen(65536)), quote(socket_listen("x")),
    quote(socket_listen(host = "")), quote(socket_listen(host = c("a", "b"))),
    quote(socket_listen(host = "10.0.0.0/24")), quote(socket_listen(host = "a b; rm -rf")),
    quote(socket_listen(backlog = 0)), quote(socket_listen(handlers = 0)),
    quote(socket_listen(handlers = 257)), quote(socket_listen(timeout = -1)),
    quote(socket_listen(host = strrep("/x", 100))),
    quote(socket_listen(host = "unix:x", handlers = 2)),
    quote(socket_connect("127.0.0.1")), quote(socket_connect("127.0.0.1", 0)),
    quote(socket_connect("127.0.0.1", 1, timeout = 0)), quote(socket_connect(NA, 1)),
    quote(socket_connect("127.0.0.1", 1, blocking = NA)), quote(socket_connect("300.1.2.3", 1)),
    quote(socket_accept(1)), quote(socket_accept(stdin())), quote(socket_accept(server, "x")),
    quote(socket_accept(server, blocking = 1)), quote(socket_timeout(server, "x")),
    quote(socket_receive(server)), quote(socket_send(server, 1)), quote(socket_status(3)),
    quote(socket_select(3)), quote(socket_select(list(server, 3))),
    quote(socket_select(list())), quote(socket_select(server, write = NA))
  )
  for (code in bad) {
    e <- caught(eval(code))
    expect_s3_class(e, "muster_error_input")
    expect_false(is.null(conditionCall(e)), info = deparse(code))
  }
})

test_cluster("a copy that was saved is inert, and so is a closed one", {
  pair <- local_pair()
  copy <- unserialize(serialize(pair$client, NULL))
  for (f in list(socket_receive, socket_status, socket_close, socket_timeout)) {
    expect_error(f(copy), "copy", class = "muster_error_input")
  }
  socket_send(pair$client, "still connected")
  expect_identical(socket_receive(pair$peer), "still connected")
  expect_identical(socket_close(pair$client), 0)
  expect_identical(socket_close(pair$client), 0)
  expect_error(socket_send(pair$client, 1), class = "muster_error_closed")
  expect_error(socket_send(pair$client, 1), class = "muster_error_input")
  e <- expect_error(socket_select(list(pair$peer, pair$client), timeout = 0),
    class = "muster_error_input")
  expect_identical(e$index, 2L)
})

test_cluster("a forked child can't use its parent's sockets, and its end doesn't close them", {
  skip_without_fork()
  pair <- local_pair()
  job <- local_fork({
    errors <- lapply(list(socket_receive, socket_close, socket_status), function(f) {
      class(caught(f(pair$client)))
    })
    gc()
    errors
  })
  errors <- parallel::mccollect(job)[[1L]]
  for (class in errors) expect_true("muster_error_input" %in% class)
  socket_send(pair$client, "mine")
  expect_identical(socket_receive(pair$peer), "mine")
})

test_cluster("sockets that nothing refers to are closed by the garbage collector", {
  server <- local_listener()
  before <- length(open_files())
  local({
    client <- socket_connect("127.0.0.1", server$port)
    peer <- socket_accept(server)
  })
  wait_until({
    gc()
    length(open_files()) <= before
  })
})

test_cluster("waits can be interrupted", {
  pair <- local_pair(timeout = Inf)
  waits <- list(
    function() socket_accept(pair$server), function() socket_receive(pair$peer),
    function() socket_receive_lines(pair$peer), function() socket_select(pair$peer)
  )
  for (wait in waits) {
    e <- caught({
      setTimeLimit(elapsed = 0.05, transient = TRUE)
      wait()
    })
    setTimeLimit()
    expect_match(conditionMessage(e), "time limit", fixed = TRUE)
  }
})

test_cluster("more than 128 sockets are open at once", {
  server <- local_listener()
  clients <- lapply(1:150, function(i) socket_connect("127.0.0.1", server$port))
  peers <- lapply(1:150, function(i) socket_accept(server))
  for (i in c(1, 150)) socket_send(clients[[i]], i)
  expect_identical(sum(socket_select(peers, timeout = 60)), 2L)
  lapply(c(clients, peers), socket_close)
})
