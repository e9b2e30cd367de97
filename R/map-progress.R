# How far a cluster_map() is, for those who wait: only for work that takes long.

# Not before so many seconds, and then as often.
progress_after <- 2
progress_every <- c(bar = 0.2, lines = 5)

# NULL if nothing is to be shown.
new_progress <- function(wanted, n, what = "elements") {
  kind <- progress_kind(wanted)
  if (is.null(kind) || n < 2L) {
    return(NULL)
  }
  progress <- new.env(parent = baseenv()) # cli evaluates its formats there
  progress$kind <- kind
  progress$n <- n
  progress$what <- what
  progress$begin <- now_seconds()
  progress$due <- progress$begin + progress_after
  progress
}

# A bar rewrites its line, which only a terminal can do.
progress_kind <- function(wanted) {
  if (isFALSE(wanted) || (is.null(wanted) && !interactive())) {
    return(NULL)
  }
  plain <- isTRUE(getOption("knitr.in.progress")) || !requireNamespace("cli", quietly = TRUE)
  if (!plain && cli::is_dynamic_tty()) {
    "bar"
  } else if (isTRUE(wanted)) {
    "lines"
  }
}

# How long to wait for pieces before it is time to show something.
progress_patience <- function(progress) {
  if (is.null(progress)) Inf else max(0.01, progress$due - now_seconds())
}

show_progress <- function(progress, done) {
  if (is.null(progress) || now_seconds() < progress$due || done == progress$n) {
    return(invisible())
  }
  seconds <- now_seconds() - progress$begin
  progress$due <- now_seconds() + progress_every[[progress$kind]]
  rate <- done / seconds
  left <- if (done > 0) time_text((progress$n - done) / rate) else "?"
  speed <- paste0(format(signif(rate, 3L), big.mark = ",", decimal.mark = "."), "/s")
  if (progress$kind == "bar") {
    show_bar(progress, done, paste0(speed, ", ", left, " left"))
  } else {
    inform_muster("progress", paste0(
      format(done, big.mark = ",", decimal.mark = "."), " of ",
      format(progress$n, big.mark = ",", decimal.mark = "."), " ", progress$what, ", ", speed,
      ", ",
      left, " left"
    ), done = done, elements = progress$n)
  }
}

show_bar <- function(progress, done, text) {
  if (is.null(progress$id)) {
    before <- options(cli.progress_show_after = 0)
    on.exit(options(before))
    progress$id <- cli::cli_progress_bar(
      total = progress$n, extra = list(text = text), .auto_close = FALSE, .envir = progress,
      format = "{cli::pb_bar} {cli::pb_current}/{cli::pb_total} | {cli::pb_extra$text}"
    )
  }
  cli::cli_progress_update(
    set = done, extra = list(text = text), id = progress$id, force = TRUE, .envir = progress
  )
}

end_progress <- function(progress) {
  if (!is.null(progress$id)) {
    cli::cli_progress_done(id = progress$id, .envir = progress)
    progress$id <- NULL
  }
}

time_text <- function(seconds) {
  if (seconds < 100) {
    paste0(ceiling(seconds), " s")
  } else if (seconds < 6000) {
    paste0(ceiling(seconds / 60), " min")
  } else {
    paste0(signif(seconds / 3600, 2L), " h")
  }
}
