#' Tasks: calls that run while you go on
#'
#' `task_submit()` hands a call to whichever worker is free and returns at once.
#' `task_value()` gives its value, waiting if need be. `task_done()` tells whether tasks are
#' done, `task_wait()` waits for all or any of several, `task_cancel()` ends tasks that
#' nobody wants any more.
#'
#' Tasks wait in a queue of the cluster, first in, first out. Each worker has one task to
#' evaluate and one more that it goes on with by itself. The queue is served while you
#' compute, too, by a second thread of the session, which begins when you have been away from
#' muster for 2 to 4 ms and ends with the last cluster.
#' Results stay bytes until they are asked for. A task that nothing refers to any more is
#' evaluated all the same, and its value dropped.
#'
#' Lost workers and tasks that take too long: see Healing in [cluster_start()]. Warnings and
#' messages of a task are signalled by `task_value()`, each time that it is asked.
#'
#' The function is sent as R serializes it: with its enclosing environment, unless that is the
#' global environment or a package's. What it uses of the global environment must be
#' there in the worker ([parallel::clusterExport()]), as for parallel's functions.
#'
#' Connections among the arguments, or as the value, are refused, and external pointers named
#' if the call fails: `muster.references`, see Globals in [cluster_map()].
#'
#' @param cl A cluster of [cluster_start()], or some of its nodes: then these get the task.
#' @param fun A function, or the name of one (a string), found in the worker.
#' @param ... Arguments of `fun`, evaluated now.
#' @param task A task of `task_submit()`.
#' @param tasks A task, or a list of tasks.
#' @param timeout Seconds to wait, 0 up; by default as long as it takes.
#' @param any If `TRUE`, wait only until one of them is done: at once if one is already.
#' @returns `task_submit()`: an object of class `"muster_task"`, to be used in this session
#'   only. `task_value()`: the value of the call. `task_done()`, `task_wait()`: a logical
#'   vector, one for each task. `task_cancel()`: `TRUE` for each task that was not done yet,
#'   invisibly.
#' @section Errors:
#' * `muster_error_input`: `fun` is no function, `cl` no cluster that can be used (or nodes of
#'   several), `task` no task of this session; or an argument or the value is, or holds, a
#'   connection (field `reference`: where).
#' * `muster_error_remote`: the call raised an error. Fields `worker`, `condition` (the
#'   worker's, without what can't be sent), `remote_call` (text) and `stack` (text, the calls
#'   that led there).
#' * `muster_error_lost`: it was lost with its worker more often than `retries` allows, or the
#'   cluster was stopped. `muster_error_timeout`: it took longer than the cluster's
#'   `timeout`; or it is not done after this `timeout` (the task goes on, field
#'   `task`). `muster_error_cancelled`: it was cancelled.
#' @section Cost:
#' One serialization of the call here and of the value there. Calls that wait for a worker
#' hold their bytes; past 256 MB of these `task_submit()` waits for workers to take some.
#' @section Source:
#' Calls that are sent without waiting are what `parallel::mcparallel()` and packages future
#' and mirai have, under other names; that each is healed by itself is muster's own.
#' @examples
#' cl <- cluster_start(2)
#' tasks <- lapply(1:4, function(i) task_submit(cl, function(i) i^2, i))
#' task_wait(tasks)
#' vapply(tasks, task_value, 0)
#' cluster_stop(cl)
#' @export
task_submit <- function(cl, fun, ...) {
  if (!is.function(fun)) {
    check_function(fun, sys.call())
  }
  task <- .Call(ffi_task_submit, cl, fun, list(...), NULL, NULL)
  if (is.integer(task)) {
    if (task == outcome_reference) {
      abort_reference(find_reference(list(...), "args"), sys.call())
    }
    abort_submit(cl, task, sys.call())
  }
  task
}

check_function <- function(fun, call) {
  if (!is.function(fun) && (!is.character(fun) || length(fun) != 1L || is.na(fun))) {
    abort_input("fun", "a function, or the name of one", fun, call)
  }
}

# Only looked at when there is something wrong, but for what C code can't judge.
abort_submit <- function(cl, outcome, call) {
  check_cluster(cl, call)
  if (outcome == outcome_type) {
    abort_muster("input", "`cl` must be nodes of one cluster.", call = call)
  }
  node <- Find(function(node) .Call(ffi_node_outcome, node) != 0L, cl)
  abort_node(if (is.null(node)) cl[[1L]] else node, outcome, call)
}

