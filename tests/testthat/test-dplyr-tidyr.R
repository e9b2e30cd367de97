# tidyr's verbs on handles: what tidyr has of all rows, or an error by name.

has_tidyr <- requireNamespace("tidyr", quietly = TRUE) && requireNamespace("dplyr", quietly = TRUE)

# Rows in an order of their own: that of the parts may be another than tidyr's.
in_order <- function(x) {
  x <- as.data.frame(dplyr::ungroup(x))
  text <- lapply(x, function(column) {
    if (is.list(column)) vapply(column, function(one) toString(one), "") else format(column)
  })
  x <- x[do.call(order, unname(text)), , drop = FALSE]
  rownames(x) <- NULL
  x
}

if (has_tidyr) test_cluster("tidyr's verbs", {
  local_seed(1)
  cl <- local_cluster(2)
  k <- rep(c("a", "b", "c", "d"), 6)
  x <- dplyr::tibble(
    id = rep(1:6, each = 4), k = k, f = factor(k, letters[4:1]),
    v = c(1, NA, 3, 4, 4, NA, NA, NA, NA, NA, NA, NA, NA, 2, 3, 4, 4, 3, 2, NA, NA, NA, 5, 6),
    w = 1:24, s = paste0(letters[1:24], "-", 1:24),
    day = as.Date("2026-01-01") + v, time = as.POSIXct("2026-01-01", tz = "Asia/Tokyo") + v,
    long = as.difftime(v, units = "mins"), o = factor(c("lo", "hi")[v %% 2 + 1], c("lo", "hi"),
      ordered = TRUE), l = lapply(1:24, seq_len)
  )
  some <- dplyr::filter(x, w != 7 & w != 14)
  most <- 3
  last <- function(v) v[[length(v)]]

  pivot_longer <- tidyr::pivot_longer
  pivot_wider <- tidyr::pivot_wider
  nest <- tidyr::nest
  unnest <- tidyr::unnest
  fill <- tidyr::fill
  complete <- tidyr::complete
  expand <- tidyr::expand
  nesting <- tidyr::nesting
  group_by <- dplyr::group_by

  asks <- list(
    function(d) pivot_longer(d, c(v, w)),
    function(d) pivot_longer(d[c("id", "v", "w")], where(is.numeric) & !id, values_drop_na = TRUE),
    function(d) pivot_longer(d, c(k, o), values_transform = as.character),
    function(d) pivot_longer(group_by(d, id), c(w, v), names_to = "n", names_transform = as.factor),
    function(d) {
      d <- dplyr::rename(d[c("id", "v", "w", "day")], x_1 = v, x_2 = w, y_1 = day)
      pivot_longer(d, !id, names_to = c(".value", "n"), names_sep = "_")
    },
    function(d) pivot_wider(d, id_cols = id, names_from = k, values_from = c(v, day, long, o, l)),
    function(d) pivot_wider(d, id_cols = id, names_from = c(k, f), values_from = time),
    function(d) {
      pivot_wider(d, id_cols = k, names_from = id, values_from = w, values_fill = 0L,
        names_prefix = "of ", names_sort = TRUE)
    },
    function(d) {
      pivot_wider(group_by(d, id), id_cols = id, names_from = o, values_from = w,
        values_fn = function(w) sum(w > most))
    },
    function(d) pivot_wider(d, id_cols = c(), names_from = k, values_from = w, values_fn = last),
    function(d) pivot_wider(d[c("k", "id", "w")], names_from = k, values_from = w),
    function(d) nest(d, data = c(v, w, s, day, time, long, o, l)),
    function(d) nest(group_by(d[c("id", "w", "o")], id)),
    function(d) nest(d, one = c(v, w), two = c(s, day, time, long, o, l, f)),
    function(d) unnest(nest(d, data = -c(id, k)), data),
    function(d) unnest(d, l),
    function(d) fill(d, v, day, time, long, o),
    function(d) fill(d, v, o, .direction = "up"),
    function(d) fill(d, v, .direction = "downup"),
    function(d) fill(d, v, time, .direction = "updown"),
    function(d) fill(group_by(d, k), v, o),
    function(d) complete(d, id, k, fill = list(v = 0)),
    function(d) complete(d, f, w = tidyr::full_seq(w, 1)),
    function(d) complete(d, id = min(id):9, k, fill = list(v = 0), explicit = FALSE),
    function(d) complete(d, nesting(id, k), o),
    function(d) complete(d, k, id = unique(id)[2] + 0:(max(id) - min(id))),
    function(d) complete(group_by(d[c("k", "id", "w")], k), id = 1:7),
    function(d) expand(d, f, id = unique(id)),
    function(d) expand(d, nesting(k, o), .data$id),
    function(d) expand(group_by(d, id), k, o),
    function(d) tidyr::drop_na(d),
    function(d) tidyr::drop_na(d, v),
    function(d) tidyr::replace_na(d, list(v = -1, o = "hi", s = "none")),
    function(d) tidyr::separate(d, s, c("letter", "n")),
    function(d) tidyr::separate(d, s, c("letter", "n"), remove = FALSE, sep = "-"),
    function(d) tidyr::extract(d, s, "n", "-(.*)"),
    function(d) tidyr::unite(d, "both", id, k, sep = ":"),
    function(d) tidyr::separate_rows(d, s),
    function(d) tidyr::uncount(d, id),
    function(d) tidyr::uncount(d, id + 1L, .id = "n"),
    function(d) tidyr::uncount(d, 2)
  )

  test_that("each has what tidyr has, whatever the parts are", {
    for (parts in c(1, 4, 12)) {
      p <- partition_scatter(cl, some, parts = parts)
      for (ask in asks) {
        label <- paste(c(parts, deparse(body(ask))), collapse = " ")
        is <- dplyr::collect(ask(p))
        should <- ask(some)
        expect_equal(in_order(is), in_order(should), label = label)
        expect_identical(dplyr::group_vars(is), dplyr::group_vars(should), label = label)
        expect_identical(inherits(is, "tbl_df"), inherits(should, "tbl_df"), label = label)
      }
    }
  })

  test_that("rows of other tables come as tidyr has them: classes, no rows, one part empty", {
    plain <- as.data.frame(some[c("id", "k", "v", "w")])
    none <- some[0, ]
    for (parts in c(1, 3)) {
      p <- partition_scatter(cl, plain, parts = parts)
      for (ask in list(
        function(d) fill(d, v), function(d) tidyr::drop_na(d), function(d) nest(d, data = c(v, w)),
        function(d) pivot_longer(d, c(v, w)), function(d) complete(d, id, k)
      )) {
        expect_identical(class(dplyr::collect(ask(p))), class(ask(plain)))
      }
      p <- partition_scatter(cl, none, parts = parts)
      for (ask in asks[c(1, 12, 17, 22, 30, 32, 33, 36)]) {
        label <- paste(deparse(body(ask)), collapse = " ")
        expect_identical(names(dplyr::collect(ask(p))), names(ask(none)), label = label)
      }
      p <- dplyr::filter(partition_scatter(cl, some, parts = 4), w < 12)
      for (ask in asks) {
        label <- paste(deparse(body(ask)), collapse = " ")
        expect_equal(in_order(dplyr::collect(ask(p))), in_order(ask(dplyr::filter(some, w < 12))),
          label = label)
      }
    }
  })

  test_that("a column's type is that of all rows, not of a part", {
    p <- partition_scatter(cl, data.frame(w = 1:8, g = rep(1:2, 4)), parts = 4)
    p <- partition_map(p, remote(function(d) {
      d$x <- if (d$w[1] < 3) NA else if (d$w[1] < 5) d$w else d$w / 2
      d$y <- if (d$w[1] < 5) NA else paste(d$w)
      d
    }))
    x <- partition_collect(p)
    for (ask in list(
      function(d) tidyr::replace_na(d, list(x = 0.5, y = "none")),
      function(d) fill(d, x, y, .direction = "up"),
      function(d) pivot_wider(d, names_from = g, values_from = x, values_fill = 0.5),
      function(d) pivot_longer(d, c(w, x)),
      function(d) complete(d, w = 1:10, fill = list(x = 0.5, y = "none")),
      function(d) unnest(nest(d, data = c(x, y)), data)
    )) {
      expect_equal(in_order(dplyr::collect(ask(p))), in_order(ask(x)),
        label = paste(deparse(body(ask)), collapse = " "))
    }
  })

  test_that("unnest() has the columns and types of all parts' values", {
    p <- partition_scatter(cl, data.frame(w = 1:4), parts = 4)
    p <- partition_map(p, remote(function(d) {
      d$data <- list(switch(d$w,
        data.frame(a = NA), data.frame(a = "x", b = 1L), NULL, data.frame(b = 2.5, c = Sys.Date())
      ))
      d
    }))
    x <- tidyr::as_tibble(partition_collect(p))
    expect_equal(as.data.frame(dplyr::collect(unnest(p, data))), as.data.frame(unnest(x, data)))
    expect_equal(
      as.data.frame(dplyr::collect(unnest(p, data, keep_empty = TRUE, names_sep = "_"))),
      as.data.frame(unnest(x, data, keep_empty = TRUE, names_sep = "_"))
    )
    q <- partition_map(p, remote(function(d) {
      d$data <- list(if (d$w == 1) "text" else 1)
      d
    }))
    expect_error(unnest(q, data), "can't be in one column", class = "muster_error_input")
  })

  test_that("values with one place are lists in all parts, with a warning", {
    x <- data.frame(id = c(1, 1, 2, 3, 4), k = "a", w = 1:5)
    p <- partition_scatter(cl, x, parts = 5)
    wider <- function(d, ...) pivot_wider(d, names_from = k, values_from = w, ...)
    expect_warning(is <- wider(p), "are lists", class = "muster_warning_input")
    expect_equal(in_order(dplyr::collect(is)), in_order(suppressWarnings(wider(x))))
    expect_no_warning(is <- wider(p, values_fn = list(w = max)))
    expect_equal(in_order(dplyr::collect(is)), in_order(wider(x, values_fn = list(w = max))))
  })

  test_that("draws follow from set.seed(), and verbs without code draw nothing", {
    p <- partition_scatter(cl, x, parts = 4)
    draw <- function() {
      set.seed(3)
      done <- pivot_wider(p, id_cols = k, names_from = id, values_from = w,
        values_fn = function(w) rnorm(1))
      list(in_order(dplyr::collect(done)), .Random.seed)
    }
    once <- draw()
    expect_identical(draw(), once)
    set.seed(3)
    before <- .Random.seed
    fill(p, v)
    pivot_longer(p, c(v, w))
    complete(p, id, k)
    expect_identical(.Random.seed, before)
  })

  test_that("tidyr's warnings count the rows of a part and don't number them", {
    p <- partition_scatter(cl, x[c("id", "s")], parts = 1)
    expect_warning(tidyr::separate(p, s, c("a", "b", "c")), "24 rows of a part[.]")
  })

  test_that("what parts can't have is refused by name", {
    p <- partition_scatter(cl, x, parts = 2)
    refused <- list(
      "cols_vary" = quote(pivot_longer(p, c(v, w), cols_vary = "slowest")),
      "values_transform" = quote(pivot_longer(p, c(v, w), values_transform = rank)),
      "id_expand" = quote(pivot_wider(p, names_from = k, values_from = w, id_expand = TRUE)),
      "convert" = quote(tidyr::separate(p, s, c("a", "b"), convert = TRUE)),
      "convert" = quote(tidyr::extract(p, s, "a", "(.)", convert = TRUE)),
      "convert" = quote(tidyr::separate_rows(p, s, convert = TRUE)),
      "mean(w)" = quote(complete(p, id, w = mean(w))),
      "sort(w)[2]" = quote(complete(p, id, w = sort(w)[2])),
      "w[[2]]" = quote(complete(p, id, w = w[[2]])),
      "(w)[2]" = quote(complete(p, id, w = (w)[2])),
      "id_cols" = quote(pivot_wider(p, id_cols = c(id, k), names_from = k, values_from = w)),
      "length(id)" = quote(expand(p, k, n = seq_len(length(id)))),
      "value" = quote(pivot_wider(p, names_from = k)),
      "by row" = quote(fill(dplyr::rowwise(p), v)),
      "pivot_longer()" = quote(tidyr::gather(p, "name", "value", v, w)),
      "pivot_wider()" = quote(tidyr::spread(p, k, v))
    )
    for (k in seq_along(refused)) {
      error <- expect_error(eval(refused[[k]]), class = "muster_error_input")
      expect_match(conditionMessage(error), names(refused)[k], fixed = TRUE)
    }
  })

  test_that("every generic of tidyr's has a method for handles", {
    p <- partition_scatter(cl, x, parts = 2)
    there <- asNamespace("tidyr")
    for (name in own_generics("tidyr")) {
      method <- utils::getS3method(name, "muster_partition", envir = there)
      expect_true(is.function(method), label = name)
    }
    expect_error(tidyr::full_seq(p, 1), "full_seq()", fixed = TRUE, class = "muster_error_input")
  })

  test_that("a worker that is killed changes nothing", {
    expected <- lapply(asks[c(6, 17, 22)], function(ask) in_order(ask(some)))
    p <- partition_scatter(cl, some, parts = 6)
    for (k in 1:3) {
      tools::pskill(cluster_status(cl)$pid[k %% 2 + 1], tools::SIGKILL)
      expect_equal(in_order(dplyr::collect(asks[[c(6, 17, 22)[k]]](p))), expected[[k]])
    }
  })
})
