# tidyr's verbs for handles. Their methods are registered once tidyr is loaded (parallel-methods.R);
# its other generics are refused by name (partition-refused.R).
#
# tidyr itself evaluates each part (worker-tidyr.R). What depends on other rows is found out first,
# from all of them: the columns of a wider table, the values to combine, the type of what is
# unnested, the value above a part's first row.

#' tidyr's verbs for data on the workers
#'
#' Once package tidyr is loaded, its verbs `pivot_longer()`, `pivot_wider()`, `nest()`, `unnest()`,
#' `fill()`, `complete()`, `expand()`, `drop_na()`, `replace_na()`, `separate()`, `extract()`,
#' `separate_rows()`, `unite()` and `uncount()` work for handles from [partition_scatter()] and
#' related functions as they do for data frames, with tidyr's arguments. Each gives another handle,
#' see [partition_verbs]. Package dplyr must be installed, too.
#'
#' tidyr itself evaluates each part on its worker. What depends on the rows of other parts is found
#' out first, from all of them:
#' * `pivot_wider()` makes the columns that all rows have names for, in tidyr's order. Rows with the
#'   same id are brought into one part. Where several values have the same place, columns are lists
#'   in all parts, with a warning of class `muster_warning_input`; `values_fn` has all values of a
#'   place, in their order.
#' * `nest()` brings rows of the same group into one part.
#' * `unnest()` has the columns and types that all rows' values have together.
#' * `fill()` takes values from the parts before and after, in the order of [partition_collect()];
#'   with groups, or `.by`, from the group's rows.
#' * `complete()` and `expand()` combine the values of all rows, in the session, or with groups
#'   those of each group, on the workers.
#'
#' A column has the type that all rows have together, as in dplyr's verbs. `pivot_wider()` and verbs
#' with groups may draw random numbers, which follow from `set.seed()`.
#'
#' @section Order:
#' `pivot_wider()`, `nest()`, `complete()`, and verbs with groups bring rows into the order of their
#' keys' parts, see [partition_shuffle()]; `arrange()` afterwards gives them one. The others keep
#' it.
#'
#' @section Refused:
#' With an error of class `muster_error_input` that says what to do instead: `convert = TRUE`, since
#' the values of all rows decide on a type; `cols_vary = "slowest"` and `id_expand`; functions of
#' `values_transform` other than `as.character()` and its like; in `complete()` and `expand()`
#' without groups, code of a column whose value depends on more than which values there are, as
#' `mean(x)`; `gather()`, `spread()`, and all other generics of tidyr. Functions of tidyr that
#' aren't generic, as `chop()` and `separate_wider_delim()`, refuse handles themselves.
#'
#' @section Cost:
#' As [partition_map()] for verbs that look at each row by itself; two rounds of it for `fill()` and
#' `unnest()`. `pivot_wider()`, `nest()` and verbs with groups: as [partition_shuffle()], once for
#' verbs that follow each other with the same ids or groups. `complete()`: as [partition_join()].
#' The combinations must fit into the session's memory.
#' @section Source:
#' The verbs are tidyr's.
#' @name partition_tidyr
#' @seealso [partition_verbs] for dplyr's verbs.
#' @examplesIf requireNamespace("tidyr", quietly = TRUE)
#' library(tidyr)
#' cl <- cluster_start(2)
#' sales <- data.frame(shop = c("a", "a", "b"), year = c(2024, 2025, 2025), sold = 1:3)
#' sales <- partition_scatter(cl, sales, parts = 2)
#' partition_collect(pivot_wider(sales, names_from = year, values_from = sold))
#' partition_collect(complete(sales, shop, year, fill = list(sold = 0L)))
#' cluster_stop(cl)
NULL

# ---- Each row by itself

