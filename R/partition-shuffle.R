#' Groups across workers
#'
#' `partition_shuffle()` moves rows between the workers so that all rows with the same key are
#' in one part. `partition_reduce()` gives a result for each group of equal keys, whichever parts
#' its rows were in.
#'
#' @section Keys:
#' Keys are equal as `==` says, also across columns: 1L, 1 and an integer64 1 are; 0 and -0 are;
#' a factor's labels and strings, in whatever encoding. Other than with `==`, `NA` is a key
#' like any other, and `NaN` is another one. Keys may be logical, integer, numeric, integer64,
#' character, factor, Date and POSIXct columns, several together too. Lists can't be
#' keys. Numbers, texts, dates and times are never equal to each other and can't be mixed.
#'
#' @section Order:
#' Rows of one key keep the order that they had. Keys come by part (which part a key is in
#' follows from the key and the number of parts), then in the order of their first appearance.
#' That depends on nothing else: not on the number of workers, on time, or on losses. Sort the
#' collected result if you need another order.
#'
#' @section Aggregates:
#' With `fun` a named character vector, as in `c(total = "sum(x)", n = "n()")`, groups are
#' folded on each worker before anything travels (where that leaves at most half of the
#' rows), so that very large and very uneven groups cost no more than others: `sum()`,
#' `mean()`, `min()` and `max()` of one column, with or without `na.rm = TRUE`, and `n()`.
#' Columns are logical, integer, numeric or integer64 (no number of it past 2^53), and results
#' numeric; or Date, POSIXct (which have no `sum()`) or difftime, and results such too.
#'
#' With `fun` a function, it sees all rows of a group at once, so one part has to take
#' all of them: a group that is most of the data is one worker's work, and must fit into
#' its memory. `combine`, if given, is called before that with the rows of a group that one
#' part has, and what it gives travels instead of them: it must give the columns that `fun`
#' wants, the key's left out or not.
#'
#' @param p Data of [partition_scatter()] and its like.
#' @param by Names of the columns that are the key, from 1 to 64.
#' @param parts Number of parts of the result, from 1 to 4096. By default as many as there
#'   were.
#' @param handlers Listeners of each worker, one whole number from 1 to 256, each with a queue
#'   of its own, so that readers that come all at once don't fill one queue. With
#'   `options(muster.shuffle_links = "listen")` all links between workers are made there; by
#'   default only those that replace a link that failed. It counts from now on for all shuffles
#'   of the cluster; listeners that are open stay so.
#' @param fun Aggregates, as above, or a function of the rows of one group (a data frame) that
#'   gives a data frame, a named list or vector (one row), a single value (a column `value`), or
#'   `NULL` (no rows). The key's columns are put before what it gives.
#' @param combine `NULL`, or a function as `fun`, see above.
#' @param ... Further arguments of `fun` and `combine`.
#' @returns A handle of class `"muster_partition"`, see [partition_scatter()].
#' @section Errors:
#' Those of [partition_scatter()]. `muster_error_input` also for a column that doesn't exist or
#' can't be a key, and for parts whose columns differ, with fields `part` and `worker`.
#' @section Memory and disk:
#' What travels is kept on its worker as long as the result is, so that only what was lost is
#' moved again when a worker is. Past `getOption("muster.shuffle_memory")` bytes on a worker, by
#' default a quarter of the memory that is free, it is in files with checksums, in the worker's
#' temporary directory or in `getOption("muster.shuffle_folder")`, which all workers must be able to
#' read. These options are the session's, and count when a call begins. `muster_error_limit`: there
#' is no room for them.
#' @section Cost:
#' Each byte is copied once by its sender, to shared memory, and once by its reader. Some
#' 200 us for each part, and 20 us for each pair of parts.
#' @section Source:
#' Splitting by the hash of a key: Dean and Ghemawat's MapReduce (OSDI 2004). Users of
#' multidplyr ask for groups that are right whatever part their rows are in (its issues 29
#' and 132).
#' @seealso [partition_join()], [map_reduce()].
#' @examples
#' cl <- cluster_start(2)
#' p <- partition_scatter(cl, mtcars, parts = 4)
#' partition_collect(partition_reduce(p, "cyl", c(n = "n()", power = "mean(hp)")))
#' fits <- partition_reduce(p, "cyl", function(g) coef(lm(mpg ~ wt, g)))
#' partition_collect(fits)
#' cluster_stop(cl)
#' @export
partition_shuffle <- function(p, by, handlers = 1, parts = NULL) {
  call <- sys.call()
  p <- check_partition(p, "p", call)
  check_by(by, call)
  p$shuffle$handlers <- check_count(handlers, "handlers", 1L, 256L, call)
  parts <- check_parts(parts, call, p$stage$count)
  shuffle_stages(p, by, parts, call)
}

