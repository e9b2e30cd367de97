# muster beside the versions of other packages that the system has: on Debian those of its release,
# older than what CRAN has. tools/newer-r.sh has stable's, and the one to come.

test_that("B1 muster loads and runs beside the system's own packages, in either order", {
  limit_time(600)
  library <- local_folder()
  file.copy(system.file(package = "muster"), library, recursive = TRUE)
  system <- unique(normalizePath(c(.Library.site, .Library), mustWork = FALSE))
  packages <- Filter(function(package) {
    nzchar(system.file(package = package, lib.loc = system))
  }, c(
    "parallelly", "future", "future.apply", "foreach", "promises", "dplyr", "data.table", "shiny",
    "caret", "Matrix", "progressr", "later", "purrr", "sf", "glmnet"
  ))
  testthat::skip_if(!length(packages), "the system has none of these packages")
  run <- function(code) {
    suppressWarnings(system2(file.path(R.home("bin"), "Rscript"),
      c("--vanilla", "-e", shQuote(paste(code, collapse = "; "))),
      stdout = TRUE, stderr = TRUE,
      env = paste0("R_LIBS=", shQuote(library), " R_LIBS_USER=/none R_LIBS_SITE=",
        shQuote(paste(setdiff(system, .Library), collapse = ":")))
    ))
  }
  muster <- "suppressPackageStartupMessages(library(parallel)); library(muster)"
  work <- "cl <- cluster_start(1); cat(unlist(clusterCall(cl, Sys.getenv, 'none', '7')))"
  for (package in packages) {
    other <- paste0("invisible(loadNamespace('", package, "'))")
    there <- paste0("invisible(clusterCall(cl, loadNamespace, '", package, "'))")
    for (code in list(c(other, muster, work), c(muster, other, work), c(muster, work, there))) {
      expect_identical(run(code), "7", info = paste(code, collapse = "; "))
    }
  }
  versions <- vapply(packages, function(package) {
    as.character(utils::packageVersion(package, lib.loc = system))
  }, "")
  message("Beside: ", paste(packages, versions, collapse = ", "), ".")
})

test_that("B1 the system's future and dplyr run on a cluster", {
  limit_time(120)
  library <- local_folder()
  file.copy(system.file(package = "muster"), library, recursive = TRUE)
  system <- unique(normalizePath(c(.Library.site, .Library), mustWork = FALSE))
  lacks <- function(package) !nzchar(system.file(package = package, lib.loc = system))
  run <- function(code) {
    suppressWarnings(system2(file.path(R.home("bin"), "Rscript"),
      c("--vanilla", "-e", shQuote(paste(c(
        "suppressPackageStartupMessages(library(muster))", "cl <- cluster_start(2)", code
      ), collapse = "; "))),
      stdout = TRUE, stderr = TRUE,
      env = paste0("R_LIBS=", shQuote(library), " R_LIBS_USER=/none")
    ))
  }
  if (!lacks("future")) {
    expect_identical(tail(run(c(
      "future::plan(future::cluster, workers = cl)", "x <- 5",
      "cat(future::value(future::future(x + 1)))"
    )), 1L), "6")
  }
  if (!lacks("dplyr")) {
    expect_identical(tail(run(c(
      "p <- partition_scatter(cl, mtcars)",
      "d <- dplyr::collect(dplyr::summarise(dplyr::group_by(p, cyl), n = dplyr::n()))",
      "cat(sort(d$n))"
    )), 1L), "7 11 14")
  }
})
