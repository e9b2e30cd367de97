# dplyr's verbs for handles. Their methods are registered once dplyr is loaded (NAMESPACE).
#
# A handle may have groups, as a data frame of dplyr's has. Verbs that look at a group's rows
# together have the rows of each group in one part first; then dplyr itself evaluates each part
# (worker-dplyr.R), so all that its verbs can do works. Without groups, each part has only some of
# the rows: what is evaluated there must have a value for each row whatever the others are
# (partition-rows-code.R), and anything else is refused.

#' dplyr's verbs for data on the workers
#'
#' Once package dplyr is loaded, its verbs work for handles from [partition_scatter()] and related
#' functions as they do for data frames: `filter()`, `mutate()`, `transmute()`, `select()`,
#' `rename()`, `rename_with()`, `relocate()`, `arrange()`, `group_by()`, `rowwise()`, `ungroup()`,
#' `summarise()`, `count()`, `tally()`, `add_count()`, `distinct()`, `slice()`, `slice_head()`,
#' `slice_tail()`, `slice_min()`, `slice_max()`, `slice_sample()`, `do()`, `group_modify()`, the
#' joins `inner_join()`, `left_join()`, `right_join()`, `full_join()`, `semi_join()`, `anti_join()`
#' and `nest_join()`, the sets `union()`, `union_all()`, `intersect()` and `setdiff()`. Each gives
#' another handle; `collect()` brings the rows to the session, `pull()` a column. `group_keys()`,
#' `group_size()`, `n_groups()` and `setequal()` give values. So do verbs that are made of these, as
#' `mutate_at()`, `summarise_if()` and, with groups, `top_n()`.
#'
#' Groups are right whatever parts their rows are in: rows move between the workers first, where a
#' verb looks at those of a group together, and stay together for the verbs that follow.
#'
#' @section Order:
#' `arrange()` puts all rows into one order, as [partition_sort()] does: strings as in the C locale,
#' as in dplyr 1.1.0 and later. With `sort = TRUE`, `count()` and `tally()` have dplyr's order.
#' Otherwise rows come in another order than dplyr has them. Those of a group keep theirs in verbs
#' with these groups, and joins with a small `y` keep that of `x`, as dplyr does; other joins,
#' `summarise()`, `count()`, `distinct()` and other groups bring rows into the order of their keys'
#' parts, see [partition_shuffle()]. So what depends on the order, as `lag()`, `first()` and
#' `cumsum()` do, is dplyr's only before these, and again after `arrange()`.
#'
#' @section Choosing columns:
#' Predicates, as in `where(is.numeric)`, see the columns of all rows, whatever parts and groups
#' there are, in `across()` and the like too. Those that ask for the type have no need of rows:
#' `is.numeric()`, `is.factor()`, `inherits()`, `class()` and their like, and functions or lambdas
#' that compare and combine only these. For any other, as `where(~ any(is.na(.x)))`, the columns
#' come to the session one after the other. With groups, and row by row, such a predicate is
#' refused after columns that the same verb makes.
#'
#' @section With groups:
#' dplyr itself evaluates `mutate()`, `transmute()`, `filter()`, the `slice` functions, `do()` and
#' `group_modify()` on the workers, so all that it can do works: `row_number()`, `lag()`,
#' `across()`, functions of your own. Random numbers follow from `set.seed()`, and are the same
#' again after a loss; they depend on the number of parts. A group's own columns can't be changed.
#' `slice_head()`, `slice_tail()`, `slice_sample()`, and `slice_min()` and `slice_max()` by a column
#' of numbers, dates, times or levels take all groups at once, with dplyr's rows.
#' `.by` (`by` of `slice_head()` and the like) names groups for one verb, whichever version of dplyr
#' there is.
#'
#' `summarise()` evaluates as [partition_summarise()] does: what can be is evaluated before rows
#' move. It has one row for each group. `across()` works there by itself, not in other code, with
#' functions, lambdas and lists of them; as in dplyr, it chooses from the results before it too, and
#' a result takes the place of one before it that has its name, unless later code names that. Where
#' it chooses by their types, as `where()` does, these results are computed first. Values of
#' different types in one column are put together as [base::c()] does, differences of times in
#' several units in seconds, as in dplyr: the results of all groups have the same units, also for
#' the expressions after them.
#'
#' `do()` with names, as in `do(fit = lm(y ~ x, data = .))`, gives rows that are each a group.
#'
#' @section Without groups:
#' A part has only some of the rows. So `mutate()`, `transmute()`, `filter()` and `arrange()` take
#' expressions that have a value for each row, whatever the others are:
#' * base R's arithmetic, comparisons and mathematical functions, `ifelse()`, `is.na()`, `%in%`,
#'   `match()`, `cut()` and `findInterval()` with given breaks, `factor()` with given levels;
#' * of texts, `paste()`, `sprintf()`, `nchar()`, `substr()`, `grepl()`, `sub()`, `toupper()`,
#'   `trimws()` and the like, and stringr's functions with one value for each string, also with
#'   patterns of `fixed()`, `regex()` and `coll()`;
#' * of dates and times, `format()` and `as.Date()` with a format, `weekdays()`, `ISOdate()`,
#'   `difftime()` with units (those that R chooses depend on all rows), sums and differences of
#'   days, and lubridate's parts of dates and roundings;
#' * dplyr's `if_else()`, `case_when()`, `between()`, `coalesce()`, `na_if()` and `near()`;
#' * `across()` in `mutate()` and `transmute()`, `if_any()` and `if_all()` in `filter()`.
#'
#' In them, aggregates of all rows are values, as in `(x - mean(x)) / sd(x)` or
#' `cut(x, c(0, median(x), max(x)))`: those of [partition_summarise()], evaluated as it does,
#' whatever they are of, and `length()`, `prod()`, `median()`, `quantile()`, `IQR()`, `mad()`,
#' `weighted.mean()` and `cor()`, for which the columns that they name travel to one worker.
#' Variables of length 1, and base R's functions of these, such as `Sys.Date() - 30`, are evaluated
#' in the session. Other functions are refused, since it can't be
#' known whether they look at other rows; [partition_map()] evaluates them part by part, if you
#' know that they don't. `slice_min()` and `slice_max()` take the name of a column, `slice()`
#' numbers of rows in increasing order, `slice_sample()` only `n` and `prop`, and its rows keep
#' their order.
#' `do()` has all rows in one part. Settings are the session's, as in [partition_summarise()]; parts
#' whose columns have other types are given the type that all rows have together.
#'
#' @section Row by row:
#' After `rowwise()` dplyr evaluates `mutate()`, `transmute()`, `filter()`, `summarise()` and `do()`
#' for each row, in the part where it is: nothing moves, rows keep their order, and all that dplyr
#' can do there works, `c_across()` and columns that are lists too. Random numbers are as with
#' groups. Parts whose columns have other types are given those that all rows have together, and so
#' are results. `select()`, `rename()`, `rename_with()`, `relocate()`, `arrange()`, `group_by()`,
#' `ungroup()` and `collect()` know such data; other verbs ask to `ungroup()` it first.
#'
#' @section Joins:
#' With dplyr's arguments, whichever version of it there is: `suffix`, `keep`, `na_matches`,
#' `multiple` (`"any"` is the first), `unmatched` and `relationship`. With a small `y` rows come in
#' the order of `x`, but for `right_join()`, `full_join()`, `unmatched` that is about rows of `y`,
#' and `relationship = "one-to-one"` and `"one-to-many"`. Otherwise they come by the part of their
#' key; within a part in the order of `x`, for each row of `x` its matches in the order of `y`, and
#' then the rows of `y` without a match: see [partition_join()]. `first` and `last` mean the order
#' that [partition_collect()] would have for `y`. Keys have the type that those of both sides have
#' together. Nothing is said of rows that match several where that is allowed. `y` may be a data
#' frame of the session's, whatever `copy` says. The column of `nest_join()` has tibbles or data
#' frames, also where `y` is a data.table.
#'
#' With `join_by()` of inequalities, dplyr itself joins each part, of rows whose equal keys meet
#' there, in its order. With a small `y`, or without an equality, each part of `x` gets all rows of
#' `y`, which should be few: without an equality, `right_join()`, `full_join()` and what is asked of
#' rows of `y` are refused.
#'
#' @section Refused:
#' With an error of class `muster_error_input` that says what to do instead: `nest_by()`,
#' `group_map()`, `group_split()`, `cur_group_id()`, and the arguments `.drop`, `.preserve`,
#' `.locale`, `multiple = "warning"`, and `add` and `.dots` of `group_by()`. Sets of rows are of two
#' tables with the same columns.
#'
#' @section Coming from multidplyr:
#' `cluster_start(n)` is for `new_cluster(n)`, `partition_scatter(cl, x)` for `partition(x, cl)`,
#' and [partition_read()] for files that each worker reads. Functions and variables that code names
#' are found and sent, so nothing is copied or assigned before; packages that it needs are attached
#' by `parallel::clusterEvalQ(cl, library(mgcv))`. Verbs without groups are for all rows, not for
#' those of each worker: `slice(p, 1)` is one row, and `arrange()` orders all of them.
#'
#' @section Cost:
#' `filter()`, `mutate()` without groups and `select()`: as [partition_map()]. `summarise()`,
#' `count()`, `distinct()`: as [partition_summarise()]. Others with groups: as
#' [partition_shuffle()], once for verbs that follow each other with the same groups. Joins: as
#' [partition_join()]. `arrange()`: as [partition_sort()].
#' @section Source:
#' The verbs are dplyr's. multidplyr's users ask for groups that are right (its issues 29 and 132).
#' @name partition_verbs
#' @examplesIf requireNamespace("dplyr", quietly = TRUE)
#' library(dplyr, warn.conflicts = FALSE)
#' cl <- cluster_start(2)
#' cars <- partition_scatter(cl, mtcars, parts = 4)
#' heavy <- mutate(filter(cars, wt > 3), power = hp / wt)
#' collect(summarise(group_by(heavy, cyl), n = n(), power = mean(power), best = max(mpg)))
#' collect(mutate(group_by(cars, gear), rank = row_number(mpg)))
#' head(arrange(cars, desc(mpg)))
#' cluster_stop(cl)
NULL

