# partition_write(): a folder is complete or as it was, and partition_read() gives the rows back.

# Of a folder, with all that is hidden beside it.
all_names <- function(folder) sort(list.files(folder, all.files = TRUE, no.. = TRUE))

formats <- c("csv", "rds", if (requireNamespace("nanoparquet", quietly = TRUE)) "parquet")

test_cluster("Files that workers write", {
  local_seed(5)
  cl <- local_cluster(2)
  folder <- local_folder()
  path <- function(...) file.path(folder, ...)
  rows <- data.frame(
    id = 1:60, x = c(1 / 3, 1e-300, -1e300, NaN, Inf, NA), k = c("a", NA, "\u00e4/ =%"),
    flag = c(TRUE, NA, FALSE)
  )
  p <- partition_scatter(cl, rows, parts = 4)

  test_that("Each format gives the same rows back, in their order, and says what it wrote", {
    for (format in formats) {
      told <- withVisible(partition_write(p, path(format), format))
      expect_false(told$visible)
      files <- sprintf("part-%05d.%s", 1:4, format)
      expect_identical(told$value$file, files)
      expect_identical(told$value$rows, rep(15, 4))
      expect_identical(told$value$part, 1:4)
      expect_identical(told$value$bytes, file.size(path(format, files)))
      expect_identical(all_names(path(format)), sort(c("_manifest.json", files)))
      expect_identical(partition_collect(partition_read(cl, path(format))), rows)
    }
    expect_identical(all_names(folder), sort(formats))
    one <- utils::read.csv(path("csv", "part-00001.csv"))
    expect_identical(one, rows[1:15, ])
  })

  test_that("csv of many rows is as if they were written at once", {
    n <- 100000L
    long <- data.frame(
      id = seq_len(n), s = sample(c("a", "b\"c", NA), n, TRUE), f = factor(seq_len(n) %% 3L),
      day = as.Date("2020-02-28") + seq_len(n), at = as.POSIXct("2020-02-28", "UTC") + 1:n / 2
    )
    long$at[99999] <- NA
    q <- partition_scatter(cl, long, parts = 1)
    partition_write(q, path("long"), "csv")
    halves <- seq_len(n) %% 2L == 1L & !is.na(long$at)
    long$at <- format(long$at, "%Y-%m-%d %H:%M:%S")
    long$at[halves] <- paste0(long$at[halves], ".5")
    utils::write.csv(long, path("long.csv"), row.names = FALSE, quote = 2:3)
    sums <- tools::md5sum(c(path("long", "part-00001.csv"), path("long.csv")))
    expect_identical(sums[[1L]], sums[[2L]])
    unlink(path(c("long", "long.csv")), recursive = TRUE)
  })

  test_that("csv has the numbers of integer64, whether a worker has bit64's methods or not", {
    skip_if_not_installed("bit64")
    long <- data.frame(id = 1:3)
    long[["i"]] <- int64(1, NA, -20000000000)
    partition_write(partition_scatter(cl, long, parts = 1), path("int64"), "csv")
    text <- readLines(path("int64", "part-00001.csv"))
    expect_identical(text[-1L], c("1,1", "2,NA", "3,-20000000000"))
    unlink(path("int64"), recursive = TRUE)
  })

  test_that("Keys become folders, of every type, and columns come back where they were", {
    keys <- list(
      character = rows$k, logical = rows$flag, integer = rep(c(-3L, NA, 100000L), 20),
      double = rep(c(1e5, 1 / 3, NaN, NA, -Inf, 0), 10),
      factor = factor(rows$k, c("none", "\u00e4/ =%", "a")),
      ordered = factor(rows$flag, ordered = TRUE),
      date = rep(as.Date("2020-02-28") + c(0, 1, NA), 20), zero = rep(c("01", "1", ""), 20),
      special = rep(c("__HIVE_DEFAULT_PARTITION__", "NA", NA), 20),
      dots = rep(c("..", ".", "a/../b"), 20)
    )
    for (name in names(keys)) {
      data <- rows[c("id", "x")]
      data <- data.frame(id = data$id, `_key` = keys[[name]], x = data$x, check.names = FALSE)
      unlink(path("by"), recursive = TRUE)
      q <- partition_scatter(cl, data, parts = 3)
      told <- partition_write(q, path("by"), "rds", by = "_key")
      got <- partition_collect(partition_read(cl, path("by")))
      # By part, key by key, in the order of each key's first row.
      part <- rep(1:3, each = 20)
      value <- data$`_key`
      key <- paste(value, is.na(value), if (is.double(value)) is.nan(value))
      first <- match(paste(part, key), paste(part, key))
      want <- data[order(first, seq_along(first)), ]
      row.names(want) <- NULL
      expect_identical(got, want, info = name)
      expect_identical(sum(told$rows), 60)
      expect_identical(told$`_key`, want$`_key`[cumsum(c(1, told$rows))[seq_along(told$rows)]],
        info = name
      )
    }
    # Two keys; without the list of files, as other programs see it.
    partition_write(p, path("two"), "csv", by = c("flag", "k"))
    got <- partition_collect(partition_read(cl, path("two")))
    expect_identical(names(got), names(rows))
    expect_identical(sorted_rows(got), sorted_rows(rows))
    file.remove(path("two", "_manifest.json"))
    plain <- partition_collect(partition_read(cl, path("two")))
    expect_identical(names(plain), c("id", "x", "flag", "k"))
    expect_identical(sorted_rows(plain[names(rows)]), sorted_rows(rows))
  })

  test_that("Types of columns come back as the format keeps them", {
    local_seed(3)
    n <- 30
    typed <- data.frame(
      l = sample(c(TRUE, NA), n, TRUE), i = sample(c(1:3, NA), n, TRUE), d = stats::rnorm(n),
      s = sample(c("", "NA", "a\nb", "\"", NA), n, TRUE),
      f = factor(sample(c("z", "b"), n, TRUE), c("z", "b", "u")),
      day = as.Date("2020-01-01") + 1:n, time = as.POSIXct("2020-01-01", tz = "UTC") + 1:n
    )
    typed_p <- partition_scatter(cl, typed, parts = 3)
    for (format in setdiff(formats, "csv")) {
      unlink(path("typed"), recursive = TRUE)
      partition_write(typed_p, path("typed"), format)
      expect_equal(partition_collect(partition_read(cl, path("typed"))), typed)
    }
    unlink(path("typed"), recursive = TRUE)
    partition_write(typed_p, path("typed"), "csv")
    file <- path("typed.csv")
    utils::write.csv(typed, file, row.names = FALSE)
    got <- partition_collect(partition_read(cl, path("typed")))
    same <- setdiff(names(typed), "d")
    expect_identical(got[same], utils::read.csv(file)[same])
    expect_identical(got$d, typed$d)
    for (compress in list(FALSE, "gzip", "bzip2", "xz")) {
      unlink(path("typed"), recursive = TRUE)
      partition_write(typed_p, path("typed"), "rds", compress = compress)
      expect_identical(partition_collect(partition_read(cl, path("typed"))), typed)
    }
  })

  test_that("Parts without rows become no file, and without any row one has the columns", {
    some <- partition_map(p, function(d) d[d$id > 50, ])
    none <- partition_map(p, function(d) d[d$id > 99, ])
    for (format in formats) {
      unlink(path(c("some", "none")), recursive = TRUE)
      told <- partition_write(some, path("some"), format)
      expect_identical(told$file, paste0("part-00004.", format))
      expect_identical(partition_collect(partition_read(cl, path("some")))$id, 51:60)
      told <- partition_write(none, path("none"), format, by = "flag")
      expect_identical(told$rows, 0)
      got <- partition_collect(partition_read(cl, path("none")))
      expect_identical(dim(got), c(0L, 4L))
      expect_identical(names(got), names(rows))
      if (format != "csv") expect_identical(got, rows[0, ], ignore_attr = "row.names")
    }
    empty <- partition_map(p, function(d) data.frame())
    expect_error(partition_write(empty, path("empty"), "rds"), "no columns",
      class = "muster_error_input"
    )
    expect_false(file.exists(path("empty")))
  })

  test_that("What is there already stays, until it may be replaced and all is written", {
    partition_write(p, path("old"), "rds")
    before <- all_names(path("old"))
    error <- expect_error(partition_write(p, path("old"), "csv"), class = "muster_error_input")
    expect_match(conditionMessage(error), "overwrite = TRUE", fixed = TRUE)
    expect_identical(error$file, path("old"))
    bad <- partition_map(p, function(d) {
      if (d$id[1] > 40) d$x <- I(lapply(d$x, identity))
      d
    })
    error <- expect_error(partition_write(bad, path("old"), "csv", overwrite = TRUE),
      class = "muster_error_input"
    )
    expect_identical(error$file, path("old", "part-00004.csv"))
    expect_identical(error$part, 4L)
    expect_identical(all_names(path("old")), before)
    expect_identical(partition_collect(partition_read(cl, path("old"))), rows)
    partition_write(p, path("old"), "csv", by = "flag", overwrite = TRUE)
    expect_false(any(before %in% setdiff(all_names(path("old")), "_manifest.json")))
    # It may be what the rows are read from.
    q <- partition_read(cl, path("old"))
    partition_write(q, path("old"), "rds", overwrite = TRUE)
    expect_identical(sorted_rows(partition_collect(partition_read(cl, path("old")))),
      sorted_rows(rows)
    )
    # An empty folder, and a link to one.
    dir.create(path("hollow"))
    file.symlink(path("hollow"), path("link"))
    partition_write(p, path("link"), "rds")
    expect_identical(Sys.readlink(path("link")), path("hollow"))
    expect_length(all_names(path("hollow")), 5L)
    expect_false(any(startsWith(all_names(folder), ".")))
  })

  test_that("Arguments and paths that can't be are refused before anything is written", {
    before <- all_names(folder)
    writeLines("", path("file"))
    refused <- function(...) expect_error(partition_write(p, ...), class = "muster_error_input")
    expect_match(conditionMessage(refused(path("no", "where"), "rds")), "there is no folder")
    refused(path("file"), "rds")
    refused(path("file", "x"), "rds")
    refused(NA, "rds")
    refused(path("new"), "xls")
    refused(path("new"), "rds", by = "none")
    refused(path("new"), "rds", by = names(rows))
    refused(path("new"), "rds", overwrite = NA)
    refused(path("new"), "rds", compress = "zip")
    refused(path("new"), "rds", level = 3)
    refused(path("new"), "csv", sep = ";")
    times <- partition_map(p, function(d) cbind(d, t = Sys.time()))
    expect_error(partition_write(times, path("new"), "rds", by = "t"), "can't name folders",
      class = "muster_error_input"
    )
    refused(path(strrep("n", 300)), "rds")
    long <- partition_map(p, function(d) cbind(d, t = strrep("t", 300)))
    expect_error(partition_write(long, path("new"), "rds", by = "t"),
      class = "muster_error_input"
    )
    unlink(path("file"))
    expect_identical(all_names(folder), before)
  })

  test_that("A folder that isn't as it was written is refused, with the file's name", {
    partition_write(p, path("check"), "rds")
    file <- path("check", "part-00002.rds")
    manifest <- path("check", "_manifest.json")
    refused <- function(file, text) {
      error <- expect_error(partition_read(cl, path("check")), class = "muster_error_input")
      expect_identical(error$file, file)
      expect_match(conditionMessage(error), text)
    }
    bytes <- readBin(file, "raw", 1e6)
    writeBin(bytes[-1], file)
    refused(file, "has .* bytes, not")
    file.remove(file)
    refused(file, "is gone")
    writeBin(bytes, file)
    saveRDS(1, path("check", "part-00009.rds")) # not in the list
    expect_identical(partition_collect(partition_read(cl, path("check"))), rows)
    text <- readBin(manifest, "raw", 1e6)
    for (n in c(0, 1, 20, length(text) %/% 2, length(text) - 3)) {
      writeBin(text[seq_len(n)], manifest)
      refused(manifest, "damaged")
    }
    writeBin(charToRaw(sub("muster 1", "muster 9", rawToChar(text))), manifest)
    refused(manifest, "format")
  })

  test_that("The list of files is JSON, whatever the names", {
    skip_if_not_installed("jsonlite")
    odd <- data.frame(1, 2, c("a\"b\\\n\t\u00e4", "b"))
    names(odd) <- c("q\"\\", "\u00e4\n", "k'=")
    odd[[3L]] <- factor(odd[[3L]])
    partition_write(partition_scatter(cl, odd), path("json"), "rds", by = "k'=")
    file <- path("json", "_manifest.json")
    text <- paste(readLines(file, encoding = "UTF-8"), collapse = "\n")
    json <- jsonlite::fromJSON(text, simplifyVector = FALSE)
    expect_identical(unlist(json$columns), names(odd))
    expect_identical(unlist(json$keys[[1L]]$levels), levels(odd[[3L]]))
    mine <- json_parse(charToRaw(text))
    for (name in c("columns", "keys")) expect_identical(mine[[name]], json[[name]])
    expect_identical(partition_collect(partition_read(cl, path("json"))), odd)
  })

  test_that("What a killed session left is put right by the next one", {
    partition_write(p, path("crash"), "rds")
    start <- paste0(".crash.muster-", Sys.info()[["nodename"]], "-")
    gone <- 2L^22L + 1L # no process has this number
    left <- path(paste0(start, gone, "-x"))
    dir.create(left)
    file.rename(path("crash"), file.path(left, "old")) # killed between the renamings
    error <- expect_error(partition_write(p, path("crash"), "csv"), class = "muster_error_input")
    expect_match(conditionMessage(error), "overwrite")
    expect_identical(partition_collect(partition_read(cl, path("crash"))), rows)
    dir.create(file.path(left, "work"), recursive = TRUE)
    alive <- path(paste0(start, Sys.getpid(), "-x"))
    dir.create(alive)
    partition_write(p, path("crash"), "rds", overwrite = TRUE)
    expect_false(dir.exists(left))
    expect_true(dir.exists(alive))
    unlink(alive, recursive = TRUE)
  })
})