pivot_longer.muster_partition <- function(data, cols, ...) {
  call <- dplyr_call("pivot_longer")
  args <- list(...)
  # Rows of all parts would have to be put together again.
  if (identical(args$cols_vary, "slowest")) refuse_argument("cols_vary = \"slowest\"", call)
  check_conversions(args$values_transform, call)
  cols <- chosen_names(data, rlang::enquo(cols), call)
  tidyr_stage(data, "pivot_longer", c(list(cols = these(cols)), args), call,
    gone = cols, as = "tibble"
  )
}

# A function of a column's values would see those of a part.
check_conversions <- function(given, call) {
  known <- list(
    as.character, as.integer, as.numeric, as.double, as.logical, as.complex, as.list, list
  )
  for (one in if (is.function(given)) list(given) else given) {
    if (!any(vapply(known, identical, NA, one))) {
      abort_muster("input", paste0(
        "Can't tell whether a function of `values_transform` has a value for each row, whatever ",
        "the others are."
      ), hints = "as.character() and its like are known; mutate() afterwards has all that is.",
      argument = "values_transform", call = call)
    }
  }
}

separate.muster_partition <- function(data, col, into, ...) {
  apart_stage("separate", data, rlang::enquo(col), list(into, ...))
}

extract.muster_partition <- function(data, col, into, ...) {
  apart_stage("extract", data, rlang::enquo(col), list(into, ...))
}

# A column of strings as several ones. args: after the column.
apart_stage <- function(verb, p, col, args) {
  call <- dplyr_call(verb)
  # The values of all rows decide on a type.
  if (!is.null(args$convert) && !isFALSE(args$convert)) refuse_convert(call)
  check_partition(p, "data", call)
  col <- tidyselect::vars_pull(names(p), !!col)
  tidyr_stage(p, verb, c(list(col = as.name(col)), args), call, gone = c(col, args[[1L]]))
}

refuse_convert <- function(call) {
  abort_muster("input", "`convert = TRUE` isn't possible for data on workers.",
    hints = "mutate(p, x = as.integer(x)) and its like convert columns.",
    argument = "convert", call = call
  )
}

separate_rows.muster_partition <- function(data, ..., sep = "[^[:alnum:].]+", convert = FALSE) {
  call <- dplyr_call("separate_rows")
  if (!isFALSE(convert)) refuse_convert(call)
  cols <- chosen_names(data, rlang::enquos(...), call)
  tidyr_stage(data, "separate_rows", list(these(cols), sep = sep), call, gone = cols, as = "tibble")
}

unite.muster_partition <- function(data, col, ..., sep = "_", remove = TRUE, na.rm = FALSE) {
  call <- dplyr_call("unite")
  col <- rlang::as_name(rlang::enquo(col))
  from <- if (...length()) chosen_names(data, rlang::enquos(...), call) else names(data)
  tidyr_stage(data, "unite", list(col, these(from), sep = sep, remove = remove, na.rm = na.rm),
    call, gone = c(col, if (remove) from)
  )
}

drop_na.muster_partition <- function(data, ...) {
  call <- dplyr_call("drop_na")
  cols <- if (...length()) chosen_names(data, rlang::enquos(...), call) else names(data)
  tidyr_stage(data, "drop_na", list(these(cols)), call)
}

replace_na.muster_partition <- function(data, replace = list(), ...) {
  call <- dplyr_call("replace_na")
  if (!is.list(replace)) abort_input("replace", "a list of values by column", replace, call)
  tidyr_stage(data, "replace_na", list(replace = replace), call, gone = names(replace))
}

uncount.muster_partition <- function(data, weights, ..., .remove = TRUE, .id = NULL) {
  call <- dplyr_call("uncount")
  one <- quo_exprs(list(rlang::enquo(weights)), call, names(data), TRUE)[[1L]]
  column <- is.symbol(one$code) && as.character(one$code) %in% names(data)
  if (!column && is.language(one$code)) {
    # A column of its own, which goes with the rows.
    groups <- groups_of(data)
    one$name <- utils::tail(make.unique(c(names(data), "n")), 1L)
    data <- with_groups(mutate_ungrouped(with_groups(data, NULL), list(one), call), groups)
    one$code <- as.name(one$name)
    .remove <- TRUE
  }
  gone <- c(if (is.symbol(one$code)) as.character(one$code), .id)
  tidyr_stage(data, "uncount", list(one$code, .remove = .remove, .id = .id), call, gone = gone)
}

