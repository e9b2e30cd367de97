#' Find a free TCP port
#'
#' @description
#' Looks for a port on which this process can listen. The port is free when the function returns,
#' but another process may take it before you do. Listening on port 0, as [socket_listen()] does
#' by default, avoids this: the system then picks the port.
#'
#' @param ports Ports to try, from 0 to 65535, or `"random"` for 11000 to 11999 (or those of
#'   environment variable `R_PARALLELLY_RANDOM_PORTS`), or `"auto"` for the one of environment
#'   variable `R_PARALLEL_PORT`, if set, and else `"random"`.
#' @param default What to return if none is free: a port, `NA`, `"first"` or `"random"` (default)
#'   of `ports`.
#' @param randomize If `TRUE`, the default, the ports are tried in random order. The session's
#'   random number stream isn't affected.
#' @returns One port, an integer; `NA` for no ports at all.
#' @section Errors:
#' `muster_error_input`: `ports` or `default` isn't valid.
#' @section Cost:
#' Three system calls for each port that is tried.
#' @section Source:
#' `freePort()` of package parallelly.
#' @examples
#' freePort()
#' freePort(1024:2048, randomize = FALSE)
#' @export
freePort <- function(ports = 1024:65535, default = "random", randomize = TRUE) {
  call <- sys.call()
  check_flag(randomize, "randomize", call)
  if (identical(ports, "auto")) {
    ports <- Sys.getenv("R_PARALLEL_PORT", "random")
    if (!identical(ports, "random")) ports <- choose_port("auto", call)
  }
  if (identical(ports, "random")) {
    ports <- random_ports(call)
  }
  ok <- is.numeric(ports) && !anyNA(ports) && all(ports == trunc(ports))
  if (!ok || any(ports < 0 | ports > 65535)) {
    abort_input("ports", "ports from 0 to 65535, \"auto\" or \"random\"", ports, call)
  }
  check_default_port(default, call)
  if (!length(ports)) {
    return(NA_integer_)
  }
  ports <- as.integer(ports)
  for (port in if (randomize && length(ports) > 1L) shuffled(ports) else ports) {
    listening <- .Call(ffi_stock_listen, "0.0.0.0", port)
    if (is.null(listening$error)) {
      .Call(ffi_stock_close, listening$listener)
      return(listening$port)
    }
  }
  if (identical(default, "first")) {
    ports[1L]
  } else if (identical(default, "random")) {
    shuffled(ports)[1L]
  } else {
    as.integer(default)
  }
}

check_default_port <- function(default, call) {
  word <- default %in% c("first", "random")
  if (length(default) != 1L || !(is.na(default) || word || is_port(default))) {
    abort_input("default", "a port, NA, \"first\" or \"random\"", default, call)
  }
}
