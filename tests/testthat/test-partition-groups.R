test_that("Results of groups are bound at once as they are one by one", {
  one_by_one <- function(results, by) {
    frames <- lapply(results, group_frame, by)
    list(values = bind_frames(frames), rows = vapply(frames, frame_rows, 0L))
  }
  day <- as.Date("2026-11-22")
  forms <- list(
    single = list(1, NULL, 3), mixed = list(1L, 2.5), texts = list("a", NA, "b"),
    named_one = list(c(m = 1), c(m = 2)), named = list(c(a = 1, b = 2), NULL, c(a = 3, b = 4)),
    lists = list(list(a = 1L, b = "x"), list(a = 2L, b = NA_character_)),
    types = list(list(a = 1L), list(a = 2.5)), dates = list(list(d = day), list(d = day + 1)),
    date = list(day, day), factors = list(list(f = factor("u")), list(f = factor("v"))),
    with_key = list(list(k = 1, a = 2), list(k = 3, a = 4)),
    frames = list(data.frame(a = 1:2), NULL, data.frame(a = 3L)),
    nothing = list(NULL, NULL), order = list(list(a = 1, b = 2), list(a = 3, b = 4))
  )
  for (form in names(forms)) {
    got <- bind_results(forms[[form]], "k")
    expect_identical(got, one_by_one(forms[[form]], "k"), info = form)
  }
  wrong <- list(list(1:2), list(c(1, 2), c(3, 4)), list(list(a = 1:2)), list(list(1)), list(mean))
  for (results in wrong) {
    expect_error(bind_results(results, "k"), "must return", class = "muster_part_error")
  }
  expect_error(
    bind_results(list(list(a = 1), list(b = 1)), "k"), "different columns",
    class = "muster_part_error"
  )
})

test_that("A function of a group has rows of its own, and keeps them", {
  data <- data.frame(k = c(2, 1, 2, 3, 1), x = c(1, 2, 3, 4, 5), s = letters[1:5])
  groups <- list(data[c(1, 3), ], data[c(2, 5), ], data[4, ])
  for (i in 1:3) rownames(groups[[i]]) <- NULL
  apply_to <- function(fun, args = NULL, x = data) apply_groups(x, "k", fun, args)
  # Kept as it came, not evaluated before the group after it: a promise.
  for (args in list(NULL, list(2))) {
    late <- apply_to(function(g, ...) list(f = list(function() g)), args)
    expect_identical(lapply(late$f, function(f) f()), groups)
  }
  kept <- list()
  apply_to(function(g) {
    kept[[length(kept) + 1L]] <<- g
    g$x[1] <- 0
    NULL
  })
  expect_identical(kept, groups)
  expect_identical(data$x, as.double(1:5))
  expect_identical(apply_to(function(g) as.character(g$s[1]))$value, c("a", "b", "d"))
  # With a column that C code doesn't take.
  data$l <- as.list(1:5)
  got <- apply_to(function(g) list(n = nrow(g), l = list(g$l)), x = data)
  expect_identical(got$l, list(list(1L, 3L), list(2L, 5L), list(4L)))
  # Conditions have the call that they always had.
  error <- tryCatch(apply_to(function(g) stop("no")), error = identity)
  expect_identical(conditionCall(error), quote(fun(x[[i]])))
  code <- apply_to(function(g) paste(deparse(substitute(g)), deparse(sys.call())))
  expect_identical(code$value, rep("x[[i]] fun(x[[i]])", 3))
})

test_that("Results without rows, of other kinds or with attributes aren't taken for others", {
  bind <- function(...) bind_results(list(...), "k")$values
  expect_identical(bind(c(a = 1), c(a = 2L))$a, c(1, 2))
  expect_identical(bind(c(a = 1), list(a = 2L))$a, c(1, 2))
  expect_identical(bind(pairlist(a = 1), pairlist(a = 2))$a, c(1, 2))
  expect_error(bind(list(a = 1, b = 2), list(b = 3, a = 4)), class = "muster_part_error")
  expect_identical(bind(1, NULL, 2L)$value, c(1, 2))
  expect_identical(bind(as.Date("2026-01-01"), as.Date("2026-01-02"))$value,
    as.Date("2026-01-01") + 0:1)
  values <- list(list(1, "a"), list(2, "b"))
  expect_identical(bind_results_of(values, 1L), c(1, 2))
  expect_identical(bind_results_of(c(values, list(NULL)), 2L), c("a", "b", NA))
  expect_identical(bind_results_of(list(list(1L), list(2.5)), 1L), c(1, 2.5))
  expect_identical(bind_results_of(list(list(NA), list("a")), 1L), c(NA, "a"))
  expect_identical(bind_results_of(list(NULL, NULL), 1L), c(NA, NA))
  expect_identical(bind_results_of(list(), 1L), logical())
})
