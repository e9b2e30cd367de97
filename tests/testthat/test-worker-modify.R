# group_modify() with all results bound at once: dplyr's rows, columns and types.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)

test_that("a part's groups are modified as dplyr does", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  local_seed(2)
  x <- data.frame(
    i = sample(c(1:5, NA), 60, TRUE), s = sample(c("b", "a", NA), 60, TRUE),
    f = factor(sample(c("u", "v", NA), 60, TRUE), levels = c("v", "none", "u")), v = 1:60
  )
  x$l <- as.list(x$v)
  x$d <- c(0, -0, NaN, NA)[sample.int(4L, 60, TRUE)]
  # Tibbles and keys are what functions see.
  see <- function(d, key) {
    data.frame(rows = nrow(d), type = class(d)[1L], of = paste(names(d), collapse = " "),
      key = paste(class(key)[1L], nrow(key), paste(vapply(key, format, ""), collapse = " ")),
      names = paste(row.names(d), collapse = " ")
    )
  }
  some <- function(d, key) {
    if (nrow(d) > 9L) d[0, "v"] else data.frame(v = d$v[1:2], w = I(d$l[1:2]))
  }
  types <- function(d, key) data.frame(t = if (nrow(d) %% 2L) nrow(d) else NA)
  named <- function(d, key) d["v"] * 2
  other <- function(d, key) if (nrow(d) > 10L) data.frame(a = 1) else data.frame(b = factor("x"))
  packed <- function(d, key) dplyr::tibble(p = d[1L, "v"], q = list(d))
  none <- function(d, key) data.frame(row.names = seq_len(2L))
  odd <- function(d, key) structure(list(1, 2), names = c("a", "a"), class = "data.frame",
    row.names = 1L)
  more <- function(d, key, n, ...) utils::head(d["v"], n)
  for (by in list("i", "s", c("f", "i"), "d", c("s", "d"))) {
    for (fun in list(see, some, types, named, other, packed, none, odd)) {
      for (keep in if (identical(fun, see)) c(TRUE, FALSE) else FALSE) {
        groups <- dplyr::group_by(x, !!!lapply(by, as.name))
        quietly <- function(code) suppressMessages(as.list(plain_frame(dplyr::ungroup(code))))
        want <- quietly(dplyr::group_modify(groups, fun, .keep = keep))
        got <- quietly(modified_groups(groups, fun, .keep = keep))
        info <- paste(toString(by), deparse(body(fun))[1L])
        expect_identical(lapply(got, identity), lapply(want, identity), info = info)
      }
    }
    want <- dplyr::ungroup(dplyr::group_modify(groups, more, n = 2L))
    expect_identical(as.list(modified_groups(groups, more, n = 2L)), as.list(want))
  }
  expect_error(modified_groups(groups, function(d, key) 1), "must be a data frame, not 1")
  expect_error(modified_groups(groups, function(d, key) data.frame(s = 1)), "column `s`")
  expect_error(modified_groups(groups, function(d) d), "two arguments")
})