# ---- Nested rows

nest.muster_partition <- function(.data, ..., .by = NULL, .key = NULL, .names_sep = NULL) {
  call <- dplyr_call("nest")
  by <- by_columns(.data, rlang::enquo(.by), ".by", call)
  quos <- rlang::enquos(...)
  if (length(quos) && !all(nzchar(rlang::names2(quos)))) {
    abort_input("...", "named columns, as in data = c(x, y)", names(quos), call)
  }
  inner <- lapply(quos, function(quo) chosen_names(.data, quo, call))
  if (!length(inner)) {
    rest <- setdiff(names(.data), if (length(by)) by else groups_of(.data))
    inner <- stats::setNames(list(rest), if (is.null(.key)) "data" else .key)
  }
  outer <- if (length(by)) by else setdiff(names(.data), unlist(inner))
  groups <- groups_of(.data)
  rows <- with_groups(.data, NULL)[unique(c(outer, unlist(inner)))]
  args <- c(lapply(inner, these), list(.names_sep = .names_sep))
  done <- tidyr_stage(meeting_rows(rows, outer, call), "nest", args, call,
    keyed = outer, as = "tibble"
  )
  with_groups(done, intersect(groups, names(done)))
}

unnest.muster_partition <- function(data, cols, ..., keep_empty = FALSE, ptype = NULL,
                                    names_sep = NULL, names_repair = "check_unique") {
  call <- dplyr_call("unnest")
  if (...length()) refuse_argument(c(...names(), "...")[1L], call)
  cols <- chosen_names(data, rlang::enquo(cols), call)
  types <- nested_types(data, setdiff(cols, names(ptype)), call)
  args <- list(
    cols = these(cols), keep_empty = keep_empty, ptype = c(ptype, types), names_sep = names_sep,
    names_repair = names_repair
  )
  tidyr_stage(data, "unnest", args, call, gone = cols, as = "tibble")
}

# What the values in columns that are lists have together: data frames may have other columns in
# other parts, or other types.
nested_types <- function(p, cols, call) {
  step <- list(kind = "inner", fun = "part_types", args = list(cols))
  types <- lapply(answers_of(p, step, call), function(one) one$types[[1L]])
  together <- lapply(stats::setNames(nm = cols), function(name) {
    known <- Filter(Negate(is.null), lapply(types, `[[`, name))
    if (!length(known)) {
      return(NULL)
    }
    tryCatch(vctrs::vec_ptype_finalise(Reduce(vctrs::vec_ptype2, known)), error = function(e) {
      abort_muster("input", paste0("Column `", name, "` has values that can't be in one column."),
        details = message_of(e), argument = "cols", call = call
      )
    })
  })
  Filter(Negate(is.null), together)
}

# ---- Columns out of values

pivot_wider.muster_partition <- function(data, ..., id_cols = NULL, id_expand = FALSE, names_from,
                                         values_from, names_repair = "check_unique",
                                         values_fill = NULL, values_fn = NULL, unused_fn = NULL) {
  call <- dplyr_call("pivot_wider")
  if (!isFALSE(id_expand)) refuse_argument("id_expand", call)
  given <- list(...)
  if (length(given) && !all(nzchar(rlang::names2(given)))) {
    abort_input("...", "arguments with names", names(given), call)
  }
  chosen <- function(quo, default) {
    if (rlang::quo_is_missing(quo)) default else chosen_names(data, quo, call)
  }
  from <- chosen(rlang::enquo(names_from), "name")
  values <- chosen(rlang::enquo(values_from), "value")
  absent <- setdiff(c(from, values), names(data))
  if (length(absent)) abort_column(absent[1L], names(data), "names_from", call)
  ids <- rlang::enquo(id_cols)
  rest <- setdiff(names(data), c(from, values))
  ids <- if (rlang::quo_is_null(ids)) rest else chosen_names(data, ids, call)
  twice <- setdiff(ids, rest)
  if (length(twice)) {
    abort_input("id_cols", "other columns than `names_from` and `values_from`", twice, call)
  }
  groups <- groups_of(data)
  spec <- wider_spec(data, from, values, given, call)
  used <- c(ids, from, values, if (!is.null(unused_fn)) rest)
  rows <- meeting_rows(with_groups(data, NULL)[unique(used)], ids, call)
  args <- list(
    spec = spec, id_cols = these(ids), names_repair = names_repair, values_fill = values_fill
  )
  args$values_fn <- values_functions(values_fn, values, rows, c(ids, from), call)
  args$unused_fn <- unused_fn
  done <- tidyr_stage(rows, "pivot_wider_spec", args, call, keyed = ids, as = "tibble",
    draws = !is.null(values_fn) || !is.null(unused_fn)
  )
  with_groups(done, intersect(groups, names(done)))
}

