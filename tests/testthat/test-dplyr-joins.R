# dplyr's joins on workers, with all their arguments, against dplyr's own on random tables. `row`
# and `other` number the rows of both sides, so that it is known which rows were joined.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)
# join_by() and some arguments came with version 1.1.
has_new_joins <- has_dplyr && utils::packageVersion("dplyr") >= "1.1.0"

joins <- c("inner_join", "left_join", "right_join", "full_join")
join_of <- function(verb, ...) suppressWarnings(getExportedValue("dplyr", verb)(...))

join_table <- function(kinds, n, id) {
  columns <- lapply(kinds, function(kind) oracle_table(n, kind)[[kind]])
  names(columns) <- paste0("k", seq_along(kinds))
  columns$v <- sample(5L, n, TRUE)
  columns[[id]] <- seq_len(n)
  new_frame(columns, n)
}

join_kinds <- function() {
  all <- c("kl", "ki", "kd", "ks", "kf", "kn", "ko", "kD", "kt", if (has_bit64) "k64")
  sample(all, sample.int(2L, 1L))
}

# Tables of tests are small: joins are as if y weren't, until the test ends.
local_large_y <- function(frame = parent.frame()) {
  before <- is_small
  utils::assignInNamespace("is_small", function(x, y) FALSE, "muster")
  defer(function() utils::assignInNamespace("is_small", before, "muster"), frame)
}

# Empty tables too, and parts without rows.
join_tables <- function(cl, kinds, kinds_y = kinds) {
  sizes <- c(0L, 1L, 6L, 30L)
  x <- join_table(kinds, sample(sizes, 1L), "row")
  y <- join_table(kinds_y, sample(sizes, 1L), "other")
  px <- partition_scatter(cl, x, parts = sample(4L, 1L))
  if (runif(1) < 0.4) {
    px <- dplyr::filter(px, row > 2L)
    x <- x[x$row > 2L, , drop = FALSE]
    row.names(x) <- NULL
  }
  list(x = x, y = y, px = px, py = partition_scatter(cl, y, parts = sample(3L, 1L)))
}

# To dplyr the missing value and the level NA differ, and NaN from NA in some verbs.
joins_alike <- function(x) {
  !any(vapply(x, function(column) has_both_na(column) || (is.double(column) &&
    !is_int64(column) && any(is.nan(column))), NA))
}

test_cluster("Joins have dplyr's rows and columns, whatever their arguments", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  limit_time(120)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  tried <- 0L
  for (seed in 1:60) {
    local_seed(seed)
    t <- join_tables(cl, join_kinds())
    if (!joins_alike(t$x) || !joins_alike(t$y)) next
    keys <- grep("^k", names(t$x), value = TRUE)
    args <- list(
      by = sample(keys, sample.int(length(keys), 1L)), na_matches = sample(c("na", "never"), 1L)
    )
    verb <- sample(c(joins, "semi_join", "anti_join"), 1L)
    if (verb %in% joins) {
      args$keep <- sample(c(TRUE, FALSE), 1L)
      args$suffix <- list(c(".x", ".y"), c("", "_of_y"), c("_l", "_r"))[[sample.int(3L, 1L)]]
    }
    info <- paste(seed, verb, paste(names(args), vapply(args, deparse1, ""), collapse = ", "))
    want <- do.call(join_of, c(list(verb, t$x, t$y), args))
    for (y in list(t$y, t$py)) {
      got <- do.call(join_of, c(list(verb, t$px, y), args))
      expect_identical(names(got), names(want), info = info)
      got <- dplyr::collect(got)
      expect_null(oracle_difference(got, want), info = info)
      # A small y: dplyr's order.
      if (!verb %in% c("right_join", "full_join")) {
        expect_identical(got$row, want$row, info = info)
        expect_identical(got$other, want$other, info = info)
      }
    }
    large <- local({
      local_large_y()
      dplyr::collect(do.call(join_of, c(list(verb, t$px, t$py), args)))
    })
    expect_null(oracle_difference(large, want), info = info)
    tried <- tried + 1L
  }
  expect_gt(tried, 30L)
})

