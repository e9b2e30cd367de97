#' Tasks: calls that run while you go on
#'
#' `task_submit()` hands a call to whichever worker is free and returns at once.
#' `task_value()` gives its value, and waits for it if necessary. `task_done()` tells whether
#' tasks are done, `task_wait()` waits for all or any of several, and `task_cancel()` ends tasks
#' that you no longer need.
#'
#' Tasks wait in a queue of the cluster, first in, first out, unless they have a `.priority` or a
#' `.group`. Each worker holds the task that it evaluates and one more, which it starts next without
#' asking. That one goes back into the queue when the first has run for 0.2 s, or when another
#' worker is idle and may take it. While your session computes, a second thread serves the queue: it
#' takes over when muster hasn't been called for 2 to 4 ms, and ends with the last cluster. Results
#' are kept serialized until you ask for them. A task that nothing refers to any more is evaluated
#' anyway, and its value dropped.
#'
#' For lost workers and tasks that take too long, see Healing in [cluster_start()].
#'
#' The function is sent as R serializes it: with its enclosing environment, unless that is the
#' global environment or a package's. The objects that it uses from the global environment and
#' from attached packages are found and sent too, see Globals in [cluster_map()]. The worker's
#' global environment has them while the task is evaluated. Objects that can't change are sent
#' once for consecutive tasks that need the same ones.
#'
#' Options, directory, variables and locale are the session's: see there.
#'
#' @section Tasks that need others:
#' An argument that is a task, itself or in a list, stands for that task's value:
#' `task_submit(cl, plot_it, task_submit(cl, load_it))`. `task_submit()` returns at once all the
#' same. The task waits, without a worker, until all the tasks that it needs are done, and then
#' goes before those that were submitted later. What they gave goes from worker to worker as it
#' came, large vectors by shared memory: your session doesn't read it, and you needn't keep the
#' task.
#' Conditions belong to the task that signalled them, so they are seen by who asks for its value.
#' A value that your session has taken and changed in place, as data.table's `:=` does, is passed
#' on as it is by then.
#'
#' If a task that is needed fails, is lost or is cancelled, those that need it are not evaluated,
#' and the error of each is `muster_error_needs`, with the first error's own classes.
#'
#' @section References:
#' Connections among the arguments or in the value are refused, and external pointers are
#' mentioned if the call fails: see `muster.references` under Globals in [cluster_map()].
#'
#' @section What a task leaves:
#' Workers serve many tasks, of several users and packages. So what a task leaves open in its worker
#' is closed when it has ended, with a value or an error: sinks, graphics devices, files; time
#' limits are lifted; and options that it has changed, and the working directory, are put back.
#' So it is after each piece of a map or a loop, within which elements are evaluated as by
#' `lapply()`. Options that are new stay, as packages set theirs when they are loaded; so do
#' variables, packages, environment variables, sockets and pipes. What was opened or set by calls
#' of package parallel, as `clusterEvalQ(cl, options(digits = 4))`, stays.
#'
#' @section Warnings and messages:
#' Those that no code in the worker handles are signalled in the session, in their order: a task's
#' by each call of `task_value()`, a map's and a partition's when a piece or a part is done. They
#' are shown as the session's options say. If R would do something other than show them in the
#' worker, it does: if the function, or an earlier call, sets `options(warn = 2)` there, a warning
#' becomes an error, which the function may handle; if `warn` is negative, a warning isn't shown; a
#' message sink, as of `capture.output(type = "message")`, gets messages, and warnings if `warn` is
#' 1. Handlers in the session see such a condition too, but too late: muffling it changes nothing.
#'
#' A worker keeps the first 32 MB of conditions of each task, piece or part: more than 20,000 plain
#' ones. How many more there were is a warning of class `muster_warning_dropped` (fields `worker`
#' and `dropped`, a number for each class); [cluster_logs()] has the texts of the last 1,000.
#'
#' @section Conditions at once:
#' Conditions of class `immediateCondition`, such as those of package progressr, are signalled in
#' the session while the task still runs: by whatever waits for it or looks at it, such as
#' [task_value()], [task_wait()], [task_done()], a map, a loop of foreach, and an event loop that
#' has a promise of it. Each is signalled once, in the task's order, also if a worker is lost and
#' the task is tried again; a part of a partition may say them again, and so does each attempt of
#' `.error_retries`. Warnings and messages of this class are shown then, too. Errors of this class
#' are errors. In calls by functions of package parallel, and in processes that a task has forked
#' itself (`mclapply()`), nobody hears such conditions.
#'
#' So progress moves while workers compute:
#' ```
#' slow_squares <- function(cl, x) {
#'   step <- progressr::progressor(along = x)
#'   cluster_map(cl, x, function(i) {
#'     Sys.sleep(1)
#'     step()
#'     i^2
#'   })
#' }
#' progressr::with_progress(slow_squares(cl, 1:10))
#' ```
#'
#' @param .cl A cluster from [cluster_start()], or some of its nodes: then one of these gets the
#'   task.
#' @param .fun A function, the name of one (a string), found in the worker, or a lambda such as
#'   `~ .x + 1`.
#' @param ... Arguments of `.fun`, evaluated now. Any name that doesn't begin with a dot is the
#'   function's. A task of the same cluster, itself or in a list without a class, stands for its
#'   value.
#' @param .args A list of further arguments, for names that begin with a dot.
#' @param .seed A whole number, or `TRUE` for one drawn in the session: the task draws from its own
#'   L'Ecuyer stream, the same on any worker and after a loss. `FALSE` and `NULL` are as in
#'   [cluster_map()]: after
#'   \code{\link[parallel:clusterSetRNGStream]{parallel::clusterSetRNGStream()}} tasks have
#'   streams in the order in which they are submitted.
#' @param .retries How often to try again if the task is lost with its worker: a whole number from 0
#'   up. By default, the `retries` given to [cluster_start()].
#' @param .error_retries How often to try again if the task raises an error, at once and in the same
#'   worker: a whole number from 0, the default, up. Each attempt draws the same random numbers, if
#'   `.seed` is given, and a message of class `muster_message_again` tells of the error before. What
#'   an attempt has changed (variables, environments, files) the next one finds changed.
#' @param .timeout Seconds that the task may take in its worker, all attempts after errors together,
#'   above 0; then it is ended. By default, the cluster's `timeout`.
#' @param .priority A whole number, 0 by default: of the tasks that wait, those with the highest go
#'   first, in the order in which they were submitted.
#' @param .group Whose task it is, one string, such as a Shiny session's token: of the tasks of one
#'   priority that wait, groups take turns, a task of each, however many each of them has; so a new
#'   group waits for at most two tasks of each other one. By default, the group of those without
#'   one. Each map is a group of its own, unless it is given one.
#' @param .label A name for the task, one string: `print()`, errors, [cluster_status()] and
#'   [cluster_logs()] show it.
#' @param .wait What to do while the queue is full, see Cost: `TRUE`, the default, waits for room;
#'   with `FALSE` the task isn't submitted, and the result is `NULL` at once.
#' @param task A task from `task_submit()`, or a map from [task_map()].
#' @param tasks A task, or a list of tasks. For `task_cancel()`, also a cluster: all its tasks that
#'   aren't over, see [cluster_tasks()].
#' @param label For `task_cancel()`: only tasks that have this `.label`. By default, all.
#' @param timeout Seconds to wait, from 0 up; by default, as long as it takes.
#' @param any If `TRUE`, wait only until one of them is done: at once if one is already.
#' @returns `task_submit()`: an object of class `"muster_task"`, which can be used in this session
#'   only; or `NULL`, see `.wait`. `task_value()`: the value of the call. `task_done()`,
#'   `task_wait()`: a logical vector, one for each task. `task_cancel()`: invisibly, `TRUE` for each
#'   task that wasn't done yet.
#' @section Errors:
#' * `muster_error_input`: `.fun` isn't a function, `.cl` isn't a usable cluster (or has nodes of
#'   several), `task` isn't a task of this session; an argument or the value is or contains a
#'   connection (field `reference`: where); or an argument is a map, a task of another cluster, or
#'   has a task within an object of a class.
#' * `muster_error_remote`: the call raised an error. It is of that error's own classes too, with
#'   its fields, and has fields `worker`, `condition` (the worker's, without what can't be sent),
#'   `remote_call` (text) and `stack` (text, the calls that led there).
#' * `muster_error_lost`: it was lost with its worker more often than `retries` allows, or the
#'   cluster was stopped. `muster_error_timeout`: it took longer than the cluster's
#'   `timeout`; or it wasn't done when the `timeout` of `task_value()` was over (the task goes on,
#'   field `task`). `muster_error_cancelled`: it was cancelled.
#' * `muster_error_needs`: a task that it needs failed, or memory was too short to pass its value
#'   on. Fields `task` (that task) and `cause` (its error, or `NULL`).
#' @section Cost:
#' One serialization of the call in the session and of the value in the worker; about 0.3 ms more if
#' objects from the global environment are sent too. Calls that wait for a worker are kept in
#' memory. When they have more bytes than `getOption("muster.queue_max")`, by default 256 MB for
#' each cluster, the queue is full, and `task_submit()` waits until workers have taken some. A task
#' that needs another costs some 60 us (a chain of 1,000, each of which needs the one before it).
#' @section Source:
#' `parallel::mcparallel()` and packages future and mirai also send calls without waiting, under
#' other names; recovering each lost task on its own is muster's addition.
#' @seealso [tasks_collect()] for the values of several tasks, [task_map()], [cluster_map()].
#' @examples
#' cl <- cluster_start(2)
#' tasks <- lapply(1:4, function(i) task_submit(cl, function(i) i^2, i))
#' task_wait(tasks)
#' vapply(tasks, task_value, 0)
#'
#' # The squares go from worker to worker.
#' total <- task_submit(cl, function(x) sum(unlist(x)), tasks)
#' task_value(total)
#' cluster_stop(cl)
#' @export
task_submit <- function(.cl, .fun, ..., .args = NULL, .seed = FALSE, .retries = NULL,
                        .error_retries = 0L, .timeout = NULL, .priority = 0L, .group = NULL,
                        .label = NULL, .wait = TRUE) {
  # A task without options, as next to all are, is submitted by one call.
  task <- if (the_cluster$plain && nargs() == ...length() + 2L) {
    .Call(ffi_task_try, .cl, .fun, list(...))
  }
  if (!is.null(task) && !is.list(task)) {
    return(task)
  }
  found <- task
  args <- list(...)
  if (missing(.fun) || !is.function(.fun)) {
    .fun <- task_function(.fun, sys.call())
  }
  if (!is.null(names(args)) || !is.null(.args)) {
    args <- user_args(args, .args, .fun, task_options, c(".cl", ".fun"), sys.call())
  }
  ranked <- !identical(.priority, 0L) || !is.null(.group)
  limits <- if (!is.null(.retries) || !is.null(.timeout) || ranked) {
    task_limits(.retries, .timeout, .priority, .group, sys.call())
  }
  if (!is.null(.label)) .label <- check_text(.label, ".label", sys.call())
  more <- list()
  if (!identical(.error_retries, 0L)) {
    more$again <- check_count(.error_retries, ".error_retries", 0L, 1000L, sys.call())
  }
  if (!isTRUE(.wait) && !check_flag(.wait, ".wait", sys.call()) && .Call(ffi_queue_full, .cl)) {
    return(NULL)
  }
  if (!isFALSE(.seed) || length(the_cluster$streams)) {
    more$seed <- map_stream(.seed, check_cluster(.cl, sys.call(), ".cl", here = TRUE), sys.call())
  }
  if (is_here(.cl)) {
    return(submit_here(.fun, args, more, .label, sys.call()))
  }
  if (is.null(found)) found <- .Call(ffi_needs, list(.fun, args))
  task <- if (is.null(found) && !length(more)) {
    .Call(ffi_task_submit, .cl, .fun, args, NULL, limits, .label)
  } else {
    if (!is.null(found)) {
      found <- checked_needs(with_methods(found, list(.fun, args)), .cl, sys.call())
    }
    submit_with_needs(.cl, .fun, args, found, more, limits, .label)
  }
  if (is.integer(task)) {
    task <- submit_again(task, .cl, .fun, args, found, more, limits, .label, sys.call())
  }
  if (is.null(.seed)) attr(task, "quiet") <- TRUE
  if (the_cluster$scales) wake_for_task(.subset2(.cl[[1L]], "id"))
  task
}

