# Commands of launch_command() that wait in a queue: what they print says whether they do.

# The last of these that a command has printed tells where it is. Slurm's srun and salloc, LSF's
# bsub, PBS's qsub, SGE's qrsh.
queue_words <- list(
  waits = paste(c(
    "queued and waiting for resources", "Waiting for dispatch", "waiting for job .* to start",
    "waiting for interactive job to be scheduled"
  ), collapse = "|"),
  runs = paste(c(
    "has been allocated resources", "Granted job allocation", "<<Starting on", "job .* ready",
    "has been successfully scheduled"
  ), collapse = "|")
)

# TRUE if it waits, FALSE if it has come through, NA if it has said nothing of that.
waits_in_queue <- function(output) {
  lines <- strsplit(output, "\n", fixed = TRUE)[[1L]]
  last <- vapply(queue_words, function(words) {
    max(0L, grep(words, lines, useBytes = TRUE))
  }, 0L)
  if (any(last > 0L)) last[["waits"]] > last[["runs"]] else NA
}

# The number of its job, or NULL.
job_of_output <- function(output) {
  said <- regmatches(output, regexpr("[Jj]ob <?[0-9]+([.][a-z0-9.]+)?", output, useBytes = TRUE))
  if (length(said)) sub("^[Jj]ob <?", "", said)
}

# look_at_output() gives "4711 (by `srun ...`)" if the command of a plan waits, as look_at_job().
look_at_output <- function(plan) {
  link <- the_host$hosts[[plan$host$key]]
  output <- output_of_link(link)
  waits <- waits_in_queue(output)
  if (is.na(waits)) waits <- !is.null(plan$host$queue_timeout)
  if (!waits) {
    return(NULL)
  }
  short <- if (nchar(link$command) > 40L) paste0(substr(link$command, 1L, 37L), "...")
  paste0(c(job_of_output(output), "one")[1L], " (by `", c(short, link$command)[1L], "`)")
}

output_of_link <- function(link) {
  state <- .Call(ffi_remote_state, link$pointer)
  paste0(state$output, state$skipped)
}

abort_waiting <- function(plan, link) {
  output <- output_of_link(link)
  job <- job_of_output(output)
  abort_muster("timeout",
    paste0("The command waited in a queue for ", plan$host$queue_timeout, " s."),
    details = output_lines(output, 5L),
    hints = c(
      "`queue_timeout` of launch_command() allows more.", paste("The command:", link$command),
      if (!is.null(job)) {
        paste0(
          "If job ", job, " is still in the queue, it ends as soon as it starts; scancel, bkill ",
          "or qdel takes it back."
        )
      }
    ),
    command = link$command, reason = "pending", job = job, output = output, call = plan$call
  )
}
