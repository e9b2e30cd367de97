#' Send and receive objects and bytes
#'
#' Both ends of a connection send and receive whole messages. An `"object"` is any R object, a
#' `"frame"` is a raw vector; each arrives as one, however the network cuts it, or not at all.
#' `"raw"` means bytes without message boundaries, for peers that don't use muster.
#'
#' A call that is cut short by its timeout or an interrupt loses nothing. The part of a message
#' that has arrived is kept, and the next call continues with it. The part that hasn't been sent
#' goes out first with the next call for this socket ([socket_send()], [socket_receive()],
#' [socket_select()], [socket_status()]): don't send it again.
#'
#' @section Security:
#' **Receiving an object from a stranger lets the stranger run code here:** an R object can
#' hold code that runs when it is unserialized or used. Receive objects only from programs
#' that you trust, on connections that nobody else can open; from anyone else, receive frames or
#' lines. `limit` bounds the memory that a message may take before it is examined.
#'
#' @param socket A connection from [socket_connect()] or [socket_accept()].
#' @param x What to send: any object for `"object"`, a raw vector for `"frame"` and `"raw"`.
#' @param type `"object"` (the default), `"frame"` or `"raw"`. A receiver of frames gets objects
#'   as their serialized bytes, without unserializing them.
#' @param timeout Seconds, from 0 up, that this call may take as a whole, however slowly the bytes
#'   arrive; may be `Inf`. `NULL`: the socket's own timeout, see [socket_timeout()]. With 0, as on
#'   a non-blocking connection, a call that would have to wait returns `NULL` at once.
#' @param n Only for `"raw"`: how many bytes to receive, a whole number from 1 up. `NULL`, the
#'   default: what has arrived, at least one byte, at most `limit`.
#' @param limit Maximum size of a message in bytes, a whole number from 1 up. Default 1e8.
#' @returns `socket_send()`: `TRUE`, invisibly, when the system has accepted all bytes, or some of
#'   them on a non-blocking connection. `NULL` if it can't accept any now. `socket_receive()`: the
#'   object, or a raw vector; `NULL` if the call doesn't wait and no complete message has arrived
#'   (which can't be distinguished from receiving the object `NULL`). For `"raw"`: `raw(0)` when
#'   the other end has closed, and fewer than `n` bytes just before that.
#' @section Errors:
#' All have fields `host`, `port`, `errno`, `elapsed_s` and `bytes`. `muster_error_timeout`: the
#' time has passed; `bytes` is the number of bytes not sent, or received so far.
#' `muster_error_closed`: the other end has closed or reset the connection. `muster_error_limit`:
#' the message is larger than `limit`, `bytes` says how large; it can still be received with
#' another limit. `muster_error_protocol`: what arrived isn't a message from `socket_send()`, or
#' is of another type. `muster_error_input`: an argument is wrong, or the socket is closed (also
#' of class `muster_error_closed`), a copy, or another process's. `muster_error_memory`: there
#' isn't enough memory.
#' @section Source:
#' docs/PROTOCOL.md of the sources, "Messages between sockets"; [base::serialize()] for objects, in
#' the byte order of this machine, which the other end must have too.
#' @section Cost:
#' 8 bytes for each object and frame. A message is in memory twice while it is sent or received.
#' @seealso [socket_send_lines()] for text.
#' @examples
#' server <- socket_listen()
#' client <- socket_connect("127.0.0.1", server$port)
#' peer <- socket_accept(server)
#' socket_send(client, mtcars)
#' head(socket_receive(peer), 2)
#' socket_send(client, charToRaw("bytes"), type = "frame")
#' socket_receive(peer, "frame")
#' is.null(socket_receive(peer, timeout = 0))
#' lapply(list(client, peer, server), socket_close)
#' @export
socket_send <- function(socket, x, type = c("object", "frame", "raw"), timeout = NULL) {
  pointer <- socket_pointer(socket, "socket", sys.call())
  check_given(x, "x", sys.call())
  if (missing(type)) type <- "object" else check_choice(type, "type", socket_types, sys.call())
  timeout <- check_timeout(timeout, call = sys.call())
  if (type != "object" && !is.raw(x)) {
    abort_input("x", paste0("a raw vector where `type` is \"", type, "\""), x, sys.call())
  }
  socket_put(socket, pointer, x, type, timeout, sys.call())
}

#' @rdname socket_send
#' @export
socket_receive <- function(socket, type = c("object", "frame", "raw"), n = NULL, limit = 1e8,
                           timeout = NULL) {
  pointer <- socket_pointer(socket, "socket", sys.call())
  if (missing(type)) type <- "object" else check_choice(type, "type", socket_types, sys.call())
  if (is.null(n)) {
    n <- NA_real_
  } else {
    n <- check_bytes(n, "n", 1, sys.call())
    if (type != "raw") {
      abort_muster("input", "`n` is for `type = \"raw\"`: other messages have their own length.",
        argument = "n", call = sys.call()
      )
    }
  }
  limit <- check_bytes(limit, "limit", 1, sys.call())
  timeout <- check_timeout(timeout, call = sys.call())
  value <- .Call(ffi_socket_receive, pointer, socket_kinds[[type]], n, limit, timeout)
  if (is_failure(value)) {
    abort_socket(value, "receive from", socket, sys.call(),
      late = paste("No whole message came from", socket_where(socket$host, socket$port))
    )
  }
  if (type == "object") value[[1L]] else value
}

socket_types <- c("object", "frame", "raw")
socket_kinds <- list(raw = 0L, frame = 1L, object = 2L)

socket_put <- function(socket, pointer, x, type, timeout, call) {
  value <- .Call(ffi_socket_send, pointer, x, socket_kinds[[type]], timeout)
  if (is_failure(value)) {
    abort_socket(value, "send to", socket, call,
      late = paste0(
        socket_where(socket$host, socket$port), " didn't accept everything that was sent (",
        format(value$bytes, big.mark = ""), " bytes are left)"
      )
    )
  }
  invisible(value)
}
