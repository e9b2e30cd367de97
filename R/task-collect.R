# Several tasks at once.

#' Values of several tasks: all, the first, any
#'
#' `tasks_collect()` waits for all tasks and gives their values. `tasks_race()` gives the value of
#' the task that finishes first, or raises its error. `tasks_any()` gives the value of the first
#' that succeeds.
#'
#' Warnings and messages of a task are signalled when its value is taken, so in the order in which
#' the tasks end. Of tasks that are over at the same time, the first in the list comes first.
#'
#' @param tasks A list of tasks from [task_submit()] or maps from [task_map()].
#' @param timeout Seconds to wait, from 0 up; by default, as long as it takes.
#' @param on_error `"stop"`, the default: the first task that fails ends the wait with its error.
#'   `"return"`: the result has the error, a condition, in that task's place.
#' @param cancel If `TRUE`, the tasks whose values aren't needed any more are cancelled: the losers,
#'   or those that are left after an error or at the time limit. By default they go on, and
#'   [task_value()] gives their values.
#' @returns `tasks_collect()`: a list as long as `tasks`, in its order, with its names.
#'   `tasks_race()`, `tasks_any()`: one value.
#' @section Errors:
#' A task's error is that of [task_value()], and says which task it was by its position and its name
#' in `tasks`, or its label; field `index`: the position. Errors of `tasks_collect()` have the
#' field `results` too: a list of the values so far, `NULL` for the others.
#' * `muster_error_timeout`: the time was over.
#' * `muster_error_none`, of `tasks_any()`: all tasks failed. Field `errors`: a list of the errors.
#' * `muster_error_input`: `tasks` isn't a list of this session's tasks, or is empty, but for
#'   `tasks_collect()`.
#' @section Cost:
#' As [task_value()] of each.
#' @section Source:
#' `Promise.all()`, `race()` and `any()` of JavaScript; `promise_all()` and `promise_race()` of
#' package promises wait in an event loop.
#' @seealso [task_submit()], [task_map()]; [cluster_map()] for one function and many elements.
#' @examples
#' cl <- cluster_start(2)
#' tasks <- list(
#'   a = task_submit(cl, sum, 1, 2),
#'   b = task_submit(cl, function() {
#'     Sys.sleep(0.1)
#'     "late"
#'   })
#' )
#' tasks_race(tasks)
#' str(tasks_collect(tasks))
#' cluster_stop(cl)
#' @export
tasks_collect <- function(tasks, timeout = Inf, on_error = c("stop", "return"), cancel = FALSE) {
  call <- sys.call()
  tasks <- check_several(tasks, timeout, cancel, call)
  returns <- check_choice(on_error, "on_error", c("stop", "return"), call) == "return"
  results <- vector("list", length(tasks))
  names(results) <- names(tasks)
  on.exit(if (cancel) task_cancel(tasks))
  left <- take_each(tasks, timeout, call, function(i, outcome) {
    if (!is.null(outcome$error) && !returns) {
      outcome$error$results <- results
      raise_condition(outcome$error)
    }
    results[i] <<- list(if (is.null(outcome$error)) outcome$value else outcome$error)
    FALSE
  })
  if (length(left)) abort_left(tasks, left, timeout, call, results = results)
  if (the_cluster$drawn) tell_drawn(call)
  results
}

#' @rdname tasks_collect
#' @export
tasks_race <- function(tasks, timeout = Inf, cancel = FALSE) {
  call <- sys.call()
  first <- NULL
  tasks <- check_several(tasks, timeout, cancel, call, some = TRUE)
  on.exit(if (cancel) task_cancel(tasks))
  left <- take_each(tasks, timeout, call, function(i, outcome) {
    first <<- outcome
    TRUE
  })
  if (is.null(first)) abort_left(tasks, left, timeout, call)
  if (!is.null(first$error)) raise_condition(first$error)
  if (the_cluster$drawn) tell_drawn(call)
  first$value
}

#' @rdname tasks_collect
#' @export
tasks_any <- function(tasks, timeout = Inf, cancel = FALSE) {
  call <- sys.call()
  first <- NULL
  tasks <- check_several(tasks, timeout, cancel, call, some = TRUE)
  errors <- vector("list", length(tasks))
  names(errors) <- names(tasks)
  on.exit(if (cancel) task_cancel(tasks))
  left <- take_each(tasks, timeout, call, function(i, outcome) {
    if (is.null(outcome$error)) first <<- outcome else errors[[i]] <<- outcome$error
    !is.null(first)
  })
  if (is.null(first) && length(left)) abort_left(tasks, left, timeout, call, errors = errors)
  if (is.null(first)) abort_none(errors, call)
  if (the_cluster$drawn) tell_drawn(call)
  first$value
}

check_several <- function(tasks, timeout, cancel, call, some = FALSE) {
  tasks <- check_tasks(tasks, call)
  if (some && !length(tasks)) abort_input("tasks", "at least one task", tasks, call)
  check_wait(timeout, call)
  check_flag(cancel, "cancel", call)
  tasks
}

# Has take(i, outcome) called for each task when it is over, until that is TRUE. outcome: a list of
# `value` or `error`. Gives the positions of the tasks that it wasn't called for.
take_each <- function(tasks, timeout, call, take) {
  progress <- if (timeout > progress_after) new_progress(NULL, length(tasks), "tasks")
  on.exit(end_progress(progress))
  end <- now_seconds() + timeout
  open <- rep(TRUE, length(tasks))
  while (any(open)) {
    # Of very many, those that were submitted first end first.
    near <- utils::head(which(open), takes_from)
    patience <- max(0, min(progress_patience(progress), end - now_seconds()))
    over <- near[wait_some(tasks[near], TRUE, patience, call)]
    for (i in over) {
      open[i] <- FALSE
      if (take(i, outcome_of(tasks, i, call))) {
        return(which(open))
      }
    }
    if (!length(over) && now_seconds() >= end) break
    show_progress(progress, sum(!open))
  }
  which(open)
}

takes_from <- 500L

outcome_of <- function(tasks, i, call) {
  tryCatch(
    list(value = value_of(tasks[[i]], Inf, call, title_of(tasks, i))),
    muster_error = function(error) {
      error$index <- i
      list(error = error)
    }
  )
}

# By its position, and its name in the list or its own.
title_of <- function(tasks, i) {
  name <- names(tasks)[i]
  if (!length(name) || is.na(name) || !nzchar(name)) {
    name <- label_of(tasks[[i]])
  }
  paste0("Task ", i, if (!is.null(name)) paste0(" (`", name, "`)"))
}

abort_left <- function(tasks, left, timeout, call, ...) {
  abort_muster("timeout",
    paste0(
      length(left), " of ", length(tasks), " tasks ", if (length(left) == 1L) "isn't" else "aren't",
      " done after ", timeout, " s."
    ),
    details = paste(title_of(tasks, left[1L]), "is the first of them."),
    hints = "They go on, unless `cancel` is TRUE: ask again, or cancel them with task_cancel().",
    ..., call = call
  )
}

abort_none <- function(errors, call) {
  abort_muster("none", "All tasks failed.",
    details = sub("\n.*", "", vapply(utils::head(errors, 5L), conditionMessage, "")),
    hints = if (length(errors) > 5L) "The condition's field `errors` has them all.",
    errors = errors, call = call
  )
}
