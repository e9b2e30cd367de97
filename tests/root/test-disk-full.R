# A shuffle on a file system of its own, which is small.

source("../testthat/helper-partition.R", local = TRUE)

# A folder of its own with room for 1 MB.
local_small_disk <- function(frame = parent.frame()) {
  skip_unless_root()
  folder <- local_folder(frame)
  skip_if(system2("mount", c("-t", "tmpfs", "-o", "size=1m", "tmpfs", folder)) != 0L,
    "can't mount here"
  )
  defer(function() system2("umount", c("-l", folder)), frame)
  folder
}

test_cluster("A disk that is full is a clear error, and everything remains usable", {
  limit_time(60)
  folder <- local_small_disk()
  local_settings(muster.quiet = TRUE)
  local_seed(7)
  n <- 300000L
  data <- data.frame(g = sample.int(500L, n, TRUE), x = rnorm(n), row = seq_len(n))
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data, parts = 4)
  local_settings(muster.shuffle_memory = 0, muster.shuffle_folder = folder)
  error <- expect_error(partition_shuffle(p, "g"), class = "muster_error_limit")
  expect_match(conditionMessage(error), "No space left")
  expect_true(error$part %in% 1:4)
  expect_true(error$worker %in% 1:2)
  expect_match(conditionMessage(error), paste("On worker", error$worker), fixed = TRUE)
  # The other worker may still be in the middle of its own.
  clusterCall(cl, Sys.getpid)
  expect_identical(list.files(folder, pattern = paste0("-", error$part, "-1$")), character())
  local_settings(muster.shuffle_memory = NULL)
  expect_identical(nrow(partition_collect(partition_shuffle(p, "g"))), n)
  gc()
  expect_identical(list.files(folder), character())
})

test_cluster("A disk that is full leaves the folder that partition_write() was to replace", {
  limit_time(60)
  folder <- local_small_disk()
  local_settings(muster.quiet = TRUE)
  local_seed(7)
  target <- file.path(folder, "out")
  cl <- local_cluster(2)
  old <- data.frame(id = 1:10, x = 0.5)
  partition_write(partition_scatter(cl, old, parts = 2), target, "rds")
  p <- partition_scatter(cl, data.frame(id = 1:300000, x = rnorm(300000)), parts = 4)
  formats <- list(list("csv"), list("rds"), list("rds", compress = FALSE))
  if (requireNamespace("nanoparquet", quietly = TRUE)) formats <- c(formats, list(list("parquet")))
  for (format in formats) {
    error <- expect_error(
      do.call(partition_write, c(list(p, target), format, list(overwrite = TRUE))),
      class = "muster_error_limit"
    )
    expect_match(conditionMessage(error), "No space left|enough space")
    expect_true(startsWith(error$file, file.path(target, "part-0000")))
    clusterCall(cl, Sys.getpid) # the other worker has ended its own
    expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "out")
    expect_identical(partition_collect(partition_read(cl, target)), old)
  }
})

test_cluster("Parts for which the disk has no room stay in memory", {
  limit_time(60)
  folder <- local_small_disk()
  local_settings(
    muster.quiet = TRUE, muster.shuffle_memory = 0, muster.shuffle_folder = folder
  )
  n <- 300000L
  data <- data.frame(g = rep(1:500, n / 500), x = seq_len(n) / 2)
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data, parts = 6)
  doubled <- partition_map(p, function(part) transform(part, x = x * 2))
  expect_identical(partition_collect(doubled)$x, as.numeric(seq_len(n)))
  expect_identical(partition_collect(p), data)
  # What was begun is gone; a part that fits may be there.
  files <- list.files(folder, full.names = TRUE)
  expect_lt(length(files), 2L)
  expect_true(all(startsWith(basename(files), "part-") & file.size(files) > n / 6 * 12))
  rm(p, doubled)
  gc()
  expect_identical(nrow(partition_scatter(cl, data[1:10, ], parts = 2)), 10L)
  gc()
  clusterCall(cl, Sys.getpid)
  expect_identical(length(list.files(folder)), 0L)
})
