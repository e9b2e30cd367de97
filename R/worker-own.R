# In workers: variables that a job doesn't contain, since clusterExport() or cluster_share() has
# sent them here. The session's side is map-exports.R.

# there: hashes of the session's values, by name. Returns the values.
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
