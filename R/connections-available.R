#' How many connections R can have open
#'
#' R has a fixed number of places for connections (files, sockets, text connections): 128, unless
#' it was built or started otherwise (`--max-connections`, from R 4.4 on). Each worker of
#' [parallel::makeCluster()] takes one; muster's clusters take none.
#'
#' @returns A whole number, at least 3; `Inf` if there are more than
#'   `options(parallelly.availableConnections.tries)`, by default 16384.
#' @section Cost:
#' The first call of a session opens connections until R refuses, and closes them: some
#' milliseconds. Later calls know the answer.
#' @section Source:
#' `availableConnections()` of package parallelly.
#' @examples
#' availableConnections()
#' @export
availableConnections <- function() {
  if (is.null(the$connections)) {
    the$connections <- count_connections()
  }
  the$connections
}

count_connections <- function() {
  most <- check_count(getOption2("parallelly.availableConnections.tries", 16384L),
    "options(parallelly.availableConnections.tries)",
    call = NULL
  )
  open <- list()
  on.exit(for (one in open) close(one))
  known <- nrow(showConnections(all = TRUE))
  while (length(open) + known < most) {
    one <- tryCatch(rawConnection(raw()), error = function(e) NULL)
    if (is.null(one)) {
      return(length(open) + known)
    }
    open[[length(open) + 1L]] <- one
  }
  Inf
}
