# JSON (RFC 8259): data frames and what is in them written, and read back what muster has written.

# more: columns that are JSON already.
json_rows <- function(rows, more = list()) {
  if (!nrow(rows)) {
    return("[]")
  }
  columns <- c(lapply(rows, json_values), more)
  objects <- do.call(paste, c(
    Map(function(name, values) paste0(json_string(name), ": ", values), names(columns), columns),
    sep = ", "
  ))
  paste0("[\n", paste0("    {", objects, "}", collapse = ",\n"), "\n  ]")
}

# A named numeric vector.
json_object <- function(x) {
  if (!length(x)) {
    return("{}")
  }
  paste0("{", paste0(json_string(names(x)), ": ", json_values(x), collapse = ", "), "}")
}

json_values <- function(x) {
  if (is.factor(x)) x <- as.character(x)
  text <- if (is.character(x)) {
    json_string(x)
  } else if (is.logical(x)) {
    tolower(as.character(x))
  } else {
    finite <- is.finite(x)
    ifelse(finite, vapply(x, format, "", digits = 15L, decimal.mark = ".", trim = TRUE), NA)
  }
  ifelse(is.na(x) | is.na(text), "null", text)
}

json_string <- function(x) {
  x <- enc2utf8(x)
  x <- gsub("\\", "\\\\", x, fixed = TRUE)
  x <- gsub("\"", "\\\"", x, fixed = TRUE)
  for (code in unique(utf8ToInt(paste(gsub("[^\001-\037]", "", x), collapse = "")))) {
    x <- gsub(intToUtf8(code), sprintf("\\u%04x", code), x, fixed = TRUE)
  }
  sprintf("\"%s\"", x) # none for none
}

# items: JSON.
json_array <- function(items) paste0("[", paste0(items, collapse = ", "), "]")

# ---- Reading it

# Objects and arrays are lists, strings and numbers vectors of length 1. What isn't JSON, such as
# a cut file, is an error.
json_parse <- function(bytes) {
  text <- rawToChar(bytes)
  Encoding(text) <- "UTF-8"
  pattern <- "\"(?:[^\"\\\\]|\\\\.)*\"|[][{}:,]|-?[0-9][0-9.eE+-]*|true|false|null|[^\\s]"
  at <- new.env(parent = emptyenv())
  at$tokens <- regmatches(text, gregexpr(pattern, text, perl = TRUE))[[1L]]
  at$k <- 0L
  value <- json_value(at)
  if (at$k != length(at$tokens)) part_error("text behind its end")
  value
}

json_next <- function(at) {
  at$k <- at$k + 1L
  if (at$k > length(at$tokens)) part_error("it ends too early")
  at$tokens[at$k]
}

json_value <- function(at) {
  token <- json_next(at)
  switch(token,
    "{" = json_items(at, "}"),
    "[" = json_items(at, "]"),
    true = TRUE,
    false = FALSE,
    null = NULL,
    if (startsWith(token, "\"")) json_text(token) else json_number(token)
  )
}

json_items <- function(at, end) {
  items <- list()
  names <- character()
  if (identical(at$tokens[at$k + 1L], end)) {
    json_next(at)
    return(items)
  }
  repeat {
    if (end == "}") {
      names <- c(names, json_text(json_next(at)))
      json_expect(json_next(at), ":")
    }
    items <- c(items, list(json_value(at)))
    token <- json_next(at)
    if (token == end) break
    json_expect(token, ",")
  }
  if (end == "}") stats::setNames(items, names) else items
}

json_expect <- function(token, wanted) {
  if (token != wanted) part_error(paste0("\"", token, "\" where \"", wanted, "\" should be"))
}

json_number <- function(token) {
  if (!grepl("^-?[0-9]", token)) part_error(paste0("\"", token, "\" isn't a value"))
  as.double(token)
}

json_text <- function(token) {
  if (!startsWith(token, "\"")) part_error(paste0("\"", token, "\" isn't a string"))
  text <- substring(token, 2L, nchar(token) - 1L)
  found <- gregexpr("\\\\(u[0-9a-fA-F]{4}|.)", text)
  regmatches(text, found) <- lapply(regmatches(text, found), function(codes) {
    vapply(substring(codes, 2L), function(code) {
      if (nchar(code) == 5L) {
        return(intToUtf8(strtoi(substring(code, 2L), 16L)))
      }
      switch(code, n = "\n", t = "\t", r = "\r", b = "\b", f = "\f", code)
    }, "")
  })
  text
}
