# partition_shuffle(), _reduce(): right for all kinds of keys, whatever the workers.

test_cluster("Rows that move between two workers", {
  cl <- local_cluster(2)

  test_that("F1 Rows with equal keys are in one part, in their order, for all kinds of keys", {
    local_seed(11)
    for (kind in key_kinds) {
      data <- data.frame(k = key_column(kind, 30), row = 1:30)
      p <- partition_shuffle(partition_scatter(cl, data, parts = 3), "k", parts = 4)
      got <- partition_collect(partition_map(p, function(d) {
        cbind(d, part = rep(d$row[1], nrow(d)))
      }))
      want <- slow_groups(list(data$k))
      expect_identical(nrow(got), 30L, info = kind)
      expect_identical(got$k, data$k[got$row], info = kind)
      group <- want[got$row]
      expect_true(all(tapply(got$part, group, function(x) length(unique(x)) == 1L)), info = kind)
      expect_true(all(tapply(got$row, group, function(x) !is.unsorted(x))), info = kind)
    }
  })

  test_that("F1 Groups are those of ==, for several columns of random kinds", {
    local_seed(12)
    for (round in 1:6) {
      kinds <- sample(key_kinds, 2)
      data <- data.frame(a = key_column(kinds[1], 30), b = key_column(kinds[2], 30), row = 1:30)
      p <- partition_scatter(cl, data, parts = 3)
      got <- partition_collect(partition_reduce(p, c("a", "b"), function(g) {
        data.frame(rows = paste(g$row, collapse = " "))
      }))
      groups <- slow_groups(list(data$a, data$b))
      want <- vapply(split(data$row, groups), paste, "", collapse = " ")
      expect_setequal(got$rows, want)
      first <- as.integer(sub(" .*", "", got$rows))
      expect_identical(got$a, data$a[first], info = kinds[1])
      expect_identical(got$b, data$b[first], info = kinds[2])
    }
  })

  test_that("Aggregates are what base R gives, with and without NA", {
    local_seed(13)
    data <- data.frame(
      g = sample(c(letters[1:5], NA), 500, TRUE), x = sample(c(1:50, NA), 500, TRUE) / 4,
      i = sample(c(-3:3, NA), 500, TRUE), b = sample(c(TRUE, FALSE), 500, TRUE)
    )
    p <- partition_scatter(cl, data, parts = 7)
    got <- partition_collect(partition_summarise(p,
      .by = "g", n = n(), s = sum(x, na.rm = TRUE), m = mean(x, na.rm = TRUE),
      low = min(i, na.rm = TRUE), high = max(x, na.rm = TRUE), na = sum(i), yes = sum(b)
    ))
    key <- ifelse(is.na(data$g), "NA", data$g)
    at <- ifelse(is.na(got$g), "NA", got$g)
    by <- function(x, f, ...) as.numeric(tapply(x, key, f, ...)[at])
    expect_equal(got$n, by(data$x, length))
    expect_equal(got$s, by(data$x, sum, na.rm = TRUE))
    expect_equal(got$m, by(data$x, mean, na.rm = TRUE))
    expect_equal(got$low, by(data$i, min, na.rm = TRUE))
    expect_equal(got$high, by(data$x, max, na.rm = TRUE))
    expect_identical(got$na, rep(NA_integer_, 6))
    expect_equal(got$yes, by(data$b, sum))
  })

  test_that("Aggregates of dates, times, differences and integer64 are base R's, with class", {
    local_seed(18)
    pick <- function(x) x[sample.int(length(x), 200, TRUE)]
    data <- new_frame(list(
      row = 1:200, g = rep(1:4, 50), day = pick(as.Date("2020-02-28") + c(0:3, NA)),
      time = pick(as.POSIXct("2020-03-29 00:30:00", tz = "Europe/Berlin") + c(3600 * 0:4, NA)),
      wait = as.difftime(pick(c(1:3, NA)), units = "mins"), id = int64_pick(200)
    ), 200L)
    storage.mode(data$day) <- "integer"
    got <- partition_collect(partition_summarise(partition_scatter(cl, data, 5),
      .by = g, first = min(day, na.rm = TRUE), last = max(day), day = mean(day, na.rm = TRUE),
      early = min(time, na.rm = TRUE), late = max(time), time = mean(time, na.rm = TRUE),
      short = min(wait, na.rm = TRUE), all = sum(wait, na.rm = TRUE),
      wait = mean(wait, na.rm = TRUE), ids = sum(id), id = max(id, na.rm = TRUE)
    ))
    for (i in 1:4) {
      group <- data[data$g == got$g[i], ]
      id <- int64_numbers(group$id)
      want <- list(
        min(group$day, na.rm = TRUE), max(group$day), mean(group$day, na.rm = TRUE),
        min(group$time, na.rm = TRUE), max(group$time), mean(group$time, na.rm = TRUE),
        min(group$wait, na.rm = TRUE), sum(group$wait, na.rm = TRUE),
        mean(group$wait, na.rm = TRUE)
      )
      expect_equal(unname(as.list(got[i, 2:10])), want)
      whole <- list(int64_numbers(got$id)[i], int64_numbers(got$ids)[i])
      expect_equal(whole, list(max(id, na.rm = TRUE), sum(id)))
    }
    p <- partition_scatter(cl, data, 5)
    expect_error(partition_summarise(p, .by = "g", s = sum(day)), "Group `g` = .*not defined",
      class = "muster_error_remote"
    )
    # A part whose values are all missing, without a class, changes nothing.
    blank <- partition_map(p, function(d) {
      if (d$row[1] == 1L) d$day <- NA
      d
    })
    low <- partition_collect(partition_summarise(blank, .by = "g", low = min(day, na.rm = TRUE)))
    expect_s3_class(low$low, "Date")
  })

  test_that("The part with most rows is begun first", {
    data <- data.frame(g = c(1:50, rep(51L, 500)), x = 1)
    p <- partition_scatter(cl[1], data, parts = 2)
    r <- partition_reduce(p, "g", function(d) c(n = nrow(d), at = as.numeric(Sys.time())),
      .parts = 12
    )
    rows <- stage_of(r)$rows
    expect_gt(sum(rows > 0), 4)
    got <- partition_collect(r)
    # Groups come by part: the heavy one's part is where it is.
    at <- tapply(got$at, rep(seq_along(rows), rows), min)
    heavy <- rep(seq_along(rows), rows)[match(51L, got$g)]
    expect_identical(names(which.min(at)), as.character(heavy))
    expect_identical(order(-stage_of(r)$weights)[1], heavy)
  })

  test_that("A group that is most of the rows is folded before anything travels", {
    data <- data.frame(g = c(rep(1L, 6000), rep(2:41, 100)), x = 1)
    p <- partition_scatter(cl, data, parts = 8)
    r <- partition_summarise(p, .by = "g", s = sum(x), n = n())
    # At most a row for each group and map task.
    expect_lte(sum(stage_of(r)$far[[1]]$rows), 8 * 41)
    expect_lt(sum(stage_of(r)$far[[1]]$bytes), sum(stage_of(p)$bytes) / 5)
    got <- partition_collect(r)
    expect_identical(got$s[match(1:41, got$g)], c(6000, rep(100, 40)))
  })

  test_that("F1 One worker and two give the same rows in the same order, to the last bit", {
    local_seed(14)
    data <- data.frame(g = sample(99, 2000, TRUE), x = rnorm(2000) * 10^sample(-9:9, 2000, TRUE))
    run <- function(cl) {
      p <- partition_scatter(cl, data, parts = 9)
      list(
        partition_collect(partition_summarise(p, .by = "g", s = sum(x), m = mean(x))),
        partition_collect(partition_reduce(p, "g", function(d) sum(d$x))),
        partition_collect(partition_shuffle(p, "g", parts = 5))
      )
    }
    two <- run(cl)
    expect_identical(run(cl[2]), two)
    expect_identical(run(cl), two)
  })

  test_that("A function sees a whole group; with combine, what combine gave", {
    local_seed(15)
    data <- data.frame(g = sample(4, 200, TRUE), x = rnorm(200))
    p <- partition_scatter(cl, data, parts = 5)
    medians <- partition_collect(partition_reduce(p, "g", function(d) median(d$x)))
    expect_equal(medians$value, as.numeric(tapply(data$x, data$g, median)[as.character(medians$g)]))
    ranges <- partition_collect(partition_reduce(p, "g",
      function(d, ...) c(low = min(d$x), high = max(d$x)),
      .combine = function(d, ...) data.frame(x = range(d$x))
    ))
    expect_equal(ranges$low, as.numeric(tapply(data$x, data$g, min)[as.character(ranges$g)]))
    some <- partition_collect(partition_reduce(p, "g", function(d) if (d$g[1] > 2) head(d, 3)))
    expect_identical(nrow(some), 6L)
    expect_setequal(some$g, 3:4)
  })

  test_that("Keys that don't exist, can't be keys or are never equal say so, by name", {
    data <- data.frame(a = 1:20, b = letters[1:20])
    data$l <- as.list(1:20)
    data$z <- complex(20)
    p <- partition_scatter(cl, data, parts = 2)
    expect_wrong <- function(code, text = "") {
      error <- expect_error(code, class = "muster_error_input")
      expect_match(conditionMessage(error), text)
      invisible(error)
    }
    error <- expect_wrong(partition_shuffle(p, "nope"), "There is no column `nope`")
    expect_true(error$part %in% 1:2 && error$worker %in% 1:2)
    error <- expect_wrong(partition_shuffle(p, "l"), "`l` can't be a key")
    expect_true(error$part %in% 1:2 && error$worker %in% 1:2)
    expect_wrong(partition_shuffle(p, "z"), "`z` can't be a key")
    expect_wrong(partition_shuffle(p, character()))
    unlike <- partition_map(p, function(d) {
      if (d$a[1] > 1) d$a <- as.character(d$a)
      d
    })
    expect_wrong(partition_shuffle(unlike, "a"), "can't be compared")
    other <- partition_map(p, function(d) if (d$a[1] > 1) d[1:2] else d)
    error <- expect_wrong(partition_shuffle(other, "a"), "columns are .* but part")
    expect_true(error$part %in% 1:2 && error$worker %in% 1:2)
    expect_wrong(partition_summarise(p, .by = "a", a = sum(a)), "two columns `a`")
    expect_wrong(partition_reduce(p, "a", c(s = "sum(b)")), "or the name of one")
    expect_wrong(partition_reduce(p, "a", function(d) 1:2), "one value for each")
    expect_identical(sort(partition_collect(partition_shuffle(p, "b"))$a), 1:20)
  })

  test_that("Data without rows has no groups, whatever is done with it", {
    p <- partition_scatter(cl, data.frame(g = 1:3, x = 1)[0, ], parts = 2)
    expect_identical(partition_collect(partition_shuffle(p, "g")), data.frame(g = 1L, x = 1)[0, ])
    sums <- partition_summarise(p, .by = "g", s = sum(x))
    expect_identical(partition_collect(sums), data.frame(g = 1L, s = 1)[0, ])
    none <- partition_reduce(p, "g", function(d) sum(d$x))
    expect_identical(partition_collect(none), data.frame(g = integer()))
    expect_identical(partition_collect(partition_shuffle(none, "g")), data.frame(g = integer()))
  })

  test_that("A result without rows keeps its key's columns, or those that a function gave", {
    kinds <- data.frame(
      f = factor("a", levels = c("z", "a")), d = as.Date("2020-01-01"), s = "x",
      t = as.POSIXct("2020-01-01", tz = "Asia/Tokyo"), v = 1
    )
    kinds <- kinds[rep(1, 4), ]
    p <- partition_scatter(cl, kinds, parts = 3)
    by <- names(kinds)[1:4]
    none <- partition_reduce(p, by, function(d) NULL)
    expect_identical(partition_collect(none), kinds[0, by], ignore_attr = "row.names")
    expect_identical(levels(partition_collect(none)$f), levels(kinds$f))
    empty <- partition_reduce(p, by, function(d) data.frame(w = 1L, u = "a")[0, ])
    expect_identical(
      partition_collect(empty), cbind(kinds[0, by], w = integer(), u = character()),
      ignore_attr = "row.names"
    )
    # What comes after works with them: a part without rows may lack what others have.
    some <- partition_reduce(p, "s", function(d) c(n = nrow(d) + 0), .parts = 4)
    expect_identical(partition_collect(some), data.frame(s = "x", n = 4))
    again <- partition_map(some, function(d) d[d$n > 1, ])
    expect_identical(partition_collect(again), data.frame(s = "x", n = 4))
    expect_identical(partition_collect(partition_shuffle(again, "n")), data.frame(s = "x", n = 4))
    moved <- partition_map(partition_shuffle(none, "s", parts = 7), function(d) d[d$n > 1, ])
    expect_identical(nrow(partition_collect(moved)), 0L)
    twice <- partition_summarise(some, .by = "s", total = sum(n), most = max(n))
    expect_identical(partition_collect(twice), data.frame(s = "x", total = 4, most = 4))
    over <- partition_summarise(none, .by = "s", n = n(), total = sum(v))
    expect_identical(
      partition_collect(over), data.frame(s = character(), n = integer(), total = logical())
    )
    # Rows that have nothing but their key.
    expect_identical(
      partition_collect(partition_reduce(p, "s", function(d) unique(d["s"]))), data.frame(s = "x")
    )
  })

  test_that("Keys may be named as partial results are, and sums lose nothing", {
    get <- function(data, by, what) {
      partition_collect(summarise_text(partition_scatter(cl, data, parts = 2), by, what))
    }
    got <- get(data.frame(a.sum = c(1, 1, 2), x = c(10, 20, 30)), "a.sum", c(a = "sum(x)"))
    expect_identical(got[order(got$a.sum), "a"], c(30, 30))
    got <- get(data.frame(v.count = c(1, 1, 2), x = c(10, 20, 30)), "v.count", c(v = "mean(x)"))
    expect_identical(got[order(got$v.count), "v"], c(15, 30))
    keep <- TRUE
    data <- data.frame(k = 1, x = c(10, NA, 5))
    for (flag in c("T", "TRUE", "1 == 1", "keep")) {
      expect_identical(get(data, "k", c(s = paste0("sum(x, na.rm = ", flag, ")")))$s, 15)
    }
    expect_identical(get(data.frame(k = 1, x = c(1e16, 1, -1e16)), "k", c(s = "sum(x)"))$s, 1)
  })

  test_that("A single value can't have the name of the key", {
    p <- partition_scatter(cl, data.frame(k = 1:3, x = c(1, 2, NA), value = 1:3), parts = 2)
    error <- expect_error(partition_reduce(p, "value", function(d) sum(d$x)), "would be `value`",
      class = "muster_error_input"
    )
    got <- partition_collect(partition_reduce(p, "value", function(d) c(x = sum(d$x))))
    expect_identical(got[order(got$value), "x"], c(1, 2, NA))
  })

  test_that("F3 handlers are taken, and change nothing where nothing listens", {
    p <- partition_scatter(cl, data.frame(a = 1:9), parts = 2)
    want <- partition_collect(partition_shuffle(p, "a"))
    local_settings(muster.shuffle_handlers = 20)
    expect_identical(partition_collect(partition_shuffle(p, "a")), want)
  })

  test_that("F1 Blocks past the limit are in files, the result is the same, and files go", {
    data <- data.frame(g = rep(1:50, 40), s = rep(c("x", "yy"), 1000), x = 1:2000 / 3)
    p <- partition_scatter(cl, data, parts = 4)
    want <- partition_collect(partition_shuffle(p, "g"))
    local_settings(muster.shuffle_memory = 0)
    files <- function() sum(unlist(clusterEvalQ(cl, length(list.files(tempdir(), "^blocks-")))))
    s <- partition_shuffle(p, "g")
    # Without segments those of what ran before are in files, too, until they are collected.
    if (built_with("memfd")) expect_identical(files(), 4L) else expect_gte(files(), 4L)
    expect_identical(partition_collect(s), want)
    rm(s)
    gc()
    for (i in 1:3) partition_collect(p)
    expect_identical(files(), 0L)
  })

  test_that("F1 A spilled block that was changed, cut or removed is found and made again", {
    data <- data.frame(g = rep(1:50, 400), x = 1:20000 / 3)
    p <- partition_scatter(cl, data, parts = 4)
    local_settings(muster.shuffle_memory = 0)
    s <- partition_shuffle(p, "g")
    want <- partition_collect(s)
    files <- unlist(clusterEvalQ(cl, list.files(tempdir(), "^blocks-", full.names = TRUE)))
    expect_length(files, 4)
    bytes <- readBin(files[1], "raw", file.size(files[1]))
    bytes[length(bytes) %/% 2] <- xor(bytes[length(bytes) %/% 2], as.raw(1))
    writeBin(bytes, files[1])
    writeBin(readBin(files[2], "raw", 100), files[2])
    unlink(files[3])
    # All parts are gathered again.
    .Call(ffi_plan_forget, open_handle(s)$shuffle$plan, s$stage)
    missed <- plan_counts(s)$missed
    expect_identical(partition_collect(s), want)
    expect_gte(plan_counts(s)$missed - missed, 3)
  })

  test_that("F1 Workers ask each other while their R computes, over links made once", {
    skip_without_proc()
    data <- data.frame(g = 1:1000, x = 1)
    p <- partition_scatter(cl, data, parts = 2)
    expect_identical(nrow(partition_collect(partition_shuffle(p, "g"))), 1000L)
    sockets <- function() {
      vapply(node_pids(cl), function(pid) {
        fds <- Sys.readlink(list.files(file.path("/proc", pid, "fd"), full.names = TRUE))
        sum(grepl("^socket:", fds))
      }, 0L)
    }
    before <- sockets()
    for (i in 1:5) partition_collect(partition_shuffle(p, "g"))
    expect_identical(sockets(), before)
  })
})

