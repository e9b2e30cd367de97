# partition_read() and partition_write() when a worker is killed at each of their steps, or the
# session in the middle: each row once, or what was there before.

source("../testthat/helper-partition.R", local = TRUE)

# Muster's own functions in workers: the one that is named kills its process, once, before or after
# it has done its work.
killing_setup <- function(name, after, mark) {
  bquote(local({
    ns <- asNamespace("muster")
    own <- get(.(name), ns)
    unlockBinding(.(name), ns)
    assign(.(name), function(...) {
      strike <- function() {
        if (!file.exists(.(mark)) && file.create(.(mark))) {
          tools::pskill(Sys.getpid(), tools::SIGKILL)
        }
      }
      if (!.(after)) strike()
      value <- own(...)
      if (.(after)) strike()
      value
    }, ns)
  }))
}

rows_of_test <- function() {
  local_seed(2)
  data.frame(
    id = 1:3000, k = sample(c("a", NA, "b c"), 3000, TRUE), x = stats::rnorm(3000),
    s = c(rep("", 2999), "late")
  )
}

test_cluster("A worker killed at any step of reading changes nothing", {
  local_settings(muster.quiet = TRUE)
  folder <- local_folder()
  utils::write.csv(rows_of_test(), file.path(folder, "a.csv"), row.names = FALSE)
  saveRDS(utils::read.csv(file.path(folder, "a.csv")), file.path(folder, "b.rds"))
  want <- utils::read.csv(file.path(folder, "a.csv"))
  want <- rbind(want, want)
  for (name in c("part_quotes", "check_sign", "read_item", "part_read", "part_retype")) {
    for (after in c(FALSE, TRUE)) {
      mark <- file.path(local_folder(), "mark")
      cl <- local_cluster(2, setup = killing_setup(name, after, mark))
      p <- partition_read(cl, folder, .bytes = 20000)
      expect_true(file.exists(mark), info = name)
      expect_identical(partition_collect(p), want, info = name)
      # What is read again later is the same, too, with its type.
      worker <- node_processes(cl[1L])
      tools::pskill(node_pids(cl[1L]), tools::SIGKILL)
      wait_until(!still_runs(worker))
      expect_identical(partition_collect(p), want, info = name)
      cluster_stop(cl)
    }
  }
})

test_cluster("A worker killed at any step of writing leaves each row once, and nothing else", {
  local_settings(muster.quiet = TRUE)
  rows <- rows_of_test()
  folder <- local_folder()
  target <- file.path(folder, "out")
  steps <- c("cut_by_key", "write_part_file", "write_gzip", "write_files", "part_write")
  for (name in steps) {
    for (after in c(FALSE, TRUE)) {
      mark <- file.path(local_folder(), "mark")
      cl <- local_cluster(2, setup = killing_setup(name, after, mark))
      p <- partition_scatter(cl, rows, parts = 6)
      told <- partition_write(p, target, "rds", by = "k", overwrite = TRUE)
      expect_true(file.exists(mark), info = name)
      expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "out")
      expect_setequal(
        list.files(target, recursive = TRUE, all.files = TRUE), c("_manifest.json", told$file)
      )
      got <- partition_collect(partition_read(cl, target))
      expect_identical(got$id[order(got$id)], rows$id, info = name)
      expect_identical(got[order(got$id), ], rows, ignore_attr = "row.names")
      cluster_stop(cl)
    }
  }
})

test_cluster("A part that kills every worker leaves the old folder whole", {
  local_settings(muster.quiet = TRUE)
  folder <- local_folder()
  target <- file.path(folder, "out")
  flag <- file.path(local_folder(), "flag")
  cl <- local_cluster(2, setup = bquote(local({
    ns <- asNamespace("muster")
    own <- get("write_part_file", ns)
    unlockBinding("write_part_file", ns)
    assign("write_part_file", function(...) {
      if (file.exists(.(flag))) tools::pskill(Sys.getpid(), tools::SIGKILL)
      own(...)
    }, ns)
  })))
  rows <- rows_of_test()
  p <- partition_scatter(cl, rows, parts = 2)
  partition_write(p, target, "rds")
  before <- list.files(target)
  file.create(flag)
  error <- expect_error(partition_write(p, target, "csv", overwrite = TRUE),
    class = "muster_error_lost"
  )
  expect_true(error$part %in% 1:2)
  expect_identical(list.files(target), before)
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "out")
  file.remove(flag)
  expect_identical(partition_collect(partition_read(cl, target)), rows)
  partition_write(p, target, "csv", overwrite = TRUE)
  expect_identical(partition_collect(partition_read(cl, target))$id, rows$id)
})

test_that("A session killed while it writes leaves the old folder, and the next one tidies up", {
  limit_time(120)
  folder <- local_folder()
  run <- run_session(bquote({
    suppressMessages(library(muster))
    cl <- cluster_start(2)
    target <- .(file.path(folder, "out"))
    p <- partition_scatter(cl, data.frame(id = 1:100), parts = 4)
    partition_write(p, target, "rds")
    ns <- asNamespace("muster")
    unlockBinding("put_in_place", ns)
    assign("put_in_place", function(...) tools::pskill(Sys.getpid(), tools::SIGKILL), ns)
    q <- partition_map(p, function(d) data.frame(id = d$id + 1000L))
    partition_write(q, target, "rds", overwrite = TRUE)
  }))
  hidden <- list.files(folder, pattern = "^[.]out[.]muster-", all.files = TRUE)
  expect_length(hidden, 1L)
  cl <- local_cluster(2)
  target <- file.path(folder, "out")
  p <- partition_read(cl, target)
  expect_identical(partition_collect(p)$id, 1:100)
  partition_write(p, target, "csv", overwrite = TRUE)
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "out")
  expect_identical(partition_collect(partition_read(cl, target))$id, 1:100)
})

test_cluster("The tables of nycflights13 come back from each format, and any way they are cut", {
  testthat::skip_if_not_installed("nycflights13")
  limit_time(300)
  cl <- local_cluster(2)
  folder <- local_folder()
  flights <- as.data.frame(nycflights13::flights)[1:60000, ]
  row.names(flights) <- NULL
  p <- partition_scatter(cl, flights)
  formats <- c("rds", if (requireNamespace("nanoparquet", quietly = TRUE)) "parquet")
  for (format in formats) {
    target <- file.path(folder, format)
    partition_write(p, target, format, by = "carrier")
    got <- partition_collect(partition_read(cl, target))
    expect_identical(names(got), names(flights))
    part <- rep(seq_len(p$parts), stage_of(p)$rows)
    key <- paste(part, flights$carrier)
    want <- flights[order(match(key, key)), ]
    # nanoparquet keeps the moment alone.
    if (format == "parquet") attr(want$time_hour, "tzone") <- "UTC"
    expect_equal(got, want, ignore_attr = "row.names")
  }
  partition_write(p, file.path(folder, "csv"), "csv")
  file <- file.path(folder, "all.csv")
  utils::write.csv(flights, file, row.names = FALSE)
  want <- utils::read.csv(file)
  expect_equal(partition_collect(partition_read(cl, file.path(folder, "csv"))), want)
  for (bytes in list(NULL, 1e5, 3e6)) {
    expect_identical(partition_collect(partition_read(cl, file, .bytes = bytes)), want)
  }
  # The same for one worker.
  one <- local_cluster(1)
  p <- partition_read(one, file)
  expect_identical(p$parts, partition_read(cl, file)$parts)
  expect_identical(partition_collect(p), want)
})
