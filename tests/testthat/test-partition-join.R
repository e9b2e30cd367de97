# partition_join(): what merge() gives, in a stated order, also where one key has most of the rows.

test_cluster("Joins on two workers", {
  cl <- local_cluster(2)

  test_that("Joins are merge()'s, with duplicates, missing partners and other names", {
    local_seed(16)
    x <- data.frame(k = sample(c(1:8, NA), 60, TRUE), f = sample(c("u", "v"), 60, TRUE), v = 1:60)
    y <- data.frame(key = sample(c(3:12, NA), 30, TRUE) + 0, f = sample(c("u", "v"), 30, TRUE))
    y$w <- 1:30
    px <- partition_scatter(cl, x, parts = 4)
    py <- partition_scatter(cl, y, parts = 3)
    for (kind in list(c(FALSE, FALSE), c(TRUE, FALSE), c(FALSE, TRUE), c(TRUE, TRUE))) {
      got <- partition_collect(
        partition_join(px, py, c(k = "key", "f"), all.x = kind[1], all.y = kind[2])
      )
      want <- merge(x, y,
        by.x = c("k", "f"), by.y = c("key", "f"), all.x = kind[1], all.y = kind[2]
      )
      expect_equal(sorted_rows(got[names(want)]), sorted_rows(want))
      expect_identical(names(got), c("k", "f", "v", "w"))
    }
    expect_identical(partition_collect(partition_join(px, py, c(k = "key", "f"), TRUE)), got)
    # A factor's labels are strings.
    y$f <- factor(y$f, levels = c("v", "u"))
    got <- partition_collect(partition_join(px, y, "f"))
    want <- merge(x, y, by = "f")
    expect_identical(nrow(got), nrow(want))
    expect_equal(sorted_rows(got[c("v", "w")]), sorted_rows(want[c("v", "w")]))
  })

  test_that("Joins of random keys of each type are merge()'s, with many strings and levels", {
    local_seed(18)
    text <- c(sprintf("id%d", 1:400), "\u00e4", "", iconv("\u00f6", "UTF-8", "latin1"))
    kinds <- list(
      integer = function(k) k - 5L, double = function(k) c(-0, NaN, k / 2)[pmax(k %% 300L, 1L)],
      strings = function(k) text[k], utf8 = function(k) enc2utf8(sprintf("s\u00e9%d", k)),
      levels = function(k) factor(text[k], levels = rev(text)),
      other = function(k) factor(text[k], levels = unique(text[k]))
    )
    pairs <- c(
      Map(c, names(kinds), names(kinds)), list(c("strings", "levels"), c("levels", "other"))
    )
    for (pair in pairs) {
      for (n in list(c(6000, 3000), c(2000, 0), c(0, 1500), c(1500, 1500))) {
        side <- function(kind, n) {
          k <- sample(c(seq_along(text), NA), n, TRUE)
          data.frame(k = kinds[[kind]](k), s = sprintf("%d-%d", seq_len(n), k))
        }
        x <- cbind(side(pair[1L], n[1L]), v = seq_len(n[1L]))
        y <- cbind(side(pair[2L], n[2L]), w = seq_len(n[2L]))
        all_x <- n[1L] > n[2L]
        px <- partition_scatter(cl, x, parts = 3)
        j <- partition_join(px, partition_scatter(cl, y, parts = 2), "k", all.x = all_x, parts = 4)
        got <- partition_collect(partition_shuffle(j, "v"))
        want <- merge(x, y, "k", all.x = all_x)
        got <- got[order(got$v, got$w), ]
        want <- want[order(want$v, want$w), ]
        row.names(got) <- row.names(want) <- NULL
        label <- paste(c(pair, n), collapse = " ")
        rest <- c("v", "w", "s.x", "s.y")
        expect_identical(got[rest], want[rest], label = label)
        expect_identical(got$k, x$k[got$v], label = label)
        expect_identical(Encoding(as.character(got$k)), Encoding(as.character(x$k[got$v])))
      }
    }
  })

  test_that("NA finds NA, and NaN finds NaN, as with merge()", {
    x <- data.frame(k = c(NA, NaN, 1, -0), v = 1:4)
    y <- data.frame(k = c(NaN, 0, NA, NA, 2), w = 1:5)
    got <- partition_collect(partition_join(partition_scatter(cl, x, 2), y, "k", all = TRUE))
    want <- merge(x, y, all = TRUE)
    expect_equal(sorted_rows(got[c("v", "w")]), sorted_rows(want[c("v", "w")]))
    expect_identical(got$w[match(1:2, got$v)], c(3L, 1L))
    expect_identical(got$k[match(5L, got$w)], 2)
  })

  test_that("Rows of a part are in x's order, those of y alone behind them in y's", {
    local_seed(17)
    x <- data.frame(k = sample(40, 200, TRUE), v = 1:200)
    y <- data.frame(k = sample(60, 90, TRUE), w = 1:90)
    j <- partition_join(partition_scatter(cl, x, 4), partition_scatter(cl, y, 3), "k",
      all = TRUE, parts = 3
    )
    for (answer in collect_parts(open_handle(j), NULL)) {
      part <- answer$data
      alone <- is.na(part$v)
      expect_gt(sum(alone), 0)
      expect_false(is.unsorted(alone))
      expect_false(is.unsorted(part$v[!alone]))
      expect_false(is.unsorted(part$w[alone], strictly = TRUE))
      expect_true(all(tapply(part$w, part$v, function(w) !is.unsorted(w, TRUE)), na.rm = TRUE))
    }
    expect_identical(partition_collect(j)$k[is.na(partition_collect(j)$v)] %in% x$k,
      rep(FALSE, sum(!y$k %in% x$k))
    )
  })

  test_that("Keys of other types meet, and get a type for both where y's rows come alone", {
    join <- function(a, b, all.y = TRUE) {
      x <- new_partition_of(cl, list(k = a, v = seq_along(a)))
      y <- new_partition_of(cl, list(k = b, w = seq_along(b)))
      j <- partition_collect(partition_join(x, y, "k", all.y = all.y, parts = 3))
      take_rows(j, order(j$w))
    }
    got <- join(c(1L, NA, 3L), c(3, 0.5, NA))
    expect_identical(got$k, c(3, 0.5, NA))
    expect_identical(got$v, c(3L, NA, 2L))
    expect_identical(join(c(1L, NA, 3L), c(3, 0.5, NA), FALSE)$k, c(3L, NA))
    got <- join(factor(c("a", "b", NA)), c("b", "c", NA))
    expect_identical(got$k, c("b", "c", NA))
    got <- join(factor(c("a", "b")), factor(c("c", "b", "a"), levels = c("b", "c", "a")))
    expect_identical(as.character(got$k), c("c", "b", "a"))
    expect_setequal(levels(got$k), c("a", "b", "c"))
    got <- join(int64(-5, 2^40, NA), c(7L, -5L, NA))
    expect_s3_class(got$k, "integer64")
    expect_identical(int64_numbers(got$k), c(7, -5, NA))
    got <- join(c(2^40, 1.5), int64(2^40, 9, NA))
    expect_identical(got$k, c(2^40, 9, NA))
    expect_identical(got$v, c(1L, NA, NA))
    exact <- int64_of_halves(cbind(c(1L, 2^21), c(-1L, -1L)))
    expect_error(join(c(1, 2, 3), exact), "past 2.53", class = "muster_error_input")
    expect_identical(int64_numbers(exact[2]), -1)
    day <- as.Date("2020-01-01") + 0:2
    whole <- structure(as.integer(day[3:2]), class = "Date")
    expect_equal(join(day[1:2], whole)$k, day[3:2])
    utc <- as.POSIXct("2020-01-01", tz = "UTC")
    there <- as.POSIXct("2020-01-01 01:00:00", tz = "Europe/Berlin") + c(0, 60)
    got <- join(c(utc, utc - 5), there)
    expect_identical(got$v, c(1L, NA))
    expect_identical(as.numeric(got$k), as.numeric(there))
  })

  test_that("integer64 keys are whole numbers, and equal integers and doubles", {
    skip_if(.Platform$endian == "big", "bytes are put together for little-endian machines")
    big <- int64(2^53, 2^53 + 2, NA, 1, 2^53)
    p <- new_partition_of(cl, list(k = big, x = c(1, 2, 3, 4, 5)))
    got <- partition_collect(partition_summarise(p, .by = "k", s = sum(x)))
    expect_identical(sort(got$s), c(2, 3, 4, 6))
    y <- data.frame(k = c(1L, 7L), name = c("one", "seven"))
    expect_identical(partition_collect(partition_join(p, y, "k"))$name, "one")
    y <- data.frame(k = c(2^53, 2^53 + 4, NA), name = c("big", "bigger", "none"))
    joined <- partition_collect(partition_join(p, y, "k", all.x = TRUE))
    expect_identical(joined$name[order(joined$x)], c("big", NA, "none", NA, "big"))
  })

  test_that("A key with most of the rows of x is joined in pieces, in the same order", {
    local_seed(19)
    n <- 60000L
    zipf <- 1 + sample.int(3000L, n, TRUE, prob = 1 / seq_len(3000L))
    x <- data.frame(k = ifelse(runif(n) < 0.6, 1, zipf), v = seq_len(n))
    y <- data.frame(k = c(1:2500, 5000), w = 1:2501)
    p <- partition_scatter(cl, x, parts = 8)
    for (all in c(FALSE, TRUE)) {
      j <- partition_join(p, y, "k", all = all, parts = 8L)
      expect_gt(j$parts, 8L)
      expect_lte(max(stage_of(j)$rows), 2 * mean(stage_of(p)$rows))
      got <- partition_collect(j)
      want <- merge(x, y, all = all)
      row.names(want) <- NULL
      at <- order(got$k, got$v)
      expect_equal(new_frame(lapply(got, `[`, at), nrow(got)), want[order(want$k, want$v), ],
        ignore_attr = "row.names"
      )
      one <- partition_join(partition_scatter(cl[1], x, parts = 8), y, "k", all = all, parts = 8L)
      expect_identical(stage_of(one)$rows, stage_of(j)$rows)
      expect_identical(partition_collect(one), got)
    }
    # The order is that of a join which isn't cut: with few rows none is.
    few <- x[seq(1, n, by = 20), ]
    few_parts <- partition_scatter(cl, few, parts = 8)
    uncut <- partition_join(few_parts, y, "k", all.x = TRUE, parts = 8L)
    expect_identical(uncut$parts, 8L)
    got <- partition_collect(partition_join(p, y, "k", all.x = TRUE, parts = 8L))
    got <- got[got$v %in% few$v, ]
    row.names(got) <- NULL
    expect_identical(got, partition_collect(uncut))
  })

  test_that("Which pieces a part is cut into follows from rows alone", {
    even <- matrix(6000, 4, 3)
    expect_identical(join_tasks(even, c(0, 0, 0), TRUE), cbind(1:3, 1L, 4L, 0L))
    heavy <- even
    heavy[, 2] <- 60000
    tasks <- join_tasks(heavy, c(0, 0, 0), TRUE)
    # Between the map tasks, and once more for y's rows alone.
    expect_identical(tasks, rbind(
      c(1L, 1L, 4L, 0L), c(2L, 1L, 2L, 1L), c(2L, 3L, 4L, 1L), c(2L, 1L, 4L, 2L),
      c(3L, 1L, 4L, 0L)
    ))
    expect_identical(nrow(join_tasks(heavy, c(0, 0, 0), FALSE)), 4L)
    # Where y has as many rows, each piece would read them again.
    expect_identical(nrow(join_tasks(heavy, c(0, 240000, 0), FALSE)), 3L)
    # All rows in one map task: there is nowhere to cut.
    heavy[, 2] <- c(0, 240000, 0, 0)
    expect_identical(nrow(join_tasks(heavy, c(0, 0, 0), FALSE)), 3L)
  })

  test_that("With a small y rows of x stay in their parts and in their order", {
    local_seed(20)
    x <- data.frame(k = sample(c(1:40, NA), 500, TRUE), v = 1:500)
    y <- data.frame(k = sample(c(1:60, NA), 40), s = rep(c("a", "b", NA, "d"), 10), w = 1:40)
    y <- y[c(1:40, 3L), ]
    for (parts in c(1L, 4L, 12L)) {
      p <- partition_map(partition_scatter(cl, x, parts = parts), function(d) {
        d[d$v < 100 | d$v > 400, ]
      })
      some <- x[x$v < 100 | x$v > 400, ]
      for (all.x in c(FALSE, TRUE)) {
        j <- partition_join(p, y, "k", all.x = all.x)
        pairs <- lapply(seq_len(nrow(some)), function(i) {
          at <- which(y$k %in% some$k[i])
          if (all.x && !length(at)) at <- NA_integer_
          data.frame(some[rep(i, length(at)), ], y[at, c("s", "w")], row.names = NULL)
        })
        want <- do.call(rbind, pairs)
        row.names(want) <- NULL
        expect_identical(partition_collect(j), want)
        expect_identical(j$parts, parts)
        other <- partition_join(p, partition_scatter(cl, y, parts = 3), "k", all.x = all.x)
        expect_identical(partition_collect(other), want)
        # Parts by key, which are asked for, have the same rows.
        by_key <- partition_collect(partition_join(p, y, "k", all.x = all.x, parts = parts))
        expect_identical(sorted_rows(by_key), sorted_rows(want))
      }
    }
    # All that follows a loss is the same.
    for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGKILL)
    expect_identical(partition_collect(j), want)
  })

  test_that("Whether y is small follows from rows and bytes alone", {
    x <- list(stage = list(rows = c(4000, 8000), bytes = c(4e6, 8e6)))
    small <- function(rows, bytes) is_small(x, list(stage = list(rows = rows, bytes = bytes)))
    expect_true(small(6000, 6e6))
    expect_false(small(6001, 10))
    expect_false(small(10, 6e6 + 1))
    expect_true(small(c(3000, 3000), c(1, 1)))
    x$stage$rows <- c(1, 1)
    x$stage$bytes <- c(10, 10)
    expect_true(small(1000, 1e6))
    expect_false(small(1001, 10))
    expect_false(small(10, 1e6 + 1))
    x$stage$bytes <- c(1e9, 1e9)
    expect_true(small(10, 64e6))
    expect_false(small(10, 64e6 + 1))
  })

  test_that("What can't be joined says so, with part and worker, and all remain usable", {
    x <- partition_scatter(cl, data.frame(a = 1:20, b = letters[1:20], d = 0, d.x = 0), parts = 2)
    y <- data.frame(a = 1:5, c = letters[1:5], d = 1)
    expect_wrong <- function(code, text = "") {
      error <- expect_error(code, class = "muster_error_input")
      expect_match(conditionMessage(error), text)
      invisible(error)
    }
    error <- expect_wrong(partition_join(x, y, "nope"), "of `[xy]`: There is no column `nope`")
    expect_true(error$part %in% 1:20 && error$worker %in% 1:2)
    expect_wrong(partition_join(x, y, c(a = "c")), "can't be compared")
    expect_wrong(partition_join(x, y, "a"), "two columns `d.x`")
    expect_wrong(partition_join(x, 1:3, "a"))
    expect_wrong(partition_join(x, y, c(a = "a", a = "c")))
    expect_wrong(partition_join(x, y, "a", all.y = NA))
    got <- partition_collect(partition_join(x, y["a"], "a"))
    expect_identical(sort(got$a), 1:5)
    # Nothing of all these is left behind.
    gc()
    partition_collect(x)
    expect_length(open_handle(x)$shuffle$stages, 1L)
  })

  test_that("Data without rows, or without columns, has no partners", {
    x <- partition_scatter(cl, data.frame(g = 1:3, x = 1)[0, ], parts = 2)
    y <- data.frame(g = 1:2, y = 5)
    nothing <- partition_reduce(x, "g", function(d) sum(d$x))
    join <- function(...) partition_collect(partition_join(...))
    expect_identical(join(x, y, "g"), data.frame(g = 1L, x = 1, y = 5)[0, ])
    full <- join(x, y, "g", all = TRUE)
    expect_equal(full[order(full$g), ], data.frame(g = 1:2, x = NA_real_, y = 5),
      ignore_attr = "row.names"
    )
    expect_identical(join(nothing, y, "g"), data.frame(g = 1L, y = 5)[0, ])
    full <- join(nothing, y, "g", all = TRUE)
    expect_equal(full[order(full$g), ], y, ignore_attr = "row.names")
    some <- partition_scatter(cl, data.frame(h = 1:2, y = 5), parts = 2)
    expect_identical(dim(join(some, nothing, c(h = "g"))), c(0L, 2L))
    expect_identical(nrow(join(some, nothing, c(h = "g"), all = TRUE)), 2L)
  })

  test_that("A result without rows joins with its columns, from either side, in all four ways", {
    data <- data.frame(k = factor(c("a", "b")), v = 1:2)
    p <- partition_scatter(cl, data, parts = 2)
    w <- data.frame(k = factor("a", levels = c("a", "q")), w = 1)
    results <- list(
      keys = partition_reduce(p, "k", function(d) NULL),
      full = partition_reduce(p, "k", function(d) data.frame(r = 1)[0, , drop = FALSE]),
      map = partition_map(p, function(d) d[d$v > 5, ]),
      # Whose columns nobody knows has its key.
      none = partition_map(p, function(d) data.frame())
    )
    more <- list(keys = character(), full = "r", map = "v", none = character())
    for (kind in names(results)) {
      for (all in list(c(FALSE, FALSE), c(TRUE, FALSE), c(FALSE, TRUE), c(TRUE, TRUE))) {
        left <- partition_collect(
          partition_join(results[[kind]], w, "k", all.x = all[1], all.y = all[2])
        )
        info <- paste(kind, all[1], all[2])
        expect_identical(names(left), c("k", more[[kind]], "w"), info = info)
        expect_s3_class(left$k, "factor")
        expect_identical(as.character(left$k), if (all[2]) "a" else character(), info = info)
        right <- partition_collect(partition_join(
          partition_scatter(cl, w), results[[kind]], "k", all.x = all[1], all.y = all[2]
        ))
        expect_identical(names(right), c("k", "w", more[[kind]]), info = info)
        expect_identical(right$w, if (all[1]) 1 else numeric(), info = info)
      }
    }
  })

  test_that("Columns of any name stay what they are in joins", {
    names <- c("x", "y", "k.x", "k.y", "pairs", "by_x", "rows", "value", "first", "T")
    for (key in names) {
      for (other in setdiff(names, key)[1:3]) {
        x <- stats::setNames(data.frame(1:2, 3:4), c(key, other))
        y <- stats::setNames(data.frame(2:3, 5:6), c(key, other))
        got <- partition_collect(partition_join(partition_scatter(cl, x), y, key))
        expect_identical(got, merge(x, y, by = key), info = paste(key, other))
      }
    }
    twice <- partition_map(partition_scatter(cl, data.frame(k = 1, v = 2)), function(d) {
      structure(list(1, 2, 3), names = c("k", "v", "v"), class = "data.frame", row.names = 1L)
    })
    y <- partition_scatter(cl, data.frame(k = 1, w = 2))
    for (pair in list(list(twice, y), list(y, twice))) {
      expect_error(partition_join(pair[[1]], pair[[2]], "k"), "two columns",
        class = "muster_error_input"
      )
    }
  })
})

test_that("a join by many factors is that by their strings, also while R collects", {
  local_seed(7)
  side <- function() {
    lapply(stats::setNames(nm = paste0("k", 1:7)), function(k) {
      levels <- paste0(k, "-", sample(60L))
      factor(sample(paste0(k, "-", 1:2), 50, TRUE), levels)
    })
  }
  x <- side()
  y <- side()
  join <- function() .Call(ffi_key_join, x, 50, y, 50, c(FALSE, FALSE), 1L)
  want <- join()
  .Call(ffi_block_drop, c(0L, 0L, 0L)) # forgets them
  gctorture2(1L)
  got <- tryCatch(join(), finally = gctorture2(0L))
  expect_identical(got, want)
  plain <- .Call(ffi_key_join, lapply(x, as.character), 50, lapply(y, as.character), 50,
    c(FALSE, FALSE), 1L)
  expect_identical(got, plain)
})
