# Installs the R packages named on the command line into ./.lib, unless some
# library has them: "name", or "name>=version", of which an older one, such as
# a system's own, doesn't count. One that can't be had is named; only boot, which
# the demo needs, and roxygen2, when asked for, end with status 1.

asked <- strsplit(commandArgs(trailingOnly = TRUE), ">=", fixed = TRUE)
least <- vapply(asked, function(one) if (length(one) == 2L) one[2L] else "0", "")
names(least) <- vapply(asked, `[`, "", 1L)

# Versions are those of the libraries, not of what another package has loaded.
here <- function(packages) {
  vapply(packages, function(package) {
    version <- suppressWarnings(
      utils::packageDescription(package, .libPaths(), fields = "Version")
    )
    !is.na(version) && package_version(version) >= least[[package]] &&
      requireNamespace(package, quietly = TRUE)
  }, NA)
}
missing <- names(least)[!here(names(least))]
if (!length(missing)) quit()

cat("setup: R packages missing:", missing, "\n")
# R asks for a mirror when none is set; the first of its own list will do.
repos <- getOption("repos")
if (!length(repos) || any(is.na(repos) | !nzchar(repos) | repos == "@CRAN@")) {
  chooseCRANmirror(graphics = FALSE, ind = 1L, local.only = TRUE)
}
options(timeout = max(300, getOption("timeout")))
cores <- max(1L, parallel::detectCores(), na.rm = TRUE)
tryCatch(
  install.packages(missing, lib = ".lib", dependencies = NA, quiet = TRUE,
                   Ncpus = min(cores, 8L)),
  error = function(e) cat("setup:", conditionMessage(e), "\n")
)

left <- missing[!here(missing)]
if (length(left)) {
  cat("setup: going on without the R packages:", left,
      "(tests that use them are skipped)\n")
}
if (any(c("boot", "roxygen2") %in% left)) {
  cat("setup: can't go on without", intersect(c("boot", "roxygen2"), left), "\n")
  quit(status = 1)
}
