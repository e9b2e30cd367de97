# Values of the session in dplyr's verbs without groups, and dates and their differences.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)

if (has_dplyr) test_cluster("Elements of the session's objects, dates, differences", {
  local_seed(1)
  cl <- local_cluster(2)
  n <- 40
  times <- as.POSIXct("2026-01-01", tz = "UTC") + seq_len(n) * 1e4
  x <- data.frame(
    id = seq_len(n), kind = sample(letters[1:3], n, TRUE),
    f = factor(sample(letters[1:3], n, TRUE)), day = as.Date("2026-01-01") + c(0, 40, 80, 400),
    t = times, u = as.POSIXct("2026-01-03", tz = "UTC")
  )
  x$long <- as.difftime(seq_len(n), units = "days")
  x$d <- difftime(x$u, x$t, units = "mins")
  l <- list(id = 1, t = times[3], days = x$day[2:3])
  e <- list2env(l)
  m <- matrix(1:4, 2)
  kinds <- c(k = "a", "b")
  look <- data.frame(kind = kinds, f = factor(kinds))
  start <- as.Date("2026-01-01")
  filter <- dplyr::filter
  mutate <- dplyr::mutate
  summarise <- dplyr::summarise
  by_kind <- function(d) dplyr::group_by(d, kind)

  test_that("each verb has what dplyr has, whatever the parts are", {
    asks <- list(
      function(d) filter(d, id == l$id), function(d) filter(d, id == l[["id"]]),
      function(d) filter(d, id == e$id), function(d) filter(d, id == m[1, 2]),
      function(d) filter(d, id == .env$l$id), function(d) filter(d, kind == kinds[1]),
      function(d) filter(d, kind == kinds["k"]), function(d) filter(d, kind == look$kind[[2]]),
      function(d) filter(d, f %in% look$f), function(d) filter(d, kind %in% look$f),
      function(d) filter(d, day %in% l$days), function(d) filter(d, t %in% times[3:5]),
      function(d) filter(d, !(day %in% l$days) & id > l$id),
      function(d) filter(d, day - start > 30), function(d) filter(d, d > -1e3, long < 10),
      function(d) mutate(d, n = as.numeric(d), m = d * 2, k = 2 * d, r = round(d / 60, 1)),
      function(d) mutate(d, w = day + long, v = t - long),
      function(d) mutate(d, n = as.numeric(day - start) / 7, k = floor((day - start) / 7)),
      function(d) mutate(d, age = floor(as.numeric(as.Date("2027-05-01") - day) / 365.25)),
      function(d) mutate(d, q = difftime(u, t, units = "hours"), z = as.numeric(q)),
      function(d) mutate(d, n = as.integer(long), o = long > 3, p = is.na(d)),
      function(d) mutate(d, z = as.numeric(d), y = id * max(long), x = d / 2 + max(d)),
      function(d) summarise(d, s = sum(as.numeric(day - start)), n = mean(id == l$id)),
      function(d) {
        d <- summarise(by_kind(d), s = mean(as.numeric(d)), n = sum(day %in% l$days))
        dplyr::arrange(d, kind)
      }
    )
    for (parts in c(1, 4, 12)) {
      p <- partition_scatter(cl, x, parts = parts)
      for (ask in asks) {
        label <- paste(deparse(body(ask)), collapse = " ")
        expect_equal(
          as.data.frame(dplyr::collect(ask(p))), as.data.frame(ask(x)), label = label
        )
      }
    }
  })

  test_that("what depends on all rows is refused as it was written, with the columns' classes", {
    p <- partition_scatter(cl, x, parts = 4)
    error <- expect_error(filter(p, t - u > 3), class = "muster_error")
    expect_match(conditionMessage(error), paste0(
      "Can't tell whether `t - u > 3` has a value .* `t` is an object of class \"POSIXct\".*",
      "difftime"
    ))
    error <- expect_error(filter(p, day %in% times[1:2]), class = "muster_error")
    expect_match(conditionMessage(error), "`day %in% as.POSIXct(", fixed = TRUE)
    expect_no_match(conditionMessage(error), "structure(", fixed = TRUE)
    expect_error(filter(p, id == l$nothing), "`l$nothing`", fixed = TRUE,
      class = "muster_error_input")
    # A column of that name is the column.
    expect_error(filter(p, id == kind$id), "Can't tell", class = "muster_error_input")
    error <- expect_error(mutate(p, y = sapply(id, function(i) i)), class = "muster_error_input")
    expect_match(conditionMessage(error), "Can't tell whether `sapply", fixed = TRUE)
    expect_match(conditionMessage(error), "`!!`", fixed = TRUE)
  })

  test_that("D4 a name that is nowhere is refused before the workers are asked", {
    p <- partition_scatter(cl, x, parts = 4)
    for (code in list(
      quote(summarise(p, y = zz)), quote(summarise(by_kind(p), y = mean(zz + id))),
      quote(mutate(p, y = zz + 1)), quote(partition_summarise(p, .by = "kind", y = zz))
    )) {
      expect_error(eval(code), "no column or variable `zz`; columns are `id`",
        class = "muster_error_input")
    }
    # What code of its own defines is somewhere.
    done <- summarise(by_kind(p), y = {
      zz <- id
      sum(sapply(zz, function(ww) ww))
    })
    expect_identical(sum(dplyr::collect(done)$y), sum(x$id))
  })
})
