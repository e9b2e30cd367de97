# Checks of arguments. Each returns the value in the form that later code needs, or raises
# muster_error_input that names the argument and what was given.

# describe() says in a few words what a value is, for "not ..." in messages.
describe <- function(x) {
  if (is.null(x)) {
    return("NULL")
  }
  if (is.atomic(x) && length(x) == 1L) {
    text <- if (is.character(x) && !is.na(x)) encodeString(x, quote = "\"") else format(x)
    return(if (nchar(text) > 60L) paste0(substr(text, 1L, 57L), "...") else text)
  }
  kind <- describe_class(x)
  if ((is.vector(x) || is.factor(x)) && !is.function(x)) {
    return(paste(kind, "of length", length(x)))
  }
  kind
}

describe_class <- function(x) {
  class <- class(x)[1L]
  if (is.function(x)) {
    "a function"
  } else if (class %in% c("list", "factor", "expression", "environment")) {
    paste(article(class), class)
  } else if (is.atomic(x) && !is.object(x) && is.null(dim(x))) {
    paste(article(class), class, "vector")
  } else {
    paste0("an object of class \"", class, "\"")
  }
}

article <- function(word) if (grepl("^[aeiou]", word)) "an" else "a"

abort_input <- function(name, must, x, call, hints = NULL, details = NULL) {
  abort_muster("input", paste0("`", name, "` must be ", must, ", not ", describe(x), "."),
    details = details, hints = hints, argument = name, call = call
  )
}

# Checks a required argument, however many functions passed it on: R's own error would name the
# function that first evaluates it.
check_given <- function(x, name, call) {
  if (missing(x)) {
    abort_muster("input", paste0("`", name, "` is missing, with no default."),
      argument = name, call = call
    )
  }
}

# A whole number from min to max, as integer.
check_count <- function(x, name, min = 1L, max = .Machine$integer.max, call = sys.call(-1),
                        hints = NULL) {
  ok <- is.numeric(x) && length(x) == 1L && !is.na(x) && is.finite(x) &&
    x == trunc(x) && x >= min && x <= max
  if (!ok) {
    # The marks are given, since a user's options(OutDec = ",") would clash.
    most <- format(max, big.mark = ",", decimal.mark = ".")
    upper <- if (max < .Machine$integer.max) paste(" to", most) else " up"
    abort_input(name, paste0("one whole number from ", min, upper), x, call, hints)
  }
  as.integer(x)
}

# A number of seconds above 0; Inf where allowed.
check_seconds <- function(x, name, infinite = FALSE, call = sys.call(-1)) {
  ok <- is.numeric(x) && length(x) == 1L && !is.na(x) && x > 0 && (infinite || is.finite(x))
  if (!ok) {
    abort_input(name, "a number of seconds above 0", x, call)
  }
  as.double(x)
}

check_flag <- function(x, name, call = sys.call(-1)) {
  if (!is.logical(x) || length(x) != 1L || is.na(x)) {
    abort_input(name, "TRUE or FALSE", x, call)
  }
  x
}

# A character vector without NA and empty strings, or NULL.
check_string <- function(x, name, call = sys.call(-1)) {
  check_given(x, name, call)
  if (!is.character(x) || length(x) != 1L || is.na(x) || !nzchar(x)) {
    abort_input(name, "a string that isn't empty", x, call)
  }
  x
}

check_text <- function(text, name, call) {
  text <- enc2utf8(check_string(text, name, call))
  if (!validUTF8(text)) abort_input(name, "one string of valid characters", text, call)
  text
}

check_strings <- function(x, name, call = sys.call(-1)) {
  if (is.null(x)) {
    return(character())
  }
  if (!is.character(x) || anyNA(x) || !all(nzchar(x))) {
    abort_input(name, "NULL or a character vector of names", x, call)
  }
  x
}

# One of a few strings. Like match.arg(), but exact and with our error.
check_choice <- function(x, name, choices, call = sys.call(-1)) {
  if (identical(x, choices)) {
    return(choices[1L])
  }
  if (!is.character(x) || length(x) != 1L || is.na(x) || !x %in% choices) {
    abort_input(name, paste("one of", paste0("\"", choices, "\"", collapse = ", ")), x, call)
  }
  x
}