test_cluster("With a small y rows stay together and in dplyr's order, whatever the join", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  local_seed(3)
  cl <- local_cluster(2)
  x <- data.frame(k = sample(c(1:9, NA), 200, TRUE), v = sample(5L, 200, TRUE), row = 1:200)
  y <- data.frame(k = sample(c(3:12, NA), 25, TRUE) + 0, v = 7L, other = 1:25)
  some <- x$row < 60 | x$row > 120
  x <- x[some, ]
  row.names(x) <- NULL
  for (parts in c(1L, 4L, 12L)) {
    p <- dplyr::filter(partition_scatter(cl, x, parts = parts), row < 60 | row > 150)
    rows <- dplyr::filter(x, row < 60 | row > 150)
    for (verb in c("inner_join", "left_join", "semi_join", "anti_join", "nest_join")) {
      for (na in c("na", "never")) {
        # Before version 1.1 NA always matched there.
        if (verb == "nest_join" && !has_new_joins) na <- "na"
        want <- join_of(verb, rows, y, by = "k", na_matches = na)
        got <- join_of(verb, p, y, by = "k", na_matches = na)
        expect_identical(got$parts, parts)
        got <- dplyr::collect(got)
        expect_identical(lapply(got, identity), lapply(want, identity), info = paste(verb, na))
      }
    }
    # Each row has one match, of several.
    for (multiple in c("first", "last")) {
      got <- dplyr::collect(dplyr::left_join(p, y, by = "k", multiple = multiple))
      last <- multiple == "last"
      one <- y[!duplicated(y$k, fromLast = last), ]
      expect_identical(got$row, rows$row)
      expect_identical(got$other, one$other[match(rows$k, one$k)])
    }
  }
  # Groups that are together stay so, and no rows move for them.
  keyed <- dplyr::mutate(dplyr::group_by(p, k), n = dplyr::n())
  joined <- dplyr::left_join(keyed, y["k"], by = "k", suffix = c("", "_y"))
  expect_identical(stage_of(joined)$keyed, "k")
  expect_null(stage_of(dplyr::left_join(p, y, by = "k"))$keyed)
  counted <- dplyr::collect(dplyr::mutate(joined, m = dplyr::n()))
  want <- dplyr::mutate(dplyr::group_by(rows, k), n = dplyr::n())
  want <- dplyr::mutate(join_of("left_join", want, y["k"], by = "k"), m = dplyr::n())
  expect_identical(sort(counted$m), sort(want$m))
  # Where a column of y takes its name, it is none of x any more.
  renamed <- dplyr::left_join(dplyr::mutate(dplyr::group_by(p, v), n = dplyr::n()), y,
    by = "k", suffix = c("_x", "")
  )
  expect_identical(stage_of(renamed)$keyed, "v_x")
})

test_cluster("Keys have the type of both sides, also where one side has no rows", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  cl <- local_cluster(2)
  pairs <- list(
    list(c(1L, NA, 3L, 3L), c(3, 0.5, NA)), list(c(TRUE, NA), 1:2),
    list(factor(c("a", "b", NA)), c("b", "c", NA)),
    list(factor(c("a", "b")), factor(c("c", "b"), levels = c("c", "b"))),
    list(c("a", "b"), factor("b")),
    list(as.POSIXct("2020-02-28", "Asia/Tokyo") + 0:1, as.POSIXct("2020-02-28", "UTC") - 0:9 * 3600)
  )
  for (k in seq_along(pairs)) {
    for (one in c(joins, "semi_join", "anti_join")) {
      for (none in list(integer(), seq_along(pairs[[k]][[2L]]))) {
        x <- new_frame(list(k = pairs[[k]][[1L]], u = seq_along(pairs[[k]][[1L]])),
          length(pairs[[k]][[1L]]))
        y <- new_frame(list(k = pairs[[k]][[2L]][none], w = none), length(none))
        got <- join_of(one, partition_scatter(cl, x, parts = 3), y, by = "k")
        want <- join_of(one, x, y, by = "k")
        got <- dplyr::collect(got)
        expect_null(oracle_difference(got, want), info = paste(one, k))
        expect_identical(attr(got$k, "tzone"), attr(want$k, "tzone"), info = paste(one, k))
      }
    }
  }
})

