#' Sorting across workers
#'
#' `partition_sort()` puts the rows of all parts into one order: those of the first part come
#' before those of the second. So [partition_collect()], `head()` and [partition_write()] have them
#' sorted.
#'
#' @section Order:
#' As [base::order()] has it: numbers, dates and times by value, factors by their levels, `FALSE`
#' before `TRUE`. Strings are sorted by their characters' codes, as in the C locale, on any machine.
#' `NA` and `NaN` come last, also in decreasing order. Rows with equal keys keep their order. The
#' result depends on nothing else: not on the number of parts or workers, timing or losses.
#'
#' @param p A handle from [partition_scatter()] or a related function.
#' @param by Names of the columns to sort by, from 1 to 64: logical, integer, numeric, integer64,
#'   character, factor, Date, POSIXct or difftime. Each further one decides where those before are
#'   equal.
#' @param decreasing `TRUE` for decreasing order, `FALSE` by default; or one value for each column
#'   of `by`.
#' @returns A handle of class `"muster_partition"`, see [partition_scatter()], with as many parts as
#'   `p` of about the same number of rows each. Rows with equal keys may be in several parts.
#' @section Errors:
#' Those of [partition_shuffle()]. `muster_error_input` also for a column of another class.
#' @section Cost:
#' A sample of the keys, 100 rows for each part, tells where parts begin. Then all rows move, as for
#' [partition_shuffle()], and each part is sorted twice: before that and afterwards.
#' @section Source:
#' Sorting by regular samples: Shi and Schaeffer, Parallel Sorting by Regular Sampling (Journal of
#' Parallel and Distributed Computing 14, 1992).
#' @seealso [partition_verbs] for dplyr's `arrange()`.
#' @examples
#' cl <- cluster_start(2)
#' p <- partition_scatter(cl, mtcars, parts = 4)
#' sorted <- partition_sort(p, c("cyl", "mpg"), decreasing = c(FALSE, TRUE))
#' head(sorted)
#' cluster_stop(cl)
#' @export
partition_sort <- function(p, by, decreasing = FALSE) {
  call <- sys.call()
  p <- check_partition(p, "p", call)
  check_by(by, call)
  if (!is.logical(decreasing) || anyNA(decreasing) || !length(decreasing) %in% c(1L, length(by))) {
    abort_input("decreasing", "TRUE or FALSE, or one of them for each column of `by`",
      decreasing, call
    )
  }
  sort_stages(p, by, rep_len(decreasing, length(by)), call)
}

# How many rows of the sample decide where each part begins.
sort_sample_rows <- 100

sort_stages <- function(p, by, decreasing, call) {
  total <- sum(p$stage$rows)
  parts <- as.integer(max(1, min(p$stage$count, total)))
  sample <- sort_sample(p, by, min(1, parts * sort_sample_rows / total, 2^16 / total), call)
  # Sent to each worker once: it may have many levels.
  job <- list(fresh = FALSE, quiet = TRUE, order = list(
    by = by, decreasing = decreasing, model = take_rows(sample, integer())[seq_along(by)],
    starts = part_starts(sample, decreasing, parts)
  ))
  sorted <- list(kind = "sort")
  if (p$stage$count == 1L) {
    return(start_stage(p$cl, 1L, same_steps(list(sorted)), p$stage, list(), call, job))
  }
  split <- list(kind = "split", by = by, parts = parts, sorts = TRUE)
  far <- new_stage(p$shuffle, p$stage$count, same_steps(list(split)), job, p$stage, inner = TRUE)
  steps <- same_steps(list(list(kind = "gather"), sorted))
  gather_stage(p, parts, steps, list(far), call, far$job)$handle
}

# The keys of some rows, evenly spaced, `share` of all; in unnamed columns each row's part and its
# place there. The columns have the types of all parts' rows together.
sort_sample <- function(p, by, share, call) {
  give <- function(task) {
    args <- list(by, ceiling(p$stage$rows[task] * share), task)
    list(list(kind = "inner", fun = "sample_keys", args = args), list(kind = "give"))
  }
  # In order: levels of factors are those of the collected rows.
  bind_answers(p, collect_parts(p, call, give), call)
}

# The rows of the sample at which parts begin, but for the first part. Rows are told apart by their
# places, so one with a key that very many rows have is no worse than any other.
part_starts <- function(sample, decreasing, parts) {
  n <- frame_rows(sample)
  keys <- seq_along(decreasing)
  sorted <- take_rows(sample, key_order(sample[keys], decreasing, as.list(sample)[-keys]))
  take_rows(sorted, as.integer(1 + floor(seq_len(parts - 1L) * as.double(n) / parts)))
}
