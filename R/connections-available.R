#' How many connections R can have open
#'
#' R has a fixed number of places for connections (files, sockets, text connections): 128, unless
#' it was built or started otherwise (`--max-connections`, from R 4.4 on). Each worker of
#' [parallel::makeCluster()] takes one; muster's clusters take none.
#'
#' @returns A number, at least 3; `Inf` if there are more than 16384.
#'   `options(muster.availableConnections =)`, or `parallelly.availableConnections`, overrides the
#'   count.
#' @section Cost:
#' The first call of a session opens connections until R refuses, and closes them, which takes
#' some milliseconds. Later calls reuse the answer.
#' @section Source:
#' `availableConnections()` of package parallelly.
#' @examples
#' availableConnections()
#' @export
availableConnections <- function() connections_max()