# pre: steps before rows travel; post: after they have come. job: of functions in them.
shuffle_stages <- function(p, by, parts, call, pre = list(), post = list(), job = NULL) {
  parts <- min(parts, parts_most)
  split <- split_stage(p, by, parts, pre, job)
  steps <- same_steps(c(list(list(kind = "gather")), post))
  gather_stage(p, parts, steps, list(split), call, split$job)
}

split_stage <- function(p, by, parts, pre = list(), job = NULL) {
  step <- list(kind = "split", by = by, parts = as.integer(parts))
  new_stage(p$shuffle, p$stage$count, same_steps(c(pre, list(step))), job,
    near = p$stage, inner = TRUE
  )
}

# A handle to what is gathered. Blocks of a stage whose gathering fails go with the handle.
gather_stage <- function(p, parts, steps, far, call, job = NULL, weights = NULL) {
  start_stage(p$cl, parts, steps, NULL, far, call, job, title = "the result", weights = weights)
}

#' @rdname partition_shuffle
#' @export
partition_reduce <- function(p, by, fun, ..., combine = NULL, parts = NULL) {
  call <- sys.call()
  p <- check_partition(p, "p", call)
  check_by(by, call)
  parts <- check_parts(parts, call, p$stage$count)
  if (is.character(fun) && (!is.null(names(fun)) || any(grepl("(", fun, fixed = TRUE)))) {
    aggregates <- parse_aggregates(fun, call)
    twice <- intersect(names(fun), by)
    if (length(twice)) {
      abort_muster("input", paste0("An aggregate can't be named `", twice[1L], "` as the key is."),
        argument = "fun", call = call
      )
    }
    fold <- function(name) {
      list(list(kind = "inner", fun = name, args = list(by, aggregates)))
    }
    return(shuffle_stages(p, by, parts, call, fold("fold_partial"), fold("fold_final")))
  }
  fun <- find_function(fun, parent.frame(), call)
  if (!is.null(combine) && !is.function(combine)) {
    abort_input("combine", "NULL or a function", combine, call)
  }
  job <- make_job(fun, list(more = list(...), combine = combine), NULL, FALSE, call)
  step <- function(which) {
    list(list(
      kind = "call", how = "groups", by = by, which = which, name = c("fun", "combine")[which]
    ))
  }
  shuffle_stages(p, by, parts, call, if (!is.null(combine)) step(2L), step(1L), job)
}

# "sum(x, na.rm = TRUE)" becomes list(name, how, column, na_rm).
parse_aggregates <- function(fun, call) {
  names <- names(fun)
  if (is.null(names) || anyNA(names) || !all(nzchar(names)) || anyDuplicated(names)) {
    abort_muster("input", "Aggregates must have names, each once: c(total = \"sum(x)\").",
      argument = "fun", call = call
    )
  }
  lapply(seq_along(fun), function(i) {
    one <- parse_aggregate(fun[[i]])
    if (is.null(one)) {
      abort_muster("input", paste0("Can't read the aggregate \"", fun[[i]], "\"."),
        hints = paste(
          "There are sum(x), mean(x), min(x), max(x), each of one column and with",
          "`na.rm = TRUE` if wanted, and n(). Give a function for anything else."
        ),
        argument = "fun", call = call
      )
    }
    c(list(name = names[i]), one)
  })
}

parse_aggregate <- function(text) {
  code <- tryCatch(str2lang(text), error = function(e) NULL)
  if (!is.call(code) || !is.symbol(code[[1L]])) {
    return(NULL)
  }
  how <- as.character(code[[1L]])
  arguments <- as.list(code)[-1L]
  na_rm <- isTRUE(arguments$na.rm)
  arguments$na.rm <- NULL
  if (identical(how, "n")) {
    return(if (!length(arguments) && !na_rm) list(how = how, column = NULL, na_rm = FALSE))
  }
  if (!how %in% setdiff(names(fold_parts), "n") || length(arguments) != 1L) {
    return(NULL)
  }
  column <- arguments[[1L]]
  if (!is.symbol(column)) {
    return(NULL)
  }
  list(how = how, column = as.character(column), na_rm = na_rm)
}
