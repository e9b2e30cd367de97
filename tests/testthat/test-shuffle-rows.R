test_that("A part without rows may lack columns; one with rows may not", {
  some <- data.frame(k = 1:2, v = 3:4)
  keys <- data.frame(k = 1L)[0, , drop = FALSE]
  expect_identical(bind_frames(list(keys, some, empty_frame(), keys)), some)
  expect_identical(bind_frames(list(keys, some[0, ])), some[0, ])
  expect_identical(bind_frames(list(empty_frame(), keys)), keys)
  expect_error(bind_frames(list(some, some[1])), "different columns", class = "muster_part_error")
  other <- data.frame(k = 1L, w = 1)[0, ]
  error <- expect_error(bind_frames(list(other, some), 5:6), class = "muster_part_error")
  expect_match(conditionMessage(error), "5 and 6 have different columns: `k`, `w` and `k`, `v`")
  # Rows without columns aren't dropped without a word.
  bare <- new_frame(stats::setNames(list(), character()), 3L)
  expect_error(bind_frames(list(bare, some)), "different columns", class = "muster_part_error")
  expect_identical(dim(bind_frames(list(bare, bare))), c(6L, 0L))
})

test_that("Two columns of one name are no key, and I() stays", {
  twice <- new_frame(list(k = 1:2, k = 3:4), 2L)
  expect_error(key_columns(twice, "k"), "two columns `k`", class = "muster_part_error")
  expect_error(key_columns(twice, "q"), "no column `q`", class = "muster_part_error")
  lists <- I(list(1, "a"))
  expect_identical(bind_columns(list(lists, lists)), I(c(unclass(lists), unclass(lists))))
  expect_identical(bind_columns(list(I(1:2), I(3L))), I(1:3))
})
