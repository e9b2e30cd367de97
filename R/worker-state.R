# A worker's state as bytes, and back: what stands in a journal for all that came
# before it. Runs in workers.

# What options a worker had when it was ready.
note_options <- function() the$options <- options()

# worker_snapshot() gives a raw vector, or NULL if what this worker has can't be put into
# bytes and made again from them: external pointers (connections, models of other
# libraries), S4 classes and methods of its own, active bindings, data frames that were
# attached; or if it is large for the memory that is free: its bytes are here, on their way and in
# the session, and other workers are asked for theirs at the same time.
worker_snapshot <- function() {
  tryCatch(take_snapshot(), error = function(e) NULL)
}

take_snapshot <- function() {
  global <- globalenv()
  names <- setdiff(ls(global, all.names = TRUE, sorted = FALSE), ".Random.seed")
  bound <- vapply(names, bindingIsActive, NA, global)
  attached <- search()[-1L]
  strange <- setdiff(grep("^package:", attached, value = TRUE, invert = TRUE), the$search)
  if (any(bound) || length(strange) || any(grepl("^\\.__[CT]__", names))) {
    return(NULL)
  }
  globals <- mget(names, global)
  if (as.numeric(utils::object.size(globals)) > .Call(ffi_share_free) / 16) {
    return(NULL)
  }
  now <- options()
  changed <- !vapply(names(now), function(name) identical(now[[name]], the$options[[name]]), NA)
  state <- list(
    globals = globals,
    packages = grep("^package:", attached, value = TRUE),
    options = now[changed],
    options_gone = setdiff(names(the$options), names(now)),
    directory = getwd()
  )
  lasting <- TRUE
  bytes <- serialize(state, NULL, xdr = FALSE, refhook = function(x) {
    if (typeof(x) %in% c("externalptr", "weakref")) {
      lasting <<- FALSE
    }
    NULL
  })
  if (lasting) bytes
}

# worker_restore() makes this worker what the snapshot says. A worker that can't is of no
# use: it says why and ends.
worker_restore <- function(bytes) {
  failure <- first_error(restore_state(unserialize(bytes)))
  if (!is.null(failure)) {
    cat("can't restore this worker's state: ", failure, "\n", sep = "", file = stderr())
    quit(save = "no", status = 1L, runLast = FALSE)
  }
}

restore_state <- function(state) {
  for (name in setdiff(grep("^package:", search(), value = TRUE), state$packages)) {
    detach(name, character.only = TRUE)
  }
  for (name in rev(setdiff(state$packages, search()))) {
    attach_packages(sub("^package:", "", name))
  }
  global <- globalenv()
  rm(list = setdiff(ls(global, all.names = TRUE), ".Random.seed"), envir = global)
  list2env(state$globals, envir = global)
  options(state$options)
  options(structure(vector("list", length(state$options_gone)), names = state$options_gone))
  if (length(state$directory)) {
    set_directory(state$directory)
  }
}
