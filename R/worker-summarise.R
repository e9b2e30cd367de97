# In workers: expressions of partition_summarise() that need whole groups.

# The results for each group of x, with the group's key before them. See worker-fold.R for the plan;
# what folds give is computed for all groups at once, the rest group by group. funs: for each result
# the function whose body is its expression, or NULL.
summarise_groups <- function(x, by, plan, funs, own) {
  x <- with_columns(x, c(by, plan$columns))
  groups <- all_groups(x, by)
  n <- groups$n
  values <- fold_values(x, plan)
  folded <- fold_rows(plan, values, groups$group, n)
  done <- folded_results(plan, folded$parts, folded$group, n)
  whole <- Filter(function(one) is.null(one$code), plan$results)
  funs <- funs[vapply(plan$results, function(one) is.null(one$code), NA)]
  state <- new.env(parent = emptyenv())
  parents <- lapply(seq_along(whole), function(k) {
    mask_parent(whole[[k]], environment(funs[[k]]), plan$all, state)
  })
  code <- lapply(funs, function(fun) as.function(list(body(fun))))
  names(code) <- vapply(whole, `[[`, "", "name")
  shown <- lapply(names(code), function(name) as.call(list(as.name(name))))
  needs <- unique(unlist(lapply(whole, `[[`, "needs")))
  columns <- lapply(stats::setNames(nm = needs), function(name) needed_column(x, name))
  check_classes(columns)
  sorted <- .Call(ffi_rows_sort, groups$group, n)
  frames <- split_rows(new_frame(columns, frame_rows(x)), sorted)
  # Without rows there is a group only if there is no key.
  if (!frame_rows(x)) frames[] <- list(take_rows(new_frame(columns, 0L), integer()))
  sizes <- as.integer(diff(sorted$begin))
  key_of <- function(i) {
    keys <- take_rows(x[by], groups$first[i])
    lapply(keys, function(column) column[[1L]])
  }
  one_group <- function(i) {
    state$rows <- sizes[i]
    rows <- as.list(frames[[i]])
    results <- list()
    for (k in seq_along(whole)) {
      one <- whole[[k]]
      earlier <- lapply(stats::setNames(nm = one$before), function(name) {
        if (name %in% names(results)) results[[name]] else take_rows(done[name], i)[[1L]]
      })
      columns <- c(rows[one$needs], earlier)
      if (one$pronoun) columns$.data <- structure(columns, class = "muster_rows")
      environment(code[[k]]) <- list2env(columns, parent = parents[[k]])
      # Conditions of the user's code have this call: the result's name.
      value <- eval(shown[[k]], code[k], environment(funs[[k]]))
      if (!is.null(state$missing)) replan_columns()
      results[[one$name]] <- single_value(value, one$name, function() key_of(i))
    }
    results
  }
  about <- function(i) {
    key <- key_of(i)
    list(text = if (length(by)) paste("Group", group_text(key)) else "The only group", key = key)
  }
  # Whatever the user's code makes of the error of a column that isn't there.
  all <- withCallingHandlers(call_each(seq_len(n), own(one_group), about, plan$returns),
    error = function(e) if (!is.null(state$missing)) replan_columns()
  )
  if (!is.null(state$missing)) replan_columns()
  # Environments in results go to the session, without traps.
  for (k in seq_along(whole)) {
    rm(list = setdiff(plan$all, c(whole[[k]]$needs, whole[[k]]$before)), envir = parents[[k]])
  }
  for (one in whole) done[[one$name]] <- bind_singles(lapply(all, `[[`, one$name))
  done <- done[vapply(plan$results, `[[`, "", "name")]
  if (plan$returns) done$.error <- attr(all, "errors")
  new_frame(c(key_values_of(x, by, groups), done), n)
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
