# A worker's side of cluster_map().

# list(values, packed, failures, setup, seconds), or with `failed` (which element) and `error` or
# `misfit`, see first_misfit(). There are fewer values than elements once these have taken `budget`
# seconds; 0: all have one.
# failures: which of the values are errors that .on_error = "return" lets pass. first: the number of
# the piece's first element.
map_piece <- function(id, x, seed, first, budget) {
  run_to_end()
  begin <- clock_seconds()
  piece <- NULL
  element <- function() if (max(0, piece$at) > 0) first + piece$at - 1 else 0
  the_worker$say <- element_speaker(element)
  on.exit(the_worker$label <- the_worker$say <- NULL)
  job <- job_get(id)
  prepare_packages(job$packages, job$namespaces, job$methods)
  restore <- lend_globals(job)
  on.exit(restore(), add = TRUE)
  fun <- piece_function(job)
  ready <- clock_seconds()
  if (!is.null(seed) || isTRUE(job$loop$brings_streams)) {
    kept <- keep_stream()
    on.exit(kept(), add = TRUE)
  }
  piece <- new_piece(
    x, length(if (isTRUE(job$columns)) x[[1L]] else x), isTRUE(job$columns), budget
  )
  failures <- integer()
  seconds <- 0
  noun <- if (is.null(job$loop)) "element" else "task"
  the_worker$label <- function(condition) name_element(condition, first + piece$at - 1, noun)
  repeat {
    loop <- element_loop(piece, x, fun, seed)
    failure <- piece_error(seconds <- interruptible(do.call(loop, job$args, quote = TRUE)))
    if (is.null(failure)) break
    if (!job$returns) break
    piece$values[[piece$at]] <- failure
    failures <- c(failures, piece$at)
  }
  count <- if (is.null(failure)) piece$at else piece$at - 1L
  done <- if (count == piece$last) piece$values else piece$values[seq_len(count)]
  misfit <- first_misfit(done, job$like)
  if (!is.null(failure) || !is.null(misfit)) {
    failed <- if (is.null(misfit)) piece$at else misfit$at
    return(list(
      values = piece$values[seq_len(failed - 1L)], packed = FALSE, failed = failed,
      error = failure, misfit = misfit, setup = ready - begin, seconds = clock_seconds() - ready
    ))
  }
  packed <- .Call(ffi_pack, done)
  list(
    values = if (is.null(packed)) done else packed, packed = !is.null(packed),
    failures = failures, setup = ready - begin, seconds = seconds
  )
}

piece_function <- function(job) {
  if (!is.null(job$loop)) {
    loop_step(job)
  } else if (is.character(job$fun)) {
    match.fun(job$fun)
  } else {
    job$fun
  }
}

# One task: `job` is the number of a job, or the job itself. at, numbers: where in the arguments the
# results of other tasks belong, and the jobs that they are; checks: are they looked through?
task_run <- function(job, args, seed = NULL, again = 0L, at = NULL, checks = TRUE,
                     numbers = NULL) {
  run_to_end()
  if (length(numbers)) {
    results <- vector("list", length(numbers))
    for (i in seq_along(numbers)) results[i] <- result_of(numbers[i], checks)
    args <- with_results(args, at, results)
  }
  if (!is.list(job)) job <- job_get(job)
  prepare_packages(job$packages, job$namespaces, job$methods)
  restore <- lend_globals(job)
  on.exit(restore())
  if (!is.null(seed)) {
    kept <- keep_stream()
    on.exit(kept(), add = TRUE)
  }
  fun <- if (is.character(job$fun)) match.fun(job$fun) else job$fun
  task_attempts(fun, args, seed, again, interruptible)
}

# Evaluates until there is no error, but not more than `again` times again. around: a function that
# evaluates its argument.
task_attempts <- function(fun, args, seed, again, around) {
  args <- lapply(args, function(x) if (is.language(x)) enquote(x) else x)
  for (attempt in seq_len(again)) {
    failed <- NULL
    value <- tryCatch(task_attempt(fun, args, seed, around), error = function(e) failed <<- e)
    if (is.null(failed)) {
      return(value)
    }
    times <- paste0(" (attempt ", attempt + 1L, " of ", again + 1L, "): ")
    inform_muster("again",
      paste0("The task raised an error and runs again", times, message_of(failed))
    )
  }
  task_attempt(fun, args, seed, around)
}

# Each attempt draws the same random numbers. Users see the name `fun` and the values in the call;
# only code must be quoted.
task_attempt <- function(fun, args, seed, around) {
  if (!is.null(seed)) assign(".Random.seed", seed, globalenv())
  around(do.call("fun", args))
}

# proc.time() only has milliseconds.
clock_seconds <- function() as.numeric(Sys.time())

