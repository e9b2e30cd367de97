# Code that has a value for each row, whichever rows it is evaluated with: calls of base R's
# functions below, for vectors without a class, and those of partition-rows-calls.R. It may be
# evaluated for all rows of a part at once where R would do so for the rows of each group.

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
  value <- row_value(code, columns, n, TRUE)
  if (length(value) != n || length(dim(value)) > 1L) not_by_row()
  value
}

not_by_row <- function() {
  condition <- list(message = "not a value for each row", call = NULL)
  stop(structure(condition, class = c("muster_not_by_row", "error", "condition"))) # tidy: caught
}

# top: whether the value is the column itself, rather than something that code goes on with.
row_value <- function(code, columns, n, top = FALSE) {
  if (is.symbol(code)) {
    return(columns[[as.character(code)]])
  }
  if (!is.call(code)) {
    return(code)
  }
  # The sides of case_when()'s formulas are evaluated as arguments are.
  parts <- as.list(code)[-1L]
  sides <- lapply(parts, function(part) if (is_formula(part)) as.list(part)[-1L] else list(part))
  given <- unlist(unname(sides), recursive = FALSE)
  if (!is.null(names(parts))) names(given) <- rep(names(parts), lengths(sides))
  values <- lapply(given, row_value, columns, n)
  name <- if (is.symbol(code[[1L]])) as.character(code[[1L]])
  taken <- if (is.null(name)) listed_takes(code, values) else takes_rows(name, values)
  text <- !taken && top && identical(name, "ifelse") && is_text_or_none(values)
  if (!taken && !text) not_by_row()
  # Conditions carry the call, and a user sees it: with columns by name, and constants as they are.
  inner <- vapply(given, is.call, NA)
  names <- vapply(given[vapply(given, is.symbol, NA)], as.character, "")
  places <- setdiff(paste0("(", seq_len(2L * length(given)), ")"), names)[seq_along(given)]
  known <- c(columns[names], stats::setNames(values[inner], places[inner]))
  given[inner] <- lapply(places[inner], as.name)
  ends <- cumsum(lengths(sides))
  args <- Map(function(part, end) {
    if (is_formula(part)) call("~", given[[end - 1L]], given[[end]]) else given[[end]]
  }, parts, ends)
  # Without bit64, is.na() would take their bytes for numbers.
  value <- if (identical(name, "is.na") && is_int64(values[[1L]])) {
    missing_rows(values[[1L]])
  } else {
    eval(as.call(c(code[[1L]], args)), known, baseenv())
  }
  if (length(value) != n) not_by_row()
  # As in parts where some row has one.
  if (text) as.character(value) else value
}

# ifelse() of strings and NA: all NA, it is logical.
is_text_or_none <- function(values) {
  none <- vapply(values, identical, NA, NA)
  length(values) == 3L && is_bare(values[[1L]]) && sum(none[-1L]) == 1L &&
    is_bare(text <- values[-1L][!none[-1L]][[1L]]) && is.character(text)
}

is_formula <- function(code) is.call(code) && identical(code[[1L]], quote(`~`))

# Whether a function has a value for each row, given these arguments.
takes_rows <- function(name, values) {
  bare <- vapply(values, is_bare, NA)
  text <- vapply(values, is.character, NA)
  if (name %in% row_functions$math) {
    return((all(bare) && !any(text)) || (name == "-" && are_days(values)) ||
      (name %in% c("+", "-") && (are_moved(name, values) || are_spans(values))) ||
      is_span_math(name, values))
  }
  if (name %in% row_functions$compare) {
    return(all(bare) || (length(values) == 2L && compares_rows(name, values)))
  }
  if (name %in% row_functions$text) {
    return(all(bare & text))
  }
  switch(name,
    "%in%" = (bare[2L] && (bare[1L] || is.factor(values[[1L]]))) || are_same_dates(values),
    is.na = bare || is_known(values[[1L]]),
    ifelse = all(bare) && length(values) == 3L && are_alike(values[[2L]], values[[3L]]),
    # Not of factors, whose codes may mean something else in another part.
    as.numeric = , as.double = , as.integer = bare[1L] || is_date(values[[1L]]) ||
      is_span(values[[1L]]),
    nchar = , substr = , tolower = , toupper = bare[1L] && text[1L] && all(bare),
    all(bare)
  )
}

# Whether ifelse() has values of one type whichever of the two it takes.
are_alike <- function(yes, no) {
  na <- function(x, other) is.logical(x) && length(x) == 1L && is.na(x) && !is.character(other)
  typeof(yes) == typeof(no) || na(yes, no) || na(no, yes)
}

# A difference of dates is in days; one of times is in units that depend on all of them. So those
# that are values here have the same units in all parts: columns have (partition-units.R), and so
# have differences of dates and those of difftime() with `units`.
are_days <- function(values) {
  length(values) == 2L && all(vapply(values, function(x) identical(oldClass(x), "Date"), NA))
}

# A date or time, and a number or a difference to add or to subtract.
are_moved <- function(name, values) {
  day <- vapply(values, is_date, NA)
  if (length(values) != 2L || sum(day) != 1L || !(day[1L] || name == "+")) {
    return(FALSE)
  }
  by <- values[[which(!day)]]
  is_span(by) || is_number(by)
}

# Functions of a time difference that keep its units, or of two in the same units.
is_span_math <- function(name, values) {
  if (!is_span(values[[1L]])) {
    return(name == "*" && length(values) == 2L && is_span(values[[2L]]) && is_number(values[[1L]]))
  }
  switch(name,
    "(" = , abs = , sign = , floor = , ceiling = , trunc = length(values) == 1L,
    round = , signif = all(vapply(values[-1L], is_number, NA)),
    "*" = , "/" = length(values) == 2L && is_number(values[[2L]]),
    FALSE
  )
}

is_number <- function(x) is_bare(x) && is.numeric(x)

# Values of which at least one has a class.
compares_rows <- function(name, values) {
  if (are_spans(values)) {
    return(TRUE)
  }
  if (any(vapply(values, is_span, NA))) {
    return(any(vapply(values, is_number, NA)))
  }
  for (k in 1:2) {
    one <- values[[k]]
    other <- values[[3L - k]]
    if (is.factor(one)) {
      return(name %in% c("==", "!=") && is.character(other) && length(other) == 1L)
    }
    if (is_int64(one) && (is_int64(other) || (is_bare(other) && is.numeric(other)))) {
      # Its methods: without them their bytes would be compared.
      check_classes(list(integer64 = one))
      return(TRUE)
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

# Two dates or two times: match() of one kind compares what each of them is by itself.
are_same_dates <- function(values) {
  all(vapply(values, is_date, NA)) && identical(oldClass(values[[1L]]), oldClass(values[[2L]]))
}

# Two time differences of the same units.
are_spans <- function(values) {
  length(values) == 2L && all(vapply(values, is_span, NA)) &&
    identical(attr(values[[1L]], "units"), attr(values[[2L]], "units"))
}

# Of a class whose methods are base R's, or known here.
is_known <- function(x) {
  is.atomic(x) && length(dim(x)) < 2L && (is_date(x) || is_span(x) ||
    identical(oldClass(x), "integer64") || is.factor(x))
}
