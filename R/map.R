#' Apply a function to each element, on the workers of a cluster
#'
#' As `lapply(x, fun, ...)`, with the elements handed out in pieces whose size follows from how
#' long the first ones take: large pieces where elements are quick, single elements where
#' they are slow, smaller ones towards the end so that all workers end together.
#'
#' What `fun` uses of your global environment is found (by [codetools::findGlobals()], in
#' functions that it uses, too) and sent along, so nothing needs to be exported. Packages that
#' are attached in the session but not in the workers must be named with `pkg::f`, or
#' given to [cluster_start()].
#'
#' Lost workers are healed as everywhere, see [cluster_start()]: what a piece had computed
#' is computed again.
#'
#' @param cl A cluster of [cluster_start()], or some of its nodes.
#' @param x A vector, atomic or list. Other objects go through `as.list()`.
#' @param fun A function, or the name of one (a string). It is called in a worker with each
#'   element as its first argument.
#' @param ... Further arguments of `fun`, the same for all elements.
#' @param .seed `FALSE`: elements draw from the workers' own streams. A whole number, or `TRUE`
#'   for one drawn in the session: each element has an L'Ecuyer stream of its own, so
#'   that the result is the same for any number of workers, whatever is lost and
#'   however pieces are made. The workers' own streams stay where they were.
#' @param .on_error `"stop"`, the default: the first element whose call raises an error ends
#'   all. `"return"`: its place in the result has the condition, and all goes on.
#' @param .speculate If `TRUE`, a piece that takes much longer than the others
#'   is given to an idle worker, too, when no more pieces wait, and the first answer counts.
#'   The default is `FALSE`, since `fun` then may run more than once for an element.
#' @returns A list as long as `x`, in its order, with its names.
#' @section Errors:
#' * `muster_error_remote`: `fun` raised an error. Fields `element` (index in `x`), `worker`,
#'   `condition`, `remote_call`, `stack`, and `results`: a list of what the other elements gave,
#'   `NULL` where there is nothing yet.
#' * `muster_error_lost`, `muster_error_timeout`: a piece was lost or took too long; fields as in
#'   [cluster_start()], with `range` and `results`.
#' * `muster_error_limit`: what `fun` uses of the global environment is larger than
#'   `getOption("muster.globals_max")` bytes (500 MB).
#' @section Cost:
#' The function, the further arguments and the globals are sent with each piece.
#' Some 50 us for a piece.
#' @seealso [task_submit()] for single calls.
#' @examples
#' cl <- cluster_start(2)
#' unlist(cluster_map(cl, 1:10, function(i) i^2))
#' unlist(cluster_map(cl, c(a = 1, b = 2), function(x) rnorm(1, x), .seed = 1))
#' cluster_stop(cl)
#' @export
cluster_map <- function(cl, x, fun, ..., .seed = FALSE, .on_error = c("stop", "return"),
                        .speculate = FALSE) {
  call <- sys.call()
  check_cluster(cl, call)
  check_function(fun, call)
  if (is.object(x) || (!is.vector(x) && !is.list(x))) {
    x <- as.list(x)
  }
  on_error <- check_choice(.on_error, ".on_error", c("stop", "return"), call)
  check_flag(.speculate, ".speculate", call)
  job <- list(
    fun = fun, args = list(...), globals = find_globals(fun, call),
    returns = on_error == "return"
  )
  map <- new_map(cl, x, job, map_seed(.seed, call), .speculate)
  on.exit(task_cancel(map$tasks))
  while (map$left > 0L) {
    map_submit(map)
    map_take(map, call)
  }
  on.exit()
  names(map$results) <- names(x)
  map$results
}

# ---- Pieces

# An environment, since submitting and taking both change it.
new_map <- function(cl, x, job, seed, speculate) {
  map <- new.env(parent = emptyenv())
  map$cl <- cl
  map$x <- x
  map$n <- length(x)
  map$job <- job
  map$results <- vector("list", map$n)
  map$left <- map$n # elements without a result
  map$next_one <- 1L # first element that was not handed out
  map$tasks <- list()
  map$pieces <- list() # of these: first, last, begin
  map$per_element <- NA_real_ # seconds, of the pieces that came back last
  map$seeds <- if (!is.null(seed)) stream_list(seed, map$n)
  map$speculate <- speculate
  map
}

