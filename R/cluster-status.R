#' Workers of a cluster: state, output, journal
#'
#' `cluster_status()` shows what each worker is doing. `cluster_logs()` returns the last lines
#' that the workers printed. `cluster_journal()` shows the calls that are kept to rebuild a worker
#' if it is lost. None of them asks the workers, so they return at once however busy the workers
#' are.
#'
#' While a call waits for workers, what they print is shown as it arrives, each line with the
#' worker's number, on the session's standard error (where `message()` writes), or in its output
#' where something catches that: a knitr document, [utils::capture.output()], package progressr.
#' The end of a call ends a line that it left without an end, such as `cat("50 %")`. What they print
#' at other times is kept for `cluster_logs()`; nothing appears at an idle prompt. With
#' `options(muster.quiet = TRUE)` nothing is shown. The newest lines of a cluster are kept, at
#' most 4,096 lines and 1 MB; lines longer than 4,096 bytes are split.
#'
#' @param cl A cluster from [cluster_start()]; for `cluster_status()` any other, too.
#' @returns `cluster_status()`: a data frame with one row for each worker of `cl`:
#'   `worker` (integer), `host`, `pid`, `state` (one of `"idle"`, `"busy"`, `"suspect"`: no
#'   response for half of the heartbeat, `"pending"`: its host isn't there yet, `"asleep"`: its host
#'   isn't needed now, `"draining"`: it finishes what it has and moves to another host, `"lost"`,
#'   `"restarting"`, `"stopped"`), `done` (tasks completed), `running` (seconds since its task
#'   began, `NA` if it has none), `restarts`, `heartbeat` (seconds since its last response), `rss`
#'   (bytes of memory in use, `NA` where the system doesn't tell), `cpu` (seconds used) and
#'   `healing`: with what it would come back if it were lost. `"state"`: as it is; `"replay"`:
#'   likewise, once all its calls have run again (workers that can't be copied: with threads, or
#'   not forked); `"fresh"`: as it was started;
#'   `"none"`: it wouldn't, or its state can't be restored, see Healing in [cluster_start()];
#'   `task`: the `.label` of the task that it evaluates, `NA` without one; `job`: the number of its
#'   host's job in a batch system, `NA` where there is none. It prints with units, such as 0.12 s
#'   and 34.5 MB, without `healing` where that is `"state"` for all, and without `task` and `job`
#'   where no worker has one; the columns themselves are numbers. Of R's own workers (see
#'   [makeClusterPSOCK()]) only host, pid and state are known, and `rss` and `cpu` on this machine;
#'   of those of [parallel::makeCluster()] what their nodes say. Their `state` is `"idle"`,
#'   `"busy"`, `"lost"` or `"stopped"`, and `NA` where only an answer could tell, as all else.
#'
#'   `cluster_logs()`: a data frame with a row for each line, oldest first: `worker` (integer),
#'   `time` (`POSIXct`: when the line came), `task` (the `.label` of the task that printed it, or
#'   `NA`) and `line` (text). It also has the texts of warnings and messages that were too many to
#'   be signalled, see [task_submit()]. What a program prints that a task has left behind counts as
#'   that of the task that runs then; and after output with NULs, as of `find -print0`, the lines of
#'   tasks that follow at once may have another's label.
#'
#'   `cluster_journal()`: a data frame with one row for each call that is kept: `worker`,
#'   `call` (text, at most 60 characters), `kind` (`"call"`; `"checkpoint"`: a copy of the worker's
#'   process, which stands for all calls before it), `bytes`, `seconds` (how long it took) and
#'   `failed`.
#' @section Errors:
#' `muster_error_input`: `cl` isn't a muster cluster, was stopped, or belongs to another process.
#' @section Cost:
#' Microseconds for each worker; `cluster_journal()` reads the calls that it shows.
#' @section Source:
#' Resident bytes and CPU time are those of `/proc/<pid>/stat`, see proc(5).
#' @seealso [cluster_start()] for healing.
#' @examples
#' cl <- cluster_start(2)
#' clusterEvalQ(cl, cat("hello\n"))
#' cluster_status(cl)
#' cluster_logs(cl)
#' cluster_journal(cl)
#' cluster_stop(cl)
#' @export
cluster_status <- function(cl) {
  call <- sys.call()
  rows <- if (!missing(cl) && has_others(cl)) {
    Map(status_row_other, unclass(cl), seq_along(cl), list(call))
  } else {
    check_cluster(cl, call)
    lapply(cl, status_row, call = call)
  }
  status <- do.call(rbind, rows)
  class(status) <- c("muster_status", "data.frame")
  status
}

#' @export
print.muster_status <- function(x, ...) {
  print(in_units(x), right = TRUE, row.names = FALSE, ...)
  invisible(x)
}

