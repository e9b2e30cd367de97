# What the output of a command that leads to a host means.

# reason: as in the help of the launchers. said: what happened to a host that was there. own: ssh
# itself failed, not what it ran there.
failures_there <- function(launcher) {
  list(
    list(
      reason = "muster", own = FALSE,
      output = "no package called .{0,3}muster",
      hint = paste0(
        "Install muster there, for the R that is started",
        if (launcher == "launch_ssh") ", or give launch_ssh() `install = TRUE`", "."
      )
    ),
    list(
      reason = "R", own = FALSE,
      output = "[Nn]ot found|[Nn]o such file|Unknown command|Permission denied",
      hint = paste0(
        "No Rscript can be run there: see `rscript` and `prologue` of ", launcher, "()."
      )
    )
  )
}

ssh_failures <- c(list(
  list(
    reason = "name", own = TRUE,
    output = "Could not resolve hostname|Name or service not known",
    hint = "There is no host of that name: see its spelling, and ~/.ssh/config."
  ),
  list(
    reason = "key", own = TRUE,
    output = "Host key verification failed|HOST IDENTIFICATION HAS CHANGED",
    hint = "Log in once by hand, and see that its key is the right one."
  ),
  list(
    reason = "login", own = TRUE,
    output = "Permission denied|Too many authentication failures",
    hint = "ssh must get in without a password: see ssh-copy-id and ssh-agent."
  ),
  list(
    reason = "network", own = TRUE,
    output = paste0(
      "Connection (refused|timed out|reset|closed)|No route to host|Network is unreachable|",
      "kex_exchange_identification"
    ),
    hint = "Is the host up, and does its ssh server listen there?"
  )
), failures_there("launch_ssh"))

slurm_failures <- c(list(
  list(
    reason = "slurm",
    output = paste0(
      "Unable to contact slurm controller|Unable to process configuration|",
      "establish a configuration source|srun: (command )?not found"
    ),
    hint = "Slurm can't be asked from here: does `srun hostname` work in a terminal?"
  ),
  list(
    reason = "partition", output = "[Ii]nvalid partition",
    hint = "sinfo shows the partitions."
  ),
  list(
    reason = "account", output = "[Ii]nvalid (account|qos)|account or account/partition",
    hint = "`sacctmgr show associations user=$USER` shows your accounts."
  ),
  list(
    reason = "time", output = "DUE TO TIME LIMIT",
    hint = "`time` of launch_slurm() asks for more.",
    said = "Its job in Slurm reached its time limit."
  ),
  list(
    reason = "memory", output = "Out Of Memory|oom[-_ ]?kill|exceeded .*memory limit",
    hint = "`memory` of launch_slurm() asks for more.",
    said = "Its job in Slurm had no memory left."
  ),
  list(
    reason = "preempted", output = "DUE TO PREEMPTION",
    hint = "Another job took its place.",
    said = "Its job in Slurm was preempted by another."
  ),
  list(
    reason = "node", output = "[Nn]ode failure|NODE FAIL",
    hint = "The node failed while it started; try again.",
    said = "Its node in Slurm failed."
  ),
  list(
    reason = "cancelled", output = "CANCELLED AT|has been cancelled|has been revoked",
    hint = "Somebody cancelled the job.",
    said = "Its job in Slurm was cancelled."
  ),
  list(
    reason = "request",
    output = paste0(
      "Unable to (allocate resources|create step)|[Ii]nvalid .*specification|",
      "can not be satisfied|unrecognized option|invalid option"
    ),
    hint = "Slurm doesn't give that: see sinfo, and the arguments of launch_slurm()."
  )
), failures_there("launch_slurm"))

# why_ended() gives the entry that explains why the plan's link ended, or NULL. state: of the link.
why_ended <- function(plan, state, output) {
  known <- launch_failure(plan$host, output, exit_field(state, "code"))
  if (identical(known$reason, "other") && is_queued(plan) && state$how != exits[["none"]]) {
    reason <- slurm_end(the_host$hosts[[plan$host$key]]$name)
    known <- c(Filter(function(one) one$reason %in% reason, slurm_failures), list(known))[[1L]]
  }
  silent <- !nzchar(output) && identical(exit_field(state, "code"), 0L)
  if (silent) known$hint <- c(known$hint, silent_hint)
  known
}

# `R -e` puts the code into a temporary file, and doesn't notice that it stays empty.
silent_hint <- paste(
  "It did nothing, without a word: on a full disk R loses the code of `-e`. Is there space in /tmp",
  "there, or where TMPDIR says?"
)

# at_host() gives an error about a plan's fork server that names its host.
at_host <- function(error, plan) {
  named <- paste("The fork server on", host_shown(plan))
  error$message <- sub("^The fork server\\b", named, error$message)
  error["host"] <- list(plan$host$name)
  error
}

