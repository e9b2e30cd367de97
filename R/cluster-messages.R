# Describes failures: starts that failed, workers that are lost.

all_stopped <- "Everything that had started has been stopped."

# abort_start() turns the outcome of ffi_cluster_open() into an error. server: the fork server's
# pointer, NULL without one. host: where the worker was to be, NULL for this machine.
abort_start <- function(outcome, plan, server = NULL, host = NULL) {
  if (!is.null(outcome$error)) {
    abort_muster("launch", "Can't start the cluster.",
      details = paste0(outcome$call, ": ", outcome$error), errno = outcome$errno,
      call = plan$call
    )
  }
  peer <- outcome$peer
  where <- if (!is.null(host)) paste0(" on host \"", host, "\"")
  message <- paste0("Can't start worker ", peer$worker, " of ", plan$workers, where)
  hints <- all_stopped
  if (!is.null(server) && is_server_gone(outcome)) {
    abort_server_gone(outcome, message, hints, server, plan$call)
  }
  switch(outcome$fail,
    launch = abort_muster(launch_kind(outcome$errno), paste0(message, "."),
      details = errno_text(outcome$errno), hints = c(errno_hint(outcome$errno), hints),
      worker = peer$worker, errno = outcome$errno, call = plan$call
    ),
    deadline = abort_muster("timeout",
      paste0(message, " within ", plan_timeout(plan), " s."),
      details = output_lines(peer$output),
      hints = c("See options(muster.start_timeout = ) in ?muster.", hints),
      worker = peer$worker, pid = peer$pid, output = peer$output, call = plan$call
    ),
    abort_muster("launch", paste0(message, "."),
      details = c(
        why_text(peer$failure),
        if (outcome$fail == "exited") paste0("It ended: ", exit_text(peer), "."),
        output_lines(peer$output)
      ),
      hints = hints, worker = peer$worker, pid = peer$pid,
      # A worker whose set-up failed was ended by us, or ended itself after reporting it.
      exit_code = if (outcome$fail == "exited") exit_field(peer, "code") else NA_integer_,
      signal = if (outcome$fail == "exited") exit_field(peer, "signal") else NA_integer_,
      output = peer$output, call = plan$call
    )
  )
}

# errno values differ between systems; "" for one that can't occur in a start.
errno_is <- function(errno, names) .Call(ffi_errno_name, errno) %in% names

# How the fork server reports that it has threads.
errno_is_threads <- function(errno) errno_is(errno, "EDEADLK")

# A launch is told so when the server's channel ended; nobody knows then how a worker ended.
is_server_gone <- function(outcome) {
  switch(c(outcome$fail, "none")[1L],
    launch = errno_is(outcome$errno, c("ECONNRESET", "EPIPE")),
    exited = identical(outcome$peer$how, exits[["unknown"]]),
    FALSE
  )
}

abort_server_gone <- function(outcome, message, hints, server, call) {
  abort_muster("launch", paste0(message, "."),
    details = c(
      "The fork server, which starts the workers, ended during the start.", end_of(server),
      output_lines(outcome$peer$output)
    ),
    hints = c(
      "Start the cluster again: that boots another fork server.",
      "If that one ends too, look for the reason (memory, a limit) in the system's log (dmesg).",
      hints
    ),
    worker = outcome$peer$worker, errno = outcome$errno, call = call
  )
}

# How a fork server ended.
end_of <- function(server) {
  if (.Call(ffi_server_wait, server, 0)) {
    return(NULL)
  }
  state <- .Call(ffi_server_state, server)
  c(paste0("It ended: ", end_text(state), "."), output_lines(state$output))
}

# What a start can run out of, by its errno.
shortage_of <- function(errno) {
  switch(.Call(ffi_errno_name, errno),
    EAGAIN = "processes", ENOMEM = "memory", EMFILE = , ENFILE = , ETOOMANYREFS = "files",
    ETIMEDOUT = "time", "none"
  )
}

launch_kind <- function(errno) {
  if (shortage_of(errno) %in% c("time", "none")) "launch" else "limit"
}

errno_text <- function(errno) {
  switch(shortage_of(errno),
    processes =
      "No more processes are allowed (limit on processes of this user, or of the cgroup).",
    memory = "Not enough memory.",
    files = "No more file descriptors are allowed.",
    time = "The fork server, which starts the workers, didn't respond for 5 s.",
    none = paste0(.Call(ffi_errno_text, errno), " (system error ", errno, ").")
  )
}

