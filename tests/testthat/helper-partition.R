# Oracles for partitions: what base R gives in one process.

# One row for each group, in a canonical order: groups' order is the shuffle's own.
sorted_rows <- function(x) {
  x <- as.data.frame(x)
  keys <- lapply(x, function(column) {
    if (is.factor(column)) as.character(column) else xtfrm(column)
  })
  x <- x[do.call(order, c(unname(keys), list(na.last = TRUE))), , drop = FALSE]
  row.names(x) <- NULL
  x
}

# Which rows have equal keys, by R's own == and is.na(): the slow way, no hashing. NA and NaN
# are keys of their own. A group's number is the first row's that it is equal to.
slow_groups <- function(columns) {
  n <- length(columns[[1L]])
  group <- integer(n)
  for (i in seq_len(n)) {
    group[i] <- i
    for (j in seq_len(i - 1L)) {
      if (all(vapply(columns, function(x) same_key(x, i, j), NA))) {
        group[i] <- group[j]
        break
      }
    }
  }
  match(group, unique(group))
}

same_key <- function(x, i, j) {
  nan <- function(k) is.double(x) && is.nan(unclass(x)[k]) && !inherits(x, "integer64")
  if (is.na(x[i]) || is.na(x[j])) {
    return(is.na(x[i]) && is.na(x[j]) && nan(i) == nan(j))
  }
  isTRUE(x[i] == x[j])
}

# A column of each kind that may be a key, of n values with many equal ones.
key_column <- function(kind, n) {
  pick <- function(x) x[sample.int(length(x), n, replace = TRUE)]
  switch(kind,
    logical = pick(c(TRUE, FALSE, NA)),
    integer = pick(c(1:5, NA, -7L)),
    double = pick(c(0, -0, 1, 1.5, NA, NaN, Inf, -Inf, 1e300, 5e-324)),
    factor = factor(pick(c("b", "a", NA, "c d")), levels = c("c d", "b", "unused", "a")),
    ordered = factor(pick(c("lo", "hi")), levels = c("lo", "hi"), ordered = TRUE),
    character = pick(c("", "a", NA, "NA", "zebra", "\u00e4", "a b")),
    mixed = pick(c("\u00e4", iconv("\u00e4", "UTF-8", "latin1"), "x")),
    date = pick(as.Date("2020-02-29") + c(0, 1, NA, 366)),
    time = pick(as.POSIXct("2020-02-29 12:00:00", tz = "UTC") + c(0, 0.5, NA, 60)),
    difftime = as.difftime(pick(c(1, 2, NA)), units = "mins"),
    hour = structure(pick(c(0L, 3600L, NA)), class = c("POSIXct", "POSIXt"), tzone = "Asia/Tokyo"),
    bytes = pick(c("x", "", marked(c(0xc3, 0xa4), "bytes"), marked(0xff, "bytes"), NA)),
    int64 = int64_pick(n)
  )
}
key_kinds <- c(
  "logical", "integer", "double", "factor", "ordered", "character", "mixed", "date", "time",
  "difftime"
)

# Those that == and data.frame() of base R can't take.
all_key_kinds <- c(key_kinds, "hour", "bytes", "int64")

# A key's column by base R's match(): equal values, NA and NaN have equal numbers, also across
# columns of different types.
key_codes <- function(...) {
  columns <- lapply(list(...), function(x) {
    if (is.factor(x)) {
      as.character(x)
    } else if (is_int64(x)) {
      int64_numbers(x)
    } else if (is.character(x)) {
      x
    } else {
      as.numeric(unclass(x))
    }
  })
  codes <- do.call(c, columns)
  codes <- match(codes, unique(codes))
  split(codes, rep(seq_along(columns), lengths(columns)))
}

plan_counts <- function(p) .Call(ffi_plan_counts, open_handle(p)$shuffle$plan)

# The stage that a handle stands for.
stage_of <- function(p) open_handle(p)$stage

# At which worker each part is.
parts_at <- function(p) .Call(ffi_plan_where, open_handle(p)$shuffle$plan, p$stage)[, 2L]

# Scattered columns that data.frame() can't take without their package.
new_partition_of <- function(cl, columns) {
  partition_scatter(cl, new_frame(columns, length(columns[[1L]])), parts = 2)
}

# Package bit64's vectors, made of their bytes: little-endian numbers within 2^52.
int64_pick <- function(n) {
  values <- int64(-1, 0, 1, 2^40 + 1, NA)
  structure(unclass(values)[sample.int(5L, n, TRUE)], class = "integer64")
}

int64 <- function(...) {
  bytes <- lapply(list(...), function(x) {
    if (is.na(x)) {
      as.raw(c(rep(0, 7), 128))
    } else {
      as.raw(c(floor(x / 256^(0:6)) %% 256, if (x < 0) 255 else 0))
    }
  })
  structure(readBin(unlist(bytes), "double", length(bytes), endian = "little"), class = "integer64")
}
