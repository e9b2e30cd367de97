# Hosts of a cluster that starts: all are reached at once.

# reach_hosts() gives the plans with the number of workers that each will have: all hosts are
# reached at once. enough: of how many workers; the plans of hosts that may join later get `later`.
# One whose number of workers isn't known is waited for.
reach_hosts <- function(plans, enough) {
  far <- which(vapply(plans, function(plan) !is.null(plan$host), NA))
  numbers <- vapply(plans[far], function(plan) as.integer(plan$host$key), 0L)
  for (plan in plans[far]) new_site(plan)
  waiting <- Filter(function(i) !is_asleep(plans[[i]]), far)
  failed <- list() # errors, by the plan's number
  since_s <- Inf # when the first failed
  at_of <- function(at) far[match(at[1L], numbers)]
  on <- list(
    take = function(one) NULL, # its fork server boots when all are there
    fail = function(one, error) {
      i <- at_of(one$at)
      tell_site(one, "failed")
      end_link(plans[[i]])
      if (can_install(plans[[i]], error)) {
        error <- tryCatch(install_there(plans[[i]]), muster_error = identity)
        plans[[i]]$host$install <<- NULL # once
        new_site(plans[[i]])
      }
      if (by_dialin(plans[[i]]$host) && may_come_again(error)) {
        new_site(plans[[i]]) # another host comes, or the same one again
        error <- NULL
      }
      if (is.null(error)) {
        return()
      }
      failed[[as.character(i)]] <<- error
      since_s <<- min(since_s, proc.time()[["elapsed"]])
      waiting <<- setdiff(waiting, i)
    },
    serve = function(one) {
      i <- at_of(one$at)
      link <- finish_link(plans[[i]])
      if (is.null(plans[[i]]$workers)) plans[[i]]$workers <<- link$facts$cores
      waiting <<- setdiff(waiting, i)
      NULL
    }
  )
  repeat {
    carry_out_all(numbers, function(at) plans[[at_of(at)]], on)
    # Others that fail, too, mostly do so at once: one error names them all.
    over <- !length(waiting) || proc.time()[["elapsed"]] - since_s > others_fail_s
    if (length(failed) && over) abort_hosts(failed[order(as.integer(names(failed)))])
    if (!length(waiting)) break
    if (!length(failed) && is_enough(plans, waiting, enough)) {
      for (i in waiting) plans[[i]]$later <- TRUE
      break
    }
    .Call(ffi_remote_wait, the_host$hosts[[plans[[waiting[1L]]]$host$key]]$pointer, 0.05)
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
  kinds <- unique(unlist(lapply(failed, function(one) {
    kind <- grep("^muster_error_", class(one), value = TRUE)
    sub("muster_error_", "", c(kind, "launch")[1L])
  })))
  abort_muster(kinds, paste0(length(failed), " hosts can't be used."),
    details = said,
    host = unlist(lapply(failed, `[[`, "host")), command = unlist(lapply(failed, `[[`, "command")),
    reason = first$reason, output = first$output, errors = failed, call = conditionCall(first)
  )
}

is_enough <- function(plans, waiting, enough) {
  known <- function(plan) !is.null(plan$workers)
  there <- Filter(Negate(is_asleep), plans[setdiff(seq_along(plans), waiting)])
  all(vapply(plans, known, NA)) && (length(there) > 0L || enough == 0) &&
    sum(vapply(there, `[[`, 0L, "workers")) >= enough
}
