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
  lanes <- lapply(split(names, seq_along(names) %% 2L), start_lane, library, frame)
  while (any(vapply(lanes, function(lane) !is.null(lane$session), NA))) {
    lanes <- lapply(lanes, look_at_lane)
    pass_time(0.1)
  }
  failed <- unlist(lapply(lanes, `[[`, "failed"))
  ran <- sum(vapply(lanes, `[[`, 0, "ran"))
  cat(sprintf("    %d cells, %d deeds done\n", length(names), ran))
  for (failure in failed) fail(failure)
  expect_length(failed, 0L)
}

# ---- lanes: sessions, one after the other, until all their cells have run

start_lane <- function(names, library, frame) {
  begin_session(list(
    names = names, library = library, frame = frame, failed = NULL, ran = 0, crashes = 0L
  ))
}

begin_session <- function(lane) {
  file <- tempfile("cells")
  writeLines(lane$names, file)
  lane$session <- start_session(bquote({
    library(parallel)
    for (file in .(matrix_files)) source(file)
    if (nzchar(.(lane$library))) dyn.load(.(lane$library))
    begin_cells()
    run_cells(readLines(.(file)))
  }), dir = getwd(), base = tempfile("session-", normalizePath(tempdir())), frame = lane$frame)
  lane$heard <- Sys.time()
  lane$bytes <- 0
  lane
}

# Looks at a lane: goes on when its session has ended, and ends one that hangs.
look_at_lane <- function(lane) {
  if (is.null(lane$session)) {
    return(lane)
  }
  bytes <- sum(file.size(file.path(lane$session$base, c("stdout", "stderr"))), na.rm = TRUE)
  if (bytes != lane$bytes) {
    lane$bytes <- bytes
    lane$heard <- Sys.time()
  }
  alive <- lane$session$process$is_alive()
  silent <- as.numeric(difftime(Sys.time(), lane$heard, units = "secs")) > silence_limit
  if (alive && !silent) lane else end_lane_session(lane, hung = alive)
}

end_lane_session <- function(lane, hung) {
  session <- lane$session
  if (hung) session$process$kill()
  session$process$wait(5000)
  words <- strsplit(text_of(session, "stdout"), "\n", fixed = TRUE)[[1L]]
  begun <- sub("^cell: ", "", grep("^cell: ", words, value = TRUE))
  lane$failed <- c(lane$failed, failures_in(words))
  lane["session"] <- list(NULL)
  end <- grep("^cells: ", words, value = TRUE)
  if (length(end)) {
    lane$ran <- lane$ran + as.numeric(sub("^cells: ([0-9]+) .*", "\\1", end))
  }
  if (length(end) && !hung && session$process$get_exit_status() == 0L) {
    return(lane)
  }
  lane$failed <- c(lane$failed, paste0(
    if (length(begun)) begun[length(begun)] else "before the first cell", ": the session ",
    if (hung) "hung" else paste("ended with status", session$process$get_exit_status()), "\n",
    paste(utils::tail(strsplit(text_of(session, "stderr"), "\n")[[1L]], 20L), collapse = "\n")
  ))
  end_session_now(session)
  lane$crashes <- lane$crashes + 1L
  lane$names <- lane$names[-seq_along(begun)]
  if (length(lane$names) && lane$crashes < crashes_limit && length(begun)) {
    lane <- begin_session(lane)
  }
  lane
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
