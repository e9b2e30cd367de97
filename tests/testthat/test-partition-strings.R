# Character vectors by dictionary, and levels of factors that blocks have once: as without.

# It sets options when it is loaded: no test is to be blamed for these.
has_data_table <- requireNamespace("data.table", quietly = TRUE)

coded <- function(x) .Call(ffi_coded, x)
is_coded <- function(x) !is.null(.Call(ffi_coded_parts, x))
few <- function(n) sample(c("a", "", "bc", NA, "\u00e4", "z \u20ac"), n, TRUE)
same_strings <- function(x, y) identical(x, y) && identical(Encoding(x), Encoding(y))

test_that("D12 Strings that repeat have a dictionary; others, and classes, stay as they are", {
  local_seed(1)
  x <- few(3000)
  y <- coded(x)
  expect_true(is_coded(y))
  expect_true(same_strings(y, x))
  expect_setequal(.Call(ffi_coded_parts, y)$strings, stats::na.omit(unique(x)))
  latin <- iconv("\u00e4", "UTF-8", "latin1")
  others <- list(
    short = few(1000), different = sprintf("%d", 1:20000), half = sprintf("%d", rep(1:3000, 2)[-1]),
    latin = rep(latin, 5000), bytes = rep(marked(0xff, "bytes"), 5000),
    native = rep(marked(c(0xc3, 0xa4), "unknown"), 5000), named = c(a = "x", stats::setNames(x, x)),
    classed = I(x), matrix = matrix(x, 2), numbers = 1:5000
  )
  for (name in names(others)) {
    expect_false(is_coded(coded(others[[name]])), label = name)
    expect_identical(coded(others[[name]]), others[[name]])
  }
  # Many different ones, of which a sample sees few twice.
  expect_true(is_coded(coded(sample(sprintf("s%d", 1:40000), 2e5, TRUE))))
  expect_false(is_coded(coded(sample(sprintf("s%d", 1:150000), 2e5, TRUE))))
  all_na <- rep(NA_character_, 2000)
  expect_true(same_strings(coded(all_na), all_na))
})

test_that("D12 To R they are character vectors, whatever it does with them", {
  local_seed(2)
  x <- few(3000)
  y <- coded(x)
  rows <- list(
    5:1, c(1, NA, 2.5, 4000), -(1:2990), c(TRUE, FALSE, NA), integer(), c(0L, 3L, NA, 3001L),
    x == "a", NULL
  )
  for (i in rows) expect_true(same_strings(y[i], x[i]))
  expect_true(is_coded(y[10:1]))
  expect_identical(y[[7]], x[[7]])
  for (f in list(
    rev, sort, order, unique, duplicated, table, factor, nchar, toupper, is.na, anyNA, rank, rle,
    function(v) match(v, "bc"), function(v) paste(v, "x"), function(v) v == "a", as.list,
    function(v) split(seq_along(v), v), function(v) c(v, "new"),
    function(v) ifelse(is.na(v), "", v),
    function(v) stats::setNames(v, v), function(v) matrix(v, 3), function(v) serialize(v, NULL),
    function(v) max(v, na.rm = TRUE), function(v) data.frame(v)[2:3, ], xtfrm
  )) {
    v <- coded(x)
    got <- f(v)
    v <- x
    expect_identical(got, f(v))
  }
  # One that is changed isn't another.
  z <- w <- y
  z[2] <- "changed"
  expect_identical(z, replace(x, 2, "changed"))
  w[[5000]] <- "far"
  expect_identical(w[c(1:3000, 5000)], c(x, "far"))
  expect_true(same_strings(y, x))
  expect_true(is_coded(y))
  # Sorting asks for a pointer; what was lent is expanded, not what it was lent from.
  lent <- .Call(ffi_coded_lend, y, FALSE)
  order(lent)
  expect_true(is_coded(y))
  names(y) <- seq_along(y)
  expect_identical(y[2:3], stats::setNames(x, seq_along(x))[2:3])
  expect_identical(unserialize(serialize(y, NULL)), stats::setNames(x, seq_along(x)))
  expect_identical(.Call(ffi_coded_expand, y), stats::setNames(x, seq_along(x)))
})

