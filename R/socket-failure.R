# Sockets: checks of their arguments, and the conditions of failures.

# Seconds that a call may wait, 0: don't wait; NULL becomes NA, the socket's own timeout.
check_timeout <- function(x, name = "timeout", call = sys.call(-1)) {
  if (is.null(x)) {
    return(NA_real_)
  }
  if (!is.numeric(x) || length(x) != 1L || is.na(x) || x < 0) {
    abort_input(name, "NULL or a number of seconds from 0 up", x, call)
  }
  as.double(x)
}

# Bytes, a whole number of at least min.
check_bytes <- function(x, name, min, call = sys.call(-1)) {
  ok <- is.numeric(x) && length(x) == 1L && !is.na(x) && x >= min && (x == Inf || x == trunc(x))
  if (!ok) {
    abort_input(name, paste("a whole number of bytes from", min, "up"), x, call)
  }
  as.double(x)
}

check_host <- function(host, name = "host", call = sys.call(-1)) {
  if (!is.character(host) || length(host) != 1L || is.na(host) || !nzchar(host)) {
    abort_input(name, "a host's name or address, or the path of a unix socket", host, call)
  }
  host
}

# A port; ignored if the host is a path.
check_port <- function(port, host, min, call = sys.call(-1)) {
  if (is_socket_path(host)) {
    return(0L)
  }
  check_count(port, "port", min, 65535L, call = call)
}

is_socket_path <- function(host) startsWith(host, "/") || startsWith(host, "unix:")

# The pointer of a socket.
socket_pointer <- function(x, name, call) {
  check_given(x, name, call)
  if (!inherits(x, "muster_socket")) {
    abort_input(name, "a socket from muster", x, call, hints = c(
      "socket_listen(), socket_accept() and socket_connect() create sockets.",
      if (inherits(x, "connection")) "For connections of base R, use socketSelect() or readLines()."
    ))
  }
  .subset2(x, "pointer")
}

is_failure <- function(value) inherits(value, "muster_failure")

# "node07:11562", "[::1]:11562", "/run/x.sock"
socket_where <- function(host, port) {
  if (is.null(port) || is.na(port)) {
    return(host)
  }
  if (grepl(":", host, fixed = TRUE)) host <- paste0("[", sub("^\\[(.*)\\]$", "\\1", host), "]")
  paste0(host, ":", port)
}

seconds_text <- function(x, digits = 3L) {
  paste(format(x, digits = digits, decimal.mark = "."), "s")
}

# abort_socket() raises the error of a failure. doing: the operation, as in "receive a line from".
# socket: list(host, port). late: one sentence for a timeout, without its time.
abort_socket <- function(failure, doing, socket, call, late = NULL) {
  socket_misuse(failure, call)
  host <- .subset2(socket, "host")
  port <- .subset2(socket, "port")
  where <- socket_where(host, port)
  bytes <- failure$bytes
  facts <- socket_texts(failure, where, late)
  kind <- switch(failure$kind, shortage = "limit", failure$kind)
  if (kind == "input") {
    abort_muster("input", paste0("Can't ", doing, " ", where, ": ", failure$error, "."),
      argument = "host", call = call
    )
  }
  abort_muster(kind,
    if (is.null(facts$message)) {
      paste0("Can't ", doing, " ", where, ": ", facts$why, ".")
    } else {
      facts$message
    },
    details = facts$details, hints = facts$hints, host = host, port = port,
    errno = failure$errno, elapsed_s = failure$elapsed_s,
    bytes = if (bytes >= 0) bytes, call = call
  )
}

# list(message or why, details, hints) of a failure.
socket_texts <- function(failure, where, late) {
  bytes <- failure$bytes
  switch(failure$kind,
    connect = list(why = low_first(failure$error), hints = connect_hint(failure)),
    timeout = list(message = paste0(
      if (is.null(late)) paste0("Nothing happened at ", where) else late,
      " within ", seconds_text(failure$elapsed_s), "."
    )),
    closed = list(
      why = paste("the connection", closed_text(failure)),
      details = if (bytes > 0) {
        paste(bytes, "bytes of an incomplete message had arrived.")
      }
    ),
    limit = list(
      why = low_first(failure$error),
      details = if (bytes >= 0) paste0("It has ", format(bytes, big.mark = ""), " bytes."),
      hints = "Raise `limit` if you expect that much; the message can still be received."
    ),
    shortage = list(
      why = low_first(failure$error),
      hints = "Close sockets or files, or raise this session's limit: `ulimit -n`."
    ),
    protocol = list(
      why = low_first(failure$error),
      hints = "The other end must send with socket_send(), and the same `type`."
    ),
    list(why = low_first(failure$error))
  )
}

low_first <- function(text) paste0(tolower(substr(text, 1L, 1L)), substring(text, 2L))

closed_text <- function(failure) {
  if (failure$errno == 0L) "was closed by the other end" else {
    paste0("has failed (", low_first(failure$error), ")")
  }
}

connect_hint <- function(failure) {
  if (grepl("refused", failure$error, ignore.case = TRUE)) {
    "Nobody listens there: is the other program running, and is the port right?"
  } else if (grepl("in use", failure$error, ignore.case = TRUE)) {
    "Another program listens there. Port 0 picks a free one."
  }
}

# Sockets that can't be used in this process or for this purpose.
socket_misuse <- function(failure, call) {
  must <- switch(failure$kind,
    no_socket = , copy = "is a copy that was saved or sent, and is connected to nothing",
    foreign = "belongs to another process: this one was forked from it",
    closed_here = "was closed",
    no_listener = "is a connection, and must be a listener",
    no_connection = "is a listener, and must be a connection"
  )
  if (is.null(must)) {
    return(invisible())
  }
  hints <- switch(failure$kind,
    no_listener = "socket_listen() creates listeners.",
    no_connection = "socket_accept() returns the connections that arrive at it.",
    closed_here = NULL,
    "Connect again in this process."
  )
  kinds <- if (failure$kind == "closed_here") c("closed", "input") else "input"
  abort_muster(kinds, paste0("The socket ", must, "."),
    hints = hints, argument = "socket", call = call
  )
}
