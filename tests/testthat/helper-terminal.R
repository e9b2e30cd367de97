# A terminal for tests, made by script(1), and what it shows.

skip_without_terminal <- function() {
  testthat::skip_if(!nzchar(Sys.which("script")), "there is no script(1) to make a terminal")
  works <- suppressWarnings(system2("script", c("-qec", shQuote("echo yes"), "/dev/null"),
    stdout = TRUE, stderr = TRUE, stdin = "/dev/null"
  ))
  testthat::skip_if(!any(grepl("yes", works)), "script(1) has no -e or -c here")
}

# As a user's session: testthat's own marks are not of its world. Nothing is shown before
# progress_after, so that is made short.
user_code <- function(code, after = 0.2) {
  c(
    "invisible(Sys.unsetenv(c('TESTTHAT', '_R_CHECK_PACKAGE_NAME_')))",
    "suppressMessages(library(muster))",
    "local({",
    "  ns <- asNamespace('muster')",
    "  for (name in c('progress_after', 'progress_every')) unlockBinding(name, ns)",
    paste0("  ns$progress_after <- ", after),
    "  ns$progress_every <- c(bar = 0.1, lines = 0.1)", "})", code
  )
}

r_command <- function(...) paste(c(shQuote(file.path(R.home("bin"), "R")), ...), collapse = " ")

# All bytes that R writes to a terminal of this width, as one string. interactive: the code is
# typed, which the terminal echoes.
terminal_bytes <- function(code, interactive = FALSE, columns = 80, frame = parent.frame()) {
  file <- tempfile(fileext = ".R")
  defer(function() unlink(file), frame)
  writeLines(code, file)
  local_variables(
    TERM = "xterm", R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "", NO_COLOR = "1"
  )
  r <- if (interactive) {
    r_command("-q --no-save --no-restore --no-readline")
  } else {
    r_command("-q --no-echo --no-save --no-restore -f", shQuote(file))
  }
  command <- paste("stty cols", columns, "2>/dev/null;", r)
  out <- suppressWarnings(system2("script", c("-qec", shQuote(command), "/dev/null"),
    stdout = TRUE, stderr = TRUE, stdin = if (interactive) file else "/dev/null", timeout = 120
  ))
  paste(out, collapse = "\n")
}

# The lines that are on the screen in the end.
screen_of <- function(bytes) {
  lines <- strsplit(bytes, "\n", fixed = TRUE)[[1L]]
  unname(vapply(lines, function(line) {
    shown <- ""
    for (part in strsplit(line, "\r", fixed = TRUE)[[1L]]) {
      pieces <- strsplit(paste0(part, " "), "\033[K", fixed = TRUE)[[1L]]
      pieces[length(pieces)] <- sub(" $", "", pieces[length(pieces)])
      at <- 0L
      for (k in seq_along(pieces)) {
        end <- at + nchar(pieces[k])
        rest <- if (k < length(pieces)) "" else substring(shown, end + 1L)
        shown <- paste0(substring(shown, 1L, at), pieces[k], rest)
        at <- end
      }
    }
    shown
  }, ""))
}

# What R says on stderr without a terminal.
shown_by <- function(code) {
  file <- tempfile(fileext = ".R")
  defer(function() unlink(file))
  writeLines(user_code(code), file)
  local_variables(R_LIBS = paste(.libPaths(), collapse = ":"), R_TESTS = "")
  suppressWarnings(system2(file.path(R.home("bin"), "Rscript"), shQuote(file),
    stdout = FALSE, stderr = TRUE, timeout = 120
  ))
}
