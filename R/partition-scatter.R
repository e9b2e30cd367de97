#' Data that stays on the workers
#'
#' `partition_scatter()` splits a data frame into parts and sends them to the workers
#' ([partition_read()] reads files instead). `partition_map()` applies a function to each part
#' where it is. `partition_collect()` brings all rows to the session. Between these steps the data
#' stays on the workers: the session has only a handle, which prints how many rows and bytes there
#' are, where, and the first rows.
#'
#' Parts keep the order of the data frame's rows. They are plain data frames, also where a tibble or
#' data.table was scattered: it is one again when it is collected, as is what was made of it. The
#' number of parts depends on the data, not on the number
#' of workers, so results are the same for one worker and for many, to the last bit of a sum.
#' Differences of times have the same units in all parts: in seconds, where R chose several for what
#' a function returned.
#'
#' A handle takes a few hundred bytes, however much data it stands for, even when it is sent along
#' with a function. It works only in the session that made it: a copy read from a file, or sent to
#' a worker, says that it is a copy. After R has garbage-collected a handle, the next call that
#' uses the workers drops its data there.
#'
#' Handles answer like data frames: `dim()`, `nrow()`, `names()`; `head()` and `tail()`, which bring
#' only these rows to the session; `str()`; and `summary()`, which brings one column after the
#' other. `p["x"]` and `p[, c("x", "y")]` are handles to some of the columns. Rows are chosen by
#' `partition_map()`. `unique()` has each row once. `as.data.frame()` is `partition_collect()`, so
#' functions that make a data frame of what they are given, as `lm()` and `write.csv()` do, bring
#' all rows to the session. `p$x`, `rbind()` and changes in place are refused, and so are all
#' other generic functions of packages base, stats and utils, and those made of them, as `is.na()`,
#' `subset()` and `lapply()`: with an error of class `muster_error_input` that says what to use. A
#' handle isn't a list, so functions that need one, as `purrr::map()` and `data.table::setDT()`,
#' fail with errors of their own.
#'
#' @section When a worker is lost:
#' Only the parts that were lost with it are made again, and only when they are needed: with the
#' same functions, from the same data or files. Functions may therefore be evaluated more than
#' once, and files must not change. A data frame that was scattered is kept in the session until
#' nothing derived from it is left (a data.table as a copy, since it may be changed in place). A
#' function is kept as it was, with the variables around it, whatever is assigned to them later:
#' in memory that the workers share, large vectors once for all functions that carry the same.
#' Functions that draw random numbers repeat their results if `.seed` is set. A part that is late
#' (three quarters of the others are done, and it has taken twice their time plus half a second)
#' is also made by another worker; `.speculate = FALSE` rules that out.
#'
#' @param cl A cluster from [cluster_start()].
#' @param x A data frame.
#' @param parts Number of parts, from 1 to 4096. By default one for each 50,000 rows, but at
#'   least 32 (or one for each row) and at most 64.
#' @param p,.p A handle from one of these functions.
#' @param .fun A function that takes a part (a data frame) and returns a data frame, the name of
#'   one, or a lambda such as `~ .x[.x$n > 1, ]`. For its warnings and messages see [task_submit()].
#' @param ... Further arguments of the function. Any name that doesn't begin with a dot is the
#'   function's. The objects that it uses from the session are found as in [cluster_map()].
#' @param .args A list of further arguments, for names that begin with a dot.
#' @param .seed As in [cluster_map()]: with it, each part draws from its own random stream.
#' @param .speculate `TRUE`, the default, if late parts may be evaluated twice at the same time.
#' @returns `partition_collect()`: a data frame, tibble or data.table. The others: a handle of
#'   class `"muster_partition"`.
#' @section Errors:
#' `muster_error_input`: an argument is wrong; parts have different columns; a function didn't
#' return a data frame. `muster_error_remote`: a function raised an error (fields as for
#' [task_value()]); also of class `muster_error_memory` if R ran
#' out of memory. `muster_error_lost`: a part was lost with its worker more than 4 times, or no
#' worker is left. Fields `part` and `worker` say where, and `file` gives the file it was read
#' from. The cluster and all other data remain usable.
#' @section Cost:
#' About 200 us for each part and step. Large columns travel in shared memory; the different strings
#' of a column that repeats them, and the levels of a factor, are sent to each worker once. Workers
#' keep such strings as numbers, 4 bytes a row.
#' @section Source:
#' Users of multidplyr ask for data that stays where it is (its issue 32). Remaking lost parts
#' from their sources: Zaharia et al., Resilient Distributed Datasets (NSDI 2012).
#' @seealso [partition_read()] and [partition_write()] for files, [partition_shuffle()] for groups
#'   and joins across workers.
#' @examples
#' cl <- cluster_start(2)
#' p <- partition_scatter(cl, mtcars, parts = 4)
#' p
#' heavy <- partition_map(p, function(part) part[part$wt > 5, ])
#' partition_collect(heavy)
#' cluster_stop(cl)
#' @export
partition_scatter <- function(cl, x, parts = NULL) {
  call <- sys.call()
  check_cluster(cl, call)
  check_given(x, "x", call)
  if (!is.data.frame(x)) {
    abort_input("x", "a data frame", x, call)
  }
  check_columns(x, call)
  handle <- scatter(cl, source_frame(x), check_parts(parts, call), call, frame_kind(x))
  # A grouped_df of dplyr's, or one by rows.
  groups <- setdiff(names(attr(x, "groups")), ".rows")
  if (inherits(x, "rowwise_df")) {
    return(as_rowwise(handle, groups))
  }
  with_groups(handle, if (inherits(x, "grouped_df")) groups)
}

