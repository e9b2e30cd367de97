# dplyr's arrange(): see dplyr-verbs.R, and partition-sort.R for how rows are sorted.

arrange.muster_partition <- function(.data, ..., .by_group = FALSE, .locale = NULL) {
  call <- dplyr_call("arrange")
  check_flag(.by_group, ".by_group", call)
  if (!is.null(.locale) && !identical(.locale, "C")) refuse_argument(".locale", call)
  exprs <- quo_exprs(rlang::enquos(...), call, names(.data))
  keys <- unlist(lapply(exprs, arrange_keys, .data, call), recursive = FALSE)
  if (.by_group) keys <- c(lapply(groups_of(.data), column_key), keys)
  arrange_by(.data, keys, call)
}

column_key <- function(name, down = FALSE) {
  list(code = as.name(name), env = baseenv(), down = down)
}

# The keys of one argument: list(code, env, down).
arrange_keys <- function(one, p, call) {
  if (is_call_of(one$code, "pick") || is_plain_across(one$code)) {
    return(across_keys(one, p, call))
  }
  if (is_call_of(one$code, "across")) {
    keys <- lapply(across_exprs(one, TRUE, with_groups(p, NULL), call), arrange_keys, p,
      call
    )
    return(unlist(keys, recursive = FALSE))
  }
  down <- FALSE
  while (is_call_of(one$code, "desc")) {
    if (length(one$code) != 2L) abort_input("desc()", "of one argument", one$code, call)
    one$code <- one$code[[2L]]
    down <- !down
  }
  list(list(code = one$code, env = one$env, down = down))
}

# across() with columns as they are.
is_plain_across <- function(code) {
  is_call_of(code, "across") && is.null(match.call(function(.cols, .fns, ...) NULL, code)$.fns)
}

across_keys <- function(one, p, call) {
  pick <- is_call_of(one$code, "pick")
  parts <- if (pick) {
    list(.cols = as.call(c(quote(c), as.list(one$code)[-1L])))
  } else {
    as.list(match.call(function(.cols, .fns, ...) NULL, one$code))[-1L]
  }
  down <- identical(parts$.fns, quote(desc)) || identical(parts$.fns, quote(dplyr::desc))
  if (length(setdiff(names(parts), c(".cols", ".fns"))) || (!is.null(parts$.fns) && !down)) {
    refuse_argument("across() with these functions", call)
  }
  chosen <- if (".cols" %in% names(parts)) parts$.cols else quote(everything())
  columns <- names(p)[selected(p, list(rlang::new_quosure(chosen, one$env)), call)]
  lapply(columns, column_key, down)
}

# Keys that are no columns are ones for a while.
arrange_by <- function(p, keys, call) {
  names <- names(p)
  made <- list()
  by <- character()
  for (key in keys) {
    name <- column_name(key$code, list(columns = names, before = list(), env = key$env))
    if (!isTRUE(name %in% names)) {
      name <- utils::tail(make.unique(c(names, by, "key")), 1L)
      made <- c(made, list(list(name = name, code = key$code, env = key$env)))
    }
    by <- c(by, name)
  }
  if (!length(by)) {
    return(p)
  }
  first <- !duplicated(by)
  down <- vapply(keys, `[[`, NA, "down")[first]
  wide <- if (length(made)) mutate_ungrouped(p, made, call) else p
  done <- sort_stages(check_partition(wide, ".data", call), check_by(by[first], call), down, call)
  with_groups(if (length(made)) done[names] else done, groups_of(p))
}
