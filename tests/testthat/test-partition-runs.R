# Rows that travel sorted by key, in runs: see key_split() and part_gather().

keys_of <- function(n) {
  pick <- function(x) x[sample.int(length(x), n, TRUE)]
  list(
    i = pick(c(-3:3, NA)), l = pick(c(TRUE, FALSE, NA)), d = pick(c(1:4, NA, NaN)),
    s = pick(c("a", "\u00e4", "", NA)), c = .Call(ffi_coded, pick(c("a", "b", NA))),
    f = pick(factor(c("z", "a", NA))), day = pick(as.Date("2020-01-01") + 0:5),
    long = int64_from(rep(1L, n), pick(0:3))
  )
}

test_that("Rows in runs have the parts and the order of others, and runs are whole", {
  local_seed(1)
  n <- 2000L
  all <- keys_of(n)
  for (by in c(as.list(names(all)), list(c("i", "s"), c("f", "l", "day"), c("d", "c")))) {
    keys <- all[by]
    plain <- .Call(ffi_key_split, keys, n, 5L)
    split <- .Call(ffi_key_split_runs, keys, n, 5L)
    expect_identical(split$begin, plain$begin)
    ends <- cumsum(split$sizes)
    groups <- .Call(ffi_key_groups, keys, n)
    expect_identical(length(split$sizes), length(groups$first))
    expect_identical(c(0L, ends)[split$runs + 1L], split$begin)
    expect_identical(split$rows[ends - split$sizes + 1L], split$first)
    run <- rep(seq_along(ends), split$sizes)
    expect_identical(groups$group[split$rows], groups$group[split$first[run]])
    for (k in 1:5) {
      own <- plain$rows[plain$begin[k] + seq_len(diff(plain$begin)[k])]
      got <- split$rows[split$begin[k] + seq_len(diff(split$begin)[k])]
      at <- factor(groups$group[own], unique(groups$group[own]))
      expect_identical(got, as.integer(unlist(split(own, at))))
    }
    # As when they are read.
    frame <- take_rows(new_frame(keys, n), split$rows)
    with <- key_groups(frame, by, split$sizes)
    without <- key_groups(frame, by)
    expect_identical(with[c("group", "first")], without)
    expect_identical(group_rows(with), group_rows(without))
  }
})

test_that("There are no runs of keys that are equal but differ, nor of many keys", {
  runs <- function(x) .Call(ffi_key_split_runs, list(x), length(x), 3L)
  latin <- iconv("\u00e4", "UTF-8", "latin1")
  other_nan <- readBin(as.raw(c(1, 0, 0, 0, 0, 0, 0xf8, 0x7f)), "double", endian = "little")
  expect_null(runs(rep(c(0, -0, 1), 50)))
  expect_null(runs(rep(c(NaN, other_nan), 50)))
  expect_null(runs(rep(c("\u00e4", latin), 50)))
  twice <- structure(rep(1:2, 50), class = "factor", levels = c("a", "a"))
  expect_null(runs(twice))
  expect_null(runs(1:100))
  expect_null(runs(c(1:33, 1:33, 1:33)))
  expect_null(runs(rep(c(0.5, 1e300), 50)))
  expect_identical(lengths(runs(c(1:25, 1:25, 1:25, 1:25)))[["sizes"]], 25L)
  expect_identical(lengths(runs(rep(c(0, 1), 50)))[["sizes"]], 2L)
  expect_identical(runs(integer())$sizes, integer())
})

# What base R makes of the rows of each key, in the order of the keys in `like`.
groups_like <- function(like, data, by, fun) {
  text <- function(x) {
    keys <- lapply(x[by], function(key) format(unclass(key), digits = 17))
    do.call(paste, c(keys, sep = "|"))
  }
  at <- split(seq_len(nrow(data)), factor(text(data), text(like)))
  vapply(unname(at), function(rows) fun(data[rows, , drop = FALSE]), "")
}

test_cluster("D8 Groups of rows in runs are the data's, in memory, in files and over links", {
  cl <- local_cluster(2)
  local_seed(2)
  n <- 3000L
  data <- new_frame(keys_of(n), n)
  data$c <- as.character(data$c)
  data$id <- seq_len(n)
  data$x <- rnorm(n)
  data$z <- ifelse(data$id > 2000, 0, -0) # runs in some map tasks
  data$z[2500] <- -0 # and not in others
  p <- partition_scatter(cl, data, parts = 6)
  whole <- function(g) paste(c(g$id, signif(g$x, 4), 1 / g$z), collapse = " ")
  hows <- list(list(), list(muster.shuffle_memory = 0), list(muster.shuffle_links = "listen"))
  for (how in hows) {
    options <- options(how)
    for (by in list("i", "z", "c", c("d", "s"), c("f", "l", "day"), c("long", "z"))) {
      sums <- partition_summarise(p,
        .by = by, ids = paste(c(id, signif(x, 4), 1 / z), collapse = " "), m = median(x)
      )
      sums <- partition_collect(sums)
      expect_identical(sums$ids, groups_like(sums, data, by, whole))
      reduced <- partition_collect(partition_reduce(p, by, function(g) list(ids = whole(g))))
      expect_identical(reduced$ids, sums$ids)
      expect_identical(reduced[by], sums[by])
      columns <- partition_collect(partition_reduce(p, by, function(g) {
        kinds <- vapply(g, typeof, "")
        list(names = paste(names(g), collapse = " "), kinds = paste(kinds, collapse = " "))
      }))
      expect_identical(unique(columns$names), paste(names(data), collapse = " "))
      expect_identical(unique(columns$kinds), paste(vapply(data, typeof, ""), collapse = " "))
    }
    options(options)
  }
})

test_cluster("Map tasks whose columns differ can have rows in runs, and so can lost ones", {
  cl <- local_cluster(2)
  p <- partition_map(partition_scatter(cl, data.frame(id = 1:400), parts = 4), function(part) {
    part$k <- if (part$id[1L] > 200L) part$id %% 3 else part$id %% 3L
    part
  })
  ids <- function() {
    partition_collect(partition_reduce(p, "k", function(g) list(ids = paste(g$id, collapse = " "))))
  }
  got <- ids()
  expect_setequal(got$k, 0:2)
  want <- vapply(got$k, function(k) paste(which(1:400 %% 3 == k), collapse = " "), "")
  expect_identical(got$ids, want)
  tools::pskill(node_pids(cl)[1L], tools::SIGKILL)
  expect_identical(ids(), got)
})
