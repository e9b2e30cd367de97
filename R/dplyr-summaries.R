# dplyr's verbs with a row for each group: see dplyr-verbs.R.

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
  exprs <- quo_exprs(quos, call, names(.data), rlang::have_name(rlang::enquos(...)))
  made <- list()
  for (one in exprs) {
    batch <- across_exprs(one, !one$named, .data, call, made)
    # Those of one across() don't see each other's results.
    made <- c(made, lapply(batch, c, list(seen = length(made))))
  }
  # Without groups dplyr's values of no rows have the types.
  done <- if (length(groups) && !nrow(.data)) {
    dropped <- list(name = ".groups", code = "drop", env = baseenv())
    verb_stage(check_partition(.data, ".data", call), "summarise", c(made, list(dropped)), groups,
      call
    )
  } else {
    summarise_over(.data, made, groups, call)
  }
  with_groups(done, left)
}

# summarise_parts() with results that may have the name of a key, or of a result before them, whose
# place they then take, as in dplyr.
summarise_over <- function(p, exprs, by, call) {
  opened <- check_partition(p, ".data", call)
  names <- c(by, vapply(exprs, `[[`, "", "name"))
  over <- duplicated(names)
  for (k in which(over) - length(by)) {
    # What names it later means the new one: that is refused, as any other two of one name.
    later <- Filter(function(one) one$seen >= k, exprs)
    later <- unlist(lapply(later, function(one) names_in(one$code)))
    opaque <- c("get", "mget", "get0", "eval", ".data")
    if (any(later %in% c(exprs[[k]]$name, opaque))) over[] <- FALSE
  }
  if (!any(over)) {
    return(summarise_parts(opened, exprs, by, call, seed = TRUE))
  }
  hidden <- utils::tail(make.unique(c(names(p), names)), length(exprs))
  at <- which(over) - length(by)
  exprs[at] <- Map(function(one, name) replace(one, "name", name), exprs[at], hidden[at])
  done <- summarise_parts(opened, exprs, by, call, seed = TRUE)
  kept <- length(names) + 1L - match(unique(names), rev(names))
  renamed_columns(done, stats::setNames(kept, unique(names)), call)
}

count.muster_partition <- function(x, ..., wt = NULL, sort = FALSE, name = NULL) {
  call <- dplyr_call("count")
  by <- groups_of(x)
  if (...length()) x <- dplyr::group_by(x, ..., .add = TRUE)
  with_groups(tally_groups(x, rlang::enquo(wt), sort, name, call), by)
}

tally.muster_partition <- function(x, wt = NULL, sort = FALSE, name = NULL) {
  call <- dplyr_call("tally")
  by <- groups_of(x)
  with_groups(tally_groups(x, rlang::enquo(wt), sort, name, call), by[-length(by)])
}

add_count.muster_partition <- function(x, ..., wt = NULL, sort = FALSE, name = NULL,
                                       .drop = TRUE) {
  call <- dplyr_call("add_count")
  check_flag(sort, "sort", call)
  by <- groups_of(x)
  if (...length()) x <- dplyr::group_by(x, ..., .add = TRUE)
  expr <- count_expr(x, rlang::enquo(wt), name, names(x), call)
  named <- expr$name
  # A group's column can't be changed, but another may take its place.
  taken <- named %in% groups_of(x)
  if (taken) expr$name <- utils::tail(make.unique(c(names(x), named)), 1L)
  done <- if (length(groups_of(x))) {
    verb_parts(x, "mutate", list(expr), call)
  } else {
    mutate_ungrouped(x, list(expr), call)
  }
  if (taken) {
    at <- match(replace(names(x), names(x) == named, expr$name), names(done))
    done <- renamed_columns(done, stats::setNames(at, names(x)), call)
    expr$name <- named
  }
  if (sort) done <- arrange_by(done, list(column_key(expr$name, TRUE)), call)
  with_groups(done, by)
}

tally_groups <- function(x, wt, sort, name, call) {
  check_flag(sort, "sort", call)
  groups <- groups_of(x)
  expr <- count_expr(x, wt, name, groups, call)
  named <- expr$name
  if (named %in% groups) expr$name <- utils::tail(make.unique(c(names(x), named)), 1L)
  done <- summarise_parts(check_partition(x, "x", call), list(expr), groups, call)
  # As in dplyr, whose groups are in the order of their keys.
  keys <- c(list(column_key(expr$name, TRUE)), lapply(groups, column_key))
  if (sort) done <- arrange_by(done, keys, call)
  if (identical(named, expr$name)) {
    return(done)
  }
  at <- match(replace(groups, groups == named, expr$name), names(done))
  renamed_columns(done, stats::setNames(at, groups), call)
}

