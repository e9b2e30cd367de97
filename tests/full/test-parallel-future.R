# Package future with a cluster of muster's as its workers.

test_that("U6: future ignores cancel() unless it may interrupt, as the help says", {
  limit_time(60)
  skip_if_not_installed("future", "1.49.0") # the first that has cancel()
  run <- run_session(quote({
    cl <- cluster_start(1)
    try_it <- function(...) {
      future::plan(future::cluster, workers = cl, ...)
      began <- tempfile()
      f <- future::future({
        file.create(began)
        Sys.sleep(1) # tidy: the worker's work
        "to the end"
      })
      while (!file.exists(began)) Sys.sleep(0.01) # tidy: so that it is at work
      f <- future::cancel(f)
      tryCatch(future::value(f), error = function(e) class(e)[1])
    }
    tell(ignored = try_it())
    tell(ended = try_it(interrupts = TRUE), other = future::value(future::future("another")))
    tell(state = cluster_status(cl)$state)
    future::plan("sequential")
  }))
  expect_done(run)
  expect_identical(run$told$ignored, "to the end")
  expect_identical(run$told$ended, "FutureCanceledError")
  expect_identical(run$told$other, "another")
  expect_identical(run$told$state, "stopped")
})

# Runs code in an R session of its own: its status, and what it has printed.
rscript <- function(arguments, env = character(), timeout_s = 300) {
  out <- tempfile()
  before <- setwd(tempdir()) # where it may leave files
  on.exit(setwd(before))
  status <- suppressWarnings(system2(file.path(R.home("bin"), "Rscript"), arguments,
    stdout = out, stderr = out, env = env, timeout = timeout_s
  ))
  list(status = status, text = readLines(out, warn = FALSE))
}

test_that("future.tests: the conformance suite of future's backends, all of it", {
  limit_time(600)
  # Not loaded here: what it brings along asks a Slurm that may not be set up, and warns.
  skip_if(!nzchar(system.file(package = "future.tests")), "future.tests isn't installed")
  # Without `workers`, tests that set them run too.
  code <- "future.tests::check(plan = 'muster::muster_future', timeout = 120, exit_value = FALSE)"
  run <- rscript(c("-e", shQuote(code)), timeout_s = 500)
  results <- grep("^Results: ", run$text, value = TRUE)
  counts <- as.integer(strsplit(gsub("[^0-9]+", " ", sub("^Results: ", "", results)), " ")[[1L]])
  info <- paste(run$text, collapse = "\n")
  expect_length(counts, 4L)
  expect_gt(counts[1L], 80L)
  expect_identical(counts[3:4], c(0L, 0L), info = info)
  # Those that use package ff, where it isn't installed.
  expect_lte(counts[2L], if (requireNamespace("ff", quietly = TRUE)) 0L else 3L)
})

# future's own test scripts, which it installs, with this backend in place of multisession. Not
# those that would still test another backend.
test_that("future's own tests of its multisession backend", {
  limit_time(900)
  skip_if_not_installed("future", "1.40.0")
  skip_if(!nzchar(system.file("testme", package = "future")), "future has no scripts here")
  folder <- local_folder()
  file.copy(system.file("testme", package = "future"), folder, recursive = TRUE)
  folder <- file.path(folder, "testme")
  change <- function(file, f) writeLines(f(readLines(file, warn = FALSE)), file)
  change(file.path(folder, "_prologue", "099.future-setup.R"), function(lines) {
    c(
      lines, "library(muster, include.only = 'muster_future')",
      "supportedStrategies <- function(cores = NA_integer_, ...) {",
      "  if (identical(cores, 1L)) 'sequential' else 'muster_future'", "}"
    )
  })
  scripts <- list.files(folder, "^test-.*[.]R$")
  of_ours <- Filter(function(script) {
    any(grepl("supportedStrategies|multisession", readLines(file.path(folder, script))))
  }, scripts)
  of_ours <- setdiff(of_ours, paste0("test-", c(
    "FutureBackend-factories", # of future's own backends
    "multisession-libpaths", # an argument of multisession's
    "startup-onLoad", # multisession by its name in a variable
    # It relies on the next future's going to the worker that the one before has changed.
    "globals,manual"
  ), ".R"))
  expect_gt(length(of_ours), 40L)
  for (script in of_ours) {
    change(file.path(folder, script), function(lines) {
      lines <- gsub("plan(multisession", "plan(muster_future", lines, fixed = TRUE)
      lines <- gsub('"multisession"', '"muster_future"', lines, fixed = TRUE)
      lines <- gsub("MultisessionFuture", "MusterFuture", lines, fixed = TRUE)
      # Output that a future doesn't capture goes nowhere in multisession; muster shows it.
      c(if (script == "test-stdout.R") "options(muster.quiet = TRUE)", lines)
    })
    run <- rscript(shQuote(file.path(folder, "run.R")), env = c(
      "R_TESTME_PACKAGE=future", paste0("R_TESTME_PATH=", folder),
      paste0("R_TESTME_NAME=", shQuote(sub("^test-(.*)[.]R$", "\\1", script)))
    ))
    expect_identical(run$status, 0L, info = paste(c(script, tail(run$text, 30L)), collapse = "\n"))
  }
})
