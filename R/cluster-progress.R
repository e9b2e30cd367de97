# Progress of long calls: whether to show it, what, and when.

# Nothing is shown before this many seconds, nor more often than this.
progress_after <- 2
progress_every <- c(bar = 0.2, lines = 5)

now_seconds <- function() proc.time()[["elapsed"]]

# TRUE, FALSE or a label; NULL stands for the option.
check_progress <- function(wanted, name, call) {
  if (!is.null(wanted) && !is_progress(wanted)) {
    abort_input(name, "TRUE, FALSE, \"auto\" or a label (one string)", wanted, call)
  }
}

is_progress <- function(wanted) {
  (is.logical(wanted) || is.character(wanted)) && length(wanted) == 1L && !is.na(wanted)
}

# NULL if there is nothing to show.
new_progress <- function(wanted, n, what = "elements") {
  kind <- if (n > 1L) progress_kind(wanted)
  if (is.null(kind)) {
    return(NULL)
  }
  progress <- new.env(parent = emptyenv())
  progress$kind <- kind
  progress$label <- progress_label(if (is.null(wanted)) progress_option() else wanted)
  progress$n <- n
  progress$what <- what
  progress$begin <- now_seconds()
  progress$due <- progress$begin + progress_after
  progress
}

progress_option <- function() {
  wanted <- getOption("muster.progress", "auto")
  if (is_progress(wanted)) wanted else "auto"
}

# "bar": a line that is written again and again, which only a terminal can show; "lines": one
# now and then. NULL: nothing. What a call asks for, it gets. The option is for all calls, and so
# counts for nothing where output is kept, or muster is to be quiet.
progress_kind <- function(wanted) {
  asked <- !is.null(wanted)
  quiet <- isTRUE(getOption("muster.quiet"))
  if (!asked) wanted <- progress_option()
  auto <- identical(wanted, "auto")
  # In an order that costs most calls little.
  if (isFALSE(wanted) || (auto && !(interactive() && !quiet)) ||
    (!asked && (quiet || output_is_kept()))) {
    return(NULL)
  }
  can <- line_is_possible() && !output_is_kept()
  if (auto) {
    return(if (can) "bar")
  }
  if (can) "bar" else "lines"
}

# In documents and tests.
output_is_kept <- function() {
  isTRUE(getOption("knitr.in.progress")) || identical(Sys.getenv("TESTTHAT"), "true") ||
    nzchar(Sys.getenv("_R_CHECK_PACKAGE_NAME_"))
}

# For C: whether something catches what this session prints.
output_is_sunk <- function() sink.number() > 0L

# On one line, whatever it holds.
progress_label <- function(wanted) {
  if (is.character(wanted) && wanted != "auto") {
    trimws(gsub("[[:space:][:cntrl:]]+", " ", enc2native(wanted)))
  } else {
    ""
  }
}

# How long to wait before it is time to show something.
progress_patience <- function(progress) {
  if (is.null(progress)) Inf else max(0.01, progress$due - now_seconds())
}

show_progress <- function(progress, done) {
  if (is.null(progress)) {
    return(invisible())
  }
  now <- now_seconds()
  # Whatever removed the line in between, such as a message, is over.
  due <- now >= progress$due || (isTRUE(progress$drawn) && !line_is_up())
  if (!due || done >= progress$n) {
    return(invisible())
  }
  progress$due <- now + progress_every[[progress$kind]]
  seconds <- now - progress$begin
  if (progress$kind == "bar") {
    progress_draws(progress)
    line_put(bar_text(progress, done, seconds, line_width()))
  } else {
    label <- if (nzchar(progress$label)) paste0(progress$label, ": ")
    inform_muster("progress",
      paste0(
        label, big_number(done), " of ", big_number(progress$n), " ", progress$what, ", ",
        speed_text(progress, done, seconds)
      ),
      done = done, elements = progress$n
    )
  }
}

# R writes a line end at an interrupt before anything else, unless this option prevents it.
progress_draws <- function(progress) {
  if (!isTRUE(progress$drawn)) {
    progress$drawn <- TRUE
    progress$before <- options(interrupt = interrupt_hook(getOption("interrupt")))
  }
}

interrupt_hook <- function(before) {
  force(before)
  function() {
    line_away()
    if (is.function(before)) before()
  }
}

end_progress <- function(progress) {
  if (isTRUE(progress$drawn)) {
    line_away(for_good = TRUE)
    options(progress$before)
    progress$drawn <- FALSE
  }
}

# ---- texts

# The bar has what the other parts leave of the line, and goes first where it is narrow.
bar_text <- function(progress, done, seconds, width) {
  before <- if (nzchar(progress$label)) paste0(progress$label, " ") else ""
  after <- paste0(
    format(done, scientific = FALSE), "/", format(progress$n, scientific = FALSE), " | ",
    speed_text(progress, done, seconds)
  )
  room <- min(30L, width - 4L - nchar(before, "width") - nchar(after, "width"))
  bar <- if (room >= 5L) {
    full <- as.integer(room * min(1, done / progress$n))
    paste0("[", strrep("=", full), strrep(" ", room - full), "] ")
  }
  # The last column stays free: some terminals go to the next line after it.
  strtrim(paste0(before, bar, after), max(1L, width - 1L))
}

speed_text <- function(progress, done, seconds) {
  if (done <= 0) {
    return(time_text(seconds))
  }
  rate <- done / seconds
  speed <- format(signif(rate, 3L), big.mark = ",", decimal.mark = ".")
  paste0(speed, "/s, ", time_text((progress$n - done) / rate), " left")
}

big_number <- function(n) format(n, big.mark = ",", decimal.mark = ".", scientific = FALSE)

time_text <- function(seconds) {
  if (seconds < 100) {
    paste0(ceiling(seconds), " s")
  } else if (seconds < 6000) {
    paste0(ceiling(seconds / 60), " min")
  } else {
    paste0(signif(seconds / 3600, 2L), " h")
  }
}

# ---- The line

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
