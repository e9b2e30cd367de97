# R's own workers (parallel:::.workRSOCK): launched all at once, identified by the secret words
# that they were given (psock-stock-secret.R), and driven over muster's connections.
#
# One listener serves all workers of a start. Every peer is sent R's handshake at once: a call that
# a worker answers with its process id and its word. A worker that doesn't get it in time closes its
# connection and connects again; the old connection is closed here.
#
# Any user of the machine can connect. Until a peer has sent one of our words, none of its bytes are
# parsed as R's format, and it is sent nothing but the handshake, which isn't secret. A wrong word
# closes its connection. A silent peer keeps its place until `answer_s` is over, or until too
# many are waiting and the oldest is dropped: the real worker, which answers at once, gets through
# among any number of them.
answer_s <- 30
silent_most <- 128L

# start_stock() gives a node for each of the options. Raises muster_error_launch, _timeout,
# _connect; then nothing is left.
start_stock <- function(options, port, validate, auto_stop, call) {
  listening <- stock_listen(options, port, call)
  state <- new.env(parent = emptyenv())
  state$workers <- lapply(options, function(o) list(o = o, word = .Call(ffi_stock_word)))
  # Connections that haven't answered the handshake: list(link, since, worker), with the
  # number of the worker whose word they have said, 0 for none.
  state$peers <- list()
  complete <- FALSE
  on.exit({
    for (peer in state$peers) .Call(ffi_stock_close, peer$link)
    if (!complete) stock_abandon(state$workers)
    # Closed last: a worker would mistake another user who listens there next for this session.
    .Call(ffi_stock_close, listening$listener)
  })
  at_once <- !any(vapply(options, function(o) o$manual || o$strategy == "sequential", NA))
  turns <- if (at_once) list(seq_along(options)) else as.list(seq_along(options))
  for (turn in turns) {
    for (i in turn) {
      state$workers[[i]] <- stock_launch(state$workers[[i]], listening$port, at_once, call)
    }
    stock_await(state, turn, listening$listener, call)
  }
  nodes <- lapply(state$workers, stock_node, auto_stop = auto_stop)
  if (validate) {
    stock_ask(nodes, options)
  }
  complete <- TRUE
  nodes
}

# On the loopback, unless a worker connects from another host.
stock_listen <- function(options, port, call) {
  near <- vapply(options, function(o) o$revtunnel || is_local_host(o$master), NA)
  listening <- .Call(
    ffi_stock_listen, if (all(near)) "127.0.0.1" else "0.0.0.0", choose_port(port, call)
  )
  if (!is.null(listening$error)) {
    abort_muster("connect", "Can't listen for workers.",
      details = paste0(listening$call, ": ", listening$error),
      hints = "`port` may be \"random\", or several to choose from.",
      errno = listening$errno, call = call
    )
  }
  listening
}

# Through a shell, since the parts of the command are quoted for one.
stock_launch <- function(worker, port, at_once, call) {
  o <- worker$o
  strategy <- if (at_once) "parallel" else "sequential"
  worker$begun <- proc.time()[["elapsed"]]
  told <- told_lines(o, worker$word)
  worker$command <- reported_command(o, port, strategy)
  if (o$manual) {
    if (!o$quiet) writeLines(launch_text(o, port, strategy, told))
    return(worker)
  }
  command <- command_here(o, port, strategy, "run")
  verbose_message(o, paste0("Launching worker ", o$rank, ": ", command))
  process <- .Call(
    ffi_stock_spawn, "/bin/sh", c("sh", "-c", command), c("R_TESTS", launch_variables(o)),
    o$rank, told_input(told)
  )
  if (is.list(process)) {
    abort_muster(launch_kind(process$errno), paste0("Can't start worker ", o$rank, "."),
      details = paste0(process$call, ": ", process$error), hints = errno_hint(process$errno),
      worker = o$rank, host = o$host, command = worker$command, errno = process$errno,
      call = call
    )
  }
  worker$process <- process
  worker
}