# A column of counts, whose name is none of `names` unless it is given.
count_expr <- function(x, wt, name, names, call) {
  if (is.null(name)) {
    name <- "n"
    while (name %in% names) name <- paste0("n", name)
  } else {
    check_string(name, "name", call)
  }
  if (rlang::quo_is_null(wt)) {
    return(list(name = name, code = quote(dplyr::n()), env = baseenv()))
  }
  weight <- quo_exprs(list(wt), call, names(x))[[1L]]
  code <- as.call(list(quote(base::sum), weight$code, na.rm = TRUE))
  list(name = name, code = code, env = weight$env)
}

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
# made: expressions before it in summarise(), whose results are columns too.
across_exprs <- function(one, unnamed, p, call, made = list()) {
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
  cols <- if (".cols" %in% names(parts)) parts$.cols else quote(everything())
  source <- across_source(p, made, call)
  columns <- tidyselect::eval_select(
    rlang::new_quosure(chosen_code(cols, one$env, source), one$env), frame_of_names(source$names)
  )
  sources <- source$names[columns]
  fns <- if (is.null(parts$.fns)) quote(`(`) else parts$.fns
  several <- is_call_of(fns, c("list", "c"))
  if (several) {
    fns <- as.list(fns)[-1L]
  } else if (is.list(known <- if (!is_call_of(fns, c("~", "function"))) eval(fns, one$env))) {
    several <- TRUE
    fns <- listed_functions(known, fns)
  } else {
    fns <- list(fns)
  }
  labels <- names(fns)
  if (is.null(labels)) labels <- rep("", length(fns))
  labels[!nzchar(labels)] <- seq_along(fns)[!nzchar(labels)]
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

# The columns that across() chooses from, see column_source(). Results before it are computed if a
# predicate is asked.
across_source <- function(p, made, call) {
  groups <- groups_of(p)
  own <- column_source(p, call, setdiff(names(p), groups))
  results <- setdiff(vapply(made, `[[`, "", "name"), groups)
  new <- NULL
  new_source <- function() {
    if (is.null(new)) new <<- column_source(summarise_over(p, made, groups, call), call)
    new
  }
  source <- own
  source$names <- union(own$names, results)
  source$types <- function() {
    there <- as.list(own$types())[own$names]
    if (length(results)) there[results] <- as.list(new_source()$types())[results]
    there
  }
  source$column <- function(name) {
    (if (name %in% results) new_source() else own)$column(name)
  }
  source
}

# Code for each function of a list in a variable: its name, if it is an aggregate.
listed_functions <- function(known, variable) {
  codes <- lapply(seq_along(known), function(k) {
    code <- if (is.function(known[[k]])) function_code(known[[k]])
    if (is.call(code)) {
      return(code)
    }
    if (is_formula(known[[k]])) known[[k]] else call("[[", variable, k)
  })
  stats::setNames(codes, names(known))
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
  both <- if (is_call_of(fn, "function")) intersect(names(fn[[2L]]), pronoun_names(fn[[3L]]))
  if (length(both)) {
    abort_muster("input", paste0(
      "Versions of dplyr differ in what `.data$", both[1L], "` is in a function of `", both[1L],
      "`."
    ), hints = "Give the argument another name.", argument = "...", call = dplyr_call("across"))
  }
  one <- if (!length(more)) single_code(fn)
  if (!is.null(one)) {
    return(eval(call("substitute", one$code, stats::setNames(list(column), one$name))))
  }
  as.call(c(list(fn, column), more))
}

# list(code, name) of a function literal with one argument and one expression, which may stand in
# its place: it doesn't ask how it was called. NULL for any other.
single_code <- function(fn) {
  plain <- is_call_of(fn, "function") && length(fn[[2L]]) == 1L && names(fn[[2L]]) != "..." &&
    identical(fn[[2L]][[1L]], quote(expr = ))
  if (!plain) {
    return(NULL)
  }
  code <- fn[[3L]]
  if (is_call_of(code, "{") && length(code) == 2L) code <- code[[2L]]
  asks <- c(
    "function", "~", "quote", "bquote", "substitute", "missing", "environment", "sys.call",
    "sys.function", "match.call", "parent.frame", "return", "<-", "<<-", "=", "eval", "evalq",
    "local", "get", "get0", "mget", "assign", "on.exit", "Recall", "{", "for", "nargs", "enquo",
    "enexpr", "$", "@"
  )
  name <- names(fn[[2L]])
  asking <- name %in% called_names(code) || any(asks %in% all.names(code))
  if (!asking) list(code = code, name = name)
}

is_call_of <- function(code, names) {
  if (!is.call(code)) {
    return(FALSE)
  }
  head <- code[[1L]]
  if (is.call(head) && identical(head[[1L]], quote(`::`))) head <- head[[3L]]
  is.symbol(head) && as.character(head) %in% names
}
