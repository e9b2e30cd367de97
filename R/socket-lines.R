#' Send and receive lines of text
#'
#' For peers that use text: lines that end with `"\n"` or `"\r\n"`, in the peer's encoding. As
#' with [socket_send()], an interrupted or timed-out call loses nothing.
#'
#' @inheritParams socket_send
#' @param text A character vector; each element becomes a line. A line end inside an element is an
#'   error, since it would split the line in two.
#' @param sep What ends each line: `"\n"`, the default, or `"\r\n"`.
#' @param encoding The other end's encoding: `"UTF-8"` (the default), `"latin1"`, `"bytes"` (as
#'   they are), or another that [base::iconv()] knows and that ends lines with byte 0x0A.
#' @param n How many lines to receive: a whole number from 1 up, by default 1. `NULL`: all that
#'   have arrived, at least one.
#' @param limit Maximum length of a line in bytes, by default 1e6, so that a peer that never ends
#'   its line can't fill this machine's memory.
#' @returns `socket_send_lines()`: as [socket_send()]. `socket_receive_lines()`: a character
#'   vector of `n` lines without their ends, in UTF-8 (for `"bytes"`, marked so). Fewer when
#'   the other end has closed, the last one perhaps without an end, then `character(0)`. On a
#'   connection that doesn't block, or with `timeout = 0`: the lines that are there, at most
#'   `n`; `NULL` if no line is there.
#' @section Errors:
#' As [socket_receive()]; `muster_error_limit`: a line is longer than `limit`.
#' `muster_error_protocol`: a line contains a NUL, or isn't valid in `encoding`; field `lines` has
#' the received lines, as a list of raw vectors.
#' @section Source:
#' [base::readLines()] and [base::writeLines()] on connections with an encoding.
#' @section Cost:
#' As [socket_receive()].
#' @examples
#' server <- socket_listen()
#' client <- socket_connect("127.0.0.1", server$port)
#' peer <- socket_accept(server)
#' socket_send_lines(client, c("HELO caf\u00e9", "QUIT"), encoding = "latin1")
#' socket_receive_lines(peer, 2, encoding = "latin1")
#' lapply(list(client, peer, server), socket_close)
#' @export
socket_send_lines <- function(socket, text, sep = "\n", encoding = "UTF-8", timeout = NULL) {
  call <- sys.call()
  pointer <- socket_pointer(socket, "socket", call)
  check_choice(sep, "sep", c("\n", "\r\n"), call)
  encoding <- check_encoding(encoding, call)
  timeout <- check_timeout(timeout, call = call)
  if (!is.character(text) || anyNA(text)) {
    abort_input("text", "a character vector without NA", text, call)
  }
  text <- encode_lines(text, encoding, call)
  bytes <- charToRaw(paste0(text, sep, collapse = ""))
  socket_put(socket, pointer, if (length(text)) bytes else raw(), "raw", timeout, call)
}

#' @rdname socket_send_lines
#' @export
socket_receive_lines <- function(socket, n = 1L, encoding = "UTF-8", limit = 1e6,
                                 timeout = NULL) {
  call <- sys.call()
  pointer <- socket_pointer(socket, "socket", call)
  n <- if (is.null(n)) NA_real_ else as.double(check_count(n, "n", call = call))
  encoding <- check_encoding(encoding, call)
  limit <- check_bytes(limit, "limit", 1, call)
  timeout <- check_timeout(timeout, call = call)
  value <- .Call(ffi_socket_lines, pointer, n, limit, timeout)
  if (is_failure(value)) {
    abort_socket(value, "receive a line from", socket, call,
      late = paste(
        if (identical(n, 1) || is.na(n)) "No whole line" else paste("Fewer than", n, "lines"),
        "came from", socket_where(socket$host, socket$port)
      )
    )
  }
  if (is.null(value)) NULL else decode_lines(value, encoding, socket, call)
}

check_encoding <- function(encoding, call) {
  if (!is.character(encoding) || length(encoding) != 1L || is.na(encoding)) {
    abort_input("encoding", "the name of an encoding", encoding, call)
  }
  if (encoding %in% c("UTF-8", "latin1", "bytes")) {
    return(encoding)
  }
  # A line's end must be the byte 0x0A, and not part of another character.
  end <- tryCatch(iconv("\n", "UTF-8", encoding, toRaw = TRUE)[[1L]], error = function(e) NULL)
  if (!identical(end, as.raw(10L))) {
    abort_input("encoding", "an encoding that iconv() knows and that ends lines with byte 0x0A",
      encoding, call
    )
  }
  encoding
}

encode_lines <- function(text, encoding, call) {
  if (encoding == "bytes") {
    Encoding(text) <- "bytes"
    raws <- lapply(text, charToRaw)
  } else {
    raws <- iconv(enc2utf8(text), "UTF-8", encoding, toRaw = TRUE)
    bad <- which(vapply(raws, is.null, NA))
    if (length(bad)) {
      abort_muster("input",
        paste0("Element ", bad[1L], " of `text` can't be written in ", encoding, "."),
        argument = "text", call = call
      )
    }
  }
  ends <- vapply(raws, function(bytes) any(bytes == as.raw(10L)), NA)
  if (any(ends)) {
    abort_muster("input",
      paste0("Element ", which(ends)[1L], " of `text` contains a line break."),
      hints = "Split it, as strsplit(text, \"\\n\") does.", argument = "text", call = call
    )
  }
  vapply(raws, rawToChar, "")
}

# Raw vectors to text; the error for invalid ones contains them.
decode_lines <- function(raws, encoding, socket, call) {
  text <- tryCatch(vapply(raws, rawToChar, ""), error = function(e) NULL)
  if (!is.null(text)) {
    if (encoding %in% c("UTF-8", "bytes")) {
      Encoding(text) <- encoding
      if (encoding == "UTF-8" && !all(validUTF8(text))) text <- NULL
    } else {
      text <- iconv(text, encoding, "UTF-8")
      if (anyNA(text)) text <- NULL
    }
  }
  if (is.null(text)) {
    abort_muster("protocol",
      paste0(
        "A line from ", socket_where(socket$host, socket$port), " isn't text in ", encoding, "."
      ),
      hints = "`encoding` must be the other end's; the error's field `lines` has the bytes.",
      lines = raws, host = socket$host, port = socket$port, errno = 0L, elapsed_s = 0,
      call = call
    )
  }
  text
}
