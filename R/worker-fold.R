# Aggregates of groups, in workers: partial results of each part's rows, before rows travel, and
# totals afterwards. See docs/SHUFFLE.md, Partial results.
#
# plan: what partition-summarise-plan.R makes of the user's expressions.
#   codes: what aggregates are of, see partition-rows-code.R.
#   folds: list(kind, code, na_rm), the partial results: each has columns of its own.
#   aggregates: list(how, code, na_rm, folds, results): of which folds a value is made.
#   results: list(name, code), code with a symbol for each aggregate ("a1") and for each result
#   before it ("r1").
#
# The rows that travel have the key's columns, by name, and then partial results, which are found by
# position: the user's columns may have any names. The columns are the same whether rows are folded
# before they travel or not.
#
# A partial sum is value + rest, and if that isn't exact, further rows of the group belong to it
# (src/shuffle/sum.h says why, src/ffi/data/folds.c how). So totals are rounded once, and don't
# depend on where rows were folded.

# The columns of each kind's partial results.
fold_columns <- list(
  count = "count", sum = c("value", "rest"), square = c("value", "rest"), min = "least",
  max = "least", first = "edge", last = "edge", distinct = c("member", "seen")
)

# plan's values for the rows of x, folded in their groups if these are few. NULL if they are more
# than `most`, a finite number.
fold_partial <- function(x, by, plan, most = Inf) {
  x <- with_columns(x, c(by, plan$columns))
  n <- frame_rows(x)
  left <- rows_left(groups_guess(key_columns(x, by), n), n)
  if (left > most) {
    return(NULL)
  }
  values <- fold_values(x, plan)
  types <- code_types(x, plan)
  members <- Filter(function(fold) fold$kind == "distinct", plan$folds)
  members <- lapply(members, function(fold) values[[fold$code]])
  if (length(members) && is.finite(left)) {
    left <- rows_left(groups_guess(c(key_columns(x, by), members), n), n)
  }
  if (left > most) {
    return(NULL)
  }
  if (!is.finite(left)) {
    parts <- each_fold(plan, fold_nothing, values, n)
    return(structure(partial_frame(as.list(x[by]), parts, n), types = types))
  }
  groups <- key_groups(x, by)
  folded <- fold_rows(plan, values, groups$group, length(groups$first))
  keys <- take_rows(x[by], groups$first[folded$group])
  structure(partial_frame(as.list(keys), folded$parts, frame_rows(keys)), types = types)
}

# list(parts, group): the columns of each fold, and the group of each row: one for each of n groups,
# and then further ones.
fold_rows <- function(plan, values, group, n) {
  folded <- each_fold(plan, fold_groups, values, group, n)
  list(
    parts = Map(with_class, spread_parts(folded, n), lapply(plan$folds, fold_value, values)),
    group = c(seq_len(n), unlist(lapply(folded, `[[`, "group")))
  )
}

each_fold <- function(plan, fun, ...) {
  lapply(seq_along(plan$folds), function(k) {
    folded <- fun(plan$folds[[k]], ...)
    if (is.null(folded)) replan(results_of(plan, function(one) k %in% one$folds))
    folded
  })
}

# What a fold is of: NULL for a count of rows.
fold_value <- function(fold, values) if (fold$code > 0L) values[[fold$code]]

# The values of plan's codes for each row. Raises muster_part_replan where that, or an aggregate of
# them, is only known for whole groups.
fold_values <- function(x, plan) {
  columns <- lapply(stats::setNames(nm = plan$columns), function(name) needed_column(x, name))
  n <- frame_rows(x)
  values <- lapply(seq_along(plan$codes), function(k) {
    # R's own error is raised for a group, too, which then is named.
    value <- tryCatch(rows_value(plan$codes[[k]], columns, n), error = function(e) {
      if (n == 0L) logical() else replan(results_of(plan, function(one) one$code == k))
    })
    # R would wrap, and C then copy, what has none.
    if (is_bare(value) && !is.null(attributes(value))) attributes(value) <- NULL
    value
  })
  for (one in plan$aggregates) {
    if (one$code > 0L && !can_fold(one$how, values[[one$code]])) replan(one$results)
  }
  values
}

