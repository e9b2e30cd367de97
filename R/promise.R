# Promises of package promises, and event loops of package later, which wait for a descriptor that
# C code makes readable when tasks are over (src/ffi/session/notify.c).

#' Promises of tasks
#'
#' A task is a promise of package promises: it can be given to `then()`, `%...>%` and
#' `promise_all()`, and with promises 1.5.0 or newer be the value of a Shiny output. Elsewhere, as
#' in a handler of httpuv, return `as.promise(task)`. Meanwhile the session serves others: the
#' event loop of package later sleeps until a task is over.
#'
#' The promise is resolved with the task's value, or rejected with the error that [task_value()]
#' would raise: that of the task itself, or of one that was lost too often, took too long or was
#' cancelled. Warnings and messages of the task are signalled just before.
#'
#' @param x A task from [task_submit()].
#' @returns A promise.
#' @section Errors:
#' `muster_error_input` if package later is older than 1.4.0.
#' @section Cost:
#' Some 200 us from the end of the task to the promise.
#' @section Source:
#' [promises::as.promise()]; [later::later_fd()].
#' @seealso [task_submit()].
#' @examplesIf requireNamespace("promises", quietly = TRUE) && packageVersion("later") >= "1.4.0"
#' cl <- cluster_start(2)
#' promises::then(task_submit(cl, function() 6 * 7), print)
#' while (!later::loop_empty()) later::run_now(1)
#' cluster_stop(cl)
#' @exportS3Method promises::as.promise
as.promise.muster_task <- function(x) {
  if (!has_later()) {
    abort_muster("input", "Promises of tasks need package later, version 1.4.0 or newer.",
      hints = "install.packages(\"later\")", call = NULL
    )
  }
  promises::promise(function(resolve, reject) {
    promise <- list(resolve = resolve, reject = reject, loop = later::current_loop())
    fd <- .Call(ffi_notify, TRUE)
    # After that: what ends from now on makes the descriptor readable.
    if (.Call(ffi_task_wait, list(x), FALSE, 0)) {
      if (!length(the$promised)) .Call(ffi_notify, FALSE)
      settle_promise(x, promise)
    } else {
      the$promised <- c(the$promised, list(x))
      the$promises <- c(the$promises, list(promise))
      listen_in(promise$loop, fd)
    }
  })
}

#' @exportS3Method promises::is.promising
is.promising.muster_task <- function(x) TRUE # a generic since promises 1.5.0

# later_fd() is there since later 1.4.0.
has_later <- function() {
  requireNamespace("promises", quietly = TRUE) && requireNamespace("later", quietly = TRUE) &&
    exists("later_fd", asNamespace("later"), inherits = FALSE)
}

# Has an event loop wait, once, until a task is over.
listen_in <- function(loop, fd) {
  force(loop)
  if (!loop$id %in% the$listens) {
    the$listens <- c(the$listens, loop$id)
    later::later_fd(function(ready) tasks_are_over(loop), fd, loop = loop)
  }
}

# Settles the promises of an event loop whose tasks are over. What follows a promise runs in the
# loop that settles it, so it has to be the promise's own. Users' handlers of conditions may jump
# out of here, or run event loops: so the others stay in the$over until it is their turn.
tasks_are_over <- function(loop) {
  the$listens <- setdiff(the$listens, loop$id)
  on.exit(listen_on())
  # First: the descriptor is readable again if a task ends after that.
  .Call(ffi_notified)
  over <- over_in(loop)
  key <- as.character(loop$id)
  the$over[[key]] <- c(the$over[[key]], Map(list, the$promised[over], the$promises[over]))
  the$promised <- the$promised[!over]
  the$promises <- the$promises[!over]
  while (length(the$over[[key]])) {
    one <- the$over[[key]][[1L]]
    the$over[[key]] <- the$over[[key]][-1L]
    settle_promise(one[[1L]], one[[2L]])
  }
}

# Which tasks are over, of promises in this loop.
over_in <- function(loop) {
  over <- .Call(ffi_task_wait, the$promised, FALSE, 0)
  over & vapply(the$promises, function(promise) identical(promise$loop, loop), NA)
}

listen_on <- function() {
  the$over <- Filter(length, the$over)
  fd <- .Call(ffi_notify, length(the$promised) > 0L)
  for (loop in unique(lapply(the$promises, `[[`, "loop"))) {
    if (any(over_in(loop))) go_on_in(loop) else listen_in(loop, fd)
  }
  for (left in the$over) go_on_in(left[[1L]][[2L]]$loop)
}

go_on_in <- function(loop) {
  force(loop)
  later::later(function() tasks_are_over(loop), loop = loop)
}

settle_promise <- function(task, promise) {
  settled <- FALSE
  # An interrupt, or a handler of the task's warnings that jumps.
  on.exit(if (!settled) {
    promise$reject(simpleError("A handler or an interrupt ended this before there was a value."))
  })
  tryCatch(
    {
      value <- task_value(task) # first: a promise that has begun to resolve can't be rejected
      promise$resolve(value)
    },
    error = promise$reject
  )
  settled <- TRUE
}