task_options <- paste0(".", c(
  "args", "seed", "retries", "error_retries", "timeout", "priority", "group", "label", "wait"
))

# As ffi_task_submit takes them.
task_limits <- function(retries, timeout, priority, group, call) {
  c(
    if (is.null(retries)) NA else check_count(retries, ".retries", 0L, 1000L, call),
    if (is.null(timeout)) 0 else check_seconds(timeout, ".timeout", call = call),
    0, check_priority(priority, call), 0, group_number(group, call)
  )
}

check_priority <- function(priority, call) {
  most <- .Machine$integer.max
  check_count(priority, ".priority", -most, most, call)
}

# A group's name as a number, 0 without one. Two names that had the same would share their turns.
group_number <- function(group, call) {
  if (is.null(group)) 0 else .Call(ffi_group, check_text(group, ".group", call))
}

# A task that wasn't submitted: because its arguments have tasks in them, or there is an error.
submit_again <- function(outcome, cl, fun, args, found, more, limits, label, call) {
  refused <- outcome == outcomes[["reference"]]
  needs <- if (refused) take_needs(args, call)
  if (!is.null(needs)) {
    submit <- function(needs) {
      submit_with_needs(cl, fun, needs$args, found, more, limits, label, needs)
    }
    task <- submit(needs)
    if (identical(task, outcomes[["memory"]])) {
      args <- with_values(needs$args, needs)
      needs <- take_needs(args, call)
      if (is.null(needs)) needs <- list(args = args)
      task <- submit(needs)
    }
    if (!is.integer(task)) {
      return(task)
    }
    outcome <- task
    args <- needs$args
    check_needs(needs$tasks, cl, outcome, call)
  }
  if (outcome == outcomes[["reference"]]) {
    check_arguments(args, call)
    abort_reference(find_reference(fun, ".fun"), call)
  }
  abort_submit(cl, outcome, call)
}

