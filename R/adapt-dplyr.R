# dplyr's verbs for handles. Their methods are registered once dplyr is loaded (NAMESPACE).
#
# A handle may have groups, as a data frame of dplyr's has. Verbs that look at a group's rows
# together have the rows of each group in one part first; then dplyr itself evaluates each part
# (worker-dplyr.R), so all that its verbs can do works. Without groups, each part has only some of
# the rows: what is evaluated there must have a value for each row whatever the others are
# (fold-rows.R), and anything else is refused.

#' dplyr's verbs for data on the workers
#'
#' Once package dplyr is loaded, its verbs work for handles from [partition_scatter()] and related
#' functions as they do for data frames: `filter()`, `mutate()`, `transmute()`, `select()`,
#' `rename()`, `relocate()`, `group_by()`, `ungroup()`, `summarise()`, `count()`, `tally()`,
#' `distinct()`, `slice_head()`, `slice_tail()`, `slice_min()`, `slice_max()`, with groups also
#' `slice()` and `slice_sample()`, the joins `inner_join()`, `left_join()`, `right_join()`,
#' `full_join()`, `semi_join()` and `anti_join()`, and `pull()`. Each gives another handle;
#' `collect()` brings the rows to the session.
#'
#' Groups are right whatever parts their rows are in: rows move between the workers first, where a
#' verb looks at those of a group together, and stay together for the verbs that follow.
#'
#' @section Order:
#' Rows come in another order than dplyr has them. Those of a group keep theirs in verbs with these
#' groups; joins, `summarise()`, `count()`, `distinct()` and other groups bring rows into the order
#' of their keys' parts, see [partition_shuffle()]. So what depends on the order, as `lag()`,
#' `first()` and `cumsum()` do, is dplyr's only before these; order within a group yourself, as in
#' `mutate(total = order_by(day, cumsum(x)))`.
#'
#' @section With groups:
#' dplyr itself evaluates `mutate()`, `transmute()`, `filter()` and the `slice` functions on the
#' workers, so all that it can do works: `row_number()`, `lag()`, `across()`, functions of your own.
#' Random numbers follow from `set.seed()`, and are the same again after a loss; they depend on the
#' number of parts. A group's own columns can't be changed. `.by` (`by` of `slice_head()` and the
#' like) names groups for one verb, whichever version of dplyr there is.
#'
#' `summarise()` evaluates as [partition_summarise()] does: what can be is evaluated before rows
#' move. It has one row for each group. `across()` works there by itself, not in other code, with
#' names of functions and lambdas. Values of different types in one column are put together as
#' [base::c()] does.
#'
#' @section Without groups:
#' A part has only some of the rows. So `mutate()`, `transmute()` and `filter()` take expressions
#' that have a value for each row, whatever the others are: base R's arithmetic, comparisons,
#' mathematical functions, `ifelse()`, `is.na()`, `%in%`, `nchar()`, `substr()` and the like. In
#' them, aggregates of all rows are values, as in `(x - mean(x)) / sd(x)`: those of
#' [partition_summarise()]. Variables of length 1, and base R's functions of these, such as
#' `Sys.Date() - 30`, are evaluated in the session. Other functions are refused, since it can't be
#' known whether they look at other rows; [partition_map()] evaluates them part by part, if you
#' know that they don't. `slice_min()` and `slice_max()` take the name of a column.
#'
#' @section Refused:
#' With an error of class `muster_error_input` that says what to do instead: `arrange()`,
#' `rowwise()`, `add_count()`, `rename_with()`, `group_modify()`, `do()`, `nest_join()`, sets of
#' rows, `slice()` and `slice_sample()` without groups, `cur_group_id()`, and the arguments `sort`,
#' `.keep = "used"` and `"unused"` of `mutate()`, `.drop`, `.preserve`, and those of joins but for
#' `by`. Keys of a join keep the type of `x`, see [partition_join()].
#'
#' @section Cost:
#' `filter()`, `mutate()` without groups and `select()`: as [partition_map()]. `summarise()`,
#' `count()`, `distinct()`: as [partition_summarise()]. Others with groups: as
#' [partition_shuffle()], once for verbs that follow each other with the same groups. Joins: as
#' [partition_join()].
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
#' cluster_stop(cl)
NULL

