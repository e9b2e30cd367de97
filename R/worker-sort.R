# In workers, and for samples in the session: the order of rows. partition-sort.R says how rows are
# sorted across parts.

# Keys of m of a part's rows, see sort_sample().
sample_keys <- function(x, by, m, part) {
  at <- as.integer(1 + floor((seq_len(m) - 0.5) * frame_rows(x) / m))
  keys <- take_rows(take_columns_of(x, by), at)
  for (name in by) check_sortable(.subset2(keys, name), name)
  m <- frame_rows(keys)
  new_frame(c(unclass(keys), list(rep(part, m), as.double(at))), m)
}

check_sortable <- function(column, name) {
  if (!(is_bare(column) || is_known(column)) || is.null(key_family(column))) {
    part_error(paste0(
      "Can't sort by column `", name, "`: it is ", describe(column), ". Sort by logical, ",
      "integer, numeric, integer64, character, factor, Date, POSIXct or difftime columns."
    ))
  }
}

# order: list(by, decreasing, model), model being the keys of all parts without rows.
sort_rows <- function(x, order) {
  if (frame_rows(x) < 2L) {
    return(x)
  }
  keys <- lapply(seq_along(order$by), function(k) {
    like_column(order$model[[k]], the_column(x, order$by[k]))
  })
  place <- key_order(keys, order$decreasing)
  if (is.unsorted(place)) take_rows(x, place) else x
}

# A part's rows by the part where they go, in order: as ffi_rows_sort gives them. order: also has
# `starts`, see part_starts().
sort_split <- function(x, order, part) {
  starts <- order$starts
  s <- frame_rows(starts)
  n <- frame_rows(x)
  keys <- lapply(seq_along(order$by), function(k) {
    bind_columns(list(starts[[k]], the_column(x, order$by[k])))
  })
  # Equal keys go by their places. A start is before its own row.
  at <- length(order$by) + 1:2
  where <- list(
    c(starts[[at[1L]]], rep(part, n)),
    c(starts[[at[2L]]] - 0.5, seq_len(n))
  )
  place <- key_order(keys, order$decreasing, where)
  start <- place <= s
  list(rows = place[!start] - s, begin = c(0L, which(start) - seq_len(s), n))
}

# column with the type and the levels of model.
like_column <- function(model, column) {
  same <- function(of, ...) identical(of(model, ...), of(column, ...))
  alike <- same(typeof) && same(oldClass) && same(attr, "levels") && same(attr, "units") &&
    same(attr, "tzone")
  if (alike) {
    return(column)
  }
  # A column without rows has no say in its type.
  both <- bind_columns(list(take_rows(list(model), NA_integer_)[[1L]], column))
  in_unit(take_rows(list(both), seq_along(column) + 1L)[[1L]], attr(model, "units", exact = TRUE))
}

# The order of rows by these columns; by `where` among equal ones, always increasing.
key_order <- function(columns, decreasing, where = list()) {
  vectors <- lapply(unname(as.list(columns)), order_vectors)
  down <- c(rep(decreasing, lengths(vectors)), rep(FALSE, length(where)))
  vectors <- c(unlist(vectors, recursive = FALSE), unname(where))
  do.call(base::order, c(vectors, list(method = "radix", na.last = TRUE, decreasing = down)))
}

# One or two vectors without a class, to sort by one after the other.
order_vectors <- function(column) {
  if (is_int64(column)) {
    return(int64_digits(column))
  }
  if (!is.character(column)) {
    return(list(as.vector(unclass(column))))
  }
  coded <- .Call(ffi_coded_parts, .Call(ffi_coded, column))
  if (is.null(coded)) {
    return(list(enc2utf8(as.vector(column))))
  }
  rank <- integer(length(coded$strings))
  rank[order(enc2utf8(coded$strings), method = "radix")] <- seq_along(rank)
  list(rank[coded$codes])
}