# ---- Groups

group_by.muster_partition <- function(.data, ..., .add = FALSE, .drop = TRUE) {
  call <- dplyr_call("group_by")
  check_flag(.add, ".add", call)
  if (!isTRUE(.drop)) refuse_argument(".drop", call)
  columns <- names(.data)
  refuse_former(rlang::enquos(...), call)
  exprs <- quo_exprs(rlang::enquos(..., .named = TRUE), call, columns)
  exprs <- unlist(lapply(exprs, picked_exprs, .data, call), recursive = FALSE)
  exprs <- Filter(function(one) !is.null(one$code), exprs)
  new <- Filter(function(one) !identical(one$code, as.name(one$name)), exprs)
  if (length(new)) .data <- mutate_ungrouped(.data, new, call)
  by <- vapply(exprs, `[[`, "", "name")
  missing <- setdiff(by, names(.data))
  if (length(missing)) abort_column(missing[1L], columns, "...", call)
  with_groups(.data, c(if (.add) groups_of(.data), by))
}

# Arguments that group_by() had, for which dplyr still takes them.
refuse_former <- function(quos, call) {
  there <- intersect(names(quos), c("add", ".dots"))
  if (length(there)) {
    abort_muster("input", paste0("`", there[1L], "` is no argument of group_by() any more."),
      hints = "`.add = TRUE` adds groups; across(all_of(names)) takes columns by their names.",
      argument = there[1L], call = call
    )
  }
}

