# dplyr's verbs for handles, against dplyr's own for data frames. Rows come in another order.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)
test_dplyr <- function(name, code) {
  eval(bquote(test_cluster(.(name), {
    skip_if_not(has_dplyr, "dplyr isn't installed")
    .(substitute(code))
  })), parent.frame())
}

random_table <- function(n) {
  pick <- function(x) x[sample.int(length(x), n, TRUE)]
  data.frame(
    id = seq_len(n), k = pick(c("a", "b", "c", NA)), j = pick(1:3), x = pick(c(rnorm(30), NA)),
    y = rnorm(n), s = pick(c("u", "v", "")), b = pick(c(TRUE, FALSE, NA)),
    d = pick(as.Date("2020-02-28") + 0:3)
  )
}

# As pipelines, with the verbs by name. limit is a variable of the test's.
limit <- 0.2
pipes <- if (has_dplyr) {
  `%>%` <- dplyr::`%>%`
  filter <- dplyr::filter
  mutate <- dplyr::mutate
  transmute <- dplyr::transmute
  group_by <- dplyr::group_by
  ungroup <- dplyr::ungroup
  summarise <- dplyr::summarise
  across <- dplyr::across
  list(
    filter = function(d) d %>% filter(x > limit, !is.na(k)) %>% filter(s == "u" | b),
    mutate = function(d) d %>% mutate(z = x + y, w = z * 2, y = NULL, one = 1L, s2 = s == "u"),
    totals = function(d) d %>% mutate(z = (x - mean(x, na.rm = TRUE)) / sd(x, na.rm = TRUE)),
    late = function(d) d %>% filter(y > mean(y) + limit),
    made = function(d) d %>% mutate(e = x * 2) %>% filter(e > limit) %>% mutate(m = e / max(e)),
    settled = function(d) {
      d %>% filter(d > max(as.Date(c("2020-01-01", "2020-02-28"))), s %in% rev(letters)) %>%
        mutate(z = x * nchar(paste(rep("a", 3), collapse = "")))
    },
    made_here = function(d) d %>% mutate(y = y * 2, m = y / max(y), n = m > mean(m), k = n),
    transmute = function(d) d %>% transmute(id, z = y * 2, late = d > as.Date("2020-02-29")),
    nothing = function(d) d %>% filter(y > 100) %>% group_by(k) %>% mutate(r = dplyr::n()) %>%
      filter(r > 1),
    select = function(d) d %>% dplyr::select(dplyr::starts_with("k"), new = x, where(is.character)),
    minus = function(d) d %>% dplyr::select(-x, -dplyr::any_of(c("y", "nope"))),
    rename = function(d) d %>% dplyr::rename(key = k, `odd name` = y),
    regroup = function(d) {
      d %>% group_by(k) %>% dplyr::rename(K = k) %>% summarise(n = dplyr::n(), m = max(id))
    },
    relocate = function(d) d %>% dplyr::relocate(y, .before = k),
    summarise = function(d) {
      d %>% group_by(k) %>% summarise(n = dplyr::n(), m = mean(x, na.rm = TRUE), q = median(y))
    },
    whole = function(d) d %>% summarise(n = dplyr::n(), m = mean(y), u = dplyr::n_distinct(s)),
    two = function(d) {
      d %>% group_by(k, j) %>% summarise(m = sum(y)) %>% summarise(most = max(m), n = dplyr::n())
    },
    across = function(d) {
      d %>% group_by(k) %>% summarise(
        across(c(x, y), mean, na.rm = TRUE), across(where(is.logical), ~ sum(.x, na.rm = TRUE)),
        across(c(id, j), list(lo = min, hi = ~ max(.) + limit)), .groups = "drop"
      )
    },
    named = function(d) {
      d %>% summarise(across(c(x, y), list(m = mean, sd), .names = "{.fn}.{.col}"))
    },
    grouped_mutate = function(d) {
      d %>% group_by(k) %>% mutate(z = y - mean(y), r = dplyr::row_number(), l = dplyr::lag(id)) %>%
        ungroup()
    },
    grouped_filter = function(d) d %>% group_by(k, j) %>% filter(y == max(y), dplyr::n() > 1),
    grouped_twice = function(d) {
      d %>% group_by(k) %>% filter(y > median(y)) %>% mutate(share = y / sum(y)) %>%
        group_by(k, j) %>% mutate(first = id == min(id)) %>% summarise(n = sum(first))
    },
    made_group = function(d) {
      d %>% group_by(long = nchar(s), odd = j %% 2L == 1L) %>% summarise(n = sum(j))
    },
    count = function(d) d %>% dplyr::count(k, s),
    weighted = function(d) d %>% group_by(j) %>% dplyr::count(k, wt = y, name = "total"),
    tally = function(d) d %>% group_by(j, k) %>% dplyr::tally(),
    distinct = function(d) d %>% dplyr::distinct(k, j),
    distinct_all = function(d) d %>% dplyr::select(k, s, b) %>% dplyr::distinct(),
    distinct_first = function(d) d %>% dplyr::distinct(j, .keep_all = TRUE),
    head = function(d) d %>% dplyr::slice_head(n = 7),
    tail = function(d) d %>% filter(y > 0) %>% dplyr::slice_tail(n = 3),
    least = function(d) d %>% dplyr::slice_min(j, n = 2),
    most = function(d) d %>% dplyr::slice_max(y, n = 5),
    each = function(d) d %>% group_by(k) %>% dplyr::slice_max(y, n = 2),
    each_head = function(d) d %>% group_by(k) %>% dplyr::slice_head(n = 2),
    each_slice = function(d) d %>% group_by(k) %>% dplyr::slice(c(1, dplyr::n())),
    inner = function(d) d %>% dplyr::inner_join(side, by = "k"),
    left = function(d) d %>% dplyr::left_join(side, by = c(s = "t")),
    right = function(d) d %>% dplyr::right_join(side, by = c("k", s = "t")),
    full = function(d) d %>% dplyr::full_join(side, by = "k"),
    semi = function(d) d %>% dplyr::semi_join(side, by = "k"),
    anti = function(d) d %>% dplyr::anti_join(side, by = c(k = "k", s = "t"))
  )
}
side <- data.frame(k = c("a", "b", NA, "z"), t = c("u", "w", "v", "u"), y = 1:4)

