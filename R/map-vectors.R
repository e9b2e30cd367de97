# Maps over several vectors, or the rows of a data frame.

#' Apply a function to several vectors at once, or to the rows of a data frame
#'
#' `cluster_pmap()` is [cluster_map()] with more than one argument for each element: `.fun` is
#' called with the first elements of all vectors, with the second ones, and so on. With a data
#' frame, it is called once for each row, whose values are arguments with the names of the columns.
#' `task_pmap()` is [task_map()] in the same way.
#'
#' @inheritParams cluster_map
#' @param .l A list of vectors of one length, or a data frame. Names are those of the arguments of
#'   `.fun`; vectors without a name go to its arguments by position. Vectors with a class go through
#'   `as.list()`, so that a date or a factor level arrives as one.
#' @param .fun A function, the name of one (a string), or a lambda such as `~ .x + .y`. It is called
#'   in a worker with an element of each vector.
#' @param ... Further arguments of `.fun`, the same for all elements: also what would be a vector of
#'   length one.
#' @param .cl A cluster, as for [cluster_map()]; for `task_pmap()`, one from [cluster_start()], or
#'   some of its nodes.
#' @param .priority,.group,.label As for [task_map()].
#' @returns As [cluster_map()] and [task_map()], for as many elements as the vectors have. Names of
#'   the result are those of the first vector that has some; of a data frame, its row names, unless
#'   they are numbers.
#' @section Errors:
#' Those of [cluster_map()] and [task_map()]. `muster_error_input`, too: `.l` has vectors of
#' different lengths, or is a data frame with a matrix or data frame in it; or an argument has the
#' name of a vector.
#' @section Cost:
#' As [cluster_map()]. Each worker gets only its elements of each vector.
#' @section Source:
#' The name and the argument are those of `pmap()` of package purrr; `parallel::clusterMap()` takes
#' its vectors as `...`, and repeats short ones.
#' @seealso [cluster_map()].
#' @examples
#' cl <- cluster_start(2)
#' runs <- data.frame(n = c(5, 10), mean = c(0, 100))
#' cluster_pmap(cl, runs, rnorm, sd = 2, .seed = 1)
#' cluster_pmap(cl, list(1:3, 4:6), ~ .x * .y, .value = numeric(1))
#' cluster_stop(cl)
#' @export
cluster_pmap <- function(.cl, .l, .fun, ..., .args = NULL, .seed = FALSE, .retries = NULL,
                         .timeout = NULL, .speculate = FALSE, .progress = NULL,
                         .on_error = c("stop", "return"), .value = NULL, .reduce = NULL,
                         .init = NULL, .on_result = NULL) {
  call <- sys.call()
  check_given(.cl, ".cl", call)
  check_given(.l, ".l", call)
  check_given(.fun, ".fun", call)
  options <- map_options(environment(), now_options)
  map_now(.cl, columns_of, .l, .fun, dots_given(...), .args, options, parent.frame(), call)
}

#' @rdname cluster_pmap
#' @export
task_pmap <- function(.cl, .l, .fun, ..., .args = NULL, .seed = FALSE, .retries = NULL,
                      .timeout = NULL, .priority = 0L, .group = NULL, .label = NULL,
                      .on_error = c("stop", "return"), .value = NULL, .reduce = NULL,
                      .init = NULL, .on_result = NULL) {
  call <- sys.call()
  check_given(.cl, ".cl", call)
  check_given(.l, ".l", call)
  check_given(.fun, ".fun", call)
  options <- map_options(environment(), ahead_options)
  map_ahead(.cl, columns_of, .l, .fun, dots_given(...), .args, options, parent.frame(), call)
}

# As elements_of().
columns_of <- function(l, args, call) {
  rows <- is.data.frame(l)
  if (!rows && (!is.list(l) || is.object(l)) || !length(l)) {
    abort_input(".l", "a list of vectors of one length, or a data frame with columns", l, call,
      hints = if (is.matrix(l)) "For the rows of a matrix: cluster_map(cl, asplit(m, 1), ...)."
    )
  }
  clash <- setdiff(intersect(names(l), names(args)), "")
  if (length(clash)) {
    abort_muster("input",
      paste0("`", clash[1L], "` is given twice: in `.l`, and as a further argument."),
      argument = clash[1L], call = call
    )
  }
  at <- seq_along(l)
  columns <- structure(lapply(at, function(k) .subset2(l, k)), names = names(l))
  titles <- vapply(at, function(k) column_title(names(l)[k], k), "")
  for (k in which(rows & vapply(columns, function(x) length(dim(x)) > 1L, NA))) {
    abort_input(titles[k], "one value for each row", columns[[k]], call)
  }
  columns[] <- lapply(at, function(k) check_elements(columns[[k]], call, titles[k]))
  n <- lengths(columns, use.names = FALSE)
  if (any(n != n[1L])) {
    other <- which(n != n[1L])[1L]
    abort_muster("input",
      paste0(
        "The vectors of `.l` must have one length: `", titles[1L], "` has ", big_number(n[1L]),
        " elements, `", titles[other], "` has ", big_number(n[other]), "."
      ),
      hints = "Pass what is the same for all elements as a further argument of your function.",
      argument = ".l", call = call
    )
  }
  names <- if (!rows) {
    Find(length, lapply(columns, base::names))
  } else if (is.character(attr(l, "row.names"))) {
    row.names(l)
  }
  list(x = columns, n = n[1L], names = names, columns = TRUE)
}

column_title <- function(name, k) {
  if (length(name) && !is.na(name) && nzchar(name)) paste0(".l$", name) else paste0(".l[[", k, "]]")
}

# What can't be sent of a map's elements; before: how many come before x.
element_reference <- function(map, x, before) {
  if (!map$columns) {
    return(find_reference(x, map$words$all, before))
  }
  for (k in seq_along(x)) {
    found <- find_reference(x[[k]], column_title(names(x)[k], k), before)
    if (!is.null(found)) {
      return(found)
    }
  }
}