# across() and pick() of columns as they are.
picked_exprs <- function(one, p, call) {
  if (!is_call_of(one$code, c("across", "pick"))) {
    return(list(one))
  }
  lapply(across_keys(one, p, call), function(key) {
    if (key$down) refuse_argument("across() with functions", call)
    list(name = as.character(key$code), code = key$code, env = key$env)
  })
}

ungroup.muster_partition <- function(x, ...) {
  call <- dplyr_call("ungroup")
  by <- if (...length()) names(selected(x, rlang::enquos(...), call))
  with_groups(x, if (...length()) setdiff(groups_of(x), by))
}

group_vars.muster_partition <- function(x) groups_of(x)

groups.muster_partition <- function(x) lapply(groups_of(x), as.name)

tbl_vars.muster_partition <- function(x) names(x)

# Verbs that ask for these know nothing of rowwise(): their `call` is named.
groups_of <- function(p) {
  if (is_rowwise(p)) {
    call <- dynGet("call", quote(verb()))
    abort_muster("input",
      paste0("`", deparse(call[[1L]])[1L], "()` isn't possible for data by row, see rowwise()."),
      hints = "ungroup() first, or collect() the rows.", call = call
    )
  }
  as.character(held_by(p)$groups)
}

with_groups <- function(p, by) {
  held <- held_by(p)
  held$groups <- if (length(by)) unique(by)
  held$ids <- NULL
  new_handle(held)
}