# The columns to make: from the names' values in all rows, in the order in which they appear.
wider_spec <- function(p, from, values, given, call) {
  step <- list(kind = "inner", fun = "part_distinct", args = list(from))
  seen <- expand_strings(bind_frames(answers_of(p, step, call)))
  seen <- if (length(seen)) dplyr::distinct(seen) else prototype(p[from], call)
  for (name in setdiff(values, from)) seen[[name]] <- rep(NA, frame_rows(seen))
  rlang::inject(tidyr::build_wider_spec(as_kind(seen, "tibble"),
    names_from = !!these(from), values_from = !!these(values), !!!given
  ))
}

# Where several rows of any part have the same place, all columns of the result are lists.
values_functions <- function(given, values, p, keys, call) {
  if (is.function(given) || is_formula(given)) {
    given <- stats::setNames(rep(list(given), length(values)), values)
  }
  open <- setdiff(values, names(given))
  if (!length(open)) {
    return(given)
  }
  step <- list(kind = "inner", fun = "part_doubles", args = list(keys))
  twice <- vapply(answers_of(p, step, call), function(one) any(one$twice), NA)
  if (!any(twice)) {
    return(given)
  }
  warn_muster("input", paste0(
    "Several values have the same place in the wider table: the columns of ",
    column_list(open), " are lists."
  ), hints = "`values_fn = sum` and its like make one value of them.", call = call)
  c(given, stats::setNames(rep(list(list), length(open)), open))
}

# ---- Values that aren't there

fill.muster_partition <- function(data, ..., .by = NULL,
                                  .direction = c("down", "up", "downup", "updown")) {
  call <- dplyr_call("fill")
  by <- by_columns(data, rlang::enquo(.by), ".by", call)
  ways <- c("down", "up", "downup", "updown")
  way <- check_choice(.direction, ".direction", ways, call)
  cols <- chosen_names(data, rlang::enquos(...), call)
  if (length(by) || has_groups(data)) {
    own <- groups_of(data)
    if (!length(by)) by <- own
    args <- list(these(cols), .direction = way)
    return(with_groups(tidyr_groups(data, "fill", args, by, call, gone = cols), own))
  }
  opened <- check_partition(data, "data", call)
  if (!length(cols)) {
    return(data)
  }
  step <- list(kind = "inner", fun = "part_edges", args = list(cols))
  edges <- lapply(answers_of(data, step, call), expand_strings)
  known <- which(vapply(edges, frame_rows, 0L) > 0L)
  if (!length(known)) {
    return(data)
  }
  around <- filled_edges(edges[known], cols)
  steps <- function(task) {
    k <- match(task, known)
    args <- list(cols, way, around$before[[k]], around$after[[k]])
    list(list(kind = "inner", fun = "fill_between", args = if (is.na(k)) list(cols) else args))
  }
  keyed <- opened$stage$keyed
  near_stage(opened, steps, call, if (!any(cols %in% keyed)) keyed)
}

