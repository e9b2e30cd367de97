# What has failed, evaluated again in the session.

#' A failed call again, here
#'
#' `task_debug()` evaluates in your session what has failed in a worker: the element of a map, or
#' the task, with its data, what it used of the global environment, and its random numbers. Errors
#' are raised where they are, so `traceback()` and `options(error = recover)` show your calls; with
#' `step` the browser opens at the function's first line.
#'
#' Variables of your global environment have the values that were sent while it is evaluated;
#' afterwards they are as before. Packages that the call attached are attached meanwhile.
#' Environments, objects of reference classes and data.tables of a map are the session's own: they
#' are as they are by now, and what the function changes in them stays changed. What has killed a
#' worker may also kill your session.
#'
#' @param failed An error of [cluster_map()], [cluster_pmap()], [task_map()] or [task_value()],
#'   which may be one that `.on_error = "return"` put into a result; or a task of [task_submit()] or
#'   [task()] that has failed. By default, what failed last; a task only as long as you have it.
#' @param step If `TRUE`, evaluate line by line, in the browser. Default: in an interactive session.
#' @returns The value, if there is no error this time.
#' @section Errors:
#' Those of the call, as they are. `muster_error_input`: `failed` isn't one of these; nothing has
#' failed; or its data are gone: it was saved, is of another session, or no element is known to be
#' at fault; or a variable can't have the value that it had.
#' @section Cost:
#' What a task was given is kept in memory as long as you have the task, which its error doesn't
#' keep; not if it had vectors so large that they went through shared memory. What a map was given
#' (function, globals, elements) is kept as long as you have one of its errors, or none has failed
#' after it.
#' @section Source:
#' `clustermq` and `BiocParallel` have logs and a browser in the worker; R's own `debugonce()` does
#' the stepping.
#' @seealso [cluster_start()], Without workers, to evaluate everything in the session.
#' @examples
#' cl <- cluster_start(2)
#' half <- function(x) if (x > 2) stop("too large") else x / 2
#' error <- tryCatch(cluster_map(cl, 1:3, half), error = identity)
#' try(task_debug(error, step = FALSE))
#' cluster_stop(cl)
#' @export
task_debug <- function(failed = NULL, step = interactive()) {
  call <- sys.call()
  check_flag(step, "step", call)
  if (is.null(failed)) failed <- the_task$failed
  if (is.null(failed)) abort_muster("input", "Nothing has failed yet.", call = call)
  if (!inherits(failed, c("muster_task", "muster_error"))) {
    abort_input("failed", "a task, or an error of a map or a task", failed, call)
  }
  ask_again(question_of(failed, call), step, call)
}

# The field `again` of an error refers to its task, without keeping it, or its cluster; or, of a
# map's error, it is an environment that keeps what the map was, for all elements. Neither is saved
# or sent with it.
note_failed <- function(error) {
  if (!is.null(error$again)) {
    the_task$failed <- structure(class = "muster_error", unclass(error)[c("again", "element")])
  }
}

again_of_task <- function(task) {
  if (is.environment(task)) task else if (!is.null(task)) .Call(ffi_hide, task, task)
}

again_of_map <- function(map) {
  if (is.null(map$again)) {
    map$again <- new.env(parent = emptyenv())
    map$again$held <- .Call(ffi_hide, map$again, list(
      job = map$job, x = map$x, columns = map$columns, stream = map$stream
    ))
  }
  map$again
}