# A function that uses objects of the session: these are sent too, as for cluster_map(). If they
# can't change, they are sent to each worker once for consecutive tasks that need the same ones.
# needs: of take_needs(), or NULL.
submit_with_needs <- function(cl, fun, args, found, more, limits, label, needs = NULL) {
  policy <- reference_policy()
  if (policy == "error") check_references(fun, ".fun", sys.call(-1L))
  if (length(needs$tasks)) {
    more$at <- needs$at
    if (policy == "ignore") more$checks <- FALSE
    more$numbers <- numeric(length(needs$tasks)) # C code fills in those of the results
  }
  last <- the_task$task_job
  id <- .subset2(cl[[1L]], "id")
  same <- !is.null(last) && identical(last$id, id)
  if (!same || !is.null(found) || !last$bare || !identical(last$job$fun, fun)) {
    job <- task_job(fun, found)
    if (!length(more) && !any(lengths(job[lent_parts]))) {
      return(.Call(ffi_task_submit, cl, fun, args, NULL, limits, label))
    }
    if (job$fresh) {
      args <- c(list(job, args), more)
      return(.Call(ffi_task_submit, cl, "muster:::task_run", args, needs$tasks, limits, label))
    }
    if (!same || !identical(last$job, job)) {
      held <- .Call(ffi_job_hold, cl, job)
      if (is.integer(held)) {
        return(held)
      }
      if (!is.null(last)) .Call(ffi_job_release, last$held[[1L]])
      last <- the_task$task_job <- list(id = id, job = job, held = held, bare = is.null(found))
    }
  }
  .Call(
    ffi_task_submit, cl, "muster:::task_run", c(list(last$held[[2L]], args), more),
    c(last$held[1L], needs$tasks), limits, label
  )
}

