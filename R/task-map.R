# Maps that run while the session goes on. The engine is that of cluster_map() (map-pieces.R); it
# goes one step whenever somebody asks for the map.

#' Maps that run while you go on
#'
#' `task_map()` works like [cluster_map()], but returns at once. What it returns is a task as of
#' [task_submit()]: [task_value()] gives the list of results, [task_done()], [task_wait()] and
#' [task_cancel()] work as for other tasks, alone or in a list with them, and it is a promise of
#' package promises, see [as.promise.muster_task()].
#'
#' All elements are handed out at once, so that the workers go on whatever your session does: each
#' worker's share in some 70 pieces, whose sizes don't depend on how long elements take. With
#' `.timeout` pieces are smaller, single elements where there are no more than 4,096.
#'
#' What else there is to do is done when you use one of these functions, or, for a promise, in the
#' event loop: results are read, conditions signalled, pieces that were lost are handed
#' out again, and after an error, or a value that can't be sent, the remaining pieces are cancelled.
#' `.reduce` and `.on_result` are called then, too. If one of them, or a handler of such a
#' condition, jumps, the map is cancelled; an error of theirs is the map's. Ctrl-C while
#' [task_value()] waits leaves it alone.
#'
#' @inheritParams cluster_map
#' @param .cl A cluster from [cluster_start()], or some of its nodes.
#' @param .retries How often to retry an element that was lost with its worker, see
#'   [cluster_map()]. By default, the `retries` given to [cluster_start()].
#' @param .timeout Seconds that one element may take, above 0. By default, the cluster's `timeout`.
#' @param .priority,.label As for [task_submit()].
#' @param .group Whose map it is, as for [task_submit()]. By default, each map is a group of its
#'   own, so that it takes turns with tasks and with other maps: a task that you submit later waits
#'   for at most two of its pieces in each worker.
#' @returns An object of the classes `"muster_map"` and `"muster_task"`, which can be used in this
#'   session only. Its value is that of [cluster_map()], with the same random numbers for the same
#'   `.seed`.
#' @section Errors:
#' Those of [cluster_map()]: `muster_error_input` and `muster_error_limit` at once, others by
#' [task_value()], each time it is called. `muster_error_cancelled`: the map was cancelled. All have
#' the field `results`. `muster_error_timeout`: it wasn't done when the `timeout` of [task_value()]
#' was over (field `task`); the map goes on.
#' @section Cost:
#' As [cluster_map()]; some 60 us for each piece. All elements are serialized before it returns, and
#' kept in memory until workers take them; past
#' `getOption("muster.queue_max")` bytes, 256 MB, it waits until they have taken some.
#' @section Source:
#' Sizes of pieces: guided self-scheduling, as for [cluster_map()].
#' @seealso [cluster_map()], [task_submit()].
#' @examples
#' cl <- cluster_start(2)
#' map <- task_map(cl, 1:10, function(i) i^2)
#' map
#' sum(unlist(task_value(map)))
#' cluster_stop(cl)
#' @export
task_map <- function(.cl, .x, .fun, ..., .args = NULL, .seed = FALSE, .retries = NULL,
                     .timeout = NULL, .priority = 0L, .group = NULL, .label = NULL,
                     .on_error = c("stop", "return"), .value = NULL, .reduce = NULL,
                     .init = NULL, .on_result = NULL) {
  call <- sys.call()
  check_given(.cl, ".cl", call)
  check_given(.x, ".x", call)
  check_given(.fun, ".fun", call)
  options <- map_options(environment(), ahead_options)
  map_ahead(.cl, elements_of, .x, .fun, dots_given(...), .args, options, parent.frame(), call)
}

