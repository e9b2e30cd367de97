# What happened to workers, in words, and what a call that will not be answered
# means for its caller.

# Called from C while a user's call waits or ends, if there are new events.
announce_events <- function() {
  # NULL: a finalizer's call has told it meanwhile.
  events <- Filter(function(event) length(event) && !is_told(event), .Call(ffi_events))
  for (group in told_together(events)) {
    if (length(group) == 1L) announce_event(group[[1L]]) else announce_host(group)
  }
}

# Of a worker that was pending and won't come, join_host() has told.
is_told <- function(event) {
  event$kind == "given_up" && event$pid == 0L && identical(event$reason, whys[["server"]])
}

# One message names the workers that were lost with their fork server.
told_together <- function(events) {
  with_server <- function(event) {
    event$kind != "redrawn" && event$how == exits[["unknown"]] && !event$fresh_rng &&
      !nzchar(event$output)
  }
  keys <- vapply(seq_along(events), function(i) {
    event <- events[[i]]
    if (with_server(event)) {
      paste(event$kind, event$cluster, event$reason, event$host, event$job, sep = "\n")
    } else {
      paste("one", i)
    }
  }, "")
  unname(split(events, factor(keys, unique(keys))))
}

announce_host <- function(events) {
  first <- events[[1L]]
  ranks <- vapply(events, `[[`, 0L, "worker")
  pids <- vapply(events, `[[`, 0L, "pid")
  place <- place_text(first)
  who <- paste0(capitalised(ranks_text(ranks)), if (is.null(place)) {
    " were lost with their fork server."
  } else {
    paste0(" (", place, ") were lost: ", end_text(first), ".")
  })
  if (first$kind == "given_up") {
    inform_muster("given_up", who,
      details = c(end_reason(first), "They are not replaced."), worker = ranks, pid = pids
    )
    return(invisible())
  }
  tasks <- sum(vapply(events, `[[`, 0L, "again"))
  inform_muster("restarted", who,
    details = paste0(
      "They are replaced", if (tasks > 0L) paste0(", and ", number_of(tasks, "task"), " of theirs ",
        if (tasks == 1L) "runs" else "run", " again"), "."
    ), worker = ranks, pid = pids
  )
}

announce_event <- function(event) {
  if (event$kind == "redrawn") {
    return(warn_rng(event))
  }
  who <- paste0(worker_shown(event$worker, event), " was lost: ", end_text(event), ".")
  if (event$kind == "given_up") {
    inform_muster("given_up", who,
      details = c(end_reason(event), "It is not replaced.", output_lines(event$output, 5L)),
      worker = event$worker, pid = event$pid, killed_by = killed_by(event)
    )
    return(invisible())
  }
  inform_muster("restarted", who,
    details = c(end_reason(event), paste0("It is replaced", again_text(event), ".")),
    worker = event$worker, pid = event$pid, killed_by = killed_by(event)
  )
  if (event$fresh_rng) warn_rng(event)
}

warn_rng <- function(event) {
  redrawn <- event$kind == "redrawn"
  warn_muster("rng",
    paste0("Worker ", event$worker, if (redrawn) {
      " has drawn random numbers again."
    } else {
      " has a new random number stream."
    }),
    details = if (redrawn) {
      "What it keeps and was made of them may have other values now."
    } else {
      "The lost worker's stream can't be continued."
    },
    hints = "Streams from clusterSetRNGStream() can be continued.", worker = event$worker
  )
}

again_text <- function(event) {
  if (event$again == 0L) {
    ""
  } else if (event$again == 1L && event$attempts == 0L) {
    ", and its task, which hadn't begun, waits for the new worker"
  } else if (event$again == 1L) {
    paste0(", and its task runs again (attempt ", event$attempts + 1L, ")")
  } else {
    paste0(", and its ", event$again, " tasks run again")
  }
}

# abort_failed() raises the error for a call that will not be answered: it killed its
# worker too often, or took too long.
abort_failed <- function(node, call) {
  loss <- .Call(ffi_node_loss, node)
  if (is.null(loss)) {
    abort_lost(node, .subset2(node, "rank"), call)
  }
  job <- lost_job(node, loss)
  what <- if (is.null(job$range)) {
    "A task"
  } else if (job$range[1L] == job$range[2L]) {
    paste0("The task for element ", job$range[1L])
  } else {
    paste0("The task for elements ", job$range[1L], " to ", job$range[2L])
  }
  abort_loss(loss, what, "Run this task alone to see why", call,
    hints = "The condition's field `results` has the other results; the cluster remains usable.",
    element = job$element, range = job$range, results = job$results
  )
}