# Waits until the workers with these numbers have connected.
stock_await <- function(state, turn, listener, call) {
  repeat {
    open <- Filter(function(i) is.null(state$workers[[i]]$link), turn)
    if (!length(open)) {
      return(invisible())
    }
    launched <- Filter(function(i) !is.null(state$workers[[i]]$process), open)
    happened <- .Call(
      ffi_stock_poll, listener, lapply(state$peers, `[[`, "link"),
      lapply(launched, function(i) state$workers[[i]]$process), 0.05
    )
    stock_answers(state, happened$links)
    now <- proc.time()[["elapsed"]]
    if (!is.null(happened$accepted)) {
      greet(happened$accepted, state$workers[[1L]]$o)
      peer <- list(link = happened$accepted, since = now, worker = 0L)
      state$peers <- c(state$peers, list(peer))
    }
    turn_away(state, now)
    # A worker that answered may have ended since: later calls handle that.
    open <- Filter(function(i) is.null(state$workers[[i]]$link), open)
    for (i in intersect(launched[!happened$processes], open)) {
      stock_check_end(state$workers[[i]], length(state$workers), call)
    }
    for (i in open) {
      worker <- state$workers[[i]]
      if (now - worker$begun > worker$o$connect_timeout) {
        abort_stock_late(worker, length(state$workers), call)
      }
    }
  }
}

# R's handshake, which also asks for the word.
greet <- function(link, o) {
  .Call(ffi_stock_nodelay, link, "no-delay" %in% o$socket_options)
  message <- exec_message(eval, list(word_question))
  .Call(ffi_stock_send, link, message, o$xdr, NULL)
}

exec_message <- function(fun, args) {
  list(type = "EXEC", data = list(fun = fun, args = args, return = TRUE, tag = NULL), tag = NULL)
}

# Reads what has arrived: first a peer's word, then the answer of a peer that has proved its
# identity.
stock_answers <- function(state, states) {
  kept <- list()
  for (k in seq_along(states)) {
    peer <- state$peers[[k]]
    whole <- states[k] == stock_links[["whole"]]
    answered <- whole && peer$worker > 0L
    if (whole && !answered) {
      peer$worker <- .Call(ffi_stock_prove, peer$link, open_words(state))
    }
    if (answered) {
      stock_answered(state, peer)
    } else if (states[k] == stock_links[["nothing"]] || peer$worker > 0L && whole) {
      kept <- c(kept, list(peer))
    } else {
      .Call(ffi_stock_close, peer$link)
    }
  }
  state$peers <- kept
}

# A word is valid until its worker has connected.
open_words <- function(state) {
  vapply(state$workers, function(worker) if (is.null(worker$link)) worker$word else "", "")
}

stock_answered <- function(state, peer) {
  answer <- tryCatch(.Call(ffi_stock_receive, peer$link, NULL)[[1L]]$value,
    error = function(e) NULL
  )
  pid <- if (is.list(answer) && length(answer) == 2L) answer[[1L]]
  if (!is.integer(pid) || !is.null(state$workers[[peer$worker]]$link)) {
    .Call(ffi_stock_close, peer$link)
    return(invisible())
  }
  .Call(ffi_stock_told, state$workers[[peer$worker]]$process)
  state$workers[[peer$worker]]$link <- peer$link
  state$workers[[peer$worker]]$pid <- pid
}

# Closes connections that have been silent for too long, and the oldest if there are too many.
turn_away <- function(state, now) {
  silent <- which(vapply(state$peers, `[[`, 0L, "worker") == 0L)
  since <- vapply(state$peers[silent], `[[`, 0, "since")
  most <- silent_most + length(state$workers)
  gone <- silent[now - since > answer_s | rev(seq_along(silent)) > most]
  for (peer in state$peers[gone]) .Call(ffi_stock_close, peer$link)
  if (length(gone)) state$peers <- state$peers[-gone]
}

# ---- Failures

# A launcher that hands its job to another process and exits with status 0 may still start a
# worker.
stock_check_end <- function(worker, count, call) {
  o <- worker$o
  status <- .Call(ffi_stock_process, worker$process)
  ended_well <- identical(exit_field(status, "code"), 0L)
  was_told <- !grepl(no_input, status$output, fixed = TRUE)
  if (ended_well && was_told && (o$raw || !o$local || length(o$rscript) > 1L)) {
    return(invisible())
  }
  abort_muster("launch", paste0("Can't start ", worker_text(worker, count), "."),
    details = c(
      paste0("It ended: ", exit_text(status), "."), output_lines(status$output), log_lines(o)
    ),
    hints = c(launch_hint(o, status), command_hint(worker), all_stopped),
    worker = o$rank, host = o$host, command = worker$command, pid = status$pid,
    exit_code = exit_field(status, "code"), signal = exit_field(status, "signal"),
    output = status$output, call = call
  )
}

