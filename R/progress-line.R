# The terminal line that is rewritten again and again, see src/ffi/session/line.c. There is one,
# on stderr, and anything else that muster shows removes it first.

# RStudio's console is no terminal, but goes back to the line's begin as one.
line_is_possible <- function() {
  sink.number(type = "message") == 2L &&
    (is_rstudio() || (isatty(stderr()) && !Sys.getenv("TERM") %in% c("", "dumb")))
}

is_rstudio <- function() identical(.Platform$GUI, "RStudio")

# Looked up each time, since windows are resized.
line_width <- function() {
  width <- if (!is_rstudio()) .Call(ffi_line_width)
  if (is.null(width) || width < 1L) getOption("width") else width
}

line_put <- function(text) .Call(ffi_line_put, text, nchar(text, "width"), is_rstudio())

line_is_up <- function() .Call(ffi_line_shown)

line_away <- function(for_good = FALSE) .Call(ffi_line_away, for_good)