test_cluster("U2: a group whose function fails is named by its key", {
  cl <- local_cluster(2)
  data <- data.frame(
    id = rep(1:6, each = 4), g = factor(rep(c("a", "b\"", NA, "d"), 6)), x = as.numeric(1:24)
  )
  p <- partition_scatter(cl, data, parts = 3)
  fails <- function(group) {
    if (group$id[1L] == 5L && is.na(group$g[1L])) stop("not this one")
    # What is handled isn't the failing one.
    c(n = try(nrow(group), silent = TRUE), handled = tryCatch(stop("x"), error = function(e) 1))
  }
  failure <- expect_error(
    partition_collect(partition_reduce(p, c("id", "g"), fails)), class = "muster_error_remote"
  )
  expect_match(conditionMessage(failure),
    "^Group `id` = 5, `g` = NA \\(part [0-9]+ of the result\\) raised an error: not this one")
  expect_identical(failure$group, list(id = 5L, g = factor(NA, levels(data$g))))
  quoted <- function(group) if (identical(as.character(group$g[1L]), "b\"")) stop("quoted")
  expect_error(partition_collect(partition_reduce(p, "g", quoted)), "Group `g` = b\" \\(part")
  # One that fails after all groups is of none.
  wrong <- function(group) if (group$id[1L] == 2L) list(1, 2) else c(n = 1)
  failure <- expect_error(partition_collect(partition_reduce(p, "id", wrong)))
  expect_null(failure$group)
  # Keys and elements of map_reduce().
  words <- function(line) {
    key <- strsplit(line, " ")[[1L]]
    list(key = key, value = nchar(key))
  }
  counts <- function(key, values) if (key == "b") stop("no b") else 1
  expect_error(map_reduce(cl, c("a b", "c"), words, counts), "^Group `key` = \"b\" \\(part")
  breaks <- function(line) if (line == "c") stop("no c") else words(line)
  expect_error(
    map_reduce(cl, c("a b", "a", "c"), breaks, counts, .parts = 2L),
    "^Element 3 \\(part 2 of `.inputs`\\) raised an error: no c"
  )
})

