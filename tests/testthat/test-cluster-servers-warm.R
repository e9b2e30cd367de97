# A fork server that has started a few workers warms up later: not while these compute.

test_that("W: a fork server warms up once a core is idle, or after a while", {
  warms <- function(idle, looks = 1L) warms_now(c(time = 0.25, idle = idle), looks)
  expect_false(warms(0)) # the workers and the session take all cores
  expect_false(warms(0.2))
  expect_true(warms(0.25))
  expect_true(warms(4)) # a machine with many cores
  expect_false(warms(0, 20L))
  expect_true(warms(0, 21L))
  expect_true(warms_now(NULL, 1L)) # the system doesn't tell
})

test_that("W: idle processor time is counted in seconds", {
  skip_without_proc()
  before <- idle_seconds()
  wait_until(idle_seconds()[["time"]] > before[["time"]] + 0.1)
  passed <- idle_seconds() - before
  cores <- parallel::detectCores()
  expect_gte(passed[["idle"]], 0)
  expect_lt(passed[["idle"]], cores * (passed[["time"]] + 0.1)) # it is counted in ticks
})
