# Variables that the workers of a call have already, by clusterExport() or cluster_share(): they
# aren't sent with functions that use them. What a variable holds is told by a hash
# (src/ffi/value/content.c), of the value that was exported, of the one that the session has when a
# function needs it, and of the one that the worker finds (worker-map.R): all three must be one.

# Smaller ones are sent: that costs less than to tell them apart.
export_bytes <- 1e6

# Called from C code for each such message. what: list(node, arguments, number of the message,
# whether it is large: then one goes to all nodes).
note_export <- function(what) {
  args <- what[[2L]]
  values <- if (length(args) == 1L) args[[1L]] else structure(args[2L], names = args[[1L]])
  # Sequences are small on the way. What is large must not be kept in memory for this.
  key <- if (what[[4L]]) what[[3L]] else args
  if (!identical(the_map$exported$key, key)) {
    the_map$exported <- list(key = key, content = vapply(values, export_content, ""))
  }
  node <- what[[1L]]
  id <- as.character(.subset2(node, "id"))
  for (i in seq_along(values)) {
    note_content(id, names(values)[i], the_map$exported$content[[i]], .subset2(node, "rank"))
  }
}

export_content <- function(value) {
  if (is_export(value)) .Call(ffi_content, value) else NA_character_
}

is_export <- function(value) utils::object.size(value) >= export_bytes

note_content <- function(id, name, content, rank) {
  known <- the_map$exports[[id]][[name]]
  ranks <- if (identical(known$content, content)) c(known$ranks, rank) else rank
  export <- if (!is.na(content)) list(content = content, ranks = unique(ranks))
  the_map$exports[[id]][[name]] <- export
}

# Workers that joined have what all others were told.
note_joined <- function(pointer, id, ranks) {
  state <- vapply(.Call(ffi_cluster_status, pointer), `[[`, "", "state")
  others <- setdiff(which(!state %in% c("lost", "stopped", "left")), ranks)
  for (name in names(the_map$exports[[id]])) {
    known <- the_map$exports[[id]][[name]]$ranks
    if (all(others %in% known)) the_map$exports[[id]][[name]]$ranks <- union(known, ranks)
  }
}

# Of clusters that are gone.
drop_exports <- function() {
  there <- names(the_map$exports) %in% as.character(.Call(ffi_cluster_ids))
  the_map$exports <- the_map$exports[there]
}

# found: what find_needs() is about to give. What all of these workers have goes from its globals,
# and from what would stay behind, to `there`: the variables' hashes, by name.
without_exports <- function(found, cl) {
  exports <- exports_of(cl)
  for (name in intersect(c(names(found$globals), found$left), names(exports))) {
    sent <- name %in% names(found$globals)
    value <- if (sent) found$globals[[name]] else get0(name, globalenv(), inherits = FALSE)
    if (!identical(export_content(value), exports[[name]]$content)) next
    found$globals[[name]] <- NULL
    found$left <- setdiff(found$left, name)
    found$there[[name]] <- exports[[name]]$content
  }
  found
}

exports_of <- function(cl) {
  if (!length(the_map$exports) || !inherits(cl, "cluster") || !length(cl)) {
    return(NULL)
  }
  nodes <- Filter(function(node) inherits(node, "muster_node"), unclass(cl))
  ids <- unique(vapply(nodes, function(node) as.character(.subset2(node, "id")), ""))
  if (length(nodes) < length(cl) || length(ids) != 1L) {
    return(NULL)
  }
  ranks <- vapply(nodes, function(node) .subset2(node, "rank"), 0L)
  Filter(function(known) all(ranks %in% known$ranks), the_map$exports[[ids]])
}