# Keeps the rows unchanged while parts are made from them. `:=` and set() change a data.table's
# columns in place, so they are copied.
source_frame <- function(x) {
  frame <- plain_frame(x)
  if (inherits(x, "data.table")) take_rows(frame, seq_len(frame_rows(frame))) else frame
}

scatter <- function(cl, x, parts, call, as = "frame") {
  rows <- frame_rows(x)
  if (is.null(parts)) parts <- default_parts(rows)
  split <- split_models(x)
  job <- if (length(split$models)) list(models = split$models, fresh = FALSE, quiet = TRUE)
  steps <- data_steps(split$data, part_ranges(rows, parts))
  start_stage(cl, parts, steps, NULL, list(), call, job, as = as, scattered = TRUE)
}

# What all parts have in common, strings and levels, is sent to each worker once.
# list(data, models): of these columns data has the codes, models the strings, or the factor without
# elements.
split_models <- function(x) {
  x <- code_strings(x)
  models <- list()
  for (name in names(x)) {
    column <- .subset2(x, name)
    levels <- attr(column, "levels", exact = TRUE)
    if (typeof(column) == "integer" && is.factor(column) && length(levels) >= 32L) {
      models[[name]] <- take_rows(list(column), integer())[[1L]]
      attributes(column) <- NULL
      x[[name]] <- column
    } else if (!is.null(parts <- .Call(ffi_coded_parts, column))) {
      models[[name]] <- parts$strings
      x[[name]] <- parts$codes
    }
  }
  list(data = x, models = models)
}

# Steps are functions that live as long as their stage. They are created where no cluster or handle
# is in scope: those would never be garbage-collected.
data_steps <- function(x, ranges) {
  force(x)
  force(ranges)
  function(task) {
    n <- max(0L, as.integer(ranges[task, 2L] - ranges[task, 1L] + 1))
    list(list(kind = "data", data = take_range(x, ranges[task, 1L], n)))
  }
}

# The same for all tasks.
same_steps <- function(steps) {
  force(steps)
  function(task) steps
}

check_columns <- function(x, call) {
  names <- names(x)
  if (anyNA(names) || !all(nzchar(names)) || anyDuplicated(names)) {
    abort_muster("input", "The columns of `x` must have names that differ.",
      argument = "x", call = call
    )
  }
  check_references(as.list(x), "x", call)
}

# Makes a stage, runs it and returns its handle.
start_stage <- function(...) run_stage(...)$handle