# list(fun, args, seed, globals): a call.
question_of <- function(failed, call) {
  if (inherits(failed, "muster_task")) {
    return(question_of_task(failed, call))
  }
  again <- failed$again
  held <- if (inherits(again, "muster_task")) {
    again
  } else if (is.environment(again)) {
    .Call(ffi_hidden, again$held)
  } else if (!is.null(again)) {
    .Call(ffi_hidden, again)
  }
  if (inherits(held, "muster_task")) {
    return(question_of_task(held, call))
  }
  map <- held
  if (is.null(map) || !isTRUE(failed$element > 0L)) {
    abort_muster("input", "There is nothing to evaluate again for this error.",
      hints = paste(
        "Only the session in which a task or an element of a map has failed knows what it was",
        "given, a task only as long as you have it."
      ),
      argument = "failed", call = call
    )
  }
  x <- elements_at(map, failed$element)
  first <- if (map$columns) lapply(x, `[[`, 1L) else list(x[[1L]])
  list(
    fun = piece_function(map$job), args = c(first, map$job$args), job = map$job[lent_parts],
    seed = if (!is.null(map$stream)) .Call(ffi_stream_after, map$stream, failed$element - 1)
  )
}

question_of_task <- function(task, call) {
  check_task(task, call)
  if (is_map(task) && !is.null(task$question)) {
    return(task$question)
  }
  if (is_map(task) && !is.null(task$error)) {
    return(question_of(task$error, call))
  }
  cause <- if (!is_map(task)) .Call(ffi_task_cause, task)
  if (!is.null(cause)) {
    return(question_of_task(cause, call))
  }
  kept <- if (!is_map(task)) .Call(ffi_task_question, task)
  if (is.integer(kept)) abort_task(task, kept, call)
  if (is.null(kept)) {
    abort_muster("input", paste(task_title(task), "hasn't failed."),
      argument = "failed", call = call
    )
  }
  if (isFALSE(kept)) {
    abort_muster("input", paste(task_title(task), "was given what is too large to be kept."),
      hints = "Submit it to a cluster without workers, cluster_start(0), to evaluate it here.",
      argument = "failed", call = call
    )
  }
  fun <- kept$call[[1L]]
  args <- kept$call[[2L]]
  if (!identical(fun, "muster:::task_run")) {
    return(list(fun = fun, args = args))
  }
  job_of <- function(number) kept$values[[match(number, kept$numbers)]]
  job <- args[[1L]]
  if (!is.list(job)) job <- job_of(job)
  given <- args[[2L]]
  if (length(args$numbers)) {
    given <- with_results(given, args$at, lapply(args$numbers, function(n) job_of(n)[[1L]]))
  }
  list(fun = job$fun, args = given, seed = args$seed, job = job[lent_parts])
}

ask_again <- function(question, step, call) {
  job <- question$job
  check_lendable(job, call)
  attached <- setdiff(job$packages, sub("^package:", "", search()))
  on.exit(for (package in attached) detach_package(package))
  attach_packages(attached)
  load_packages(job$namespaces)
  restore <- lend_globals(job["globals"])
  on.exit(restore(), add = TRUE)
  if (!is.null(question$seed)) {
    kept <- keep_stream()
    on.exit(kept(), add = TRUE)
  }
  fun <- if (is.character(question$fun)) match.fun(question$fun) else question$fun
  if (step && typeof(fun) == "closure") {
    debugonce(fun)
    on.exit(if (isdebugged(fun)) undebug(fun), add = TRUE)
  }
  task_attempts(fun, question$args, question$seed, 0L, identity)
}

# Can the global environment have for a while what the call had of it?
check_lendable <- function(job, call) {
  global <- globalenv()
  is_there <- function(name) exists(name, envir = global, inherits = FALSE)
  for (name in names(job$globals)) {
    if (is_there(name) && (bindingIsLocked(name, global) || bindingIsActive(name, global))) {
      abort_muster("input",
        paste0("`", name, "` can't have the value that it had: it is locked, or active."),
        hints = paste0("Remove it from the global environment: rm(", name, ")."),
        argument = name, call = call
      )
    }
  }
  # These weren't sent, because workers had them.
  for (name in names(job$there)) {
    same <- is_there(name) && !bindingIsActive(name, global) &&
      identical(export_content(get(name, global)), job$there[[name]])
    if (!same) {
      abort_muster("input",
        paste0("`", name, "` no longer has the value that it had when the call failed."),
        details = "It isn't kept: workers have it by clusterExport() or cluster_share().",
        hints = "Give it that value again.", argument = name, call = call
      )
    }
  }
}
