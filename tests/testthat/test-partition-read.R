# partition_read(): each worker reads its own files, and what is wrong with one names it.

test_cluster("Files that two workers read", {
  cl <- local_cluster(2)
  folder <- local_folder()
  path <- function(...) file.path(folder, ...)
  data <- data.frame(
    id = 1:90, x = (1:90) / 8, carrier = rep(c("UA", "AA", "B6"), 30),
    day = as.Date("2013-01-01") + (1:90) %% 7
  )
  thirds <- split(data, rep(1:3, each = 30))

  test_that("CSV, RDS and Parquet files are read by their names, in their order", {
    for (i in 1:3) {
      utils::write.csv(thirds[[i]], path(paste0(i, ".csv")), row.names = FALSE)
      saveRDS(thirds[[i]], path(paste0(i, ".rds")))
    }
    p <- partition_read(cl, path(paste0(1:3, ".csv")))
    text <- data
    text$day <- as.character(text$day)
    expect_equal(partition_collect(p), text)
    expect_identical(p$parts, 3L)
    typed <- partition_read(cl, path(paste0(1:3, ".csv")), colClasses = c(day = "Date"))
    expect_equal(partition_collect(typed), data)
    expect_equal(partition_collect(partition_read(cl, path(paste0(3:1, ".rds")))),
      data[c(61:90, 31:60, 1:30), ], ignore_attr = "row.names"
    )
    expect_error(partition_read(cl, "a.b"), class = "muster_error_input")
    mixed <- partition_collect(partition_read(cl, path(c("1.csv", "2.rds"))))
    expect_identical(mixed$x, data$x[1:60])
    expect_error(partition_read(cl, path(c("1.csv", "2.rds")), nrows = 1),
      class = "muster_error_input"
    )
    expect_error(partition_read(cl, character()), class = "muster_error_input")
    expect_error(partition_read(cl, "a.csv", .reader = "b"), class = "muster_error_input")
  })

  test_that("Parquet files of all types of columns are the same as before", {
    skip_if_not_installed("nanoparquet")
    thirds <- lapply(thirds, function(one) {
      one$flag <- one$id %% 2L == 0L
      one$kind <- factor(one$carrier)
      one$time <- as.POSIXct("2013-01-01", tz = "UTC") + 3600 * one$id
      one$carrier[5] <- NA
      nanoparquet::write_parquet(one, path(paste0(one$id[1], ".parquet")))
      one
    })
    got <- partition_collect(partition_read(cl, path(paste0(c(1, 31, 61), ".parquet"))))
    want <- do.call(rbind, thirds)
    expect_equal(got, want, ignore_attr = "row.names")
    sums <- partition_read(cl, path(paste0(c(1, 31, 61), ".parquet")))
    sums <- partition_collect(partition_summarise(sums, .by = "kind", n = n(), last = max(time)))
    expect_identical(sums$n, c(30L, 30L, 30L))
    expect_equal(max(sums$last), max(want$time))
  })

  test_that("A reader of one's own gets further arguments", {
    mine <- partition_read(cl, path(paste0(1:3, ".csv")),
      function(file, n) utils::read.csv(file, nrows = n),
      n = 1
    )
    expect_identical(partition_collect(mine)$id, c(1L, 31L, 61L))
  })

  test_that("What can't be read is an error that names part, worker and file", {
    good <- path("1.csv")
    expect_failed <- function(code, class, part, file) {
      error <- expect_error(suppressWarnings(code), class = class)
      expect_identical(error$part, part)
      expect_true(error$worker %in% 1:2)
      expect_identical(error$file, file)
      expect_match(conditionMessage(error), basename(file), fixed = TRUE)
      expect_match(conditionMessage(error), "On worker", fixed = TRUE)
      invisible(error)
    }
    # What the session sees itself has no part yet.
    gone <- path("gone.csv")
    error <- expect_error(partition_read(cl, c(good, good, gone)), class = "muster_error_input")
    expect_identical(error$file, gone)
    expect_match(conditionMessage(error), "gone.csv", fixed = TRUE)
    expect_failed(partition_read(cl, c(good, gone), utils::read.csv), "muster_error_remote", 2L,
      gone
    )
    writeLines("no such format", path("broken.rds"))
    expect_failed(partition_read(cl, path(c("1.rds", "broken.rds"))), "muster_error_remote", 2L,
      path("broken.rds")
    )
    file.create(path("empty.csv"))
    expect_failed(partition_read(cl, path("empty.csv")), "muster_error_remote", 1L,
      path("empty.csv")
    )
    dir.create(path("folder.rds"))
    error <- expect_error(partition_read(cl, path("folder.rds")), class = "muster_error_input")
    expect_match(conditionMessage(error), "no files in", fixed = TRUE)
    saveRDS(1:3, path("numbers.rds"))
    error <- expect_failed(partition_read(cl, path(c("1.rds", "numbers.rds"))),
      "muster_error_input", 2L, path("numbers.rds")
    )
    expect_match(conditionMessage(error), "must have a data frame")
    expect_failed(partition_read(cl, path(c("1.rds", "numbers.rds")), readRDS),
      "muster_error_input", 2L, path("numbers.rds")
    )
    # A function's error in a later step names the file, too.
    p <- partition_read(cl, path(c("1.rds", "2.rds")))
    expect_failed(partition_map(p, function(d) if (d$id[1] > 1) stop("no") else d),
      "muster_error_remote", 2L, path("2.rds")
    )
    expect_identical(nrow(partition_collect(p)), 60L)
  })

  test_that("A Parquet file that is cut is an error that names it", {
    skip_if_not_installed("nanoparquet")
    nanoparquet::write_parquet(data, path("whole.parquet"))
    bytes <- readBin(path("whole.parquet"), "raw", 1e6)
    writeBin(bytes[seq_len(length(bytes) %/% 2)], path("cut.parquet"))
    error <- expect_error(partition_read(cl, path(c("whole.parquet", "cut.parquet"))),
      class = "muster_error_remote"
    )
    expect_identical(error$part, 2L)
    expect_identical(error$file, path("cut.parquet"))
  })

  test_that("Files with other columns are found when rows are put together, by name", {
    saveRDS(data[c("id", "day")], path("other.rds"))
    p <- partition_read(cl, path(c("1.rds", "2.rds", "other.rds")))
    for (use in list(partition_collect, function(p) partition_shuffle(p, "id"))) {
      error <- expect_error(use(p), class = "muster_error_input")
      expect_match(conditionMessage(error), "columns")
      expect_true(error$part %in% 1:3 && error$worker %in% 1:2)
      expect_identical(error$file, path(c("1.rds", "2.rds", "other.rds"))[error$part])
    }
    ids <- partition_map(p, function(d) d["id"])
    expect_identical(nrow(partition_collect(ids)), 150L)
  })
})
