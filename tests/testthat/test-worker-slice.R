# slice_head() and the like for all groups at once: dplyr's rows in dplyr's order, whatever the
# keys, values, ties and arguments.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)

sliced_table <- function(n) {
  pick <- function(x) x[sample.int(length(x), n, TRUE)]
  columns <- list(
    i = pick(c(1:6, NA, -7L)), d = pick(c(0, -0, 1.5, 2:4, NA)), s = pick(c("b", "a", NA, "B")),
    f = factor(pick(c("b", "a", NA)), levels = c("unused", "b", "a")),
    o = factor(pick(c("lo", "hi", NA)), c("lo", "mid", "hi"), ordered = TRUE),
    D = pick(as.Date("2020-02-28") + c(0:2, NA)), l = pick(c(TRUE, FALSE, NA)),
    nan = pick(c(NaN, NA, 1, 2)), t = as.difftime(pick(c(1, 2.5, NA)), units = "mins")
  )
  columns$list <- pick(list(1:2, "a", NULL))
  new_frame(c(columns, list(row = seq_len(n))), n)
}

sliced_arguments <- function(verb) {
  ranks <- verb %in% c("slice_min", "slice_max")
  args <- list()
  if (ranks) args$order_by <- as.name(sample(c("i", "d", "s", "f", "o", "D", "l", "nan", "t"), 1L))
  size <- sample(c("n", "prop", "none"), 1L, prob = c(3, 2, 1))
  few <- if (verb == "slice_sample") 1 else c(1, 2, 3, 50, -1, -4)
  share <- if (verb == "slice_sample") c(0.5, 1) else c(0.3, 0.5, 1, 0.01, -0.4)
  if (size == "n") args$n <- sample(few, 1L)
  if (size == "prop") args$prop <- share[sample.int(length(share), 1L)]
  if (ranks && runif(1) < 0.5) args$with_ties <- sample(c(TRUE, FALSE), 1L)
  args
}
slices <- c("slice_head", "slice_tail", "slice_min", "slice_max", "slice_sample")

test_that("all groups at once have the rows that dplyr gives one group after the other", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  at_once <- 0L
  for (seed in 1:400) {
    local_seed(seed)
    part <- sliced_table(sample(c(1L, 7L, 80L), 1L))
    by <- sample(c("i", "d", "s", "f", "o", "D", "l", "nan"), sample.int(2L, 1L))
    verb <- sample(slices, 1L)
    args <- sliced_arguments(verb)
    funs <- lapply(args, function(code) as.function(list(code), globalenv()))
    exprs <- Map(function(name, code) list(name = name, code = code, env = globalenv()),
      names(args), args, USE.NAMES = FALSE
    )
    step <- list(verb = verb, by = by)
    info <- paste(seed, verb, toString(by), paste(names(args), args, collapse = ", "))
    own <- function(step) {
      set.seed(seed)
      tryCatch(as.list(dplyr_part(part, step, funs)), error = function(e) "an error")
    }
    want <- own(step)
    step$slice <- slice_plan(verb, exprs, names(part))
    got <- own(step)
    expect_identical(lapply(got, identity), lapply(want, identity), info = info)
    set.seed(seed)
    at_once <- at_once + (!is.null(step$slice) && !is.null(sliced_rows(part, step)))
  }
  expect_gt(at_once, 150L)
})

