# Results of maps: their types, what is done with each, and what is left of a map that ended early.

#' Results of a map that ended early
#'
#' If [cluster_map()], [cluster_pmap()] or a `foreach()` loop is ended by Ctrl-C, an error, a time
#' limit or a handler that jumps, `cluster_results()` gives the results that there were. They are
#' kept until the next map or loop begins.
#'
#' Maps of [task_map()] keep their results themselves: Ctrl-C while [task_value()] waits leaves them
#' alone, and errors have the field `results`.
#'
#' @returns A list as long as the map's `.x`, with its names: `NULL` for each element that had no
#'   result yet. With `.on_error = "return"`, conditions are results. Of loops, the iterations'
#'   values before `.combine`. With `.reduce`, the attribute `"reduced"` has the value so far, see
#'   Errors in [cluster_map()]. `NULL` if the last map ended by itself, or there was none.
#' @section Cost:
#' None; the results stay in memory.
#' @section Source:
#' `.Last.value` and [base::traceback()] also keep what the last call has left.
#' @seealso [cluster_map()].
#' @examples
#' cl <- cluster_start(2)
#' try(cluster_map(cl, c(a = 1, b = 2, c = 3), function(x) if (x == 2) stop("not two") else x))
#' str(cluster_results())
#' cluster_stop(cl)
#' @export
cluster_results <- function() the_map$results

forget_results <- function() the_map$results <- NULL

# Runs while R leaves a map: takes the values that have come, without signalling conditions.
take_rest <- function(map) {
  for (i in which(.Call(ffi_task_look, map$tasks, FALSE))) {
    piece <- map$pieces[[i]]
    if (piece$taken || .Call(ffi_pieces_over, map$queue, piece$number)) next
    answer <- hear_answer(map$tasks[[i]], 0, function(said) NULL)
    value <- if (is.list(answer) && length(answer) != 2L) answer[[1L]]
    if (!is.null(value)) load_for_value(answer)
    # Of a piece with an error, the values before it; not those that would become conditions.
    if (is.list(value) && !is.null(value$values) && !length(value$failures)) {
      put_results(map, piece$first, value$values)
    }
  }
}

# Then. After Ctrl-C nothing else says that there are results; an error does.
keep_results <- function(map) {
  the_map$results <- structure(results_left(map), names = map$names)
  if (isTRUE(map$stopped)) {
    inform_muster("ended",
      paste0(
        big_number(map$n - map$left), " of ", big_number(map$n), " ", map$words$some,
        " have a result: see cluster_results()."
      ),
      done = map$n - map$left, elements = map$n
    )
  }
}

# A copy: values that come later are put into the map's list in place. With `.reduce`, the value so
# far is an attribute: what it has taken in isn't kept.
results_left <- function(map) {
  results <- map$results[seq_len(map$n)]
  if (!is.null(map$fold)) attr(results, "reduced") <- map$fold
  results
}

# The value of a map that is done.
map_values <- function(map) {
  if (inherits(map, "muster_task_here")) {
    map$value
  } else if (!is.null(map$fold)) {
    map$fold$value
  } else if (!is.null(map$like)) {
    join_values(map$results, map$like, map$names)
  } else {
    if (!is.null(map$names)) names(map$results) <- map$names
    map$results
  }
}

# ---- `.value`

check_like <- function(options, returns, call) {
  like <- options$value
  if (is.null(like)) {
    return(NULL)
  }
  wanted <- "a vector without a class, such as numeric(1)"
  if (is.object(like)) {
    abort_muster("input",
      paste0("`.value` must be ", wanted, ", not one of class \"", class(like)[1L], "\"."),
      argument = ".value", call = call
    )
  }
  if (!is.atomic(like) || !length(like)) abort_input(".value", wanted, like, call)
  if (returns) {
    abort_muster("input", "With `.value`, `.on_error` can't be \"return\".",
      hints = "A condition can't be an element of a vector: leave `.value` out.",
      argument = ".on_error", call = call
    )
  }
  like
}

