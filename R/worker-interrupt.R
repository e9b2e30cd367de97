# What a worker does about a call that nobody wants any more: it was cancelled, took too long, or
# its verb was left. Only the user's code is interrupted, and what that has changed is undone.

# From here on the call runs to its end, but for what is interruptible(). What is muster's own
# around the user's code (packages are attached, globals lent and taken back) must not be left half
# done: such a worker would be of no use any more.
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

# Makes this worker what it was before the call that was interrupted. Called from C code, which then
# looks whether that was possible. FALSE: it wasn't.
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

# No promise that lives on stays half evaluated, see src/ffi/worker/promises.c. What a package has
# in its file is read now. FALSE if there are others: they run the user's code.
finish_promises <- function(others) {
  spaces <- lapply(setdiff(loadedNamespaces(), "base"), asNamespace)
  tables <- lapply(c(spaces, baseenv()), `[[`, ".__S3MethodsTable__.")
  lazy <- lapply(spaces, function(space) space[[".__NAMESPACE__."]]$lazydata)
  search <- lapply(seq_along(search()), as.environment)
  frames <- c(search, spaces, lapply(spaces, parent.env), tables, lazy, others)
  # An error: R takes one of them to be under evaluation.
  tryCatch(
    all(vapply(unique(Filter(is.environment, frames)), finish_promises_in, NA)),
    error = function(e) FALSE
  )
}

finish_promises_in <- function(env) {
  for (name in .Call(ffi_promises_left, env)) {
    code <- do.call(substitute, list(as.name(name), env))
    if (!is.call(code) || !identical(code[[1L]], quote(lazyLoadDBfetch))) {
      return(FALSE)
    }
    suppressWarnings(get(name, env))
  }
  TRUE
}

# The variables of the global environment, and of environments that are bound there.
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

put_options_back <- function(before) {
  now <- options()
  then <- before$options
  gone <- setdiff(names(now), names(then))
  options(structure(vector("list", length(gone)), names = gone))
  same <- vapply(names(then), function(name) identical(now[[name]], then[[name]]), NA)
  options(then[!same])
}

# What was attached goes. What was detached doesn't come back.
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

# The last words of a worker in which something of an interrupted call stays, or may stay, that only
# its standby is without.
say_torn <- function() {
  the$torn <- TRUE
  cat("muster: a call was interrupted. This worker restarts, to undo what the call has",
    "changed\n", file = stderr()
  )
}
