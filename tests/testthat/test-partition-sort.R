# partition_sort(): the order of all rows, whatever the parts and the workers.

base_order <- function(x, by, decreasing) {
  keys <- lapply(x[by], function(column) {
    if (is.character(column)) column else as.numeric(column)
  })
  place <- do.call(order, c(unname(keys), list(
    decreasing = decreasing, na.last = TRUE, method = "radix"
  )))
  x <- x[place, , drop = FALSE]
  row.names(x) <- NULL
  x
}

test_cluster("Rows that two workers sort", {
  cl <- local_cluster(2)

  test_that("Rows are in base R's order, equal ones in theirs, for all kinds of keys", {
    local_seed(1)
    kinds <- setdiff(key_kinds, "mixed")
    columns <- lapply(stats::setNames(nm = kinds), key_column, 200)
    data <- data.frame(columns, row = 1:200)
    p <- partition_scatter(cl, data, parts = 7)
    for (by in c(kinds, list(c("factor", "double"), c("character", "logical", "time"), "row"))) {
      decreasing <- sample(c(TRUE, FALSE), length(by), replace = TRUE)
      sorted <- partition_sort(p, by, decreasing)
      expect_identical(partition_collect(sorted), base_order(data, by, decreasing), info = by)
      rows <- stage_of(sorted)$rows
      expect_length(rows, 7)
      expect_lte(max(rows), 60)
    }
  })

  test_that("One order for equal strings and numbers of several types", {
    local_seed(2)
    texts <- c("z", "\u00e4", "a", "", "B", NA)
    latin <- iconv(texts, "UTF-8", "latin1")
    half <- data.frame(t = rep(texts, 5), n = c(sample(20L), rep(NA, 10)), row = 1:30)
    p <- partition_map(partition_scatter(cl, rbind(half, half), parts = 2), function(part) {
      if (part$row[1] == 1L && !isTRUE(part$odd)) part$t <- iconv(part$t, "UTF-8", "latin1")
      part
    })
    got <- partition_collect(partition_sort(p, c("t", "n")))
    want <- base_order(rbind(half, half), c("t", "n"), FALSE)
    expect_identical(enc2utf8(got$t), want$t)
    expect_identical(got[-1L], want[-1L])
    # Whole numbers in one part, others in the next; levels that other parts don't have.
    mixed <- partition_map(partition_scatter(cl, data.frame(i = 1:6), parts = 2), function(part) {
      if (part$i[1] == 1L) {
        data.frame(n = c(3L, 1L, 2L), f = factor(c("b", "a", "b")))
      } else {
        data.frame(n = c(2.5, 0, 9), f = factor(c("c", "a", "b"), levels = c("c", "b", "a")))
      }
    })
    expect_identical(partition_collect(partition_sort(mixed, "n"))$n, c(0, 1, 2, 2.5, 3, 9))
    together <- partition_collect(mixed)
    got <- partition_collect(partition_sort(mixed, c("f", "n"), c(FALSE, TRUE)))
    expect_identical(as.character(got$f), c("a", "a", "b", "b", "b", "c"))
    expect_identical(got$n, c(1, 0, 9, 3, 2, 2.5))
    expect_identical(levels(together$f), c("a", "b", "c"))
    words <- partition_map(mixed, function(part) {
      if (part$n[1] == 3) part$f <- as.character(part$f)
      part
    })
    got <- partition_collect(partition_sort(words, "f", TRUE))
    expect_identical(got$f, c("c", "b", "b", "b", "a", "a"))
  })

  test_that("integer64 is sorted by all of its 64 bits", {
    upper <- c(0, 2^31 - 1, -2^31, -1, 0, 1, NA, 0, -2^31)
    lower <- c(5, 2^32 - 1, 1, 2^32 - 1, 2^31, 0, 0, 2^32 - 1, 2^32 - 1)
    x <- int64_from(ifelse(is.na(upper), 2^31, upper %% 2^32), ifelse(is.na(upper), 0, lower))
    p <- new_partition_of(cl, list(x = x, row = seq_along(x)))
    want <- c(3L, 9L, 4L, 1L, 5L, 8L, 6L, 2L, 7L)
    expect_identical(as.list(partition_collect(partition_sort(p, "x")))$row, want)
    want <- c(rev(want[-9L]), 7L)
    expect_identical(as.list(partition_collect(partition_sort(p, "x", TRUE)))$row, want)
  })

  test_that("Few rows, one part, none; and equal keys alone still give even parts", {
    data <- data.frame(x = c(2, 1, NA), row = 1:3)
    for (parts in 1:3) {
      got <- partition_sort(partition_scatter(cl, data, parts = parts), "x")
      expect_identical(partition_collect(got)$row, c(2L, 1L, 3L))
    }
    none <- partition_sort(partition_scatter(cl, data[0, ], parts = 1), "x")
    expect_identical(partition_collect(none), data[0, ])
    same <- partition_sort(partition_scatter(cl, data.frame(x = rep(1, 999), row = 1:999), 9), "x")
    expect_identical(partition_collect(same)$row, 1:999)
    expect_lte(max(stage_of(same)$rows), 140)
    some <- partition_map(partition_scatter(cl, data.frame(x = 10:1), parts = 5), function(part) {
      part[part$x %in% c(2, 9), , drop = FALSE]
    })
    expect_identical(partition_collect(partition_sort(some, "x"))$x, c(2L, 9L))
  })

  test_that("What can't be sorted is refused", {
    p <- partition_scatter(cl, data.frame(x = 1:4, l = I(as.list(1:4)), z = 1i), parts = 2)
    refused <- function(code, text) expect_error(code, text, class = "muster_error_input")
    refused(partition_sort(p, "l"), "Can't sort by column `l`: it is an object")
    refused(partition_sort(p, "z"), "Can't sort by column `z`")
    refused(partition_sort(p, "none"), "no column `none`")
    refused(partition_sort(p, character()), "names of columns")
    refused(partition_sort(p, "x", NA), "`decreasing` must be TRUE or FALSE")
    refused(partition_sort(p, "x", c(TRUE, FALSE)), "one of them for each")
    refused(partition_sort(data.frame(x = 1), "x"), "partition_scatter")
  })
})

test_cluster("Sorted rows are the same after the loss of a worker, before it and in it", {
  local_seed(3)
  cl <- local_cluster(2)
  data <- data.frame(x = rnorm(300), s = sample(letters, 300, TRUE))
  p <- partition_scatter(cl, data, parts = 6)
  want <- base_order(data, c("s", "x"), FALSE)
  sorted <- partition_sort(p, c("s", "x"))
  for (k in 1:2) {
    tools::pskill(node_pids(cl)[k], tools::SIGKILL)
    expect_identical(partition_collect(sorted), want)
    expect_identical(partition_collect(partition_sort(p, c("s", "x"))), want)
  }
})
