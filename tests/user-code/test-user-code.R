# Code of the user's, anywhere: deeds (deeds.R) at places (places.R) in verbs (verbs.R). The rule
# that each cell of this matrix keeps is in cells.R.

hooks <- hooks_library()

test_that("what is looked at before it is sent may do anything", {
  expect_cells(c("promise", "binding", "element"))
})

test_that("classes of vectors may do anything where they are sent", {
  skip_if_not(nzchar(hooks), "no C compiler here")
  expect_cells(c("length", "pointer", "state"), hooks)
})

test_that("handlers of conditions may do anything", {
  expect_cells(c("message", "warning", "restarted", "stream", "again"))
})

test_that("handlers of errors may do anything, and what is run when they have left a function", {
  expect_cells(c("failed", "lost", "left_failed"))
})

test_that("an interrupt's handler may do anything, and what is run when it has left a function", {
  expect_cells(c("interrupt", "left_interrupt"))
})

test_that("a time limit's handler may do anything, and what is run when it has left a function", {
  expect_cells(c("limit", "left_limit"))
})

test_that("finalizers may do anything", {
  expect_cells(c("collected", "evaluated"))
})
