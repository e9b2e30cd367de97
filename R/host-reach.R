# Hosts of a cluster that starts: all are reached at once.

# reach_hosts() gives the plans with the number of workers that each will have: all hosts are
# reached at once. enough: of how many workers; the plans of hosts that may join later get `later`.
# One whose number of workers isn't known is waited for.
reach_hosts <- function(plans, enough) {
  far <- which(vapply(plans, function(plan) !is.null(plan$host) && !is_asleep(plan), NA))
  for (plan in plans[far]) begin_link(plan)
  waiting <- far
  watch <- new_queue_watch()
  failed <- list() # errors, by the plan's number
  since_s <- Inf # when the first failed
  while (length(waiting)) {
    starting <- Filter(function(i) is_starting(plans[[i]]), waiting)
    for (i in setdiff(waiting, starting)) {
      link <- tryCatch(finish_first_link(plans[[i]]), muster_error = identity)
      if (inherits(link, "error")) {
        failed[[as.character(i)]] <- link
        since_s <- min(since_s, proc.time()[["elapsed"]])
      } else if (is.null(plans[[i]]$workers)) {
        plans[[i]]$workers <- link$facts$cores
      }
    }
    waiting <- starting
    # Others that fail, too, mostly do so at once: one error names them all.
    over <- !length(waiting) || proc.time()[["elapsed"]] - since_s > others_fail_s
    if (length(failed) && over) abort_hosts(failed[order(as.integer(names(failed)))])
    if (length(failed)) {
      .Call(ffi_remote_wait, the_host$hosts[[plans[[waiting[1L]]]$host$key]]$pointer, 0.05)
      next
    }
    if (length(waiting) && is_enough(plans, waiting, enough)) {
      for (i in waiting) plans[[i]]$later <- TRUE
      break
    }
    if (length(waiting)) wait_for_some(plans[waiting], watch)
  }
  plans
}

others_fail_s <- 2

# abort_hosts() raises the error of a host that couldn't be reached, or one for several.
abort_hosts <- function(failed) {
  failed <- unname(failed)
  if (length(failed) == 1L) stop(failed[[1L]]) # tidy: raised above
  first <- failed[[1L]]
  said <- vapply(failed, function(one) {
    lines <- strsplit(conditionMessage(one), "\n", fixed = TRUE)[[1L]]
    lines <- grep("^i (The command|It must run)", lines, value = TRUE, invert = TRUE)
    paste(c(lines[1L], paste0("  ", sub("^[xi] ", "", lines[-1L]))), collapse = "\n")
  }, "")
  kinds <- unique(vapply(failed, function(one) sub("muster_error_", "", class(one)[1L]), ""))
  abort_muster(kinds, paste0(length(failed), " hosts can't be used."),
    details = said,
    host = unlist(lapply(failed, `[[`, "host")), command = unlist(lapply(failed, `[[`, "command")),
    reason = first$reason, output = first$output, errors = failed, call = conditionCall(first)
  )
}

is_enough <- function(plans, waiting, enough) {
  known <- function(plan) !is.null(plan$workers)
  there <- Filter(Negate(is_asleep), plans[setdiff(seq_along(plans), waiting)])
  all(vapply(plans, known, NA)) && length(there) > 0L &&
    sum(vapply(there, `[[`, 0L, "workers")) >= enough
}

# Waits a moment for hosts that start, longer for none of them than it has.
wait_for_some <- function(plans, watch) {
  .Call(ffi_remote_wait, the_host$hosts[[plans[[1L]]$host$key]]$pointer, 0.05)
  for (failed in watch_jobs(plans, watch)) stop(failed$error) # tidy: raised above
}
