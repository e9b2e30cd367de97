# In workers: variables that a job doesn't bring along, since clusterExport() or cluster_share() has
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