# The types of columns in code that does more than name one: it may have other values for another
# type, so they must be the same in all parts.
code_types <- function(x, plan) {
  names <- unique(unlist(lapply(Filter(is.call, plan$codes), all.vars)))
  if (!frame_rows(x) || !length(names)) {
    return(NULL)
  }
  vapply(stats::setNames(nm = names), function(name) {
    column <- .subset2(x, name)
    paste(c(typeof(column), oldClass(column), attr(column, "tzone")), collapse = " ")
  }, "")
}

# The results that use some aggregates.
results_of <- function(plan, uses) {
  unlist(lapply(Filter(uses, plan$aggregates), `[[`, "results"))
}

# These results are to be evaluated with whole groups.
replan <- function(whole) {
  stop(structure(list(message = "needs whole groups", call = NULL, whole = whole), # tidy: caught
    class = c("muster_part_replan", "error", "condition")
  ))
}

# Whether folds give what R's function would.
can_fold <- function(how, x) {
  bare <- is_bare(x)
  number <- bare && (is.numeric(x) || is.logical(x))
  switch(how,
    sum = number || is_int64(x) || identical(oldClass(x), "difftime"),
    mean = , min = , max = number || (is_known(x) && !is.factor(x)),
    var = , sd = number,
    any = , all = bare && is.logical(x),
    first = , last = bare || is_known(x),
    n_distinct = (bare || is_known(x)) && !is.null(key_family(x))
  )
}

partial_frame <- function(keys, parts, n) {
  parts <- as.list(unlist(parts, recursive = FALSE, use.names = FALSE))
  names(parts) <- rep("", length(parts))
  new_frame(c(keys, parts), n)
}

# How many groups all data has, if they are equally frequent: judged by a sample of n rows, Inf if
# these say only that they are more than three times as many as rows.
groups_guess <- function(columns, n) {
  m <- 4096L
  if (n <= 2L * m || !length(columns)) {
    return(if (length(columns)) n else 1)
  }
  seen <- length(.Call(ffi_key_groups, as.list(take_rows(columns, seq_len(m))), m)$first)
  if (groups_among(3 * n, m) <= seen) {
    return(Inf)
  }
  off <- function(g) groups_among(exp(g), m) - seen
  exp(stats::uniroot(off, log(c(0.5, 3 * n)))$root)
}

# The expected number of groups among some rows, if there are so many, equally frequent ones.
groups_among <- function(groups, rows) groups * -expm1(-rows / groups)

# How many rows folding would leave of n, Inf if more than half: folding a row that isn't saved
# costs more than moving it. Rows sorted in runs aren't treated specially.
rows_left <- function(groups, n) {
  if (n <= 8192L) {
    return(n)
  }
  left <- if (is.finite(groups)) groups_among(groups, n) else n
  if (left <= n / 2) left else Inf
}

# Step "fold". With `asks` it answers how many rows there would be, and how many groups the data
# may have, and keeps the rows, if they are few, for the step of the same tag that comes next.
# from: the part that it is for, if the worker has it.
part_fold <- function(state, step, from) {
  is_other <- !identical(the_worker$folded$tag, step$tag)
  if (is_other) the_worker$folded <- list(tag = step$tag, rows = 0)
  name <- paste(c("part", from), collapse = " ")
  if (step$asks) {
    n <- frame_rows(state$data)
    guess <- groups_guess(key_columns(with_columns(state$data, step$by), step$by), n)
    few <- rows_left(guess, n) <= fold_few
    folded <- if (few) fold_partial(state$data, step$by, step$plan, fold_few)
    rows <- if (is.null(folded)) n else frame_rows(folded)
    if (!is.null(folded) && !is.null(from) && the_worker$folded$rows + rows <= fold_kept) {
      the_worker$folded[[name]] <- folded
      the_worker$folded$rows <- the_worker$folded$rows + rows
    }
    state$result <- list(rows = rows, bytes = 0, groups = guess)
    return()
  }
  folded <- if (!is.null(from)) the_worker$folded[[name]]
  the_worker$folded[[name]] <- NULL
  state$data <- if (is.null(folded)) fold_partial(state$data, step$by, step$plan) else folded
}

# Rows of a part, and of all parts of a worker, that are kept for the next step.
fold_few <- 2^13
fold_kept <- 2^18