# The table as it is printed. The user may have removed or overwritten columns.
in_units <- function(x) {
  class(x) <- "data.frame"
  for (name in intersect(c("running", "heartbeat", "cpu"), names(x))) {
    if (is.numeric(x[[name]])) x[[name]] <- vapply(x[[name]], short_time, "")
  }
  if (all(x[["healing"]] == "state")) x$healing <- NULL
  for (name in c("task", "job")) if (all(is.na(x[[name]]))) x[[name]] <- NULL
  if (is.numeric(x[["rss"]])) {
    x$rss <- vapply(x$rss, function(bytes) if (is.na(bytes)) "" else bytes_text(bytes), "")
  }
  x
}

# "0.12 s", "3.5 min", "2.1 h", "4.2 d"
short_time <- function(seconds) {
  if (is.na(seconds)) {
    return("")
  }
  at <- 1L + (seconds >= 99.95) + (seconds >= 99.5 * 60) + (seconds >= 48 * 3600)
  number <- seconds / c(1, 60, 3600, 86400)[at]
  digits <- if (number >= 9.95) 0L else if (number >= 0.995) 1L else 2L
  paste(formatC(number, format = "f", digits = digits, decimal.mark = "."),
    c("s", "min", "h", "d")[at])
}

status_row <- function(node, call) {
  status <- .Call(ffi_node_look, node)
  if (is.integer(status)) {
    if (status != outcomes[["stopped"]]) {
      abort_node(node, status, call)
    }
    status <- list(
      pid = NA_integer_, state = "stopped", done = NA_real_, running_s = NA_real_,
      restarts = NA_integer_, heard_s = NA_real_, healing = "none", here = TRUE
    )
  }
  # On another host the pid is that of another process here, or of none.
  process <- .Call(ffi_process_stat, if (status$here) status$pid else NA_integer_)
  data.frame(
    worker = .subset2(node, "rank"), host = .subset2(node, "host"), pid = status$pid,
    state = status$state, done = status$done, running = status$running_s,
    restarts = status$restarts,
    heartbeat = if (status$state %in% away_states) NA_real_ else status$heard_s,
    rss = process[1L], cpu = process[2L], healing = status$healing,
    task = c(status$task, NA_character_)[1L], job = c(status$job, NA_character_)[1L]
  )
}

#' @rdname cluster_status
#' @export
cluster_logs <- function(cl) {
  call <- sys.call()
  check_cluster(cl, call)
  parts <- lapply(by_cluster(cl), function(group) {
    logs <- .Call(ffi_cluster_logs, group$pointer)
    if (is.integer(logs)) {
      abort_node(group$node, logs, call)
    }
    logs$time <- .POSIXct(logs$time)
    logs <- as.data.frame(logs)
    logs[logs$worker %in% group$ranks, , drop = FALSE]
  })
  logs <- do.call(rbind, parts)
  row.names(logs) <- NULL
  logs
}

#' @rdname cluster_status
#' @export
cluster_journal <- function(cl) {
  call <- sys.call()
  check_cluster(cl, call)
  rows <- lapply(cl, function(node) {
    entries <- .Call(ffi_node_journal, node)
    if (is.integer(entries)) {
      abort_node(node, entries, call)
    }
    data.frame(
      worker = rep(.subset2(node, "rank"), length(entries)),
      call = vapply(entries, entry_text, ""),
      kind = vapply(entries, entry_kind, ""),
      bytes = vapply(entries, `[[`, 0, "bytes"),
      seconds = vapply(entries, `[[`, 0, "elapsed_s"),
      failed = vapply(entries, `[[`, NA, "failed")
    )
  })
  do.call(rbind, rows)
}

entry_kind <- function(entry) {
  if (entry$checkpoint) "checkpoint" else "call"
}

# The expression of clusterEvalQ(), else the function and its first arguments.
entry_text <- function(entry) {
  if (entry$checkpoint) {
    return("(a copy of the worker's process)")
  }
  if (is.null(entry$payload)) {
    return("(large)")
  }
  call <- tryCatch(.Call(ffi_object_read, entry$payload), error = function(e) NULL)
  shown <- if (identical(call[[1L]], eval)) {
    call[[2L]][[1L]]
  } else {
    as.call(c(if (is.character(call[[1L]])) as.name(call[[1L]]) else call[[1L]], call[[2L]]))
  }
  text <- paste(trimws(deparse(shown, width.cutoff = 60L, nlines = 3L)), collapse = " ")
  if (nchar(text) > 60L) paste0(substr(text, 1L, 57L), "...") else text
}

# some: must it have a worker? here: may it be one without workers?
check_cluster <- function(cl, call, name = "cl", some = TRUE, here = FALSE) {
  check_given(cl, name, call)
  if (is_here(cl)) {
    if (!here) abort_no_workers(name, call)
    return(cl)
  }
  if (!inherits(cl, "muster_cluster")) {
    abort_input(name, "a cluster from cluster_start()", cl, call)
  }
  if (some && !length(cl)) {
    abort_muster("input", paste0("`", name, "` must have at least one worker."),
      hints = "An index selected no workers, as in cl[integer(0)].", argument = name, call = call
    )
  }
  cl
}

# FALSE also in a forked child: the cluster is its parent's.
is_running <- function(cl) {
  .Call(ffi_node_outcome, .subset2(cl, 1L)) %in% outcomes[c("fine", "lost")]
}