# Which rows a join has, of those that meet: from dplyr's inner_join().
joined_rows <- function(verb, x, y, by, na_matches, multiple) {
  i <- as.data.frame(join_of("inner_join", x[c(by, "row")], y[c(by, "other")], by = by,
    na_matches = na_matches))[c("row", "other")]
  i <- i[order(i$row, i$other), ]
  if (multiple %in% c("first", "any")) i <- i[!duplicated(i$row), ]
  if (multiple == "last") i <- i[!duplicated(i$row, fromLast = TRUE), ]
  if (verb %in% c("left_join", "full_join")) {
    i <- merge(i, data.frame(row = setdiff(x$row, i$row)), all = TRUE)
  }
  lone <- if (verb %in% c("right_join", "full_join")) setdiff(y$other, i$other)
  i <- rbind(i, data.frame(row = rep(NA_integer_, length(lone)), other = lone))
  i <- i[order(i$row, i$other), ]
  row.names(i) <- NULL
  i
}

test_cluster("multiple, unmatched and relationship say which matches there may be", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  limit_time(120)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  refusals <- 0L
  for (seed in 1:60) {
    local_seed(seed)
    t <- join_tables(cl, join_kinds())
    if (!joins_alike(t$x) || !joins_alike(t$y)) next
    verb <- sample(joins, 1L)
    by <- grep("^k", names(t$x), value = TRUE)
    na <- sample(c("na", "never"), 1L)
    multiple <- sample(c("all", "first", "last", "any", "error"), 1L)
    all <- joined_rows(verb, t$x, t$y, by, na, "all")
    want <- joined_rows(verb, t$x, t$y, by, na, multiple)
    several <- function(ids) anyDuplicated(ids[!is.na(all$row) & !is.na(all$other)]) > 0L
    met <- want[!is.na(want$row) & !is.na(want$other), ]
    relation <- sample(c("many-to-many", "many-to-one", "one-to-many", "one-to-one"), 1L)
    unmatched <- sample(c("drop", "error"), 1L)
    wrong <- (multiple == "error" && several(all$row)) ||
      (grepl("to-one", relation) && anyDuplicated(met$row)) ||
      (grepl("^one", relation) && anyDuplicated(met$other)) ||
      (unmatched == "error" && verb %in% c("inner_join", "right_join") &&
        length(setdiff(t$x$row, met$row))) ||
      (unmatched == "error" && verb %in% c("inner_join", "left_join") &&
        length(setdiff(t$y$other, met$other)))
    args <- list(by = by, na_matches = na, multiple = multiple, relationship = relation)
    if (verb != "full_join") args$unmatched <- unmatched
    info <- paste(seed, verb, paste(names(args), vapply(args, deparse1, ""), collapse = ", "))
    run <- function(x, y) do.call(join_of, c(list(verb, x, y), args))
    if (has_new_joins) {
      own <- tryCatch(run(t$x, t$y), error = function(e) NULL)
      expect_identical(is.null(own), wrong, info = info)
      if (!wrong) expect_identical(own[order(own$row, own$other), "row"], want$row, info = info)
    }
    if (wrong) {
      refusals <- refusals + 1L
      expect_error(run(t$px, t$y), "Each row of", class = "muster_error_input", info = info)
      next
    }
    got <- as.data.frame(dplyr::collect(run(t$px, t$py)))
    got <- got[order(got$row, got$other), c("row", "other")]
    row.names(got) <- NULL
    expect_identical(got, want, info = info)
  }
  expect_gt(refusals, 5L)
})

