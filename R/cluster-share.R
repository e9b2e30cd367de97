#' Give all workers large data at once
#'
#' `cluster_share()` writes values to shared memory once and binds them to names in the
#' global environment of every worker. All workers, however many, read the same memory. As
#' with [parallel::clusterExport()], a worker that is lost and replaced gets them again.
#'
#' Vectors of at least 4 kB are shared: logical, integer, numeric, complex, raw and character
#' vectors with their attributes (so factors, dates, matrices and arrays too), including those
#' inside lists and data frames. In workers they are vectors like any other. Everything else
#' (functions, environments, S4 objects with slots, strings in the locale's own encoding that
#' aren't ASCII) is sent as usual.
#'
#' Workers share a vector as long as they only read it. A worker's changes are visible to no other
#' process:
#' * `x[1] <- -1` first copies the whole vector into the worker's own memory. C code that writes
#'   into a vector in place copies only the pages (4 kB) that it writes to.
#' * Strings are shared until a worker first uses one. It then makes its own vector for them,
#'   which takes 8 bytes for each element plus one copy of each distinct string that was used. If
#'   many strings are repeated, share a factor instead: its codes stay shared.
#'
#' Arguments and results of all calls to a cluster are shared in the same way automatically, for
#' vectors of `getOption("muster.share_min")` bytes or more, by default 256 kB: so
#' [parallel::clusterExport()], [parallel::parLapply()], [task_submit()] and so on don't copy
#' large data through sockets. `options(muster.share_min = Inf)`, set before the cluster is
#' started, turns that off. Where the system has no such memory (macOS, Linux before 3.17) or
#' forbids it, everything goes through sockets.
#'
#' The memory is freed when the last vector that uses it is gone, in the session and in all
#' workers, and the cluster's journal (see [cluster_journal()]) no longer has the call: healing
#' needs the values that workers were given. The memory has no name in any file system, so it
#' can't be left behind, however processes end.
#'
#' @param cl A cluster from [cluster_start()].
#' @param ... Values, each with the name that it will have in the workers. A name that is already
#'   bound there gets the new value.
#' @returns `NULL`, invisibly.
#' @section Errors:
#' `muster_error_input`: `cl` isn't a muster cluster, a value has no name, or two values have the
#' same name. `muster_error_memory`: there isn't enough memory for the values, judging by the
#' memory that the system has available and the limits of control groups; with fields `bytes`
#' (wanted) and `free`. Nothing was sent, and the cluster remains usable. Results that don't fit
#' raise the same class. A process that has as many memory mappings as the kernel allows
#' (`vm.max_map_count`, 65,530 by default) raises it too, and says so: each call or result with
#' shared vectors that is still in use takes a mapping in every process that reads it.
#' @section Cost:
#' One copy of the values into shared memory, at 3 to 4 GB/s, and about 100 us for each worker.
#' @section Source:
#' memfd_create(2) and file seals, see fcntl(2); R's ALTREP.
#' @examples
#' cl <- cluster_start(2)
#' cluster_share(cl, numbers = runif(1e6))
#' clusterEvalQ(cl, mean(numbers))
#' cluster_stop(cl)
#' @export
cluster_share <- function(cl, ...) {
  check_cluster(cl, sys.call(), here = TRUE)
  values <- check_values(list(...), sys.call())
  if (is_here(cl)) {
    for (name in names(values)) export_here(cl[[1L]], name, values[[name]], sys.call())
  } else if (length(values)) {
    .Call(ffi_share_always, TRUE)
    on.exit(.Call(ffi_share_always, FALSE))
    parallel::clusterCall(cl, bind_values, values)
  }
  invisible()
}

# In workers.
bind_values <- function(values) {
  list2env(values, globalenv())
  NULL
}

check_values <- function(values, call) {
  names <- names(values)
  if (length(values) && (is.null(names) || anyNA(names) || !all(nzchar(names)))) {
    abort_muster("input", "Each value of `...` must have a name.",
      hints = "As in cluster_share(cl, x = x).", argument = "...", call = call
    )
  }
  if (anyDuplicated(names)) {
    abort_muster("input", paste0(
      "The names of `...` must differ, and \"", names[anyDuplicated(names)],
      "\" is given more than once."
    ), argument = "...", call = call)
  }
  values
}

