# Futures in a worker, see parallel-future.R.

# Evaluates a future. What it leaves in the global environment is taken back, and nothing of it is
# kept for a worker that takes this one's place: any worker may get the next future.
future_run <- function(data, gc) {
  run_to_end()
  # Conditions that future doesn't relay are none of the session's.
  the_worker$say <- function(said) NULL
  check_future()
  evaluate <- get("evalFuture", envir = asNamespace("future"), mode = "function")
  on.exit(end_future(gc))
  interruptible(evaluate(data))
}

end_future <- function(gc) {
  the_worker$say <- NULL
  put_frames_back()
  .Call(ffi_worker_track)
  if (gc) gc()
}

# A host has a library of its own, and so may have an older version.
check_future <- function() {
  version <- getNamespaceVersion("future")[[1L]]
  if (package_version(version) >= future_needed) {
    return(invisible())
  }
  host <- node_name()
  abort_muster("input", paste0(
      "Package future ", version, " on host \"", host, "\" is too old: muster_future needs ",
      future_needed, " or newer there."
    ),
    hints = "Update it there, for the R that is started: install.packages(\"future\").",
    package = "future", version = version, needed = future_needed, host = host, call = NULL
  )
}
