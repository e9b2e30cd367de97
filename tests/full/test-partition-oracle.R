# Groups, aggregates and joins of random columns of all kinds of keys, against base R (match(),
# interaction(), tapply()) and data.table. Each round has a seed of its own, which failures tell.

source("../testthat/helper-partition.R", local = TRUE)

has_data_table <- requireNamespace("data.table", quietly = TRUE)
# Its threads and options are none of a test's.
if (has_data_table) data.table::setDTthreads(1)

# data.table's own `[` is meant where the global environment calls it.
in_global <- function(fun) {
  environment(fun) <- globalenv()
  fun
}

# A data frame of n rows with keys of these kinds, k1 and so on.
random_rows <- function(kinds, n) {
  keys <- lapply(kinds, key_column, n = n)
  names(keys) <- paste0("k", seq_along(kinds))
  new_frame(c(keys, list(row = seq_len(n), v = sample.int(1000L, n, TRUE) / 8)), n)
}

# Groups by base R: a number for each row.
base_groups <- function(data, by) {
  codes <- lapply(data[by], function(x) key_codes(x)[[1L]])
  groups <- as.integer(interaction(codes, drop = TRUE))
  match(groups, unique(groups))
}

expect_groups <- function(cl, seed) {
  local_seed(seed)
  kinds <- sample(all_key_kinds, sample.int(3L, 1L))
  info <- paste("seed", seed, "kinds", paste(kinds, collapse = " "))
  data <- random_rows(kinds, sample(c(1L, 20L, 300L), 1L))
  by <- names(data)[seq_along(kinds)]
  p <- partition_scatter(cl, data, parts = sample.int(7L, 1L))
  parts <- sample.int(7L, 1L)
  groups <- base_groups(data, by)
  first <- which(!duplicated(groups))
  whole <- partition_collect(partition_reduce(p, by, function(d) {
    list(first = d$row[1L], rows = paste(d$row, collapse = " "), n = nrow(d))
  }, .parts = parts))
  expect_setequal(whole$first, first)
  at <- match(whole$first, first)
  rows <- vapply(split(data$row, groups), paste, "", collapse = " ")
  expect_identical(whole$rows, unname(rows)[groups[whole$first]], info = info)
  expect_identical(whole[by], take_rows(data[by], whole$first), info = info)
  folded <- partition_collect(partition_summarise(p,
    .by = by, n = n(), s = sum(v), low = min(v), high = max(v), m = mean(v), first = min(row),
    .parts = parts
  ))
  group <- groups[folded$first]
  for (one in list(c("s", "sum"), c("low", "min"), c("high", "max"), c("m", "mean"))) {
    want <- tapply(data$v, groups, match.fun(one[2L]))
    expect_equal(folded[[one[1L]]], as.numeric(want)[group], info = info)
  }
  expect_identical(folded$n, tabulate(groups)[group], info = info)
  # Both in the same order, that of the key's part and then of appearance.
  expect_identical(as.integer(folded$first), whole$first, info = info)
  if (has_data_table && !"bytes" %in% kinds) {
    count <- in_global(function(table, by) {
      table[, list(first = row[1L], n = .N, s = sum(v)), by = by]
    })
    theirs <- count(data.table::as.data.table(unclass(data)), by)
    expect_setequal(theirs$first, folded$first)
    at <- match(folded$first, theirs$first)
    expect_equal(folded$n, as.numeric(theirs$n)[at], info = info)
    expect_equal(folded$s, theirs$s[at], info = info)
  }
}

test_cluster("Groups and aggregates of random keys are base R's and data.table's", {
  limit_time(120)
  cl <- local_cluster(2)
  for (seed in 1:60) expect_groups(cl, seed)
})

# Kinds that can be equal, of x and of y.
join_kinds <- list(
  c("integer", "double"), c("logical", "integer"), c("integer", "int64"), c("int64", "double"),
  c("int64", "logical"), c("factor", "character"), c("character", "mixed"), c("ordered", "factor"),
  c("time", "hour"), c("mixed", "factor")
)