errno_hint <- function(errno) {
  switch(shortage_of(errno),
    processes = "See `ulimit -u`; each worker is a process with two threads.",
    memory = "Start fewer workers, or free memory.",
    files = "See `ulimit -n`; each worker takes three descriptors.",
    time = "Its process may be stopped. cluster_start(start = \"spawn\") needs no fork server."
  )
}

# "killed by signal 9 (SIGKILL)", from fields how and number.
exit_text <- function(status) {
  switch(enum_name(exits, status$how),
    none = "its exit status is unknown",
    code = paste0("exit status ", status$number),
    signal = paste0("killed by signal ", status$number, signal_name(status$number)),
    unknown = "its exit status is unknown (its fork server is gone)"
  )
}

# "Worker 3 (pid 24589 on node1, job 4711)". status: of a worker, or of its loss.
worker_shown <- function(rank, status) {
  pid <- if (!is.na(status$pid) && status$pid > 0L) paste("pid", status$pid)
  place <- place_text(status)
  paste0("Worker ", rank, if (!is.null(c(pid, place))) {
    paste0(" (", paste(c(pid, place), collapse = " "), ")")
  })
}

# "on node1, job 4711", or NULL on this machine.
place_text <- function(status) {
  if (has_text(status$host)) {
    paste0("on ", status$host, if (has_text(status$job)) paste0(", job ", status$job))
  }
}

has_text <- function(x) length(x) == 1L && nzchar(x)

# abort_there() is abort_muster(), with fields `host` and `job` for what was on another host.
abort_there <- function(status, ...) {
  place <- Filter(has_text, unclass(status)[c("host", "job")])
  do.call(abort_muster, c(list(...), place), quote = TRUE)
}

# Includes who killed it, as far as that can be known: the system doesn't tell who sent a signal.
end_text <- function(status) {
  if (identical(status$how, exits[["unknown"]]) && !is.null(said <- host_end(status))) {
    return(said)
  }
  switch(killed_by(status),
    muster = "killed by muster",
    unknown = paste0(exit_text(status), " from an unknown sender"),
    exit_text(status)
  )
}

# "muster", "system" (for lack of memory) or "unknown" if a SIGKILL ended it; else "". A worker's
# watch thread ends a worker that never finishes its crash report.
killed_by <- function(status) {
  if (!identical(exit_field(status, "signal"), 9L)) {
    ""
  } else if (isTRUE(status$ours) || grepl("(^|\n) \\*\\*\\* caught ", status$output)) {
    "muster"
  } else if (isTRUE(status$oom)) {
    "system"
  } else {
    "unknown"
  }
}

# What was wrong with a worker, see enum mst_why of src/pool/loss.h. NULL: nothing that is known;
# a text from the worker, or from the code that read its messages.
why_text <- function(why) {
  if (is.integer(why)) why_words[[enum_name(whys, why)]] else why
}

why_words <- c(
  interrupt = "its call kept running for a second after the interrupt",
  cancel = "its call kept running for five minutes after it was cancelled",
  heartbeat = "it didn't respond within `heartbeat` seconds (the process or its host is stopped)",
  killed = "it was ended by killNode()",
  hello = "the worker's hello can't be read",
  version = "the worker speaks another version of the protocol",
  build = paste(
    "the worker runs another build: muster was reinstalled after this session loaded it;",
    "restart R"
  ),
  ready = "the worker's report that it is ready can't be read",
  message = "the worker sent an unexpected message",
  frame = "the worker sent an invalid message",
  answer = "the worker sent an answer to another call",
  no_memory = "no memory for the worker's answer",
  replay = "a call of its journal failed when it was replayed, see cluster_journal()",
  threads = "its fork server now has several threads, so it must not fork",
  short = "it can't be restarted: the system lacks processes, descriptors or memory",
  server = "its fork server is gone, and no other can start",
  many = "its state can't be restored: too many calls have changed it",
  long = paste(
    "its state can't be restored: it can't be copied, and replaying its calls would take longer",
    "than options(muster.replay_max =) allows"
  ),
  memory = "its state can't be restored: there wasn't enough memory to keep its calls",
  ended = "its state can't be restored: its checkpoint process had ended"
)

# Further facts: the details of an error or a message.
end_reason <- function(status, reason = status$reason) {
  by <- killed_by(status)
  c(
    if (by == "system") "The system had no memory left and ended it.",
    if (by == "muster" && is.null(reason)) "It crashed, and R took too long to report the crash.",
    why_text(reason)
  )
}