test_dplyr("Verbs give dplyr's rows, whatever part they are in, also after a loss", {
  limit_time(120)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  plain <- function(x) sorted_rows(as.data.frame(dplyr::ungroup(x)))
  for (seed in 1:3) {
    local_seed(seed)
    data <- random_table(c(40L, 200L, 7L)[seed])
    p <- partition_scatter(cl, data, parts = 5)
    for (name in names(pipes)) {
      pipe <- pipes[[name]]
      info <- paste(seed, name)
      want <- suppressWarnings(suppressMessages(pipe(data)))
      got <- suppressWarnings(suppressMessages(pipe(p)))
      expect_s3_class(got, "muster_partition")
      expect_identical(dplyr::group_vars(got), dplyr::group_vars(want), info = info)
      expect_identical(names(got), names(want), info = info)
      expect_equal(plain(dplyr::collect(got)), plain(want), info = info)
      if (seed == 2L && name %in% c("grouped_twice", "totals", "semi")) {
        tools::pskill(node_pids(cl)[1L], tools::SIGKILL)
        expect_equal(plain(dplyr::collect(got)), plain(want), info = info)
      }
    }
  }
})

test_dplyr(".by names groups for one verb, .keep, .before and .after choose mutate()'s columns", {
  local_seed(4)
  cl <- local_cluster(2)
  data <- random_table(100)
  p <- partition_scatter(cl, data, parts = 5)
  in_groups <- function(verb, ...) {
    dplyr::ungroup(verb(dplyr::group_by(data, dplyr::across(c(k, j))), ...))
  }
  n <- dplyr::n
  pairs <- list(
    list(mutate(p, r = rank(y), n = n(), .by = c(k, j)), in_groups(mutate, r = rank(y), n = n())),
    list(filter(p, y == max(y), .by = c("k", "j")), in_groups(filter, y == max(y))),
    list(
      summarise(p, n = n(), q = median(y), .by = dplyr::all_of(c("k", "j"))),
      in_groups(summarise, n = n(), q = median(y), .groups = "drop")
    ),
    list(dplyr::slice(p, 2, .by = c(k, j)), in_groups(dplyr::slice, 2)),
    list(dplyr::slice_min(p, y, n = 2, by = k:j & !where(is.numeric) | j),
      in_groups(dplyr::slice_min, y, n = 2)),
    list(dplyr::slice_head(p, n = 1, by = c(k, j)), in_groups(dplyr::slice_head, n = 1)),
    list(mutate(p, z = y * 2, .before = x), mutate(data, z = y * 2, .before = x)),
    list(
      mutate(p, z = mean(y), x = x * 2, .by = k, .after = id),
      dplyr::ungroup(mutate(group_by(data, k), z = mean(y), x = x * 2, .after = id))
    ),
    list(
      mutate(p, z = y * 2, x = -x, .keep = "none"), mutate(data, z = y * 2, x = -x, .keep = "none")
    ),
    list(
      mutate(group_by(p, k), z = max(y), .keep = "none", .before = 1),
      mutate(group_by(data, k), z = max(y), .keep = "none", .before = 1)
    )
  )
  for (i in seq_along(pairs)) {
    got <- dplyr::collect(pairs[[i]][[1L]])
    want <- pairs[[i]][[2L]]
    expect_identical(dplyr::group_vars(got), dplyr::group_vars(want), info = i)
    expect_setequal(names(got), names(want))
    if (i > 6L) expect_identical(names(got), names(want), info = i)
    expect_equal(sorted_rows(as.data.frame(got)[names(want)]), sorted_rows(want), info = i)
  }
})

