#' Wait for several sockets, and set how long they wait
#'
#' `socket_select()` waits until one of several sockets is ready: a listener when somebody has
#' connected, a connection when bytes have arrived or the other end has closed, or, for `write`,
#' when something can be sent. `socket_timeout()` sets the timeout of a socket.
#'
#' @param sockets A list of sockets, listeners and connections in any order, or one of them.
#' @param write Logical, one value or one for each socket: `TRUE` asks whether it can send.
#'   A listener never can. Default `FALSE`.
#' @param timeout For `socket_select()`: seconds to wait, from 0 up, or `Inf`; `NULL`, the
#'   default, waits forever. For `socket_timeout()`: the new timeout in seconds, from 0 up, or
#'   `Inf`; a negative value, like the default, changes nothing.
#' @param socket A listener or a connection.
#' @returns `socket_select()`: a logical vector as long as `sockets`, with its names: which
#'   are ready, all `FALSE` when the time has passed. It is only a hint: a ready listener's client
#'   may disappear before it is accepted, and a ready connection may have only half a message.
#'   `socket_timeout()`: the timeout that was in force before the call, in seconds.
#' @section Errors:
#' `muster_error_input`: an argument is wrong, or one of the sockets is closed, a copy, or another
#' process's; field `index` says which.
#' @section Source:
#' [base::socketSelect()] and [base::socketTimeout()]. There is no limit of 1024 descriptors here.
#' @section Cost:
#' One system call for each 50 ms of waiting.
#' @examples
#' server <- socket_listen()
#' socket_select(server, timeout = 0.01)
#' client <- socket_connect("127.0.0.1", server$port)
#' socket_select(list(server = server, client = client), write = c(FALSE, TRUE), timeout = 2)
#' socket_timeout(client, 30 * 24 * 3600)
#' socket_timeout(client)
#' socket_close(client)
#' socket_close(server)
#' @export
socket_select <- function(sockets, write = FALSE, timeout = NULL) {
  call <- sys.call()
  check_given(sockets, "sockets", call)
  if (inherits(sockets, "muster_socket")) sockets <- list(sockets)
  if (!is.list(sockets) || is.object(sockets)) {
    abort_input("sockets", "a list of sockets", sockets, call)
  }
  if (!is.logical(write) || anyNA(write) || !length(write) %in% c(1L, length(sockets))) {
    abort_input("write", "TRUE or FALSE, or one of them for each socket", write, call)
  }
  timeout <- if (is.null(timeout)) Inf else check_timeout(timeout, call = call)
  pointers <- lapply(unname(sockets), socket_pointer, "sockets", call)
  write <- rep_len(write, length(sockets))
  if (!length(sockets) && timeout == Inf) {
    abort_input("sockets", "at least one socket if `timeout` is infinite", sockets, call)
  }
  value <- .Call(ffi_socket_select, pointers, write, timeout)
  if (is_failure(value)) {
    tryCatch(socket_misuse(value, call), muster_error_input = function(e) {
      e$index <- as.integer(value$bytes)
      raise_condition(e)
    })
  }
  names(value) <- names(sockets)
  value
}

#' @rdname socket_select
#' @export
socket_timeout <- function(socket, timeout = -1) {
  pointer <- socket_pointer(socket, "socket", sys.call())
  if (!is.numeric(timeout) || length(timeout) != 1L || is.na(timeout)) {
    abort_input("timeout", "a number of seconds, negative to change nothing", timeout, sys.call())
  }
  value <- .Call(ffi_socket_timeout, pointer, timeout)
  if (is_failure(value)) socket_misuse(value, sys.call())
  value
}
