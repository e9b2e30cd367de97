# Runs cells of the matrix of cells.R in sessions, two at a time, and goes on behind one that
# crashed or hung. EVERY=1 is all of them, EVERY=3, the default, a third.

source("../full/helper-full.R", local = TRUE, chdir = TRUE)
matrix_files <- c("verbs.R", "deeds.R", "places.R", "cells.R")
for (file in matrix_files) source(file, local = TRUE)

every_cell <- function() {
  every <- suppressWarnings(as.integer(Sys.getenv("EVERY", "3")))
  if (is.na(every) || every < 1L) 3L else every
}

# Seconds without a word after which a session is ended.
silence_limit <- 300
crashes_limit <- 5L

# Compiles ../tools/hooks.c, once, at the top of a file: its library, "" without a compiler.
hooks_library <- function() {
  dir <- file.path(tempdir(), "hooks-library")
  file <- file.path(dir, paste0("hooks", .Platform$dynlib.ext))
  if (has_compiler() && dir.create(dir, showWarnings = FALSE)) {
    file.copy("../tools/hooks.c", dir)
    R <- file.path(R.home("bin"), "R")
    withr::with_dir(dir, system2(R, c("CMD", "SHLIB", "hooks.c"), stdout = FALSE, stderr = FALSE))
  }
  if (file.exists(file)) file else ""
}

# Expects that all cells at some places keep the rule.
expect_cells <- function(places, library = "", frame = parent.frame()) {
  names <- unlist(lapply(places, cell_names, every_cell()))
  mailboxes <- lapply(split(names, seq_along(names) %% 2L), start_mailbox, library, frame)
  while (any(vapply(mailboxes, function(mailbox) !is.null(mailbox$session), NA))) {
    mailboxes <- lapply(mailboxes, look_at_mailbox)
    pass_time(0.1)
  }
  failed <- unlist(lapply(mailboxes, `[[`, "failed"))
  ran <- sum(vapply(mailboxes, `[[`, 0, "ran"))
  cat(sprintf("    %d cells, %d deeds done\n", length(names), ran))
  for (failure in failed) fail(failure)
  expect_length(failed, 0L)
}

# ---- mailboxes: sessions, one after the other, until all their cells have run

start_mailbox <- function(names, library, frame) {
  begin_session(list(
    names = names, library = library, frame = frame, failed = NULL, ran = 0, crashes = 0L
  ))
}

begin_session <- function(mailbox) {
  file <- tempfile("cells")
  writeLines(mailbox$names, file)
  mailbox$session <- start_session(bquote({
    library(parallel)
    for (file in .(matrix_files)) source(file)
    if (nzchar(.(mailbox$library))) dyn.load(.(mailbox$library))
    begin_cells()
    run_cells(readLines(.(file)))
  }), dir = getwd(), base = tempfile("session-", normalizePath(tempdir())), frame = mailbox$frame)
  mailbox$heard <- Sys.time()
  mailbox$bytes <- 0
  mailbox
}

# Looks at a mailbox: goes on when its session has ended, and ends one that hangs.
look_at_mailbox <- function(mailbox) {
  if (is.null(mailbox$session)) {
    return(mailbox)
  }
  bytes <- sum(file.size(file.path(mailbox$session$base, c("stdout", "stderr"))), na.rm = TRUE)
  if (bytes != mailbox$bytes) {
    mailbox$bytes <- bytes
    mailbox$heard <- Sys.time()
  }
  alive <- mailbox$session$process$is_alive()
  silent <- as.numeric(difftime(Sys.time(), mailbox$heard, units = "secs")) > silence_limit
  if (alive && !silent) mailbox else end_mailbox_session(mailbox, hung = alive)
}

end_mailbox_session <- function(mailbox, hung) {
  session <- mailbox$session
  if (hung) session$process$kill()
  session$process$wait(5000)
  words <- strsplit(text_of(session, "stdout"), "\n", fixed = TRUE)[[1L]]
  begun <- sub("^cell: ", "", grep("^cell: ", words, value = TRUE))
  mailbox$failed <- c(mailbox$failed, failures_in(words))
  mailbox["session"] <- list(NULL)
  end <- grep("^cells: ", words, value = TRUE)
  if (length(end)) {
    mailbox$ran <- mailbox$ran + as.numeric(sub("^cells: ([0-9]+) .*", "\\1", end))
  }
  if (length(end) && !hung && session$process$get_exit_status() == 0L) {
    return(mailbox)
  }
  mailbox$failed <- c(mailbox$failed, paste0(
    if (length(begun)) begun[length(begun)] else "before the first cell", ": the session ",
    if (hung) "hung" else paste("ended with status", session$process$get_exit_status()), "\n",
    paste(utils::tail(strsplit(text_of(session, "stderr"), "\n")[[1L]], 20L), collapse = "\n")
  ))
  end_session_now(session)
  mailbox$crashes <- mailbox$crashes + 1L
  mailbox$names <- mailbox$names[-seq_along(begun)]
  if (length(mailbox$names) && mailbox$crashes < crashes_limit && length(begun)) {
    mailbox <- begin_session(mailbox)
  }
  mailbox
}

# What sessions say of cells that failed, with their names.
failures_in <- function(words) {
  failed <- character()
  name <- ""
  for (word in words) {
    if (startsWith(word, "cell: ")) name <- sub("^cell: ", "", word)
    if (startsWith(word, "failed: ")) failed <- c(failed, sub("^failed", name, word))
  }
  failed
}
