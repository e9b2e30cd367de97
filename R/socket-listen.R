#' Listen for connections and accept them
#'
#' `socket_listen()` opens a listening socket; each call of `socket_accept()` accepts one
#' connection from it. These are muster's own sockets, not base R's connections: R's limit of 128
#' connections doesn't apply, a timeout covers a whole call and may be as short as milliseconds,
#' and every wait can be interrupted. A socket that nothing refers to any more is closed when R's
#' garbage collector finds it.
#'
#' @param port Port to listen on, 0 to 65,535. 0, the default, picks a free one, which is the
#'   result's `$port`.
#' @param host Where to listen: an address of this machine (IPv4 or IPv6), a name that
#'   has one, or the path of a unix socket, which begins with `/` or `unix:`. Default
#'   `"127.0.0.1"`: only programs of this machine can connect. `"0.0.0.0"` (IPv4) or
#'   `"::"` (IPv6, and IPv4 too) lets in everybody who can reach this machine; clients aren't
#'   authenticated, so don't unserialize what they send (see [socket_receive()]). A unix socket is
#'   open only to processes of the same user (its file has mode 0600) and replaces one that nobody
#'   listens on any more; its file is removed with the listener.
#' @param backlog How many connections may wait to be accepted, a whole number from 1 up, or
#'   `NULL`, the default: as many as the system allows (on Linux `net.core.somaxconn`, to which
#'   larger values are reduced). [socket_status()] gives the value in force. When the queue is
#'   full, clients try again automatically after 1 s or more.
#' @param handlers Number of listeners that share the port, 1 to 256, each with its own queue,
#'   which multiplies the number of connections that may wait. The system spreads clients evenly
#'   over them. Default 1. Not for unix sockets.
#' @param timeout Seconds, from 0 up, or `Inf`. For `socket_listen()`: how long [socket_accept()]
#'   waits by default, and the timeout of the connections that it returns, see [socket_timeout()].
#'   Default `getOption("timeout")`, 60 s in R. For `socket_accept()`: how long this call waits;
#'   `NULL`: the listener's timeout. With 0 it doesn't wait.
#' @param server A listener.
#' @param blocking `FALSE` gives a connection that never waits: a call that can't be carried out
#'   at once returns `NULL`. Default `TRUE`.
#' @returns `socket_listen()`: a listener, of class `c("muster_listener", "muster_socket")`, with
#'   fields `$host` and `$port` (`NA` for a unix socket). `socket_accept()`: a connection, of
#'   class `c("muster_connection", "muster_socket")`, whose `$host` and `$port` are the client's;
#'   `NULL` if `timeout` is 0 and nobody waits. A client that reset its connection before it was
#'   accepted is skipped, and the call goes on waiting.
#' @section Errors:
#' `muster_error_input`: an argument is wrong, or `server` isn't an open listener of this process
#' (a forked child, such as one of [parallel::mclapply()], can't use its parent's sockets, and a
#' saved copy can't be used either). `muster_error_connect`: the system doesn't allow listening
#' there (port in use, no permission, address of another machine), with fields `host`, `port`,
#' `errno` and `elapsed_s`. `muster_error_timeout`: nobody connected in time, with the same
#' fields. `muster_error_limit`: no descriptors are left.
#' @section Source:
#' The R core team's report on socket connections (Kalibera and Tierney, 2020) and
#' [base::serverSocket()] and [base::socketAccept()]. Differences: the default backlog is the
#' longest possible, `blocking = FALSE` applies to the accepted end too, and reset clients don't
#' end a wait. listen(2), accept(2), tcp(7), unix(7).
#' @section Cost:
#' One descriptor for each handler and connection, with numbers from 1024 up where the limit
#' allows, so that R's own connections can still use the low ones.
#' @seealso [socket_connect()] for the other end, [socket_send()], [socket_send_lines()],
#'   [socket_select()], [socket_status()], [socket_close()].
#' @examples
#' server <- socket_listen()
#' client <- socket_connect("127.0.0.1", server$port)
#' peer <- socket_accept(server, timeout = 2)
#' socket_send(client, list(a = 1, b = "two"))
#' str(socket_receive(peer))
#' socket_close(peer)
#' socket_close(client)
#' socket_close(server)
#' @export
socket_listen <- function(port = 0L, host = "127.0.0.1", backlog = NULL, handlers = 1L,
                          timeout = getOption("timeout")) {
  call <- sys.call()
  check_host(host, call = call)
  port <- check_port(port, host, 0L, call)
  backlog <- if (is.null(backlog)) 0L else check_count(backlog, "backlog", call = call)
  handlers <- check_count(handlers, "handlers", 1L, 256L, call = call)
  timeout <- check_timeout(timeout, call = call)
  if (is.na(timeout)) timeout <- 60
  value <- .Call(ffi_socket_listen, host, port, backlog, handlers, timeout)
  if (is_failure(value)) {
    abort_socket(value, "listen at", list(host = host, port = port), call)
  }
  value
}

#' @rdname socket_listen
#' @export
socket_accept <- function(server, timeout = NULL, blocking = TRUE) {
  value <- .Call(ffi_socket_accept, server, timeout, blocking)
  if (!inherits(value, "muster_failure")) {
    return(value)
  }
  # C code only takes arguments in their simple form: valid calls skip these checks.
  call <- sys.call()
  socket_pointer(server, "server", call)
  check_timeout(timeout, call = call)
  check_flag(blocking, "blocking", call)
  abort_socket(value, "accept a connection at", server, call,
    late = paste("Nobody connected to", socket_where(server$host, server$port))
  )
}
