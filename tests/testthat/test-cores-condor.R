condor <- function(lines) {
  path <- tempfile("cores-condor-")
  on.exit(unlink(path))
  writeLines(lines, path)
  with_cores_settings(cores_condor(), c("_CONDOR_MACHINE_AD" = path))
}

test_that("the slot's CPUs count", {
  answer <- condor(c("DetectedCpus = 64", "Cpus = 4", "TotalCpus = 64.0"))
  expect_identical(answer$count, 4L)
  expect_match(answer$reason(), "\"Cpus = 4\" in ", fixed = TRUE)
})

test_that("a description that doesn't tell is silent", {
  wrong <- list(
    character(), "Memory = 3", "Cpus = 0", "Cpus = undefined", c("Cpus = 1", "Cpus = 2")
  )
  for (lines in wrong) {
    expect_identical(condor(lines)$count, NA_integer_)
  }
  missing <- with_cores_settings(cores_condor()$count, c("_CONDOR_MACHINE_AD" = "/nowhere/at/all"))
  expect_identical(missing, NA_integer_)
  expect_identical(with_cores_settings(cores_condor()$count), NA_integer_)
})

test_that("it is asked by default", {
  path <- tempfile("cores-condor-")
  on.exit(unlink(path))
  writeLines("Cpus = 1", path)
  cores <- with_cores_settings(availableCores(which = "all"), c("_CONDOR_MACHINE_AD" = path))
  expect_identical(cores[["HTCondor"]], 1L)
})