# ---- Columns

select.muster_partition <- function(.data, ...) {
  call <- dplyr_call("select")
  chosen <- selected(.data, rlang::enquos(...), call)
  groups <- setdiff(groups_of(.data), names(.data)[chosen])
  all <- c(match(groups, names(.data)), chosen)
  renamed_columns(.data, stats::setNames(all, c(groups, names(chosen))), call)
}

rename.muster_partition <- function(.data, ...) {
  call <- dplyr_call("rename")
  chosen <- selected(.data, rlang::enquos(...), call, tidyselect::eval_rename)
  names <- names(.data)
  names[chosen] <- names(chosen)
  renamed_columns(.data, stats::setNames(seq_along(names), names), call)
}

rename_with.muster_partition <- function(.data, .fn, .cols = dplyr::everything(), ...) {
  call <- dplyr_call("rename_with")
  chosen <- selected(.data, list(rlang::enquo(.cols)), call)
  names <- names(.data)
  new <- rlang::as_function(.fn)(names[chosen], ...)
  if (!is.character(new) || length(new) != length(chosen) || anyNA(new)) {
    abort_input(".fn", paste("a function that returns", length(chosen), "names"), new, call)
  }
  names[chosen] <- new
  renamed_columns(.data, stats::setNames(seq_along(names), names), call)
}

relocate.muster_partition <- function(.data, ..., .before = NULL, .after = NULL) {
  call <- dplyr_call("relocate")
  check_partition(.data, ".data", call)
  source <- column_source(.data, call)
  quos <- lapply(rlang::enquos(...), chosen_code, NULL, source)
  places <- list(.before = rlang::enquo(.before), .after = rlang::enquo(.after))
  places <- lapply(Filter(Negate(rlang::quo_is_null), places), chosen_code, NULL, source)
  places <- dplyr::relocate(frame_of_names(names(.data)), !!!quos,
    .before = !!places$.before, .after = !!places$.after
  )
  renamed_columns(.data, unlist(places), call)
}

# Numbers of columns, by their new names. quos: from enquos().
selected <- function(p, quos, call, eval = tidyselect::eval_select) {
  check_partition(p, ".data", call)
  quos <- lapply(quos, chosen_code, NULL, column_source(p, call))
  eval(rlang::expr(c(!!!quos)), frame_of_names(names(p)))
}

# For selections without predicates: each column has its number.
frame_of_names <- function(names) {
  new_frame(rlang::set_names(as.list(seq_along(names)), names), 1L)
}

# A data frame without rows that has the columns and their types: parts with rows know them.
prototype <- function(p, call) {
  opened <- check_partition(p, ".data", call)
  some <- opened$stage$rows > 0
  steps <- end_steps(rep(0, opened$stage$count), FALSE)
  frames <- lapply(collect_parts(opened, call, steps), `[[`, "data")
  expand_strings(bind_frames(if (any(some)) frames[some] else frames))
}

# at: numbers of columns, by their new names.
renamed_columns <- function(p, at, call) {
  opened <- check_partition(p, ".data", call)
  names <- opened$stage$columns
  if (anyDuplicated(names(at))) {
    abort_input("...", "columns whose names differ", names(at), call)
  }
  step <- list(kind = "inner", fun = "rename_columns", args = list(names[at], names(at)))
  groups <- groups_of(p)
  same <- names(at)[match(groups, names[at])]
  keyed <- names(at)[match(opened$stage$keyed, names[at])]
  with_groups(near_stage(opened, list(step), call, if (!anyNA(keyed)) keyed), same)
}

# The next stage: the same parts. keyed: see key_parts().
near_stage <- function(opened, steps, call, keyed = NULL, job = NULL) {
  if (!is.function(steps)) steps <- same_steps(steps)
  ran <- run_stage(opened$cl, opened$stage$count, steps, opened$stage, list(), call, job)
  if (length(keyed)) ran$stage$keyed <- keyed
  ran$handle
}