# list(handle, stage, answers), answers as those of shuffle_run(). Time differences have the same
# units in all parts, see partition-units.R.
run_stage <- function(cl, count, steps, near, far, call, ...) {
  ran <- run_one_stage(cl, count, steps, near, far, call, ...)
  mixed <- mixed_units(lapply(ran$answers, `[[`, "units"))
  if (!length(mixed)) {
    return(ran)
  }
  step <- list(kind = "inner", fun = "columns_in_seconds", args = list(mixed))
  done <- run_one_stage(cl, count, same_steps(list(step)), ran$stage, list(), call)
  done$answers <- ran$answers
  done
}

run_one_stage <- function(cl, count, steps, near, far, call, job = NULL, speculate = TRUE,
                          title = NULL, files = NULL, weights = NULL, as = NULL,
                          scattered = FALSE, partner = NULL) {
  shuffle <- shuffle_of(cl, call)
  stage <- new_stage(shuffle, count, steps, job, near, far, speculate)
  if (!is.null(as)) stage$as <- as
  stage$title <- title
  stage$files <- files
  stage$weights <- weights
  stage$scattered <- scattered
  stage$partner <- partner
  # Before the run, so that an error or an interrupt drops its results.
  token <- new_token(cl, shuffle, stage)
  answers <- shuffle_run(shuffle, cl, stage, call)
  handle <- new_partition(stage, .subset2(cl[[1L]], "id"), token)
  list(handle = handle, stage = stage, answers = answers)
}

#' @rdname partition_scatter
#' @export
partition_map <- function(.p, .fun, ..., .args = NULL, .seed = FALSE, .speculate = TRUE) {
  call <- sys.call()
  p <- check_partition(.p, ".p", call)
  check_given(.fun, ".fun", call)
  fun <- find_function(.fun, parent.frame(), call)
  own <- c(".args", ".seed", ".speculate")
  args <- user_args(list(...), .args, fun, own, c(".p", ".fun"), call)
  check_flag(.speculate, ".speculate", call)
  stream <- map_stream(.seed, p$cl, call)
  job <- make_job(fun, args, NULL, FALSE, p$cl, call)
  if (is.null(.seed)) job$quiet <- TRUE
  steps <- seeded_steps(list(list(kind = "call", how = "part", name = ".fun")), stream, 0)
  handle <- start_stage(p$cl, p$stage$count, steps, p$stage, list(), call, job, .speculate)
  with_groups_of(handle, .p)
}

#' @rdname partition_scatter
#' @export
partition_collect <- function(p) {
  call <- sys.call()
  p <- check_partition(p, "p", call)
  as_kind(collect_frame(p, call), p$stage$as)
}

collect_frame <- function(p, call) bind_answers(p, collect_parts(p, call), call)

# The rows that parts gave.
bind_answers <- function(p, answers, call) {
  frames <- lapply(answers, `[[`, "data")
  tryCatch(expand_strings(bind_frames(frames)), muster_part_error = function(e) {
    abort_muster("input", conditionMessage(e),
      argument = "p", part = e$part, worker = part_worker(p, e$part),
      file = if (!is.null(e$part)) file_of(p$stage, e$part), call = call
    )
  })
}

#' @export
as.data.frame.muster_partition <- function(x, row.names = NULL, optional = FALSE, ...) {
  call <- sys.call()
  rows <- collect_frame(check_partition(x, "x", call), call)
  as.data.frame(rows, row.names = row.names, optional = optional, ...)
}

# The worker that has a part, or NULL.
part_worker <- function(p, part) {
  if (is.null(part)) {
    return(NULL)
  }
  worker <- .Call(ffi_plan_where, p$shuffle$plan, p$stage$id)[part, 2L]
  if (is.na(worker)) NULL else worker
}

# The answers of all parts, with their data.
collect_parts <- function(p, call, steps = same_steps(list(list(kind = "give")))) {
  ask_parts(p, new_stage(p$shuffle, p$stage$count, steps, near = p$stage), call)
}

# The answers of a stage that keeps no data.
ask_parts <- function(p, stage, call) {
  on.exit(drop_stage(p$shuffle, stage))
  shuffle_run(p$shuffle, p$cl, stage, call)
}
