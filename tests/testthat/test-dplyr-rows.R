# dplyr's verbs without groups: what has a value for each row, and the order of all rows.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)
# No package that muster suggests: used where it happens to be.
has_stringr <- nzchar(system.file(package = "stringr"))

# The C locale's order, as that of data on workers.
in_c_locale <- function(code) {
  old <- Sys.getlocale("LC_COLLATE")
  on.exit(Sys.setlocale("LC_COLLATE", old))
  Sys.setlocale("LC_COLLATE", "C")
  code
}

table_of <- function(n) {
  pick <- function(x) x[sample.int(length(x), n, TRUE)]
  time <- as.POSIXct("2020-01-01", tz = "UTC") + sample(1e7, n, TRUE)
  data.frame(
    i = pick(c(1:5, NA)), d = pick(c(round(rnorm(20), 3), NA, 0, -0)),
    s = pick(c("b b", "a", "", "Zz", "\u00e4", NA)), f = factor(pick(c("z", "a", NA))),
    l = pick(c(TRUE, FALSE, NA)), t = time, day = as.Date(time), gap = time - time[1],
    txt = format(as.Date(time), "%d/%m/%Y"), row = seq_len(n)
  )
}

if (has_dplyr) test_cluster("Data of two workers, in dplyr's verbs without groups", {
  local_seed(1)
  cl <- local_cluster(2)
  if_else <- dplyr::if_else
  case_when <- dplyr::case_when
  between <- dplyr::between
  coalesce <- dplyr::coalesce
  na_if <- dplyr::na_if
  across <- dplyr::across
  desc <- dplyr::desc
  n <- dplyr::n
  `%>%` <- dplyr::`%>%`
  if (has_stringr) {
    for (name in c("str_detect", "str_sub", "str_to_upper", "str_replace_all", "str_c")) {
      assign(name, getExportedValue("stringr", name))
    }
  }
  x <- table_of(200)
  p <- partition_scatter(cl, x, parts = 5)
  first <- as.POSIXct("2020-01-01", tz = "UTC")

  test_that("Functions with a value for each row give dplyr's", {
    cases <- c(alist(
      ifelse(i > 2, "hi", NA), ifelse(row > 190, NA, s), if_else(i > 2, "hi", "lo"),
      if_else(l, d, 0, missing = -1), if_else(l, day, day + 1),
      case_when(i > 3 ~ "a", is.na(i) ~ "none", TRUE ~ s),
      case_when(d > mean(d, na.rm = TRUE) ~ d, TRUE ~ 0), between(d, -1, 1), coalesce(s, "x"),
      coalesce(i, 0L), na_if(i, 3L), dplyr::near(d, 0), paste(s, i, sep = "_"), paste0(f, d),
      sprintf("%03d:%s", i, s), grepl("a", s, fixed = TRUE), sub("b", "c", s),
      gsub("[a-z]", "", f), trimws(s), as.character(d), as.character(f), as.character(day),
      format(day, "%Y-%m"), format(t, format = "%H"), weekdays(day), months(day, TRUE),
      as.Date(txt, "%d/%m/%Y"), as.Date(t), as.POSIXct(txt, format = "%d/%m/%Y", tz = "UTC"),
      difftime(t, first, units = "hours"), as.numeric(difftime(t, first, units = "hours")),
      cut(d, c(-Inf, 0, 1, Inf)), cut(d, breaks = c(-9, 0, 9), labels = c("neg", "pos")),
      findInterval(d, c(-1, 0, 1)), match(s, c("a", "b b")), factor(s, levels = c("a", "b b")),
      is.element(i, 1:2), day + 30, t - 3600, day - as.Date("2020-01-01"), as.numeric(day),
      as.integer(t), substring(s, 2), chartr("ab", "xy", s), strftime(t, "%M"),
      strtoi(substr(txt, 1, 2), 10L)
    ), if (has_stringr) {
      alist(
        str_detect(s, "^[ab]"), str_sub(s, 1, 1), str_to_upper(f), str_replace_all(s, "a", "b"),
        str_c(s, "-", i)
      )
    })
    codes <- stats::setNames(cases, paste0("z", seq_along(cases)))
    got <- dplyr::collect(dplyr::mutate(p, !!!codes))
    want <- dplyr::mutate(x, !!!codes)
    for (k in seq_along(want)) {
      expect_identical(got[[k]], want[[k]], info = deparse(codes[names(want)[k]]))
    }
  })

  test_that("What depends on other rows is refused, however it is written", {
    cases <- alist(
      paste(s, collapse = ""), as.Date(txt), format(d), format(t), cumsum(i), cut(d, 3), factor(s),
      as.integer(f), rank(d), if_else(dplyr::row_number() > 3, 1, 2), as.POSIXct(txt), t - first,
      case_when(dplyr::lag(i) > 1 ~ 1, TRUE ~ 2), difftime(t, first), as.character(t),
      match(d, unique(d)), between(gap, 1, 2), dplyr::coalesce(d, rev(d)),
      sub("a", s, s), nchar(ifelse(l, s, NA))
    )
    if (has_stringr) {
      cases <- c(cases, alist(str_c(s, collapse = ""), str_replace_all(s, c(a = "b"))))
    }
    for (code in cases) {
      expect_error(dplyr::mutate(p, z = !!code), "for each row", class = "muster_error_input",
        info = deparse(code))
    }
    # Others' functions of these names aren't these.
    if_else <- function(...) rev(..2)
    expect_error(dplyr::mutate(p, z = if_else(l, i, i)), "whether", class = "muster_error_input")
  })

  test_that("across(), if_any() and if_all() are those of each column", {
    twice <- function(v) v * 2
    funs <- list(m = mean, s = stats::sd, k = ~ sum(.x^2))
    same <- function(pipe, by = NULL) {
      got <- as.data.frame(dplyr::collect(pipe(p)))
      want <- as.data.frame(pipe(x))
      if (!is.null(by)) got <- got[match(want[[by]], got[[by]]), , drop = FALSE]
      row.names(got) <- NULL
      expect_equal(got, want, info = deparse(body(pipe))[1L])
    }
    same(function(d) dplyr::mutate(d, across(c(i, d), ~ .x + 1)))
    same(function(d) {
      dplyr::mutate(d, z = i * 2, across(c(z, row), ~ .x / max(row)), w = z + row)
    })
    same(function(d) dplyr::mutate(d, across(c(row, d), list(a = abs, b = ~ .x - mean(row)))))
    same(function(d) dplyr::mutate(d, across(c(d, i), ~ .x / i)))
    same(function(d) dplyr::mutate(d, across(c(d, i), round, 1), .keep = "none"))
    same(function(d) dplyr::transmute(d, row, across(c(d, i), ~ .x * i, .names = "{.col}_i")))
    same(function(d) dplyr::filter(d, dplyr::if_any(c(d, i), ~ .x > 2)))
    same(function(d) dplyr::filter(d, dplyr::if_all(c(d, i), ~ .x > 0), l))
    same(function(d) dplyr::filter(d, !dplyr::if_any(c(d, i), is.na) & row > 50, dplyr::if_any(l)))
    same(function(d) dplyr::mutate(d, z = dplyr::if_any(c(d, i), ~ .x > 2)))
    same(function(d) dplyr::summarise(dplyr::group_by(d, l), across(c(row, t), funs[1])), "l")
    same(function(d) dplyr::summarise(dplyr::group_by(d, l), across(row, funs)), "l")
    same(function(d) dplyr::summarise(dplyr::group_by(d, across(f)), n = n()), "f")
    same(function(d) dplyr::distinct(d, across(s)), "s")
    same(function(d) dplyr::mutate(dplyr::group_by(d, f), across(c(d, i), ~ .x - max(.x))), "row")
    refused <- function(code) expect_error(code, "whether", class = "muster_error_input")
    refused(dplyr::mutate(p, across(c(row, i), twice)))
  })

  test_that("arrange() gives dplyr's order, which groups keep", {
    pipes <- list(
      function(d) dplyr::arrange(d, desc(i), s), function(d) dplyr::arrange(d, d),
      function(d) dplyr::arrange(d, desc(d), desc(row)), function(d) dplyr::arrange(d, i * d, day),
      function(d) dplyr::arrange(d, desc(nchar(s)), f, -row),
      function(d) dplyr::arrange(d, across(c(l, f), desc), row), function(d) dplyr::arrange(d),
      function(d) dplyr::arrange(dplyr::group_by(d, f), i, .by_group = TRUE),
      function(d) dplyr::arrange(dplyr::group_by(d, f), desc(t)),
      function(d) dplyr::slice_head(dplyr::arrange(d, desc(t)), n = 7),
      function(d) d %>% dplyr::arrange(d, row) %>% dplyr::filter(i > 2) %>% dplyr::select(s, row),
      function(d) dplyr::count(d, f, i, sort = TRUE),
      function(d) dplyr::tally(dplyr::group_by(d, s), wt = row, sort = TRUE),
      function(d) dplyr::arrange(dplyr::add_count(d, f, s), row),
      function(d) {
        d %>% dplyr::group_by(f) %>% dplyr::add_count(s, wt = i, name = "w") %>% dplyr::arrange(row)
      },
      function(d) dplyr::arrange(dplyr::add_count(d, sort = TRUE), row),
      function(d) {
        d %>% dplyr::arrange(s, desc(t)) %>% dplyr::group_by(f) %>%
          dplyr::mutate(r = dplyr::row_number(), l = dplyr::lag(row)) %>% dplyr::arrange(row)
      },
      function(d) {
        d %>% dplyr::arrange(t) %>% dplyr::group_by(f) %>%
          dplyr::summarise(a = dplyr::first(row), b = dplyr::last(row)) %>% dplyr::arrange(f)
      }
    )
    for (pipe in pipes) {
      want <- in_c_locale(pipe(x))
      got <- dplyr::collect(pipe(p))
      expect_identical(dplyr::group_vars(got), dplyr::group_vars(want))
      expect_identical(as.data.frame(got), as.data.frame(want), info = deparse(body(pipe))[1L])
    }
  })

  test_that("Columns are kept and renamed as in dplyr", {
    pipes <- list(
      function(d) dplyr::mutate(d, z = i + 1, .keep = "used"),
      function(d) dplyr::mutate(d, z = i + 1, i = d, .keep = "unused", .before = s),
      function(d) dplyr::mutate(d, z = .data$i + d, .keep = "none"),
      function(d) dplyr::rename_with(d, toupper),
      function(d) dplyr::rename_with(d, ~ paste0("p_", .x), dplyr::starts_with("d")),
      function(d) {
        d <- dplyr::group_by(d, f)
        d <- dplyr::mutate(d, z = max(d), row = row, .keep = "used", .before = i)
        dplyr::arrange(d, row)
      },
      function(d) {
        dplyr::arrange(dplyr::mutate(dplyr::group_by(d, f), z = max(i), .keep = "unused"), row)
      },
      function(d) {
        d <- dplyr::mutate(dplyr::group_by(d, f), z = row, row = row, .keep = "none")
        dplyr::arrange(d, row)
      }
    )
    for (pipe in pipes) {
      got <- dplyr::collect(pipe(p))
      expect_identical(as.data.frame(got), as.data.frame(pipe(x)), info = deparse(body(pipe))[1L])
    }
  })
  test_that("Sets of rows are dplyr's", {
    a <- dplyr::select(x, f, i)
    b <- data.frame(i = c(1:7, 7L), f = factor(c("a", "z"), levels = c("a", "z")))
    q <- partition_scatter(cl, b, parts = 2)
    sets <- list(dplyr::union_all, dplyr::union, dplyr::intersect, dplyr::setdiff)
    for (k in seq_along(sets)) {
      want <- sorted_rows(sets[[k]](a, b[2:1]))
      for (y in list(b, q)) {
        got <- sets[[k]](dplyr::select(p, f, i), y)
        expect_identical(sorted_rows(dplyr::collect(got)), want, info = k)
      }
    }
    stacked <- dplyr::union_all(dplyr::select(dplyr::group_by(p, f), i), q)
    tools::pskill(node_pids(cl)[1L], tools::SIGKILL)
    expect_identical(as.data.frame(dplyr::collect(stacked)), rbind(a, b[2:1]))
    expect_identical(dplyr::group_vars(stacked), "f")
  })

  test_that("slice() takes rows by their places among all, do() has each group's rows", {
    pipes <- list(
      function(d) dplyr::slice(d, 30:90), function(d) dplyr::slice(d, -(1:180)),
      function(d) dplyr::slice(d, 2, n()), function(d) dplyr::slice(d, 500),
      function(d) {
        set.seed(3)
        dplyr::arrange(dplyr::slice_sample(d, n = 9), row)
      },
      function(d) {
        set.seed(3)
        dplyr::arrange(dplyr::slice_sample(d, prop = 0.2), row)
      },
      function(d) dplyr::arrange(dplyr::do(dplyr::group_by(d, f), utils::head(., 2)), row),
      function(d) {
        few <- 2
        d <- dplyr::group_modify(dplyr::group_by(d, f), ~ utils::head(.x, few))
        dplyr::arrange(d, row)
      }
    )
    local_seed(1)
    for (pipe in pipes) {
      want <- as.data.frame(pipe(x))
      got <- as.data.frame(dplyr::collect(pipe(p)))
      expect_identical(got, want, info = deparse(body(pipe))[1L])
    }
    fits <- dplyr::collect(dplyr::do(dplyr::group_by(p, f), fit = stats::lm(d ~ i, data = .)))
    want <- dplyr::do(dplyr::group_by(x, f), fit = stats::lm(d ~ i, data = .))
    at <- match(want$f, fits$f)
    expect_equal(lapply(fits$fit[at], stats::coef), lapply(want$fit, stats::coef))
    all <- dplyr::collect(dplyr::do(p, fit = stats::lm(d ~ row, data = .)))
    expect_equal(stats::coef(all$fit[[1L]]), stats::coef(stats::lm(d ~ row, x)))
  })
  test_that("Parts that verbs leave without groups don't take part in the columns of later ones", {
    some <- function(d) dplyr::filter(dplyr::group_by(d, f), n() > 60) # of one group or none
    need_rows <- function(value) if (length(value)) value else stop("no rows")
    pipes <- list(
      function(d) {
        dplyr::group_modify(some(d), ~ data.frame(slope = coef(stats::lm(d ~ row, .x))[[2L]]))
      },
      function(d) dplyr::group_modify(some(d), ~ data.frame(n = nrow(.x))),
      function(d) dplyr::do(some(d), data.frame(top = stats::lm(d ~ row, .)$coefficients[[1L]])),
      function(d) dplyr::transmute(some(d), z = need_rows(row)),
      function(d) dplyr::mutate(some(d), z = need_rows(row), .keep = "none"),
      function(d) dplyr::mutate(some(d), z = need_rows(row), d = NULL)
    )
    expect_true(any(table(x$f) > 60) && !all(table(x$f) > 60))
    for (pipe in pipes) {
      want <- as.data.frame(pipe(x))
      got <- as.data.frame(dplyr::collect(pipe(p)))
      expect_equal(sorted_rows(got), sorted_rows(want), info = deparse(body(pipe))[1L])
    }
  })

  test_that("What an attack found: dplyr's value, or a refusal, and never another value", {
    refused <- function(code) {
      expect_error(dplyr::mutate(p, z = !!code), "for each row", class = "muster_error_input",
        info = deparse(code))
    }
    for (code in alist(
      cut(d, labels = c(1, 2, 3), 3), cut(d, lab = c(1, 2, 3), 3), format(t, ""), strftime(t, ""),
      difftime(t, day, units = "au"), difftime(t, t, units = c("auto", "mins")),
      dplyr::near(i, i + 1, tol = c(0.1, 10)), between(f, 1, 2)
    )) refused(code)
    same <- function(pipe, p, x) {
      got <- as.data.frame(dplyr::collect(pipe(p)))
      expect_identical(got, as.data.frame(pipe(x)), info = deparse(body(pipe))[1L])
    }
    # Aggregates keep their classes.
    same(function(d) dplyr::mutate(d, z = if_else(l, gap, max(gap)), w = max(gap)), p, x)
    same(function(d) dplyr::mutate(d, z = day + max(i, na.rm = TRUE)), p, x)
    same(function(d) dplyr::mutate(d, z = gap - max(gap), w = gap < mean(gap)), p, x)
    same(function(d) dplyr::filter(d, gap == max(gap)), p, x)
    long <- new_partition_of(cl, list(v = int64(5, 7, 2^40 + 1, 1), i = 1:4))
    expect_error(dplyr::mutate(long, z = i + max(v)), "for each row", class = "muster_error_input")
    got <- partition_collect(dplyr::mutate(long, z = max(v)))
    expect_identical(got$z, int64(2^40 + 1, 2^40 + 1, 2^40 + 1, 2^40 + 1))
    if (requireNamespace("bit64", quietly = TRUE)) {
      got <- dplyr::filter(long, v == max(v) | 6 > v)
      expect_identical(partition_collect(got)$i, c(1L, 3L, 4L))
    }
    # The session's settings, also in the parts that are made again.
    local_settings(scipen = 100, OutDec = ",", digits.secs = 3)
    local_variables(TZ = "Asia/Tokyo")
    times <- as.POSIXct(c(0, 0.5, 4e4), origin = "1970-01-01")
    local <- data.frame(b = c(1e5, 0.5, 1e-7), t = times)
    pipe <- function(d) {
      dplyr::mutate(d, b = paste(b), h = format(t, "%H:%M:%OS"), z = as.POSIXct(h, "", "%H:%M"))
    }
    told <- partition_scatter(cl, local, parts = 3)
    same(function(d) dplyr::select(pipe(d), b, h), told, local)
    same(function(d) dplyr::filter(d, t < "1970-01-01 10:00"), told, local)
    made <- dplyr::select(pipe(told), h)
    for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGKILL)
    expect_identical(dplyr::pull(made, h), pipe(local)$h)
  })

  test_that("Parts with columns of other types have the values of all rows together", {
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
    numbers <- parts(data.frame(x = c(TRUE, NA)), data.frame(x = 1:2), data.frame(x = c(1e5, 0.5)))
    together(numbers, function(d) dplyr::mutate(d, z = paste(x), m = match(x, c("TRUE", "1"))))
    texts <- parts(data.frame(x = 10:11), data.frame(x = c("9", "b")))
    together(texts, function(d) dplyr::filter(d, x > 1))
    days <- parts(data.frame(x = as.Date("2020-01-01") + 0:1),
      data.frame(x = as.POSIXct("2020-01-02", tz = "UTC") + 0:1))
    together(days, function(d) dplyr::mutate(d, z = as.numeric(x), w = x + 1))
    zones <- parts(data.frame(x = as.POSIXct("2020-01-01", tz = "UTC")),
      data.frame(x = as.POSIXct("2020-01-01", tz = "America/New_York")))
    together(zones, function(d) dplyr::mutate(d, z = format(x, "%H:%M"), w = weekdays(x)))
    none <- parts(data.frame(x = c(1.5, NA), s = c("a", NA)), data.frame(x = c(NA, NA), s = NA))
    together(none, function(d) {
      dplyr::mutate(d, z = if_else(is.na(x), 0, x), n = nchar(s), u = toupper(s), w = cut(x, 0:2))
    })
    together(none, function(d) dplyr::filter(d, case_when(is.na(s) ~ x > 1, TRUE ~ grepl("a", s))))
    expect_error(dplyr::mutate(none, z = toupper(x)), "for each row", class = "muster_error_input")
  })
})
