# In workers: calls functions with whole groups, and turns their results into rows.

# A function's results for each group, with the group's key before them. Without results there are
# only the key's columns, with their types: no others are known. returns: a group whose function
# fails has a row, with the error's message in a column `.error` and NA in the others.
# runs: see part_gather().
apply_groups <- function(x, by, fun, args, returns = FALSE, runs = NULL) {
  x <- with_columns(x, by)
  groups <- key_groups(x, by, runs)
  n <- length(groups$first)
  if (n == 0L) {
    return(open_frame(x[by]))
  }
  call_fun <- if (length(args)) function(group) call_user(fun, group, args) else fun
  keys <- x[by]
  results <- call_each(seq_len(n), call_fun, function(i) {
    key <- lapply(take_rows(keys, groups$first[i]), function(column) column[[1L]])
    list(text = paste("Group", group_text(key)), key = key)
  }, returns, frame_taker(x, group_rows(groups)))
  errors <- attr(results, "errors")
  results <- bind_results(results, by)
  if (returns) results <- with_errors(results, errors)
  if (is_empty(results$values)) {
    return(open_frame(x[by]))
  }
  keys <- take_rows(x[by], rep(groups$first, results$rows))
  new_frame(c(as.list(keys), as.list(results$values)), frame_rows(keys))
}

# A function that gives the rows of group i, as a data frame. If R's `[` must cut some column, all
# are cut at once, see group_taker().
frame_taker <- function(x, sorted) {
  rows <- sorted$rows
  begin <- sorted$begin
  if (is.null(.Call(ffi_group_frame, x, rows, begin, 1L, "data.frame"))) {
    frames <- split_rows(x, sorted)
    return(function(i) frames[[i]])
  }
  function(i) .Call(ffi_group_frame, x, rows, begin, i, "data.frame")
}

# As lapply(), but the error of an element includes the result of about(): list(text, key). returns:
# an element that fails has no value, and its error's message is in attribute "errors", NA for the
# others. take: makes an element of its number, when it is called for.
call_each <- function(elements, fun, about, returns = FALSE, take = NULL) {
  n <- length(elements)
  values <- vector("list", n)
  errors <- if (returns) rep(NA_character_, n)
  at <- 0L
  call_rest <- function() {
    # The user sees the call fun(x[[i]]).
    x <- elements
    while (at < n) {
      i <- at <<- at + 1L
      if (!is.null(take)) {
        x <- list(take(i))
        i <- 1L
      }
      # A function that the value contains keeps this element, not the last one.
      value <- forceAndCall(1, fun, x[[i]])
      if (!is.null(value)) values[[at]] <<- value
    }
  }
  if (returns) {
    # A tryCatch() for each element would cost more than most functions.
    while (at < n) {
      tryCatch(call_rest(), error = function(e) errors[at] <<- message_of(e))
    }
  } else {
    withCallingHandlers(call_rest(),
      error = function(e) the_worker$failing <- tryCatch(about(at), error = function(e) NULL)
    )
    the_worker$failing <- NULL # nor an error that was only signalled
  }
  structure(values, errors = errors)
}

group_text <- function(key) {
  text <- vapply(key, function(one) {
    text <- if (is.character(one)) encodeString(one, quote = "\"") else format(one, digits = 15L)
    paste(strtrim(text, 60L), collapse = " ")
  }, "")
  paste0("`", names(key), "` = ", text, collapse = ", ")
}

# list(values, rows): a data frame of all results, and each result's number of rows. Most functions
# return the same form for all groups: then columns are made from all results at once, without a
# data frame for each.
bind_results <- function(results, by) {
  some <- !vapply(results, is.null, NA)
  columns <- if (any(some)) alike_columns(results[some], by)
  if (!is.null(columns)) {
    return(list(values = new_frame(columns, sum(some)), rows = as.integer(some)))
  }
  frames <- lapply(results, group_frame, by)
  list(values = bind_frames(frames), rows = vapply(frames, frame_rows, 0L))
}

# The results of bind_results() with a row, and a column `.error`, for each group that failed.
with_errors <- function(results, errors) {
  values <- results$values
  if (".error" %in% names(values)) {
    part_error("A result can't have a column `.error`: that is for the errors' messages.")
  }
  failed <- !is.na(errors)
  rows <- results$rows
  rows[failed] <- 1L
  at <- rep(NA_integer_, sum(rows))
  at[!rep(failed, rows)] <- seq_len(frame_rows(values))
  columns <- c(as.list(take_rows(values, at)), list(.error = rep(errors, rows)))
  list(values = new_frame(columns, length(at)), rows = rows)
}

# Columns of results that all have one row and the same form; NULL if they don't.
alike_columns <- function(results, by) {
  first <- results[[1L]]
  names <- names(first)
  size <- length(first)
  if (!size || !(is.atomic(first) || is.list(first)) || any(lengths(results) != size)) {
    return(NULL)
  }
  form <- attributes(first)
  bare <- if (is.null(names)) is.null(form) else identical(form, list(names = names))
  type <- typeof(first)
  if (!bare) {
    return(NULL)
  }
  alike <- .Call(ffi_group_alike, results)
  if (is.null(alike)) {
    alike <- all(vapply(results, function(x) {
      typeof(x) == type && identical(attributes(x), form)
    }, NA))
  }
  if (!alike) {
    return(NULL)
  }
  if (is.null(names)) {
    single <- is.atomic(first) && size == 1L && !"value" %in% by
    return(if (single) list(value = unlist(results)))
  }
  flat <- unlist(results, recursive = FALSE, use.names = FALSE)
  if (!all(nzchar(names)) || any(lengths(flat) != 1L)) {
    return(NULL)
  }
  kept <- which(!names %in% by)
  columns <- lapply(kept, function(k) {
    column <- flat[seq.int(k, length(flat), size)]
    if (is.list(column)) bind_columns(column) else column
  })
  names(columns) <- names[kept]
  columns
}

# A function's rows for one group: a data frame, or something that makes one row of one.
group_frame <- function(value, by) {
  if (is.null(value)) {
    return(empty_frame())
  }
  if (is.data.frame(value)) {
    value <- plain_frame(value)
    if (any(by %in% names(value))) value <- new_frame(not_of_key(value, by), frame_rows(value))
    return(value)
  }
  if (is.atomic(value) && length(value) == 1L && is.null(names(value))) {
    if ("value" %in% by) {
      part_error(
        "`fun` returned a single value, whose column would be `value`, as is the key: name it."
      )
    }
    return(new_frame(list(value = value), 1L))
  }
  named <- !is.null(names(value)) && all(nzchar(names(value)))
  if (named && is.atomic(value)) {
    value <- as.list(value)
  }
  if (!named || !is.list(value) || any(lengths(value) != 1L)) {
    part_error(paste0(
      "`fun` must return a data frame, a named list of single values or one value for each ",
      "group, not ", describe(value), "."
    ))
  }
  new_frame(not_of_key(value, by), 1L)
}

# Columns other than the key's, by position: two may have one name.
not_of_key <- function(value, by) unclass(value)[!names(value) %in% by]
