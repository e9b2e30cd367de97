# The line of a terminal that is written again and again, see src/ffi/session/line.c. There is one,
# on stderr, and whatever else muster shows takes it away first.

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

line_put <- function(text) .Call(ffi_line_put, text, nchar(text, "width"), is_rstudio())

line_is_up <- function() .Call(ffi_line_shown)

line_away <- function(for_good = FALSE) .Call(ffi_line_away, for_good)