test_that("D12 Rows are taken and put together, with one dictionary or several", {
  local_seed(3)
  x <- few(4000)
  y <- coded(x)
  rows <- sample(c(NA, 1:4000), 6000, TRUE)
  taken <- take_rows(list(a = y), rows)[[1L]]
  expect_true(is_coded(taken))
  expect_true(same_strings(taken, x[rows]))
  expect_true(is_coded(bind_columns(list(y, taken))))
  expect_true(same_strings(bind_columns(list(y, taken)), c(x, x[rows])))
  other <- sample(c("bc", "q", NA, "\u00e4", "r"), 2000, TRUE)
  several <- list(y, coded(other), y[5:9], coded(rev(other)))
  bound <- bind_columns(several)
  expect_true(is_coded(bound))
  expect_true(same_strings(bound, c(x, other, x[5:9], rev(other))))
  expect_length(.Call(ffi_coded_parts, bound)$strings, 7)
  for (plain in list("p", character(), NA_character_, c("a", iconv("\u00e4", "UTF-8", "latin1")))) {
    expect_true(same_strings(bind_columns(list(plain, y, coded(other))), c(plain, x, other)))
  }
  # Of many dictionaries with different strings there is none.
  parts <- lapply(1:5, function(k) coded(rep(sprintf("p%d-%d", k, 1:900), 2)))
  thin <- lapply(parts, `[`, 1:1000)
  expect_false(is_coded(bind_columns(thin)))
  expect_true(same_strings(bind_columns(thin), unlist(lapply(thin, as.vector))))
  # A dictionary that is too large for the rows is made smaller, or left.
  large <- coded(sample(sprintf("s%d", 1:5000), 20000, TRUE))
  small <- .Call(ffi_coded_compact, large[rep(1:10, 200)])
  expect_length(.Call(ffi_coded_parts, small)$strings, length(unique(large[1:10])))
  expect_true(same_strings(small, rep(large[1:10], 200)))
  expect_false(is_coded(.Call(ffi_coded_compact, large[1:100])))
  blank <- rep(NA, 3)
  expect_identical(bind_columns(list(blank, y)), c(blank, x))
  expect_identical(bind_columns(list(factor("q"), y)), c("q", x))
})

test_that("D12 Keys are the same by dictionary, without, and as factors", {
  local_seed(4)
  x <- few(3000)
  latin <- x
  latin[which(x == "\u00e4")[1:3]] <- iconv("\u00e4", "UTF-8", "latin1")
  numbers <- sample(c(1, 2, NA), 3000, TRUE)
  groups <- function(...) key_groups(new_frame(list(...), 3000L), c("a", "b"))
  want <- groups(a = latin, b = numbers)
  expect_identical(groups(a = coded(x), b = numbers), want)
  expect_identical(groups(a = factor(x), b = numbers), want)
  split <- function(v) .Call(ffi_key_split, list(v), 3000, 7L)
  expect_identical(split(coded(x)), split(x))
  expect_identical(split(coded(x)), split(factor(x)))
  # More possible keys than rows.
  many <- sample(sprintf("s%d", 1:1000), 3000, TRUE)
  two <- list(a = many, b = rev(many))
  expect_identical(groups(a = coded(many), b = coded(rev(many))), do.call(groups, two))
})

strings_frame <- function(n) {
  levels <- sprintf("l%04d", 1:300)
  latin <- iconv("\u00e4", "UTF-8", "latin1")
  data.frame(
    id = seq_len(n), few = few(n), many = sample(sprintf("m%05d", 1:(n %/% 5)), n, TRUE),
    each = sprintf("e%d", seq_len(n)), f = factor(sample(levels, n, TRUE), rev(levels)),
    o = factor(sample(c(levels, latin, NA), n, TRUE), c(latin, levels, NA), exclude = NULL,
      ordered = TRUE),
    latin = sample(c("a", latin), n, TRUE), none = NA_character_, i = I(few(n))
  )
}

