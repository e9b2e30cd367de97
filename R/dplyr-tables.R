# dplyr's verbs that choose rows by their place: see dplyr-verbs.R.

# ---- Rows by place

slice.muster_partition <- function(.data, ..., .by = NULL) {
  slice_verb("slice", .data, rlang::enquos(...), rlang::enquo(.by), ".by")
}

slice_head.muster_partition <- function(.data, ..., by = NULL) {
  slice_verb("slice_head", .data, rlang::enquos(...), rlang::enquo(by))
}

slice_tail.muster_partition <- function(.data, ..., by = NULL) {
  slice_verb("slice_tail", .data, rlang::enquos(...), rlang::enquo(by))
}

slice_min.muster_partition <- function(.data, ..., by = NULL) {
  slice_verb("slice_min", .data, rlang::enquos(...), rlang::enquo(by))
}

slice_max.muster_partition <- function(.data, ..., by = NULL) {
  slice_verb("slice_max", .data, rlang::enquos(...), rlang::enquo(by))
}

slice_sample.muster_partition <- function(.data, ..., by = NULL) {
  slice_verb("slice_sample", .data, rlang::enquos(...), rlang::enquo(by))
}

slice_verb <- function(verb, p, quos, by, name = "by") {
  call <- dplyr_call(verb)
  refuse_options(quos, c("by", ".by", ".preserve"), call)
  by <- by_columns(p, by, name, call)
  if (length(by)) {
    return(with_groups(slice_parts(verb, with_groups(p, by), quos, call), NULL))
  }
  if (!length(groups_of(p)) && verb == "slice") {
    return(slice_places(p, quos, call))
  }
  if (!length(groups_of(p)) && verb == "slice_sample") {
    return(slice_some(p, quos, call))
  }
  if (!length(groups_of(p)) && verb %in% c("slice_head", "slice_tail")) {
    return(slice_ends(verb, p, quos, call))
  }
  slice_parts(verb, p, quos, call)
}

# Each group's, by dplyr. Without groups the least of all rows are among the least of each part.
slice_parts <- function(verb, p, quos, call) {
  exprs <- quo_exprs(quos, call, names(p))
  if (length(groups_of(p))) {
    return(verb_parts(p, verb, exprs, call))
  }
  if ("prop" %in% names(quos)) refuse_argument("prop", call)
  # Each part's least, and then the least of these: for columns as they are, and so many rows.
  at <- names(quos) %in% c("", "order_by")
  columns <- vapply(exprs[at], function(one) {
    is.symbol(one$code) && as.character(one$code) %in% names(p)
  }, NA)
  if (sum(at) != 1L || !all(columns)) {
    abort_input("order_by", "the name of a column, without groups", exprs[at][[1L]]$code, call)
  }
  for (one in exprs[names(quos) %in% "n"]) slice_count(one, call)
  opened <- check_partition(p, ".data", call)
  some <- verb_stage(opened, verb, exprs, character(), call)
  all <- shuffle_stages(open_handle(some), character(), 1L, call)
  verb_stage(open_handle(all$handle), verb, exprs, character(), call)
}

# What workers need to do these verbs for all groups at once, see worker-slice.R: column, n (share:
# of a group's rows), ties. NULL if dplyr must do it.
slice_plan <- function(verb, exprs, columns) {
  names <- vapply(exprs, `[[`, "", "name")
  ranks <- verb %in% c("slice_min", "slice_max")
  names[ranks & names == ""] <- "order_by"
  options <- c("n", "prop", if (ranks) c("order_by", "with_ties"))
  known <- ranks || verb %in% c("slice_head", "slice_tail", "slice_sample")
  twice <- anyDuplicated(names) || all(c("n", "prop") %in% names)
  if (!known || twice || !all(names %in% options)) {
    return(NULL)
  }
  codes <- stats::setNames(exprs, names)
  value <- function(name, default) {
    one <- codes[[name]]
    if (is.null(one)) {
      return(default)
    }
    if (!any(names_in(one$code) %in% columns)) tryCatch(eval(one$code, one$env), error = identity)
  }
  share <- "prop" %in% names
  n <- value(if (share) "prop" else "n", 1)
  ties <- value("with_ties", TRUE)
  single <- is.numeric(n) && !is.object(n) && length(n) == 1L && is.finite(n)
  if (!single || !(isTRUE(ties) || isFALSE(ties))) {
    return(NULL)
  }
  # Of these, versions of dplyr have different rows.
  apart <- n == 0 || (!share && n != trunc(n)) ||
    (n < 0 && (verb == "slice_sample" || (ranks && !ties)))
  column <- codes$order_by$code
  if (apart || (ranks && !(is.symbol(column) && as.character(column) %in% columns))) {
    return(NULL)
  }
  list(verb = verb, n = n, share = share, ties = ties, column = if (ranks) as.character(column))
}