# last: the last element to be evaluated. columns: is x a list of vectors, whose i-th elements are
# the arguments?
new_piece <- function(x, n, columns, budget = 0) {
  list2env(list(
    values = vector("list", n), at = integer(1L), # not a constant: it is changed in place
    last = n, call = if (columns) column_call(x), clock = c(budget, 0)
  ), parent = emptyenv())
}

# As ffi_map_elements makes it for one vector.
column_call <- function(x) {
  elements <- lapply(seq_along(x), function(k) bquote(x[[.(k)]][[i]]))
  as.call(c(
    forceAndCall, length(x), quote(fun), structure(elements, names = names(x)), quote(...)
  ))
}

# Starts after element piece$at; C code fills in piece$values and advances piece$at. Each element
# looks up `[[` from here, so there is little more than base around it, as with lapply(): the entry
# point, which .onLoad() puts there.
map_elements <- function(...) {
  # By get(): these are in the environment from element_loop().
  piece <- get("piece")
  .Call(
    ffi_map_elements, environment(), piece$values, piece$at, piece$last, get("seed"), piece$call,
    piece$clock
  )
}
map_around <- new.env(parent = .BaseNamespaceEnv)

# The loop over a piece. Its only arguments are the user's, so that no name can clash with ours.
element_loop <- function(piece, x, fun, seed) {
  loop <- map_elements
  environment(loop) <- list2env(
    list(piece = piece, x = x, fun = fun, seed = seed),
    parent = map_around
  )
  loop
}

# Adds the element's number to a warning.
name_element <- function(condition, element, noun) {
  call <- conditionCall(condition)
  condition$element <- element
  if (is_step(call)) condition["call"] <- list(NULL)
  if (identical(call, quote(fun(x[[i]], ...)))) {
    condition$call[[2L]][[3L]] <- element
  } else if (is.character(condition$message) && length(condition$message) == 1L) {
    number <- format(element, scientific = FALSE)
    condition$message <- paste0(condition$message, " (", noun, " ", number, ")")
  }
  condition
}

# Sends what elements say before the answer: list(element, how many values it has said, value).
# at: gives the present element, 0 for none.
element_speaker <- function(at) {
  element <- count <- 0
  function(said) {
    now <- at()
    if (now != element) count <<- 0
    element <<- now
    count <<- count + 1
    worker_say(list(element, count, said))
  }
}

# The error raised by code, in the form for the session, or NULL.
piece_error <- function(code) {
  stack <- NULL
  tryCatch(
    withCallingHandlers(
      {
        code
        NULL
      },
      error = function(e) stack <<- stack_text(sys.calls())
    ),
    error = function(e) {
      if (is.list(e) && is_step(e$call)) e["call"] <- list(NULL)
      list(
        message = message_of(e), call = call_text(conditionCall(e)), stack = stack,
        condition = light_condition(e)
      )
    }
  )
}

# keep_stream() returns a function that restores the present random number stream and generators.
keep_stream <- function() {
  global <- globalenv()
  before <- get0(".Random.seed", global, inherits = FALSE)
  kind <- RNGkind()
  function() {
    # A seed includes its generators; without one R remembers those used last.
    if (is.null(before)) {
      suppressWarnings(do.call(RNGkind, as.list(kind)))
      rm(".Random.seed", envir = global)
    } else {
      assign(".Random.seed", before, global)
    }
  }
}

# ---- Jobs, which the session sends once

job_key <- function(number) .Call(ffi_job_key, number)

# Called from C code, outside of any call. job: list(number, bytes, segment).
job_keep <- function(job) {
  names(job) <- c("number", "bytes", "segment")[seq_along(job)]
  the_worker$jobs[[job_key(job$number)]] <- job
  look_for_dev(job)
}
job_drop <- function(id) drop_job(job_key(id))

drop_job <- function(key) {
  kept <- the_worker$jobs[[key]]
  if (!is.null(kept)) {
    .Call(ffi_job_forget, kept$segment)
    rm(list = key, envir = the_worker$jobs)
  }
}

job_kept <- function(id) {
  kept <- the_worker$jobs[[job_key(id)]]
  if (is.null(kept)) {
    abort_muster("internal", paste0("This worker doesn't have job ", id, "."), hints = report_hint)
  }
  kept
}

# Objects that no piece can change are made once, others anew for each piece.
job_get <- function(id) {
  kept <- job_kept(id)
  if (!is.null(kept$value)) {
    return(kept$value)
  }
  value <- .Call(ffi_job_read, kept$bytes, kept$segment)
  if (!value$fresh) {
    .Call(ffi_job_forget, kept$segment)
    the_worker$jobs[[job_key(id)]] <- list(value = value)
  }
  value
}

