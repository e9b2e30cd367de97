schedulers <- c(Slurm = "SLURM_CPUS_PER_TASK", SGE = "NSLOTS", PBS = "PBS_NUM_PPN")

set <- function(name, value) stats::setNames(value, name)

test_that("a scheduler that says nothing is NA", {
  for (method in names(schedulers)) {
    expect_silent(count <- with_cores_settings(cores_scheduler(method)))
    expect_identical(count, NA_integer_)
  }
})

test_that("a scheduler's whole number counts", {
  for (method in names(schedulers)) {
    for (value in c("1", "4", " 6 ", "008", "128")) {
      expect_silent(
        count <- with_cores_settings(cores_scheduler(method), set(schedulers[[method]], value))
      )
      expect_identical(count, as.integer(value))
    }
  }
})

bad <- c("abc", "-1", "0", "1.5", "", " ", "NA", "4x", "1e3", "0x10", "99999999999", "4,4", "\xff")

test_that("a scheduler's bad value is ignored with a warning", {
  for (method in names(schedulers)) {
    for (value in bad) {
      expect_warning(
        count <- with_cores_settings(cores_scheduler(method), set(schedulers[[method]], value)),
        class = "muster_warning_input"
      )
      expect_identical(count, NA_integer_)
    }
  }
})

test_that("the warning names the variable and its value", {
  caught <- tryCatch(
    with_cores_settings(cores_scheduler("SGE"), c(NSLOTS = "abc")),
    muster_warning_input = identity
  )
  expect_match(conditionMessage(caught), "`NSLOTS` must be a whole number from 1 up, not \"abc\"")
  expect_identical(caught$value, "abc")
})

test_that("a bad value is warned of once, another one anew", {
  with_cores_settings({
    Sys.setenv(NSLOTS = "abc")
    expect_warning(cores_scheduler("SGE"), class = "muster_warning_input")
    expect_silent(cores_scheduler("SGE"))
    Sys.setenv(NSLOTS = "-1", PBS_NUM_PPN = "abc")
    expect_warning(cores_scheduler("SGE"), class = "muster_warning_input")
    expect_warning(cores_scheduler("PBS"), class = "muster_warning_input")
    Sys.setenv(NSLOTS = "abc")
    expect_silent(cores_scheduler("SGE"))
  })
})

test_that("a very long bad value is warned of in few words", {
  long <- strrep("x", 50000L)
  caught <- tryCatch(
    with_cores_settings(cores_scheduler("SGE"), c(NSLOTS = long)),
    muster_warning_input = identity
  )
  expect_s3_class(caught, "muster_warning_input")
  expect_lt(nchar(conditionMessage(caught)), 500L)
})

test_that("option mc.cores counts, and 0 means this process alone", {
  cases <- list(
    list(1L, 1L), list(4, 4L), list(0L, 1L), list(0, 1L), list(2.7, 2L), list(0.5, 1L),
    list("3", 3L), list("0", 1L)
  )
  for (case in cases) {
    expect_silent(count <- with_cores_settings(cores_mc(), mc.cores = case[[1L]]))
    expect_identical(count, case[[2L]])
  }
})

test_that("a missing mc.cores is NA", {
  for (value in list(NULL, NA, NA_integer_, NA_character_)) {
    expect_silent(count <- with_cores_settings(cores_mc(), mc.cores = value))
    expect_identical(count, NA_integer_)
  }
})

test_that("a bad mc.cores is ignored with a warning", {
  values <- list(-1L, -0.5 - 1, Inf, 1e10, "abc", "-1", "1.5", "", 1:2, integer(), TRUE, list(2), c)
  for (value in values) {
    expect_warning(
      count <- with_cores_settings(cores_mc(), mc.cores = value),
      class = "muster_warning_input"
    )
    expect_identical(count, NA_integer_)
  }
})

test_that("MC_CORES is read where the option isn't set", {
  expect_identical(with_cores_settings(cores_mc(), c(MC_CORES = "3")), 3L)
  expect_identical(with_cores_settings(cores_mc(), c(MC_CORES = "0")), 1L)
  expect_identical(with_cores_settings(cores_mc(), c(MC_CORES = "3"), mc.cores = 5L), 5L)
  for (value in c("abc", "-1", "1.5", "")) {
    expect_warning(
      count <- with_cores_settings(cores_mc(), c(MC_CORES = value)),
      class = "muster_warning_input"
    )
    expect_identical(count, NA_integer_)
  }
})

limit_values <- c(
  "TRUE", "true", "warn", "WARN", "1", "0", "no", "FALSE", "false", "False", "", " "
)

test_that("_R_CHECK_LIMIT_CORES_ limits to 2 exactly where R's own check does", {
  check <- get(".check_ncores", asNamespace("parallel"))
  for (value in limit_values) {
    with_cores_settings(env = set("_R_CHECK_LIMIT_CORES_", value), {
      complains <- tryCatch(!is.null(check(3L)), error = is.list, warning = is.list)
      expect_identical(cores_check_limit(), if (complains) 2L else NA_integer_, info = value)
    })
  }
  expect_identical(with_cores_settings(cores_check_limit()), NA_integer_)
})

# parallelly answers c(current = 1L) where a source says nothing, as availableCores() does.
expect_as_parallelly <- function(method, env = character(), mc.cores = NULL) {
  with_cores_settings(env = env, mc.cores = mc.cores, {
    expected <- cores_oracle()(methods = method)
    expect_identical(suppressWarnings(availableCores(method)), expected, info = c(env, mc.cores))
  })
}

test_that("schedulers' good values count as in parallelly", {
  for (method in names(schedulers)) {
    for (value in c("1", "4", " 6 ", "008", "128", "")) {
      expect_as_parallelly(method, set(schedulers[[method]], value))
    }
    expect_as_parallelly(method)
  }
})

test_that("mc.cores counts as in parallelly", {
  for (value in list(NULL, 0L, 0, 1L, 4, 2.7, 0.5, "3", NA_integer_)) {
    expect_as_parallelly("mc.cores", mc.cores = value)
  }
})

test_that("_R_CHECK_LIMIT_CORES_ counts as in parallelly", {
  for (value in limit_values) {
    expect_as_parallelly("_R_CHECK_LIMIT_CORES_", set("_R_CHECK_LIMIT_CORES_", value))
  }
})
