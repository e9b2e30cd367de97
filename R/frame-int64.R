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
