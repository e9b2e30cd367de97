# Output of doctor(): with colours if cli is installed.

# explain: TRUE to show why each item matters, even the good ones.
#' @export
print.muster_doctor <- function(x, explain = FALSE, ...) {
  if (!all(c("item", "value", "verdict", "why", "command", "persist", "group") %in% names(x))) {
    rest <- x # columns were removed
    class(rest) <- "data.frame"
    print(rest, ...)
    return(invisible(x))
  }
  cat(format(x, explain = explain), sep = "\n")
  invisible(x)
}

#' @export
format.muster_doctor <- function(x, explain = FALSE, ...) {
  lines <- unlist(lapply(unique(x$group), function(group) {
    rows <- which(x$group == group)
    items <- unlist(lapply(rows, function(i) item_lines(x[i, ], explain)))
    c(doctor_style(group, "bold"), items, "")
  }))
  c(lines, doctor_summary(x))
}

# A line, and below it what it means and what to do.
item_lines <- function(row, explain) {
  explained <- explain || row$verdict %in% c("bad", "attention")
  mark <- verdict_mark(row$verdict)
  width <- max(40L, getOption("width", 80L))
  wrapped <- function(text, indent) {
    strwrap(text, width - 1L, indent = indent, exdent = indent)
  }
  value <- wrapped(row$value, 32L)
  head <- paste0("  ", mark, " ", formatC(row$item, width = -25L), " ")
  c(
    paste0(head, trimws(value[1L])), value[-1L],
    if (explained) doctor_style(wrapped(row$why, 6L), "quiet"),
    # Not wrapped: it must be copyable.
    if (nzchar(row$command) && explained) paste0("      > ", row$command)
    else if (nzchar(row$command)) doctor_style(paste0("      for bursts: ", row$command), "quiet"),
    if (nzchar(row$persist)) doctor_style(persist_lines(row$persist), "quiet")
  )
}

# How to keep a kernel setting after the next boot.
persist_lines <- function(persist) {
  settings <- strsplit(persist, "\n", fixed = TRUE)[[1L]]
  paste0("      to keep it: echo '", settings, "' >> ", sysctl_file)
}

verdict_mark <- function(verdict) {
  word <- c(good = "ok ", attention = "!  ", bad = "BAD", unknown = "?  ")
  style <- c(good = "green", attention = "yellow", bad = "red", unknown = "quiet")
  doctor_style(word[[verdict]], style[[verdict]])
}

doctor_style <- function(text, style) {
  if (!length(text) || !requireNamespace("cli", quietly = TRUE)) {
    return(text)
  }
  switch(style,
    bold = cli::style_bold(text), quiet = cli::col_grey(text), green = cli::col_green(text),
    yellow = cli::col_yellow(text), red = cli::col_red(text)
  )
}

doctor_summary <- function(x) {
  count <- table(factor(x$verdict, c("good", "attention", "bad", "unknown")))
  words <- c("good", "to look at", "bad", "unknown")
  paste0(paste(count, words, collapse = ", "), ".")
}
