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
})
