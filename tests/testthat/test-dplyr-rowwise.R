# dplyr's rowwise() on workers, against dplyr's own for data frames: each row is a group, so rows
# keep their order and nothing moves.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)

rowwise_table <- function(n) {
  pick <- function(x) x[sample.int(length(x), n, TRUE)]
  new_frame(list(
    id = seq_len(n), k = pick(c("a", "b", NA)), x = pick(c(round(rnorm(9), 3), NA)),
    y = pick(c(-3:3, NA)), n = pick(1:4), f = factor(pick(c("u", "v")), levels = c("v", "u")),
    d = pick(as.Date("2020-02-28") + 0:2), l = pick(list(1:3, "a", NULL, list(2)))
  ), n)
}

# As pipelines, without what dplyr says of groups. `limit` is a variable of the test's.
limit <- 0.5
pipes <- if (has_dplyr) {
  `%>%` <- dplyr::`%>%`
  rowwise <- dplyr::rowwise
  mutate <- dplyr::mutate
  summarise <- dplyr::summarise
  c_across <- dplyr::c_across
  n <- dplyr::n
  list(
    sums = function(d) d %>% rowwise() %>% mutate(s = sum(c(x, y), na.rm = TRUE), m = max(x, y)),
    across = function(d) d %>% rowwise() %>% mutate(s = mean(c_across(x:n), na.rm = TRUE)),
    where = function(d) {
      d %>% rowwise(id) %>%
        mutate(s = sum(c_across(where(is.numeric)), na.rm = TRUE), z = s > limit)
    },
    lists = function(d) {
      d %>% rowwise() %>% mutate(z = length(l), v = list(seq_len(n)), w = class(l)[1L])
    },
    each = function(d) d %>% rowwise(id) %>% mutate(dplyr::across(c(x, y), ~ sum(.x, n))),
    if_else = function(d) d %>% rowwise() %>% mutate(z = if (is.na(k)) "none" else toupper(k)),
    keep = function(d) d %>% rowwise(id) %>% mutate(z = x + n, .keep = "used", .before = k),
    own = function(d) d %>% rowwise() %>% mutate(z = (function(a, b) a * b)(x, n), f = paste(f)),
    transmute = function(d) d %>% rowwise(id, k) %>% dplyr::transmute(z = max(x, y, na.rm = FALSE)),
    filter = function(d) d %>% rowwise(id) %>% dplyr::filter(sum(x, y, na.rm = TRUE) > 0),
    any = function(d) d %>% rowwise() %>% dplyr::filter(any(c_across(x:y) > limit), n() == 1L),
    summarise = function(d) d %>% rowwise(id, k) %>% summarise(m = mean(c(x, y)), n = n()),
    drop = function(d) d %>% rowwise(id) %>% summarise(m = n * 2L, .groups = "drop"),
    again = function(d) {
      d %>% rowwise(id) %>% summarise(m = list(n:4), .groups = "rowwise") %>%
        mutate(z = length(m))
    },
    no_ids = function(d) d %>% rowwise() %>% summarise(m = n * 2L),
    do = function(d) d %>% rowwise() %>% dplyr::do(a = .$x, b = seq_len(.$n)),
    do_rows = function(d) d %>% rowwise(id) %>% dplyr::do(data.frame(id = rep(.$id, .$n), x = .$x)),
    columns = function(d) {
      d %>% rowwise(id) %>% dplyr::select(key = k, x) %>% dplyr::rename(row = id) %>%
        dplyr::relocate(x) %>% dplyr::rename_with(toupper) %>% mutate(Z = sum(X, 1))
    },
    arrange = function(d) d %>% rowwise(id) %>% dplyr::arrange(n, id) %>% mutate(z = max(n, y)),
    ungroup = function(d) d %>% rowwise(id) %>% dplyr::ungroup() %>% mutate(z = x + sum(n)),
    pipe = function(d) {
      d %>% rowwise(id) %>% mutate(z = max(n, y, na.rm = TRUE)) %>% dplyr::filter(z > 1) %>%
        dplyr::ungroup() %>% mutate(w = z * 2)
    },
    of_groups = function(d) d %>% dplyr::group_by(id) %>% rowwise() %>% mutate(z = sum(x, y)),
    some = function(d) utils::head(rowwise(d, id)[c("id", "n")], 3),
    add = function(d) {
      d %>% rowwise(id) %>% dplyr::group_by(odd = n %% 2L, .add = TRUE) %>% dplyr::ungroup()
    }
  )
}