# list(before, after): for each of these parts, a row with the last value of all parts before it,
# and one with the first of all after it; or NULL.
filled_edges <- function(edges, cols) {
  n <- length(edges)
  rows <- bind_frames(edges) # of each: first values, last values
  first <- tidyr::fill(take_rows(rows, 2L * seq_len(n) - 1L), !!these(cols), .direction = "up")
  last <- tidyr::fill(take_rows(rows, 2L * seq_len(n)), !!these(cols), .direction = "down")
  row <- function(x, k) if (k >= 1L && k <= n) plain_frame(take_rows(x, k))
  list(
    before = lapply(seq_len(n), function(k) row(last, k - 1L)),
    after = lapply(seq_len(n), function(k) row(first, k + 1L))
  )
}

complete.muster_partition <- function(data, ..., fill = list(), explicit = TRUE) {
  call <- dplyr_call("complete")
  check_flag(explicit, "explicit", call)
  if (has_groups(data)) {
    by <- groups_of(data)
    args <- c(grouped_code(data, rlang::enquos(...), call), list(fill = fill))
    if (!explicit) args$explicit <- FALSE
    return(with_groups(tidyr_groups(data, "complete", args, by, call, as = "tibble"), by))
  }
  all <- combined_values(data, rlang::enquos(...), call)
  if (!length(all)) {
    return(data)
  }
  there <- utils::tail(make.unique(c(names(data), "there")), 1L)
  if (!explicit) {
    mark <- list(name = there, code = TRUE, env = baseenv())
    data <- mutate_ungrouped(data, list(mark), call)
  }
  by <- intersect(names(all), names(data))
  done <- join_verb("full_join", data, all, by, list(), list(copy = FALSE, suffix = c(".x", ".y")))
  done <- done[c(names(all), setdiff(names(done), names(all)))]
  args <- list(fill, if (!explicit) there)
  if (!explicit || length(fill)) {
    model <- prototype(done, call)
    step <- list(kind = "inner", fun = "fill_made", args = c(args, list(model)))
    done <- near_stage(check_partition(done, "data", call), list(step), call)
  }
  as_tibble_stage(done)
}

expand.muster_partition <- function(data, ...) {
  call <- dplyr_call("expand")
  if (has_groups(data)) {
    by <- groups_of(data)
    args <- grouped_code(data, rlang::enquos(...), call)
    return(with_groups(tidyr_groups(data, "expand", args, by, call, as = "tibble"), by))
  }
  all <- combined_values(data, rlang::enquos(...), call)
  opened <- check_partition(data, "data", call)
  as_tibble_stage(scatter(opened$cl, source_frame(plain_frame(all)), NULL, call))
}

# All combinations, in the session. They depend on which values there are, not on their rows: so
# they are those of distinct rows, if the code looks at columns by functions of which that is true.
combined_values <- function(p, quos, call) {
  exprs <- quo_exprs(quos, call, names(p))
  for (one in exprs) check_set_code(one$code, names(p), call)
  used <- unlist(lapply(exprs, function(one) c(all.vars(one$code), pronoun_names(one$code))))
  used <- intersect(names(p), used)
  rows <- if (length(used)) {
    step <- list(kind = "inner", fun = "part_distinct", args = list(used))
    found <- expand_strings(bind_frames(answers_of(p, step, call)))
    if (length(found)) dplyr::distinct(found) else prototype(p[used], call)
  } else {
    new_frame(stats::setNames(list(), character()), 1L)
  }
  quos <- lapply(exprs, function(one) rlang::new_quosure(one$code, one$env))
  names(quos) <- vapply(exprs, `[[`, "", "name")
  tidyr::expand(as_kind(rows, "tibble"), !!!quos)
}

# Functions of a column whose value is that of its distinct values, in the order of their first
# rows.
set_functions <- c(
  "nesting", "crossing", "full_seq", "min", "max", "range", "unique", "levels"
)

