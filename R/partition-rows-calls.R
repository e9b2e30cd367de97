# Functions of base R and of packages that have a value for each row, whichever rows they are called
# with, given that their other arguments are constants: the second part of the list in
# partition-rows-code.R, for functions that have such arguments.
#
# Each is list(rows, takes). rows: arguments that may have a value for each row, of which one must.
# takes: whether it has such a value for arguments like these, a list by name; those of `...` have
# none. like: a method whose arguments they are, where those of the generic say less.

is_text <- function(x) is.factor(x) || (is_bare(x) && is.character(x))

# Not integer64, whose methods are another package's.
is_plain <- function(x) is_bare(x) || (is_known(x) && !is_int64(x))

# Nor time differences, whose units may be others in another part.
is_settled <- function(x) is_bare(x) || is_date(x) || is.factor(x)

# With a format: otherwise R guesses one from all values, or shows as many digits as all need.
has_format <- function(values) {
  given <- values[names(values) %in% c("", "format")]
  length(given) == 1L && is.character(given[[1L]]) && isTRUE(nzchar(given[[1L]]))
}

is_written <- function(x) is_bare(x) || is.factor(x) || identical(oldClass(x), "Date")

takes_all <- function(is) function(values) all(vapply(values, is, NA))
takes_days <- function(values) is_date(values[[1L]])

text_calls <- function(names, rows) {
  takes <- function(values) is_text(values[[rows]])
  sapply(names, function(name) list(rows = rows, takes = takes), simplify = FALSE)
}

day_calls <- function(names) {
  sapply(names, function(name) list(rows = "x", takes = takes_days), simplify = FALSE)
}

time_parts <- c("year", "month", "day", "hour", "min", "sec")

row_calls <- list(
  base = c(text_calls(c("grepl", "sub", "gsub", "trimws", "chartr", "strtoi"), "x"), list(
    substring = list(rows = c("text", "first", "last"), takes = takes_all(is_bare)),
    sprintf = list(rows = c("fmt", "..."), takes = takes_all(is_bare)),
    paste = list(rows = "...", takes = takes_all(is_written)),
    paste0 = list(rows = "...", takes = takes_all(is_written)),
    as.character = list(rows = "x", takes = takes_all(is_written)),
    match = list(rows = "x", takes = function(values) is_text(values$x) || is_bare(values$x)),
    is.element = list(rows = "el", takes = takes_all(is_bare)),
    factor = list(rows = "x", takes = function(values) {
      is_bare(values$x) && !is.null(values$levels)
    }),
    cut = list(rows = "x", like = base::cut.default, takes = function(values) {
      is_bare(values$x) && is.numeric(values$breaks) && length(values$breaks) > 1L
    }),
    findInterval = list(rows = "x", takes = takes_all(is_bare)),
    format = list(rows = "x", takes = function(values) takes_days(values) && has_format(values)),
    strftime = list(rows = "x", takes = function(values) takes_days(values) && has_format(values)),
    weekdays = list(rows = "x", takes = takes_days),
    months = list(rows = "x", takes = takes_days),
    as.Date = list(rows = "x", takes = function(values) {
      takes_days(values) || (is_text(values$x) && has_format(values))
    }),
    as.POSIXct = list(rows = "x", takes = function(values) {
      takes_days(values) || (is_text(values$x) && has_format(values) && !is.null(values$tz))
    }),
    ISOdate = list(rows = time_parts, takes = takes_all(is_bare)),
    ISOdatetime = list(rows = time_parts, takes = takes_all(is_bare)),
    difftime = list(rows = c("time1", "time2"), takes = function(values) {
      is_date(values$time1) && is_date(values$time2) &&
        isTRUE(values$units %in% c("secs", "mins", "hours", "days", "weeks"))
    })
  )),
  dplyr = list(
    if_else = list(rows = c("condition", "true", "false", "missing"), takes = takes_all(is_plain)),
    case_when = list(rows = "...", takes = takes_all(is_plain)),
    between = list(rows = "x", takes = function(values) {
      is_bare(values$x) || is_date(values$x)
    }),
    coalesce = list(rows = "...", takes = takes_all(is_plain)),
    na_if = list(rows = c("x", "y"), takes = takes_all(is_settled)),
    near = list(rows = c("x", "y"), takes = takes_all(is_bare))
  ),
  stringr = c(
    text_calls(c(
      "str_detect", "str_count", "str_length", "str_sub", "str_to_lower", "str_to_upper",
      "str_to_title", "str_to_sentence", "str_trim", "str_squish", "str_pad", "str_trunc",
      "str_replace", "str_replace_all", "str_remove", "str_remove_all", "str_extract",
      "str_starts", "str_ends", "str_dup"
    ), "string"),
    list(str_c = list(rows = "...", takes = takes_all(is_written)))
  ),
  lubridate = c(
    day_calls(c(
      "year", "isoyear", "quarter", "month", "week", "isoweek", "epiweek", "day", "mday", "wday",
      "yday", "qday", "hour", "minute", "second", "am", "pm", "date", "as_date", "floor_date",
      "ceiling_date", "round_date"
    )),
    list(
      leap_year = list(rows = "date", takes = takes_days),
      make_date = list(rows = time_parts, takes = takes_all(is_bare)),
      make_datetime = list(rows = time_parts, takes = takes_all(is_bare))
    )
  )
)

