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

# ---- The source of availableCores()

# R connections that are left. Clusters of package parallel need one for each worker; muster's
# need none.

# `method` is "connections", or "connections-16" to leave 16 to others.
cores_connections <- function(method) {
  spare <- as.numeric(paste0("0", sub("^connections-?", "", method)))
  most <- connections_max()
  open <- length(getAllConnections())
  less <- if (spare > 0) paste0(", ", spare, " to spare") else ""
  cores_answer(min(max(most - open - spare, 1), .Machine$integer.max),
    open, " of ", most, " connections are open", less
  )
}

# How many connections this session can have, those of the console among them. R doesn't
# tell (it's 128 before R 4.4, and then an option of the command line), so they are
# opened until none is left, once a session.
connections_max <- function(memory = cores_detected) {
  option <- cores_option("availableConnections", type = "double")
  if (is.numeric(option) && length(option) == 1L && !is.na(option) && option >= 3) {
    return(option)
  }
  if (is.null(memory$connections)) {
    memory$connections <- count_connections()
  }
  memory$connections
}

# Past 16384 there's no end, as far as anybody's workers are concerned.
count_connections <- function(most = 16384L) {
  open <- list()
  on.exit(for (con in open) close_own(con))
  tryCatch(
    {
      while (length(open) < most) {
        open[[length(open) + 1L]] <- rawConnection(raw())
      }
      Inf
    },
    error = function(e) length(getAllConnections())
  )
}

# ---- Connections that are kept

# R's own connections (files, sockets), which R knows by number: as soon as one is closed, the
# next that anybody opens has its number. So whatever muster keeps for a while may have become
# a file of the user's, after closeAllConnections() for example. What no two connections of a
# session ever share is `conn_id`: a pointer that R gives to each and shows with the number.

# Is this still the connection that it was when it was opened?
connection_lives <- function(con) {
  id <- attr(con, "conn_id")
  if (is.null(id) || !as.integer(con) %in% getAllConnections()) {
    return(FALSE)
  }
  identical(attr(getConnection(con), "conn_id"), id)
}

# Closes it if it is; says nothing if R refuses (it is a sink, say).
close_own <- function(con) {
  if (connection_lives(con)) tryCatch(close(con), error = function(e) NULL)
}
