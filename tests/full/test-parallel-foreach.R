# foreach's and doRNG's own tests, with muster as the backend. tools/setup.sh has the two installed
# with their tests.

own_tests <- function(package, frame = parent.frame()) {
  from <- system.file("tests", "testthat", package = package)
  skip_if(!nzchar(from), paste(package, "isn't installed, or without its tests"))
  folder <- local_folder(frame)
  file.copy(list.files(from, full.names = TRUE), folder, recursive = TRUE)
  folder
}

# Runs them in an R of its own, and expects that none fails.
expect_own_tests <- function(package, folder, setup, at_least) {
  results <- file.path(folder, "results.rds")
  code <- c(
    bquote(.libPaths(.(.libPaths()))), quote(suppressMessages(library(muster))),
    quote(library(testthat)), quote(library(foreach)), quote(library(iterators)), setup,
    bquote(saveRDS(as.data.frame(testthat::test_dir(.(folder),
      reporter = "silent", stop_on_failure = FALSE, load_package = "none"
    ))[c("test", "nb", "failed", "error", "skipped")], .(results)))
  )
  script <- file.path(folder, "run.R")
  writeLines(unlist(lapply(code, deparse)), script)
  run <- system2(file.path(R.home("bin"), "Rscript"), shQuote(script), stdout = TRUE, stderr = TRUE)
  expect_true(file.exists(results), info = paste(run, collapse = "\n"))
  got <- readRDS(results)
  cat(package, format(utils::packageVersion(package)), ":", sum(got$nb), "expectations\n")
  expect_gte(sum(got$nb), at_least)
  bad <- got[got$failed > 0L | got$error, ]
  expect_identical(bad$test, character(), info = paste(run, collapse = "\n"))
}

test_that("foreach's own tests", {
  limit_time(300)
  folder <- own_tests("foreach")
  # Which backend is registered; tests ask for it by this name.
  writeLines("registerDoMuster(2)", file.path(folder, "setup_cluster.R"))
  expect_own_tests("foreach", folder, quote(Sys.setenv(FOREACH_BACKEND = "PAR")), 500L)
})

test_that("doRNG's own tests", {
  limit_time(300)
  folder <- own_tests("doRNG")
  for (file in list.files(folder, "[.][rR]$", full.names = TRUE)) {
    lines <- readLines(file)
    lines <- gsub("(doParallel::)?registerDoParallel\\((cores ?= ?)?", "registerDoMuster(", lines)
    lines <- gsub("(parallel::)?makeCluster\\(", "cluster_start(", lines)
    writeLines(gsub("doParallelSNOW", "doMuster", lines), file)
  }
  expect_own_tests("doRNG", folder, quote(library(doRNG)), 60L)
})
