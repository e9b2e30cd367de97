#' Connect to a listening socket
#'
#' Opens a connection to a program that listens: one of [socket_listen()], or any other. All
#' addresses of a name are tried, the next one when one refuses or hasn't answered for
#' 250 ms. TCP connections have no Nagle delay: small messages go out at once.
#'
#' @param host Name or address (IPv4, IPv6) of a host, or the path of a unix socket, which
#'   begins with `/` or `unix:`.
#' @param port Port, 1 to 65,535. Not needed for a unix socket.
#' @param timeout Seconds for all that it takes (looking up the name, all addresses), above 0,
#'   also `Inf`. Default `getOption("timeout")`, 60 s in R. It is the connection's timeout
#'   afterwards, which [socket_timeout()] changes: short while things are set up, long for
#'   what follows.
#' @param blocking `FALSE` gives a connection that never waits: what can't be done at once
#'   returns `NULL`. Connecting itself takes its time either way. Default `TRUE`.
#' @returns A connection, of class `c("muster_connection", "muster_socket")`, with fields `$host`
#'   and `$port` of the other end.
#' @section Errors:
#' `muster_error_connect`: refused, unreachable, or the name is unknown; known at once, where
#' the other end or the system says so. `muster_error_timeout`: no answer in time.
#' Both have fields `host`, `port`, `errno` and `elapsed_s`. `muster_error_input`: an argument is
#' wrong. `muster_error_limit`: no descriptors are left.
#' @section Source:
#' [base::socketConnection()], but that the timeout is enforced, for the whole call.
#' RFC 8305 for several addresses; RFC 6761 for `localhost`, which is 127.0.0.1 and then ::1.
#' @section Cost:
#' One descriptor. A name that isn't an address is looked up by a thread of its own, which ends
#' with the answer.
#' @seealso [socket_listen()], [socket_send()], [socket_send_lines()], [socket_select()].
#' @examples
#' server <- socket_listen()
#' client <- socket_connect("localhost", server$port, timeout = 2)
#' client
#' socket_close(client)
#' socket_close(server)
#' refused <- tryCatch(socket_connect("localhost", server$port), muster_error_connect = identity)
#' refused$elapsed_s
#' @export
socket_connect <- function(host, port = NULL, timeout = getOption("timeout"), blocking = TRUE) {
  value <- .Call(ffi_socket_connect, host, port, timeout, blocking)
  if (!inherits(value, "muster_failure")) {
    return(value)
  }
  call <- sys.call()
  # C code takes arguments in their plain form only: that spares a good call these checks.
  check_host(host, call = call)
  port <- check_port(port, host, 1L, call)
  if (value$kind == "arguments") {
    timeout <- check_seconds(timeout, "timeout", infinite = TRUE, call = call)
    check_flag(blocking, "blocking", call)
    value <- .Call(ffi_socket_connect, host, port, timeout, blocking)
    if (!is_failure(value)) {
      return(value)
    }
  }
  to <- list(host = host, port = if (is_socket_path(host)) NA_integer_ else port)
  abort_socket(value, "connect to", to, call,
    late = paste(socket_where(host, to$port), "didn't answer")
  )
}
