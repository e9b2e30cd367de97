# Nodes whose workers are R's own: parallel's contract over muster's links.
#
# A node's worker answers in order. If an interrupt or an error ended a verb early, its answers
# still arrive but nobody wants them: in the node's notes, `owed` counts the answers to come,
# `skip` how many of these to drop, and `frame` is the verb that sent the calls.

stock_node <- function(worker, auto_stop = TRUE) {
  o <- worker$o
  node <- list2env(list(
    link = worker$link, process = worker$process, host = o$host, rank = o$rank,
    start = "stock", pid = worker$pid, killed = FALSE, options = o, owner = Sys.getpid(),
    notes = .Call(ffi_hide, worker$link, new_notes()), session_info = NULL, stopped = FALSE
  ), parent = emptyenv())
  if (!auto_stop) {
    the_worker$kept <- c(the_worker$kept, worker$link)
  }
  makeActiveBinding("con", light_function(quote(stock_con_of(node)), node), node)
  structure(node, class = "muster_stock_node")
}

stock_con_of <- function(node) {
  answer_in_place()
  lives <- identical(node$owner, Sys.getpid()) && !node$stopped
  if (lives) node_con(stock_has_answer(node))
}

# Whether the oldest answer that is still wanted has arrived, or can't arrive.
stock_has_answer <- function(node) {
  notes <- stock_notes(node)
  repeat {
    state <- .Call(ffi_stock_poll, NULL, list(node$link), list(node$process), 0)$links
    if (state != stock_links[["whole"]] || notes$skip == 0L) {
      return(state != stock_links[["nothing"]])
    }
    stock_take(node)
    notes$skip <- notes$skip - 1L
  }
}

new_notes <- function() {
  list2env(list(owed = 0L, skip = 0L, frame = NULL), parent = emptyenv())
}

# A copy has none, and isn't usable.
stock_notes <- function(node) {
  notes <- .Call(ffi_hidden, node$notes)
  if (is.null(notes)) new_notes() else notes
}

# Asks all workers at once for their session information.
stock_ask <- function(nodes, options) {
  facts <- session_facts
  environment(facts) <- globalenv() # there may be no muster over there
  for (node in nodes) stock_send(node, exec_message(facts, list()), globalenv())
  for (node in nodes) {
    info <- recvData.muster_stock_node(node)$value
    if (is.list(info)) node$session_info <- info
  }
}

stock_send <- function(node, data, frame) {
  notes <- stock_notes(node)
  if (notes$owed > 0L && !identical(notes$frame, frame) && !identical(notes$frame, globalenv())) {
    notes$skip <- notes$owed
  }
  outcome <- .Call(ffi_stock_send, node$link, data, node$options$xdr, node$process)
  if (is.null(outcome) && identical(data$type, "EXEC")) {
    notes$owed <- notes$owed + 1L
    notes$frame <- frame
  }
  outcome
}

# The next message: list(message), or an outcome.
stock_take <- function(node) {
  taken <- .Call(ffi_stock_receive, node$link, node$process)
  if (is.list(taken)) {
    notes <- stock_notes(node)
    notes$owed <- max(0L, notes$owed - 1L)
  }
  taken
}

#' @exportS3Method parallel::sendData
sendData.muster_stock_node <- function(node, data) {
  outcome <- stock_send(node, data, .Call(ffi_caller_of, parent.frame(3L)))
  if (!is.null(outcome) && !identical(data$type, "DONE")) {
    abort_stock(node, outcome, verb_call())
  }
}

#' @exportS3Method parallel::recvData
recvData.muster_stock_node <- function(node) {
  notes <- stock_notes(node)
  repeat {
    taken <- stock_take(node)
    if (!is.list(taken)) {
      abort_stock(node, taken, verb_call())
    }
    if (notes$skip == 0L) {
      if (notes$owed == 0L) notes$frame <- NULL
      return(taken[[1L]])
    }
    notes$skip <- notes$skip - 1L
  }
}

#' @exportS3Method parallel::closeNode
closeNode.muster_stock_node <- function(node) {
  node$stopped <- TRUE
  .Call(ffi_stock_close, node$link)
  invisible()
}

# See recvOneData.muster_joined().
one_of_stock <- function(cl, at, slice_s) {
  nodes <- .subset(cl, at)
  states <- .Call(
    ffi_stock_poll, NULL, lapply(nodes, `[[`, "link"), lapply(nodes, `[[`, "process"), slice_s
  )$links
  for (k in which(states != stock_links[["nothing"]])) {
    node <- nodes[[k]]
    notes <- stock_notes(node)
    if (notes$owed == 0L) {
      next
    }
    if (states[k] == stock_links[["whole"]] && notes$skip > 0L) {
      stock_take(node)
      notes$skip <- notes$skip - 1L
    } else {
      return(list(node = at[k], value = recvData.muster_stock_node(node)))
    }
  }
  NULL
}

abort_stock <- function(node, outcome, call) {
  rank <- node$rank
  foreign <- !identical(node$owner, Sys.getpid())
  if (foreign || node$stopped) {
    abort_node(node, if (foreign) outcomes[["foreign"]] else outcomes[["stopped"]], call)
  }
  status <- if (!is.null(node$process)) stock_end_status(node$process)
  abort_muster(if (outcome == outcomes[["memory"]]) c("memory", "limit") else "lost",
    paste0("Worker ", rank, " (pid ", node$pid, " on host ", node$host, ") is lost."),
    details = c(
      if (node$killed) {
        c("It ended: killed by muster.", why_words[["killed"]])
      } else if (isFALSE(status$running)) {
        paste0("It ended: ", end_text(status), ".")
      },
      if (!is.null(status)) output_lines(status$output)
    ),
    hints = c(
      "The other workers remain usable, as in cl[-n].",
      "Workers without muster aren't replaced: cloneNode() starts another."
    ),
    worker = rank, pid = node$pid, host = node$host, exit_code = exit_field(status, "code"),
    signal = exit_field(status, "signal"), output = status$output,
    killed_by = if (node$killed) "muster" else if (!is.null(status)) killed_by(status),
    call = call
  )
}

# The connection's end is seen before the process's.
stock_end_status <- function(process) {
  end <- proc.time()[["elapsed"]] + 0.5
  repeat {
    status <- .Call(ffi_stock_process, process)
    if (!isTRUE(status$running) || proc.time()[["elapsed"]] > end) {
      return(status)
    }
    .Call(ffi_stock_poll, NULL, list(), list(process), 0.01)
  }
}

# Tells workers to exit, and waits for those that were launched from here.
stock_stop <- function(nodes) {
  for (node in nodes) {
    if (!identical(node$owner, Sys.getpid())) {
      abort_node(node, outcomes[["foreign"]], verb_call())
    }
    try(.Call(
      ffi_stock_send, node$link, list(type = "DONE", data = NULL, tag = NULL), node$options$xdr,
      NULL
    ), silent = TRUE)
    .Call(ffi_stock_close, node$link)
    node$stopped <- TRUE
  }
  the_worker$kept <- Filter(function(one) !any(vapply(nodes, function(node) {
    identical(node$link, one)
  }, NA)), the_worker$kept)
  signals_drop()
  stock_reap(lapply(nodes, `[[`, "process"), 5)
}

#' @export
print.muster_stock_node <- function(x, ...) {
  state <- if (is_stock_copy(x)) "copied" else if (x$stopped) "stopped" else ""
  cat("R's own worker ", x$rank, " on host ", sQuote(x$host), ", pid ", x$pid,
    node_state_text(state), "\n",
    sep = ""
  )
  invisible(x)
}
