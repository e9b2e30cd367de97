# Installs the R packages named on the command line into ./.lib, unless some
# library has them: "name", or "name>=version", of which an older one, such as
# a system's own, doesn't count. One that can't be had is named, with the reason:
# the repository can't be reached, or hasn't got it. Only codetools, which muster
# imports, boot, which the demo needs, and roxygen2, when asked for, end with
# status 1.
#   --missing PACKAGE...   prints those that no library has, and `https` if R would
#                          fetch them over it; installs nothing

words <- commandArgs(trailingOnly = TRUE)
only_print <- identical(words[1L], "--missing")
asked <- strsplit(setdiff(words, "--missing"), ">=", fixed = TRUE)
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

# R asks for a mirror when none is set; the first of its own list will do.
repos <- getOption("repos")
if (!length(repos) || any(is.na(repos) | !nzchar(repos) | repos == "@CRAN@")) {
  chooseCRANmirror(graphics = FALSE, ind = 1L, local.only = TRUE)
  repos <- getOption("repos")
}
if (only_print) {
  cat(missing, if (any(startsWith(repos, "https:"))) "https", "\n")
  quit()
}
cat("setup: R packages missing:", missing, "\n")

# hint WORDS: what may help, by what libcurl said.
hint <- function(words) {
  hints <- c(
    "certificate|SSL CA" = paste("its certificate can't be verified; ca-certificates (the",
      "package's name on most systems) or your site's own certificate is missing here"),
    "resolve" = "its host name can't be resolved; there may be no network, or no DNS",
    "HTTP status" = "its host answers, but not with a repository; see options(\"repos\") of R",
    "connect|[Tt]imeout|timed out" = "its host can't be reached; see network, firewall and proxy"
  )
  found <- vapply(names(hints), grepl, NA, x = words)
  if (any(found)) paste0(": ", hints[found][1L]) else ""
}

# index_of REPOSITORY: the names of its packages. If it can't be read, says why, and
# gives NULL: install.packages() would call each package "not available for this version
# of R".
index_of <- function(repository) {
  said <- character()
  note <- function(condition) said <<- c(said, conditionMessage(condition))
  index <- withCallingHandlers(
    tryCatch(available.packages(contrib.url(repository)), error = note),
    warning = function(condition) {
      note(condition)
      tryInvokeRestart("muffleWarning")
    }
  )
  if (!any(grepl("unable to access index|cannot open the connection", said))) {
    return(rownames(index))
  }
  reason <- sub("^.*status was '(.*)'.*$", "\\1", said[1L])
  cat("setup: can't reach the R package repository ", repository, hint(said[1L]),
    " (", reason, ")\n", sep = "")
  NULL
}

# Messages are read, so they must be R's own words.
Sys.setenv(LANGUAGE = "en")
known <- lapply(repos, index_of)
repos <- repos[!vapply(known, is.null, NA)]
unknown <- setdiff(missing, unlist(known))
if (length(repos) && length(unknown)) {
  cat("setup: not in the R package repository ", toString(repos), " for R ",
    format(getRversion()), ": ", toString(unknown), "\n", sep = "")
}

options(timeout = max(300, getOption("timeout")))
cores <- max(1L, parallel::detectCores(), na.rm = TRUE)
if (length(setdiff(missing, unknown))) {
  tryCatch(
    install.packages(setdiff(missing, unknown), lib = ".lib", repos = repos,
                     dependencies = NA, quiet = TRUE, Ncpus = min(cores, 8L),
                     # Their own tests are ours, too.
                     INSTALL_opts = list(foreach = "--install-tests", doRNG = "--install-tests")),
    error = function(e) cat("setup:", conditionMessage(e), "\n")
  )
}

left <- missing[!here(missing)]
required <- intersect(c("boot", "codetools", "roxygen2"), left)
if (length(required)) {
  cat("setup: can't go on without the R packages:", required, "\n")
  quit(status = 1)
}
if (length(left)) {
  cat("setup: going on without the R packages:", left,
      "(tests that use them are skipped)\n")
}
