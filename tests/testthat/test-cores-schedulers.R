slurm <- function(...) with_cores_settings(cores_slurm()$count, c(...))

test_that("CPUs per task go before all others", {
  expect_identical(slurm(
    SLURM_CPUS_PER_TASK = "3", SLURM_CPUS_ON_NODE = "8", SLURM_JOB_NUM_NODES = "2",
    SLURM_TASKS_PER_NODE = "4(x2)"
  ), 3L)
})

test_that("on one node its CPUs count", {
  expect_identical(slurm(SLURM_CPUS_ON_NODE = "8"), 8L)
  expect_identical(slurm(SLURM_CPUS_ON_NODE = "8", SLURM_JOB_NUM_NODES = "1"), 8L)
  expect_identical(slurm(SLURM_CPUS_ON_NODE = "8", SLURM_NNODES = "1"), 8L)
  expect_identical(slurm(SLURM_TASKS_PER_NODE = "4"), NA_integer_)
})

test_that("on several nodes the first one's tasks count", {
  env <- c(SLURM_CPUS_ON_NODE = "8", SLURM_TASKS_PER_NODE = "4(x2),3")
  expect_identical(slurm(env, SLURM_JOB_NUM_NODES = "3"), 4L)
  expect_identical(slurm(env, SLURM_NNODES = "3"), 4L)
  expect_identical(slurm(env[1L], SLURM_NNODES = "3"), NA_integer_)
})

test_that("the reason tells what was read", {
  env <- c(SLURM_TASKS_PER_NODE = "4(x2),3", SLURM_NNODES = "3")
  expect_identical(
    with_cores_settings(cores_slurm()$reason(), env),
    "SLURM_TASKS_PER_NODE=\"4(x2),3\", SLURM_NNODES=\"3\""
  )
})

counts <- function(text) {
  with_cores_settings(slurm_counts(list(name = "SLURM_TASKS_PER_NODE", text = text)))
}

test_that("lists of counts are expanded", {
  expect_identical(counts("1"), 1L)
  expect_identical(counts("1,3"), c(1L, 3L))
  expect_identical(counts("1, 3"), c(1L, 3L))
  expect_identical(counts("2(x3)"), c(2L, 2L, 2L))
  expect_identical(counts("2(x3),3,4(x1)"), c(2L, 2L, 2L, 3L, 4L))
  expect_identical(counts("1,,3,"), c(1L, 3L))
})

test_that("what isn't a list of counts is ignored with a warning", {
  wrong <- c(
    "abc", "-1", "0", "2(x", "2(x3", "2(x0)", "2()", "(x3)", "2x3", "1;2", ",", "99999999999",
    "2(x99999999999)", "1(x999999999)", "1.5", "\xff"
  )
  for (text in wrong) {
    expect_warning(count <- counts(text), class = "muster_warning_input")
    expect_null(count)
  }
})

test_that("counts are as parallelly's", {
  expand <- cores_oracle("slurm_expand_nodecounts")
  for (text in c("1", "1,3", "1, 3", "2(x3)", "2(x3),3,4(x1)", "128(x2),1", "007")) {
    expect_identical(counts(text), expand(text), info = text)
  }
})

test_that("random lists of counts are expanded to what they were made of", {
  local_seed(20)
  for (i in 1:50) {
    runs <- rle(sample(1:3, sample(1:20, 1L), replace = TRUE))
    items <- ifelse(runs$lengths == 1L & runif(length(runs$lengths)) < 0.5, runs$values,
      sprintf("%d(x%d)", runs$values, runs$lengths)
    )
    expect_identical(counts(paste(items, collapse = ",")), inverse.rle(runs))
  }
})

condor <- function(lines) {
  path <- tempfile("cores-schedulers-")
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
  path <- tempfile("cores-schedulers-")
  on.exit(unlink(path))
  writeLines("Cpus = 1", path)
  cores <- with_cores_settings(availableCores(which = "all"), c("_CONDOR_MACHINE_AD" = path))
  expect_identical(cores[["HTCondor"]], 1L)
})