abort_stock_late <- function(worker, count, call) {
  o <- worker$o
  status <- if (!is.null(worker$process)) .Call(ffi_stock_process, worker$process)
  abort_muster("timeout",
    paste0("Can't start ", worker_text(worker, count), " within ", o$connect_timeout, " s."),
    details = c(
      if (isTRUE(status$running)) "Its command still runs.",
      if (isFALSE(status$running)) paste0("Its command ended: ", exit_text(status), "."),
      if (!is.null(status)) output_lines(status$output), log_lines(o)
    ),
    hints = c(
      if (!o$local && !o$revtunnel) {
        paste0(
          "Can host ", o$host, " reach this one as ", o$master, "? With `revtunnel` it needn't."
        )
      },
      command_hint(worker), "`connectTimeout` gives it more time.", all_stopped
    ),
    worker = o$rank, host = o$host, command = worker$command, output = status$output, call = call
  )
}

worker_text <- function(worker, count) {
  o <- worker$o
  paste0("worker ", o$rank, if (count > 1L) paste0(" of ", count), " on host ", o$host)
}

command_hint <- function(worker) {
  paste0("Try its command by hand: ", sub("^exec ", "", worker$command))
}

log_lines <- function(o) {
  if (is.null(o$rshlogfile) || !file.exists(o$rshlogfile)) {
    return(NULL)
  }
  lines <- utils::tail(readLines(o$rshlogfile, warn = FALSE), 20L)
  if (length(lines)) c("ssh logged:", paste0("  ", lines))
}

launch_hint <- function(o, status) {
  code <- exit_field(status, "code")
  if (grepl(no_input, status$output, fixed = TRUE)) {
    return(paste0(
      "The worker reads secrets (its variables, and the word that proves who it is) ",
      "from its standard input, which was empty. `ssh -n` and `docker run` without `-i` ",
      "cause that."
    ))
  }
  if (!o$local && identical(code, 255L)) {
    known <- launch_failure(list(by = "ssh"), paste0(status$output, log_lines(o)), code)
    if (known$reason %in% c("name", "key", "network")) {
      return(known$hint)
    }
    o$revtunnel <- FALSE
    return(paste0(
      "The login failed. It must work without a password: ", login_command(o, 1L), " date"
    ))
  }
  if (code %in% c(126L, 127L)) {
    where <- if (o$local) "" else paste0(" on host ", o$host)
    return(paste0("There is no such command", where, ": see `rscript` in ?makeClusterPSOCK."))
  }
  if (!o$local && o$revtunnel && grepl("forwarding failed", status$output, fixed = TRUE)) {
    "The tunnel's port is in use over there: give another `port`."
  }
}

# Ends the launched processes, with everything that they started.
stock_abandon <- function(workers) {
  for (worker in workers) {
    if (!is.null(worker$link)) .Call(ffi_stock_close, worker$link)
    if (!is.null(worker$process)) .Call(ffi_stock_kill, worker$process, tools::SIGTERM)
  }
  stock_reap(lapply(workers, `[[`, "process"), 1)
}

# Waits for processes to end, and kills those that don't within the time.
stock_reap <- function(processes, seconds) {
  processes <- Filter(Negate(is.null), processes)
  on.exit(for (process in all) .Call(ffi_stock_hang_up, process))
  all <- processes
  end <- proc.time()[["elapsed"]] + seconds
  repeat {
    runs <- .Call(ffi_stock_poll, NULL, list(), processes, 0.01)$processes
    if (!any(runs)) {
      return(invisible())
    }
    processes <- processes[runs]
    if (proc.time()[["elapsed"]] > end) {
      for (process in processes) .Call(ffi_stock_kill, process, tools::SIGKILL)
    }
  }
}
