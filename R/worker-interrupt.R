# Ends a call whose answer isn't wanted any more: it was cancelled, took too long, or its verb was
# left. Only the user's code is interrupted, and its changes are undone.

# From here on the call runs to its end, except for code in interruptible(). muster's own work
# around the user's code (packages are attached, globals lent and taken back) must not be left half
# done: that would make the worker useless.
run_to_end <- function() {
  # The interrupt may still be on its way.
  if (.Call(ffi_worker_shut)) allowInterrupts(Sys.sleep(0.02))
}

# Evaluates code that may be left at any time.
interruptible <- function(code) {
  on.exit(if (.Call(ffi_worker_shut)) eat_interrupt())
  .Call(ffi_worker_open)
  code
}

# An interrupt that was meant for a call may arrive after the call has ended.
eat_interrupt <- function() {
  tryCatch(allowInterrupts(Sys.sleep(0.02)), interrupt = function(e) NULL)
}

# Restores this worker's state before the interrupted call. Called from C code, which then checks
# whether that succeeded. FALSE: it didn't.
undo_call <- function() {
  eat_interrupt()
  before <- .Call(ffi_worker_before)
  promises_whole <- finish_promises(before$frames)
  if (is.null(before)) {
    return(promises_whole)
  }
  put_frames_back()
  for (put_back in list(put_options_back, put_search_back, put_directory_back, put_seed_back)) {
    tryCatch(put_back(before), error = function(e) NULL)
  }
  promises_whole
}

# Leaves no long-lived promise half evaluated, see src/ffi/worker/promises.c. Reads now what a
# package has in its file. FALSE if there are others: they run the user's code.
finish_promises <- function(others) {
  if (!finish_half_read()) {
    return(FALSE)
  }
  spaces <- lapply(setdiff(loadedNamespaces(), "base"), asNamespace)
  tables <- lapply(c(spaces, baseenv()), `[[`, ".__S3MethodsTable__.")
  lazy <- lapply(spaces, function(space) space[[".__NAMESPACE__."]]$lazydata)
  attached <- lapply(seq_along(search()), as.environment)
  packages <- startsWith(search(), "package:")
  # Packages' exports and imports are the promises of their namespaces, until R 4.6 copies them.
  copies <- if (copies_promises) c(attached[packages], lapply(spaces, parent.env))
  stay <- unique(Filter(is.environment, c(baseenv(), spaces, copies, tables, lazy)))
  others <- Filter(is.environment, c(attached[!packages], others))
  # An error: R considers one of them under evaluation.
  tryCatch(
    {
      left <- .Call(ffi_promises_left, stay, others)
      all(vapply(left, function(one) is.null(one) || finish_in(one[[1L]], one[[2L]]), NA))
    },
    error = function(e) FALSE
  )
}

copies_promises <- getRversion() >= "4.6.0"

# An environment of a package that R was reading from the package's file when the interrupt came is
# registered and empty; whoever reads one of its functions later would get it as it is. So which are
# being read is noted while the frames of R's hook for that are still there (see lazyLoadDBexec()).
note_half_read <- function(interrupt) {
  suspendInterrupts(for (i in seq_len(sys.nframe())) {
    frame <- sys.frame(i)
    file <- environment(sys.function(i))
    if (is.environment(file) && identical(sys.function(i), file$envhook)) {
      the_worker$half_read <- c(the_worker$half_read, list(list(file = file, key = frame$n)))
    }
  })
}

# Has the hook fill in the environments that are there, in place of new ones. FALSE if it can't.
finish_half_read <- function() {
  half <- the_worker$half_read
  the_worker$half_read <- NULL
  all(vapply(half, function(one) {
    env <- one$file$envenv[[one$key]]
    hook <- one$file$envhook
    environment(hook) <- list2env(list(
      existsInFrame = function(x, env) FALSE, mkenv = function() env, envenv = new.env()
    ), parent = one$file)
    is.null(env) || tryCatch(is.environment(hook(one$key)), error = function(e) FALSE)
  }, NA))
}

finish_in <- function(env, names) {
  for (name in names) {
    code <- do.call(substitute, list(as.name(name), env))
    if (!is.call(code) || !identical(code[[1L]], quote(lazyLoadDBfetch))) {
      return(FALSE)
    }
    suppressWarnings(get(name, env))
  }
  TRUE
}

# Restores the variables of the global environment, and of environments bound there.
put_frames_back <- function() {
  for (frame in .Call(ffi_worker_frames)) {
    if (!is.null(frame)) tryCatch(put_frame_back(frame), error = function(e) NULL)
  }
}

put_frame_back <- function(frame) {
  env <- frame$frame
  new <- setdiff(ls(env, all.names = TRUE, sorted = FALSE), frame$had)
  if (identical(env, globalenv())) new <- setdiff(new, ".Random.seed")
  rm(list = new, envir = env)
  names(frame$values) <- frame$changed
  locked <- vapply(frame$changed, function(name) {
    exists(name, env, inherits = FALSE) && bindingIsLocked(name, env)
  }, NA)
  list2env(frame$values[!locked], env)
}

# new: do options stay that weren't there before?
put_options_back <- function(before, new = FALSE) {
  now <- options()
  then <- before$options
  gone <- if (!new) setdiff(names(now), names(then))
  options(structure(vector("list", length(gone)), names = gone))
  same <- vapply(names(then), function(name) identical(now[[name]], then[[name]]), NA)
  options(then[!same])
}

# Detaches what was attached. What was detached stays detached.
put_search_back <- function(before) {
  for (at in rev(seq_along(search())[-1L])) {
    attached <- as.environment(at)
    there <- any(vapply(before$search, identical, NA, attached))
    if (!there) detach(pos = at, force = TRUE, character.only = TRUE)
  }
}

put_directory_back <- function(before) {
  if (!identical(getwd(), before$directory)) set_directory(before$directory)
}

put_seed_back <- function(before) {
  if (is.null(before$seed)) {
    rm(list = intersect(".Random.seed", ls(globalenv(), all.names = TRUE)), envir = globalenv())
  } else {
    assign(".Random.seed", before$seed, globalenv())
  }
}

# The last message of a worker that still has, or may have, a change of an interrupted call: only
# its standby is without it.
say_torn <- function() {
  the_worker$torn <- TRUE
  cat("muster: a call was interrupted. This worker restarts, to undo what the call has",
    "changed\n", file = stderr()
  )
}