test_dplyr("A group's rows are together, however they were scattered, and move once", {
  local_seed(1)
  cl <- local_cluster(2)
  data <- data.frame(g = rep(c("a", "b"), 50), x = 1:100)
  p <- partition_scatter(cl, data, parts = 10)
  by_g <- dplyr::group_by(p, g)
  expect_match(format(by_g), "grouped by `g`")
  sums <- dplyr::collect(dplyr::summarise(by_g, s = sum(x)))
  expect_identical(sums$s[order(sums$g)], c(2500L, 2550L))
  moved <- dplyr::mutate(by_g, r = rank(x))
  # Nor is anything said of parts without rows.
  expect_silent(again <- dplyr::filter(dplyr::mutate(moved, m = max(x)), x == m))
  expect_identical(stage_of(again)$near$near$id, stage_of(moved)$id)
  expect_identical(sort(dplyr::pull(again, x)), 99:100)
  # Other columns, or changed ones, aren't the key any more.
  other <- dplyr::mutate(dplyr::ungroup(moved), g = "all")
  all <- dplyr::collect(dplyr::mutate(dplyr::group_by(other, g), n = dplyr::n()))
  expect_identical(all$n, rep(100L, 100))
  expect_s3_class(all, "grouped_df")
  renamed <- dplyr::rename(moved, h = g)
  expect_identical(stage_of(renamed)$keyed, "h")
  expect_null(stage_of(dplyr::select(dplyr::ungroup(moved), x))$keyed)
})

test_dplyr("What needs all rows, or can't be done, is refused by name", {
  local_seed(1)
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(x = 1:6, t = Sys.time() + 1:6, s = "a"), parts = 3)
  refused <- function(code, text) {
    expect_error(code, text, class = "muster_error_input")
  }
  refused(dplyr::mutate(p, l = dplyr::lag(x)), "whether `dplyr::lag\\(x\\)` has a value")
  refused(dplyr::mutate(p, l = 1 + cumsum(x * 2)), "whether `cumsum\\(x \\* 2\\)` has")
  refused(dplyr::filter(p, x > c(1, 2)), "whether `c\\(1, 2\\)` has")
  refused(dplyr::mutate(p, r = dplyr::row_number()), "row_number")
  refused(dplyr::mutate(p, d = t - min(t)), "units of a difference of times depend on all rows")
  refused(dplyr::filter(p, x), "must be logical")
  refused(dplyr::arrange(p, cumsum(x)), "whether `cumsum\\(x\\)` has")
  refused(dplyr::arrange(p, x, .locale = "en"), "`.locale`")
  refused(dplyr::rename_with(p, function(names) "a"), "returns 3 names")
  refused(dplyr::slice(p, 2:1), "increasing order")
  refused(dplyr::slice(p, x), "without columns")
  refused(dplyr::slice_sample(p, n = 1, replace = TRUE), "`replace`")
  refused(dplyr::slice_head(dplyr::rowwise(p)), "`slice_head\\(\\)` isn't possible")
  refused(dplyr::union(p, p["x"]), "must have the same columns")
  refused(dplyr::mutate(dplyr::group_by(p, x), y = 1, .by = x), "has groups")
  # From version 1.1 on dplyr itself says so.
  expect_error(dplyr::summarise(p, n = n(), .by = x, .groups = "drop"), "\\.groups")
  refused(dplyr::group_by(p, nope), "nope")
  refused(dplyr::inner_join(p, data.frame(z = 1)), "give `by`")
  refused(dplyr::left_join(p, data.frame(x = 1), by = "x", keep = NA), "`keep`")
  expect_error(dplyr::select(p, nope), "nope")
  # It can be said that it does.
  got <- partition_map(p, function(part) dplyr::mutate(part, u = toupper(s)))
  expect_identical(dplyr::pull(got, u), rep("A", 6))
})