# The arguments are those of map_now().
map_ahead <- function(cl, elements, x, fun, args, more, options, frame, call) {
  if (any(vapply(args, is_not_given, NA))) {
    fun <- pass_given(find_function(fun, frame, call), args)
    args <- unname(Filter(Negate(is_not_given), args))
  }
  if (is_here(cl)) {
    return(task_here(function() {
      map_elsewhere(NULL, elements, x, fun, args, more, options, frame, call)
    }))
  }
  map <- make_map(cl, elements, x, fun, args, more, options, TRUE, frame, call)
  map$pid <- Sys.getpid()
  map$over <- map$stepping <- map$asked <- map$cancelled <- FALSE
  class(map) <- c("muster_map", "muster_task")
  whole <- FALSE
  on.exit(if (!whole) map_leave(map))
  map_submit(map)
  if (map$n == 0L) end_map(map)
  whole <- TRUE
  if (!map$over) add_map(map)
  if (the_cluster$scales) wake_for_task(.subset2(cl[[1L]], "id"))
  map
}

# Maps that may not be over, as long as somebody refers to them.
add_map <- function(map) {
  map$asked_at <- now_seconds()
  map$id <- .Call(ffi_task_state, map$tasks[[1L]])$id
  the_task$maps <- c(open_maps(), .Call(ffi_hide, map, map))
}

open_maps <- function() {
  Filter(function(one) isFALSE(.Call(ffi_hidden, one)$over), the_task$maps)
}

maps_there <- function(cl) {
  id <- .subset2(.subset2(cl, 1L), "id")
  maps <- lapply(open_maps(), function(one) .Call(ffi_hidden, one))
  Filter(function(map) identical(map$cluster, id), maps)
}

is_map <- function(task) is.environment(task) && inherits(task, "muster_map")

# Takes the results that have come, and hands out what is to be handed out. Handlers of warnings may
# jump out of here: then the map is over. They may also ask for the map, or wait in an event loop
# for what it becomes: it isn't stepped twice, and when it was asked for, event loops look again.
#
# An interrupt leaves the map alone: it waits until the step is over, or is heard by the user's
# functions for results.
step_map <- function(map) suspendInterrupts(take_step(map))

take_step <- function(map) {
  if (map$stepping) {
    map$asked <- TRUE
    return(invisible())
  }
  if (map$over || !(map$cancelled || map_has_news(map))) {
    return(invisible())
  }
  map$stepping <- TRUE
  map$asked <- FALSE
  whole <- interrupted <- FALSE
  error <- NULL
  on.exit({
    map$stepping <- FALSE
    if (map$cancelled || !(whole || interrupted)) error <- map_cancelled(map)
    if ((map$left == 0L && is.null(map$news)) || !is.null(error)) end_map(map, error)
    if (map$asked) listen_on()
  })
  failures <- map_take(map, 0)
  error <- tryCatch(
    {
      if (length(failures)) first_failure(failures)$raise()
      map_submit(map)
      NULL
    },
    error = identity
  )
  # An error of the user's functions for results is the map's.
  if (is.null(error) && !is.null(map$news)) {
    withCallingHandlers(
      error <- tryCatch({allowInterrupts(heed_news(map)); NULL}, error = identity),
      interrupt = function(interrupt) interrupted <<- TRUE
    )
  }
  whole <- TRUE
}

# Is it over, or would a step take something? Runs no code of the user's.
map_has_news <- function(map) {
  map$over || (!map$stepping &&
    (!is.null(map$news) || any(.Call(ffi_task_look, map$tasks, TRUE))))
}

end_map <- function(map, error = NULL) {
  map$over <- TRUE
  map$error <- error
  own <- inherits(error, "muster_error") || (is.list(error) && is.null(error[["results"]]))
  if (!is.null(error) && own) map$error$results <- results_left(map)
  map_leave(map)
  map$tasks <- map$pieces <- list()
  map$x <- map$job <- map$heed <- map$held <- map$queue <- map$stream <- map$cl <- NULL
  map$said <- map$relay <- NULL
}

map_cancelled <- function(map) {
  message <- if (map$cancelled) {
    "was cancelled."
  } else {
    "was ended by a handler of its conditions or results."
  }
  muster_condition(
    c("muster_error_cancelled", "muster_error", "error"), paste("The map", message), NULL, NULL,
    map$call
  )
}