# Several parts of a worker at once, see partition-summarise-direct.R. spec: list(keys (of parts, a
# row each: stage, task, attempt; tasks in order), by, plan, settings, most, chunk (rows)). Returns
# list(parts, at, kind), or NULL if this worker hasn't all of them in memory, their columns differ,
# a chunk has more than `most` groups or R raises an error: then parts are folded one by one, which
# will say so.
#   parts: partial results of chunks of rows.
#   at: where their groups appear first: task * 2^32 + row.
#   kind: of the columns, which must be the same on all workers.
fold_here <- function(spec) {
  tryCatch(with_settings(spec$settings, fold_at_once(spec)), error = function(e) NULL)
}

fold_at_once <- function(spec) {
  needed <- unique(c(spec$by, spec$plan$columns))
  frames <- lapply(seq_len(nrow(spec$keys)), function(i) {
    kept <- the_worker$parts[[part_name(spec$keys[i, ])]]
    if (!is.null(kept) && kept$attempt == spec$keys[i, 3L]) take_columns_of(kept$data, needed)
  })
  tasks <- spec$keys[, 2L]
  rows <- vapply(frames, function(frame) if (is.null(frame)) NA_integer_ else frame_rows(frame), 0L)
  if (anyNA(rows)) {
    return(NULL)
  }
  some <- rows > 0L
  kinds <- unique(lapply(frames[some], function(frame) lapply(frame, column_kind)))
  # Keys of parts without rows may be of another family, which a shuffle refuses.
  empty <- lapply(frames[!some], function(frame) lapply(as.list(frame)[spec$by], column_kind))
  strange <- !vapply(empty, function(one) identical(one, kinds[[1L]][spec$by]), NA)
  if (length(kinds) > 1L || any(strange)) {
    return(NULL)
  }
  chunks <- cumsum(as.double(rows[some])) %/% spec$chunk
  folded <- lapply(unname(split(which(some), chunks)), function(which) {
    x <- bind_frames(frames[which])
    values <- fold_values(x, spec$plan)
    groups <- key_groups(x, spec$by)
    if (length(groups$first) > spec$most) {
      return(NULL)
    }
    folded <- fold_rows(spec$plan, values, groups$group, length(groups$first))
    first <- groups$first[folded$group]
    ends <- cumsum(rows[which])
    part <- findInterval(first - 1L, ends) + 1L
    list(
      parts = partial_frame(as.list(take_rows(x[spec$by], first)), folded$parts, length(first)),
      at = tasks[which][part] * 2^32 + first - c(0, ends)[part]
    )
  })
  if (any(vapply(folded, is.null, NA))) {
    return(NULL)
  }
  list(
    parts = bind_frames(lapply(folded, `[[`, "parts")),
    at = as.double(unlist(lapply(folded, `[[`, "at"), use.names = FALSE)), kind = kinds
  )
}

# Columns of one kind can be appended as they are. Many levels are known by their number.
column_kind <- function(column) {
  kind <- attributes(column)
  levels <- kind$levels
  number <- if (is.factor(column)) .Call(ffi_levels_number, levels)
  if (!is.null(number)) kind$levels <- number
  list(typeof(column), kind)
}

# One fold's partial results: list(columns, group), sums and extremes without classes. Rows after
# the first n are further ones of these groups. NULL if there are none that are right.
fold_groups <- function(fold, values, group, n) {
  x <- fold_value(fold, values)
  if (fold$kind %in% c("sum", "square")) {
    return(fold_sums(fold, x, group, n))
  }
  if (fold$kind == "distinct") {
    return(fold_members(fold, x, group, n))
  }
  list(group = integer(), columns = switch(fold$kind,
    count = list(count = .Call(ffi_fold_count, x, group, n)),
    min = , max = {
      least <- .Call(ffi_fold_least, x, group, n, fold$na_rm, fold$kind == "max", TRUE)
      list(least = as_blank(least, x))
    },
    first = , last = list(edge = take_rows(list(x), edge_rows(fold$kind, group, n))[[1L]])
  ))
}

fold_sums <- function(fold, x, group, n) {
  sums <- if (fold$kind == "sum") {
    .Call(ffi_fold_sum, x, group, n, fold$na_rm)
  } else {
    .Call(ffi_fold_square, x, group, n, fold$na_rm)
  }
  if (is.null(sums)) {
    return(NULL)
  }
  if (fold$kind == "sum" && !fold$na_rm) sums$value <- as_blank(sums$value, x)
  list(columns = sums[c("value", "rest")], group = sums$group)
}

