# Runs fork servers and workers, from R's start to its end. boot.R of the installed package calls
# boot_main().

# What a worker knows of itself. It has what its fork server noted before the fork.
the_worker <- new.env(parent = emptyenv())
the_worker$base <- NULL # where the workers of a fork server have their directories
the_worker$kept <- NULL # what renew_worker() needs
the_worker$boot_libraries <- character() # what .libPaths() was when R had started
the_worker$boot_options <- NULL # options when R had started
the_worker$search <- NULL # what was attached when it was ready
the_worker$half_read <- NULL # what R was reading when an interrupt came, see note_half_read()
the_worker$own <- NULL # what it started with, see note_own_context()
the_worker$cli_waits <- FALSE # has package cli no thread yet?
the_worker$jobs <- new.env(parent = emptyenv()) # what the session sent once, by number
the_worker$attached <- character() # packages that a job wanted
the_worker$dev <- list() # packages that are under load_all() in the session, by name
the_worker$steps <- list() # what to do to enter its last context, and to leave it
the_worker$brought <- list() # options that contexts have brought and left here
the_worker$warned <- NULL # kinds of locale that its host doesn't have, see set_locale()
the_worker$loops <- FALSE # did it evaluate a loop of foreach's?
the_worker$failing <- NULL # the group whose function failed: list(text, key)
the_worker$without_rows <- NULL # what a verb of dplyr's gave for no rows, see dplyr_verb()
the_worker$folded <- NULL # partial results that are used next, see part_fold()
the_worker$parts <- list() # parts of data, by stage and task
the_worker$warm <- double() # weights of those in memory, by the same: the one used last at the end
the_worker$fixed <- double() # weights of those that can't be elsewhere
the_worker$rested <- 0 # bytes taken out of memory since R last collected for that
the_worker$tight <- FALSE # is there little memory?
the_worker$widened <- FALSE # see widen_heap()

# The user's calls run below few frames of ours: so they can nest (options(expressions = )) about as
# deeply as in a worker of makeCluster().
boot_main <- function(role, session) {
  the$worker <- TRUE
  the_worker$boot_libraries <- .libPaths()
  the_worker$boot_options <- options()
  Sys.unsetenv("MUSTER_BOOT")
  forked <- role == "server"
  # server_main() returns in the server at its end, and in each worker at its start.
  works <- (!forked || server_main(session)) && worker_begin(forked, session)
  status <- if (works) serve_calls() else 0L
  end_process(status)
}

end_process <- function(status) quit(save = "no", status = status, runLast = FALSE)

# ---- The fork server

# TRUE in a forked worker.
server_main <- function(session) {
  setup <- .Call(ffi_server_begin)
  if (is.null(setup)) {
    return(FALSE)
  }
  the_worker$base <- setup$base
  booted_with <- other_descriptors()
  failure <- first_error({
    .libPaths(expand_libraries(setup$libraries))
    attach_packages(setup$packages)
    lapply(setup$load, requireNamespace, quietly = TRUE) # a worker reports failures
  })
  let_cli_go()
  if (!is.null(failure)) {
    .Call(ffi_server_say, frame_kinds[["failed"]], failure)
    end_process(1L)
  }
  reason <- fork_refusal(booted_with)
  if (!is.null(reason)) {
    .Call(ffi_server_say, frame_kinds[["server_refuse"]], reason)
    return(FALSE)
  }
  if (setup$early) gc() else warm_up(setup)
  prepare_forks(setup)
  idle_ms <- if (setup$early) 50L else 0L
  looks <- 0L
  before <- idle_seconds()
  while (is.na(forked <- .Call(ffi_server_run, session, setup$base, idle_ms))) {
    looks <- looks + 1L
    now <- idle_seconds()
    if (warms_now(now - before, looks)) {
      warm_up_late(setup)
      idle_ms <- 0L
    } else {
      idle_ms <- 250L
      before <- now
    }
  }
  forked
}

# The time, and the processor time that nobody used, of all cores together, in seconds; NULL where
# the system doesn't tell.
idle_seconds <- function() {
  line <- tryCatch(readLines(file.path(proc_place(), "stat"), 1L),
    error = function(e) NULL, warning = function(w) NULL
  )
  idle <- as.numeric(unlist(strsplit(as.character(line), " +"))[5:6]) # idle, waiting for a disk
  if (!anyNA(idle)) c(time = proc.time()[["elapsed"]], idle = sum(idle) / 100)
}

# Whether the first workers are let alone by a server that warms up late: a core was idle since the
# last look, or the server has looked for five seconds.
warms_now <- function(passed, looks) {
  !length(passed) || passed[["idle"]] >= 0.9 * passed[["time"]] || looks > 20L
}