same_class <- function(got, want, info) {
  expect_identical(inherits(got, "rowwise_df"), inherits(want, "rowwise_df"), info = info)
  expect_identical(dplyr::group_vars(got), dplyr::group_vars(want), info = info)
  expect_identical(names(got), names(want), info = info)
}

test_cluster("Verbs after rowwise() have dplyr's rows in their order, also after a loss", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  limit_time(120)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  quiet <- function(code) suppressWarnings(suppressMessages(code))
  for (seed in 1:3) {
    local_seed(seed)
    data <- rowwise_table(c(30L, 7L, 60L)[seed])
    p <- partition_scatter(cl, data, parts = 5)
    # The first parts have no rows.
    if (seed == 3L) {
      data <- data[data$id > 25L, , drop = FALSE]
      p <- dplyr::filter(p, id > 25L)
    }
    for (name in names(pipes)) {
      info <- paste(seed, name)
      want <- quiet(pipes[[name]](data))
      made <- quiet(pipes[[name]](p))
      expect_identical(dplyr::group_vars(made), dplyr::group_vars(want), info = info)
      got <- dplyr::collect(made)
      same_class(got, want, info)
      plain <- function(x) {
        x <- as.data.frame(dplyr::ungroup(x))
        row.names(x) <- NULL
        x
      }
      if (nrow(want)) expect_equal(plain(got), plain(want), info = info)
      if (name %in% c("where", "again", "do")) {
        tools::pskill(node_pids(cl)[1L + seed %% 2L], tools::SIGKILL)
        expect_identical(plain(dplyr::collect(made)), plain(got), info = info)
      }
    }
  }
})

test_cluster("Random tables, row by row, have dplyr's values and types", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  limit_time(120)
  cl <- local_cluster(2)
  codes <- expression(
    v1 = sum(x, y, na.rm = TRUE), v2 = if (isTRUE(x > 0)) x else y, v3 = list(l2), v4 = is.na(x),
    v5 = paste(id, y), v6 = n(), v7 = if (id %% 2L) 1L else 2.5, v8 = if (id > 3L) NA else "a",
    v9 = if (id > 5L) NA else TRUE, va = max(id, y, na.rm = TRUE), vb = kl & x > 0, vc = kD + id,
    vd = kf, ve = as.character(ko), vf = if (is.na(kf)) factor("z") else kf, vg = kt - 60,
    vh = nchar(ks), vi = length(l), vj = k64, vk = seq_len(1L), vl = identical(kd, x)
  )
  tried <- 0L
  for (seed in 1:40) {
    local_seed(seed)
    rows <- sample(c(1L, 8L, 30L), 1L)
    data <- oracle_table(rows)
    data$l2 <- data$x
    p <- partition_scatter(cl, data, parts = sample(5L, 1L))
    known <- Filter(function(code) all(all.vars(code) %in% names(data)), as.list(codes))
    some <- known[sample.int(length(known), min(length(known), 4L))]
    want <- tryCatch(mutate(rowwise(data), !!!some), error = function(e) NULL)
    if (is.null(want)) next
    got <- dplyr::collect(mutate(rowwise(p), !!!some))
    expect_null(oracle_difference(got, want), info = paste(seed, deparse1(some)))
    expect_identical(got$id, data$id)
    tried <- tried + 1L
  }
  expect_gt(tried, 25L)
})