# Pairs of rows by base R's merge() over the codes of the keys.
base_pairs <- function(x, y, by, all) {
  coded <- lapply(by, function(name) key_codes(x[[name]], y[[name]]))
  mine <- data.frame(lapply(coded, `[[`, 1L), seq_len(nrow(x)))
  theirs <- data.frame(lapply(coded, `[[`, 2L), seq_len(nrow(y)))
  names(mine) <- c(by, "row.x")
  names(theirs) <- c(by, "row.y")
  merge(mine, theirs, by = by, all.x = all[1L], all.y = all[2L])[c("row.x", "row.y")]
}

expect_pairs <- function(got, want, info) {
  expect_identical(nrow(got), nrow(want), info = info)
  got <- got[order(got[[1L]], got[[2L]]), ]
  want <- want[order(want[[1L]], want[[2L]]), ]
  expect_identical(got[[1L]], want[[1L]], info = info)
  expect_identical(got[[2L]], want[[2L]], info = info)
}

expect_join <- function(cl, seed) {
  local_seed(seed)
  kinds <- lapply(seq_len(sample.int(3L, 1L)), function(i) {
    if (runif(1) < 0.5) sample(join_kinds, 1L)[[1L]] else rep(sample(all_key_kinds, 1L), 2L)
  })
  info <- paste("seed", seed, "kinds", paste(unlist(kinds), collapse = " "))
  x <- random_rows(vapply(kinds, `[`, "", 1L), sample(c(1L, 10L, 90L), 1L))
  y <- random_rows(vapply(kinds, `[`, "", 2L), sample(c(1L, 10L, 70L), 1L))
  by <- names(x)[seq_along(kinds)]
  all <- runif(2) < 0.5
  px <- partition_scatter(cl, x, parts = sample.int(5L, 1L))
  py <- if (runif(1) < 0.5) partition_scatter(cl, y, parts = sample.int(5L, 1L)) else y
  j <- partition_join(px, py, by, all.x = all[1L], all.y = all[2L], parts = sample.int(6L, 1L))
  got <- partition_collect(j)
  if (!nrow(got)) {
    return(expect_identical(nrow(base_pairs(x, y, by, all)), 0L, info = info))
  }
  expect_pairs(got[c("row.x", "row.y")], base_pairs(x, y, by, all), info)
  # Keys are those of x, of y where there is none; other columns come with their rows.
  for (name in by) {
    keys <- key_codes(x[[name]], y[[name]], got[[name]])
    alone <- is.na(got$row.x)
    expect_identical(keys[[3L]][!alone], keys[[1L]][got$row.x[!alone]], info = info)
    expect_identical(keys[[3L]][alone], keys[[2L]][got$row.y[alone]], info = info)
    if (!all[2L]) expect_identical(got[name], take_rows(x[name], got$row.x), info = info)
  }
  expect_identical(got$v.x, x$v[got$row.x], info = info)
  expect_identical(got$v.y, y$v[got$row.y], info = info)
  for (answer in collect_parts(open_handle(j), NULL)) {
    part <- answer$data
    alone <- is.na(part$row.x)
    expect_false(is.unsorted(alone), info = info)
    expect_false(is.unsorted(part$row.x[!alone]), info = info)
    expect_false(is.unsorted(part$row.y[alone]), info = info)
  }
  same <- all(vapply(kinds, function(kind) kind[1L] == kind[2L], NA))
  if (has_data_table && same && !"bytes" %in% unlist(kinds)) {
    theirs <- merge(data.table::as.data.table(unclass(x)), data.table::as.data.table(unclass(y)),
      by = by, all.x = all[1L], all.y = all[2L], allow.cartesian = TRUE
    )
    theirs <- as.data.frame(theirs)
    expect_pairs(got[c("row.x", "row.y")], theirs[c("row.x", "row.y")], info)
  }
}