# abort_loss() raises the error for a task that is lost for good.
abort_loss <- function(loss, what, advice, call, hints = NULL,
                       limit = if (loss$own_limit) "`.timeout`" else "the cluster's `timeout`",
                       ...) {
  late <- loss$kind == "timeout"
  if (loss$lacks != 0L) {
    return(abort_lacks(what, loss$worker, loss$lacks, loss$output, call, hints, ...))
  }
  abort_there(loss, if (late) "timeout" else "lost",
    if (late) {
      paste0(what, " took longer than ", limit, ", ", short_time(loss$limit), ", and was ended.")
    } else {
      paste0(
        what, " was lost with its worker ",
        if (loss$attempts == 1L) "once." else paste(loss$attempts, "times.")
      )
    },
    details = if (!late) {
      c(
        paste0(worker_shown(loss$worker, loss), " ended: ", end_text(loss), "."),
        if (!is.null(host_end(loss)) && loss$ran > 0) {
          paste0("The task had run for ", short_time(loss$ran), ".")
        },
        end_reason(loss), output_lines(loss$output)
      )
    },
    hints = c(
      if (late) {
        paste0("Give ", limit, " a longer time, or send smaller pieces.")
      } else if (loss$oom) {
        "Use fewer workers, or send smaller pieces."
      } else {
        paste0(advice, "; `retries` of cluster_start() allows more attempts.")
      },
      hints
    ),
    worker = loss$worker, pid = loss$pid, exit_code = exit_field(loss, "code"),
    signal = exit_field(loss, "signal"), oom = loss$oom, killed_by = killed_by(loss),
    output = loss$output, ..., call = call
  )
}

# lost_job() finds in the frames of parallel's verbs which elements a lost call was for,
# and the results of the others: list(range, element, results). What other workers still
# owe to the verb is waited for, as parallel does when a call raises an error.
lost_job <- function(node, loss) {
  for (i in rev(seq_len(sys.nframe()))) {
    fun <- sys.function(i)
    if (identical(fun, the_parallel$static_apply)) {
      return(static_job(sys.frame(i), node))
    }
    if (identical(fun, the_parallel$dynamic_apply)) {
      return(dynamic_job(sys.frame(i), loss$tag))
    }
  }
  answers <- lapply(.Call(ffi_round), function(entry) entry[[3L]]$value)
  list(range = NULL, element = NA_integer_, results = answers)
}

# The static verbs send to nodes 1 to `jobs` and take the answers in that order.
static_job <- function(frame, node) {
  at <- 0L
  results <- frame$val
  answers <- .Call(ffi_round)
  for (k in seq_len(frame$jobs)) {
    one <- frame$cl[[k]]
    if (identical(one, node)) {
      at <- k
    }
    value <- if (at == 0L) answer_of(answers, one) else owed_answer(one)
    if (is.list(value)) {
      results[frame$start + k - 1L] <- list(value$value)
    }
  }
  job_in(frame, if (at > 0L) frame$start + at - 1L, results)
}

# The answer that a verb has taken from a node.
answer_of <- function(answers, node) {
  for (entry in answers) {
    mine <- identical(entry[[1L]], .subset2(node, "rank")) &&
      identical(entry[[2L]], .subset2(node, "id"))
    if (mine) {
      return(entry[[3L]])
    }
  }
}

# The answer that a node still has to give, NULL if there is none and won't be.
owed_answer <- function(node) {
  status <- .Call(ffi_node_look, node)
  if (is.integer(status) || status$owed == 0L) {
    return(NULL)
  }
  value <- .Call(ffi_node_receive, node)
  if (identical(value, outcomes[["failed"]])) {
    .Call(ffi_node_loss, node)
  }
  if (is.list(value)) value
}

# The load-balanced verbs know their calls by tag.
dynamic_job <- function(frame, job) {
  results <- frame$val
  for (node in frame$cl) {
    value <- owed_answer(node)
    if (is.list(value) && is.numeric(value$tag)) {
      results[value$tag] <- list(value$value)
    }
  }
  job_in(frame, job, results)
}

# parLapply() and its kin send lists of elements (chunks) to lapply().
job_in <- function(frame, job, results) {
  if (is.null(job)) {
    return(list(range = NULL, element = NA_integer_, results = results))
  }
  chunks <- environment(frame$argfun)$x
  if (!identical(frame$fun, lapply) || !is.list(chunks) || length(chunks) != frame$n) {
    return(list(range = c(job, job), element = as.integer(job), results = results))
  }
  sizes <- lengths(chunks)
  before <- sum(sizes[seq_len(job - 1L)])
  range <- as.integer(c(before + 1L, before + sizes[job]))
  flat <- vector("list", sum(sizes))
  end <- cumsum(sizes)
  for (k in seq_along(results)) {
    if (is.list(results[[k]]) && length(results[[k]]) == sizes[k]) {
      flat[seq(end[k] - sizes[k] + 1L, length.out = sizes[k])] <- results[[k]]
    }
  }
  list(
    range = range, element = if (sizes[job] == 1L) range[1L] else NA_integer_, results = flat
  )
}

# ---- Fork servers that are gone

# What is needed to boot other servers for a cluster, by the cluster's id: the plan of each group,
# and the directory of its first server; refused: why the sites of groups are lost. Entries of
# clusters that are gone are dropped: they keep alive what the user's `setup` refers to.
plans_keep <- function(id, plans, bases) {
  plans_drop()
  the_cluster$plans[[as.character(id)]] <- list(plans = plans, bases = bases)
}

plans_drop <- function() {
  the_cluster$plans <- the_cluster$plans[names(the_cluster$plans) %in% .Call(ffi_cluster_ids)]
  if (length(the_cluster$streams)) drop_streams()
  if (length(the_map$exports)) drop_exports()
}