test_cluster("Parts of other types have the values of all rows together, or an error", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  local_seed(1)
  cl <- local_cluster(2)
  parts <- function(...) {
    frames <- list(...)
    numbers <- data.frame(k = seq_along(frames))
    partition_map(partition_scatter(cl, numbers, parts = length(frames)),
      function(part, frames) frames[[part$k]], frames)
  }
  together <- function(p, pipe) {
    got <- as.data.frame(dplyr::collect(pipe(p)))
    want <- as.data.frame(pipe(partition_collect(p)))
    expect_identical(got, want, info = deparse(body(pipe))[1L])
  }
  mixed <- parts(data.frame(x = c(TRUE, NA)), data.frame(x = 1:2), data.frame(x = c(1e5, 0.5)))
  together(mixed, function(d) mutate(rowwise(d), z = paste(x), w = typeof(x)))
  levels <- parts(data.frame(f = factor("b")), data.frame(f = factor(c("a", "b"))))
  together(levels, function(d) mutate(rowwise(d), z = as.integer(f)))
  # Of what is made, too.
  p <- partition_scatter(cl, data.frame(id = 1:6), parts = 3)
  together(p, function(d) mutate(rowwise(d), z = if (id < 3L) 1L else 0.5))
  together(p, function(d) mutate(rowwise(d), z = if (id < 4L) NA else "b"))
  together(p, function(d) summarise(rowwise(d, id), z = if (id < 3L) factor("b") else factor("a")))
  together(p, function(d) mutate(rowwise(d), z = if (id < 3L) as.Date("2020-01-01") else NA))
  expect_error(mutate(rowwise(p), z = if (id < 3L) 1L else "a"), "can't be in one column",
    class = "muster_error_input"
  )
  expect_error(mutate(rowwise(p), z = if (id < 3L) TRUE else "a"), "can't be in one column",
    class = "muster_error_input"
  )
  expect_identical(partition_collect(p), data.frame(id = 1:6))
})

test_cluster("Random numbers follow from the seed, and stay when a part is made again", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(id = 1:20), parts = 4)
  draw <- function() {
    local_seed(5)
    mutate(rowwise(p), z = rnorm(1))
  }
  drawn <- draw()
  want <- dplyr::pull(drawn, z)
  expect_identical(anyDuplicated(want), 0L)
  expect_identical(dplyr::pull(draw(), z), want)
  for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGKILL)
  expect_identical(dplyr::pull(drawn, z), want)
})

test_cluster("What isn't possible row by row is refused, and the handle says what it is", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  local_seed(1)
  cl <- local_cluster(2)
  data <- data.frame(id = 1:6, x = 6:1)
  p <- partition_scatter(cl, data, parts = 2)
  r <- rowwise(p, id)
  expect_match(format(r), ", by row")
  expect_identical(dplyr::group_vars(r), "id")
  expect_identical(dplyr::group_vars(dplyr::group_by(r, x, .add = TRUE)), c("id", "x"))
  expect_identical(dplyr::group_vars(dplyr::group_by(r, x)), "x")
  expect_identical(dim(r), c(6L, 2L))
  expect_s3_class(partition_map(r, function(part) part), "muster_rowwise")
  from <- partition_scatter(cl, rowwise(data, id), parts = 2)
  expect_identical(dplyr::collect(from), rowwise(data, id))
  refused <- function(code, text = "ungroup\\(\\) first") {
    expect_error(code, text, class = "muster_error_input")
  }
  refused(dplyr::slice_head(r, n = 1))
  refused(dplyr::slice(r, 1))
  refused(dplyr::slice_min(r, x))
  refused(dplyr::count(r, x))
  refused(dplyr::tally(r))
  refused(dplyr::add_count(r, x))
  refused(dplyr::distinct(r, x))
  refused(dplyr::inner_join(r, data, by = "id"))
  refused(dplyr::semi_join(r, data, by = "id"))
  refused(dplyr::nest_join(r, data, by = "id"))
  refused(dplyr::union(r, data))
  refused(dplyr::union_all(r, data))
  refused(dplyr::setdiff(r, data))
  refused(partition_summarise(r, n = length(x)))
  refused(mutate(r, z = 1, .by = x), "has groups")
  refused(mutate(r, z = dplyr::cur_group_id()), "cur_group_id")
  refused(mutate(r, id = 1L), "it is a group")
  refused(mutate(r, dplyr::tibble(id = 9L)), "can't change columns that are groups")
  refused(rowwise(dplyr::group_by(p, x), id), "has groups")
  refused(summarise(r, z = 1, .groups = "drop_last"), "`.groups`")
  expect_error(rowwise(p, nope), "nope")
  expect_error(mutate(r, z = stop("in row ", id)), "in row", class = "muster_error_remote")
})
