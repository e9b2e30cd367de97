custom <- function(value) {
  with_cores_settings(
    availableCores(methods = c("custom", "SGE"), which = "all"), c(NSLOTS = "9"),
    options = list(muster.availableCores.custom = value)
  )
}

test_that("a custom function's number is cut to a whole one, and NA is no answer", {
  expect_identical(custom(function() 3L), c(custom = 3L, SGE = 9L))
  expect_identical(custom(function() 3.9), c(custom = 3L, SGE = 9L))
  expect_identical(custom(function() "4"), c(custom = 4L, SGE = 9L))
  expect_identical(custom(function() NA), c(SGE = 9L))
  expect_identical(custom("no function"), c(SGE = 9L))
})

test_that("a custom function may count cores, whichever prefix the option has", {
  half <- function() 0.5 * availableCores(methods = c("custom", "SGE"))
  for (prefix in c("muster", "parallelly", "future")) {
    options <- stats::setNames(list(half), paste0(prefix, ".availableCores.custom"))
    with_cores_settings(env = c(NSLOTS = "9"), options = options, {
      expect_identical(availableCores(methods = "custom"), c(custom = 4L))
      expect_identical(getOption(names(options)), half)
    })
  }
})

test_that("a custom function that fails leaves its option as it was", {
  fails <- function() stop("mine")
  with_cores_settings(options = list(muster.availableCores.custom = fails), {
    expect_error(availableCores(methods = "custom"), "mine")
    expect_identical(getOption("muster.availableCores.custom"), fails)
  })
})

test_that("what no number from 1 up can be made of is an error that names the option", {
  for (value in list(0, -1, 1:2, integer(), "x", TRUE, NULL, list(1), mean)) {
    error <- expect_error(custom(function() value), class = "muster_error_input")
    expect_match(conditionMessage(error), "availableCores.custom", fixed = TRUE)
  }
})

test_that("a fallback that can't be used is ignored with a warning", {
  for (value in list(0L, "x", 1:2)) {
    options <- list(muster.availableCores.fallback = value)
    with_cores_settings(options = options, {
      expect_warning(count <- availableCores(methods = "fallback"), class = "muster_warning_input")
      expect_identical(count, c(current = 1L))
    })
  }
})

test_that("any other method is an option, or else a variable", {
  with_cores_settings(env = c(MUSTER_TEST_ANY = "9"), {
    expect_identical(availableCores(methods = "MUSTER_TEST_ANY"), c(MUSTER_TEST_ANY = 9L))
    expect_identical(availableCores(methods = "no such method"), c(current = 1L))
    expect_identical(availableCores(methods = "a=b"), c(current = 1L))
  })
  with_cores_settings(env = c(MUSTER_TEST_ANY = "9"), options = list(MUSTER_TEST_ANY = 4.5), {
    expect_identical(availableCores(methods = "MUSTER_TEST_ANY"), c(MUSTER_TEST_ANY = 4L))
  })
})
