# Vectors of package bit64 (class "integer64": 64-bit whole numbers in the bytes of doubles) without
# that package, whose methods c() etc. need: data.table and database packages send such columns to
# workers that never load it.

is_int64 <- function(x) inherits(x, "integer64")

# Concatenates columns, at least one of them integer64. Integers and logicals become integer64. With
# doubles among them all become doubles, as integers do; a part_error if one isn't exact then: two
# keys must not become one.
bind_int64 <- function(columns) {
  long <- vapply(columns, is_int64, NA)
  wrong <- Filter(is_no_number, columns[!long])
  if (length(wrong)) {
    part_error(paste0("A column can't be integer64 in one part and ", describe(wrong[[1L]]), "."))
  }
  if (any(vapply(columns[!long], is.double, NA))) {
    columns[long] <- lapply(columns[long], int64_numbers)
    return(do.call(c, lapply(columns, as.double)))
  }
  columns[!long] <- lapply(columns[!long], int64_of)
  # Without their class: bit64's as.double() would make numbers of the bytes.
  structure(do.call(c, lapply(columns, unclass)), class = "integer64")
}

is_no_number <- function(x) !(is.numeric(x) || is.logical(x)) || is.object(x)

# Halves of 32 bits, the lower one first.
int64_halves <- function(x) {
  bytes <- writeBin(as.double(unclass(x)), raw(), endian = "little")
  matrix(readBin(bytes, "integer", 2L * length(x), endian = "little"), nrow = 2L)
}

int64_of_halves <- function(halves) {
  bytes <- writeBin(as.integer(halves), raw(), endian = "little")
  values <- readBin(bytes, "double", ncol(halves), endian = "little")
  structure(values, class = "integer64")
}

# Integers or logicals as integer64.
int64_of <- function(x) {
  x <- as.integer(x)
  # The smallest number is NA, as in R.
  int64_of_halves(rbind(ifelse(is.na(x), 0L, x), ifelse(is.na(x), NA, -(x < 0L))))
}

# The upper and the lower 32 bits as numbers, which are in the same order; NA in both.
int64_digits <- function(x) {
  halves <- int64_halves(x)
  # The least integer reads as NA.
  lower <- ifelse(is.na(halves[1L, ]), -2^31, as.double(halves[1L, ])) %% 2^32
  upper <- ifelse(is.na(halves[2L, ]), -2^31, as.double(halves[2L, ]))
  none <- upper == -2^31 & lower == 0
  list(replace(upper, none, NA), replace(lower, none, NA))
}

# integer64 as doubles; a part_error if one of them isn't exact then.
int64_numbers <- function(x) {
  digits <- int64_digits(x)
  upper <- digits[[1L]] * 2^32
  numbers <- upper + digits[[2L]]
  if (any(numbers - upper != digits[[2L]], na.rm = TRUE)) {
    part_error(paste(
      "An integer64 column has numbers past 2^53, which aren't exact as numeric:",
      "make it integer64, or numeric, in all parts."
    ))
  }
  numbers
}

# ---- From files

# Text as integer64; a part_error if it is anything else.
int64_of_text <- function(text, name) {
  need_bit64(name)
  known <- !is.na(text)
  if (!all(grepl("^-?[0-9]+$", text[known]))) {
    odd <- text[known][!grepl("^-?[0-9]+$", text[known])][1L]
    part_error(paste0(
      "Column `", name, "` was written as integer64, but has ", describe(odd), "."
    ))
  }
  numbers <- suppressWarnings(getExportedValue("bit64", "as.integer64")(text))
  if (any(known & is.na(int64_digits(numbers)[[1L]]))) {
    part_error(paste0("Column `", name, "` has numbers past 2^63."))
  }
  numbers
}

need_bit64 <- function(name) {
  if (!requireNamespace("bit64", quietly = TRUE)) {
    part_error(paste0(
      "Column `", name, "` was written as integer64: install package bit64 to read it, or choose ",
      "other columns by `.columns`."
    ))
  }
}

# Options of nanoparquet's that read whole numbers of 64 bits as integer64, NULL if it has none.
int64_options <- function(item) {
  if (item$package == "nanoparquet") {
    options <- getExportedValue("nanoparquet", "parquet_options")
    if ("read_int64_type" %in% names(formals(options))) {
      need_bit64(item$int64[1L])
      options(read_int64_type = "integer64")
    }
  }
}

# A column as it came from a file, that was written as integer64. Numbers that are exact may stay.
as_written_int64 <- function(column, name) {
  if (is.integer(column) && !is.object(column)) {
    return(int64_of(column))
  }
  if (is_large(column)) {
    part_error(paste0(
      "Column `", name, "` was written as integer64, and was read as numeric, in which its ",
      "numbers past 2^53 aren't exact: leave out the further arguments, or read it by a `.reader`."
    ))
  }
  column
}

# integer64 as numbers, if that is exact.
exact_numbers <- function(x, name) {
  tryCatch(int64_numbers(x), muster_part_error = function(e) refuse_large(name))
}

# Whole numbers of 64 bits that nanoparquet has read as doubles must be exact.
check_large <- function(x, item) {
  large <- names(x)[vapply(x, is_large, NA)]
  if (!length(large) || item$package != "nanoparquet") {
    return(invisible())
  }
  schema <- getExportedValue("nanoparquet", "read_parquet_schema")(item$path)
  long <- intersect(large, schema$name[schema$type %in% "INT64"])
  if (length(long)) refuse_large(long[1L])
}

is_large <- function(column) {
  is.double(column) && !is.object(column) && any(abs(column) >= 2^53, na.rm = TRUE)
}

refuse_large <- function(name) {
  part_error(paste0(
    "Column `", name, "` has whole numbers past 2^53, which aren't exact as numeric. Read them as ",
    "integer64: partition_read(..., options = ",
    "nanoparquet::parquet_options(read_int64_type = \"integer64\"))."
  ))
}