test_cluster("Joins of random keys, of one type or two, are base R's and data.table's", {
  limit_time(120)
  cl <- local_cluster(2)
  for (seed in 101:200) expect_join(cl, seed)
})

test_cluster("Joins of skewed keys are merge()'s, for one worker, two and three", {
  limit_time(120)
  cl <- local_cluster(3)
  for (seed in 201:206) {
    local_seed(seed)
    info <- paste("seed", seed)
    n <- 100000L
    zipf <- sample.int(5000L, n, TRUE, prob = 1 / seq_len(5000L)^runif(1, 1, 2))
    x <- data.frame(k = ifelse(runif(n) < 0.6, 7L, zipf), row.x = seq_len(n))
    y <- data.frame(k = sample.int(6000L, 3000L), row.y = 1:3000)
    parts <- sample(4:16, 1)
    all <- runif(2) < 0.5
    join <- function(cl) {
      p <- partition_scatter(cl, x, parts)
      partition_join(p, y, "k", all.x = all[1L], all.y = all[2L], parts = parts)
    }
    j <- join(cl)
    # Less than one and a half means aren't cut; nor are rows of y alone.
    expect_lte(max(stage_of(j)$rows), 2 * n / parts + sum(!y$k %in% x$k))
    got <- partition_collect(j)
    want <- merge(x, y, by = "k", all.x = all[1L], all.y = all[2L])
    expect_pairs(got[c("row.x", "row.y")], want[c("row.x", "row.y")], info)
    for (workers in 1:2) {
      expect_identical(partition_collect(join(cl[seq_len(workers)])), got, info = info)
    }
  }
})

test_cluster("A join in pieces loses a worker and is the same", {
  limit_time(60)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  local_seed(3)
  x <- data.frame(k = c(rep(1L, 40000), sample(2:900, 20000, TRUE)), v = 1:60000)
  y <- data.frame(k = 1:1000, w = 1:1000)
  j <- partition_join(partition_scatter(cl, x, 8), y, "k", all = TRUE)
  expect_gt(j$parts, 8L)
  want <- partition_collect(j)
  for (worker in 1:2) {
    tools::pskill(node_pids(cl)[worker], 9L)
    expect_identical(partition_collect(j), want)
    wait_until(all(cluster_status(cl)$state == "idle"))
  }
})

test_cluster("Columns that can't be keys are refused by name, in groups and joins", {
  cl <- local_cluster(1)
  data <- new_frame(list(
    ok = 1:4, list = list(1, 2, 3, 4), matrix = matrix(1:8, 4), complex = complex(4),
    raw = as.raw(1:4)
  ), 4L)
  p <- partition_scatter(cl, data, parts = 2)
  for (name in setdiff(names(data), "ok")) {
    text <- paste0("`", name, "` can't be a key")
    expect_error(partition_shuffle(p, name), text, class = "muster_error_input")
    expect_error(partition_summarise(p, .by = c("ok", name), n = n()), text,
      class = "muster_error_input"
    )
    expect_error(partition_join(p, p, name), text, class = "muster_error_input")
    # As a column that isn't a key it travels.
    got <- partition_collect(partition_shuffle(p, "ok"))
    expect_identical(got[[name]], if (is.matrix(data[[name]])) {
      data[[name]][got$ok, ]
    } else {
      data[[name]][got$ok]
    })
  }
})

test_cluster("integer64 is as in package bit64", {
  testthat::skip_if_not_installed("bit64")
  local_seed(5)
  whole <- c(0L, -1L, NA, .Machine$integer.max, -.Machine$integer.max, sample(1e9L, 50))
  expect_identical(unclass(int64_of(whole)), as.vector(unclass(bit64::as.integer64(whole))))
  numbers <- c(2^53, -2^53, 2^62, -2^62, round(runif(50, -2^52, 2^52)))
  long <- bit64::as.integer64(numbers)
  expect_identical(int64_numbers(long), numbers)
  expect_error(int64_numbers(long[1] + 1L), class = "muster_part_error")
})