# Each value that occurs in a group is a further row.
fold_members <- function(fold, x, group, n) {
  rows <- which(!(fold$na_rm & missing_rows(x)))
  keys <- list(group[rows], take_rows(list(x), rows)[[1L]])
  rows <- rows[.Call(ffi_key_groups, keys, length(rows))$first]
  columns <- list(
    member = take_rows(list(x), c(rep(NA_integer_, n), rows))[[1L]],
    seen = rep(c(FALSE, TRUE), c(n, length(rows)))
  )
  list(columns = columns, group = group[rows])
}

# The first or last row of each group, NA if it has none.
edge_rows <- function(kind, group, n) {
  if (kind == "first") {
    return(match(seq_len(n), group))
  }
  length(group) + 1L - match(seq_len(n), rev(group))
}

# The columns of fold_groups() if each row were its own group, with classes.
fold_nothing <- function(fold, values, n) {
  x <- fold_value(fold, values)
  switch(fold$kind,
    count = list(count = if (is.null(x)) rep(1L, n) else as.integer(!missing_rows(x))),
    min = , max = with_class(list(least = as_blank(bare_numbers(x), x)), x),
    first = , last = list(edge = x),
    distinct = list(member = x, seen = !(fold$na_rm & missing_rows(x))),
    square = fold_sums(fold, x, seq_len(n), n)$columns,
    sum = {
      value <- bare_numbers(x)
      if (fold$na_rm) value[missing_rows(x)] <- 0L else value <- as_blank(value, x)
      with_class(list(value = value, rest = raw(n)), x)
    }
  )
}

missing_rows <- function(x) {
  if (is_int64(x)) .Call(ffi_fold_count, x, seq_along(x), length(x)) == 0L else is.na(x)
}

# Some folds have further rows: there the others get values that change nothing.
spread_parts <- function(folded, n) {
  groups <- lapply(folded, `[[`, "group")
  all <- unlist(groups)
  if (!length(all)) {
    return(lapply(folded, `[[`, "columns"))
  }
  ends <- cumsum(lengths(groups))
  Map(function(one, end) {
    own <- length(one$group)
    at <- c(seq_len(n), rep(NA, end - own), n + seq_len(own), rep(NA, length(all) - end))
    none <- which(is.na(at))
    lapply(stats::setNames(nm = names(one$columns)), function(kind) {
      column <- one$columns[[kind]]
      # Of extremes and first rows, the group's own.
      if (kind %in% c("least", "edge")) at[none] <- all[none - n]
      spread <- take_rows(list(column), at)[[1L]]
      if (kind == "seen") {
        spread[none] <- FALSE
      } else if (kind %in% c("value", "count")) {
        spread[none] <- 0L
      }
      spread
    })
  }, folded, ends)
}

# ---- Totals

# The results of all groups, from the partial results of all parts.
fold_final <- function(x, by, plan) {
  groups <- all_groups(x, by)
  at <- length(by)
  parts <- lapply(plan$folds, function(fold) {
    names <- fold_columns[[fold$kind]]
    columns <- lapply(at + seq_along(names), function(k) .subset2(x, k))
    at <<- at + length(names)
    stats::setNames(columns, names)
  })
  results <- folded_results(plan, parts, groups$group, groups$n)
  if (plan$returns) results$.error <- rep(NA_character_, groups$n)
  new_frame(c(key_values_of(x, by, groups), results), groups$n)
}

key_values_of <- function(x, by, groups) as.list(take_rows(x[by], groups$first))

# key_groups() with the number of groups: without a key there is one, even if it has no rows.
all_groups <- function(x, by, runs = NULL) {
  groups <- key_groups(x, by, runs)
  c(groups, list(n = if (length(by)) length(groups$first) else 1L))
}

# The results that are made of folds, by name.
folded_results <- function(plan, parts, group, n) {
  values <- lapply(plan$aggregates, function(one) aggregate_of(one, parts[one$folds], group, n))
  if (length(values)) names(values) <- paste0("a", seq_along(values))
  done <- list()
  for (k in seq_along(plan$results)) {
    one <- plan$results[[k]]
    if (is.null(one$code)) next
    value <- in_result_unit(plan, one$name, group_value(one$code, values, n, k))
    values[[paste0("r", k)]] <- value
    done[[one$name]] <- value
  }
  done
}

# A result's value in the units that all groups have, where that had to be found first.
in_result_unit <- function(plan, name, value) {
  if (name %in% names(plan$units)) in_unit(value, plan$units[[name]]) else value
}

