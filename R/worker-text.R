# In workers: the text of columns, for csv.
#
# Problem: methods of as.character() and format() look at all values. Times lose their time of day
# if all are at midnight, other classes get the width or the digits that some value needs. So the
# text of a cell would depend on the rows that are in its part.
#
# Way chosen: what muster knows has a form of its own, in which each cell is told by its value and
# the column's class and time zone; of other classes with a method the text of each different value
# is made by itself.

# A column that write.table() writes as it is: numbers have all digits, the rest is text.
cell_text <- function(column, name) {
  if (!is.object(column)) {
    return(if (is.double(column)) double_text(column) else column)
  }
  class(column) <- setdiff(oldClass(column), "AsIs")
  if (is.factor(column) || !is.object(column)) {
    return(if (is.double(column)) double_text(column) else column)
  }
  if (inherits(column, "POSIXct")) {
    cell_time(column)
  } else if (inherits(column, "Date")) {
    format(column, "%Y-%m-%d")
  } else if (is_int64(column)) {
    as.character(column)
  } else if (has_own_text(column)) {
    each_text(column, name)
  } else if (is.double(column)) {
    double_text(as.double(unclass(column)))
  } else {
    as.character(unclass(column))
  }
}

# Whether a method makes the text, which may have commas, too. S4: as.character() may be generic.
has_own_text <- function(column) {
  isS4(column) || any(vapply(oldClass(column), function(class) {
    !is.null(utils::getS3method("as.character", class, optional = TRUE))
  }, NA))
}

is_quoted <- function(column) {
  known <- is_int64(column) || inherits(column, c("Date", "POSIXct"))
  is.character(column) || is.factor(column) ||
    (is.object(column) && !known && has_own_text(column))
}

# "2020-02-29 00:00:00", in the column's time zone; parts of a second where there are some, to the
# microsecond.
cell_time <- function(x) {
  seconds <- as.double(unclass(x))
  whole <- floor(seconds)
  micro <- round((seconds - whole) * 1e6)
  up <- which(micro >= 1e6)
  whole[up] <- whole[up] + 1
  text <- format(.POSIXct(whole, attr(x, "tzone", exact = TRUE)), "%Y-%m-%d %H:%M:%S")
  some <- which(micro > 0 & micro < 1e6)
  text[some] <- paste0(text[some], sub("0+$", "", sprintf(".%06d", as.integer(micro[some]))))
  text
}

# The text of each different value, made as if it were the only one.
each_text <- function(x, name) {
  bare <- x
  attributes(bare) <- NULL
  first <- which(!duplicated(bare))
  text <- vapply(first, function(i) {
    one <- as.character(take_rows(list(x), i)[[1L]])
    if (length(one) != 1L) {
      part_error(paste0(
        "Column `", name, "` can't be written as csv: as.character() of one value gives ",
        length(one), "."
      ))
    }
    one
  }, "")
  text[match(bare, bare[first])]
}
