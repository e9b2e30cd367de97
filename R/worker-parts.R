# Parts that a worker has: in memory or, past what it may hold, in files.
#
# Problem: parts of all stages that have handles stay, and together they may be larger than memory.
#
# Way chosen: with each task comes how many bytes this worker may hold (partition-memory.R). Past
# that, the parts used longest ago go to files, each in the form that blocks have, with checksums; a
# part that is used is read and is in memory again, and its file stays, so that the next time
# nothing is written. A file that has changed is a part that isn't here: it is made again. When a
# file can't be written the part stays in memory.
#
# Not chosen: mapping the files, which would spare the copy, but not reading all bytes for the
# checksum. Whoever cuts a mapped file ends this process, and changes after the check would be wrong
# values.
#
# All of this runs where no interrupt comes in between, see run_to_end().

# the_worker$parts has for each part list(key, attempt, data (NULL: only in its file), weight, file
# (is there one?), stays (it can't be in one)).
part_name <- function(key) paste(key[1L], key[2L])

part_keep <- function(key, data) {
  types <- attr(data, "row_types", exact = TRUE)
  if (!is.null(types)) attr(data, "row_types") <- NULL
  data <- compact_strings(data)
  name <- part_name(key)
  if (!is.null(the_worker$parts[[name]])) part_drop(the_worker$parts[[name]]$key)
  weight <- .Call(ffi_part_weight, data)
  bytes <- frame_bytes(data)
  the_worker$parts[[name]] <- list(
    key = as.integer(key), attempt = key[3L], data = data, file = FALSE,
    weight = if (is.finite(weight)) weight else bytes,
    # Below a page there is nothing to gain.
    stays = !is.finite(weight) || weight < 4096 || !frame_rows(data)
  )
  note_use(name)
  answer <- list(rows = frame_rows(data), bytes = bytes, columns = names(data))
  if (!is.null(types)) answer$row_types <- types
  answer$units <- units_of(data)
  answer
}

note_use <- function(name) {
  kept <- the_worker$parts[[name]]
  kind <- if (kept$stays) "fixed" else "warm"
  others <- the_worker[[kind]][names(the_worker[[kind]]) != name]
  the_worker[[kind]] <- c(others, stats::setNames(kept$weight, name))
}

# The rows of a part, NULL if it isn't here.
part_data <- function(key) {
  name <- part_name(key)
  kept <- the_worker$parts[[name]]
  if (is.null(kept) || kept$attempt != key[3L]) {
    return(NULL)
  }
  data <- kept$data
  if (is.null(data)) {
    data <- tryCatch(.Call(ffi_part_read, kept$key), error = function(e) NULL)
    if (!is.data.frame(data)) {
      part_drop(key)
      return(NULL)
    }
    the_worker$parts[[name]]$data <- data
  }
  note_use(name)
  data
}

# drop: stage, task (0: all), attempt.
part_drop <- function(drop) {
  .Call(ffi_block_drop, as.integer(drop))
  if (drop[2L] == 0L) {
    names <- as.character(names(the_worker$parts))
    gone <- names[startsWith(names, paste0(drop[1L], " "))]
  } else {
    kept <- the_worker$parts[[part_name(drop)]]
    gone <- if (!is.null(kept) && kept$attempt == drop[3L]) part_name(drop)
  }
  the_worker$parts[gone] <- NULL
  the_worker$warm <- the_worker$warm[!names(the_worker$warm) %in% gone]
  the_worker$fixed <- the_worker$fixed[!names(the_worker$fixed) %in% gone]
}

memory_held <- function() sum(the_worker$warm) + sum(the_worker$fixed) + .Call(ffi_block_held)

# Parts of so many bytes, together: R collects once when its heap is widened, too.
widen_from <- 2^24

# Has R collect less often from now on, once. Where the user has set a size or a limit, R's own
# settings stay.
widen_heap <- function(bytes) {
  if (the_worker$widened) {
    return(invisible())
  }
  the_worker$widened <- TRUE
  own <- any(nzchar(Sys.getenv(c("R_VSIZE", "R_MAX_VSIZE"))), grepl("vsize", commandArgs()))
  if (bytes > 2^26 && !own) .Call(ffi_heap_widen, bytes)
  invisible()
}

# Takes parts out of memory until this worker holds no more than it may. room: list(bytes, folder
# (NULL: the temporary directory), tag, heap), from the session; see worker_heap(). more: bytes that
# are about to be added.
parts_fit <- function(room, more = 0) {
  held <- memory_held() + more
  if (held > widen_from) widen_heap(room$heap)
  over <- held - room$bytes
  # R lets that much garbage pile up before it collects: much where memory is little.
  the_worker$tight <- over > 0 || room$bytes < 2 * room$heap
  for (name in names(the_worker$warm)) {
    if (over <= 0) break
    if (!part_rest(name, room)) next
    weight <- the_worker$parts[[name]]$weight
    over <- over - weight
    the_worker$rested <- the_worker$rested + weight
  }
  # Collecting takes tens of milliseconds.
  if (the_worker$rested > 2^23) {
    the_worker$rested <- 0
    .Call(ffi_memory_return)
  }
}

# Whether a part is only in its file now.
part_rest <- function(name, room) {
  kept <- the_worker$parts[[name]]
  written <- kept$file || part_write_file(kept, room)
  the_worker$warm <- the_worker$warm[names(the_worker$warm) != name]
  if (written) {
    the_worker$parts[[name]]$file <- TRUE
    the_worker$parts[[name]]["data"] <- list(NULL)
  } else {
    the_worker$parts[[name]]$stays <- TRUE
    note_use(name)
  }
  written
}

part_write_file <- function(kept, room) {
  path <- file_path(room, "part", kept$key)
  written <- tryCatch(
    .Call(ffi_block_write, list(kept$data), frame_rows(kept$data), kept$key, c(0, -1), path),
    error = function(e) list()
  )
  if (is.list(written)) unlink(path)
  !is.list(written)
}

# Names begin as remove_files() expects them, and name this worker's incarnation.
file_path <- function(room, kind, key) {
  folder <- if (is.null(room$folder)) tempdir() else room$folder
  file.path(folder, paste(c(kind, room$tag, .Call(ffi_worker_self), key), collapse = "-"))
}