test_cluster("A key with most of the rows, made in pieces, has the same matches and checks", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  local_large_y()
  cl <- local_cluster(2)
  n <- 40000L
  x <- data.frame(k = c(rep(1, n), 2:2000), row = seq_len(n + 1999L))
  y <- data.frame(k = c(1, 1, 3, NA, 9999, 1), other = 1:6)
  px <- partition_scatter(cl, x, parts = 8)
  full <- dplyr::full_join(px, y, by = "k", multiple = "last", na_matches = "never")
  expect_gt(full$parts, 8)
  got <- dplyr::collect(full)
  want <- joined_rows("full_join", x, y, "k", "never", "last")
  got <- got[order(got$row, got$other), c("row", "other")]
  row.names(got) <- NULL
  expect_identical(got, want)
  # What all rows of a key decide is decided in one place.
  expect_error(dplyr::left_join(px, y, by = "k", relationship = "one-to-many"),
    "Each row of `y` must match at most 1 row of `x`, but one with `k` = 1 matches",
    class = "muster_error_input"
  )
  few <- y[c(1L, 3L), ]
  got <- dplyr::left_join(px, few, by = "k", unmatched = "error")
  expect_identical(sum(!is.na(dplyr::pull(got, other))), n + 1L)
  expect_error(dplyr::left_join(px, y, by = "k", unmatched = "error"),
    "Each row of `y` must have a match in `x`", class = "muster_error_input"
  )
})

test_cluster("Rows come by part, in the order of x and then of y, as joins promise", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  local_seed(1)
  cl <- local_cluster(2)
  x <- data.frame(k = sample(c(1:5, NA), 60, TRUE), row = 1:60)
  y <- data.frame(k = sample(c(1:7, NA), 20, TRUE), other = 1:20)
  got <- dplyr::collect(
    dplyr::full_join(partition_scatter(cl, x, parts = 4), y, by = "k", na_matches = "never")
  )
  for (k in c(1:7)) {
    one <- got[got$k %in% k, ]
    expect_identical(one$row, sort(one$row, na.last = TRUE))
    for (row in unique(one$row)) expect_false(is.unsorted(one$other[one$row %in% row]))
  }
})

test_cluster("Inequalities are joined by dplyr, where equal keys meet or y is everywhere", {
  skip_if_not(has_new_joins, "dplyr is older than 1.1.0")
  limit_time(120)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  # Of a package that needn't have it.
  by_of <- function(code) eval(as.call(c(getExportedValue("dplyr", "join_by"), code)))
  bys <- list(
    alist(k1, v >= u), alist(k1, closest(v >= u)), alist(k1, between(v, lo, u)), alist(v > u),
    alist(closest(v <= u)), alist(k1 == k1, row < other), alist(overlaps(v, row, lo, u))
  )
  both <- c("inner_join", "left_join", "semi_join", "anti_join")
  for (seed in 1:40) {
    local_seed(seed)
    t <- join_tables(cl, sample(c("ki", "ks", "kf", "kD"), 1L))
    add <- function(d) dplyr::mutate(dplyr::rename(d, u = v), lo = u - 2L)
    y <- add(t$y)
    py <- add(t$py)
    at <- sample.int(length(bys), 1L)
    by <- by_of(bys[[at]])
    equal <- any(by$condition == "==")
    verb <- sample(c(both, if (equal) c("right_join", "full_join")), 1L)
    args <- list(by = by)
    if (verb %in% joins) args$multiple <- sample(c("all", "first"), 1L)
    info <- paste(seed, verb, at)
    want <- do.call(join_of, c(list(verb, t$x, y), args))
    for (side in list(y, py)) {
      got <- do.call(join_of, c(list(verb, t$px, side), args))
      expect_null(oracle_difference(dplyr::collect(got), want), info = info)
    }
    large <- local({
      local_large_y()
      dplyr::collect(do.call(join_of, c(list(verb, t$px, py), args)))
    })
    expect_null(oracle_difference(large, want), info = info)
  }
  x <- data.frame(k = 1:4, v = 1:4)
  p <- partition_scatter(cl, x, parts = 2)
  y <- data.frame(k = c(1L, 1L, 3L), u = 1:3)
  got <- as.data.frame(dplyr::collect(dplyr::nest_join(p, y, by = by_of(alist(v >= u)))))
  expect_identical(lapply(got$y, nrow), list(1L, 2L, 3L, 3L))
  refused <- function(text, verb, ...) {
    expect_error(join_of(verb, p, y, ...), text, class = "muster_error_input")
  }
  by <- by_of(alist(v >= u))
  refused("full_join\\(\\)` isn't possible without an equality", "full_join", by = by)
  refused("isn't possible without an equality", "left_join", by = by, unmatched = "error")
  refused("relationship", "left_join", by = by, relationship = "one-to-many")
  refused("keep", "left_join", by = by_of(alist(k, v >= u)), keep = FALSE)
  refused("nope", "left_join", by = by_of(alist(nope >= u)))
})