# ---- Groups

#' @exportS3Method dplyr::group_by
group_by.muster_partition <- function(.data, ..., .add = FALSE, .drop = TRUE) {
  call <- dplyr_call("group_by")
  check_flag(.add, ".add", call)
  if (!isTRUE(.drop)) refuse_argument(".drop", call)
  columns <- names(.data)
  exprs <- quo_exprs(rlang::enquos(..., .named = TRUE), call, columns)
  exprs <- Filter(function(one) !is.null(one$code), exprs)
  new <- Filter(function(one) !identical(one$code, as.name(one$name)), exprs)
  if (length(new)) .data <- mutate_ungrouped(.data, new, call)
  by <- vapply(exprs, `[[`, "", "name")
  missing <- setdiff(by, names(.data))
  if (length(missing)) abort_column(missing[1L], columns, "...", call)
  with_groups(.data, c(if (.add) groups_of(.data), by))
}

#' @exportS3Method dplyr::ungroup
ungroup.muster_partition <- function(x, ...) {
  call <- dplyr_call("ungroup")
  by <- if (...length()) names(selected(x, rlang::enquos(...), call))
  with_groups(x, if (...length()) setdiff(groups_of(x), by))
}

#' @exportS3Method dplyr::group_vars
group_vars.muster_partition <- function(x) groups_of(x)

#' @exportS3Method dplyr::groups
groups.muster_partition <- function(x) lapply(groups_of(x), as.name)

#' @exportS3Method dplyr::tbl_vars
tbl_vars.muster_partition <- function(x) names(x)

groups_of <- function(p) as.character(.subset2(p, "groups"))

with_groups <- function(p, by) {
  held <- unclass(p)
  held$groups <- if (length(by)) unique(by)
  structure(held, class = "muster_partition")
}

# ---- Columns

#' @exportS3Method dplyr::select
select.muster_partition <- function(.data, ...) {
  call <- dplyr_call("select")
  chosen <- selected(.data, rlang::enquos(...), call)
  groups <- setdiff(groups_of(.data), names(.data)[chosen])
  all <- c(match(groups, names(.data)), chosen)
  renamed_columns(.data, stats::setNames(all, c(groups, names(chosen))), call)
}

#' @exportS3Method dplyr::rename
rename.muster_partition <- function(.data, ...) {
  call <- dplyr_call("rename")
  chosen <- selected(.data, rlang::enquos(...), call, tidyselect::eval_rename)
  names <- names(.data)
  names[chosen] <- names(chosen)
  renamed_columns(.data, stats::setNames(seq_along(names), names), call)
}

#' @exportS3Method dplyr::relocate
relocate.muster_partition <- function(.data, ..., .before = NULL, .after = NULL) {
  call <- dplyr_call("relocate")
  places <- dplyr::relocate(prototype(.data, call), ...,
    .before = {{ .before }}, .after = {{ .after }}
  )
  renamed_columns(.data, match_names(names(places), names(.data)), call)
}

match_names <- function(names, all) stats::setNames(match(names, all), names)