test_that("what versions of dplyr do in other ways, and other code, is left to dplyr", {
  plan <- function(verb, ...) {
    given <- eval(substitute(alist(...)))
    names <- names(given)
    if (is.null(names)) names <- rep("", length(given))
    exprs <- Map(function(name, code) list(name = name, code = code, env = globalenv()), names,
      given
    )
    slice_plan(verb, unname(exprs), c("x", "g"))
  }
  expect_identical(plan("slice_max", x, n = 1 + 2),
    list(verb = "slice_max", n = 3, share = FALSE, ties = TRUE, column = "x")
  )
  expect_identical(plan("slice_head", prop = 0.5)[c("n", "share")], list(n = 0.5, share = TRUE))
  expect_identical(plan("slice_head")$n, 1)
  expect_null(plan("slice_max", -x))
  expect_null(plan("slice_max", y))
  expect_null(plan("slice_max", x, n = 0))
  expect_null(plan("slice_max", x, n = 1.5))
  expect_null(plan("slice_max", x, n = x))
  expect_null(plan("slice_max", x, n = -1, with_ties = FALSE))
  expect_null(plan("slice_max", x, n = 1, prop = 1))
  expect_null(plan("slice_max", x, na_rm = TRUE))
  expect_null(plan("slice_max"))
  expect_null(plan("slice_sample", n = -1))
  expect_null(plan("slice_sample", n = 1, replace = TRUE))
  expect_null(plan("slice_sample", n = 1, weight_by = x))
  expect_null(plan("slice_head", 2))
  expect_null(plan("slice_head", n = stop("no")))
  expect_null(plan("mutate", n = 1))
})

test_cluster("slices of groups are dplyr's for any number of parts, also without rows", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  local_seed(4)
  x <- sliced_table(300L)
  for (parts in c(1L, 4L, 12L)) {
    p <- dplyr::filter(partition_scatter(cl, x, parts = parts), row < 90L | row > 220L)
    rows <- dplyr::filter(x, row < 90L | row > 220L)
    for (verb in setdiff(slices, "slice_sample")) {
      for (by in list("i", "i", "i", "s", c("s", "f"), "D", "nan")) {
        args <- sliced_arguments(verb)
        own <- function(data) {
          groups <- dplyr::group_by(data, !!!lapply(by, as.name))
          code <- as.call(c(getExportedValue("dplyr", verb), quote(groups), args))
          as.data.frame(dplyr::collect(eval(code)))
        }
        got <- own(p)
        want <- own(rows)
        # Groups come by part; each one's rows as dplyr has them.
        key <- function(d) do.call(paste, d[by])
        expect_identical(
          split(got$row, key(got)), split(want$row, key(want)),
          info = paste(parts, verb, paste(names(args), args, collapse = ", "))
        )
      }
    }
    sampled <- dplyr::slice_sample(dplyr::group_by(p, i), n = 1)
    expect_identical(nrow(sampled), length(unique(rows$i)))
  }
})

test_that("rows that can't lead are left out, and no others", {
  leading <- function(x, back, most = 2, group = rep(1:2, length.out = length(x))) {
    .Call(ffi_rows_leading, as.integer(group), 2L, as.integer(most), x, back)
  }
  # By group: 5, 1, NA, 1 and 4, 3, NaN, 2.
  x <- c(5, 4, 1, 3, NA, NaN, 1, 2)
  expect_identical(leading(x, FALSE), c(3L, 4L, 7L, 8L))
  expect_identical(leading(x, TRUE), c(1:4, 7L))
  expect_identical(leading(as.integer(x), TRUE), c(1:4, 7L))
  expect_identical(leading(x, FALSE, 1), c(3L, 7L, 8L))
  expect_identical(leading(x, FALSE, 4), 1:8)
  expect_identical(leading(c(-Inf, Inf, 0, -0), FALSE, 1), c(1L, 4L))
  first <- function(back, most) .Call(ffi_rows_leading, c(1L, 1L, 2L, 1L), 2L, most, NULL, back)
  expect_identical(first(FALSE, 1L), c(1L, 3L))
  expect_identical(first(TRUE, 1L), 3:4)
  expect_identical(first(TRUE, 2L), 2:4)
  expect_identical(.Call(ffi_rows_leading, integer(), 0L, 1L, double(), TRUE), integer())
  expect_error(.Call(ffi_rows_leading, 3L, 2L, 1L, NULL, TRUE), "out of range")
  expect_error(.Call(ffi_rows_leading, 1L, 2L, 1L, "a", TRUE), "type")
})