# The first of these values that isn't like the one wanted: list(at, type, length, class), or NULL.
# Numbers fit if they can be converted without a loss, as for vapply().
first_misfit <- function(values, like) {
  at <- if (is.null(like)) 0L else .Call(ffi_misfit, values, like)
  if (at > 0L) {
    value <- values[[at]]
    list(at = at, type = typeof(value), length = length(value), class = oldClass(value)[1L])
  }
}

abort_misfit <- function(map, i, misfit, worker = NULL) {
  kind <- function(type, length, class = NULL) {
    paste0(
      "type ", type, if (length(class)) paste0(" and class \"", class, "\""),
      ", length ", big_number(length)
    )
  }
  like <- map$like
  abort_muster("value",
    paste0(
      map$words$one(map, i), " gave a value of ", kind(misfit$type, misfit$length, misfit$class),
      "; `.value` is of ", kind(typeof(like), length(like)), "."
    ),
    details = if (!is.null(worker)) paste("On worker", worker),
    hints = results_hint(map), element = i, worker = worker, results = results_left(map),
    call = map$call
  )
}

# As vapply() does: a vector, or for longer ones an array whose last dimension is the elements'.
join_values <- function(values, like, names) {
  joined <- unlist(values, recursive = FALSE, use.names = FALSE)
  joined <- if (is.null(joined)) vector(typeof(like), 0L) else as.vector(joined, typeof(like))
  if (length(like) == 1L) {
    return(structure(joined, names = names))
  }
  first <- if (length(values)) values[[1L]]
  sides <- if (is.null(dim(like))) list(names(like)) else dimnames(like)
  if (is.null(unlist(sides))) {
    sides <- if (is.null(dim(like))) list(names(first)) else dimnames(first)
  }
  shape <- if (is.null(dim(like))) length(like) else dim(like)
  if (length(sides) != length(shape)) sides <- vector("list", length(shape))
  named <- length(names) || length(unlist(sides))
  array(joined, c(shape, length(values)), if (named) c(unname(sides), list(names)))
}

# ---- `.reduce` and `.on_result`

check_callback <- function(fun, name, call) {
  fun <- function_of(fun, call, name)
  if (!is.null(fun) && !is.function(fun)) {
    abort_input(name, "NULL, a function or a lambda such as ~ .x + .y", fun, call)
  }
  fun
}

check_init <- function(options, call) {
  if (!is.null(options$init) && is.null(options$reduce)) {
    abort_muster("input", "`.init` is for `.reduce`, which isn't given.",
      argument = ".init", call = call
    )
  }
  options$init
}

# A function that is told which elements have results now; NULL if nobody wants to know. Where a
# callback jumps, the rest is news again.
map_heed <- function(map, terms) {
  if (is.null(terms$reduce) && is.null(terms$on_result)) {
    return(NULL)
  }
  if (!is.null(terms$reduce)) map$fold <- list(value = terms$init, elements = 0L)
  shown <- logical(map$n)
  function(elements) {
    whole <- FALSE
    on.exit(if (!whole) map$news <- c(elements[!shown[elements]], map$news))
    for (i in elements) {
      shown[i] <<- TRUE
      if (!is.null(terms$on_result)) show_result(terms$on_result, map$results[[i]], i)
    }
    while (!is.null(map$fold) && map$fold$elements < map$n && shown[map$fold$elements + 1L]) {
      fold_result(map, terms, map$fold$elements + 1L)
    }
    whole <- TRUE
  }
}

# Forced, as lapply() and Reduce() do: the functions may keep their arguments for later.
show_result <- function(fun, value, i) forceAndCall(2, fun, value, i)

# A result that was taken in isn't kept.
fold_result <- function(map, terms, i) {
  value <- map$results[[i]]
  so_far <- map$fold$value
  if (i > 1L || !is.null(terms$init)) value <- forceAndCall(2, terms$reduce, so_far, value)
  map$fold <- list(value = value, elements = i)
  .Call(ffi_map_put, map$results, i, list(NULL))
}

# A function that takes elements in any order, and gives those whose turn it is then.
in_order <- function(n) {
  done <- logical(n)
  given <- 0L
  function(elements) {
    done[elements] <<- TRUE
    last <- given
    while (last < n && done[last + 1L]) last <- last + 1L
    ready <- seq_len(last - given) + given
    given <<- last
    ready
  }
}
