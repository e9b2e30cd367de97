#' Inspect and close sockets
#'
#' `socket_status()` shows how well a listener keeps up with its clients, or the state of a
#' connection. `socket_close()` closes a socket, also for its copies in forked children.
#'
#' A listener whose queue is full makes its clients wait a second or more: `depth_max` near
#' `backlog`, or `overflows` above 0, means that [socket_accept()] is called too rarely, or that
#' more `handlers` are needed.
#'
#' @param socket A listener or a connection.
#' @returns `socket_status()` of a listener: a list with `state` (`"listening"`), `host`, `port`,
#'   `handlers`; `depth` and `backlog`, for each handler how many connections wait and how many
#'   may (Linux lets one more wait); `depth_max`, the longest queue that any call for this
#'   listener has seen; `half_open`, connections whose handshake isn't over; `accepted`;
#'   `overflows` and `drops`, how many handshakes the system has rejected since the listener was
#'   opened, because a queue was full and for any reason, respectively, **counted over all
#'   listeners of this machine** (of its network namespace); `age_s`.
#'
#'   Of a connection: a list with `state` (`"established"`, `"close-wait"` when the other
#'   end has closed, ...; `"failed"` after a reset), `host`, `port`, `local_host`, `local_port`,
#'   `blocking`; `rtt_s`, `rttvar_s` and `rto_s`, the smoothed round trip, its deviation and the
#'   time to the next retransmission, in seconds; `retransmits`, segments that were sent again
#'   so far; `lost`, segments in transit that count as lost; `sent_bytes`, `received_bytes`;
#'   `unsent_bytes` and `unread_bytes`, waiting in this session; `age_s`.
#'
#'   What the system doesn't tell (macOS, unix sockets) is `NA`.
#'
#'   `socket_close()`: invisibly, the number of bytes that were not sent. Closing a socket twice
#'   isn't an error.
#' @section Errors:
#' `muster_error_input`: `socket` isn't a socket, is closed (except for `socket_close()`), is a
#' copy, or belongs to another process.
#' @section Source:
#' tcp(7), `TCP_INFO`; sock_diag(7); `/proc/net/netstat`, counters ListenOverflows and ListenDrops.
#' @section Cost:
#' A few system calls; some milliseconds on machines with many connections, since the system
#' walks through all of them to count those that are half open.
#' @examples
#' server <- socket_listen(backlog = 5)
#' client <- socket_connect("127.0.0.1", server$port)
#' str(socket_status(server)[c("depth", "backlog", "overflows")])
#' str(socket_status(client)[c("state", "rtt_s", "retransmits")])
#' socket_close(client)
#' socket_close(server)
#' @export
socket_status <- function(socket) {
  value <- .Call(ffi_socket_status, socket_pointer(socket, "socket", sys.call()))
  if (is_failure(value)) socket_misuse(value, sys.call())
  value
}

#' @rdname socket_status
#' @export
socket_close <- function(socket) {
  value <- .Call(ffi_socket_close, socket_pointer(socket, "socket", sys.call()))
  if (is_failure(value)) socket_misuse(value, sys.call())
  invisible(value)
}

#' @export
format.muster_socket <- function(x, ...) {
  where <- socket_where(.subset2(x, "host"), .subset2(x, "port"))
  kind <- if (inherits(x, "muster_listener")) "muster listener at" else "muster connection with"
  paste0(kind, " ", where, if (!.Call(ffi_socket_is_open, .subset2(x, "pointer"))) " (closed)")
}

#' @export
print.muster_socket <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}
