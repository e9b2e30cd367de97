# Tables larger than the memory that a control group grants.

large_rows <- function() {
  n <- 190000L
  data.frame(
    id = seq_len(n), g = sample.int(900L, n, TRUE), s = sample(state.name, n, TRUE),
    x = round(rnorm(n), 6), y = round(runif(n), 6)
  )
}

# Files of the same rows are read, shuffled, summarised, mapped and written in a group of this size.
# write: arguments of partition_write().
expect_fits <- function(data, files, size, write) {
  group <- local_memory_group(size)
  folder <- dirname(dirname(files[1L]))
  expect_true(all(file.link(files[1L], files[-1L])))
  run <- run_in_group(group, bquote({
    options(muster.quiet = TRUE)
    cl <- cluster_start(2)
    pids <- function() vapply(cl, function(node) node$pid, 0L)
    before <- pids()
    p <- partition_read(cl, .(dirname(files[1L])), .bytes = 4e6)
    p <- partition_shuffle(p, "g")
    sums <- partition_collect(partition_summarise(p, .by = g, n = n(), x = sum(x)))
    q <- partition_map(p, function(d) {
      d$z <- ave(d$x, d$g)
      d
    })
    do.call(partition_write, c(list(q, .(file.path(folder, "out"))), .(write)))
    tell(rows = nrow(q), sums = sums, same = identical(pids(), before))
  }))
  expect_identical(run$status, 0L, info = run$text)
  expect_equal(run$told$rows, length(files) * nrow(data))
  gc()
  # No worker was lost for memory.
  expect_true(run$told$same)
  sums <- run$told$sums[order(run$told$sums$g), ]
  expect_identical(sums$n, as.integer(table(data$g)) * length(files))
  expect_equal(sums$x, as.numeric(tapply(data$x, data$g, sum)) * length(files))
  list.files(file.path(folder, "out"), "^part", full.names = TRUE)
}

test_cluster("D7 A table of three times a group's memory is read, grouped and written in it", {
  limit_time(200)
  folder <- local_folder()
  files <- file.path(folder, "in", sprintf("%03d.rds", 1:216))
  dir.create(dirname(files[1L]))
  local_seed(76)
  data <- large_rows()
  size <- 400 * 2^20
  expect_gt(length(files) * as.numeric(object.size(data)), 3 * size)
  saveRDS(data, files[1L], compress = FALSE)
  written <- expect_fits(data, files, size, list("rds", compress = FALSE))
  part <- readRDS(written[1L])
  expect_equal(part$z[1L], mean(data$x[data$g == part$g[1L]]))
})

test_cluster("D7 So is a table of csv files, which are larger than the group's memory too", {
  limit_time(400)
  folder <- local_folder()
  files <- file.path(folder, "in", sprintf("%03d.csv", 1:112))
  dir.create(dirname(files[1L]))
  local_seed(76)
  data <- large_rows()
  size <- 400 * 2^20
  utils::write.csv(data, files[1L], row.names = FALSE)
  expect_gt(length(files) * file.size(files[1L]), 2 * size)
  written <- expect_fits(data, files, size, list("csv"))
  part <- utils::read.csv(written[1L])
  expect_equal(part$z[1L], mean(data$x[data$g == part$g[1L]]))
})