# The value in the answer of a task, which is a job: a list of one. Made anew for each task, which
# may change it.
result_of <- function(id, checks) {
  kept <- job_kept(id)
  answer <- .Call(ffi_job_read, kept$bytes, kept$segment)
  if (length(answer) > 2L) load_for_value(list(conditions = answer[[3L]]))
  value <- answer[1L]
  if (checks && scan_has(.Call(ffi_scan, value), c("connection", "s4")) &&
    !is.null(found <- find_reference(value[[1L]], "value"))) {
    abort_muster("input",
      paste0(
        "An argument is the value of another task, and is or contains a connection (`",
        found$where, "`), which doesn't work outside its worker."
      )
    )
  }
  value
}

# Attaches packages that the session has attached and code uses, from the last on its search path to
# the first. They come in that order before all others, so that names are found as in the session;
# those of another job are detached, since the session may have detached them. What the user has
# attached here stays. This isn't recorded as a change of the worker: a replacement worker does it
# for its first piece.
prepare_packages <- function(packages, namespaces, methods = NULL) {
  if (length(methods)) on.exit(register_own_methods(methods))
  if (!length(packages) && !length(namespaces) && !length(the_worker$attached)) {
    return(invisible())
  }
  namespaces <- setdiff(namespaces, loadedNamespaces())
  there <- sub("^package:", "", search())
  in_front <- identical(there[seq_along(packages) + 1L], rev(as.character(packages)))
  gone <- setdiff(the_worker$attached, packages)
  if (in_front && !length(gone) && !length(namespaces)) {
    return(invisible())
  }
  moved <- if (!in_front) intersect(packages, there)
  for (package in c(gone, moved)) detach_package(package)
  # Packages attached before any job asked for them are the user's.
  the_worker$attached <- setdiff(packages, setdiff(there, the_worker$attached))
  if (!in_front) attach_packages(packages)
  load_packages(namespaces)
  .Call(ffi_worker_track)
}

detach_package <- function(package) {
  name <- paste0("package:", package)
  if (name %in% search()) keep_dev(package)
  if (name %in% search()) detach(name, character.only = TRUE, force = TRUE)
}

# lend_globals() puts a job's values into the global environment and returns a function that
# restores it. Variables that were too large to send are an error when used, even if the worker has
# one of the same name: its value may differ.
lend_globals <- function(job) {
  if (!length(job$globals) && !length(job$there) && !length(job$left)) {
    return(lent_nothing)
  }
  global <- globalenv()
  job$globals <- c(job$globals, own_globals(job$there))
  names <- c(names(job$globals), job$left)
  there <- vapply(names, exists, NA, envir = global, inherits = FALSE)
  before <- mget(as.character(names[there]), global)
  list2env(as.list(job$globals), global)
  s4 <- any(is_s4_name(names(job$globals)))
  if (s4) know_s4(TRUE)
  # A variable can't become an active binding.
  rm(list = intersect(job$left, names[there]), envir = global)
  for (name in job$left) makeActiveBinding(name, left_behind(name), global)
  function() {
    if (s4) know_s4(FALSE)
    # An assignment doesn't replace an active binding.
    gone <- intersect(c(names[!there], job$left), ls(global, all.names = TRUE))
    rm(list = gone, envir = global)
    list2env(before, global)
    if (s4 && any(is_s4_name(names(before)))) know_s4(TRUE)
  }
}

lent_nothing <- function() NULL

# S4 and reference classes and methods defined in the session's global environment: package methods
# finds them there by special names, after it has been told.
is_s4_name <- function(names) grepl("^[.]__[CT]__", names)
know_s4 <- function(there) methods::cacheMetaData(globalenv(), attach = there)

left_behind <- function(name) {
  function(value) {
    if (!missing(value)) {
      rm(list = name, envir = globalenv())
      return(list2env(structure(list(value), names = name), globalenv()))
    }
    abort_muster("limit",
      paste0("`", name, "` of the session's global environment isn't here."),
      details = paste(
        "It is large, or holds a connection, and the code of your function doesn't name it:",
        "only a string, quoted code or a function beside yours does."
      ),
      hints = paste0("Name it in the code too, as in force(", name, "): then it is sent.")
    )
  }
}

# ---- What the worker has already

# Variables that a job doesn't bring along, since clusterExport() or cluster_share() has
# put them here. The session's side is map-exports.R.

# there: hashes of what the session's variables hold, by name. Gives the values.
own_globals <- function(there) {
  for (name in names(there)) {
    if (!.Call(ffi_worker_holds, name, there[[name]])) abort_not_there(name)
  }
  mget(as.character(names(there)), globalenv())
}

abort_not_there <- function(name) {
  abort_muster("input",
    paste0("This worker's `", name, "` no longer has the value that the session exported."),
    details = paste(
      "The session's is still the same, so it wasn't sent with your function; a call has changed",
      "or removed the worker's."
    ),
    hints = paste0(
      "clusterExport(cl, \"", name, "\") it again; or give one of the two another name."
    ),
    argument = name, call = NULL
  )
}