# Numbers of columns, by their new names. quos: from enquos().
selected <- function(p, quos, call, eval = tidyselect::eval_select) {
  eval(rlang::expr(c(!!!quos)), prototype(p, call))
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

# ---- Rows

#' @exportS3Method dplyr::mutate
mutate.muster_partition <- function(.data, ..., .by = NULL, .keep = c("all", "none"),
                                    .before = NULL, .after = NULL) {
  call <- dplyr_call("mutate")
  by <- by_columns(.data, rlang::enquo(.by), ".by", call)
  if (identical(.keep, "used") || identical(.keep, "unused")) {
    refuse_argument(paste0(".keep = \"", .keep, "\""), call)
  }
  keep <- check_choice(if (missing(.keep)) "all" else .keep, ".keep", c("all", "none"), call)
  p <- if (length(by)) with_groups(.data, by) else .data
  # With groups dplyr names them, or has several columns of one.
  grouped <- length(groups_of(p)) > 0L
  quos <- rlang::enquos(..., .named = !grouped)
  refuse_options(quos, ".seed", call)
  exprs <- quo_exprs(quos, call, names(p))
  done <- if (grouped) verb_parts(p, "mutate", exprs, call) else mutate_ungrouped(p, exprs, call)
  new <- setdiff(names(done), names(p))
  if (!rlang::quo_is_null(rlang::enquo(.before)) || !rlang::quo_is_null(rlang::enquo(.after))) {
    done <- dplyr::relocate(done, tidyselect::all_of(new), .before = {{ .before }},
      .after = {{ .after }}
    )
  }
  if (keep == "none") {
    made <- vapply(exprs, `[[`, "", "name")
    if (!all(nzchar(made))) refuse_argument(".keep with groups and columns without a name", call)
    kept <- intersect(names(done), c(groups_of(p), made))
    done <- with_groups(done[kept], groups_of(done))
  }
  if (length(by)) with_groups(done, NULL) else done
}

# The groups that `.by` names for one verb. by: from enquo().
by_columns <- function(p, by, name, call) {
  if (rlang::quo_is_null(by)) {
    return(NULL)
  }
  if (length(groups_of(p))) {
    abort_muster("input", paste0("Can't use `", name, "`: the data has groups."),
      hints = "ungroup() first, or leave it out.", argument = name, call = call
    )
  }
  names(p)[selected(p, list(by), call)]
}

#' @exportS3Method dplyr::transmute
transmute.muster_partition <- function(.data, ...) {
  call <- dplyr_call("transmute")
  grouped <- length(groups_of(.data)) > 0L
  quos <- rlang::enquos(..., .named = !grouped)
  refuse_options(quos, c(".keep", ".before", ".after", ".seed"), call)
  exprs <- quo_exprs(quos, call, names(.data))
  if (grouped) {
    return(verb_parts(.data, "transmute", exprs, call))
  }
  done <- mutate_ungrouped(.data, exprs, call)
  kept <- unique(vapply(exprs, `[[`, "", "name"))
  done[intersect(kept, names(done))]
}

#' @exportS3Method dplyr::filter
filter.muster_partition <- function(.data, ..., .by = NULL, .preserve = FALSE) {
  call <- dplyr_call("filter")
  if (!isFALSE(.preserve)) refuse_argument(".preserve", call)
  quos <- rlang::enquos(...)
  by <- by_columns(.data, rlang::enquo(.by), ".by", call)
  if (length(by)) {
    done <- dplyr::filter(with_groups(.data, by), !!!quos)
    return(with_groups(done, NULL))
  }
  if (any(nzchar(names(quos)))) {
    abort_input("...", "conditions without names, as in x == 1", names(quos), call)
  }
  exprs <- quo_exprs(quos, call, names(.data))
  if (!length(exprs)) {
    return(.data)
  }
  if (length(groups_of(.data))) {
    return(verb_parts(.data, "filter", exprs, call))
  }
  opened <- check_partition(.data, ".data", call)
  for (k in seq_along(exprs)) exprs[[k]]$name <- paste0("condition ", k)
  code <- row_codes(.data, exprs, call)
  near_stage(opened, list(list(kind = "inner", fun = "filter_rows", args = list(code))), call,
    keyed = opened$stage$keyed
  )
}

mutate_ungrouped <- function(p, exprs, call) {
  # An aggregate of what is made here needs that on all rows before.
  made <- character()
  for (k in seq_along(exprs)) {
    one <- exprs[[k]]
    at <- list(columns = c(names(p), made), before = list(), env = one$env)
    totals <- unlist(lapply(aggregate_calls(one$code, at), function(code) {
      c(all.vars(code), pronoun_names(code))
    }))
    if (any(totals %in% made)) {
      first <- mutate_ungrouped(p, exprs[seq_len(k - 1L)], call)
      return(mutate_ungrouped(first, exprs[-seq_len(k - 1L)], call))
    }
    made <- c(made, one$name)
  }
  opened <- check_partition(p, ".data", call)
  code <- row_codes(p, exprs, call)
  step <- list(kind = "inner", fun = "mutate_rows", args = list(code))
  changed <- vapply(exprs, `[[`, "", "name")
  keyed <- opened$stage$keyed
  with_groups(
    near_stage(opened, list(step), call, if (!any(keyed %in% changed)) keyed), groups_of(p)
  )
}

# list(name, code) for each expression: code with a value for each row, in which aggregates of all
# rows and other things that don't depend on columns are values already.
row_codes <- function(p, exprs, call) {
  columns <- names(p)
  done <- list()
  for (one in exprs) {
    if (is.null(one$code)) {
      done <- c(done, list(list(name = one$name, code = NULL)))
      columns <- setdiff(columns, one$name)
      next
    }
    # What was made before is no column of p, for aggregates.
    made <- vapply(done, `[[`, "", "name")
    code <- with_totals(p, one, setdiff(columns, made), call)
    at <- list(plan = NULL, columns = columns, before = list(), env = one$env)
    code <- inner_code(code, at)
    if (is.null(code)) refuse_code(one$code, at, call)
    done <- c(done, list(list(name = one$name, code = code)))
    columns <- union(columns, one$name)
  }
  done
}

# Code with the values of its aggregates of all rows.
with_totals <- function(p, one, columns, call) {
  calls <- aggregate_calls(one$code, list(columns = columns, before = list(), env = one$env))
  if (!length(calls)) {
    return(one$code)
  }
  exprs <- lapply(seq_along(calls), function(k) {
    list(name = paste0("a", k), code = calls[[k]], env = one$env)
  })
  totals <- summarise_parts(check_partition(p, ".data", call), exprs, character(), call)
  totals <- collect_frame(open_handle(totals), call)
  replaced(one$code, calls, lapply(totals, function(total) total[[1L]]))
}

aggregate_calls <- function(code, at) {
  if (!is.call(code)) {
    return(list())
  }
  at$plan <- new.env(parent = emptyenv())
  at$plan$codes <- at$plan$folds <- at$plan$aggregates <- list()
  if (!is.null(add_aggregate(code, at))) {
    return(list(code))
  }
  # Nowhere else: inside of other functions names may mean something else.
  if (is.null(base_name(code, at, all_row_functions))) {
    return(list())
  }
  unlist(lapply(as.list(code)[-1L], aggregate_calls, at), recursive = FALSE)
}

replaced <- function(code, calls, values) {
  for (k in seq_along(calls)) {
    if (identical(code, calls[[k]])) {
      return(values[[k]])
    }
  }
  if (!is.call(code)) {
    return(code)
  }
  parts <- vapply(as.list(code), is.call, NA)
  if (any(parts)) code[parts] <- lapply(as.list(code)[parts], replaced, calls, values)
  code
}

# ---- Results

#' @exportS3Method dplyr::collect
collect.muster_partition <- function(x, ...) {
  call <- dplyr_call("collect")
  opened <- check_partition(x, "x", call)
  rows <- as_kind(collect_frame(opened, call), opened$stage$as)
  if (length(groups_of(x))) dplyr::group_by(rows, !!!lapply(groups_of(x), as.name)) else rows
}

# Results are computed when they are made.
#' @exportS3Method dplyr::compute
compute.muster_partition <- function(x, ...) x

#' @exportS3Method dplyr::pull
pull.muster_partition <- function(.data, var = -1, name = NULL, ...) {
  call <- dplyr_call("pull")
  if (!missing(name)) refuse_argument("name", call)
  at <- tidyselect::vars_pull(names(.data), !!rlang::enquo(var))
  collect_frame(open_handle(.data[at]), call)[[1L]]
}

# ---- Groups in one part each

# A verb of dplyr's for the rows of each group, which dplyr evaluates on the workers.
verb_parts <- function(p, verb, exprs, call) {
  by <- groups_of(p)
  for (one in exprs) {
    # A group's number, or its rows' numbers, would be those in its part.
    found <- intersect(names_in(one$code), c("cur_group_id", "cur_group_rows", "group_indices"))
    if (length(found)) refuse_argument(paste0(found[1L], "()"), call)
    # Names of other verbs' arguments are no columns, as `n` of slice_min().
    changed <- verb %in% c("mutate", "transmute") && one$name %in% by
    if (changed && !identical(one$code, as.name(one$name))) {
      abort_muster("input", paste0("Can't change column `", one$name, "`: it is a group."),
        hints = "ungroup() first.", argument = one$name, call = call
      )
    }
  }
  opened <- key_parts(check_partition(p, ".data", call), by, call)
  with_groups(verb_stage(opened, verb, exprs, by, call), by)
}

verb_stage <- function(opened, verb, exprs, by, call) {
  funs <- lapply(exprs, function(one) code_function(opened$stage$columns, one$code, one$env))
  names(funs) <- vapply(exprs, `[[`, "", "name")
  job <- make_job(dplyr_part, list(funs = funs), NULL, FALSE, opened$cl, call)
  step <- list(kind = "call", how = "verb", verb = verb, by = by, name = paste0(verb, "()"))
  # Random numbers follow from set.seed(), and are the same when a part is made again.
  steps <- seeded_steps(list(step), map_stream(TRUE, opened$cl, call), 0)
  near_stage(opened, steps, call, opened$stage$keyed, job)
}

# p with all rows of a group in one part. A stage's `keyed` are columns whose equal values are in
# one part: then so are those of these and others together.
key_parts <- function(opened, by, call) {
  if (length(opened$stage$keyed) && all(opened$stage$keyed %in% by)) {
    return(opened)
  }
  ran <- shuffle_stages(opened, by, opened$stage$count, call)
  ran$stage$keyed <- by
  open_handle(ran$handle)
}

# ---- Arguments

# The call that errors show.
dplyr_call <- function(verb) call(verb)

# Quosures as list(name, code, env).
quo_exprs <- function(quos, call, columns) {
  Map(function(quo, name) {
    env <- rlang::quo_get_env(quo)
    code <- flat_code(rlang::quo_get_expr(quo), env, columns, call)
    list(name = name, code = check_pronouns(code, env, NULL, call), env = env)
  }, quos, if (is.null(names(quos))) rep("", length(quos)) else names(quos), USE.NAMES = FALSE)
}

# Code without quosures inside, as `{{ }}` puts them there.
flat_code <- function(code, env, columns, call) {
  if (rlang::is_quosure(code)) {
    inner <- rlang::quo_get_expr(code)
    known <- (is.symbol(inner) && as.character(inner) %in% columns) || is.atomic(inner)
    if (!known && !identical(rlang::quo_get_env(code), env)) {
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
  parts <- vapply(as.list(code), function(part) is.call(part) || rlang::is_quosure(part), NA)
  if (any(parts)) code[parts] <- lapply(as.list(code)[parts], flat_code, env, columns, call)
  code
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
  nowhere <- Filter(function(name) !name %in% at$columns && !exists(name, at$env), all.vars(code))
  nowhere <- setdiff(nowhere, ".data")
  if (length(nowhere)) {
    abort_muster("input", paste0(
      "There is no column or variable `", nowhere[1L], "`; columns are ", column_list(at$columns),
      "."
    ), argument = "...", call = call)
  }
  what <- unknown_in(code, at)
  abort_muster("input",
    paste0("Can't tell whether ", what, " has a value for each row, whatever the others are."),
    hints = c(
      "Without groups each part has only some of the rows. group_by() has each group's together.",
      paste0(
        "If it does: partition_map(p, function(part) dplyr::", as.character(call[[1L]]),
        "(part, ...))."
      )
    ),
    argument = "...", call = call
  )
}

unknown_in <- function(code, at) {
  if (is.call(code)) {
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
