# Units of time differences are the column's: what R chooses for some rows, groups or parts is
# converted as dplyr does for all rows, or refused.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)

start <- as.POSIXct("2026-03-01 08:00:00", tz = "UTC")

# Groups of one size, which take seconds, minutes, hours or days.
jobs <- data.frame(
  job = rep(1:6, each = 2), row = 1:12,
  at = start + c(0, 21, 0, 97, 0, 7200, 0, 259200, 0, 240, 0, 10800)
)

in_jobs_order <- function(x) {
  x <- as.data.frame(x)
  x <- x[order(x$job), , drop = FALSE]
  row.names(x) <- NULL
  x
}

test_that("Code that reads a result's units finds those of all groups, as in dplyr", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  `%>%` <- dplyr::`%>%`
  cl <- local_cluster(2)
  pipes <- list(
    folded = function(d) {
      d %>% dplyr::group_by(job) %>% dplyr::summarise(
        begin = min(at), end = max(at), took = end - begin, rate = 1e3 / as.numeric(took)
      )
    },
    whole = function(d) {
      d %>% dplyr::group_by(job) %>% dplyr::summarise(
        took = diff(range(at)), n = length(unique(row)), rate = n / as.numeric(took)
      )
    },
    chain = function(d) {
      d %>% dplyr::group_by(job) %>% dplyr::summarise(
        took = diff(range(at)), half = took / 2, rate = as.numeric(half) + 0 * sum(row)
      )
    },
    own = function(d) {
      d %>% dplyr::group_by(job) %>%
        dplyr::summarise(rate = as.numeric(max(at) - min(at)), took = max(at) - min(at))
    },
    mutate = function(d) {
      d %>% dplyr::group_by(job) %>%
        dplyr::mutate(took = max(at) - min(at), rate = as.numeric(took))
    },
    replaced = function(d) {
      d %>% dplyr::group_by(job) %>%
        dplyr::mutate(took = max(at) - min(at), rate = as.numeric(took), took = rate * 2)
    },
    removed = function(d) {
      d %>% dplyr::group_by(job) %>% dplyr::mutate(
        took = max(at) - min(at), rate = as.numeric(took), took = NULL, .keep = "unused"
      )
    },
    across = function(d) {
      d %>% dplyr::group_by(job) %>% dplyr::mutate(dplyr::across(at, ~ max(.x) - min(.x)))
    },
    filter = function(d) {
      d %>% dplyr::group_by(job) %>% dplyr::filter(as.numeric(max(at) - min(at)) > 3)
    },
    rowwise = function(d) {
      d %>% dplyr::rowwise(job) %>% dplyr::mutate(took = at - start, rate = as.numeric(took)) %>%
        dplyr::ungroup()
    },
    by_row = function(d) {
      d %>% dplyr::rowwise(job) %>%
        dplyr::summarise(took = at - start, rate = as.numeric(took), .groups = "drop")
    }
  )
  for (name in names(pipes)) {
    want <- in_jobs_order(dplyr::ungroup(pipes[[name]](jobs)))
    for (parts in c(1, 4, 12)) {
      got <- dplyr::collect(dplyr::ungroup(pipes[[name]](partition_scatter(cl, jobs, parts))))
      expect_equal(in_jobs_order(got), want, tolerance = 1e-15, info = paste(name, parts))
    }
  }
  # What across() makes can't be converted before the next expression reads it.
  bad <- dplyr::group_by(partition_scatter(cl, jobs, 12), job)
  expect_error(dplyr::mutate(bad, dplyr::across(at, ~ max(.x) - min(.x)), rate = as.numeric(at)),
    "units = \"secs\"", class = "muster_error_input"
  )
})

