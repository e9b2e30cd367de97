# Key values in folder names, key=value, as Hive writes them: for the session, which reads paths,
# and for workers, which write them.

hive_na <- "__HIVE_DEFAULT_PARTITION__"

# The keys in a path of folders: named texts, NA for a missing value, NULL if there are none.
keys_of_path <- function(path) {
  steps <- strsplit(path, "/", fixed = TRUE)[[1L]]
  at <- regexpr("=", steps, fixed = TRUE)
  steps <- steps[at > 1L]
  at <- at[at > 1L]
  if (!length(at)) {
    return(NULL)
  }
  values <- substring(steps, at + 1L)
  texts <- url_decode(values)
  texts[values == hive_na] <- NA_character_
  stats::setNames(texts, url_decode(substring(steps, 1L, at - 1L)))
}

# A folder for each row of a list of key columns. Readers would ignore a name that begins with a dot
# or an underscore.
path_of_keys <- function(columns) {
  folders <- lapply(names(columns), function(name) {
    text <- key_text(columns[[name]], name)
    value <- url_encode(text)
    value[text %in% hive_na] <- sub("_", "%5F", value[text %in% hive_na], fixed = TRUE)
    value[is.na(text)] <- hive_na
    key <- url_encode(name)
    if (startsWith(key, "_")) key <- paste0("%5F", substring(key, 2L))
    if (startsWith(key, ".")) key <- paste0("%2E", substring(key, 2L))
    paste0(key, "=", value)
  })
  do.call(paste, c(folders, sep = "/"))
}

# Each byte except ASCII letters, digits and "_.-" becomes %XX.
url_encode <- function(x) {
  safe <- as.raw(utf8ToInt(paste0(c(letters, LETTERS, 0:9, "_.-"), collapse = "")))
  x <- enc2utf8(x)
  known <- unique(x[!is.na(x)])
  coded <- vapply(known, function(one) {
    bytes <- charToRaw(one)
    paste0(ifelse(bytes %in% safe, rawToChar(bytes, multiple = TRUE),
      paste0("%", toupper(as.character(bytes)))
    ), collapse = "")
  }, "", USE.NAMES = FALSE)
  coded[match(x, known)]
}

# To UTF-8 text. A percent sign without two hexadecimal digits stays unchanged.
url_decode <- function(x) {
  vapply(x, function(one) {
    if (!grepl("%", one, fixed = TRUE)) {
      return(one)
    }
    codes <- gregexpr("%[0-9A-Fa-f]{2}", one)
    between <- regmatches(one, codes, invert = TRUE)[[1L]]
    bytes <- as.raw(strtoi(substring(regmatches(one, codes)[[1L]], 2L), 16L))
    pieces <- lapply(seq_along(between), function(i) {
      c(charToRaw(between[i]), if (i <= length(bytes)) bytes[i])
    })
    text <- rawToChar(unlist(pieces))
    Encoding(text) <- "UTF-8"
    text
  }, "", USE.NAMES = FALSE)
}

# The type that fits all values of a key: logical, integer, double or character. A number must be
# written as R would write it, or text such as 007 would lose something. Where two values are one
# number, as 1.1 and 1.10, they remain text: rows of two folders would merge.
guess_key <- function(text) {
  known <- unique(text[!is.na(text)])
  if (all(known %in% c("TRUE", "FALSE", "true", "false"))) {
    return(as.logical(text))
  }
  if (all(grepl("^(0|-?[1-9][0-9]*)$", known))) {
    numbers <- as.double(known)
    if (all(abs(numbers) <= .Machine$integer.max)) {
      return(as.integer(text))
    }
    return(if (all(abs(numbers) < 2^53)) as.double(text) else text)
  }
  number <- "^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$"
  if (all(grepl(number, known)) && !anyDuplicated(as.double(known))) {
    return(as.double(text))
  }
  text
}

# ---- Values as text

# A key's values as text that key_as() can read back; a part_error if that isn't possible.
key_text <- function(column, name) {
  if (is.factor(column)) {
    return(as.character(column))
  }
  class <- class(column)[1L]
  whole <- !inherits(column, "Date") || all(unclass(column) %% 1 == 0 | is.na(column))
  if (!class %in% c("logical", "integer", "numeric", "character", "Date") || !whole) {
    part_error(paste0(
      "Column `", name, "` can't name folders: it is ", describe(column), ". `by` may be ",
      "logical, integer, numeric, character, factor and Date."
    ))
  }
  if (is.double(column) && class == "numeric") double_text(column) else as.character(column)
}

# The shortest of a few forms that reads back as the same double; NA stays NA, but not NaN.
double_text <- function(x) {
  text <- sprintf("%.15g", x)
  text[is.na(x) & !is.nan(x)] <- NA_character_
  for (form in c("%.17g", "%a")) {
    other <- which(is.finite(x) & as.double(text) != x)
    text[other] <- sprintf(form, x[other])
  }
  text
}

# model: a column without rows, of the type to convert to.
key_as <- function(text, model) {
  if (is.factor(model)) {
    return(factor(text, levels(model), ordered = is.ordered(model)))
  }
  if (inherits(model, "Date")) {
    days <- as.double(as.Date(text, format = "%Y-%m-%d"))
    return(structure(if (is.integer(model)) as.integer(days) else days, class = "Date"))
  }
  switch(typeof(model),
    logical = as.logical(text),
    integer = as.integer(text),
    double = as.double(text),
    text
  )
}
