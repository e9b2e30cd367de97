# dplyr's verbs with a row for each group: see adapt-dplyr.R.

#' @exportS3Method dplyr::summarise
summarise.muster_partition <- function(.data, ..., .by = NULL, .groups = NULL) {
  call <- dplyr_call("summarise")
  quos <- rlang::enquos(..., .named = TRUE)
  by <- by_columns(.data, rlang::enquo(.by), ".by", call)
  if (length(by)) {
    if (!is.null(.groups)) abort_input(".groups", "missing if `.by` is given", .groups, call)
    .data <- with_groups(.data, by)
    .groups <- "drop"
  }
  groups <- groups_of(.data)
  left <- switch(check_choice(
    if (is.null(.groups)) "drop_last" else .groups, ".groups", c("drop_last", "drop", "keep"), call
  ), drop_last = groups[-length(groups)], keep = groups)
  exprs <- quo_exprs(quos, call, names(.data))
  given <- !rlang::have_name(rlang::enquos(...))
  exprs <- lapply(seq_along(exprs), function(k) across_exprs(exprs[[k]], given[k], .data, call))
  # Those of one across() don't see each other's results.
  before <- cumsum(c(0L, lengths(exprs)))
  exprs <- Map(function(batch, seen) lapply(batch, c, list(seen = seen)), exprs,
    before[seq_along(exprs)])
  exprs <- unlist(exprs, recursive = FALSE)
  opened <- check_partition(.data, ".data", call)
  done <- summarise_parts(opened, as.list(exprs), groups, call, seed = TRUE)
  with_groups(done, left)
}

#' @exportS3Method dplyr::count
count.muster_partition <- function(x, ..., wt = NULL, sort = FALSE, name = NULL) {
  call <- dplyr_call("count")
  by <- groups_of(x)
  if (...length()) x <- dplyr::group_by(x, ..., .add = TRUE)
  with_groups(tally_groups(x, rlang::enquo(wt), sort, name, call), by)
}

#' @exportS3Method dplyr::tally
tally.muster_partition <- function(x, wt = NULL, sort = FALSE, name = NULL) {
  call <- dplyr_call("tally")
  by <- groups_of(x)
  with_groups(tally_groups(x, rlang::enquo(wt), sort, name, call), by[-length(by)])
}

tally_groups <- function(x, wt, sort, name, call) {
  if (!isFALSE(sort)) refuse_argument("sort", call)
  if (is.null(name)) {
    name <- "n"
    while (name %in% groups_of(x)) name <- paste0("n", name)
  }
  expr <- list(name = name, code = quote(n()), env = baseenv())
  if (!rlang::quo_is_null(wt)) {
    weight <- quo_exprs(list(wt), call, names(x))[[1L]]
    expr$code <- as.call(list(quote(base::sum), weight$code, na.rm = TRUE))
    expr$env <- weight$env
  }
  summarise_parts(check_partition(x, "x", call), list(expr), groups_of(x), call)
}

#' @exportS3Method dplyr::distinct
distinct.muster_partition <- function(.data, ..., .keep_all = FALSE) {
  call <- dplyr_call("distinct")
  check_flag(.keep_all, ".keep_all", call)
  groups <- groups_of(.data)
  by <- if (...length()) {
    .data <- dplyr::group_by(.data, ...)
    union(setdiff(groups, groups_of(.data)), groups_of(.data))
  } else {
    names(.data)
  }
  others <- if (.keep_all) setdiff(names(.data), by)
  exprs <- lapply(others, function(name) {
    list(name = name, code = call("first", as.name(name)), env = baseenv())
  })
  order <- if (.keep_all) names(.data) else by
  done <- summarise_parts(check_partition(.data, ".data", call), exprs, by, call)
  with_groups(if (identical(names(done), order)) done else done[order], groups)
}

# across() as expressions of each column. Not for code that has it inside.
across_exprs <- function(one, unnamed, p, call) {
  places <- c("across", "if_any", "if_all", "cur_column", "cur_group", "cur_group_id", "cur_data",
    "cur_data_all", "cur_group_rows", "pick")
  top <- is_call_of(one$code, "across")
  inside <- if (top) lapply(as.list(one$code)[-1L], names_in) else names_in(one$code)
  found <- intersect(unlist(inside), places)
  if (length(found) || (top && !unnamed)) {
    refuse_argument(paste0(if (length(found)) found[1L] else "across", "() in other code"), call)
  }
  if (!top) {
    return(list(one))
  }
  parts <- as.list(match.call(function(.cols, .fns, ..., .names) NULL, one$code))[-1L]
  more <- parts[!names(parts) %in% c(".cols", ".fns", ".names")]
  if (is.null(parts$.fns)) refuse_argument("across() without functions", call)
  columns <- tidyselect::eval_select(
    rlang::new_quosure(if (is.null(parts$.cols)) quote(everything()) else parts$.cols, one$env),
    prototype(p[setdiff(names(p), groups_of(p))], call)
  )
  sources <- setdiff(names(p), groups_of(p))[columns]
  fns <- parts$.fns
  if (is.symbol(fns) && !is.function(get0(as.character(fns), one$env))) {
    refuse_argument(paste0("`.fns = ", fns, "`, which is no function,"), call)
  }
  fns <- if (is_call_of(fns, c("list", "c"))) as.list(fns)[-1L] else list(fns)
  labels <- names(fns)
  if (is.null(labels)) labels <- rep("", length(fns))
  labels[!nzchar(labels)] <- seq_along(fns)[!nzchar(labels)]
  several <- is_call_of(parts$.fns, c("list", "c"))
  glue <- if (is.null(parts$.names)) {
    if (several) "{.col}_{.fn}" else "{.col}"
  } else {
    eval(parts$.names, one$env)
  }
  if (grepl("[{}]", gsub("{.col}", "", gsub("{.fn}", "", glue, fixed = TRUE), fixed = TRUE))) {
    refuse_argument("`.names` with other than {.col} and {.fn}", call)
  }
  unlist(lapply(seq_along(sources), function(i) {
    lapply(seq_along(fns), function(k) {
      name <- gsub("{.col}", names(columns)[i], glue, fixed = TRUE)
      name <- gsub("{.fn}", labels[k], name, fixed = TRUE)
      list(name = name, code = across_code(fns[[k]], as.name(sources[i]), more), env = one$env)
    })
  }), recursive = FALSE)
}

# A function of a column: its name, or a lambda.
across_code <- function(fn, column, more) {
  if (is_call_of(fn, "~")) {
    lambda <- fn[[2L]]
    if (any(c("function", "~", "quote") %in% all.names(lambda))) {
      # Names inside may be others: as a function.
      formals <- as.pairlist(list(.x = quote(expr = ), . = as.name(".x")))
      fn <- as.call(list(as.name("function"), formals, lambda))
    } else {
      return(eval(call("substitute", lambda, list(.x = column, . = column))))
    }
  }
  as.call(c(list(fn, column), more))
}

is_call_of <- function(code, names) {
  if (!is.call(code)) {
    return(FALSE)
  }
  head <- code[[1L]]
  if (is.call(head) && identical(head[[1L]], quote(`::`))) head <- head[[3L]]
  is.symbol(head) && as.character(head) %in% names
}