test_cluster("U7: the third argument of partition_shuffle() is the number of parts", {
  cl <- local_cluster(1)
  p <- partition_scatter(cl, data.frame(id = 1:20), parts = 2)
  expect_identical(partition_shuffle(p, "id", 8)$parts, 8L)
  expect_error(partition_shuffle(p, "id", 8, 1), "unused argument")
})

test_cluster("A group that fails has a row of its own, if wished", {
  cl <- local_cluster()
  rows <- data.frame(k = rep(1:10, each = 4), x = as.numeric(1:40))
  p <- partition_scatter(cl, rows, 4)
  fit <- function(rows, bad) {
    if (rows$k[1L] %in% bad) stop("a bad model of ", rows$k[1L])
    if (rows$k[1L] == 2L) return(NULL)
    data.frame(m = c(mean(rows$x), -1), l = c("mean", "other"))
  }
  got <- function(bad, parts = 8L) {
    done <- partition_reduce(p, "k", fit, bad, .on_error = "return", .parts = parts)
    sorted_rows(partition_collect(done))
  }
  some <- got(c(3, 5))
  expect_identical(names(some), c("k", "m", "l", ".error"))
  expect_identical(some$k, c(1L, 1L, 3L, 4L, 4L, 5L, rep(6:10, each = 2L)))
  expect_identical(some$.error[some$k == 3], "a bad model of 3")
  expect_identical(is.na(some$.error), !some$k %in% c(3, 5))
  expect_identical(is.na(some$m), some$k %in% c(3, 5))
  expect_identical(some$m[some$k == 4], c(-1, 14.5))
  # None fails, or all do.
  plain <- sorted_rows(partition_collect(partition_reduce(p, "k", fit, 0, .parts = 8L)))
  expect_identical(got(0)[names(plain)], plain)
  expect_true(all(is.na(got(0)$.error)))
  expect_identical(got(1:10)$.error, paste("a bad model of", 1:10))
  # Parts in which all groups failed get the others' columns, and keep them when made again.
  done <- partition_reduce(p, "k", fit, 1:8, .on_error = "return", .parts = 64L)
  want <- partition_collect(done)
  expect_identical(names(done), c("k", "m", "l", ".error"))
  columns <- partition_map(done, function(part) data.frame(n = length(part)))
  expect_setequal(unique(partition_collect(columns)$n), c(0L, 4L))
  pid <- node_pids(cl)[1L]
  tools::pskill(pid, tools::SIGKILL)
  expect_identical(partition_collect(done), want)
  # Without a way out the first error ends all.
  expect_error(partition_reduce(p, "k", fit, 3), "Group `k` = 3", class = "muster_error_remote")
})

test_cluster("What `.on_error` can't return is refused", {
  cl <- local_cluster()
  p <- partition_scatter(cl, data.frame(.error = 1, x = 2), 1)
  fun <- function(rows) list(.error = 1)
  refused <- function(...) expect_error(partition_reduce(p, ..., fun), class = "muster_error_input")
  refused(".error", .on_error = "return")
  refused("x", .on_error = "return")
  refused("x", .on_error = "ignore")
})
