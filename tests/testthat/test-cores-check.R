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
