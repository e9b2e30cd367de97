# How much memory the workers of a cluster may use for parts and blocks: together, not each. What is
# beyond goes to files (worker-parts.R). Results never depend on it.
#
# Each answer of a task says what its worker holds, and each task how much its worker may hold: what
# others hold, or may hold because a task of theirs still runs, is left to them. So all of them
# together stay within the limit, whoever answers when.

# How many bytes a worker may hold from now on. held: what each holds. claimed: what each may hold
# that has a task, NA for the others. memory: for all. What is left is divided among those without a
# task.
memory_share <- function(worker, held, claimed, memory) {
  others <- claimed[-worker]
  idle <- is.na(others)
  others[idle] <- held[-worker][idle]
  left <- memory - sum(others) - held[worker]
  max(0, held[worker] + if (left > 0) left / (1 + sum(idle)) else left)
}

# The options, read when a run begins: list(bytes, folder), each NULL if it isn't set.
memory_options <- function(call) {
  bytes <- getOption("muster.shuffle_memory")
  good <- is.numeric(bytes) && length(bytes) == 1L && !is.na(bytes) && bytes >= 0
  if (!is.null(bytes) && !good) {
    abort_input("options(muster.shuffle_memory)", "NULL or a number of bytes", bytes, call)
  }
  folder <- getOption("muster.shuffle_folder")
  if (!is.null(folder)) {
    folder <- path.expand(check_string(folder, "options(muster.shuffle_folder)", call))
    # Workers, and the session later on, are in other folders.
    if (!startsWith(folder, "/")) folder <- file.path(getwd(), folder)
  }
  list(bytes = if (good) as.double(bytes), folder = folder)
}

# The bytes for all workers. By default half of what is free once each has room to work in: R's own
# memory, which fork() has shared so far, and several times the largest part.
shuffle_memory <- function(run) {
  if (!is.null(run$memory$bytes)) {
    return(run$memory$bytes)
  }
  work <- sum(run$ours) * max(run$heap, 6 * run$largest)
  max(0, run$free - work) / 2
}

# workers: from ffi_cluster_workers(). One that was replaced, or is gone, holds nothing.
memory_see <- function(shuffle, workers) {
  if (identical(workers, shuffle$seen)) {
    return()
  }
  held <- double(nrow(workers))
  epochs <- shuffle$seen[, 1L]
  known <- seq_along(epochs)
  same <- workers[known, 1L] == epochs & workers[known, 2L] != worker_is[["gone"]]
  held[known][same] <- shuffle$held[same]
  for (worker in which(!same)) remove_files(shuffle, c(worker, epochs[worker]))
  shuffle$held <- held
  shuffle$seen <- workers
}

# What goes with a task, see parts_fit().
memory_room <- function(run, worker) {
  shuffle <- run$shuffle
  busy <- vapply(run$about, `[[`, 0L, "worker")
  claimed <- rep(NA_real_, length(shuffle$held))
  claimed[busy] <- run$claimed[busy]
  bytes <- memory_share(worker, shuffle$held, claimed, shuffle_memory(run))
  run$claimed[worker] <- bytes
  list(bytes = bytes, folder = run$memory$folder, tag = shuffle$tag, heap = run$heap)
}

# In names of files: the session's host and process, so that files of killed ones are known.
memory_tag <- function() paste(memory_host(), Sys.getpid(), basename(tempfile("")), sep = "_")

memory_host <- function() gsub("[^[:alnum:].]", "", Sys.info()[["nodename"]])

# A run's files may be in this folder from now on.
memory_use_folder <- function(shuffle, folder) {
  if (is.null(folder) || folder %in% shuffle$folders) {
    return()
  }
  shuffle$folders <- c(shuffle$folders, folder)
  # Those that killed sessions have left.
  start <- paste0("^(blocks|part)-", memory_host(), "_([0-9]{1,9})_.*$")
  files <- list.files(folder, start)
  owners <- as.integer(sub(start, "\\2", files))
  files <- file.path(folder, files[!vapply(owners, process_runs, NA)])
  unlink(Filter(owned_by_us, files))
}

# Files in `muster.shuffle_folder` that a killed worker, or a stopped cluster, has left. self: of a
# worker, from ffi_worker_self(). Those in temporary directories go with these.
remove_files <- function(shuffle, self = NULL) {
  pattern <- paste0("^(blocks|part)-", paste(c(shuffle$tag, self, ""), collapse = "-"))
  for (folder in shuffle$folders) unlink(list.files(folder, pattern, full.names = TRUE))
}
