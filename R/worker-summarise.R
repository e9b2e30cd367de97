# In workers: expressions of partition_summarise() that need whole groups.

# The results for each group of x, with the group's key before them. See worker-fold.R for the plan;
# what folds give is computed for all groups at once, the rest group by group. funs: for each result
# the function whose body is its expression, or NULL.
# runs: see part_gather().
summarise_groups <- function(x, by, plan, funs, own, runs = NULL) {
  x <- with_columns(x, c(by, plan$columns))
  groups <- all_groups(x, by, runs)
  n <- groups$n
  values <- fold_values(x, plan)
  # Without rows there are no partial results, as where parts are folded: not one of nothing.
  folded <- fold_rows(plan, values, groups$group, length(groups$first))
  done <- folded_results(plan, folded$parts, folded$group, n)
  whole <- Filter(function(one) is.null(one$code), plan$results)
  funs <- funs[vapply(plan$results, function(one) is.null(one$code), NA)]
  state <- new.env(parent = emptyenv())
  parents <- lapply(seq_along(whole), function(k) {
    mask_parent(whole[[k]], environment(funs[[k]]), plan$all, state)
  })
  needs <- unique(unlist(lapply(whole, `[[`, "needs")))
  columns <- lapply(stats::setNames(nm = needs), function(name) needed_column(x, name))
  check_classes(columns)
  sorted <- group_rows(groups, n)
  key_of <- function(i) {
    keys <- take_rows(x[by], groups$first[i])
    lapply(keys, function(column) column[[1L]])
  }
  about <- function(i) {
    key <- key_of(i)
    list(text = if (length(by)) paste("Group", group_text(key)) else "The only group", key = key)
  }
  one_group <- group_evaluator(
    whole, funs, parents, state, columns, done, sorted, key_of, plan$units
  )
  # Whatever the user's code makes of the error of a column that isn't there.
  all <- withCallingHandlers(call_each(seq_len(n), own(one_group), about, plan$returns),
    error = function(e) if (!is.null(state$missing)) replan_columns()
  )
  if (!is.null(state$missing)) replan_columns()
  # Environments in results go to the session, without traps.
  for (k in seq_along(whole)) {
    rm(list = setdiff(plan$all, c(whole[[k]]$needs, whole[[k]]$before)), envir = parents[[k]])
  }
  mixed <- character()
  for (k in seq_along(whole)) {
    done[[whole[[k]]$name]] <- column <- bind_results_of(all, k)
    if (is_span(column) && has_several_units(all, k)) mixed <- c(mixed, whole[[k]]$name)
  }
  done <- done[vapply(plan$results, `[[`, "", "name")]
  if (plan$returns) done$.error <- attr(all, "errors")
  done <- new_frame(c(key_values_of(x, by, groups), done), n)
  if (length(mixed)) attr(done, "told") <- list(mixed = mixed)
  done
}

# Whether the values at k of groups' results are time differences in several units.
has_several_units <- function(all, k) {
  units <- lapply(all, function(results) {
    if (!is.null(results)) attr(results[[k]], "units", exact = TRUE)
  })
  length(unique(unlist(units))) > 1L
}

# A function that gives the values of all whole expressions for group i, as a list. It is called for
# each group, often a small one, so what is the same for all of them is done here. A group's
# environments are its own: values may keep them. done: folded results for all groups. units: of
# some results, by name.
group_evaluator <- function(whole, funs, parents, state, columns, done, sorted, key_of, units) {
  names <- vapply(whole, `[[`, "", "name")
  steps <- seq_along(whole)
  homes <- lapply(funs, environment)
  shown <- lapply(names, function(name) as.call(list(as.name(name))))
  # Each is evaluated as the body of a function with the result's name.
  code <- lapply(steps, function(k) {
    stats::setNames(list(as.function(list(body(funs[[k]])))), names[k])
  })
  # Variables: columns, folded results, and then results of this group.
  earlier <- unlist(lapply(whole, `[[`, "before"))
  done <- done[intersect(names(done), earlier)]
  vars <- lapply(whole, function(one) c(one$needs, one$before))
  at <- lapply(whole, function(one) {
    c(
      match(one$needs, names(columns)),
      match(one$before, c(names(done), names)) + length(columns)
    )
  })
  pronouns <- vapply(whole, `[[`, NA, "pronoun")
  columns_of <- group_taker(columns, sorted)
  n <- length(sorted$begin) - 1L
  done_of <- group_taker(done, list(rows = seq_len(n), begin = 0:n))
  values_of <- if (length(done)) function(i) c(columns_of(i), done_of(i)) else columns_of
  sizes <- as.integer(diff(sorted$begin))
  function(i) {
    state$rows <- sizes[i]
    values <- values_of(i)
    results <- vector("list", length(steps))
    for (k in steps) {
      env <- .Call(ffi_group_mask, values, results, at[[k]], vars[[k]], parents[[k]])
      if (pronouns[k]) env$.data <- columns_pronoun(c(values, results)[at[[k]]], vars[[k]])
      one <- code[[k]]
      environment(one[[1L]]) <- env
      # Conditions of the user's code have this call: the result's name.
      value <- eval(shown[[k]], one, homes[[k]])
      if (!is.null(state$missing)) replan_columns()
      plain <- is.null(attributes(value)) && length(value) == 1L &&
        (is.atomic(value) || is.list(value))
      value <- if (plain) value else single_value(value, names[k], function() key_of(i))
      results[[k]] <- if (names[k] %in% names(units)) in_unit(value, units[[names[k]]]) else value
    }
    results
  }
}