# A piece should take about this long: much longer than handing it out, much shorter than
# anybody waits.
piece_seconds <- 0.05

# How many elements the next piece has: half of what each worker would still get, bounded by
# time, and few at first, when nothing is known.
piece_size <- function(map, workers) {
  left <- map$n - map$next_one + 1L
  size <- ceiling(left / (2 * workers))
  most <- if (is.na(map$per_element)) {
    max(1, map$n / (workers * 100))
  } else {
    max(1, piece_seconds / max(map$per_element, 1e-9))
  }
  as.integer(max(1, min(size, most, left)))
}

# Each worker has one piece, and a second to go on with where pieces are quick.
map_submit <- function(map) {
  workers <- length(map$cl)
  size <- piece_size(map, workers)
  quick <- isTRUE(map$per_element * size < 0.02)
  while (map$next_one <= map$n && length(map$tasks) < workers * (1L + quick)) {
    size <- piece_size(map, workers)
    submit_piece(map, map$next_one, map$next_one + size - 1L)
    map$next_one <- map$next_one + size
  }
  if (map$speculate && map$next_one > map$n) {
    map_speculate(map)
  }
}

submit_piece <- function(map, first, last) {
  elements <- first:last
  task <- task_submit(map$cl, call_piece, map$job, map$x[elements], map$seeds[elements])
  at <- length(map$tasks) + 1L
  map$tasks[[at]] <- task
  map$pieces[[at]] <- list(first = first, last = last, begin = now_seconds())
}

now_seconds <- function() proc.time()[["elapsed"]]

# What is sent in place of map_piece() itself, which every worker has.
call_piece <- function(job, x, seeds) getFromNamespace("map_piece", "muster")(job, x, seeds)
environment(call_piece) <- asNamespace("utils")

# Takes the pieces that are done.
map_take <- function(map, call) {
  patience <- if (map$speculate) piece_seconds else Inf
  done <- which(task_wait(map$tasks, any = TRUE, timeout = patience))
  for (i in done) {
    piece <- map$pieces[[i]]
    if (isTRUE(piece$over)) next # another had the same elements and was first
    elements <- piece$first:piece$last
    value <- tryCatch(task_value(map$tasks[[i]]),
      muster_error = function(e) abort_map(map, e, elements, call)
    )
    if (!is.null(value$failed)) {
      abort_element(map, value, elements, call)
    }
    put_results(map, elements, if (value$packed) as.list(value$values) else value$values)
    map$left <- map$left - length(elements)
    map$per_element <- value$seconds / length(elements)
    drop_doubles(map, piece)
  }
  map$tasks[done] <- NULL
  map$pieces[done] <- NULL
}

# Nothing else may hold the list, or each piece would copy it.
put_results <- function(map, elements, values) {
  results <- map$results
  map$results <- NULL
  results[elements] <- values
  map$results <- results
}

# ---- Speculation

# Near the end an idle worker gets what a straggler has, once for each piece.
map_speculate <- function(map) {
  idle <- length(map$cl) - length(map$tasks)
  if (idle <= 0L || is.na(map$per_element)) {
    return()
  }
  age <- vapply(map$pieces, function(piece) now_seconds() - piece$begin, 0)
  count <- vapply(map$pieces, function(piece) piece$last - piece$first + 1L, 0L)
  again <- vapply(map$pieces, function(piece) isTRUE(piece$again), NA)
  slow <- which(!again & age > 2 * map$per_element * count + piece_seconds)
  for (i in utils::head(slow[order(-age[slow])], idle)) {
    map$pieces[[i]]$again <- TRUE
    submit_piece(map, map$pieces[[i]]$first, map$pieces[[i]]$last)
    map$pieces[[length(map$pieces)]]$again <- TRUE
  }
}

