# The guard that all tests of clusters stand under must itself see each kind of leak.
expect_leak <- function(code, kind) {
  frame <- parent.frame()
  guarded <- bquote(expect_no_leaks(.(substitute(code)), timeout_s = 0.2))
  testthat::expect_failure(eval(guarded, frame), kind)
}

test_that("the guard is silent where nothing leaks, and gives the value", {
  value <- expect_no_leaks({
    cl <- local_cluster(1)
    clusterCall(cl, function() "value")
  })
  expect_identical(value, list("value"))
})

test_that("the guard sees a cluster that wasn't stopped", {
  skip_without_proc()
  leaked <- NULL
  expect_leak(leaked <<- cluster_start(1), "processes: [0-9]+")
  cluster_stop(leaked)
  # On another host the files are there.
  files <- if (behind_link()) "" else ".*temporary files: muster/"
  expect_leak(leaked <<- cluster_start(1), paste0("descriptors: .*socket", files))
  cluster_stop(leaked)
})

test_that("the guard sees a child of the session, and a zombie", {
  skip_without_proc()
  skip_without_fork()
  leaked <- NULL
  # It computes until it is killed.
  expect_leak(leaked <<- parallel::mcparallel(repeat NULL), "processes: [0-9]+")
  tools::pskill(leaked$pid, 9L)
  suppressWarnings(parallel::mccollect(leaked))
})

test_that("a pid that is used again is another process", {
  skip_without_proc()
  here <- processes(Sys.getpid())
  expect_true(still_exists(here))
  expect_true(still_runs(here))
  expect_identical(process_pids(here), Sys.getpid())
  # What had this pid began at another time, or was gone when it was asked for.
  for (began in c("0", NA)) expect_false(still_exists(paste(Sys.getpid(), began)))
})

test_that("the guard sees open files and connections", {
  skip_without_proc()
  file <- tempfile("leak-")
  leaked <- NULL
  expect_leak(leaked <<- file(file, "w"), "descriptors: .*connections: .*leak-.*files: leak-")
  close(leaked)
  unlink(file)
})

test_that("the guard sees options, variables, globals, the seed, the directory, packages", {
  expect_leak(options(muster.leak = 1), "options: muster.leak = 1")
  options(muster.leak = NULL)
  expect_leak(options(digits = 5L), "options: digits = 5L")
  options(digits = 7L)
  Sys.setenv(MUSTER_LEAK = "a")
  expect_leak(Sys.setenv(MUSTER_LEAK = "b"), "environment variables: MUSTER_LEAK")
  expect_leak(Sys.unsetenv("MUSTER_LEAK"), "environment variables before: MUSTER_LEAK")
  expect_leak(assign("muster_leak", 1, envir = globalenv()), "globals: muster_leak")
  rm("muster_leak", envir = globalenv())
  local_seed(1)
  expect_leak(stats::runif(1), "random seed")
  expect_leak(RNGkind("L'Ecuyer-CMRG"), "generators: L'Ecuyer-CMRG")
  before <- getwd()
  expect_leak(setwd(tempdir()), "working directory")
  setwd(before)
  skip_if_not_installed("splines")
  skip_if("package:splines" %in% search())
  expect_leak(library(splines), "search path")
  detach("package:splines")
})

test_that("what a guarded block defers is done before the guard looks", {
  expect_no_leaks({
    local_settings(muster.leak = 1)
    local_variables(MUSTER_LEAK = "a")
    local_seed(2)
    file <- tempfile("leak-")
    defer(function() unlink(file))
    file.create(file)
  })
})

test_that("a condition is waited for, and not longer than allowed", {
  count <- 0
  expect_true(wait_until((count <- count + 1) > 3))
  expect_identical(count, 4)
  expect_false(wait_until(FALSE, 0.1, fail = FALSE))
  expect_false(wait_until(NA, 0.1, fail = FALSE))
  expect_error(wait_until(count > 4, 0.1), "waited 0.1 s for count > 4", fixed = TRUE)
})
