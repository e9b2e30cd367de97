# How long does it take to connect two sockets, and to be refused?
#
# socket_connect() and socket_accept() over the loopback, in one session, beside base R's
# socketConnection() and socketAccept(), and beside the bare system calls: socket, connect,
# accept. Closing isn't counted. Then a connect to a port at which nobody listens.

measure <- function(quick) {
  count <- if (quick) 50L else 500L
  arms <- c("muster", "base R", "limit")
  counts <- structure(rep(if (quick) 3L else 21L, 3L), names = arms)
  server <- muster::socket_listen()
  plain <- free_server()
  on.exit({
    muster::socket_close(server)
    close(plain$socket)
  })
  for (arm in arms) connects(arm, server, plain, 20L)
  raw <- rbind(
    interleave("connect and accept", counts, function(arm) connects(arm, server, plain, count)),
    interleave("a refused connect", counts, function(arm) refusals(arm, count))
  )
  list(raw = raw, rows = socket_rows(raw), notes = character())
}

# A listener of base R's, which has to be given a port.
free_server <- function() {
  probe <- muster::socket_listen()
  muster::socket_close(probe)
  list(socket = serverSocket(probe$port), port = probe$port)
}

# The median time of a connection. Garbage is collected before, not meanwhile.
connects <- function(arm, server, plain, count) {
  gc()
  if (arm == "limit") {
    return(median(.Call(native$connects, count)))
  }
  once <- if (arm == "muster") muster_once(server) else base_once(plain)
  median(vapply(seq_len(count), function(i) once(), 0))
}

muster_once <- function(server) {
  port <- server$port
  connect <- muster::socket_connect
  accept <- muster::socket_accept
  compiler::cmpfun(function() {
    began <- now()
    client <- connect("127.0.0.1", port)
    peer <- accept(server)
    took <- now() - began
    muster::socket_close(client)
    muster::socket_close(peer)
    took
  })
}

base_once <- function(plain) {
  compiler::cmpfun(function() {
    began <- now()
    client <- socketConnection("127.0.0.1", plain$port, open = "r+b", blocking = TRUE)
    peer <- socketAccept(plain$socket, open = "r+b", blocking = TRUE)
    took <- now() - began
    close(client)
    close(peer)
    took
  })
}

refusals <- function(arm, count) {
  if (arm == "limit") {
    return(median(.Call(native$refused, count)))
  }
  port <- free_server()
  close(port$socket)
  once <- if (arm == "muster") {
    function() tryCatch(muster::socket_connect("127.0.0.1", port$port), error = identity)
  } else {
    function() {
      tryCatch(
        suppressWarnings(socketConnection("127.0.0.1", port$port, blocking = TRUE)),
        error = identity
      )
    }
  }
  block(compiler::cmpfun(once), count)
}

socket_rows <- function(raw) {
  near <- bar("at most 2 times the system calls", function(ours, theirs, ratio) {
    ours <= 2 * median(values(raw, "connect and accept", "limit"))
  })
  quick <- bar("under 1 ms", function(ours, theirs, ratio) ours < 1e-3)
  rbind(
    compare(raw, "connect and accept", "base R", near, "limit", show_us),
    compare(raw, "a refused connect", "base R", quick, "limit", show_us)
  )
}