# ---- Results

collect.muster_partition <- function(x, ...) {
  call <- dplyr_call("collect")
  opened <- check_partition(x, "x", call)
  grouped_rows(as_kind(collect_frame(opened, call), opened$stage$as), x)
}

# Results are computed when they are made.
compute.muster_partition <- function(x, ...) x

pull.muster_partition <- function(.data, var = -1, name = NULL, ...) {
  call <- dplyr_call("pull")
  by <- rlang::enquo(name)
  at <- tidyselect::vars_pull(names(.data), !!rlang::enquo(var))
  if (!rlang::quo_is_null(by)) at <- c(at, tidyselect::vars_pull(names(.data), !!by))
  rows <- collect_frame(open_handle(.data[unique(at)]), call)
  values <- rows[[1L]]
  if (length(at) > 1L) rlang::set_names(values, rows[[length(rows)]]) else values
}

# ---- Groups in one part each

# Without groups all rows are one.
do.muster_partition <- function(.data, ...) {
  call <- dplyr_call("do")
  exprs <- quo_exprs(rlang::enquos(...), call, names(.data))
  done <- whole_verb(.data, "do", exprs, call)
  # As in dplyr: rows that a data frame gave have the groups, those of named values are groups.
  named <- any(vapply(exprs, function(one) nzchar(one$name), NA))
  if (is_rowwise(.data) || (named && length(groups_of(.data)))) {
    return(as_rowwise(done, character()))
  }
  with_groups(done, groups_of(.data))
}

group_modify.muster_partition <- function(.data, .f, ..., .keep = FALSE) {
  call <- dplyr_call("group_modify")
  check_flag(.keep, ".keep", call)
  own <- list2env(list(fun = rlang::as_function(.f)), parent = baseenv())
  given <- list(
    list(name = ".f", code = quote(fun), env = own),
    list(name = ".keep", code = .keep, env = baseenv())
  )
  exprs <- quo_exprs(rlang::enquos(...), call, names(.data))
  whole_verb(.data, "group_modify", c(given, exprs), call)
}

whole_verb <- function(p, verb, exprs, call) {
  if (has_groups(p)) {
    return(verb_parts(p, verb, exprs, call))
  }
  all <- shuffle_stages(check_partition(p, ".data", call), character(), 1L, call)
  verb_stage(open_handle(all$handle), verb, exprs, character(), call)
}

# A verb of dplyr's for the rows of each group, which dplyr evaluates on the workers.
verb_parts <- function(p, verb, exprs, call) {
  by <- if (is_rowwise(p)) ids_of(p) else groups_of(p)
  refuse_numbers(exprs, call)
  exprs <- chosen_exprs(p, verb, exprs, call)
  for (one in exprs) {
    # Names of other verbs' arguments are no columns, as `n` of slice_min().
    changed <- verb %in% c("mutate", "transmute") && one$name %in% by
    if (changed && !identical(one$code, as.name(one$name))) {
      abort_muster("input", paste0("Can't change column `", one$name, "`: it is a group."),
        hints = "ungroup() first.", argument = one$name, call = call
      )
    }
  }
  if (is_rowwise(p)) {
    return(rowwise_parts(p, verb, exprs, call))
  }
  before <- slice_steps(verb, exprs, names(p), by)
  opened <- key_parts(check_partition(p, ".data", call), by, call, before)
  with_groups(verb_stage(opened, verb, exprs, by, call), by)
}

# A group's number, or its rows' numbers, would be those in its part.
refuse_numbers <- function(exprs, call) {
  for (one in exprs) {
    found <- intersect(names_in(one$code), c("cur_group_id", "cur_group_rows", "group_indices"))
    if (length(found)) refuse_argument(paste0(found[1L], "()"), call)
  }
}

verb_job <- function(opened, exprs, call) {
  funs <- lapply(exprs, function(one) code_function(opened$stage$columns, one$code, one$env))
  names(funs) <- vapply(exprs, `[[`, "", "name")
  make_job(dplyr_part, list(funs = funs), NULL, FALSE, opened$cl, call)
}

