# Settings that the counting of cores obeys: options, environment variables, and what is
# said of values that can't be used.
#
# Nothing here may fail: a variable of the environment is often set by somebody else, for
# some other purpose. What can't be used is ignored, and said once a session per value.
#
# A setting has one name with three prefixes: muster's own, parallelly's, and that of package
# future, where parallelly's functions come from. They are read when they are needed, not when
# the package is loaded, so that it never changes a user's options.

# An option, or else the environment variable of the same meaning, or else `default`.
# name: without prefix, such as "availableCores.omit". type: what the variable's text becomes.
cores_option <- function(name, default = NULL, type = typeof(default)) {
  for (prefix in c("muster.", "parallelly.", "future.")) {
    value <- getOption(paste0(prefix, name))
    if (!is.null(value)) {
      return(value)
    }
  }
  variable <- toupper(gsub(".", "_", name, fixed = TRUE))
  found <- cores_env(variable, c("R_MUSTER_", "R_PARALLELLY_", "R_FUTURE_"))
  if (is.null(found)) default else cores_option_parse(found, type, default)
}

cores_option_parse <- function(found, type, default) {
  if (type == "character") {
    return(cores_split(found$text))
  }
  value <- suppressWarnings(
    if (type == "logical") as.logical(found$text) else as.numeric(found$text)
  )
  if (is.na(value)) {
    kind <- if (type == "logical") "TRUE or FALSE" else "a number"
    cores_warn_ignored(paste0("Environment variable `", found$name, "`"), kind, found$text)
    return(default)
  }
  value
}

# "a, b,c" as c("a", "b", "c").
cores_split <- function(text, by = ",") {
  parts <- cores_trim(unlist(strsplit(text, by, useBytes = TRUE), use.names = FALSE))
  parts[nzchar(parts)]
}

# trimws() would stop at bytes that aren't valid in this locale.
cores_trim <- function(text) gsub("^[ \t\r\n]+|[ \t\r\n]+$", "", text, useBytes = TRUE)

# The first variable of the environment that is set to more than blanks: list(name, text), or
# NULL. Each name counts also with a prefix; parallelly allows this for all that it reads.
cores_env <- function(names, prefixes = c("", "R_MUSTER_", "R_PARALLELLY_", "R_FUTURE_")) {
  for (name in names) {
    full <- paste0(prefixes, name)
    texts <- Sys.getenv(full, "", FALSE)
    for (at in which(nzchar(texts))) {
      text <- cores_trim(texts[at])
      if (nzchar(text)) {
        return(list(name = full[at], text = text))
      }
    }
  }
  NULL
}

# A number of cores with its reason: what each source gives. NA if the source is silent. The
# reason is a function, since few ask for it, and to put it into words takes longer
# than to find the number.
cores_answer <- function(count, ...) {
  list(count = as.integer(count), reason = function() paste0(...))
}
cores_silent <- function(...) list(count = NA_integer_, reason = function() paste0(...))

# NAME="text", as it would be written in a shell.
cores_quote <- function(name, text) paste0(name, "=", describe(text))

# The answer of the first of several variables that holds a whole number from 1 up.
cores_env_count <- function(names) {
  said <- NULL
  for (name in names) {
    found <- cores_env(name)
    if (!is.null(found)) {
      count <- cores_whole(found$text)
      if (!is.na(count) && count >= 1L) {
        return(cores_answer(count, cores_quote(found$name, found$text)))
      }
      cores_warn_count(paste0("Environment variable `", found$name, "`"), 1L, found$text)
      said <- c(said, paste(cores_quote(found$name, found$text), "is ignored"))
    }
  }
  if (length(said)) {
    return(cores_silent(paste(said, collapse = ", ")))
  }
  verb <- if (length(names) > 1L) " aren't set" else " isn't set"
  cores_silent(paste(names, collapse = ", "), verb)
}

# A whole number given as a number or as decimal digits, or NA.
cores_whole <- function(value) {
  if (length(value) != 1L) {
    return(NA_integer_)
  }
  if (is.character(value)) {
    # Bytes, because a variable may hold what isn't valid in this locale.
    digits <- grepl("^[ \t]*[0-9]+[ \t]*$", value, useBytes = TRUE)
    value <- if (digits) as.numeric(value) else NA_real_
  }
  if (!is.numeric(value) || is.na(value) || abs(value) > .Machine$integer.max) {
    return(NA_integer_)
  }
  as.integer(value)
}

# What is said once ------------------------------------------------------------

cores_warned <- new.env(parent = emptyenv())

# Warns of `message` unless this session was warned of it before.
cores_warn <- function(message, hints, ...) {
  if (!message %in% cores_warned$messages) {
    cores_warned$messages <- c(cores_warned$messages, message)
    warn_muster("input", message, hints = hints, ...)
  }
}

cores_warn_ignored <- function(source, must, value) {
  cores_warn(
    paste0(source, " must be ", must, ", not ", describe(value), "."),
    "It is ignored when counting the available cores; correct or unset it.",
    value = value
  )
}

cores_warn_count <- function(source, min, value) {
  cores_warn_ignored(source, paste("a whole number from", min, "up"), value)
}