test_cluster("D12 Rows are the same after any way between workers", {
  cl <- local_cluster(2)
  local_seed(5)
  data <- strings_frame(30000)
  p <- partition_scatter(cl, data, parts = 5)
  expect_identical(partition_collect(p), data)
  expect_identical(utils::head(p, 10), utils::head(data, 10))
  kinds <- partition_collect(partition_map(p, function(part) {
    parts <- function(x) .Call(getFromNamespace("ffi_coded_parts", "muster"), x)
    data.frame(name = names(part), coded = !vapply(part, function(x) is.null(parts(x)), NA))
  }))
  expect_setequal(kinds$name[kinds$coded], c("few", "many", "none"))
  back <- function(q) {
    rows <- partition_collect(q)
    rows <- rows[order(rows$id), ]
    row.names(rows) <- NULL
    rows
  }
  for (mode in list(
    list(muster.shuffle_links = "direct"), list(muster.shuffle_links = "listen"),
    list(muster.shuffle_memory = 0)
  )) {
    do.call(local_settings, mode)
    for (by in list("few", c("f", "many"), "each", "o")) {
      expect_identical(back(partition_shuffle(p, by, parts = 7)), data)
    }
    local_settings(muster.shuffle_links = NULL, muster.shuffle_memory = NULL)
  }
  # Strings that functions made, another dictionary in each part.
  made <- partition_map(p, function(part) {
    part$few <- paste0(part$few, nrow(part) + part$id[1L])
    part$f <- factor(part$f, unique(part$f))
    part$none <- ifelse(part$id %% 2 == 0, part$many, part$each)
    part
  })
  want <- partition_collect(made)
  got <- back(partition_shuffle(made, "many"))
  expect_identical(lapply(got, as.character), lapply(want, as.character))
  # Changed in place by a function, or sorted, which asks for a pointer.
  expect_identical(
    partition_collect(partition_map(p, function(part) {
      part$few[2] <- "changed"
      part[order(part$many, part$id), c("few", "many")]
    })),
    do.call(rbind, lapply(split(data, (data$id - 1) %/% 6000), function(part) {
      part$few[2] <- "changed"
      part[order(part$many, part$id), c("few", "many")]
    })),
    ignore_attr = TRUE
  )
  expect_identical(partition_collect(p), data)
})

test_cluster("D12 A function gets a part of its own, with row names that R made", {
  skip_if_not(has_data_table, "data.table isn't installed")
  # Parts that share columns with the one that is changed, in a worker that loads data.table then.
  fresh <- local_cluster(1)
  whole <- data.frame(v = as.double(1:20000))
  first <- partition_scatter(fresh, whole, parts = 2)
  more <- partition_map(first, function(part) {
    part$w <- 1
    part
  })
  invisible(partition_map(more, function(part) {
    data.table::setorder(data.table::setDT(part), -v)
    part
  }))
  expect_identical(partition_collect(first), whole)
  expect_identical(partition_collect(more)$v, whole$v)
  cl <- local_cluster(2)
  local_seed(8)
  data <- data.frame(
    id = 1:6000, v = 6000:1 + 0, s = few(6000), f = factor(rep(letters, 300)[1:6000])
  )
  p <- partition_scatter(cl, data, parts = 2)
  expect_lt(.row_names_info(partition_collect(p)), 0)
  expect_lt(.row_names_info(utils::head(p)), 0)
  named <- function(part) data.frame(named = !is.null(rownames(as.matrix(part[1:2]))))
  expect_false(any(partition_collect(partition_map(p, named))$named))
  changes <- list(
    function(part) data.table::set(part, 1L, "v", 99), function(part) data.table::setorder(part, v),
    function(part) data.table::setnames(part, "v", "w"), function(part) data.table::setDT(part),
    function(part) data.table::setattr(part$f, "levels", LETTERS),
    function(part) data.table::setkey(data.table::setDT(part), s)
  )
  for (change in changes) {
    partition_map(p, function(part, change) {
      change(part)
      data.frame(n = nrow(part))
    }, change)
    expect_identical(partition_collect(p), data)
  }
  renamed <- partition_reduce(p, "f", function(g) {
    data.table::setnames(g, "v", "w")
    data.frame(n = nrow(g))
  })
  expect_identical(sum(partition_collect(renamed)$n), 6000L)
})