verb_stage <- function(opened, verb, exprs, by, call) {
  job <- verb_job(opened, exprs, call)
  step <- list(kind = "call", how = "verb", verb = verb, by = by, name = paste0(verb, "()"))
  if (length(by)) step$slice <- slice_plan(verb, exprs, opened$stage$columns)
  ran <- verb_stages(opened, step, exprs, call, job)
  if (length(opened$stage$keyed)) ran$stage$keyed <- opened$stage$keyed
  ran$handle
}

# What run_stage() gives for a verb that dplyr evaluates. stream: of random numbers, which follow
# from set.seed(), and are the same when a part is made again.
verb_stages <- function(opened, step, exprs, call, job,
                        stream = map_stream(TRUE, opened$cl, call)) {
  names <- vapply(exprs, `[[`, "", "name")
  # Units of what others replace or remove are noted before.
  if (step$verb %in% making_verbs) {
    step$noted <- which(nzchar(names) & duplicated(names, fromLast = TRUE))
  }
  run <- function(units) {
    step$units <- units
    steps <- seeded_steps(list(step), stream, 0)
    ran <- run_stage(opened$cl, opened$stage$count, steps, opened$stage, list(), call, job)
    columns <- mixed_units(lapply(ran$answers, `[[`, "units"))
    if (step$verb %in% making_verbs) check_unnamed(columns, exprs, names, call)
    noted <- mixed_units(lapply(ran$answers, `[[`, "noted"))
    c(ran, list(mixed = c(columns, names[as.integer(noted)])))
  }
  with_one_unit(names, function(k) may_name(exprs[-seq_len(k)], names[k]), run)
}

# Verbs whose expressions make columns that those after them see.
making_verbs <- c("mutate", "transmute", "summarise")

# A column that an expression without a name has made can't be converted before others read it.
check_unnamed <- function(mixed, exprs, names, call) {
  after <- exprs[-seq_len(c(which(!nzchar(names)), length(names))[1L])]
  wrong <- Filter(function(name) may_name(after, name), setdiff(mixed, names))
  if (length(wrong)) {
    abort_muster("input", paste0(
      "Column `", wrong[1L], "` has time differences of other units in other groups, and is used ",
      "by another expression."
    ), hints = "difftime(a, b, units = \"secs\") has the same units for all groups.",
    argument = "...", call = call)
  }
}

# Whether code may read a column of this name.
may_name <- function(exprs, name) {
  opaque <- c(
    "across", "c_across", "pick", "if_any", "if_all", "cur_data", "cur_data_all", "get", "get0",
    "mget", "eval", ".data"
  )
  any(c(opaque, name) %in% unlist(lapply(exprs, function(one) names_in(one$code))))
}

# p with all rows of a group in one part. A stage's `keyed` are columns whose equal values are in
# one part: then so are those of these and others together.
# before: steps for rows that move.
key_parts <- function(opened, by, call, before = list()) {
  if (length(opened$stage$keyed) && all(opened$stage$keyed %in% by)) {
    return(opened)
  }
  ran <- shuffle_stages(opened, by, opened$stage$count, call, before)
  ran$stage$keyed <- by
  open_handle(ran$handle)
}

# ---- Arguments

# The call that errors show.
dplyr_call <- function(verb) call(verb)

# Quosures as list(name, code, env, named). named: whether the user gave the name.
quo_exprs <- function(quos, call, columns, named = rlang::have_name(quos)) {
  Map(function(quo, name, named) {
    env <- rlang::quo_get_env(quo)
    code <- rlang::quo_get_expr(quo)
    # A lambda of mutate_at() and the like.
    if (is.call(code) && inherits(code[[1L]], "inline_colwise_function")) {
      env <- environment(code[[1L]])
      code <- across_code(attr(code[[1L]], "formula"), code[[2L]], NULL)
    }
    code <- flat_code(code, env, columns, call)
    list(name = name, code = check_pronouns(code, env, NULL, call), env = env, named = named)
  }, quos, rlang::names2(quos), named, USE.NAMES = FALSE)
}