test_dplyr("Code finds the variables of where it was written, and what `{{ }}` names", {
  local_seed(1)
  cl <- local_cluster(2)
  data <- data.frame(g = c(1, 1, 2), x = c(1, 2, 9), limit = c(5, 0, 5))
  p <- partition_scatter(cl, data, parts = 2)
  mean_of <- function(d, by, column, bonus = 1) {
    d <- dplyr::group_by(d, {{ by }})
    dplyr::summarise(d, m = mean({{ column }}) + bonus, top = max({{ column }} * bonus))
  }
  bonus <- 100
  expect_equal(sorted_rows(dplyr::collect(mean_of(p, g, x))), as.data.frame(mean_of(data, g, x)))
  limit <- 1.5
  expect_identical(dplyr::pull(dplyr::filter(p, x > .env$limit), x), c(2, 9))
  expect_identical(dplyr::pull(dplyr::filter(p, x > .data$limit), x), c(2, 9))
  column <- "x"
  got <- dplyr::mutate(p, z = .data[[column]] * !!limit)
  expect_identical(dplyr::pull(got, z), data$x * 1.5)
  got <- dplyr::mutate(dplyr::group_by(p, g), z = x * bonus)
  expect_identical(sort(dplyr::pull(got, z)), c(100, 200, 900))
  expect_identical(sort(partition_collect(partition_summarise(got, top = max(z)))$top), c(200, 900))
})

test_dplyr("What an attack found: dplyr's value, or a refusal, and never another value", {
  local_seed(1)
  cl <- local_cluster(2)
  data <- random_table(60)
  p <- partition_scatter(cl, data, parts = 4)
  plain <- function(x) sorted_rows(as.data.frame(dplyr::ungroup(dplyr::collect(x))))
  same <- function(pipe) expect_equal(plain(pipe(p)), plain(pipe(data)))
  refused <- function(code, text) expect_error(code, text, class = "muster_error_input")
  refused(dplyr::slice_min(p, abs(id - median(id)), n = 2), "name of a column")
  refused(dplyr::slice_max(p, id, n = -2), "from 0")
  refused(mutate(group_by(p, k), k = "new"), "it is a group")
  refused(mutate(group_by(p, k), dplyr::tibble(k = "new")), "columns that are groups")
  i <- 2
  refused(mutate(p, z = get("y")), "whether")
  v <- "y"
  refused(mutate(p, z = get(v)), "whether")
  refused(mutate(p, z = eval(as.name(v))), "whether")
  inner <- function(d, v) {
    kk <- 1000
    mutate(d, z = y + {{ v }})
  }
  kk <- 10
  refused(inner(p, kk), "inside of other code")
  same(function(d) summarise(group_by(d, k), across(c(y, id), ~ sum(.x) + sum(y))))
  same(function(d) summarise(d, across(c(y, id), ~ sum(.x) / max(id) / max(y))))
  same(function(d) summarise(group_by(d, k), across(y, ~ sum(sapply(.x, function(.x) .x + 1)))))
  same(function(d) summarise(group_by(d, k), across(c(new = y), mean)))
  same(function(d) mutate(d, z = max(sapply(1:5, function(i) sum(y > i)))))
  same(function(d) {
    sum <- function(...) 42
    dplyr::count(d, k, wt = j)
  })
  same(function(d) mutate(group_by(d, k), across(c(x, y), mean, na.rm = TRUE)))
  same(function(d) mutate(group_by(d, k), dplyr::tibble(a = 1, m = dplyr::n())))
  same(function(d) dplyr::transmute(group_by(d, k), k, top = max(y)))
  refused(mutate(group_by(p, k), z = dplyr::cur_group_id()), "cur_group_id")
  refused(summarise(group_by(p, k), r = across(c(x, y), mean)), "across\\(\\) in other code")
  refused(summarise(p, across(y, mean, .names = "m_{col}")), "[{].col[}]")
  refused(mutate(p, z = nosuch + 1), "no column or variable `nosuch`")
  # Groups stay with the data.
  grouped <- group_by(data, k)
  from <- partition_scatter(cl, grouped, parts = 3)
  expect_identical(dplyr::group_vars(from), "k")
  expect_equal(plain(mutate(from, n = dplyr::n())), plain(mutate(grouped, n = dplyr::n())))
  expect_identical(dplyr::group_vars(partition_map(from, function(part) part)), "k")
  same(function(d) {
    other <- data.frame(j = 1:3, k = c("u", "v", "w"))
    dplyr::count(dplyr::left_join(group_by(d, k), other, by = "j"))
  })
  # Random numbers follow from the seed, and stay when a part is made again.
  draw <- function() {
    set.seed(5)
    mutate(group_by(p, k), z = runif(dplyr::n()))
  }
  drawn <- draw()
  want <- dplyr::pull(drawn, z)
  expect_identical(dplyr::pull(draw(), z), want)
  for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGKILL)
  expect_identical(dplyr::pull(drawn, z), want)
})