signal_name <- function(signal) {
  names <- c(
    "1" = "SIGHUP", "2" = "SIGINT", "6" = "SIGABRT", "7" = "SIGBUS", "8" = "SIGFPE",
    "9" = "SIGKILL", "11" = "SIGSEGV", "13" = "SIGPIPE", "15" = "SIGTERM", "24" = "SIGXCPU"
  )
  name <- names[as.character(signal)]
  if (is.na(name)) "" else paste0(" (", name, ")")
}

# The number if the process ended that way ("code", "signal"), else NA.
exit_field <- function(status, how) {
  if (identical(status$how, exits[[how]])) status$number else NA_integer_
}

# The last lines that a process printed, for the details of an error; or the first lines of R's
# crash report, which begins with what happened and where. The condition's field `output` has all
# lines that were kept.
output_lines <- function(output, most = 20L, width = 100L) {
  lines <- strsplit(output, "\n", fixed = TRUE)[[1L]]
  lines <- lines[nzchar(trimws(lines)) & !startsWith(lines, prologue_mark)]
  crash <- utils::tail(which(startsWith(lines, " *** caught ")), 1L)
  # From here on the frames are the worker's own: as in src/base/mst_log.c.
  own <- grep(own_frames, lines)
  own <- utils::head(own[own > max(0L, crash)], 1L)
  if (length(crash) && length(own)) lines <- lines[seq_len(own - 1L)]
  lines <- if (length(crash)) {
    utils::head(lines[crash:length(lines)], most)
  } else {
    utils::tail(lines, most)
  }
  long <- nchar(lines, allowNA = TRUE, keepNA = FALSE) > width
  lines[long] <- paste0(substr(lines[long], 1L, width - 3L), "...")
  if (length(lines)) c("It printed:", paste0("  ", lines))
}

own_frames <- paste0("^ *[0-9]+: (allowInterrupts[(])?", c(
  "[.]Call[(]ffi_", "do[.]call[(]\"fun\", args[)]", "call_user[(]fun, ",
  "[(]function [(]expr, envir = parent"
), collapse = "|")

# abort_remote() raises the error that a call raised in a worker, see answer_condition().
abort_remote <- function(error, worker, call, what = paste("Worker", worker), raised = NULL,
                         hints = NULL, again = NULL, ...) {
  error <- without_lending(error)
  memory <- inherits(error$condition, "muster_error_memory")
  abort_muster(c(if (memory) "memory", "remote"),
    if (is.null(raised)) paste0(what, " raised an error: ", error$message) else raised,
    details = c(
      if (!is.null(raised)) what,
      if (nzchar(error$call)) paste0("In: ", error$call),
      callers_text(error$stack, error$call),
      if (!is.null(worker) && what != paste("Worker", worker)) paste("On worker", worker)
    ),
    hints = c(
      if (!is.null(again)) "task_debug() evaluates it again in this session, step by step.",
      if (any(grepl(null_symbol, error$message, fixed = TRUE))) code_hint, hints
    ), worker = worker,
    condition = error$condition, remote_call = error$call,
    stack = error$stack, again = again, ..., call = call, of = error$condition
  )
}

# What R says of a function whose code has an external pointer, once that is null.
null_symbol <- "NULL value passed as symbol address"

# Where a worker's global environment can't have what a function uses, that is the call's fault, not
# one of code that its user has seen.
without_lending <- function(error) {
  if (startsWith(error$call, "list2env(as.list(job$globals)")) {
    error$message <- paste0(
      error$message, "\nx The function uses the session's variable of that name. The worker has ",
      "one, too, which was locked there."
    )
    error$call <- ""
    error$stack <- NULL
  }
  error
}

# The calls that led to the one that failed, the next one first. stack: texts, outermost first, with
# what raised the error.
callers_text <- function(stack, failed) {
  inner <- rev(as.character(stack))
  outer <- inner[-seq_len(match(failed, inner, nomatch = 1L))]
  outer <- outer[!startsWith(outer, "(function")] # says nothing
  if (!length(outer)) {
    return(NULL)
  }
  shown <- utils::head(outer, 4L)
  long <- nchar(shown, allowNA = TRUE, keepNA = FALSE) > 60L
  shown[long] <- paste0(substr(shown[long], 1L, 57L), "...")
  paste0(
    "Called by: ", paste(shown, collapse = ", by "),
    if (length(outer) > 4L) paste0(", by ", length(outer) - 4L, " more, see the field `stack`")
  )
}