# The reason why workers must not be forked from this process, or NULL. booted_with: descriptors
# that were open before packages were loaded.
fork_refusal <- function(booted_with) {
  threads <- .Call(ffi_threads_count)[1L]
  if (threads > 1L) {
    return(paste0(
      "It found ", threads, " threads in its process: a package or a startup file started them, ",
      "and a process with threads must not fork."
    ))
  }
  open <- other_descriptors()
  if (length(open)) {
    return(paste0(
      if (any(open %in% booted_with)) "A startup file" else "A package",
      " keeps files or connections open (", paste(names_of(open), collapse = ", "),
      "), which workers would share."
    ))
  }
  kept_refusal()
}

# Descriptors other than those open at the start, and the one R reads its script from.
other_descriptors <- function() {
  fds <- list.files(file.path(proc_place(), "self", "fd"))
  names <- names_of(fds)
  script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
  fds[nzchar(names) & !fds %in% 0:5 & !basename(names) %in% basename(script)]
}

# The files of descriptors; "" for those already closed, such as the one that listed them.
names_of <- function(fds) {
  names <- Sys.readlink(file.path(proc_place(), "self", "fd", fds))
  names[is.na(names)] <- ""
  names
}

# Runs everything once that a worker will run, so that the code is loaded and compiled here and not
# in every worker: promises of lazily loaded functions, the handlers, the compiler itself. Then
# collects garbage, since workers would copy its pages when they write to them.
warm_up <- function(setup) {
  # parallel's finalizer needs tools when a worker ends.
  loadNamespace("tools")
  compiler::cmpfun(function(x) {
    for (i in x) x <- x + i
    x
  })
  own_tempdir(server_home(setup$base), setup$tmpdir) # a worker removes it if this server is killed
  first_error(stop("never shown")) # tidy: this error is the warming itself
  worker_setup(list(
    directory = getwd(), umask = Sys.umask(NA), libraries = .libPaths(),
    tmpdir = setup$tmpdir, threads = 0L,
    variables = list(set = character(), unset = character()), setup = function() NULL
  ))
  sunk <- sink_output("/dev/null")
  sink(type = "message")
  sink()
  close(sunk)
  messages <- list(
    list(function() 1L, list(), NULL),
    list("lapply", list(1:2, function(i, ...) i), 1L),
    list(eval, list(quote(Sys.getpid())), NULL),
    list(function() stop("never shown"), list(), NULL) # tidy: the same
  )
  fd <- .Call(ffi_warm_pair)
  for (i in 1:3) {
    .Call(ffi_warm_feed, fd, messages)
    serve_calls()
  }
  .Call(ffi_warm_feed, fd, NULL)
  job_keep(list(0, serialize(list(
    fun = identity, args = list(), globals = list(), packages = character(),
    namespaces = character(), returns = FALSE, fresh = FALSE
  ), NULL, xdr = FALSE)))
  map_piece(0, 1:2, NULL, 1, 1)
  job_drop(0)
  job_keep(list(0.5, serialize(context_now(), NULL, xdr = FALSE)))
  context_enter(0.5)
  context_leave()
  job_drop(0.5)
  renew_files(list())
  renew_port(list2env(list(port = 11000L)))
  clear_globals()
  gc()
}

# What each worker must have for itself, noted before the first one is forked.
prepare_forks <- function(setup) {
  the_worker$kept <- c(keep_tempdir(setup$base, setup$tmpdir), keep_renewals())
}

# After the first workers: they don't wait for it, and those that follow are quick. The server
# itself isn't renewed meanwhile, and stays without a temporary directory.
warm_up_late <- function(setup) {
  kept <- the_worker$kept
  the_worker$kept <- NULL
  finish_promises(NULL) # those that are there are known then
  warm_up(setup)
  unlink(tempdir(), recursive = TRUE)
  the_worker$kept <- kept
}

# ---- The worker

# FALSE if the session is gone.
worker_begin <- function(forked, session) {
  .Call(ffi_worker_begin, forked, session)
  orders <- .Call(ffi_worker_setup)
  if (is.null(orders)) {
    return(FALSE)
  }
  failure <- first_error({
    # NULL: in that of the fork server, on another host.
    base <- if (is.null(orders$base)) the_worker$base else orders$base
    if (forked) own_tempdir(base, orders$tmpdir)
    worker_setup(orders)
  })
  if (!is.null(failure)) {
    .Call(ffi_worker_failed, failure)
    end_process(1L)
  }
  if (orders$track) begin_tracking()
  .Call(ffi_worker_ready, tempdir())
  TRUE
}

note_stack <- function(condition) {
  the_worker$stack <- if (.Call(ffi_worker_is_task)) stack_text(sys.calls())
}

# The calls that led to an error, without those of the worker around it and of R's
# signalling below it.
stack_text <- function(calls) {
  text <- vapply(calls, call_text, "")
  by_name <- utils::head(grep("^do[.]call[(]\"fun\", ", text), 1L) # task_run()'s
  calls <- "ffi_worker_serve|^(fun\\(((.* = )?x\\[\\[|part|[.]{3})|eval\\(iteration_code, )"
  first <- max(0L, grep(calls, text), by_name + 1L)
  last <- grep("^(\\.handleSimpleError|h\\(simpleError|\\(function \\(condition\\))", text)
  end <- if (length(last)) min(last) - 1L else length(text)
  utils::tail(text[seq_len(end)][-seq_len(first)], 50L)
}