# Arguments with which there are other values than one for each row, or by which all rows have one.
bad_arguments <- c("collapse", "recycle0", "ptype", "size", ".ptype", ".size")

# Those that are looked up as a whole; others go along with the rows, one for each.
set_arguments <- c("table", "set", "levels", "labels", "breaks", "vec", "exclude")

# list(package, name) of the function that a call calls, if it is one of these, or NULL.
row_call_of <- function(code, at) {
  head <- code[[1L]]
  if (is.call(head)) {
    if (!identical(head[[1L]], quote(`::`))) {
      return(NULL)
    }
    package <- as.character(head[[2L]])
    name <- as.character(head[[3L]])
    known <- name %in% names(row_calls[[package]])
    return(if (known) list(package = package, name = name))
  }
  if (!is.symbol(head)) {
    return(NULL)
  }
  name <- as.character(head)
  for (package in names(row_calls)) {
    if (name %in% names(row_calls[[package]]) &&
      is_exported(get0(name, at$env, mode = "function"), name, package)) {
      return(list(package = package, name = name))
    }
  }
}

# The code of such a call, with its arguments' codes and names; NULL if it has no value for each
# row.
listed_call <- function(code, at, code_of) {
  what <- row_call_of(code, at)
  if (is.null(what)) {
    return(NULL)
  }
  fun <- call("::", as.name(what$package), as.name(what$name))
  spec <- row_calls[[what$package]][[what$name]]
  like <- if (is.null(spec$like)) args(eval(fun)) else spec$like
  full <- tryCatch(match.call(like, code), error = function(e) NULL)
  parts <- as.list(full)[-1L]
  if (!length(parts) || any(names(parts) %in% bad_arguments)) {
    return(NULL)
  }
  names <- if (is.null(names(parts))) rep("", length(parts)) else names(parts)
  by_row <- names %in% spec$rows | (names == "" & "..." %in% spec$rows)
  if (what$name == "case_when") by_row <- by_row | names == ".default"
  codes <- Map(function(part, row, name) {
    if (row) {
      return(code_of_row(part, at, code_of))
    }
    pattern <- if (what$package == "stringr" && name == "pattern") pattern_of(part, at)
    if (is.null(pattern)) {
      constant_part(part, at, if (name %in% set_arguments) Inf else 1)
    } else {
      pattern
    }
  }, parts, by_row, names)
  if (any(vapply(codes, is.null, NA)) || !any(vapply(codes[by_row], is.language, NA))) {
    return(NULL)
  }
  as.call(c(fun, stats::setNames(codes, names)))
}

# One of case_when() has two sides.
code_of_row <- function(part, at, code_of) {
  if (!is.call(part) || !identical(part[[1L]], quote(`~`))) {
    return(code_of(part, at))
  }
  sides <- lapply(as.list(part)[-1L], code_of, at)
  if (length(sides) == 2L && !any(vapply(sides, is.null, NA))) as.call(c(quote(`~`), sides))
}

# A constant vector of at most so many elements, without names, which might mean something.
constant_part <- function(code, at, most) {
  value <- if (is_constant(code, at)) tryCatch(eval(code, at$env), error = function(e) NULL)
  plain <- is.atomic(value) && (is.null(attributes(value)) || is_date(value))
  if (plain && length(value) <= most) value
}

# A pattern of stringr's fixed() and related functions, evaluated now, or NULL.
pattern_of <- function(code, at) {
  value <- if (is.symbol(code)) {
    if (is_constant(code, at)) get(as.character(code), at$env)
  } else if (is_call_of(code, c("fixed", "regex", "coll", "boundary"))) {
    head <- code[[1L]]
    name <- as.character(if (is.call(head)) head[[3L]] else head)
    fun <- tryCatch(eval(head, at$env), error = function(e) NULL)
    constant <- all(vapply(as.list(code)[-1L], is_constant, NA, at))
    if (constant && is_exported(fun, name, "stringr")) eval(code, at$env)
  }
  pattern <- inherits(value, c("stringr_pattern", "pattern")) && length(value) == 1L
  if (pattern) value
}

# Whether such a call has a value for each row, given its arguments' values.
listed_takes <- function(code, values) {
  head <- code[[1L]]
  if (is.null(names(values))) names(values) <- rep("", length(values))
  isTRUE(row_calls[[as.character(head[[2L]])]][[as.character(head[[3L]])]]$takes(values))
}