test_cluster("What a join can't do is refused by name", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(k = 1:3, v = 1:3), parts = 2)
  y <- data.frame(k = 1:2, v = 5:6)
  refused <- function(text, ...) {
    expect_error(dplyr::inner_join(p, y, ...), text, class = "muster_error_input")
  }
  refused("`keep`", by = "k", keep = NA)
  refused("`suffix`", by = "k", suffix = ".x")
  refused("two columns `v`", by = "k", suffix = c("", ""))
  refused("`na_matches`", by = "k", na_matches = "no")
  refused("`multiple`", by = "k", multiple = "some")
  refused("warning", by = "k", multiple = "warning")
  refused("`relationship`", by = "k", relationship = "one")
  refused("`unmatched`", by = "k", unmatched = "warn")
  refused("nope", by = "nope")
  refused("nope", by = c(k = "nope"))
  refused("`copies`", by = "k", copies = TRUE)
  grouped <- dplyr::group_by(p, k)
  expect_identical(dplyr::group_vars(dplyr::left_join(grouped, y, by = "k")), "k")
  expect_identical(dplyr::group_vars(dplyr::left_join(grouped, y, by = "k", keep = TRUE)),
    character())
})

test_cluster("nest_join() has each row's matches as a data frame, with dplyr's columns and types", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  limit_time(120)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  tried <- 0L
  for (seed in 1:40) {
    local_seed(seed)
    t <- join_tables(cl, join_kinds())
    if (!joins_alike(t$x) || !joins_alike(t$y)) next
    args <- list(by = grep("^k", names(t$x), value = TRUE), keep = sample(c(TRUE, FALSE), 1L))
    if (runif(1) < 0.5) args$name <- sample(c("inner", "v"), 1L)
    if (has_new_joins) args$na_matches <- sample(c("na", "never"), 1L)
    info <- paste(seed, paste(names(args), vapply(args, deparse1, ""), collapse = ", "))
    nest <- function(x, rows) do.call(dplyr::nest_join, c(list(x, quote(rows)), args))
    want <- nest(t$x, t$y)
    for (y in list(t$y, t$py)) {
      got <- as.data.frame(dplyr::collect(nest(t$px, y)))
      expect_identical(names(got), names(want), info = info)
      got <- got[order(got$row), , drop = FALSE]
      row.names(got) <- NULL
      # As lists, for columns whose class has no comparison of its own.
      expect_identical(lapply(got, identity), lapply(want, identity), info = info)
    }
    tried <- tried + 1L
  }
  expect_gt(tried, 20L)
})

test_cluster("nest_join() with keys of two types, tibbles, groups, and after a loss", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  local_seed(1)
  cl <- local_cluster(2)
  x <- data.frame(k = c(1L, 2L, NA, 1L), row = 1:4)
  y <- dplyr::tibble(k = c(1, 1, NA, 0.5), s = c("a", "b", NA, "d"))
  p <- partition_scatter(cl, x, parts = 2)
  nested <- dplyr::nest_join(dplyr::group_by(p, row), y, by = "k")
  expect_identical(dplyr::group_vars(nested), "row")
  want <- as.data.frame(dplyr::nest_join(x, y, by = "k"))
  plain <- function(nested) {
    got <- as.data.frame(dplyr::ungroup(dplyr::collect(nested)))
    got <- got[order(got$row), ]
    row.names(got) <- NULL
    got
  }
  expect_identical(plain(nested), want)
  for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGKILL)
  expect_identical(plain(nested), want)
  # Rows of y alone.
  rows <- dplyr::nest_join(dplyr::filter(p, row > 9L), y, by = "k")
  expect_identical(dim(rows), c(0L, 3L))
  refused <- function(text, ...) {
    expect_error(dplyr::nest_join(p, y, by = "k", ...), text, class = "muster_error_input")
  }
  refused("must have a match in `x`, but one with `k` = 0.5", unmatched = "error")
  refused("`name`", name = 1)
  refused("`multiple`", multiple = "first")
  expect_error(dplyr::nest_join(p, y, by = "nope"), "nope", class = "muster_error_input")
})