# The other task for the same elements isn't wanted any more.
drop_doubles <- function(map, piece) {
  if (!isTRUE(piece$again)) {
    return()
  }
  for (i in seq_along(map$pieces)) {
    other <- map$pieces[[i]]
    if (identical(other$first, piece$first) && !isTRUE(other$over)) {
      map$pieces[[i]]$over <- TRUE
      task_cancel(map$tasks[[i]])
    }
  }
}

# ---- Errors

abort_map <- function(map, condition, elements, call) {
  condition$call <- call
  condition$range <- range(elements)
  condition$element <- if (length(elements) == 1L) elements else NA_integer_
  condition$results <- map$results
  raise_condition(condition)
}

abort_element <- function(map, value, elements, call) {
  element <- elements[value$failed]
  error <- value$error
  if (length(value$values)) {
    map$results[elements[seq_along(value$values)]] <- value$values
  }
  abort_muster("remote", paste0("Element ", element, " raised an error: ", error$message),
    details = if (nzchar(error$call)) paste0("In: ", error$call),
    hints = paste0(
      "The condition's field `results` has what the others gave; ",
      ".on_error = \"return\" goes on."
    ),
    element = element, condition = error$condition, remote_call = error$call,
    stack = error$stack, results = map$results, call = call
  )
}

# ---- Random numbers

map_seed <- function(seed, call) {
  if (identical(seed, FALSE)) {
    return(NULL)
  }
  if (identical(seed, TRUE)) {
    seed <- sample.int(.Machine$integer.max, 1L)
  }
  if (!is.numeric(seed) || length(seed) != 1L || is.na(seed) || seed != trunc(seed)) {
    abort_input(".seed", "TRUE, FALSE or one whole number", seed, call)
  }
  as.integer(seed)
}

# One L'Ecuyer stream for each element. The session's own stream stays as it is.
stream_list <- function(seed, n) {
  global <- globalenv()
  before <- get0(".Random.seed", global, inherits = FALSE)
  kind <- RNGkind()
  on.exit({
    do.call(RNGkind, as.list(kind))
    if (is.null(before)) rm(".Random.seed", envir = global) else {
      assign(".Random.seed", before, global)
    }
  })
  RNGkind("L'Ecuyer-CMRG", "default", "default")
  set.seed(seed)
  stream <- get(".Random.seed", global)
  streams <- vector("list", n)
  for (i in seq_len(n)) {
    streams[[i]] <- stream
    stream <- parallel::nextRNGStream(stream)
  }
  streams
}

# ---- Globals

# What `fun`, and the functions that it uses, take from the global environment.
find_globals <- function(fun, call) {
  found <- list()
  todo <- list(fun)
  while (length(todo)) {
    one <- todo[[1L]]
    todo <- todo[-1L]
    if (!is.function(one) || is.primitive(one) || !sees_globals(environment(one))) next
    names <- setdiff(codetools::findGlobals(one), names(found))
    for (name in names) {
      if (exists(name, globalenv(), inherits = FALSE) && is_global(name, environment(one))) {
        value <- get(name, globalenv())
        found[name] <- list(value)
        todo <- c(todo, list(value))
      }
    }
  }
  limit <- getOption("muster.globals_max", 500e6)
  size <- as.numeric(utils::object.size(found))
  if (size > limit) {
    abort_muster("limit",
      paste0(
        "What `fun` uses of the global environment has ", format(size, big.mark = ","),
        " bytes; ", format(limit, big.mark = ","), " are allowed."
      ),
      details = paste(names(found), vapply(found, utils::object.size, 0), "bytes"),
      hints = "options(muster.globals_max = ) allows more; or export it once by clusterExport().",
      call = call
    )
  }
  found
}

sees_globals <- function(env) {
  while (!identical(env, emptyenv())) {
    if (identical(env, globalenv())) {
      return(TRUE)
    }
    if (isNamespace(env)) {
      return(FALSE)
    }
    env <- parent.env(env)
  }
  FALSE
}

# Is it the one of the global environment that a function with this environment sees?
is_global <- function(name, env) {
  while (!identical(env, globalenv())) {
    if (exists(name, env, inherits = FALSE)) {
      return(FALSE)
    }
    env <- parent.env(env)
  }
  TRUE
}
