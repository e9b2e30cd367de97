#' Map, group by key, reduce
#'
#' For each element of `.inputs`, `.map(element)` returns keys and values; for each key,
#' `.reduce(key, values)` returns its result. Elements are handed out to the workers; values move
#' directly between workers, not through the session.
#'
#' The notes on keys, order, losses and memory in [partition_shuffle()] apply here too.
#'
#' @param .cl A cluster from [cluster_start()].
#' @param .inputs A vector, atomic or list.
#' @param .map A function that takes an element and returns a list or data frame with `key` and
#'   `value`, of equal length, or `NULL`.
#' @param .reduce A function that takes a key and a vector of all its values, in the order of the
#'   inputs.
#' @param .combine `NULL`, or a function like `.reduce`, called with some of a key's values before
#'   they are moved; `.reduce` gets its results instead of these values. For sums and the like,
#'   use the same function as `.reduce`: that saves most of the transfer.
#' @param ... Further arguments of `.map`. Any name that doesn't begin with a dot is the
#'   function's.
#' @param .args A list of further arguments, for names that begin with a dot.
#' @param .parts Number of parts that the elements, and the keys, are split into, from 1 to 4096.
#'   By default, one for each element, but at most 32.
#' @param .seed As in [cluster_map()]: with it, each element and each key draws from a random stream
#'   of its own, the same for any number of workers and after losses; another number of parts
#'   means other streams.
#' @param .speculate As in [partition_map()]: `FALSE` for functions with side effects.
#' @returns A data frame with columns `key` and `value`, one row for each key. `value` is a list
#'   if any result isn't a single value.
#' @section Errors:
#' As for [partition_scatter()].
#' @section Cost:
#' As for [partition_shuffle()].
#' @section Source:
#' Dean and Ghemawat: MapReduce (OSDI 2004).
#' @examples
#' cl <- cluster_start(2)
#' lines <- c("the cat and the dog", "the end")
#' counts <- map_reduce(cl, lines, function(line) {
#'   words <- strsplit(line, " ")[[1]]
#'   list(key = words, value = rep(1, length(words)))
#' }, function(key, values) sum(values))
#' counts[order(counts$key), ]
#' cluster_stop(cl)
#' @export
map_reduce <- function(.cl, .inputs, .map, .reduce, .combine = NULL, ..., .args = NULL,
                       .parts = NULL, .seed = FALSE, .speculate = TRUE) {
  call <- sys.call()
  cl <- check_cluster(.cl, call, ".cl")
  inputs <- check_elements(.inputs, call, ".inputs")
  check_given(.map, ".map", call)
  check_given(.reduce, ".reduce", call)
  map <- function_of(.map, call)
  reduce <- function_of(.reduce, call)
  combine <- function_of(.combine, call)
  check_reducers(map, reduce, combine, call)
  parts <- check_parts(.parts, call, as.integer(max(1L, min(length(inputs), 32L))), ".parts")
  own <- c(".cl", ".inputs", ".map", ".reduce", ".combine")
  more <- user_args(list(...), .args, map, c(".args", ".parts", ".seed", ".speculate"), own, call)
  check_flag(.speculate, ".speculate", call)
  stream <- map_stream(.seed, cl, call)
  args <- list(reduce = reduce, combine = combine, more = more)
  job <- make_job(map, args, inputs, FALSE, cl, call)
  if (is.null(.seed)) job$quiet <- TRUE
  ranges <- part_ranges(length(inputs), parts)
  steps <- element_steps(inputs, ranges, parts, !is.null(combine), stream)
  shuffle <- shuffle_of(cl, call)
  split <- new_stage(shuffle, parts, steps, job, speculate = .speculate, inner = TRUE)
  split$title <- "`.inputs`"
  p <- list(cl = cl, shuffle = shuffle)
  reduce_steps <- seeded_steps(list(
    list(kind = "gather"), list(kind = "call", how = "reduce", which = 1L, name = ".reduce")
  ), stream, 0)
  reduced <- gather_stage(p, parts, reduce_steps, list(split), call, split$job,
    speculate = .speculate
  )
  counts <- partition_collect(reduced$handle)
  if (is_empty(counts)) counts <- new_frame(list(key = logical(), value = logical()), 0L)
  if (is.list(counts$value)) counts$value <- simpler(counts$value)
  counts
}

# The streams of the tasks come after those of the keys' tasks, those of `.combine` after these.
element_steps <- function(inputs, ranges, parts, combine, stream) {
  force(inputs)
  force(ranges)
  after <- c(
    if (combine) list(list(kind = "call", how = "reduce", which = 2L, name = ".combine")),
    list(list(kind = "split", by = "key", parts = parts))
  )
  after <- seeded_steps(after, stream, 2 * parts)
  function(task) {
    at <- if (ranges[task, 1L] <= ranges[task, 2L]) ranges[task, 1L]:ranges[task, 2L]
    map <- list(
      kind = "call", how = "elements", elements = inputs[at], before = ranges[task, 1L] - 1,
      name = ".map"
    )
    c(seeded_steps(list(map), stream, parts)(task), after(task))
  }
}

check_reducers <- function(map, reduce, combine, call) {
  if (!is.function(map)) abort_input(".map", "a function", map, call)
  if (!is.function(reduce)) abort_input(".reduce", "a function", reduce, call)
  if (!is.null(combine) && !is.function(combine)) {
    abort_input(".combine", "NULL or a function", combine, call)
  }
}
