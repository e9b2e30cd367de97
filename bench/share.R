# How long until 100 MB are in every worker, and back?
#
# clusterExport() of 100 MB of numbers to 4 workers, beside clusterExport() on parallel's,
# to 4 and to 64 workers of muster, and as a value back from one worker. Each worker has the
# vector when the call returns; the limit is one write of the bytes to a file in memory.
# Memory: what 200 MB take in 8 workers, after each has run sum(), sort() and quantile().

measure <- function(quick) {
  size <- if (quick) 12.5e5 else 12.5e6
  rounds <- if (quick) 3L else 15L
  chosen <- select_peers(c("muster", "parallel"), 4L)
  assign("shared_numbers", runif(size), globalenv())
  clusters <- list(muster = peers$muster$start(4L), parallel = peers$parallel$start(4L))
  on.exit(for (peer in names(clusters)) peers[[peer]]$stop(clusters[[peer]]))
  raw <- rbind(
    measure_out(clusters, rounds, size), measure_back(clusters, rounds),
    measure_many(clusters, 64L, rounds), measure_memory(size, quick)
  )
  list(raw = raw, rows = share_rows(raw), notes = c(chosen$notes, share_note(raw)))
}

export_numbers <- function(cl) parallel::clusterExport(cl, "shared_numbers", globalenv())

measure_out <- function(clusters, rounds, size) {
  for (cl in clusters) export_numbers(cl)
  arms <- c(muster = rounds, parallel = min(rounds, 11L), limit = rounds)
  interleave("100 MB to 4 workers", arms, function(arm) {
    if (arm == "limit") {
      write_limit(size)
    } else {
      time_of(export_numbers(clusters[[arm]]))
    }
  })
}

# A write of the same bytes to a file in memory.
write_limit <- function(size) {
  file <- tempfile(tmpdir = "/dev/shm")
  on.exit(unlink(file))
  connection <- file(file, "wb", raw = TRUE)
  on.exit(close(connection), add = TRUE, after = FALSE)
  numbers <- get("shared_numbers", globalenv())
  time_of(writeBin(numbers, connection))
}

measure_back <- function(clusters, rounds) {
  give <- in_global(function() shared_numbers)
  for (cl in clusters) parallel::clusterCall(cl[1], give)
  arms <- c(muster = rounds, parallel = min(rounds, 11L))
  interleave("100 MB back from a worker", arms, function(arm) {
    time_of(parallel::clusterCall(clusters[[arm]][1], give))
  })
}

measure_many <- function(clusters, many, rounds) {
  more <- peers$muster$start(many)
  on.exit(peers$muster$stop(more))
  export_numbers(more)
  interleave("100 MB to 4 and to 64 workers of muster", c(four = rounds, many = rounds),
    function(arm) time_of(export_numbers(if (arm == "many") more else clusters$muster))
  )
}

# What the shared vector takes in all 8 workers, in times its size: each page counts once
# (Pss), and a page that a worker had copied for itself counts for that worker too.
measure_memory <- function(size, quick) {
  cl <- peers$muster$start(8L)
  on.exit(peers$muster$stop(cl))
  numbers <- runif(2 * size)
  muster::cluster_share(cl, memory_numbers = numbers)
  use <- in_global(function() {
    c(sum(memory_numbers), sort(memory_numbers)[1L], stats::quantile(memory_numbers)[[2L]])
  })
  parallel::clusterCall(cl, use)
  look <- in_global(function() {
    lines <- readLines("/proc/self/smaps")
    header <- grepl("^[0-9a-f]+-[0-9a-f]+ ", lines)
    mapping <- cumsum(header)
    ours <- mapping %in% mapping[header & grepl("/memfd:muster", lines, fixed = TRUE)]
    pss <- grep("^Pss:", lines[ours], value = TRUE)
    sum(as.numeric(gsub("[^0-9]", "", pss))) * 1024
  })
  bytes <- sum(unlist(parallel::clusterCall(cl, look)))
  data.frame(case = "memory for 8 workers", round = 1L, arm = "muster",
    value = bytes / (8 * length(numbers)), unit = "times the size")
}

share_note <- function(raw) {
  median_of <- function(arm) median(values(raw, "100 MB to 4 and to 64 workers of muster", arm))
  c(
    sprintf("To 64 workers it takes %.2f times as long as to 4.",
      median_of("many") / median_of("four")
    ),
    sprintf("8 workers that have and use a vector take %.2f times its size, in all.",
      values(raw, "memory for 8 workers", "muster")[1]
    )
  )
}

share_rows <- function(raw) {
  rbind(
    compare(raw, "100 MB to 4 workers", "parallel", limit = "limit", bar = ratio_bar(15)),
    compare(raw, "100 MB back from a worker", "parallel", bar = ratio_bar(5))
  )
}