# abort_node() turns an outcome of ffi_node_*() into an error about one node.
abort_node <- function(node, outcome, call) {
  rank <- .subset2(node, "rank")
  if (outcome == outcomes[["broken"]]) {
    abort_broken(call, worker = rank)
  }
  switch(enum_name(outcomes, outcome),
    lost = abort_lost(node, rank, call),
    stopped = abort_stopped(node, rank, call),
    foreign = abort_muster("input", "Can't use a cluster outside the process that started it.",
      details = paste0(
        "This is a copy: from a file, or in a worker, or in a forked child ",
        "(mclapply)."
      ),
      hints = "Start a cluster in this process with cluster_start().", worker = rank, call = call
    ),
    type = abort_muster("input",
      "Can't send this message: only calls (\"EXEC\") can be sent to a worker.",
      worker = rank, call = call
    ),
    memory = abort_muster(c("memory", "limit"),
      paste0("Not enough memory for a message of worker ", rank, "."),
      worker = rank, call = call
    ),
    system = abort_muster("internal", paste0("The connection to worker ", rank, " failed."),
      worker = rank, call = call
    ),
    failed = abort_failed(node, call)
  )
}

# A cluster remains usable after single workers of it were stopped.
abort_stopped <- function(node, rank, call) {
  pointer <- .subset2(node, "cluster")
  alone <- is.null(pointer) || is.list(.Call(ffi_cluster_status, pointer))
  if (alone) {
    abort_muster("input", paste0("Can't use worker ", rank, ": it was stopped."),
      hints = "The other workers remain usable, as in cl[-n].", worker = rank, call = call
    )
  }
  abort_muster("input", "Can't use a cluster that was stopped.",
    hints = "Start another with cluster_start().", worker = rank, call = call
  )
}

abort_lost <- function(node, rank, call) {
  announce_events() # why it isn't replaced
  status <- .Call(ffi_node_status, node)
  if (is.integer(status)) {
    abort_node(node, status, call)
  }
  if (status$lacks != 0L) {
    abort_short(node, rank, status, call)
  }
  never <- is.na(status$pid) && !is.null(refused <- host_refusal(node))
  abort_there(status, "lost", paste0(worker_shown(rank, status), " is lost."),
    details = if (never) {
      c("No workers could start on its host:", refused)
    } else {
      c(
        paste0("It ended: ", end_text(status), "."), end_reason(status, status$failure),
        output_lines(status$output)
      )
    },
    hints = "The other workers remain usable, as in cl[-n].",
    worker = rank, pid = status$pid, exit_code = exit_field(status, "code"),
    signal = exit_field(status, "signal"), killed_by = killed_by(status), output = status$output,
    call = call
  )
}

# A lost worker that repeatedly couldn't be replaced for lack of resources.
abort_short <- function(node, rank, status, call) {
  results <- tryCatch(lost_job(node, list(tag = NULL))$results, error = function(e) NULL)
  abort_lacks(paste("Worker", rank), rank, status$lacks, status$output, call,
    "The other workers remain usable, as in cl[-n].",
    results = results
  )
}

# what: the worker, or what was lost with it.
abort_lacks <- function(what, rank, errno, output, call, hints = NULL, ...) {
  worker <- paste("Worker", rank)
  abort_muster(c("limit", "lost"),
    if (what == worker) {
      paste0(what, " is lost and can't be replaced.")
    } else {
      paste0(what, " was lost with worker ", rank, ", which can't be replaced.")
    },
    details = c(errno_text(errno), output_lines(output)),
    hints = c(
      errno_hint(errno), "The next call to this worker, or cluster_resize(), tries again.", hints
    ),
    worker = rank, errno = errno,
    limit = if (shortage_of(errno) == "files") .Call(ffi_limits)[1L] else NA_real_,
    output = output, ..., call = call
  )
}

broken_promise <- "An internal check of muster failed"
# The address is DESCRIPTION's.
report_hint <- paste(
  "This is a bug in muster. Please report it, and say what you did:",
  "https://github.com/muster-r/muster/issues"
)

# Called from C when an assertion fails in the session. ends: nobody knows what of the clusters
# still holds, so they were closed.
abort_internal <- function(what, ends) {
  abort_muster("internal", paste0(broken_promise, "."),
    details = c(what, if (ends) "All clusters of this session have been closed."),
    hints = c(if (ends) "cluster_start() starts others.", report_hint), call = NULL
  )
}

# A cluster or task of before that, or of before such an assertion of the I/O thread's.
abort_broken <- function(call, ...) {
  abort_muster("internal",
    paste0(broken_promise, ", and the cluster that this belongs to has been closed."),
    details = .Call(ffi_session_failure), hints = c("cluster_start() starts another.", report_hint),
    ..., call = call
  )
}
