# Random numbers of maps, tasks and partitions: which streams they draw from.

#' The random numbers of one element again
#'
#' `cluster_stream()` gives the random number stream that an element draws from, to evaluate it
#' alone in the session: to look for an error, or to go on with it.
#'
#' With `.seed = 1`, each element of [cluster_map()] has its own L'Ecuyer stream, in the order of
#' the elements. So has each part of [partition_map()], [partition_reduce()] and so on: there
#' `element` is the part's number, as in messages and in the field `part` of errors. In
#' [partition_reduce()] the groups of a part have one substream of it after the other, see
#' \code{\link[parallel:nextRNGStream]{parallel::nextRNGSubStream()}}. A single task of
#' [task_submit()] has the stream of element 1.
#'
#' @param seed The whole number that was given as `.seed`.
#' @param element The element's position in `.x`, from 1 up.
#' @returns An integer vector, a value for `.Random.seed` in the global environment. Assigning it
#'   sets the generators too (`RNGkind("L'Ecuyer-CMRG", "default", "default")`); the example puts
#'   back what was there.
#' @section Errors:
#' `muster_error_input`: `seed` or `element` isn't one whole number.
#' @section Cost:
#' Microseconds, for any element.
#' @section Source:
#' \code{\link[parallel:nextRNGStream]{parallel::nextRNGStream()}}, which goes one stream further;
#' the jump to a later one is that of L'Ecuyer, Simard, Chen and Kelton (Operations Research 50(6),
#' 2002).
#' @seealso [cluster_map()], [task_submit()], [partition_map()].
#' @examples
#' f <- function(x) rnorm(1, x)
#' cl <- cluster_start(2)
#' values <- cluster_map(cl, c(10, 20, 30), f, .seed = 1)
#' cluster_stop(cl)
#'
#' # The third element again, here.
#' set.seed(1) # so that there is a stream to put back
#' before <- .Random.seed
#' assign(".Random.seed", cluster_stream(1, 3), globalenv())
#' identical(f(30), values[[3]])
#' assign(".Random.seed", before, globalenv())
#' @export
cluster_stream <- function(seed, element = 1L) {
  call <- sys.call()
  check_given(seed, "seed", call)
  stream <- seed_stream(seed, "seed", "one whole number", call)
  .Call(ffi_stream_after, stream, check_count(element, "element", call = call) - 1)
}

# map_stream() gives the L'Ecuyer stream from which elements, or tasks, have streams of their own;
# NULL where they draw from the workers' own. The session's own stream stays as it is, but for
# seed = TRUE.
map_stream <- function(seed, cl, call, name = ".seed") {
  if (is.null(seed) || identical(seed, FALSE)) {
    seed <- if (length(the_cluster$streams)) ruled_seed(cl)
    if (is.null(seed)) {
      return(NULL)
    }
  } else if (identical(seed, TRUE)) {
    seed <- sample.int(.Machine$integer.max, 1L)
  }
  seed_stream(seed, name, "TRUE, FALSE, NULL or one whole number", call)
}

seed_stream <- function(seed, name, wanted, call) {
  whole <- is.numeric(seed) && length(seed) == 1L && !is.na(seed) && seed == trunc(seed)
  if (!whole || abs(seed) > .Machine$integer.max) {
    abort_input(name, wanted, seed, call)
  }
  kept <- keep_stream()
  on.exit(kept())
  RNGkind("L'Ecuyer-CMRG", "default", "default")
  set.seed(as.integer(seed))
  get(".Random.seed", globalenv())
}

# ---- clusterSetRNGStream()
#
# It gives each worker a stream. That rules parallel's verbs, which say what each worker does; who
# does what in a map isn't known before. So the stream that the first of the nodes was given also
# gives the seeds of maps and tasks on them, one after the other.

# Called from C code for each such message. what: list(node, stream).
note_stream <- function(what) {
  the_cluster$plain <- FALSE
  the_cluster$streams[[stream_key(what[[1L]])]] <- what[[2L]]
}

stream_key <- function(node) paste(.subset2(node, "id"), .subset2(node, "rank"))

ruled_seed <- function(cl) {
  if (is_here(cl)) {
    return(NULL)
  }
  ranks <- vapply(cl, function(node) .subset2(node, "rank"), 0L)
  key <- stream_key(cl[[which.min(ranks)]])
  stream <- the_cluster$streams[[key]]
  if (is.null(stream)) {
    return(NULL)
  }
  kept <- keep_stream()
  on.exit(kept())
  assign(".Random.seed", stream, globalenv())
  seed <- sample.int(.Machine$integer.max, 1L)
  the_cluster$streams[[key]] <- get(".Random.seed", globalenv())
  seed
}

# Streams of clusters that are gone.
drop_streams <- function() {
  id <- sub(" .*", "", names(the_cluster$streams))
  the_cluster$streams <- the_cluster$streams[id %in% as.character(.Call(ffi_cluster_ids))]
}

# ---- Without any seed

# Called from C code when a task's value has come that moved its worker's own stream.
note_drawn <- function() the_cluster$drawn <- TRUE

# Once per session, where a result comes that can't be reproduced. some, none: what gives a seed,
# and what says that none is wanted.
tell_drawn <- function(call, some = "`.seed = 1`", none = "`.seed = NULL`") {
  if (!the_cluster$drawn || the_cluster$drawn_told) {
    return(invisible())
  }
  the_cluster$drawn_told <- TRUE
  warn_muster("seed", "Random numbers were drawn without a seed: this result can't be reproduced.",
    hints = c(
      paste0(some, ", or any whole number, makes it reproducible; so does clusterSetRNGStream()."),
      paste(none, "silences this warning, which is shown once per session.")
    ),
    call = call
  )
}
