# future's contract: its resolved() asks a node's connection, by socketSelect(), whether the
# answer is there. Without one it waits for the answer, and warns.

# muster's nodes have no R connection. When code reads `con`, muster knows whether the answer is
# there, and returns one of two connections that the session has to itself: one that is always
# readable, or one on which nothing ever arrives.
node_con <- function(is_ready) {
  which <- if (is_ready) "ready" else "waiting"
  if (!signals_work()) {
    signals_close()
    the_parallel$signals <- signals_open()
  }
  the_parallel$signals[[which]]
}

# FALSE also after closeAllConnections(), or after somebody closed a node's `con`: their numbers
# may be those of the user's files then, which must not even be looked at.
signals_work <- function() {
  signals <- the_parallel$signals
  !is.null(signals) && connection_lives(signals$ready) && connection_lives(signals$waiting) &&
    tryCatch(signals_differ(signals), error = function(e) FALSE)
}

signals_differ <- function(signals) {
  identical(socketSelect(signals[c("ready", "waiting")], FALSE, 0), c(TRUE, FALSE))
}

# list(ready, waiting, ends), or NULL if R has no connection left, say: then nodes have none.
signals_open <- function() {
  signals <- list()
  done <- FALSE
  on.exit(if (!done) signals_shut(signals))
  tryCatch(
    {
      listener <- socket_listen(0L, "127.0.0.1")
      on.exit(socket_close(listener), add = TRUE)
      for (which in c("ready", "waiting")) {
        signals[[which]] <- socketConnection("127.0.0.1", listener$port,
          open = "a+b", blocking = FALSE
        )
        signals$ends[[which]] <- socket_accept(listener, 1)
      }
      socket_send(signals$ends$ready, raw(1), "raw", 1)
      done <- socketSelect(signals["ready"], FALSE, 1) && signals_differ(signals)
    },
    error = function(e) NULL
  )
  if (done) signals
}

# If a node's `con` is read later, new ones are opened.
signals_close <- function() {
  signals_shut(the_parallel$signals)
  the_parallel$signals <- NULL
}

signals_drop <- function() {
  if (!length(.Call(ffi_cluster_ids))) signals_close()
}

# Some may be closed already: by closeAllConnections(), or as the session ends.
signals_shut <- function(signals) {
  for (con in signals[names(signals) != "ends"]) close_own(con)
  for (end in signals$ends) tryCatch(socket_close(end), error = function(e) NULL)
}