# Steps before rows move: of each part at most as many rows of a group as there will be.
slice_steps <- function(verb, exprs, columns, by) {
  slice <- if (length(by)) slice_plan(verb, exprs, columns)
  if (!is.null(slice) && verb != "slice_sample" && !slice$share && slice$n > 0) {
    list(list(kind = "inner", fun = "slice_before", args = list(by, slice)))
  } else {
    list()
  }
}

slice_ends <- function(verb, p, quos, call) {
  exprs <- quo_exprs(quos, call, names(p))
  names <- names(quos)
  if (length(setdiff(names, "n")) || length(exprs) > 1L) {
    refuse_argument(c(setdiff(names, c("n", "")), "...")[1L], call)
  }
  n <- if (length(exprs)) slice_count(exprs[[1L]], call) else 1
  opened <- check_partition(p, ".data", call)
  from_end <- verb == "slice_tail"
  counts <- end_counts(opened$stage$rows, n, from_end)
  start_stage(opened$cl, opened$stage$count, taken_steps(counts, from_end), opened$stage, list(),
    call
  )
}

# Rows by their places among all.
slice_places <- function(p, quos, call) {
  total <- sum(open_handle(p)$stage$rows)
  places <- lapply(quo_exprs(quos, call, names(p)), function(one) {
    env <- list2env(list(n = function() total), parent = one$env)
    plain <- !any(names_in(one$code) %in% names(p))
    at <- if (plain) tryCatch(eval(one$code, env), error = identity)
    if (!is.numeric(at) || anyNA(at) || (any(at < 0) && any(at > 0))) {
      abort_input("...", "numbers of rows without columns, for data without groups", one$code, call)
    }
    trunc(at)
  })
  at <- unlist(places)
  if (any(at < 0)) {
    at <- setdiff(seq_len(total), -at)
  } else {
    at <- at[at > 0 & at <= total]
    if (is.unsorted(at, strictly = TRUE)) {
      abort_input("...", "numbers of rows in increasing order, for data without groups", at, call)
    }
  }
  take_places(check_partition(p, ".data", call), at, call)
}

# As many random rows as dplyr takes, and the same ones for a seed, in their order.
slice_some <- function(p, quos, call) {
  exprs <- quo_exprs(quos, call, names(p))
  names <- names(quos)
  if (length(setdiff(names, c("n", "prop"))) || length(exprs) > 1L) {
    refuse_argument(c(setdiff(names, c("n", "prop", "")), "...")[1L], call)
  }
  opened <- check_partition(p, ".data", call)
  total <- sum(opened$stage$rows)
  size <- if (length(exprs)) slice_count(exprs[[1L]], call) else 1
  size <- min(total, floor(if (identical(names, "prop")) size * total else size))
  take_places(opened, sort(sample.int(total, size)), call)
}

take_places <- function(opened, at, call) {
  ends <- cumsum(opened$stage$rows)
  part <- findInterval(at, ends, left.open = TRUE) + 1L
  taken <- split(as.integer(at - (ends - opened$stage$rows)[part]),
    factor(part, seq_along(ends)))
  steps <- function(task) {
    list(list(kind = "inner", fun = "take_rows", args = list(taken[[task]])))
  }
  start_stage(opened$cl, opened$stage$count, steps, opened$stage, list(), call)
}

slice_count <- function(one, call) {
  n <- tryCatch(eval(one$code, one$env), error = function(e) one$code)
  if (!is.numeric(n) || length(n) != 1L || is.na(n) || n < 0) {
    abort_input("n", "a number of rows, from 0", n, call)
  }
  n
}

taken_steps <- function(counts, from_end) {
  force(counts)
  force(from_end)
  function(task) {
    list(list(kind = "inner", fun = "take_end", args = list(counts[task], from_end)))
  }
}

# ---- What can't be done

# A method that refuses.
refused_verb <- function(verb) {
  force(verb)
  function(...) refuse_argument(paste0(verb, "()"), dplyr_call(verb))
}

group_data.muster_partition <- refused_verb("group_data")
sample_n.muster_partition <- refused_verb("sample_n")
sample_frac.muster_partition <- refused_verb("sample_frac")
