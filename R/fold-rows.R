# Code that has a value for each row, whichever rows it is evaluated with: calls of base R's
# functions below, for vectors without a class. It may be evaluated for all rows of a part at once
# where R would do so for the rows of each group.

# alone: those whose value is as long as the first argument.
row_functions <- list(
  math = c(
    "+", "-", "*", "/", "^", "%%", "%/%", "(", "abs", "sign", "sqrt", "exp", "log", "log2", "log10",
    "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "floor", "ceiling", "trunc",
    "round", "signif", "!", "&", "|", "xor", "is.nan", "is.finite", "is.infinite", "pmin", "pmax"
  ),
  compare = c("==", "!=", "<", "<=", ">", ">="),
  alone = c(
    "ifelse", "as.numeric", "as.double", "as.integer", "as.logical", "nchar", "substr", "tolower",
    "toupper", "%in%", "is.na"
  ),
  text = c("startsWith", "endsWith")
)
all_row_functions <- unlist(row_functions, use.names = FALSE)

# Arguments that may be given by name.
row_arguments <- list(
  log = "base", round = "digits", signif = "digits", pmin = "na.rm", pmax = "na.rm"
)

# Whether a call of one of these has a value for each row whatever the rows are, given which of its
# arguments are constants.
is_row_call <- function(name, names, constant) {
  if (!is.null(names) && !all(names %in% c("", row_arguments[[name]]))) {
    return(FALSE)
  }
  if (name %in% row_functions$alone) !constant[1L] else !all(constant)
}

# The code's value for each of n rows; columns: a list by name. Raises muster_not_by_row if there
# may be none, as for columns of classes whose methods nobody knows here.
rows_value <- function(code, columns, n) {
  value <- row_value(code, columns, n)
  if (length(value) != n || length(dim(value)) > 1L) not_by_row()
  value
}

not_by_row <- function() {
  condition <- list(message = "not a value for each row", call = NULL)
  stop(structure(condition, class = c("muster_not_by_row", "error", "condition"))) # tidy: caught
}

row_value <- function(code, columns, n) {
  if (is.symbol(code)) {
    return(columns[[as.character(code)]])
  }
  if (!is.call(code)) {
    return(code)
  }
  parts <- as.list(code)[-1L]
  values <- lapply(parts, row_value, columns, n)
  name <- as.character(code[[1L]])
  if (!takes_rows(name, values)) not_by_row()
  # Conditions carry the call, and a user sees it: with columns by name, and constants as they are.
  inner <- vapply(parts, is.call, NA)
  names <- vapply(parts[vapply(parts, is.symbol, NA)], as.character, "")
  places <- setdiff(paste0("(", seq_len(2L * length(parts)), ")"), names)[seq_along(parts)]
  given <- parts
  given[inner] <- lapply(places[inner], as.name)
  known <- c(columns[names], stats::setNames(values[inner], places[inner]))
  value <- eval(as.call(c(as.name(name), given)), known, baseenv())
  if (length(value) != n) not_by_row()
  value
}

# Whether a function has a value for each row, given these arguments.
takes_rows <- function(name, values) {
  bare <- vapply(values, is_bare, NA)
  text <- vapply(values, is.character, NA)
  if (name %in% row_functions$math) {
    return((all(bare) && !any(text)) || (name == "-" && are_days(values)))
  }
  if (name %in% row_functions$compare) {
    return(all(bare) || (length(values) == 2L && compares_rows(name, values)))
  }
  if (name %in% row_functions$text) {
    return(all(bare & text))
  }
  switch(name,
    "%in%" = bare[2L] && (bare[1L] || is.factor(values[[1L]])),
    is.na = bare || (is_known(values[[1L]]) && !is_int64(values[[1L]])),
    ifelse = all(bare) && length(values) == 3L && are_alike(values[[2L]], values[[3L]]),
    nchar = , substr = , tolower = , toupper = bare[1L] && text[1L] && all(bare),
    all(bare)
  )
}

# Whether ifelse() has values of one type whichever of the two it takes.
are_alike <- function(yes, no) {
  na <- function(x, other) is.logical(x) && length(x) == 1L && is.na(x) && !is.character(other)
  typeof(yes) == typeof(no) || na(yes, no) || na(no, yes)
}

# A difference of dates is in days; one of times is in units that depend on all of them.
are_days <- function(values) {
  length(values) == 2L && all(vapply(values, function(x) identical(oldClass(x), "Date"), NA))
}

# Values of which at least one has a class.
compares_rows <- function(name, values) {
  for (k in 1:2) {
    one <- values[[k]]
    other <- values[[3L - k]]
    if (is.factor(one)) {
      return(name %in% c("==", "!=") && is.character(other) && length(other) == 1L)
    }
    if (is_date(one) && ((is_bare(other) && length(other) == 1L) ||
      identical(class(one), class(other)))) {
      return(TRUE)
    }
  }
  FALSE
}

is_bare <- function(x) is.atomic(x) && !is.object(x) && !is.null(x) && length(dim(x)) < 2L

is_date <- function(x) {
  identical(oldClass(x), "Date") || identical(oldClass(x), c("POSIXct", "POSIXt"))
}

# Of a class whose methods are base R's, or known here.
is_known <- function(x) {
  is.atomic(x) && length(dim(x)) < 2L && (is_date(x) || identical(oldClass(x), "difftime") ||
    identical(oldClass(x), "integer64") || is.factor(x))
}