test_that("What is one column has one unit, in whatever verb it comes about", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  cl <- local_cluster(2)
  gap <- c(21, 97, 7200, 259200, 240, 10800, 21, 86400)
  x <- data.frame(k = c(1:4, 1:4), at = start, end = start + gap)
  # Parts of a row each choose their own.
  p <- partition_map(partition_scatter(cl, x, 8), function(d) {
    d$took <- d$end - d$at
    d
  })
  x$took <- as.difftime(gap, units = "secs")
  expect_identical(partition_collect(p), x)
  expect_identical(
    partition_collect(partition_map(p, function(d) data.frame(n = as.numeric(d$took))))$n, gap
  )
  expect_identical(units(head(p, 1)$took), "secs")
  expect_identical(partition_collect(partition_sort(p, "took"))$took, sort(x$took))
  expect_identical(partition_collect(dplyr::filter(p, took > !!x$took[2]))$k, c(3:4, 1:2, 4L))
  expect_identical(
    partition_collect(dplyr::arrange(dplyr::count(p, took), took))$n, c(2L, rep(1L, 6))
  )
  right <- data.frame(took = as.difftime(c(21, 240), units = "secs"), name = c("a", "b"))
  joined <- partition_collect(dplyr::inner_join(p, right, by = "took"))
  expect_identical(sort(joined$name), c("a", "a", "b"))
  sums <- partition_collect(partition_summarise(p, .by = k, all = sum(took), n = n_distinct(took)))
  expect_identical(sums$all[order(sums$k)], as.difftime(gap[1:4] + gap[5:8], units = "secs"))
  # Written and read.
  for (format in c("csv", "rds", if (requireNamespace("nanoparquet", quietly = TRUE)) "parquet")) {
    folder <- tempfile()
    partition_write(p, folder, format)
    expect_equal(as.numeric(partition_collect(partition_read(cl, folder))$took), gap, info = format)
  }
  # Each file's reader, and functions of groups.
  files <- vapply(1:8, function(i) {
    file <- tempfile(fileext = ".rds")
    saveRDS(data.frame(took = x$end[i] - x$at[i]), file)
    file
  }, "")
  expect_identical(partition_collect(partition_read(cl, files))$took, x$took)
  each <- partition_reduce(p, "k", function(d) data.frame(took = max(d$end) - min(d$at)))
  each <- partition_collect(each)
  expect_equal(as.numeric(each$took[order(each$k)]), pmax(gap[1:4], gap[5:8]))
  expect_identical(units(each$took), "secs")
  # One unit stays as it is.
  days <- partition_map(p, function(d) {
    data.frame(took = as.difftime(as.numeric(d$took) / 86400, units = "days"))
  })
  expect_identical(units(partition_collect(days)$took), "days")
  both <- partition_collect(dplyr::union_all(days, dplyr::select(p, took)))
  expect_identical(units(both$took), "secs")
})

test_that("A column without rows has no say in units", {
  none <- as.difftime(numeric(), units = "days")
  some <- as.difftime(c(1, 2), units = "mins")
  expect_identical(bind_columns(list(none, some)), some)
  expect_identical(bind_columns(list(none, none)), none)
  expect_identical(bind_columns(list(NA, some, as.difftime(1, units = "hours"))),
    as.difftime(c(NA, 60, 120, 3600), units = "secs")
  )
  expect_error(bind_columns(list(1, some, as.difftime(1, units = "hours"))), "units",
    class = "muster_part_error"
  )
})

test_that("A difference of times without groups is refused, and the error says what to do", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  p <- partition_scatter(local_cluster(2), jobs, 4)
  for (code in alist(at - start, as.numeric(at - start), difftime(at, start))) {
    expect_error(dplyr::mutate(p, z = !!code), "units = \"secs\"", class = "muster_error_input")
    expect_error(dplyr::filter(p, !!code > 5), "units = \"secs\"", class = "muster_error_input")
  }
  got <- dplyr::mutate(p, z = as.numeric(difftime(at, start, units = "mins")))
  expect_equal(partition_collect(got)$z, as.numeric(difftime(jobs$at, start, units = "mins")))
})
