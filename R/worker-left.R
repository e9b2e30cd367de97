# What a task leaves open or changed in its worker, where nobody would expect it later: see
# src/ffi/worker/left.c. The task may have been anybody's, so that the next one, perhaps another
# user's or package's, mustn't print into its file or stop at its time limit.

# Called from C code after a task, before its answer. before: as it was before the task. What was
# open then stays open.
put_away <- function(before) {
  for (put in list(
    end_sinks, end_message_sink, close_devices, close_connections, put_directory_back, reset_options
  )) {
    tryCatch(put(before), error = function(e) NULL)
  }
}

end_sinks <- function(before) while (sink.number() > before$sinks) sink()

end_message_sink <- function(before) {
  if (sink.number("message") == before$messages) {
    return()
  }
  to <- if (before$messages > 2L) getConnection(before$messages)
  sink(to, type = "message")
}

close_devices <- function(before) {
  for (device in setdiff(grDevices::dev.list(), before$devices)) grDevices::dev.off(device)
}

# Sockets and pipes stay: a cluster that a task has started may serve the next one, too.
close_connections <- function(before) {
  for (number in setdiff(getAllConnections(), before$connections)) {
    connection <- getConnection(number)
    if (!inherits(connection, lasting_connections)) close(connection)
  }
}
lasting_connections <- c("sockconn", "servsockconn", "pipe", "fifo", "terminal")

# Options that are new stay: those of packages that the task has loaded are among them.
reset_options <- function(before) put_options_back(before, new = TRUE)
