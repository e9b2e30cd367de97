#' Connect to a listening socket
#'
#' Opens a connection to a listening program, whether it uses [socket_listen()] or not. If a name
#' has several addresses, all are tried: the next one when one refuses or hasn't answered for 250
#' ms. TCP connections have no Nagle delay: small messages go out at once.
#'
#' @param host Name or address (IPv4, IPv6) of a host, or the path of a unix socket, which
#'   begins with `/` or `unix:`.
#' @param port Port, 1 to 65,535. Not needed for a unix socket.
#' @param timeout Seconds for the whole call (looking up the name and trying all addresses), above
#'   0, or `Inf`. Default `getOption("timeout")`, 60 s in R. It is also the connection's timeout
#'   afterwards, which [socket_timeout()] changes: use a short one for connecting and a long one
#'   for what follows.
#' @param blocking `FALSE` gives a connection that never waits: a call that can't be carried out
#'   at once returns `NULL`. Connecting itself waits either way. Default `TRUE`.
#' @returns A connection, of class `c("muster_connection", "muster_socket")`, with fields `$host`
#'   and `$port` of the other end.
#' @section Errors:
#' `muster_error_connect`: refused, unreachable, or the name is unknown; raised at once if the
#' other end or the system reports it. `muster_error_timeout`: no answer in time. Both have fields
#' `host`, `port`, `errno` and `elapsed_s`. `muster_error_input`: an argument is wrong.
#' `muster_error_limit`: no descriptors are left.
#' @section Source:
#' [base::socketConnection()], except that the timeout is enforced, for the whole call. RFC 8305
#' for several addresses; RFC 6761 for `localhost`, which is 127.0.0.1 and then ::1.
#' @section Cost:
#' One descriptor. A name that isn't an address is looked up by a separate thread, which ends when
#' it has the answer.
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
  # C code only takes arguments in their simple form: valid calls skip these checks.
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
