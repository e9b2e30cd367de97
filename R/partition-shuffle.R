#' Groups across workers
#'
#' `partition_shuffle()` moves rows between the workers so that all rows with the same key are
#' in one part. `partition_reduce()` computes a result for each group of rows with equal keys,
#' whichever parts the rows were in.
#'
#' @section Keys:
#' Keys are equal when `==` says so, also across types: 1L, 1 and an integer64 1 are equal, as are
#' 0 and -0, and a factor's label and the same string, in whatever encoding. Unlike with `==`,
#' `NA` is a key like any other, and `NaN` is a different one. Keys may be logical, integer,
#' numeric, integer64, character, factor, Date and POSIXct columns, or several of these together.
#' Lists can't be keys. Numbers, texts, dates and times are never equal to each other and can't be
#' mixed.
#'
#' @section Order:
#' Rows with the same key keep their order. Keys are ordered by part (the key and the number of
#' parts decide which part a key is in), then by first appearance. The order depends on nothing
#' else: not on the number of workers, timing or losses. Sort the collected result if you need
#' another order.
#'
#' @section Groups:
#' `.fun` gets all rows of a group at once, so they must all move to one part: a group that makes
#' up most of the data is one worker's job, and must fit into its memory. All columns move: select
#' those that it needs, as in `p[c("key", "x")]`. `.combine`, if given, is first called with those
#' rows of a group that one part has, and its result is moved instead of these rows: it must return
#' the columns that `.fun` needs, with or without those of the key. For sums, means and the like,
#' and a value for each group, [partition_summarise()] is shorter and much faster.
#'
#' @param p,.p A handle from [partition_scatter()] or a related function.
#' @param by,.by Names of the columns that are the key, from 1 to 64.
#' @param parts,.parts Number of parts of the result, from 1 to 4096. By default, as many as the
#'   data has.
#' @param .fun A function of the rows of one group (a data frame), the name of one, or a lambda
#'   such as `~ nrow(.x)`, that returns a data frame, a named list or vector (one row), a single
#'   value (a column `value`), or
#'   `NULL` (no rows). The key's columns are put before its result, whose columns of the same
#'   names are dropped. If no group has rows, the result has only the key's columns.
#' @param .combine `NULL`, or a function like `.fun`, see Groups.
#' @param ... Further arguments of `.fun` and `.combine`. Any name that doesn't begin with a dot
#'   is theirs.
#' @param .args A list of further arguments, for names that begin with a dot.
#' @param .on_error `"stop"`, the default: the first group whose `.fun` raises an error ends the
#'   call. `"return"`: that group has a row with the error's message in a column `.error` and `NA`
#'   in the others; `.error` is `NA` for groups without an error. Errors of `.combine` end the call.
#' @param .seed As in [cluster_map()]: with it, each group draws from a random stream of its own,
#'   the same for any number of workers and after losses. It depends on the group's place, so
#'   another number of parts means other streams.
#' @param .speculate As in [partition_map()]: `FALSE` for functions with side effects.
#' @returns A handle of class `"muster_partition"`, see [partition_scatter()].
#' @section Errors:
#' Those of [partition_scatter()]. `muster_error_input` also for a column that doesn't exist or
#' can't be a key, and for parts whose columns differ, with fields `part` and `worker`.
#' `muster_error_remote`: `.fun` raised an error; the message names the group by its key, and the
#' field `group` is a list of the key's values.
#' @section Memory and disk:
#' The rows that a worker sends are kept there as long as the result exists, so that after the
#' loss of a worker only its rows are moved again. These rows and all parts of data may take
#' `getOption("muster.shuffle_memory")` bytes of memory, all workers of a cluster together; by
#' default half of what is free, of the machine or its control group, once each worker has room to
#' work in. What is beyond goes to files with checksums, first the parts used longest ago: in the
#' worker's temporary directory or in `getOption("muster.shuffle_folder")`, which all workers must
#' be able to read; what a killed session has left there goes when the next one uses the folder.
#' These options are the session's and are read when a call begins. So data may be
#' larger than memory, as long as a few parts for each worker aren't: choose small ones by `parts`,
#' or `.bytes` of [partition_read()]. Results don't depend on what goes to files.
#' If the files of rows that are sent don't fit, the error is of class `muster_error_limit`.
#' @section Listeners:
#' Workers open each other's shared memory directly. What is in files, and everything on systems
#' without /proc, they request over a connection to a listener of the other worker; with
#' `options(muster.shuffle_links = "listen")` they request everything this way.
#' `getOption("muster.shuffle_handlers", 1)` is the number of listeners of each worker, from 1 to
#' 256. Each listener has its own queue: use more of them if many workers connect at once. The
#' number applies to later shuffles; listeners that are open stay open.
#' @section Cost:
#' Each byte is copied once by its sender, to shared memory, and once by its reader. About 200 us
#' for each part, and 20 us for each pair of parts.
#' @section Source:
#' Splitting by the hash of a key: Dean and Ghemawat's MapReduce (OSDI 2004). Users of multidplyr
#' ask for correct groups whatever part their rows are in (its issues 29 and 132).
#' @seealso [partition_summarise()], [partition_join()], [map_reduce()].
#' @examples
#' cl <- cluster_start(2)
#' p <- partition_scatter(cl, mtcars, parts = 4)
#' fits <- partition_reduce(p, "cyl", function(g) coef(lm(mpg ~ wt, g)))
#' partition_collect(fits)
#' cluster_stop(cl)
#' @export
partition_shuffle <- function(p, by, parts = NULL) {
  call <- sys.call()
  p <- check_partition(p, "p", call)
  check_by(by, call)
  parts <- check_parts(parts, call, p$stage$count)
  shuffle_stages(p, by, parts, call)$handle
}