test_cluster("D12 Pieces of strings with names, in lists, don't take the dictionary along", {
  cl <- local_cluster(2)
  local_seed(9)
  text <- sprintf("a rather long string with the number %06d", 1:2000)
  data <- data.frame(id = 1:8000, g = rep(1:2000, 4), s = sample(text, 8000, TRUE))
  p <- partition_scatter(cl, data, parts = 2)
  q <- partition_map(p, function(part) {
    x <- stats::setNames(part$s, part$id)
    l <- lapply(split(seq_along(x), part$g), function(i) x[i])
    out <- data.frame(g = as.integer(names(l)))
    out$l <- unname(l)
    out
  })
  folder <- local_folder()
  local_settings(muster.shuffle_memory = 0, muster.shuffle_folder = folder)
  s <- partition_shuffle(q, "g")
  expect_lt(sum(file.size(list.files(folder, full.names = TRUE))), 5e6)
  rows <- partition_collect(s)
  all <- unlist(rows$l)
  expect_identical(unname(all[as.character(data$id)]), data$s)
  few <- partition_map(p, function(part) part[1:20, ])
  kept <- partition_map(few, function(part) {
    parts <- .Call(getFromNamespace("ffi_coded_parts", "muster"), part$s)
    data.frame(plain = is.null(parts))
  })
  expect_true(all(partition_collect(kept)$plain))
})

test_cluster("D5 Parts that get no rows have all levels, and blocks have them once", {
  cl <- local_cluster(2)
  local_seed(6)
  levels <- sprintf("level%05d", 1:20000)
  data <- data.frame(
    k = rep(c("a", "b"), 400), f = factor(sample(levels, 800, TRUE), levels), g = factor("only")
  )
  p <- partition_scatter(cl, data, parts = 4)
  q <- partition_shuffle(p, "k", parts = 8)
  count <- function(part) {
    data.frame(n = nrow(part), f = identical(levels(part$f), sprintf("level%05d", 1:20000)),
      g = levels(part$g), more = length(attributes(part$f)))
  }
  counts <- partition_collect(partition_map(q, count))
  expect_identical(sum(counts$n), 800L)
  expect_true(any(counts$n == 0L))
  expect_true(all(counts$f))
  expect_identical(unique(counts[c("g", "more")]), data.frame(g = "only", more = 2L))
  # The levels are 280 kB.
  sizes <- vapply(seq_len(4), function(task) {
    answer <- stage_of(q)$far[[1L]]
    length(serialize(answer$model, NULL))
  }, 0)
  expect_lt(max(sizes), 10000)
  # A class with a method for levels().
  data$f <- structure(data$f, class = c("loud", "factor"))
  clusterEvalQ(cl, {
    loud_levels <- function(x) toupper(attr(x, "levels"))
    registerS3method("levels", "loud", loud_levels, envir = baseenv())
  })
  loud <- partition_shuffle(partition_scatter(cl, data), "k", parts = 8)
  loud <- partition_map(loud, function(part) {
    data.frame(first = attr(part$f, "levels")[1L], class = class(part$f)[1L])
  })
  expect_identical(unique(partition_collect(loud)), data.frame(first = levels[1], class = "loud"))
  none <- partition_shuffle(partition_map(p, function(part) part[0, ]), "k", parts = 3)
  expect_identical(levels(partition_collect(none)$f), levels)
})

test_cluster("D12 Parts that are made again, and damaged dictionaries, give the same rows", {
  cl <- local_cluster(2)
  local_seed(7)
  data <- strings_frame(20000)
  p <- partition_scatter(cl, data, parts = 4)
  q <- partition_shuffle(p, c("few", "f"), parts = 6)
  want <- partition_collect(q)
  for (worker in 1:2) {
    tools::pskill(cl[[worker]]$pid, 9L)
    expect_identical(partition_collect(q), want)
    expect_identical(partition_collect(p), data)
  }
  local_settings(muster.shuffle_memory = 0)
  s <- partition_shuffle(p, c("few", "f"), parts = 6)
  expect_identical(partition_collect(s), want)
  files <- unlist(clusterEvalQ(cl, list.files(tempdir(), "^blocks-", full.names = TRUE)))
  expect_length(files, 4)
  # A byte of the first block, which has the dictionaries.
  for (file in files[1:2]) {
    bytes <- readBin(file, "raw", file.size(file))
    bytes[2000] <- xor(bytes[2000], as.raw(1))
    writeBin(bytes, file)
  }
  .Call(ffi_plan_forget, open_handle(s)$shuffle$plan, s$stage)
  # Workers remember dictionaries until they read two other stages'.
  for (by in c("id", "few")) {
    expect_identical(nrow(partition_collect(partition_shuffle(p, by))), 20000L)
  }
  missed <- plan_counts(s)$missed
  expect_identical(partition_collect(s), want)
  expect_gte(plan_counts(s)$missed - missed, 2)
})