# Code without quosures inside, as `{{ }}` puts them there.
flat_code <- function(code, env, columns, call) {
  if (rlang::is_quosure(code)) {
    home <- rlang::quo_get_env(code)
    inner <- flat_code(rlang::quo_get_expr(code), home, columns, call)
    if (!identical(home, env) && !means_same(inner, home, env, columns)) {
      abort_muster("input", paste0(
        "Can't have `{{ }}` of code such as `", deparse(inner)[1L], "` inside of other code."
      ), hints = "Give it a column's name, or have the whole expression in it.",
      argument = "...", call = call)
    }
    return(inner)
  }
  if (!is.call(code)) {
    return(code)
  }
  if (is.function(code[[1L]])) code[[1L]] <- function_code(code[[1L]])
  parts <- vapply(as.list(code), function(part) is.call(part) || rlang::is_quosure(part), NA)
  if (any(parts)) code[parts] <- lapply(as.list(code)[parts], flat_code, env, columns, call)
  code
}

# Whether code of columns has the same functions in two environments.
means_same <- function(code, one, other, columns) {
  all(free_names(code) %in% c(columns, ".data")) && all(vapply(called_names(code), function(name) {
    identical(get0(name, one, mode = "function"), get0(name, other, mode = "function"))
  }, NA))
}

# The names of functions that code calls.
called_names <- function(code) {
  if (is.call(code)) {
    own <- if (is.symbol(code[[1L]])) as.character(code[[1L]])
    c(own, unlist(lapply(as.list(code), called_names)))
  }
}

# A function's name, for one that is known here: mutate_at() and the like have functions in code.
function_code <- function(fun) {
  homes <- c(
    list(base = all_row_functions), lapply(row_calls, names), aggregate_homes, total_homes
  )
  for (k in seq_along(homes)) {
    for (name in homes[[k]]) {
      if (is_exported(fun, name, names(homes)[k])) {
        return(call("::", as.name(names(homes)[k]), as.name(name)))
      }
    }
  }
  fun
}

refuse_argument <- function(name, call) {
  abort_muster("input", paste0("`", name, "` isn't possible for data on workers."),
    hints = "partition_collect() brings the rows to the session, for all that dplyr can do.",
    argument = name, call = call
  )
}

refuse_options <- function(quos, options, call) {
  there <- intersect(names(quos), options)
  if (length(there)) refuse_argument(there[1L], call)
}

# Names what in the code isn't known to have a value for each row by itself.
refuse_code <- function(code, at, call) {
  nowhere <- Filter(function(name) !name %in% at$columns && !exists(name, at$env), free_names(code))
  nowhere <- setdiff(nowhere, ".data")
  if (length(nowhere)) abort_nowhere(nowhere[1L], at$columns, call)
  what <- unknown_in(code, at)
  abort_muster("input",
    paste0("Can't tell whether ", what, " has a value for each row, whatever the others are."),
    hints = c(
      "Without groups each part has only some of the rows. group_by() has each group's together.",
      "`!!` before code without columns has it evaluated here: filter(p, x == !!f(y)).",
      paste0(
        "If it does: partition_map(p, function(part) dplyr::",
        if (identical(call[[1L]], quote(arrange))) "mutate" else as.character(call[[1L]]),
        "(part, ...))."
      )
    ),
    argument = "...", call = call
  )
}

# Variables of code: neither what comes after `$` nor what code itself defines.
free_names <- function(code) {
  if (!is.call(code)) {
    return(all.vars(code))
  }
  parts <- as.list(code)
  if (is_call_of(code, "function")) {
    return(setdiff(unlist(lapply(c(code[[2L]], code[[3L]]), free_names)), names(code[[2L]])))
  }
  if (is_call_of(code, c("~", "quote"))) {
    return(character())
  }
  if (is_call_of(code, c("$", "@"))) parts <- parts[1:2]
  names <- Filter(nzchar, unlist(lapply(parts[-1L], free_names)))
  made <- Filter(function(part) is_call_of(part, c("<-", "=")) && is.symbol(part[[2L]]), parts)
  setdiff(names, vapply(made, function(part) as.character(part[[2L]]), ""))
}

unknown_in <- function(code, at) {
  known <- is.call(code) && (!is.null(base_name(code, at, constant_functions)) ||
    !is.null(row_call_of(code, at)) || is_formula(code))
  if (known) {
    for (part in as.list(code)[-1L]) {
      if (is.null(inner_code(part, at)) && is.null(constant_of(part, at))) {
        if (is.call(part)) return(unknown_in(part, at))
        return(paste0("`", deparse(part)[1L], "`"))
      }
    }
  }
  text <- deparse(code, 60L)
  paste0("`", text[1L], if (length(text) > 1L) "...", "`")
}
