# Columns that files can't tell apart, or don't keep: an error that names file and column, or the
# same values back.

test_cluster("Columns in files", {
  cl <- local_cluster(2)
  folder <- local_folder()
  path <- function(...) file.path(folder, ...)
  # The error names the column, and the file if that is there.
  refused <- function(code, text, file = NULL) {
    error <- expect_error(code, class = "muster_error_input")
    expect_match(conditionMessage(error), text, fixed = TRUE)
    if (!is.null(file)) expect_identical(error$file, file)
  }

  test_that("Two columns of one name are refused, when they are read and when they are written", {
    writeLines(c("url,missing,missing", "a,LDAP,0", "b,none,7"), path("t.csv"))
    raw <- utils::read.csv(path("t.csv"), check.names = FALSE)
    saveRDS(raw, path("t.rds"))
    twice <- "two columns `missing`"
    reader <- remote(function(f) utils::read.csv(f, check.names = FALSE))
    refused(partition_read(cl, path("t.csv"), check.names = FALSE), twice, path("t.csv"))
    refused(partition_read(cl, path("t.csv"), reader), twice, path("t.csv"))
    refused(partition_read(cl, path("t.rds")), twice, path("t.rds"))
    refused(partition_read(cl, path("t.rds"), .columns = c("missing", "url")), twice, path("t.rds"))
    # Those that aren't wanted needn't have names that differ.
    got <- partition_collect(partition_read(cl, path("t.rds"), .columns = "url"))
    expect_identical(got, raw["url"])
    expect_identical(partition_collect(partition_read(cl, path("t.csv"))),
      utils::read.csv(path("t.csv"))
    )
    names(raw)[2:3] <- c("a", "")
    saveRDS(raw, path("bare.rds"))
    refused(partition_read(cl, path("bare.rds")), "Column 3 has no name", path("bare.rds"))
    p <- partition_map(partition_scatter(cl, data.frame(a = 1:4), 2), remote(function(d) {
      cbind(d, b = 1, d)
    }))
    for (format in c("csv", "rds")) refused(partition_write(p, path("two"), format), "columns `a`")
    refused(partition_write(p, path("two"), "csv", by = "b"), "two columns `a`")
    none <- partition_map(p, remote(function(d) stats::setNames(d[0L, 1:2], c("a", "a"))))
    refused(partition_write(none, path("two"), "csv"), "two columns `a`")
    expect_false(file.exists(path("two")))
  })

  test_that("Folders whose names are one number written differently stay apart", {
    for (version in c("1.1", "1.10", "1.2")) {
      dir.create(path("v", paste0("v=", version)), recursive = TRUE)
      write.csv(data.frame(x = 1), path("v", paste0("v=", version), "a.csv"), row.names = FALSE)
    }
    got <- partition_collect(partition_read(cl, path("v")))
    expect_identical(got$v, c("1.1", "1.10", "1.2"))
  })

  test_that("Matrices and data frames aren't written as parquet, nor what lists would lose", {
    skip_if_not_installed("nanoparquet")
    wide <- list(
      matrix(1:8, 4), data.frame(a = 1:4, b = 5:8), as.list(Sys.Date() + 1:4),
      list(1, 2, 3, matrix(1:4, 2)), list(1, NULL, list(2), 3)
    )
    for (one in wide) {
      rows <- new_frame(list(id = 1:4, m = one), 4L)
      q <- partition_scatter(cl, rows, parts = 2)
      refused(partition_write(q, path("m"), "parquet"), "`m` can't be written as parquet")
      unlink(path("rds"), recursive = TRUE)
      partition_write(q, path("rds"), "rds")
      expect_equal(partition_collect(partition_read(cl, path("rds"))), rows, ignore_attr = TRUE)
    }
    rows <- new_frame(list(id = 1:4, l = list(1, NULL, c(2, 3), 4)), 4L)
    partition_write(partition_scatter(cl, rows, parts = 2), path("l"), "parquet")
    expect_identical(partition_collect(partition_read(cl, path("l")))$l, rows$l)
  })

  test_that("integer64 comes back from each format, with all digits, or is refused", {
    skip_if_not_installed("bit64")
    big <- bit64::as.integer64("9007199254740993") + 0:5
    rows <- new_frame(list(id = big, x = 1:6, k = rep(c("a", "b"), 3)), 6L)
    rows$id[4L] <- NA
    p <- partition_scatter(cl, rows, parts = 3)
    formats <- c("csv", "rds", if (requireNamespace("nanoparquet", quietly = TRUE)) "parquet")
    for (format in formats) {
      unlink(path("long"), recursive = TRUE)
      partition_write(p, path("long"), format)
      expect_identical(partition_collect(partition_read(cl, path("long"))), rows)
      some <- partition_read(cl, path("long"), .columns = c("x", "id"))
      expect_identical(partition_collect(some), rows[c("x", "id")])
      expect_identical(partition_collect(partition_read(cl, path("long"), .columns = "x")),
        rows["x"]
      )
      unlink(path("long"), recursive = TRUE)
      partition_write(p, path("long"), format, by = "k")
      got <- partition_collect(partition_read(cl, path("long"), .columns = names(rows)))
      expect_identical(got[order(got$x), ], rows, ignore_attr = "row.names")
    }
    # Small ones too, and in parts where they are integers or NA.
    mixed <- partition_map(p, remote(function(d) {
      d$id <- if (d$x[1L] == 1L) 1:2 else if (d$x[1L] == 3L) c(NA, NA) else d$id
      d
    }))
    for (format in formats) {
      unlink(path("long"), recursive = TRUE)
      partition_write(mixed, path("long"), format)
      got <- partition_collect(partition_read(cl, path("long")))
      expect_identical(bit64::as.character.integer64(got$id),
        c("1", "2", NA, NA, bit64::as.character.integer64(big[5:6])), info = format
      )
    }
    none <- partition_map(p, remote(function(d) d[0L, ]))
    unlink(path("long"), recursive = TRUE)
    partition_write(none, path("long"), "csv")
    expect_identical(names(partition_collect(partition_read(cl, path("long")))), names(rows))
    # Numbers that a reader has rounded.
    unlink(path("long"), recursive = TRUE)
    partition_write(p, path("long"), "csv")
    refused(partition_read(cl, path("long"), nrows = 10), "`id` was written as integer64")
  })

  test_that("Large whole numbers of others' parquet files are exact, or refused", {
    skip_if_not_installed("bit64")
    skip_if_not_installed("nanoparquet")
    big <- bit64::as.integer64("9007199254740993") + 0:1
    rows <- new_frame(list(id = big, d = c(1e300, -1), at = Sys.time() + 1:2), 2L)
    nanoparquet::write_parquet(rows, path("big.parquet"))
    refused(partition_read(cl, path("big.parquet")), "read_int64_type", path("big.parquet"))
    got <- partition_collect(partition_read(cl, path("big.parquet"), .columns = "d"))
    expect_identical(got$d, rows$d)
    got <- partition_collect(partition_read(cl, path("big.parquet"),
      options = nanoparquet::parquet_options(read_int64_type = "integer64")
    ))
    expect_identical(got$id, big)
    refused(partition_read(cl, path("big.parquet"), options = nanoparquet::parquet_options()),
      "read_int64_type"
    )
    rows$id <- bit64::as.integer64(c(5, -7))
    nanoparquet::write_parquet(rows, path("small.parquet"))
    expect_identical(partition_collect(partition_read(cl, path("small.parquet")))$id, c(5, -7))
  })

  test_that("The text of a csv cell depends on its column alone, whatever part it is in", {
    local_variables(TZ = "Asia/Tokyo")
    midnight <- as.POSIXct("2020-02-28", tz = "Europe/Berlin")
    money <- structure(c(1, 1000, 0.5, 1e6), class = "money_of_tests")
    as.character.money_of_tests <- remote(function(x, ...) {
      format(unclass(x), big.mark = ",", nsmall = 2, scientific = FALSE)
    })
    rows <- new_frame(list(
      at = midnight + c(0, 86400, 2 * 86400 + 0.25, NA), local = .POSIXct(c(0, 54000, 1, NA)),
      utc = .POSIXct(c(0, -1e-7, 1e9 + 0.1, 1582934400L), "UTC"),
      day = as.Date("2020-02-29") + c(0, NA, 0.5, 1), code = as.hexmode(c(1L, 255L, 16L, NA)),
      gap = as.difftime(c(1 / 3, 1e5, NA, 2), units = "hours"), plain = c(1e5, 1 / 3, NA, 1),
      f = factor(c("a", "b,c", NA, "a")), same = I(c("x", "y", NA, "z")),
      score = structure(c(1 / 3, 2, NA, 1e5), class = "score_of_tests")
    ), 4L)
    want <- data.frame(
      at = c("2020-02-28 00:00:00", "2020-02-29 00:00:00", "2020-03-01 00:00:00.25", NA),
      local = c("1970-01-01 09:00:00", "1970-01-02 00:00:00", "1970-01-01 09:00:01", NA),
      utc = c("1970-01-01 00:00:00", "1970-01-01 00:00:00", "2001-09-09 01:46:40.1",
        "2020-02-29 00:00:00"),
      day = c("2020-02-29", NA, "2020-02-29", "2020-03-01"), code = c("1", "ff", "10", NA),
      gap = c(1 / 3, 1e5, NA, 2), plain = c(1e5, 1 / 3, NA, 1), f = c("a", "b,c", NA, "a"),
      same = c("x", "y", NA, "z"), score = c(1 / 3, 2, NA, 1e5)
    )
    for (parts in c(1L, 2L, 4L)) {
      unlink(path("text"), recursive = TRUE)
      partition_write(partition_scatter(cl, rows, parts), path("text"), "csv")
      expect_identical(partition_collect(partition_read(cl, path("text"))), want, info = parts)
    }
    # A method of the session's isn't the worker's; its text may have commas.
    clusterExport(cl, "as.character.money_of_tests", environment())
    for (parts in c(1L, 4L)) {
      unlink(path("text"), recursive = TRUE)
      q <- partition_scatter(cl, new_frame(list(m = money, i = 1:4), 4L), parts)
      partition_write(q, path("text"), "csv")
      got <- partition_collect(partition_read(cl, path("text")))
      expect_identical(got$m, c("1.00", "1,000.00", "0.50", "1,000,000.00"), info = parts)
    }
  })
})
