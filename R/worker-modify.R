# In workers: group_modify(). dplyr makes and binds tibbles for each group, which takes longer than
# most functions do.

# As dplyr's, for a part with its groups: the rows of all groups are bound at once.
modified_groups <- function(.data, .f, ..., .keep = FALSE) {
  by <- dplyr::group_vars(.data)
  rows <- plain_frame(.data)
  two <- length(formals(.f)) > 1L || "..." %in% names(formals(.f))
  if (!frame_rows(rows) || !two) {
    return(dplyr::group_modify(.data, .f, ..., .keep = .keep))
  }
  sorted <- rows_by_group(rows, by)
  ends <- cumsum(sorted$sizes)
  own <- if (.keep) rows else rows[setdiff(names(rows), by)]
  group <- tibble_taker(own, list(rows = sorted$rows, begin = c(0L, ends)))
  firsts <- sorted$rows[ends - sorted$sizes + 1L]
  key <- tibble_taker(rows[by], list(rows = firsts, begin = c(0L, seq_along(firsts))))
  done <- lapply(seq_along(firsts), function(i) {
    value <- .f(group(i), key(i), ...)
    if (!is.data.frame(value)) {
      part_error(paste0("The result of `.f` must be a data frame, not ", describe(value), "."))
    }
    wrong <- intersect(names(value), by)
    if (length(wrong)) {
      part_error(paste0("The result of `.f` can't have the groups' column `", wrong[1L], "`."))
    }
    value
  })
  sizes <- vapply(done, frame_rows, 0L)
  values <- lapply(done, plain_frame)
  # Names that dplyr would repair.
  odd <- vapply(values, function(x) anyDuplicated(names(x)) || !all(nzchar(rlang::names2(x))), NA)
  if (any(odd)) {
    return(dplyr::bind_rows(Map(function(first, value) {
      dplyr::bind_cols(take_rows(rows[by], rep.int(first, frame_rows(value))), value)
    }, firsts, values)))
  }
  keys <- take_rows(rows[by], rep.int(firsts, sizes))
  new_frame(c(as.list(keys), as.list(dplyr::bind_rows(values))), sum(sizes))
}

# A function that gives the rows of group i as a tibble.
tibble_taker <- function(x, sorted) {
  take <- frame_taker(x, sorted)
  function(i) as_kind(take(i), "tibble")
}
