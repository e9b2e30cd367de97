# What users of dplyr's backends do with a handle beside its verbs: they ask for groups, look at
# rows, take columns, fit a model for each group. Compared with data frames.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)

trips_of <- function(n) {
  data.frame(
    row = seq_len(n), to = sample(c("north", "east", "b", NA), n, TRUE),
    kind = factor(sample(c("u", "v"), n, TRUE)), km = round(rexp(n, 0.01), 1),
    late = sample(c(-3:9, NA), n, TRUE)
  )
}

# Groups in the order of the C locale, as on workers.
keys_in_order <- function(keys) {
  keys[do.call(order, c(unname(as.list(keys)), list(method = "radix"))), ]
}

if (has_dplyr) test_cluster("Questions about data of two workers, in dplyr's words", {
  local_seed(4)
  cl <- local_cluster(2)
  `%>%` <- dplyr::`%>%`
  group_by <- dplyr::group_by
  n <- dplyr::n
  x <- trips_of(90)
  p <- partition_scatter(cl, x, parts = 4)

  # The same value, or the same rows, in any order.
  same <- function(pipe, d = x, q = p) {
    want <- pipe(d)
    got <- pipe(q)
    told <- deparse(body(pipe))[1L]
    if (inherits(got, "muster_partition")) got <- dplyr::collect(got)
    if (!is.data.frame(want)) {
      return(expect_identical(got, want, info = told))
    }
    expect_identical(dplyr::group_vars(got), dplyr::group_vars(want), info = told)
    expect_equal(sorted_rows(dplyr::ungroup(got)), sorted_rows(dplyr::ungroup(want)), info = told)
  }
  refused <- function(code, text) expect_error(code, text, class = "muster_error_input")

  test_that("Groups have keys, sizes and a number", {
    y <- dplyr::filter(x, !is.na(to))
    q <- partition_scatter(cl, y, parts = 3)
    same(function(d) dplyr::n_groups(group_by(d, to, kind)))
    same(function(d) dplyr::group_size(group_by(d, kind, late > 2)))
    same(function(d) keys_in_order(dplyr::group_keys(group_by(d, kind, late))))
    same(function(d) dplyr::group_keys(group_by(d, to)), y, q)
    same(function(d) c(dplyr::n_groups(d), dplyr::group_size(d)))
    same(function(d) dplyr::n_groups(group_by(dplyr::filter(d, row > 1000), to)))
    for (code in alist(
      dplyr::group_split(group_by(p, to)), dplyr::group_map(group_by(p, to), ~ nrow(.x)),
      dplyr::group_walk(group_by(p, to), print), dplyr::nest_by(p, to), dplyr::group_trim(p),
      dplyr::group_indices(group_by(p, to))
    )) refused(eval(code), "isn't possible for data on workers")
  })

  test_that("First and last rows have the groups, and pull() has names", {
    same(function(d) utils::head(group_by(d, to), 5))
    same(function(d) utils::tail(group_by(d, to, kind), 5))
    same(function(d) utils::head(d, 3))
    same(function(d) group_by(d, to, kind)[c("km", "to", "kind")])
    same(function(d) dplyr::pull(d, km, row))
    same(function(d) dplyr::pull(group_by(d, to), "late", name = to))
    same(function(d) dplyr::pull(d, row, row))
    same(function(d) dplyr::pull(d, 2))
  })

  test_that("Sets are equal whatever their order, and unique() has each row once", {
    expect_true(dplyr::setequal(p, x))
    expect_true(dplyr::setequal(dplyr::arrange(p, km), group_by(p, to)))
    expect_true(dplyr::setequal(p, dplyr::union_all(p, p)))
    expect_false(dplyr::setequal(p, x[-1, ]))
    expect_false(dplyr::setequal(dplyr::filter(p, row > 1), p))
    same(function(d) unique(d["kind"]))
    same(function(d) dplyr::as_tibble(as.data.frame(unique(dplyr::select(d, kind, to)))))
  })

  test_that("What would give a handle's insides, or change them, is refused", {
    refused(p$km, "pull\\(p, \"km\"\\)")
    refused(p[["km"]], "pull\\(p, \"km\"\\)")
    refused(p[[2]], "pull\\(p, 2\\)")
    refused(lapply(p, class), "lapply\\(\\) isn.t possible")
    refused(p$km <- 1, "in place")
    refused(p[["km"]] <- 1, "in place")
    refused(p["km"] <- 1, "in place")
    refused(names(p) <- letters[1:5], "in place")
    refused(rbind(p, p), "union_all")
    refused(cbind(p, z = 1), "partition_join")
    # A column may have the name of something that handles consist of.
    rows <- partition_scatter(cl, data.frame(rows = 1:3, token = 1), parts = 2)
    refused(rows$rows, "pull")
    expect_output(print(rows), "3 rows, .*2 parts")
    expect_identical(dplyr::pull(dplyr::filter(rows, rows > 1), rows), 2:3)
  })

  test_that("do() has the groups of rows, and models for each group", {
    same(function(d) dplyr::do(group_by(d, kind), utils::head(., 2)))
    same(function(d) {
      d <- dplyr::do(group_by(d, kind, to), data.frame(n = nrow(.), m = max(.$km)))
      dplyr::summarise(d, n = sum(n))
    })
    models <- function(d) dplyr::do(group_by(d, kind), fit = stats::lm(late ~ km, data = .))
    want <- models(x)
    got <- dplyr::collect(models(p))
    at <- match(want$kind, got$kind)
    expect_equal(lapply(got$fit[at], stats::coef), lapply(want$fit, stats::coef))
    # In dplyr each of them is a group.
    expect_s3_class(got, "rowwise_df")
    same(function(d) dplyr::summarise(dplyr::do(group_by(d, kind), n = nrow(.)), n = n()))
    same(function(d) dplyr::mutate(models(d), k = kind, df = fit$df.residual, fit = NULL))
    many <- function(d) {
      d <- dplyr::summarise(group_by(d, kind), fit = list(stats::lm(late ~ km)), n = dplyr::n())
      dplyr::mutate(group_by(d, kind), slope = stats::coef(fit[[1L]])[["km"]]) %>%
        dplyr::ungroup() %>% dplyr::select(-fit)
    }
    same(many)
    # The rows as they were, packages on the workers, and objects of the session.
    parallel::clusterEvalQ(cl, library(stats4))
    twice <- function(v) 2 * v
    same(function(d) dplyr::mutate(group_by(d, kind), z = twice(km), w = is.function(mle)),
      q = p, d = { mle <- identity; x })
  })

  test_that("Old names of verbs work as those that they stand for", {
    factor <- 3
    same(function(d) dplyr::mutate_at(d, c("km", "row"), sqrt))
    same(function(d) dplyr::mutate_at(d, "km", ~ . * factor - mean(.)))
    same(function(d) dplyr::mutate_if(d, is.numeric, round))
    same(function(d) dplyr::mutate_at(group_by(d, kind), "km", ~ . - min(.)))
    same(function(d) dplyr::transmute_at(d, "km", list(a = abs, b = ~ .x * 2)))
    same(function(d) dplyr::summarise_at(group_by(d, kind), "km", mean))
    same(function(d) {
      dplyr::summarise_at(group_by(d, kind), c("km", "row"), list(a = mean, b = ~ sum(.) / n()))
    })
    same(function(d) dplyr::summarise_if(group_by(d, kind), is.numeric, mean, na.rm = TRUE))
    same(function(d) dplyr::filter_at(d, c("km", "late"), dplyr::all_vars(. > 5)))
    same(function(d) dplyr::top_n(group_by(d, kind), 2, km))
  })
})