task_job <- function(fun, found) {
  job <- list(
    fun = fun, globals = found$globals, left = found$left, packages = found$packages,
    namespaces = packages_for(found$classes), fresh = FALSE
  )
  job$there <- found$there
  job$methods <- found$methods
  # Tables that are changed in place also look the same before and after.
  job$fresh <- can_change(job, found$classes)
  job
}

# What a worker prepares for a job.
lent_parts <- c("globals", "there", "left", "packages", "namespaces", "methods")

# The job that the last tasks shared is useless without their cluster; another cluster gets its own.
drop_task_job <- function() {
  if (!is.null(the_task$task_job)) .Call(ffi_job_release, the_task$task_job$held[[1L]])
  the_task$task_job <- NULL
}

task_function <- function(fun, call) {
  check_given(fun, ".fun", call)
  fun <- function_of(fun, call)
  check_function(fun, call)
  fun
}

check_function <- function(fun, call) {
  if (!is.function(fun) && (!is.character(fun) || length(fun) != 1L || is.na(fun))) {
    abort_input(".fun", "a function, or the name of one", fun, call,
      hints = "Code is evaluated before the call: wrap it, as in \\() code or ~ code."
    )
  }
}

# Checked only when something is wrong, except for what C code can't judge.
abort_submit <- function(cl, outcome, call) {
  check_cluster(cl, call, ".cl")
  if (outcome == outcomes[["type"]]) {
    abort_muster("input", "`.cl` must be nodes of one cluster.", call = call)
  }
  node <- Find(function(node) .Call(ffi_node_outcome, node) != outcomes[["fine"]], cl)
  abort_node(if (is.null(node)) cl[[1L]] else node, outcome, call)
}

