# cluster_status() of clusters that have R's own workers.

status_row_other <- function(node, at, call) {
  switch(node_kinds(list(node)),
    muster = status_row(node, call),
    stock = stock_status_row(node, call),
    other_status_row(node, at)
  )
}

# A worker of makeClusterPSOCK(): what its link and its process tell without asking it.
stock_status_row <- function(node, call) {
  if (is_stock_copy(node)) abort_node(node, outcomes[["foreign"]], call)
  notes <- stock_notes(node)
  here <- isTRUE(node$options$local)
  open <- isTRUE(.Call(ffi_stock_state, node$link)$open)
  state <- if (node$stopped) {
    "stopped"
  } else if (!open || (here && !process_runs(node$pid))) {
    "lost"
  } else if (notes$owed > notes$skip) {
    "busy"
  } else {
    "idle"
  }
  unknown_status_row(node$rank, node$host, node$pid, state, here)
}

# A worker of package parallel, of which its node has what there is.
other_status_row <- function(node, at) {
  field <- function(name) if (is.list(node)) node[[name]]
  rank <- field("rank")
  host <- field("host")
  pid <- if (is.list(field("session_info"))) field("session_info")$process$pid
  unknown_status_row(
    if (length(rank) == 1L && is.numeric(rank) && rank > 0) as.integer(rank) else at,
    if (is.character(host) && length(host) == 1L) as.vector(host) else NA_character_,
    if (length(pid) == 1L && is.numeric(pid)) as.integer(pid) else NA_integer_,
    if (is_closed(node)) "lost" else NA_character_,
    isTRUE(isLocalhostNode(node))
  )
}

unknown_status_row <- function(rank, host, pid, state, here) {
  alive <- here && !state %in% c("lost", "stopped")
  process <- .Call(ffi_process_stat, if (alive) pid else NA_integer_)
  data.frame(
    worker = rank, host = as.vector(host), pid = pid, state = state, done = NA_real_,
    running = NA_real_, restarts = NA_integer_, heartbeat = NA_real_, rss = process[1L],
    cpu = process[2L], healing = "none", task = NA_character_, job = NA_character_
  )
}