cancel_map <- function(map) {
  step_map(map) # what was done is kept
  if (map$over || map$cancelled) {
    return(FALSE)
  }
  map$cancelled <- TRUE
  step_map(map) # that ends it, unless it is a handler of the map's conditions that cancels
  TRUE
}

map_value <- function(map, timeout, call, what = task_title(map)) {
  check_wait(timeout, call)
  check_task(map, call)
  progress <- if (timeout > progress_after) new_progress(NULL, map$n)
  on.exit(end_progress(progress))
  end <- now_seconds() + timeout
  repeat {
    left <- max(0, end - now_seconds())
    patience <- min(progress_patience(progress), left)
    if (wait_some(list(map), TRUE, patience, call)) break
    if (patience >= left) abort_late(map, "The map", timeout, call)
    show_progress(progress, map$n - map$left)
  }
  if (!is.null(map$raise)) map$raise(call, what)
  if (!is.null(map$error)) raise_condition(map$error)
  map_values(map)
}

# Not a copy, as readRDS() makes one: it has the fields, but a null pointer.
is_map_here <- function(map) {
  identical(map$pid, Sys.getpid()) && (map$over || tryCatch(
    is.null(.Call(ffi_pieces_at, map$queue, integer(), integer())),
    error = function(e) FALSE
  ))
}

# ---- Waiting for tasks, some of which are maps

# Which are over. Handles conditions of the maps' elements.
are_done <- function(tasks) {
  maps <- vapply(tasks, is_map, NA)
  done <- logical(length(tasks))
  done[!maps] <- wait_hearing(tasks[!maps], FALSE, 0)
  for (i in which(maps)) {
    step_map(tasks[[i]])
    done[i] <- tasks[[i]]$over
  }
  done
}

# Waits until any, or all, of the tasks are over, but not longer than `timeout` seconds.
wait_some <- function(tasks, any, timeout, call) {
  if (!any(vapply(tasks, is_map, NA))) {
    return(wait_hearing(tasks, any, timeout))
  }
  end <- now_seconds() + timeout
  repeat {
    done <- are_done(tasks)
    left <- end - now_seconds()
    if (left <= 0 || (if (any) any(done) else all(done))) {
      return(done)
    }
    # Of many, the first ones: the others are looked at when these are over.
    near <- tasks[!done]
    if (!any) near <- near[seq_len(min(length(near), waits_for))]
    wait_near(near, any, end, call)
  }
}

waits_for <- 8L

# Waits until one of them is over, and takes what comes of maps meanwhile.
wait_near <- function(tasks, any, end, call) {
  stepping <- vapply(tasks, function(task) is_map(task) && task$stepping, NA)
  if (if (any) all(stepping) else any(stepping)) {
    abort_muster("input", "A handler of a map's conditions or results can't wait for that map.",
      call = call
    )
  }
  tasks <- tasks[!stepping]
  repeat {
    left <- end - now_seconds()
    open <- unlist(lapply(tasks, open_tasks), recursive = FALSE)
    .Call(ffi_task_wait, open, NA, max(0, left))
    if (left <= 0 || any(are_done(tasks))) {
      return()
    }
  }
}

# What must end before there is more to know of a task.
open_tasks <- function(task) if (is_map(task)) task$tasks else list(task)

#' @export
format.muster_map <- function(x, ...) {
  if (!is_map_here(x)) {
    return("muster map of another session")
  }
  done <- x$n - x$left
  for (i in which(.Call(ffi_task_look, x$tasks, FALSE))) {
    done <- done + piece_count(x$pieces[[i]]) # not taken yet: that signals conditions
  }
  label <- if (!is.null(x$label)) paste0(" (`", x$label, "`)")
  state <- if (!x$over) {
    if (done == x$n) "finished" else "running"
  } else if (is.null(x$error)) {
    "done"
  } else if (inherits(x$error, "muster_error_cancelled")) {
    "cancelled"
  } else {
    "failed"
  }
  paste0(
    "muster map", label, ", ", state, ": ", big_number(done), " of ", big_number(x$n),
    " elements done"
  )
}