#' @rdname task_submit
#' @export
task_value <- function(task, timeout = Inf) {
  # In most cases it is done, or so in some microseconds.
  answer <- .Call(ffi_task_value, task, 0)
  if (is.null(answer)) answer <- waited_answer(task, timeout)
  if (is.list(answer) && length(answer) == 1L) {
    return(answer[[1L]])
  }
  value <- if (is_map(task)) {
    map_value(task, timeout, sys.call())
  } else {
    answered_value(task, answer, timeout, sys.call())
  }
  tell_drawn(sys.call())
  value
}

waited_answer <- function(task, timeout) {
  waits <- TRUE
  on.exit(if (waits) tell_goes_on(task))
  answer <- .Call(ffi_task_value, task, timeout)
  waits <- FALSE
  answer
}

# After Ctrl-C, at a prompt.
tell_goes_on <- function(task) {
  if (interactive()) {
    inform_muster("goes_on", paste0(
      task_title(task), " goes on: task_value() waits for it again, task_cancel() ends it."
    ), task = task)
  }
}

value_of <- function(task, timeout, call, what = task_title(task)) {
  if (is_map(task)) {
    map_value(task, timeout, call, what)
  } else {
    answered_value(task, .Call(ffi_task_value, task, timeout), timeout, call, what)
  }
}

# The value in an answer of ffi_task_value. what: how to speak of the task in errors.
answered_value <- function(task, answer, timeout, call, what = task_title(task)) {
  if (has_said(answer)) answer <- hear_answer(task, timeout, first = answer)
  if (is.list(answer) && length(answer) == 1L) {
    return(answer[[1L]])
  }
  other_value(task, answer, timeout, call, what)
}

other_value <- function(task, value, timeout, call, what = task_title(task)) {
  refuse_answer(task, value, timeout, call, what)
  tell_conditions(task, value)
  raise_answer(value, call, what, task)
  value$value
}

# With its label if it has one.
task_title <- function(task, none = "The task") {
  label <- label_of(task)
  if (is.null(label)) none else paste0("Task `", label, "`")
}

# What ffi_task_value gives if it isn't a plain value: neither value nor error of the call.
refuse_answer <- function(task, value, timeout, call, what) {
  if (is.null(value)) {
    abort_late(task, what, timeout, call)
  }
  if (is.integer(value)) {
    abort_task(task, value, call, what)
  }
  if (length(value) == 2L) {
    abort_value(value[[1L]], value[[2L]], call)
  }
}

raise_answer <- function(value, call, what, task = NULL) {
  if (value$error) {
    worker <- paste("Worker", value$worker)
    abort_remote(value$value, value$worker, call, if (what == "The task") worker else what,
      again = again_of_task(task)
    )
  }
}

abort_late <- function(task, what, timeout, call) {
  abort_muster("timeout", paste0(what, " isn't done after ", timeout, " s."),
    hints = paste0(what, " goes on: ask again, or cancel it with task_cancel()."),
    task = task, call = call
  )
}

# The rank of the worker that has a task, NA if none does.
task_worker <- function(task, call) {
  state <- .Call(ffi_task_state, task)
  if (is.integer(state)) abort_task(task, state, call)
  state$worker
}

