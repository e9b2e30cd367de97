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
