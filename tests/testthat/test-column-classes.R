# Each class of columns in verbs and files, in 1, 4 and 12 parts of which some have no rows: what
# dplyr gives for all rows, or an error of muster's.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)

# Twelve values of each class, equal ones among them, and most with NA.
class_columns <- function() {
  at <- c(1, 3, 2, NA, 3, 1, 2, 5, 4, NA, 1, 5)
  list(
    number = at / 3, text = c("b", "a", "\u00e4")[at %% 3 + 1],
    difference = as.difftime(at * 1.5, units = "mins"), day = as.Date("2020-02-27") + at,
    time = as.POSIXct("2020-03-28 00:00:00", tz = "Europe/Berlin") + 86400 * at,
    long = do.call(int64, as.list(2^40 + at)),
    levels = factor(letters[at], c("e", "unused", "d", "c", "b", "a")),
    ordered = factor(letters[at], letters[5:1], ordered = TRUE),
    labelled = structure(at, class = "labelled_of_tests", label = "a label", labels = c(low = 1)),
    labels = structure(at, label = "a label"), imaginary = complex(real = at, imaginary = 1),
    list = lapply(at, function(n) if (!is.na(n)) seq_len(n)), matrix = cbind(at, rev(at)),
    frame = data.frame(a = at, b = letters[at])
  )
}

class_frame <- function(columns) {
  new_frame(c(list(row = 1:12, g = rep(1:3, 4)), columns), 12L)
}

# Of `v`; side has three of its values.
class_verbs <- list(
  known = function(d, side) dplyr::filter(d, !is.na(v)),
  arrange = function(d, side) dplyr::arrange(d, v, row),
  count = function(d, side) dplyr::count(d, v),
  distinct = function(d, side) dplyr::distinct(d, v),
  join = function(d, side) dplyr::inner_join(d, side, by = "v"),
  most = function(d, side) {
    dplyr::summarise(dplyr::group_by(d, g), m = max(v, na.rm = TRUE), n = dplyr::n())
  },
  total = function(d, side) dplyr::summarise(dplyr::group_by(d, g), s = sum(v, na.rm = TRUE)),
  moved = function(d, side) dplyr::mutate(dplyr::group_by(d, g), w = v - min(v, na.rm = TRUE))
)

# Of all columns, which are only carried along.
carrying_verbs <- list(
  collect = function(d, side) d,
  filter = function(d, side) dplyr::filter(d, row > 2L),
  arrange = function(d, side) dplyr::arrange(d, dplyr::desc(row)),
  group = function(d, side) dplyr::mutate(dplyr::group_by(d, g), n = dplyr::n()),
  first = function(d, side) dplyr::filter(dplyr::group_by(d, g), row == max(row)),
  join = function(d, side) dplyr::left_join(d, dplyr::select(side, g = z, k = z), by = "g"),
  union = function(d, side) dplyr::union_all(d, d)
)

# Rows in an order of their own, as lists. Without labels and names of rows, which dplyr drops here
# and there.
class_order <- function(x) {
  text <- lapply(as.list(plain_frame(x)), function(one) {
    if (is_wide(one)) return(do.call(paste, as.data.frame(one)))
    if (is.list(one)) return(vapply(one, function(cell) paste(deparse(cell), collapse = ""), ""))
    if (is_int64(one)) return(paste(int64_digits(one)[[2L]]))
    as.character(if (is.factor(one)) one else as.vector(unclass(one)))
  })
  x <- take_rows(plain_frame(x), do.call(order, c(unname(text), list(method = "radix"))))
  lapply(x, function(one) {
    if (is.data.frame(one)) return(plain_frame(one))
    if (is.matrix(one)) dimnames(one) <- NULL
    if (!is.object(one)) attr(one, "label") <- NULL
    one
  })
}

# What differs for some number of parts, as text; "refused" where muster says so, NULL if nothing.
class_differences <- function(ask, rows, handles, side) {
  want <- tryCatch(suppressWarnings(ask(rows, side)), error = function(e) NULL)
  unique(unlist(lapply(handles, function(p) {
    got <- tryCatch(suppressWarnings(dplyr::collect(ask(p, side))), error = identity)
    if (inherits(got, "muster_error") && !inherits(got, "muster_error_internal")) return("refused")
    if (inherits(got, "error")) return(conditionMessage(got))
    same <- if (!is.null(want)) all.equal(class_order(got), class_order(want), tolerance = 1e-15)
    if (is.character(same)) same
  })))
}

test_cluster("Columns of each class", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  skip_if_not_installed("bit64")
  local_seed(1)
  cl <- local_cluster(2)
  columns <- class_columns()
  # Parts that have no rows are those of rows that are filtered out.
  in_parts <- function(rows) {
    more <- take_rows(rows, c(1:12, rep(1:12, each = 2)))
    more$row[13:36] <- 0L
    lapply(c(1L, 4L, 12L), function(parts) {
      dplyr::filter(partition_scatter(cl, more, parts), row > 0L)
    })
  }
  side_of <- function(v) new_frame(list(v = take_rows(list(v), c(2L, 3L, 8L))[[1L]], z = 1:3), 3L)

  test_that("Verbs give dplyr's columns, or refuse them, for any number of parts", {
    refused <- character()
    for (class in names(columns)) {
      rows <- class_frame(list(v = columns[[class]]))
      handles <- in_parts(rows)
      for (verb in names(class_verbs)) {
        about <- paste(class, verb)
        differs <- class_differences(class_verbs[[verb]], rows, handles, side_of(rows$v))
        if (identical(differs, "refused")) refused <- c(refused, about) else {
          expect_null(differs, info = about)
        }
      }
    }
    # What can be is done.
    usual <- c("number", "text", "difference", "day", "time", "levels", "ordered", "long")
    usual <- as.vector(outer(usual, c("known", "arrange", "count", "distinct", "join"), paste))
    expect_identical(intersect(usual, refused), character())
    all <- class_frame(columns)
    handles <- in_parts(all)
    for (verb in names(carrying_verbs)) {
      differs <- class_differences(carrying_verbs[[verb]], all, handles, side_of(1:12))
      expect_null(differs, info = verb)
    }
  })

  test_that("Files have the same columns for any number of parts", {
    atomic <- setdiff(names(columns), c("list", "matrix", "frame"))
    kept <- list(csv = atomic, rds = names(columns))
    if (requireNamespace("nanoparquet", quietly = TRUE)) {
      kept$parquet <- c(setdiff(atomic, "imaginary"), "list")
    }
    for (format in names(kept)) {
      rows <- class_frame(columns[kept[[format]]])
      read <- lapply(in_parts(rows), function(p) {
        folder <- tempfile()
        partition_write(p, folder, format)
        got <- partition_collect(partition_read(cl, folder))
        unlink(folder, recursive = TRUE)
        got
      })
      expect_identical(read[[2L]], read[[1L]], info = format)
      expect_identical(read[[3L]], read[[1L]], info = format)
      same <- if (format == "rds") names(rows) else c("row", "g", "number", "text", "long")
      if (format == "parquet") same <- c(same, "day", "levels", "list")
      expect_equal(class_order(read[[1L]][same]), class_order(rows[same]), info = format)
    }
  })
})