abort_task <- function(task, outcome, call, what = task_title(task)) {
  if (outcome == outcomes[["foreign"]]) {
    check_task(task, call)
    abort_foreign(call)
  }
  if (outcome == outcomes[["broken"]]) {
    abort_broken(call)
  }
  if (outcome == outcomes[["memory"]]) {
    abort_muster(c("memory", "limit"),
      "Not enough memory for the task's value, or that of a task before it.",
      hints = "Its worker keeps it until task_value() finds enough, or task_cancel() drops it.",
      worker = task_worker(task, call), call = call
    )
  }
  if (outcome == outcomes[["stopped"]]) {
    abort_muster("cancelled", paste(what, "was cancelled."), call = call)
  }
  cause <- .Call(ffi_task_cause, task)
  if (!is.null(cause)) abort_cause(cause, what, call)
  loss <- .Call(ffi_task_loss, task)
  if (isTRUE(loss)) {
    abort_muster("lost",
      paste(what, "was not evaluated: no worker that could run it is left."),
      hints = "cluster_status() shows why they ended; cluster_resize() starts others.", call = call
    )
  }
  if (is.null(loss)) {
    abort_muster("lost", paste(what, "was not evaluated: its cluster was stopped."), call = call)
  }
  abort_loss(loss, what, "Run it alone to see why", call, again = again_of_task(task))
}

abort_foreign <- function(call) {
  abort_muster("input",
    "Can't use a task outside the process that submitted it, or after muster was unloaded.",
    call = call
  )
}

# The call's value doesn't work in this process.
abort_value <- function(value, worker, call) {
  found <- find_reference(value, "value")
  abort_muster("input",
    paste0(
      "The call returned a ", sub("pointer", "external pointer", found$kind), " (`", found$where,
      "`), which doesn't work outside its worker."
    ),
    reference = found$where, worker = worker, call = call
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
  check_wait(timeout, call)
  if (any || timeout == 0) {
    wait_some(tasks, any, timeout, call)
  } else {
    wait_for_tasks(tasks, timeout, call)
  }
}

#' @rdname task_submit
#' @export
task_cancel <- function(tasks, label = NULL) {
  call <- sys.call()
  check_given(tasks, "tasks", call)
  tasks <- if (inherits(tasks, "cluster")) {
    c(tasks_there(tasks, "tasks", call), maps_there(tasks))
  } else {
    check_tasks(tasks, call)
  }
  if (!is.null(label)) {
    check_string(label, "label", call)
    tasks <- Filter(function(task) identical(label_of(task), label), tasks)
  }
  # The youngest first: a task fails at once when one that it needs is cancelled.
  youngest <- order(vapply(tasks, task_id, 0), decreasing = TRUE)
  cancelled <- vapply(tasks[youngest], cancel_task, NA)
  invisible(cancelled[order(youngest)])
}

cancel_task <- function(task) {
  if (is_map(task)) cancel_map(task) else isTRUE(.Call(ffi_task_cancel, task))
}

check_wait <- function(timeout, call) {
  if (!is.numeric(timeout) || length(timeout) != 1L || is.na(timeout) || timeout < 0) {
    abort_input("timeout", "a number of seconds from 0 up", timeout, call)
  }
}

check_tasks <- function(tasks, call) {
  check_given(tasks, "tasks", call)
  if (inherits(tasks, "muster_task")) {
    tasks <- list(tasks)
  }
  if (!is.list(tasks)) {
    abort_input("tasks", "a task from task_submit(), or a list of tasks", tasks, call)
  }
  for (task in tasks) {
    check_task(task, call)
  }
  tasks
}

check_task <- function(task, call) {
  if (!inherits(task, "muster_task")) {
    abort_input("task", "a task from task_submit()", task, call)
  }
  if (is_map(task) && !is_map_here(task)) abort_foreign(call)
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
    what <- if (state == outcomes[["broken"]]) "a cluster that was closed" else "another session"
    return(paste("muster task of", what))
  }
  paste0(
    "muster task ", format(state$id), if (!is.null(state$label)) paste0(" (`", state$label, "`)"),
    ", ", state$state,
    if (!is.na(state$worker)) paste0(" (worker ", state$worker, ")")
  )
}
