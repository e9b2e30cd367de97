# Values of all rows in code for each row, results that take the place of others, and across().

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)
# No package that muster suggests: used where it happens to be.
has_stringr <- nzchar(system.file(package = "stringr"))

stock_of <- function(n) {
  data.frame(
    row = seq_len(n), i = sample(c(1:5, NA), n, TRUE), d = round(rnorm(n), 2),
    s = sample(c("a", "B", "a.b", NA), n, TRUE), f = factor(sample(c("u", "v"), n, TRUE)),
    l = sample(c(TRUE, FALSE, NA), n, TRUE), year = sample(2010:2012, n, TRUE),
    total = sample(3L, n, TRUE), day = as.Date("2020-01-01") + sample(50L, n, TRUE)
  )
}

if (has_dplyr) test_cluster("Summaries of two workers, in other code and in place of others", {
  local_seed(2)
  cl <- local_cluster(2)
  `%>%` <- dplyr::`%>%`
  for (name in c("mutate", "filter", "group_by", "summarise", "arrange", "across", "desc", "n")) {
    assign(name, getExportedValue("dplyr", name))
  }
  where <- tidyselect::vars_select_helpers$where
  x <- stock_of(70)
  p <- partition_scatter(cl, x, parts = 5)

  # The rows of data frames with groups, in any order; of others in their order.
  same <- function(pipe, order = TRUE) {
    want <- suppressMessages(pipe(x))
    got <- dplyr::collect(pipe(p))
    told <- deparse(body(pipe))[1L]
    expect_identical(dplyr::group_vars(got), dplyr::group_vars(want), info = told)
    rows <- function(d) if (order) as.data.frame(d) else sorted_rows(dplyr::ungroup(d))
    expect_equal(rows(got), rows(want), info = told, tolerance = 1e-14)
    types <- function(d) lapply(d, function(column) c(typeof(column), class(column)))
    expect_identical(types(got), types(want), info = told)
  }
  refused <- function(code, text = "whether") {
    expect_error(code, text, class = "muster_error_input")
  }

  test_that("Values of all rows are constants, wherever one may be", {
    same(function(d) mutate(d, z = cut(d, c(min(d) - 1, 0, max(d)))))
    same(function(d) mutate(d, z = findInterval(d, c(mean(d), max(d))), w = i %in% c(min(row), 3)))
    same(function(d) filter(d, i %in% c(min(i, na.rm = TRUE), max(i, na.rm = TRUE))))
    same(function(d) mutate(d, z = ifelse(d > c(max(0, mean(d))), "hi", "lo")))
  })

  test_that("Values of all rows are R's own where they aren't folded", {
    same(function(d) mutate(d, z = d > stats::median(d), w = d / length(row), v = median(i, TRUE)))
    same(function(d) filter(d, d > quantile(d, 0.9)))
    same(function(d) mutate(d, a = sum(cumsum(d)), b = max(rank(d)), e = sum(d[l], na.rm = TRUE)))
    same(function(d) mutate(d, a = cor(d, row), b = prod(row[1:3]), e = IQR(d), g = mad(d)))
    same(function(d) mutate(d, a = weighted.mean(d, row), b = max(nchar(s), na.rm = TRUE)))
    same(function(d) mutate(d, a = max(sapply(1:3, function(i) sum(d > i - 2)))))
    same(function(d) filter(d, d == max(d[f == "u"])))
    same(function(d) arrange(d, abs(d - median(d)), row))
    same(function(d) summarise(group_by(d, big = d > median(d)), n = n()), FALSE)
    # Of what was made before, however that is named.
    same(function(d) mutate(d, d = d * 2, a = max(rev(d)), k = d + 1, b = sum(rev(k)) - sum(k)))
    same(function(d) mutate(d, d = d * 2, z = max(get("d") + row)))
    same(function(d) mutate(d, z = max(.data[["d"]] - rev(.data$d))))
    # As many random numbers as R draws.
    same(function(d) {
      set.seed(5)
      dplyr::arrange(dplyr::slice_sample(mutate(d, z = d - mean(d)), n = 9), row)
    })
    refused(mutate(p, z = quantile(d, c(0.1, 0.9))), "`quantile\\(d, c\\(0.1, 0.9\\)\\)` must be a")
    refused(mutate(p, z = range(d)[1]))
    median <- function(x) x
    refused(mutate(p, z = median(d)))
    mean <- function(x) 1
    refused(mutate(p, z = mean(d)))
    # What comes after `$` is no variable.
    refused(mutate(p, z = as.POSIXlt(day)$yday), "as.POSIXlt")
  })

  test_that("Missing integer64 are found, with and without package bit64", {
    long <- data.frame(i = 1:6)
    long$v <- int64(1, NA, 0, 2^40, NA, -1)
    q <- partition_scatter(cl, long, parts = 3)
    none <- c(FALSE, TRUE, FALSE, FALSE, TRUE, FALSE)
    expect_identical(dplyr::pull(mutate(q, z = is.na(v)), z), none)
    expect_identical(dplyr::pull(filter(q, !is.na(v)), i), which(!none))
    expect_identical(dplyr::pull(mutate(q, z = ifelse(is.na(v), 0L, i), m = sum(is.na(v))), z),
      ifelse(none, 0L, 1:6))
    expect_equal(dplyr::pull(summarise(q, z = sum(is.na(v))), z), 2)
  })

  test_that("Dates are made of numbers, and stringr's patterns are constants", {
    same(function(d) mutate(d, z = ISOdate(year, i, 3), w = as.numeric(ISOdatetime(year, 1, i,
      0, 0, 0, tz = "UTC"))))
    skip_if_not(has_stringr, "stringr isn't installed")
    for (name in c("str_detect", "str_count", "str_replace_all", "fixed", "regex", "coll")) {
      assign(name, getExportedValue("stringr", name))
    }
    any_case <- regex("b", ignore_case = TRUE)
    same(function(d) mutate(d, z = str_detect(s, fixed(".")), w = str_count(s, any_case)))
    same(function(d) mutate(d, z = str_replace_all(s, fixed("."), "_")))
    same(function(d) mutate(d, z = str_detect(s, coll("B"))))
    same(function(d) filter(d, str_detect(s, regex(paste0("^", "A"), ignore_case = TRUE))))
    two <- fixed(c("a", "b"))
    refused(mutate(p, z = str_detect(s, two)))
    refused(mutate(p, z = str_detect(s, fixed(f))))
    fixed <- function(x) rev(x)
    refused(mutate(p, z = str_detect(s, fixed("a"))), "whether|for each row")
  })

  test_that("arrange() takes functions of several columns, and desc() of desc()", {
    same(function(d) arrange(d, across(c(f, d), ~ desc(.x)), row))
    same(function(d) arrange(d, across(c(total, d), list(~ -.x, ~ .x)), row))
    same(function(d) arrange(d, across(c(i, d), abs), row))
    # dplyr 1.0 itself forgets keys that follow such an across().
    by_two <- dplyr::collect(arrange(p, across(c(i, total), function(v) v * -2), desc(row)))
    expect_identical(by_two, arrange(x, i * -2, total * -2, desc(row)))
    same(function(d) arrange(d, across(where(is.numeric), desc)))
    same(function(d) arrange(group_by(d, f), across(c(f, row), desc)))
    same(function(d) arrange(d, desc(desc(i)), row))
    same(function(d) arrange(d, desc(desc(desc(i))), row))
  })

  test_that("A count may have the name of its group", {
    same(function(d) dplyr::count(d, total, name = "total"), FALSE)
    same(function(d) dplyr::count(d, total, f, name = "total", sort = TRUE))
    same(function(d) dplyr::count(d, f, total, wt = row, name = "total", sort = TRUE))
    same(function(d) dplyr::count(d, total, wt = total, name = "total"), FALSE)
    same(function(d) dplyr::count(group_by(d, total), f, name = "total"), FALSE)
    same(function(d) dplyr::tally(group_by(d, total, f), name = "total"), FALSE)
    same(function(d) dplyr::add_count(d, f, total, wt = row, name = "total"), FALSE)
    same(function(d) dplyr::add_count(d, total, name = "total", sort = TRUE))
    same(function(d) dplyr::add_count(group_by(d, total), name = "total"), FALSE)
    # And is no group any more.
    same(function(d) {
      d <- dplyr::count(group_by(d, total), f, name = "total")
      summarise(d, k = n())
    }, FALSE)
  })

  test_that("across() in summarise() chooses from the results before it, too", {
    few <- function(d) group_by(dplyr::select(d, f, total, i, d, s), f)
    numbers <- quote(where(is.numeric))
    same(function(d) few(d) %>% summarise(m = mean(d), across(!!numbers, list(k = sum))), FALSE)
    same(function(d) few(d) %>% summarise(n = n(), across(!!numbers, mean)), FALSE)
    same(function(d) few(d) %>% summarise(d = "a", across(!!numbers, list(k = length))), FALSE)
    same(function(d) {
      few(d) %>% summarise(d = as.character(mean(d)),
        across(where(is.character), list(k = ~ paste(.x, collapse = "!"))))
    }, FALSE)
    same(function(d) few(d) %>% summarise(across(-c(d, s), sum), across(!!numbers, sum)), FALSE)
    same(function(d) {
      few(d) %>% summarise(d = mean(d) * 10, across(c(d, total), sum, .names = "{.col}_s"))
    }, FALSE)
    same(function(d) few(d) %>% summarise(m = 1, across(dplyr::everything(), length)), FALSE)
    same(function(d) {
      few(d) %>% summarise(m = 1, across(dplyr::last_col(), list(k = length)))
    }, FALSE)
    same(function(d) {
      few(d) %>% summarise(across(c(total, d), sum), n = n(), across(c(d, n), list(k = ~ .x + 1)))
    }, FALSE)
    same(function(d) {
      dplyr::ungroup(few(d)) %>% summarise(m = 5, across(!!numbers, list(k = length)))
    })
  })

  test_that("A result takes the place of one of its name, or of a key", {
    same(function(d) summarise(group_by(d, f), d = sum(d), d = d + 1), FALSE)
    same(function(d) summarise(group_by(d, f), f = 1, e = n()), FALSE)
    same(function(d) summarise(group_by(d, f, l), l = 1, e = n()), FALSE)
    same(function(d) summarise(group_by(d, f, l), f = 1, e = n(), .groups = "drop"), FALSE)
    refused(summarise(group_by(p, f), d = sum(d), d = d + 1, e = d), "two columns `d`")
    refused(summarise(group_by(p, f), d = sum(d), d = d + 1, e = get("d")), "two columns `d`")
  })

  test_that("Functions written in across() are code of each column", {
    limit <- 0.5
    same(function(d) mutate(d, across(c(d, row), function(v) v - mean(v))))
    same(function(d) mutate(d, across(c(d, row), list(a = function(v) {
      v / max(v) + total + limit
    }, b = abs))))
    same(function(d) filter(d, dplyr::if_any(c(d, row), function(v) v > limit)))
    same(function(d) summarise(group_by(d, f), across(c(d, row), function(v) sum(v) / n())), FALSE)
    same(function(d) {
      summarise(group_by(d, f), across(c(d, row), function(v) {
        a <- sum(v)
        a * 2
      }))
    }, FALSE)
    same(function(d) summarise(group_by(d, f), across(d, function(v) nchar(deparse(v)[1]))), FALSE)
    refused(summarise(group_by(p, f), across(d, function(s) max(.data$s))), "another name")
    same(function(d) summarise(group_by(d, f), across(d, function(max) max(max))), FALSE)
    refused(mutate(p, across(d, function(v, k = 2) v * k)))
  })

  test_that("Code of columns may be handed on, where functions are the same", {
    scaled <- function(d, v) mutate(d, z = {{ v }} * 2, w = mean({{ v }}))
    same(function(d) scaled(d, d + row))
    same(function(d) arrange(scaled(group_by(d, f), d + row), row))
    abs <- function(x) 0
    refused(scaled(p, abs(d) + 1), "whether")
    deep <- function(d, v) {
      abs <- base::abs
      mutate(d, w = 1 + {{ v }})
    }
    refused(deep(p, abs(d)), "inside of other code")
  })
})
