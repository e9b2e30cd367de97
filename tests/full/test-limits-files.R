# What happens where files may only have so many bytes (RLIMIT_FSIZE), as segments may then.

test_that("parts stay in memory, and rows that can't move are an error", {
  limit_time(60)
  folder <- local_folder()
  run <- run_session(ulimit = "-f 200", bquote({ # of 512 or 1,024 bytes
    options(muster.quiet = TRUE, muster.shuffle_folder = .(folder))
    cl <- cluster_start(2)
    n <- 300000L
    data <- data.frame(g = rep(1:500, n / 500), x = seq_len(n) / 2)
    pids <- vapply(cl, function(node) node$pid, 0L)
    p <- partition_scatter(cl, data, parts = 6)
    options(muster.shuffle_memory = 0)
    doubled <- partition_map(p, function(part) transform(part, x = x * 2))
    kept <- identical(partition_collect(doubled)$x, as.numeric(seq_len(n)))
    moved <- outcome_of(partition_shuffle(p, "g"))
    written <- outcome_of(partition_write(p, file.path(.(folder), "out"), "rds", compress = FALSE))
    sums <- partition_collect(partition_summarise(p, .by = g, n = n()))
    rm(p, doubled)
    gc()
    partition_scatter(cl, data[1:10, ], parts = 2)
    clusterCall(cl, Sys.getpid)
    tell(
      kept = kept, moved = moved, written = written, sums = all(sums$n == n / 500),
      same = identical(pids, vapply(cl, function(node) node$pid, 0L)), left = list.files(.(folder))
    )
  }))
  expect_done(run)
  expect_true(run$told$kept)
  expect_caught(run$told$moved, "limit", "File too large")
  expect_caught(run$told$written, "limit")
  expect_true(run$told$sums)
  expect_true(run$told$same)
  expect_identical(run$told$left, character())
})

test_that("blocks of many parts stay in memory under the usual limit of descriptors", {
  limit_time(60)
  skip_if(.Call(muster:::ffi_limits)[2] < 5000, "needs `ulimit -H -n` of 5,000")
  run <- run_session(ulimit = "-S -n 1024", quote({
    options(muster.quiet = TRUE)
    cl <- cluster_start(1)
    data <- data.frame(k = rep(1:600, 5), x = 1:3000)
    p <- partition_scatter(cl, data, parts = 300)
    moved <- partition_shuffle(p, "k", parts = 10)
    files <- clusterEvalQ(cl, list.files(tempdir(), "^blocks"))[[1]]
    tell(files = files, rows = sum(partition_collect(moved)$x))
  }))
  expect_done(run)
  expect_identical(run$told$files, character())
  expect_identical(run$told$rows, sum(1:3000))
})
