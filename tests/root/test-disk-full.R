# A shuffle on a file system of its own, which is small.

source("../testthat/helper-partition.R", local = TRUE)

test_cluster("A disk that is full is a clear error, and everything remains usable", {
  limit_time(60)
  skip_unless_root()
  folder <- local_folder()
  skip_if(system2("mount", c("-t", "tmpfs", "-o", "size=1m", "tmpfs", folder)) != 0L,
    "can't mount here"
  )
  defer(function() system2("umount", c("-l", folder)))
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
