env <- c(NSLOTS = "3", PBS_NUM_PPN = "abc", SLURM_CPUS_PER_TASK = "5")
methods <- c("Slurm", "SGE", "PBS", "LSF")

test_that("a report has a row for each source, with its reason", {
  with_cores_settings(env = env, {
    report <- suppressWarnings(cores_report(methods = methods))
    expect_s3_class(report, c("muster_cores_report", "data.frame"), exact = TRUE)
    expect_identical(names(report), c("source", "value", "reason"))
    expect_identical(report$source, methods)
    expect_identical(report$value, c(5L, 3L, NA, NA))
    expect_identical(report$reason[1:2], c("SLURM_CPUS_PER_TASK=\"5\"", "NSLOTS=\"3\""))
    expect_identical(attr(report, "decided"), c(SGE = 3L))
  })
})

test_that("by default all sources are asked, and all have a reason", {
  report <- with_cores_settings(cores_report())
  expect_identical(report$source, eval(formals(availableCores)$methods, asNamespace("muster")))
  expect_true(all(nzchar(report$reason)))
  cores <- with_cores_settings(availableCores(which = "all"))
  expect_identical(report$value[!is.na(report$value)], unname(cores))
})

test_that("arguments are those of availableCores()", {
  with_cores_settings(env = env, {
    expect_identical(attr(cores_report(methods = "SGE", omit = 1), "decided"), c(SGE = 2L))
    expect_identical(cores_report("connections-5", "SGE")$source, c("SGE", "connections-5"))
  })
  expect_error(cores_report(which = "all"), class = "muster_error_input")
  expect_error(cores_report(na.rm = FALSE), class = "muster_error_input")
  expect_error(cores_report(omit = -1), class = "muster_error_input")
})

test_that("a printed report marks the source that decided", {
  with_cores_settings(env = env, {
    report <- suppressWarnings(cores_report(methods = methods))
    expect_snapshot(print(report))
  })
  expect_snapshot(print(with_cores_settings(cores_report(methods = "LSF"))))
  printed <- utils::capture.output(print(report[, c("source", "value")]))
  expect_gt(length(printed), 1L)
})