columns_pronoun <- function(columns, names) {
  names(columns) <- names
  structure(columns, class = "muster_rows")
}

# A function that gives group i's part of each column, without names. Columns that need R's `[` are
# cut at once: if their method fails, that isn't the error of a group.
group_taker <- function(columns, sorted) {
  rows <- sorted$rows
  begin <- sorted$begin
  by_hand <- vapply(columns, function(column) is.null(.Call(ffi_rows_take, column, integer())), NA)
  if (!any(by_hand)) {
    return(function(i) .Call(ffi_group_columns, columns, rows, begin, i))
  }
  cut <- lapply(seq_len(length(begin) - 1L), function(i) {
    own <- rows[seq.int(begin[i] + 1L, length.out = begin[i + 1L] - begin[i])]
    unclass(take_rows(columns[by_hand], own))
  })
  function(i) {
    values <- .Call(ffi_group_columns, columns, rows, begin, i)
    values[by_hand] <- cut[[i]]
    values
  }
}

# Where an expression finds what isn't a column that it names: muster's own functions where the
# user has none, then the user's objects. A column that the expression doesn't name must not be
# looked for there: its use is noted, and raises an error. Nothing here may hold the part's rows:
# results that have environments keep it.
mask_parent <- function(one, user, all, state) {
  functions <- new.env(parent = user)
  list2env(own_functions(state)[one$own], functions)
  parent <- new.env(parent = functions)
  # A variable of such a name comes first. Functions don't: dplyr's n() can't be called here.
  for (name in one$own) {
    value <- get0(name, user)
    if (!is.null(value) && !is.function(value)) assign(name, value, parent)
  }
  for (name in setdiff(all, c(one$needs, one$before))) {
    makeActiveBinding(name, column_trap(name, state), parent)
  }
  parent
}

column_trap <- function(name, state) {
  force(name)
  force(state)
  function() {
    state$missing <- name
    stop("column `", name, "` isn't here", call. = FALSE) # tidy: caught
  }
}

own_functions <- function(state) {
  force(state)
  list(
    n = function() state$rows,
    n_distinct = function(..., na.rm = FALSE) {
      columns <- list(...)
      names(columns) <- paste0("argument ", seq_along(columns))
      rows <- new_frame(columns, length(columns[[1L]]))
      if (na.rm) rows <- take_rows(rows, which(stats::complete.cases(rows)))
      length(key_groups(rows, names(columns))$first)
    },
    first = function(x) x[1L], last = function(x) x[length(x)]
  )
}

#' @export
`$.muster_rows` <- function(x, name) x[[name]]

#' @export
`[[.muster_rows` <- function(x, i, ...) {
  known <- names(x)
  if (!is.character(i) || length(i) != 1L || !i %in% known) {
    stop("There is no column ", format(i), "; there are ", column_list(known), ".", # tidy: a user's
      call. = FALSE
    )
  }
  unclass(x)[[i]]
}

# All columns are needed.
replan_columns <- function() {
  stop(structure(list(message = "needs all columns", call = NULL, all = TRUE), # tidy: caught
    class = c("muster_part_replan", "error", "condition")
  ))
}

# R's functions don't know integer64 without its package, and would take its bytes for numbers.
check_classes <- function(columns) {
  long <- names(Filter(is_int64, columns))
  if (length(long) && !requireNamespace("bit64", quietly = TRUE)) {
    part_error(paste0(
      "Column `", long[1L], "` is integer64, for which package bit64 isn't installed."
    ))
  }
}

single_value <- function(value, name, key) {
  if ((!is.atomic(value) && !is.list(value)) || is.null(value) || is.data.frame(value) ||
    length(value) != 1L) {
    key <- key()
    part_error(paste0(
      "`", name, "` must be a single value", if (length(key)) " for each group", ", not ",
      describe(value), if (length(key)) paste0(", as for group ", group_text(key)),
      ". list() makes a single value of anything."
    ))
  }
  if (inherits(value, "POSIXlt")) value <- as.POSIXct(value)
  if (!is.null(dim(value)) && !is.object(value)) dim(value) <- NULL
  if (is.null(names(value))) value else unname(value)
}

# The column of the values at k in each group's list of results, NULL for groups that failed.
bind_results_of <- function(all, k) {
  column <- .Call(ffi_group_values, all, k)
  if (!is.null(column)) {
    return(column)
  }
  some <- !vapply(all, is.null, NA)
  column <- if (!all(some)) .Call(ffi_group_values, all[some], k)
  if (is.null(column)) {
    return(bind_singles(lapply(all, function(results) if (!is.null(results)) results[[k]])))
  }
  at <- rep(NA_integer_, length(all))
  at[some] <- seq_along(column)
  column[at]
}

# A column of single values, NULL for groups that failed.
bind_singles <- function(values) {
  none <- vapply(values, is.null, NA)
  if (all(none)) {
    return(rep(NA, length(values)))
  }
  first <- values[!none][[1L]]
  plain <- !any(none) && is_bare(first) &&
    all(vapply(values, function(value) is_bare(value) && typeof(value) == typeof(first), NA))
  if (plain) {
    return(unlist(values, use.names = FALSE))
  }
  lists <- any(vapply(values[!none], is.list, NA))
  values[none] <- list(if (lists) list(NULL) else NA)
  bind_columns(values)
}
