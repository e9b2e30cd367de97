# Promises of package promises, and event loops of package later, which wait for a descriptor that
# C code makes readable when tasks are over (src/ffi/session/notify.c).

#' Promises of tasks
#'
#' A task, of [task_submit()] or [task_map()], is a promise of package promises: it can be given to
#' `then()`, `%...>%` and `promise_all()`, and with promises 1.5.0 or newer be the value of a Shiny
#' output. Elsewhere, as in a handler of httpuv, return `as.promise(task)`. Meanwhile the session
#' serves others: the event loop of package later sleeps until a task has finished.
#'
#' The promise is resolved with the task's value, or rejected with the error that [task_value()]
#' would raise: that of the task itself, or of one that was lost too often, took too long or was
#' cancelled. Warnings and messages of a task are signalled just before, those of a map's elements
#' as they come.
#'
#' In a Shiny app, a task's function takes the frame along that it was made in, with all that is
#' there: that of the server function, or, of functions at the top level of `app.R`, the app's. So
#' keep large data elsewhere (`global.R`, a package), or set `environment(fun) <- globalenv()`, and
#' pass values as arguments. A message of class `muster_message_large` names what each task takes
#' along, from 10 MB on. Shiny handles no clicks of a session while one of its
#' outputs waits for a promise: a task with a button to cancel it belongs into an observer that
#' returns `NULL` and hands the value to a `reactiveVal()`.
#'
#' @param x A task.
#' @returns A promise.
#' @section Errors:
#' `muster_error_input` if package later is older than 1.4.0.
#' @section Cost:
#' Some 200 us from the end of the task to the promise.
#' @section Source:
#' [promises::as.promise()]; [later::later_fd()].
#' @seealso [task_submit()], [task_map()].
#' @examplesIf requireNamespace("promises", quietly = TRUE) && packageVersion("later") >= "1.4.0"
#' cl <- cluster_start(2)
#' promises::then(task_submit(cl, function() 6 * 7), print)
#' while (!later::loop_empty()) later::run_now(1)
#' cluster_stop(cl)
as.promise.muster_task <- function(x) {
  if (!has_later()) {
    abort_muster("input", "Promises of tasks need package later, version 1.4.0 or newer.",
      hints = "install.packages(\"later\")", call = NULL
    )
  }
  check_task(x, NULL)
  promise <- promises::promise(function(resolve, reject) {
    promise <- list2env(list(
      task = x, resolve = resolve, reject = reject, loop = later::current_loop(), settled = FALSE
    ), parent = emptyenv())
    drop_inherited()
    the_parallel$promises <- c(the_parallel$promises, promise)
    on.exit(listen_on())
    .Call(ffi_notify, TRUE)
    # After that: what ends from now on makes the descriptor readable.
    if (are_done(list(x))) settle_promise(promise)
  })
  # Raised again as by the caller's code: shiny shows no other error, and its page would hang.
  promises::catch(promise, function(error) stop(error)) # tidy: again
}

is.promising.muster_task <- function(x) TRUE # a generic since promises 1.5.0

# later_fd() is there since later 1.4.0.
has_later <- function() {
  requireNamespace("promises", quietly = TRUE) && requireNamespace("later", quietly = TRUE) &&
    exists("later_fd", asNamespace("later"), inherits = FALSE)
}

# A forked child leaves its parent's promises to the parent.
drop_inherited <- function() {
  if (!identical(the_parallel$promises_pid, Sys.getpid())) {
    the_parallel$promises <- list()
    the_parallel$listens <- list()
    the_parallel$turns <- integer()
    the_parallel$promises_pid <- Sys.getpid()
  }
}

# Settles the promises of an event loop whose tasks are over. What follows a promise runs in the
# loop that settles it, so it has to be the promise's own. Users' handlers of conditions may run
# event loops, make promises, or jump out of here.
tasks_are_over <- function(loop) {
  drop_inherited()
  on.exit(listen_on())
  # First: the descriptor is readable again if a task ends after that.
  .Call(ffi_notified)
  mine <- promises_of(loop)
  for (promise in mine[are_done(lapply(mine, `[[`, "task"))]) settle_promise(promise)
}

promises_of <- function(loop) {
  Filter(function(promise) identical(promise$loop, loop), the_parallel$promises)
}

# Has each event loop that has promises wait for the descriptor, once; or go on with its next turn
# if something is over that hasn't been seen to. Runs no code of the user's. All loops share the
# descriptor: what was read from it here may have been meant for others.
listen_on <- function() {
  if (!length(the_parallel$promises)) {
    return(invisible())
  }
  goes_on <- function(promise) !promise$settled && later::exists_loop(promise$loop)
  the_parallel$promises <- Filter(goes_on, the_parallel$promises)
  fd <- .Call(ffi_notify, length(the_parallel$promises) > 0L)
  news <- have_news(lapply(the_parallel$promises, `[[`, "task"))
  loops <- lapply(the_parallel$promises, `[[`, "loop")
  stop_listening(unique(loops[!news]))
  for (loop in unique(loops[news])) turn_in(loop)
  for (loop in unique(loops[!news])) listen_in(loop, fd)
}

# Of other loops than these: a loop that waits for nothing isn't to seem busy.
stop_listening <- function(loops) {
  ids <- vapply(loops, function(loop) as.character(loop$id), "")
  for (id in setdiff(names(the_parallel$listens), ids)) {
    the_parallel$listens[[id]]()
    the_parallel$listens[[id]] <- NULL
  }
}

# Which tasks are over or have said something; maps also if pieces of theirs are.
have_news <- function(tasks) {
  maps <- vapply(tasks, is_map, NA)
  news <- logical(length(tasks))
  news[!maps] <- .Call(ffi_task_look, tasks[!maps], TRUE)
  news[maps] <- vapply(tasks[maps], map_has_news, NA)
  news
}

listen_in <- function(loop, fd) {
  id <- as.character(loop$id)
  if (is.null(the_parallel$listens[[id]])) {
    the_parallel$listens[[id]] <- later::later_fd(function(ready) {
      the_parallel$listens[[id]] <- NULL
      tasks_are_over(loop)
    }, fd, loop = loop)
  }
}

turn_in <- function(loop) {
  force(loop)
  if (!loop$id %in% the_parallel$turns) {
    later::later(function() {
      the_parallel$turns <- setdiff(the_parallel$turns, loop$id)
      tasks_are_over(loop)
    }, loop = loop)
    the_parallel$turns <- c(the_parallel$turns, loop$id)
  }
}

# Once.
settle_promise <- function(promise) {
  if (promise$settled) {
    return()
  }
  promise$settled <- TRUE
  over <- FALSE
  # An interrupt, or a handler of the task's warnings that jumps.
  on.exit(if (!over) {
    promise$reject(simpleError("A handler or an interrupt ended this before there was a value."))
  })
  tryCatch(
    {
      value <- task_value(promise$task) # first: what has begun to resolve can't be rejected
      promise$resolve(value)
    },
    error = promise$reject
  )
  over <- TRUE
}

# muster is unloaded: nobody will settle them.
reject_promises <- function() {
  drop_inherited()
  error <- tryCatch(abort_foreign(NULL), error = identity)
  for (promise in the_parallel$promises) {
    if (!promise$settled) promise$reject(error)
  }
  the_parallel$promises <- list()
  stop_listening(list())
}
