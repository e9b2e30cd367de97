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
