#' Give all workers large data at once
#'
#' `cluster_share()` writes values to shared memory once and binds them to names in the
#' global environment of every worker. All workers, however many, read the same memory. As
#' with [parallel::clusterExport()], a worker that is lost and replaced has them again.
#'
#' What is shared are vectors of at least 4 kB: logical, integer, numeric, complex, raw and
#' character vectors with their attributes (so factors, dates, matrices, arrays too), also
#' inside of lists and data frames. In workers they are vectors like any other. A worker that
#' changes one gets pages of its own for what it changes; nobody else sees that. Everything
#' else (functions, environments, S4 objects with slots, strings in the locale's own
#' encoding that aren't ASCII) is sent as always.
#'
#' The same happens by itself to arguments and results of all calls of a cluster, for vectors
#' from `getOption("muster.share_min")` bytes up, by default 256 kB: so
#' [parallel::clusterExport()], [parallel::parLapply()], [task_submit()] and so on don't copy
#' large data through sockets. `options(muster.share_min = Inf)`, set before the cluster is
#' started, switches that off. Where a system has no such memory (macOS, Linux
#' before 3.17, or when it is forbidden) all travels through sockets.
#'
#' The memory is freed when the last vector that uses it is gone, in the session and in all
#' workers, and, since healing needs what workers were given, when the cluster's journal
#' (see [cluster_journal()]) no longer has the call. It has no name anywhere and
#' can't be left behind, however processes end.
#'
#' @param cl A cluster of [cluster_start()].
#' @param ... Values, each with the name that it is to have in the workers. A name that is
#'   bound there already gets the new value.
#' @returns `NULL`, invisibly.
#' @section Errors:
#' `muster_error_input`: `cl` is no cluster of muster, or a value has no name, or one that
#' another has. `muster_error_memory`: there isn't enough memory for the values, by what
#' the system has available and by the limits of control groups; with fields `bytes` (wanted)
#' and `free`. Nothing was sent then, and the cluster can be used on. Results that don't fit
#' raise the same class.
#' @section Cost:
#' One copy of the values into shared memory, at 3 to 4 GB/s, and some 100 us a worker.
#' @section Source:
#' memfd_create(2) and file seals, see fcntl(2); R's ALTREP.
#' @examples
#' cl <- cluster_start(2)
#' cluster_share(cl, numbers = runif(1e6))
#' clusterEvalQ(cl, mean(numbers))
#' cluster_stop(cl)
#' @export
cluster_share <- function(cl, ...) {
  check_cluster(cl, sys.call())
  values <- check_values(list(...), sys.call())
  if (length(values)) {
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

# The option, as workers are told it; C code has the default.
share_min <- function() {
  min <- getOption("muster.share_min")
  if (is.numeric(min) && length(min) == 1L && !is.na(min)) as.double(min)
}

# Called from C when a message, or an answer, doesn't fit into the memory that is free.
# facts: bytes wanted, bytes free, 1 if a control group's limit is what leaves so few, 1 if
# it was to be read.
abort_memory <- function(facts) {
  bytes <- facts[1L]
  free <- facts[2L]
  what <- c("send a message", "return a value", "read an answer", "read a call")
  abort_muster("memory",
    paste0(
      "Can't ", what[1L + the$worker + 2 * facts[4L]], " of ", bytes_text(bytes),
      ": there isn't enough memory."
    ),
    details = memory_text(free, facts[3L] == 1, free > 2 * bytes),
    hints = "Send smaller pieces, or fewer at a time.",
    bytes = bytes, free = free,
    call = if (the$worker) NULL else verb_call()
  )
}

# limited: there is plenty, so it's this process that may not have it.
memory_text <- function(free, group, limited) {
  if (free >= 2^60) {
    return(NULL)
  }
  if (limited) {
    return("The system has enough, but this process may not have it: see `ulimit -v`.")
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

# An answer that didn't fit into memory is an error of its own kind here.
check_answer <- function(value, rank) {
  if (inherits(value, "muster_error_memory")) {
    abort_muster(c("memory", "remote"),
      paste0("Worker ", rank, " hasn't enough memory."),
      details = sub("^[xi] ", "", strsplit(unclass(value), "\n", fixed = TRUE)[[1L]]),
      worker = rank, call = verb_call()
    )
  }
}