# Code's value for each of n groups, for result k.
group_value <- function(code, values, n, k) {
  if (is.symbol(code)) {
    return(values[[as.character(code)]])
  }
  if (n == 0L) {
    return(logical())
  }
  tryCatch(rows_value(code, values, n), muster_not_by_row = function(e) {
    used <- values[intersect(all.vars(code), names(values))]
    # Its methods are in a package.
    if (any(vapply(used, is_int64, NA))) replan(k)
    bind_columns(lapply(seq_len(n), function(i) {
      eval(code, lapply(used, function(value) take_rows(list(value), i)[[1L]]), baseenv())
    }))
  })
}

aggregate_of <- function(one, parts, group, n) {
  first <- parts[[1L]]
  sum_of <- function(value, rest = NULL, counts = NULL) {
    .Call(ffi_fold_total, value, rest, group, n, counts)
  }
  switch(one$how,
    n = as_whole(sum_of(first$count)),
    sum = {
      total <- sum_of(first$value, first$rest)
      if (is.null(total)) {
        part_error("A sum of integer64 is past 2^63. Make it numeric first.")
      }
      typed_total(total, first$value)
    },
    mean = {
      mean <- sum_of(first$value, first$rest, sum_of(parts[[2L]]$count))
      # Means of whole numbers aren't whole.
      if (is_int64(first$value)) mean else restore_class(mean, first$value)
    },
    min = , max = {
      # With na_rm, NA is the value of a part without numbers.
      least <- .Call(ffi_fold_least, first$least, group, n, one$na_rm, one$how == "max", FALSE)
      typed_total(least, first$least)
    },
    var = , sd = {
      counts <- sum_of(parts[[3L]]$count)
      var <- .Call(ffi_fold_var, unname(first), unname(parts[[2L]]), group, n, counts)
      if (one$how == "sd") sqrt(var) else var
    },
    any = , all = {
      yes <- sum_of(first$value, first$rest)
      known <- sum_of(parts[[2L]]$count)
      rows <- sum_of(parts[[3L]]$count)
      found <- if (one$how == "any") yes > 0 else yes < known
      ifelse(found, one$how == "any", ifelse(!one$na_rm & known < rows, NA, one$how != "any"))
    },
    first = , last = take_rows(list(first$edge), edge_rows(one$how, group, n))[[1L]],
    n_distinct = {
      rows <- which(first$seen)
      keys <- list(group[rows], take_rows(list(first$member), rows)[[1L]])
      tabulate(group[rows][.Call(ffi_key_groups, keys, length(rows))$first], n)
    }
  )
}

# Of the type of the partial results.
typed_total <- function(total, like) {
  if (is.object(like)) {
    return(restore_class(total, like))
  }
  if (is.double(like)) total else as_whole(total)
}

# Integers, if all are in their range.
as_whole <- function(x) {
  if (all(abs(x) <= .Machine$integer.max, na.rm = TRUE)) as.integer(x) else x
}

# ---- Columns

needed_column <- function(x, name) {
  column <- the_column(x, name)
  if (is.null(column)) no_column(name, names(x))
  column
}

is_timed <- function(column) inherits(column, c("Date", "POSIXct", "difftime"))

# A column of only NA, of unknown type, becomes one again: it takes the other parts' type.
as_blank <- function(numbers, column) {
  if (is.logical(column) && all(is.na(column))) as.logical(numbers) else numbers
}

# Without attributes; logicals as integers.
bare_numbers <- function(column) {
  if (is.logical(column)) {
    return(as.integer(column))
  }
  if (!is.null(attributes(column))) attributes(column) <- NULL
  column
}

# Partial results with the class of their column. Rests have none, except for differences, whose
# unit may change when parts meet.
with_class <- function(columns, like) {
  classed <- c("value", "least", if (inherits(like, "difftime")) "rest")
  for (kind in intersect(names(columns), classed)) {
    columns[[kind]] <- restore_class(columns[[kind]], like)
  }
  columns
}

# Numbers as dates, times, differences or integer64, if they were made from those.
restore_class <- function(numbers, like) {
  if (is_timed(like)) {
    numbers <- as.double(numbers)
    attributes(numbers) <- attributes(like)[c("class", "tzone", "units")]
  } else if (is_int64(like)) {
    class(numbers) <- "integer64"
  }
  numbers
}
