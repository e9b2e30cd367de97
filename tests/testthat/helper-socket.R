# Helpers for tests of sockets: listeners and pairs that are closed when the block ends.

local_listener <- function(..., frame = parent.frame()) {
  server <- socket_listen(...)
  defer(function() socket_close(server), frame)
  server
}

# A connected pair: list(server, client, peer), the client's and the server's end.
local_pair <- function(host = "127.0.0.1", ..., blocking = TRUE, timeout = 60,
                       frame = parent.frame()) {
  server <- socket_listen(host = host, timeout = timeout)
  client <- socket_connect(server$host, server$port, timeout = timeout, blocking = blocking)
  peer <- socket_accept(server, timeout = 60, blocking = blocking)
  defer(function() for (one in list(client, peer, server)) socket_close(one), frame)
  list(server = server, client = client, peer = peer)
}

skip_without_ip6 <- function() {
  there <- tryCatch(
    {
      socket_close(socket_listen(host = "::1"))
      TRUE
    },
    muster_error_connect = function(e) FALSE
  )
  testthat::skip_if_not(there, "there is no IPv6 here")
}

caught <- function(code) tryCatch(code, error = identity)

# A process that runs an R expression in a fork of this one, ended and reaped with the
# block.
local_fork <- function(code, frame = parent.frame()) {
  job <- eval(as.call(list(quote(parallel::mcparallel), substitute(code))), parent.frame())
  defer(function() {
    tools::pskill(job$pid, tools::SIGKILL)
    suppressWarnings(parallel::mccollect(job))
  }, frame)
  job
}