#' @rdname task_submit
#' @export
task_value <- function(task, timeout = Inf) {
  value <- .Call(ffi_task_value, task, timeout)
  if (length(value) == 1L && is.list(value)) {
    return(value[[1L]])
  }
  other_value(task, value, timeout, sys.call())
}

# What isn't a plain value: conditions, an error, a loss.
other_value <- function(task, value, timeout, call) {
  if (is.null(value)) {
    abort_muster("timeout", paste0("The task isn't done after ", timeout, " s."),
      hints = "It goes on: ask again, or task_cancel() it.", task = task, call = call
    )
  }
  if (is.integer(value)) {
    abort_task(task, value, call)
  }
  if (length(value) == 2L) {
    abort_value(value[[1L]], value[[2L]], call)
  }
  for (condition in value$conditions) {
    raise_condition(condition)
  }
  if (value$error) {
    abort_remote(value$value, value$worker, call)
  }
  value$value
}

abort_task <- function(task, outcome, call) {
  if (outcome == outcome_foreign) {
    check_task(task, call)
    abort_muster("input", "Can't use a task in another process than the one that submitted it.",
      call = call
    )
  }
  if (outcome == outcome_stopped) {
    abort_muster("cancelled", "The task was cancelled.", call = call)
  }
  loss <- .Call(ffi_task_loss, task)
  if (isTRUE(loss)) {
    abort_muster("lost", "The task was not evaluated: no worker that may have it is left.",
      hints = "cluster_status() tells why they ended; cluster_resize() starts others.", call = call
    )
  }
  if (is.null(loss)) {
    abort_muster("lost", "The task was not evaluated: its cluster was stopped.", call = call)
  }
  abort_loss(loss, "The task", "Run it alone to see why", call)
}

# The call's value is of no use in this process.
abort_value <- function(value, worker, call) {
  found <- find_reference(value, "value")
  abort_muster("input",
    paste0(
      "The call gave a ", found$kind, " (`", found$where, "`), which is of no use outside of ",
      "its worker."
    ),
    reference = found$where, worker = worker, call = call
  )
}

# abort_remote() raises the error that a call raised in a worker, see answer_condition().
abort_remote <- function(error, worker, call, what = paste("Worker", worker), hints = NULL, ...) {
  memory <- inherits(error$condition, "muster_error_memory")
  abort_muster(c(if (memory) "memory", "remote"),
    paste0(what, " raised an error: ", error$message),
    details = c(
      if (nzchar(error$call)) paste0("In: ", error$call),
      if (what != paste("Worker", worker)) paste("On worker", worker)
    ),
    hints = hints, worker = worker, condition = error$condition, remote_call = error$call,
    stack = error$stack, ..., call = call
  )
}

#' @rdname task_submit
#' @export
task_done <- function(tasks) task_wait(tasks, timeout = 0)

#' @rdname task_submit
#' @export
task_wait <- function(tasks, any = FALSE, timeout = Inf) {
  call <- sys.call()
  tasks <- check_tasks(tasks, call)
  check_flag(any, "any", call)
  if (!is.numeric(timeout) || length(timeout) != 1L || is.na(timeout) || timeout < 0) {
    abort_input("timeout", "a number of seconds from 0 up", timeout, call)
  }
  if (any || timeout == 0) {
    return(.Call(ffi_task_wait, tasks, any, as.double(timeout)))
  }
  wait_for_tasks(tasks, timeout)
}

#' @rdname task_submit
#' @export
task_cancel <- function(tasks) {
  tasks <- check_tasks(tasks, sys.call())
  invisible(vapply(tasks, function(task) isTRUE(.Call(ffi_task_cancel, task)), NA))
}

check_tasks <- function(tasks, call) {
  if (inherits(tasks, "muster_task")) {
    tasks <- list(tasks)
  }
  if (!is.list(tasks)) {
    abort_input("tasks", "a task of task_submit(), or a list of tasks", tasks, call)
  }
  for (task in tasks) {
    check_task(task, call)
  }
  tasks
}

check_task <- function(task, call) {
  if (!inherits(task, "muster_task")) {
    abort_input("task", "a task of task_submit()", task, call)
  }
}

#' @export
print.muster_task <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

#' @export
format.muster_task <- function(x, ...) {
  state <- .Call(ffi_task_state, x)
  if (is.integer(state)) {
    return("muster task of another session")
  }
  paste0(
    "muster task ", format(state$id), ", ", state$state,
    if (!is.na(state$worker)) paste0(" (worker ", state$worker, ")")
  )
}
