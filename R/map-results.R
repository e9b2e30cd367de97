# What a map had done when it was ended early.

#' Results of a map that ended early
#'
#' If [cluster_map()] or a `foreach()` loop is ended by Ctrl-C, an error, a time limit or a handler
#' that jumps, `cluster_results()` gives the results that there were. They are kept until the next
#' map or loop begins.
#'
#' Maps of [task_map()] keep their results themselves: Ctrl-C while [task_value()] waits leaves them
#' alone, and errors have the field `results`.
#'
#' @returns A list as long as the map's `.x`, with its names: `NULL` for each element that had no
#'   result yet. With `.on_error = "return"`, conditions are results. Of loops, the iterations'
#'   values before `.combine`. `NULL` if the last map ended by itself, or there was none.
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
cluster_results <- function() the$results

forget_results <- function() the$results <- NULL

# Runs while R leaves a map: takes the values that have come, without signalling conditions.
take_rest <- function(map) {
  for (i in which(.Call(ffi_task_wait, map$tasks, FALSE, NULL))) {
    piece <- map$pieces[[i]]
    if (piece$taken || .Call(ffi_pieces_over, map$queue, piece$number)) next
    answer <- .Call(ffi_task_value, map$tasks[[i]], 0)
    value <- if (is.list(answer) && length(answer) != 2L) answer[[1L]]
    # Of a piece with an error, the values before it; not those that would become conditions.
    if (is.list(value) && !is.null(value$values) && !length(value$failures)) {
      put_results(map, piece$first, value$values)
    }
  }
}

# Then: tells of what there is.
keep_results <- function(map) {
  the$results <- map_values(map)
  if (!map$told) {
    inform_muster("ended",
      paste0(
        big_number(map$n - map$left), " of ", big_number(map$n), " ", map$words$some,
        " have a result: see cluster_results()."
      ),
      done = map$n - map$left, elements = map$n
    )
  }
}