# The option's value, as it is sent to workers; the default is in C code.
share_min <- function() {
  min <- getOption("muster.share_min")
  if (is.numeric(min) && length(min) == 1L && !is.na(min)) as.double(min)
}

# Called from C when a message, or an answer, doesn't fit into the memory that is free.
# facts: bytes wanted; bytes free; 1 if a control group's limit leaves so few; 1 if
# the message came from another process; memory mappings of this process, and how many it may
# have, negative where the system doesn't tell.
abort_memory <- function(facts) {
  bytes <- facts[1L]
  free <- facts[2L]
  what <- c("send a message", "return a value", "read an answer", "read a call")
  at_mappings <- is_mappings_limit(facts[5L], facts[6L])
  abort_muster("memory",
    paste0(
      "Can't ", what[1L + the$worker + 2 * facts[4L]], " of ", bytes_text(bytes), ": ",
      if (at_mappings) "this process has too many memory mappings."
      else "there isn't enough memory."
    ),
    details = if (at_mappings) {
      mappings_text(facts[5L], facts[6L])
    } else {
      memory_text(free, facts[3L] == 1, free > 2 * bytes)
    },
    hints = if (at_mappings) {
      c(
        paste("As root:", set_sysctl("vm.max_map_count", mappings_enough(facts[6L]))),
        "Or share fewer, larger vectors, and drop those that you no longer need."
      )
    } else {
      "Send smaller pieces, or fewer at a time."
    },
    bytes = bytes, free = free,
    call = if (the$worker) NULL else verb_call()
  )
}

# Called from C when a message came with shared memory whose descriptor this process had no room
# for: it is lost, and the message with it.
abort_descriptors <- function(bytes) {
  limit <- .Call(ffi_limits)[1L]
  abort_muster("limit",
    paste0(
      "Can't read ", if (the$worker) "a call" else "an answer", " of ", bytes_text(bytes), ": ",
      if (the$worker) "this worker" else "this process", " has no file descriptor left."
    ),
    details = c(
      paste0("It may have ", format(limit, scientific = FALSE), " (`ulimit -n`)."),
      "Large values travel in shared memory, which takes a descriptor."
    ),
    hints = paste0(
      "Close connections and sockets that are no longer needed, or raise the limit before R ",
      "starts; then call again."
    ),
    bytes = bytes, limit = limit, call = if (the$worker) NULL else verb_call()
  )
}

# The kernel refuses another mapping at its limit. Some mappings may have been removed since the
# error was raised.
is_mappings_limit <- function(count, limit) {
  count >= 0 && limit > 0 && count >= limit - min(64, limit / 10)
}

mappings_text <- function(count, limit) {
  paste0(
    "It has ", count_text(count), ", and the kernel allows ", count_text(limit),
    " (vm.max_map_count). Each block of shared memory takes one."
  )
}

# What to set the limit to: four times what the kernel has by default, or has now.
mappings_enough <- function(limit) format(max(262144, 4 * limit), scientific = FALSE)

# limited: the system has plenty of memory, so a limit on this process must be the cause.
memory_text <- function(free, group, limited) {
  if (free >= 2^60) {
    return(NULL)
  }
  if (limited) {
    return("The system has enough, but this process's limit is reached: see `ulimit -v`.")
  }
  paste0(
    bytes_text(free), " are free",
    if (group) " below the memory limit of this process's control group", "."
  )
}

bytes_text <- function(bytes) {
  units <- c("bytes", "kB", "MB", "GB", "TB")
  power <- min(4, max(0, floor(log(max(bytes, 1), 1000))))
  number <- format(bytes / 1000^power, digits = 3L, decimal.mark = ".")
  paste(number, units[power + 1])
}

# A message that a worker had no memory or no descriptor for is an error of its own kind here.
check_answer <- function(value, rank) {
  memory <- inherits(value, "muster_error_memory")
  if (memory || inherits(value, "muster_error_limit")) {
    abort_muster(c(if (memory) "memory" else "limit", "remote"),
      paste0(
        "Worker ", rank, " doesn't have enough ", if (memory) "memory." else "file descriptors."
      ),
      details = sub("^[xi] ", "", strsplit(unclass(value), "\n", fixed = TRUE)[[1L]]),
      worker = rank, call = verb_call()
    )
  }
}