test_dplyr("Parts without rows change neither values nor types", {
  local_seed(1)
  cl <- local_cluster(2)
  data <- data.frame(
    id = 1:6, g = c("a", "a", "b"), s = letters[6:1], f = factor(letters[1:6], ordered = TRUE)
  )
  p <- partition_scatter(cl, data, parts = 6)
  late <- dplyr::filter(p, id > 4L)
  # Text isn't folded, which a part without rows has to see, too.
  got <- dplyr::collect(dplyr::summarise(late, lo = min(s), hi = max(f)))
  expect_identical(got, data.frame(lo = "a", hi = data$f[6]))
  # With code for whole groups, and without.
  none <- dplyr::filter(p, id > 10L)
  got <- dplyr::collect(dplyr::summarise(none, lo = min(id), n = n(), t = paste(id, collapse = "")))
  expect_identical(got, data.frame(lo = Inf, n = 0L, t = ""))
  # There are fewer groups than parts. max() of nothing is no integer.
  got <- mutate(group_by(p, g), m = max(id), l = sapply(id, function(i) i + 1L))
  rows <- dplyr::collect(got)
  expect_identical(rows$m[order(rows$id)], c(5L, 5L, 6L, 5L, 5L, 6L))
  expect_identical(rows$l[order(rows$id)], 2:7)
  expect_identical(names(dplyr::select(ungroup(got), where(is.integer))), c("id", "m", "l"))
})

test_dplyr("Groups may have the names of verbs' arguments, and distinct() orders as it is asked", {
  local_seed(1)
  cl <- local_cluster(2)
  data <- data.frame(id = 1:6, n = c(1, 1, 2), k = c("a", "b"))
  p <- partition_scatter(cl, data, parts = 3)
  got <- dplyr::collect(dplyr::slice_min(group_by(p, n), id, n = 1))
  expect_identical(sort(got$id), c(1L, 3L))
  expect_identical(names(dplyr::distinct(group_by(p, n), k, n)), c("k", "n"))
  expect_identical(names(dplyr::distinct(group_by(p, n), k)), c("n", "k"))
})

test_dplyr("integer64 columns have their methods where groups are evaluated", {
  testthat::skip_if_not_installed("bit64")
  local_seed(1)
  cl <- local_cluster(2)
  data <- new_frame(list(k = c(1, 1, 2, 2), v = int64(5, NA, 7, 6)), 4L)
  p <- partition_scatter(cl, data, parts = 2)
  got <- dplyr::collect(mutate(group_by(p, k), none = is.na(v), top = v == max(v, na.rm = TRUE)))
  expect_identical(got$none[order(got$k)], c(FALSE, TRUE, FALSE, FALSE))
  expect_identical(got$top[order(got$k)], c(TRUE, NA, TRUE, FALSE))
})