# launch_failure() gives the entry that explains why a command ended, NULL for a command of the
# user's. code: its exit status, NA if it isn't known; 255 is ssh's own, any other that of what it
# ran. A prologue is why if it ended its shell, unless by a signal, which has another reason; or if
# it failed and R can't be run after it.
launch_failure <- function(host, output, code) {
  known <- known_failure(host, output, code)
  status <- prologue_status(output)
  ended <- isTRUE(attr(status, "ended")) && status < 128L
  blamed <- identical(known$reason, "R") || (ended && identical(known$reason, "other"))
  if (is.na(status) || !blamed) {
    return(known)
  }
  launcher <- if (by_ssh(host)) "launch_ssh()" else "launch_slurm()"
  list(reason = "prologue", status = status, hint = if (ended) {
    paste0("It ended its shell before R could start: see `prologue` of ", launcher, ".")
  } else {
    paste0("No Rscript can be run after it: see `prologue` and `rscript` of ", launcher, ".")
  })
}

known_failure <- function(host, output, code) {
  known <- if (by_ssh(host)) {
    Filter(function(one) is.na(code) || one$own == (code == 255L), ssh_failures)
  } else if (by_slurm(host)) {
    slurm_failures
  } else {
    return(NULL)
  }
  for (one in known) {
    if (grepl(one$output, output, useBytes = TRUE)) {
      return(one)
    }
  }
  list(reason = "other")
}

# ---- Prologues

# What precedes the exit status of a prologue, if that isn't 0: see after_prologue().
prologue_mark <- "muster: exit status of the prologue:"

# NA if it is 0, or there was none. Attribute `ended`: the prologue has ended its shell.
prologue_status <- function(output) {
  lines <- strsplit(output, "\n", fixed = TRUE)[[1L]]
  line <- utils::tail(c(NA, lines[startsWith(lines, prologue_mark)]), 1L)
  said <- strsplit(substring(line, nchar(prologue_mark) + 2L), " ", fixed = TRUE)[[1L]]
  structure(as.integer(said[1L]), ended = length(said) == 2L)
}

# printed_lines() is output_lines(), after the status of a prologue that failed: another R, which
# isn't usable, may have been run because of that.
printed_lines <- function(output) c(prologue_text(output), output_lines(output))

prologue_text <- function(output) {
  status <- prologue_status(output)
  if (!is.na(status)) paste0("The prologue's exit status was ", status, ".")
}

abort_prologue <- function(plan, state, output, known) {
  abort_muster("launch", paste0(
      "The prologue failed on ", host_shown(plan), ": its exit status is ", known$status, "."
    ),
    details = output_lines(output),
    hints = c(known$hint, paste("The command:", plan$host$command)),
    host = plan$host$name, command = plan$host$command, pid = state$pid,
    exit_code = exit_field(state, "code"), signal = exit_field(state, "signal"),
    output = output, reason = "prologue", call = plan$call
  )
}

# ---- How hosts ended

# note_host_end() keeps why a plan's host is gone, for what is said of its workers; NULL: it is
# there.
note_host_end <- function(plan, link, why) {
  name <- c(plan$host$name, link$facts$node)[1L]
  if (is.null(name)) {
    return()
  }
  key <- paste(name, c(link$facts$job, "")[1L], sep = "\n")
  the_host$ends[[key]] <- why
  the_host$ends <- utils::tail(the_host$ends, 1000L)
}

# note_host_ends() looks for hosts that have ended, of which nobody has told yet.
note_host_ends <- function() {
  plans <- do.call(c, lapply(unname(the_cluster$plans), `[[`, "plans"))
  for (plan in plans) {
    link <- the_host$hosts[[c(plan$host$key, "none")[1L]]]
    if (!is.null(link$facts) && link_state(plan)$state == "gone") link_loss(plan, link)
  }
}

# host_end() gives how the host of a lost worker ended, as the end of a sentence, or NULL.
host_end <- function(status) {
  if (!has_text(status$host)) {
    return(NULL)
  }
  key <- paste(status$host, c(status$job, "")[1L], sep = "\n")
  if (is.null(the_host$ends[[key]])) note_host_ends()
  said <- the_host$ends[[key]]
  if (is.null(said)) NULL else sub("^I", "i", sub("[.]$", "", said))
}

# host_refusal() says why no workers could start on the host of this node's worker, or gives NULL.
host_refusal <- function(node) {
  group <- .Call(ffi_nodes_groups, list(node))
  if (is.na(group[1L])) {
    return(NULL)
  }
  kept <- the_cluster$plans[[as.character(.subset2(node, "id"))]]
  kept$refused[[as.character(group[1L])]]
}
