# Whether R's own workers respond, see ?isNodeAlive.

#' @export
isNodeAlive.muster_stock_node <- function(x, timeout = 1, ...) {
  call <- sys.call()
  timeout <- check_seconds(timeout, "timeout", call = call)
  if (!identical(x$owner, Sys.getpid())) {
    abort_node(x, outcomes[["foreign"]], call)
  }
  if (!isTRUE(.Call(ffi_stock_state, x$link)$open)) {
    return(FALSE)
  }
  if (x$options$local && !process_runs(x$pid)) {
    return(FALSE)
  }
  notes <- stock_notes(x)
  if (notes$owed > notes$skip) {
    return(if (x$options$local) TRUE else NA)
  }
  stock_asked(x, timeout)
}

# Whether an idle worker answers. If its answer is late, later calls drop it.
stock_asked <- function(node, timeout) {
  if (!is.null(stock_send(node, exec_message(Sys.getpid, list()), globalenv()))) {
    return(FALSE)
  }
  notes <- stock_notes(node)
  end <- proc.time()[["elapsed"]] + timeout
  repeat {
    state <- .Call(ffi_stock_poll, NULL, list(node$link), list(node$process), 0.05)$links
    if (state == stock_links[["ended"]]) {
      return(FALSE)
    }
    if (state == stock_links[["whole"]]) {
      stock_take(node)
      if (notes$skip == 0L) {
        return(TRUE)
      }
      notes$skip <- notes$skip - 1L
    }
    if (proc.time()[["elapsed"]] > end) {
      notes$skip <- notes$owed
      return(FALSE)
    }
  }
}

# A zombie doesn't.
process_runs <- function(pid) {
  file <- file.path(proc_place(), pid, "stat")
  if (!file.exists(file.path(proc_place(), "self", "stat"))) {
    return(tools::pskill(pid, 0L))
  }
  line <- tryCatch(suppressWarnings(readLines(file, n = 1L)), error = function(e) NULL)
  length(line) == 1L && !grepl("^.*[)] [ZX]", line)
}

#' @export
killNode.muster_stock_node <- function(x, signal = tools::SIGTERM, ...) {
  signal <- check_count(signal, "signal", min = 0L, max = 64L, call = sys.call())
  if (!identical(x$owner, Sys.getpid())) {
    abort_node(x, outcomes[["foreign"]], sys.call())
  }
  if (!isTRUE(.Call(ffi_stock_state, x$link)$open)) {
    return(invisible(FALSE))
  }
  ends <- signal %in% c(tools::SIGTERM, tools::SIGKILL)
  sent <- if (x$options$local) {
    process_runs(x$pid) && tools::pskill(x$pid, signal)
  } else {
    stock_signal_there(x, signal)
  }
  if (ends && isTRUE(sent)) {
    x$killed <- TRUE
    # On another host, a worker ends when its connection does.
    .Call(ffi_stock_close, x$link)
    if (!is.null(x$process)) {
      .Call(ffi_stock_kill, x$process, signal)
      stock_reap(list(x$process), 5)
    }
    unlink(x$session_info$tempdir[x$options$local], recursive = TRUE)
  }
  invisible(sent)
}

# Asks another login to send the signal.
stock_signal_there <- function(node, signal) {
  o <- node$options
  o$revtunnel <- FALSE
  there <- paste0("kill -", signal, " ", node$pid)
  command <- paste(login_command(o, 1L, run = TRUE), quoted(there, o$shells[2L]))
  process <- .Call(ffi_stock_spawn, "/bin/sh", c("sh", "-c", command), character(), o$rank, NULL)
  if (is.list(process)) {
    return(NA)
  }
  stock_reap(list(process), 10)
  status <- .Call(ffi_stock_process, process)
  if (identical(exit_field(status, "code"), 255L)) NA else identical(exit_field(status, "code"), 0L)
}

#' @export
cloneNode.muster_stock_node <- function(x, ..., merge = FALSE, shutdown = TRUE) {
  call <- sys.call()
  check_flag(shutdown, "shutdown", call = call)
  given <- utils::modifyList(x$options$given, list(...), keep.null = TRUE)
  o <- node_options(given, call)
  if (shutdown && !x$stopped) {
    stock_stop(list(x))
  }
  start_stock(list(o), o$port, !is.null(x$session_info), TRUE, call)[[1L]]
}
