# Random numbers of maps, tasks and partitions: which streams they draw from.

# map_stream() gives the L'Ecuyer stream from which elements, or tasks, have streams of their own;
# NULL where they draw from the workers' own. The session's own stream stays as it is, but for
# seed = TRUE.
map_stream <- function(seed, cl, call) {
  if (is.null(seed) || identical(seed, FALSE)) {
    seed <- if (length(the$streams)) ruled_seed(cl)
    if (is.null(seed)) {
      return(NULL)
    }
  } else if (identical(seed, TRUE)) {
    seed <- sample.int(.Machine$integer.max, 1L)
  }
  whole <- is.numeric(seed) && length(seed) == 1L && !is.na(seed) && seed == trunc(seed)
  if (!whole || abs(seed) > .Machine$integer.max) {
    abort_input(".seed", "TRUE, FALSE, NULL or one whole number", seed, call)
  }
  kept <- keep_stream()
  on.exit(kept())
  RNGkind("L'Ecuyer-CMRG", "default", "default")
  set.seed(as.integer(seed))
  get(".Random.seed", globalenv())
}

# ---- clusterSetRNGStream()
#
# It gives each worker a stream. That rules parallel's verbs, which say what each worker does; who
# does what in a map isn't known before. So the stream that the first of the nodes was given also
# gives the seeds of maps and tasks on them, one after the other.

# Called from C code for each such message. what: list(node, stream).
note_stream <- function(what) {
  the$streams[[stream_key(what[[1L]])]] <- what[[2L]]
}

stream_key <- function(node) paste(.subset2(node, "id"), .subset2(node, "rank"))

ruled_seed <- function(cl) {
  ranks <- vapply(cl, function(node) .subset2(node, "rank"), 0L)
  key <- stream_key(cl[[which.min(ranks)]])
  stream <- the$streams[[key]]
  if (is.null(stream)) {
    return(NULL)
  }
  kept <- keep_stream()
  on.exit(kept())
  assign(".Random.seed", stream, globalenv())
  seed <- sample.int(.Machine$integer.max, 1L)
  the$streams[[key]] <- get(".Random.seed", globalenv())
  seed
}

# Streams of clusters that are gone.
drop_streams <- function() {
  id <- sub(" .*", "", names(the$streams))
  the$streams <- the$streams[id %in% as.character(.Call(ffi_cluster_ids)$id)]
}

# ---- Without any seed

# Called from C code when a task's value has come that moved its worker's own stream.
note_drawn <- function() the$drawn <- TRUE

# Once per session, where a result comes that can't be had again.
tell_drawn <- function(call) {
  if (!the$drawn || the$drawn_told) {
    return(invisible())
  }
  the$drawn_told <- TRUE
  warn_muster("seed", "Random numbers were drawn without a seed: this result can't be had again.",
    hints = c(
      "`.seed = 1`, or any whole number, makes it reproducible; so does clusterSetRNGStream().",
      "`.seed = NULL` says that it needn't be. You are told once per session."
    ),
    call = call
  )
}
