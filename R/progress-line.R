# The line of a terminal that is written again and again. There is one, on stderr, and whatever
# else muster shows takes it away first.

line_is_up <- function() !is.null(the$line)

# RStudio's console is no terminal, but goes back to the line's begin as one.
line_is_possible <- function() {
  sink.number(type = "message") == 2L &&
    (is_rstudio() || (isatty(stderr()) && !Sys.getenv("TERM") %in% c("", "dumb")))
}

is_rstudio <- function() identical(.Platform$GUI, "RStudio")

# Asked for each time, since windows change.
line_width <- function() {
  width <- if (!is_rstudio()) .Call(ffi_line_width)
  if (is.null(width) || width < 1L) getOption("width") else width
}

line_put <- function(text) {
  cat("\r", text, line_rest(text), sep = "", file = stderr())
  the$line <- text
  .Call(ffi_line_note, TRUE)
  invisible()
}

# Gives what it was, NULL if there was none. Also called from C.
line_away <- function() {
  text <- the$line
  if (!is.null(text)) {
    the$line <- NULL
    .Call(ffi_line_note, FALSE)
    cat("\r", line_rest("", text), if (is_rstudio()) "\r", sep = "", file = stderr())
  }
  invisible(text)
}

# What clears the line behind a text.
line_rest <- function(text, before = the$line) {
  if (!is_rstudio()) {
    return("\033[K")
  }
  if (is.null(before)) "" else strrep(" ", max(0L, nchar(before, "width") - nchar(text, "width")))
}