# pre: steps before rows are moved; post: steps after they have arrived. job: for the functions in
# these steps. stream: of random numbers, or NULL. The tasks of the result have the first streams,
# in their order, and the tasks that split have the next ones. Returns what run_stage() does.
shuffle_stages <- function(p, by, parts, call, pre = list(), post = list(), job = NULL,
                           stream = NULL, speculate = TRUE) {
  parts <- min(parts, parts_most)
  groups <- length(post) > 0L && isTRUE(post[[1L]]$how %in% c("groups", "summarise"))
  split <- split_stage(p, by, parts, pre, job, stream, speculate, in_runs = groups)
  steps <- seeded_steps(c(list(list(kind = "gather")), post), stream, 0)
  gather_stage(p, parts, steps, list(split), call, split$job, speculate = speculate)
}

# in_runs: only groups will be made of the rows, see key_split().
split_stage <- function(p, by, parts, pre = list(), job = NULL, stream = NULL, speculate = TRUE,
                        in_runs = FALSE) {
  step <- list(kind = "split", by = by, parts = as.integer(parts), in_runs = in_runs)
  steps <- seeded_steps(c(pre, list(step)), stream, parts)
  new_stage(p$shuffle, p$stage$count, steps, job,
    near = p$stage, speculate = speculate, inner = TRUE
  )
}

# The same for all tasks, except for their streams.
seeded_steps <- function(steps, stream, before) {
  if (is.null(stream)) {
    return(same_steps(steps))
  }
  force(steps)
  force(before)
  function(task) {
    seed <- .Call(ffi_stream_after, stream, before + task - 1)
    lapply(steps, function(step) c(step, if (step$kind == "call") list(seed = seed)))
  }
}

# The stage of the gathered rows, see run_stage(). If gathering fails, its blocks are dropped with
# the handle.
gather_stage <- function(p, parts, steps, far, call, job = NULL, weights = NULL,
                         speculate = TRUE) {
  run_stage(p$cl, parts, steps, NULL, far, call, job, speculate,
    title = "the result", weights = weights
  )
}

#' @rdname partition_shuffle
#' @export
partition_reduce <- function(.p, .by, .fun, ..., .args = NULL, .combine = NULL, .parts = NULL,
                             .on_error = c("stop", "return"), .seed = FALSE, .speculate = TRUE) {
  call <- sys.call()
  p <- check_partition(.p, ".p", call)
  check_given(.by, ".by", call)
  check_given(.fun, ".fun", call)
  by <- check_by(.by, call, ".by")
  fun <- .fun
  parts <- check_parts(.parts, call, p$stage$count, ".parts")
  check_flag(.speculate, ".speculate", call)
  stream <- map_stream(.seed, p$cl, call)
  returns <- check_choice(.on_error, ".on_error", c("stop", "return"), call) == "return"
  own <- c(".args", ".combine", ".parts", ".on_error", ".seed", ".speculate")
  if (is.character(fun) && (length(fun) != 1L || grepl("(", fun, fixed = TRUE))) {
    abort_muster("input", "`.fun` must be a function, or the name of one, not code as text.",
      hints = "For expressions: partition_summarise(p, .by = key, total = sum(x)).",
      argument = ".fun", call = call
    )
  }
  fun <- find_function(fun, parent.frame(), call)
  combine <- function_of(.combine, call)
  if (!is.null(combine) && !is.function(combine)) {
    abort_input(".combine", "NULL or a function", combine, call)
  }
  args <- user_args(list(...), .args, fun, own, c(".p", ".by", ".fun"), call)
  job <- make_job(fun, list(more = args, combine = combine), NULL, FALSE, p$cl, call)
  if (is.null(.seed)) job$quiet <- TRUE
  if (returns && ".error" %in% by) {
    abort_input(".by", "other columns than `.error`, which is for the errors' messages", by, call)
  }
  step <- function(which) {
    list(list(
      kind = "call", how = "groups", by = by, which = which, name = c(".fun", ".combine")[which],
      returns = returns && which == 1L
    ))
  }
  ran <- shuffle_stages(p, by, parts, call, if (!is.null(combine)) step(2L), step(1L), job, stream,
    .speculate
  )
  if (returns) complete_columns(p, ran, call) else ran$handle
}

# A part whose groups have all failed has only the key's columns and `.error`: it gets the others'.
complete_columns <- function(p, ran, call) {
  columns <- lapply(ran$answers, `[[`, "columns")
  all <- columns[[which.max(lengths(columns))]]
  some <- vapply(ran$answers, `[[`, 0, "rows") > 0
  if (all(lengths(columns)[some] == length(all))) {
    return(ran$handle)
  }
  step <- list(kind = "inner", fun = "complete_frame", args = list(all))
  start_stage(p$cl, ran$stage$count, same_steps(list(step)), ran$stage, list(), call)
}