check_set_code <- function(code, columns, call, whole = code) {
  if (!is.call(code)) {
    return()
  }
  is_column <- function(part) {
    (is.symbol(part) && as.character(part) %in% columns) || !is.null(pronoun_name(part, ".data"))
  }
  parts <- Filter(function(part) !identical(part, quote(expr = )), as.list(code)[-1L])
  if (!is.null(pronoun_name(code, ".data"))) {
    return()
  }
  known <- is_call_of(code, set_functions)
  if (!known && (any(vapply(parts, is_column, NA)) || ".data" %in% all.vars(code[-1L]))) {
    abort_muster("input", paste0(
      "Can't tell whether `", deparse(whole)[1L], "` depends only on which values a column has."
    ), hints = c(
      "Columns, nesting(), full_seq(), unique(), min(), max() and range() of them do.",
      "group_by() has the rows of each group together; `!!` before code has it evaluated here."
    ), argument = "...", call = call)
  }
  for (part in parts) check_set_code(part, columns, call, whole)
}

# ---- Stages

# The names that a selection chooses. quos: a quosure, or several.
chosen_names <- function(p, quos, call) {
  names(p)[selected(p, if (rlang::is_quosure(quos)) list(quos) else quos, call)]
}

# Code that selects these columns.
these <- function(names) call("all_of", names)

# Quosures for tidyr on the workers, as functions whose bodies are the code: see verb_job().
grouped_code <- function(p, quos, call) {
  exprs <- quo_exprs(quos, call, names(p))
  refuse_numbers(exprs, call)
  funs <- lapply(exprs, function(one) code_function(names(p), one$code, one$env))
  stats::setNames(lapply(funs, structure, class = "muster_code"),
    vapply(exprs, `[[`, "", "name")
  )
}

# What one step gives of each part, as data frames in the session.
answers_of <- function(p, step, call) {
  steps <- same_steps(list(step, list(kind = "give")))
  lapply(collect_parts(check_partition(p, "data", call), call, steps), `[[`, "data")
}

# p with all rows of an id in one part; without ids, all of them.
meeting_rows <- function(p, ids, call) {
  opened <- check_partition(p, "data", call)
  if (!length(ids)) {
    return(shuffle_stages(opened, character(), 1L, call)$handle)
  }
  met <- key_parts(opened, ids, call)
  if (identical(met, opened)) p else new_partition(met$stage, .subset2(met$cl[[1L]], "id"),
    met$token)
}

tidyr_groups <- function(p, verb, args, by, call, gone = character(), as = NULL) {
  rows <- meeting_rows(with_groups(p, NULL), by, call)
  tidyr_stage(rows, verb, args, call, by = by, gone = gone, keyed = by, as = as, draws = TRUE)
}

# A verb of tidyr's for each part. by: groups, whose rows are together. gone: columns that are no
# longer what they were; keyed: those whose equal values are in one part, by default as before. as:
# see frame_kind(). draws: whether code of the user's may draw random numbers.
tidyr_stage <- function(p, verb, args, call, by = character(), gone = character(), keyed = NULL,
                        as = NULL, draws = FALSE) {
  opened <- check_partition(p, "data", call)
  groups <- groups_of(p)
  job <- make_job(tidyr_part, args, NULL, FALSE, opened$cl, call)
  stream <- if (draws) map_stream(TRUE, opened$cl, call)
  if (is.null(keyed) && !any(opened$stage$keyed %in% gone)) keyed <- opened$stage$keyed
  # Parts whose columns have other types are given those that all rows have together.
  run <- function(model) {
    step <- list(kind = "call", how = "tidyr", verb = verb, by = by, model = model,
      name = paste0(verb, "()"))
    run_stage(opened$cl, opened$stage$count, seeded_steps(list(step), stream, 0), opened$stage,
      list(), call, job, as = as
    )
  }
  ran <- tryCatch(run(NULL), muster_replan = function(e) run(prototype(p, call)))
  if (length(keyed)) ran$stage$keyed <- keyed
  with_groups(ran$handle, intersect(groups, names(ran$handle)))
}

as_tibble_stage <- function(p) {
  stage <- open_handle(p)$stage
  stage$as <- "tibble"
  p
}
