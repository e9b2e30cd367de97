# Plays runs of a shuffle: naive ones by the program of this folder, and muster's own. For
# run.R beside it and tests/netns/test-fetch.R.

fetch_settings <- c(
  "one-handler", "shuffle-service", "small-workers", "ten-handlers", "twenty-handlers"
)

# What plan.c has by default, for those who play the same by other means.
fetch_sizes <- list(hosts = 4L, maps = 20L, reducers = 10L, block = 1024L, somaxconn = 128L)

# Compiles the program into a folder. Stops where it can't.
fetch_build <- function(source, folder = tempdir()) {
  program <- file.path(folder, "fetch")
  cc <- system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE)[1L]
  log <- suppressWarnings(system2("env",
    c(shQuote(paste0("CC=", cc)), file.path(source, "build.sh"), shQuote(program)),
    stdout = TRUE, stderr = TRUE
  ))
  if (!is.null(attr(log, "status"))) {
    stop("bench/fetch can't be compiled:\n", paste(log, collapse = "\n"), call. = FALSE)
  }
  program
}

# Plays one run of a setting, or of one with some of plan.c's names changed, as in
# c(hosts = 8). Gives a row.
fetch_run <- function(program, setting, seed, changes = integer()) {
  changes <- c(changes, seed = seed)
  said <- suppressWarnings(system2(program,
    c(setting, sprintf("%s=%d", names(changes), as.integer(changes))),
    stdout = TRUE
  ))
  if (!is.null(attr(said, "status"))) {
    stop("a run of ", setting, " failed, with status ", attr(said, "status"), call. = FALSE)
  }
  names <- c(
    "seconds", "overflows", "drops", "syn_again", "copies", "broken", "slowest_ms", "bytes",
    "right"
  )
  figures <- stats::setNames(as.list(scan(text = said, quiet = TRUE)), names)
  data.frame(setting = setting, run = seed, figures)
}

# What full queues have cost in this session's network namespace.
fetch_counters <- function() {
  rows <- strsplit(grep("^TcpExt:", readLines("/proc/self/net/netstat"), value = TRUE), " ")
  values <- stats::setNames(as.numeric(rows[[2L]][-1L]), rows[[1L]][-1L])
  values[c("ListenOverflows", "ListenDrops", "TCPSynRetrans")]
}

# muster's default with as many workers, map tasks, reducers and bytes. Gives a function that
# plays one run, as a row, and has `cl`, the cluster, in its environment. Rows have a key of 4
# bytes and a value of 8; the keys of one reducer follow from their hash, so that blocks differ
# in size a little. The session is in a namespace of its own, whose queues are as short.
fetch_muster <- function(sizes = fetch_sizes) {
  # The machine's own limit must stay: a namespace with a loopback alone has no routes.
  if (length(readLines("/proc/self/net/route")) > 1L) {
    stop("this session isn't in a network namespace of its own", call. = FALSE)
  }
  writeLines(as.character(sizes$somaxconn), "/proc/sys/net/core/somaxconn")
  cl <- muster::cluster_start(sizes$hosts)
  tasks <- sizes$hosts * sizes$maps
  reducers <- sizes$hosts * sizes$reducers
  keys <- sizes$block %/% 12L * reducers
  data <- data.frame(
    key = rep(seq_len(keys), tasks), value = as.numeric(seq_len(keys * tasks))
  )
  parts <- muster::partition_scatter(cl, data, parts = tasks)
  wanted <- fetch_sums(data)
  rm(data)
  function(run) {
    before <- fetch_counters()
    began <- proc.time()[["elapsed"]]
    moved <- muster::partition_shuffle(parts, "key", parts = reducers)
    seconds <- proc.time()[["elapsed"]] - began
    counted <- fetch_counters() - before
    got <- muster::partition_collect(muster::partition_map(moved, fetch_sums))
    rm(moved)
    gc() # what was moved is dropped before the next run
    data.frame(
      setting = "muster", run = run, seconds = seconds, overflows = counted[[1L]],
      drops = counted[[2L]], syn_again = counted[[3L]], copies = 0, broken = 0,
      slowest_ms = NA, bytes = 12 * sum(got$rows),
      right = as.numeric(identical(colSums(got), colSums(wanted)))
    )
  }
}

# Sums that are exact, and differ if a row is lost, is there twice or has the wrong key, or
# a key is in two parts.
fetch_sums <- function(part) {
  data.frame(
    rows = as.numeric(nrow(part)), values = sum(part$value), both = sum(part$value * part$key),
    keys = as.numeric(length(unique(part$key)))
  )
}

# Which runs of one setting stalled: a block took a second or more because the kernel had
# dropped a packet; or, whatever the reason, the run took more than twice its setting's median,
# and at least half a second more.
fetch_stalled <- function(runs) {
  usual <- stats::median(runs$seconds)
  dropped <- runs$overflows > 0 & !is.na(runs$slowest_ms) & runs$slowest_ms >= 1000
  dropped | runs$seconds > pmax(2 * usual, usual + 0.5)
}
