test_that("option mc.cores counts, and 0 means this process alone", {
  cases <- list(
    list(1L, 1L), list(4, 4L), list(0L, 1L), list(0, 1L), list(2.7, 2L), list(0.5, 1L),
    list("3", 3L), list("0", 1L)
  )
  for (case in cases) {
    expect_silent(count <- with_cores_settings(cores_mc()$count, mc.cores = case[[1L]]))
    expect_identical(count, case[[2L]])
  }
})

test_that("a missing mc.cores is NA", {
  for (value in list(NULL, NA, NA_integer_, NA_character_)) {
    expect_silent(count <- with_cores_settings(cores_mc()$count, mc.cores = value))
    expect_identical(count, NA_integer_)
  }
})

test_that("a bad mc.cores is ignored with a warning", {
  values <- list(-1L, -0.5 - 1, Inf, 1e10, "abc", "-1", "1.5", "", 1:2, integer(), TRUE, list(2), c)
  for (value in values) {
    expect_warning(
      count <- with_cores_settings(cores_mc()$count, mc.cores = value),
      class = "muster_warning_input"
    )
    expect_identical(count, NA_integer_)
  }
})

test_that("MC_CORES is read where the option isn't set", {
  expect_identical(with_cores_settings(cores_mc()$count, c(MC_CORES = "3")), 3L)
  expect_identical(with_cores_settings(cores_mc()$count, c(MC_CORES = "0")), 1L)
  expect_identical(with_cores_settings(cores_mc()$count, c(MC_CORES = "3"), mc.cores = 5L), 5L)
  for (value in c("abc", "-1", "1.5")) {
    expect_warning(
      count <- with_cores_settings(cores_mc()$count, c(MC_CORES = value)),
      class = "muster_warning_input"
    )
    expect_identical(count, NA_integer_)
  }
})

test_that("a blank MC_CORES is as good as none", {
  for (value in c("", " ")) {
    expect_silent(count <- with_cores_settings(cores_mc()$count, c(MC_CORES = value)))
    expect_identical(count, NA_integer_)
  }
})

test_that("mc.cores+1 is one more, also for 0", {
  expect_identical(with_cores_settings(cores_mc(plus = 1L)$count, mc.cores = 3L), 4L)
  expect_identical(with_cores_settings(cores_mc(plus = 1L)$count, mc.cores = 0L), 1L)
  expect_identical(with_cores_settings(cores_mc(plus = 1L)$count), NA_integer_)
})

test_that("the reason names the option or the variable, and its value", {
  expect_identical(with_cores_settings(cores_mc()$reason(), mc.cores = 3L), "option mc.cores = 3")
  expect_identical(
    with_cores_settings(cores_mc()$reason(), c(MC_CORES = "3")),
    "environment variable MC_CORES = \"3\""
  )
})

test_cluster("in a worker availableCores() is the number of its threads", {
  look <- function() {
    before <- options(mc.cores = NULL)
    on.exit(options(before))
    none <- muster::availableCores(methods = c("system", "mc.cores"))
    options(mc.cores = 3L)
    c(none, muster::availableCores(methods = "mc.cores"))
  }
  local_variables(MC_CORES = NA)
  for (threads in 1:2) {
    cl <- local_cluster(1, threads = threads)
    expected <- min(threads, parallel::detectCores())
    expect_identical(unname(clusterCall(cl, look)[[1L]]), c(expected, 3L))
  }
  expect_identical(with_cores_settings(cores_mc()$count, mc.cores = NULL), NA_integer_)
})

set <- function(name, value) stats::setNames(value, name)

limit_values <- c(
  "TRUE", "true", "warn", "WARN", "1", "0", "no", "FALSE", "false", "False", "", " "
)

test_that("_R_CHECK_LIMIT_CORES_ limits to 2 exactly where R's own check does", {
  check <- get(".check_ncores", asNamespace("parallel"))
  for (value in limit_values) {
    with_cores_settings(env = set("_R_CHECK_LIMIT_CORES_", value), {
      complains <- tryCatch(!is.null(check(3L)), error = is.list, warning = is.list)
      expect_identical(cores_check_limit()$count, if (complains) 2L else NA_integer_, info = value)
    })
  }
  expect_identical(with_cores_settings(cores_check_limit()$count), NA_integer_)
})

test_that("bytes that this locale can't read are as good as any value", {
  with_cores_settings(env = c("_R_CHECK_LIMIT_CORES_" = "\xff", BBS_HOME = "\xff"), {
    expect_identical(cores_check_limit()$count, 2L)
    expect_identical(cores_bioconductor()$count, 4L)
    expect_type(cores_check_limit()$reason(), "character")
  })
})

test_that("BIOCPARALLEL_WORKER_NUMBER counts", {
  expect_identical(with_cores_settings(cores_biocparallel()$count), NA_integer_)
  env <- c(BIOCPARALLEL_WORKER_NUMBER = "3")
  expect_identical(with_cores_settings(cores_biocparallel()$count, env), 3L)
})

test_that("Bioconductor's build machines allow 4", {
  cases <- list(
    list(character(), NA), list(c(IS_BIOC_BUILD_MACHINE = "true"), 4L),
    list(c(IS_BIOC_BUILD_MACHINE = "TRUE"), 4L), list(c(IS_BIOC_BUILD_MACHINE = "false"), NA),
    list(c(IS_BIOC_BUILD_MACHINE = "x"), NA), list(c(BBS_HOME = "true"), 4L),
    list(c(BBS_HOME = "/home/biocbuild/BBS"), 4L), list(c(BBS_HOME = "false"), NA),
    list(c(BBS_HOME = ""), NA), list(c(IS_BIOC_BUILD_MACHINE = "false", BBS_HOME = "/x"), 4L)
  )
  for (case in cases) {
    count <- with_cores_settings(cores_bioconductor()$count, case[[1L]])
    expect_identical(count, as.integer(case[[2L]]), info = case[[1L]])
  }
})