# Evaluates calls until the session ends the worker, and returns the exit status. The handlers are
# outside of the loop, which is in C: one for each call would cost 5 us. Calls are evaluated in
# frames below parallel's namespace, as in a worker of makeCluster(). An interrupt outside of the
# handlers would end this process, so interrupts are suspended there.
serve_calls <- function() {
  # Package future looks for a node of this name and class in the frames of its code, to send
  # conditions before the answer (e.g. those of progressr), as in parallel's own workers.
  master <- structure(list(), class = c("muster_master", "SOCKnode"))
  enclosure <- asNamespace("parallel")
  stuck <- 0L
  suspendInterrupts(repeat {
    taken <- .Call(ffi_worker_taken)
    outcome <- tryCatch(
      withCallingHandlers(
        allowInterrupts(.Call(ffi_worker_serve, enclosure)),
        error = note_stack, immediateCondition = note_immediate,
        warning = note_warning, message = note_message, interrupt = note_half_read
      ),
      error = identity, interrupt = identity
    )
    if (is.logical(outcome)) break
    goes_on <- is.null(outcome) || answer_condition(outcome)
    if (isFALSE(goes_on)) break
    if (is.null(outcome) || (is.na(goes_on) && !inherits(outcome, "interrupt"))) {
      eat_interrupt()
    }
    # An error raised before anything is read would repeat forever.
    idle <- inherits(outcome, "error") && taken == .Call(ffi_worker_taken)
    stuck <- if (idle) stuck + 1L else 0L
    if (idle) lift_expressions()
    if (stuck == stuck_max) {
      cat("muster: this worker can't go on:", message_of(outcome), "\n", file = stderr())
      break
    }
  })
  if (stuck == stuck_max || isTRUE(the_worker$torn)) 1L else 0L
}

stuck_max <- 10L

# Data sent during a call reach the session before the call's answer.
#' @exportS3Method parallel::sendData
sendData.muster_master <- function(node, data) {
  invisible(.Call(ffi_worker_say, data$value))
}

# The frames around a call count as well: with a lower limit no call could run.
lift_expressions <- function() {
  least <- worker_least[["expressions"]]
  if (getOption("expressions") < least) options(expressions = least)
}

# From here on, calls that change this worker are reported to the session.
begin_tracking <- function() {
  the_worker$search <- search()
  .Call(ffi_worker_track)
}

# FALSE if the session is gone, NA if an interrupt may still come. Errors that leave few resources
# (memory, options(expressions = )) are reported with fewer details.
answer_condition <- function(condition) {
  task <- .Call(ffi_worker_is_task)
  value <- tryCatch(
    if (task) task_failure(condition) else call_failure(condition),
    error = function(e) bare_failure(task, condition$message)
  )
  .Call(ffi_worker_answer_error, value)
}

failure_text <- function(condition) {
  if (inherits(condition, "interrupt")) "interrupted" else message_of(condition)
}

task_failure <- function(condition) {
  text <- failure_text(condition)
  condition <- light_condition(condition)
  list(
    message = text, call = call_text(conditionCall(condition)), stack = the_worker$stack,
    condition = if (utils::object.size(condition) < 1e5) condition
  )
}

call_failure <- function(condition) {
  structure(failure_text(condition), class = c(
    intersect(c("muster_error_memory", "muster_error_limit"), class(condition)),
    "snow-try-error", "try-error"
  ))
}

bare_failure <- function(task, text) {
  if (!is.character(text) || length(text) != 1L) text <- "an error that can't be described"
  if (task) {
    return(list(message = text, call = "", stack = NULL, condition = NULL))
  }
  class(text) <- c("snow-try-error", "try-error")
  text
}

# deparse() may fail for objects of S4 whose class isn't what it expects, as those of package S7.
call_text <- function(call) {
  if (is.null(call)) {
    return("")
  }
  tryCatch(deparse(call, width.cutoff = 60L, nlines = 1L)[1L], error = function(e) {
    paste0(tryCatch(deparse(call[[1L]], nlines = 1L)[1L], error = function(e) "..."), "(...)")
  })
}

# conditionMessage() is generic: a user's method may fail, and may return anything.
message_of <- function(condition) {
  text <- tryCatch(conditionMessage(condition), error = function(e) NULL)
  if (is.atomic(text) && length(text)) {
    paste(as.character(text), collapse = "\n")
  } else {
    "an error without a message"
  }
}

# The message of the first error, or NULL.
first_error <- function(code) {
  tryCatch(
    {
      code
      NULL
    },
    error = message_of
  )
}
