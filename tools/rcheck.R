# Builds the source package, runs R CMD check --as-cran on it, and judges its
# log: an error, a warning or a note that tools/check-notes.txt doesn't explain
# is a failure. Ends with `R CMD check: N passed, N failed, N skipped`.

label <- "R CMD check"
out <- file.path(getwd(), "build", "rcheck")
unlink(out, recursive = TRUE)
dir.create(out, recursive = TRUE)

skipped <- 0L
close_with <- function(passed) {
  cat(sprintf("%s: %d passed, %d failed, %d skipped\n", label, passed, 1L - passed, skipped))
  quit(status = 1L - passed)
}

# What asks the network, and the documented variable that stops it (R Internals,
# "Tools"): the rest of the incoming checks stays, the clock is not ours to check.
Sys.setenv(
  `_R_CHECK_CRAN_INCOMING_REMOTE_` = "false",
  `_R_CHECK_SYSTEM_CLOCK_` = "false"
)
# R counts an example's time by the clock, too; below, only what it computes is counted.
limit_s <- 5
Sys.setenv(`_R_CHECK_EXAMPLE_TIMING_THRESHOLD_` = "Inf")
# Tests take themselves to be on CRAN's machine.
Sys.unsetenv(c("NOT_CRAN", "CI"))
options <- c("--as-cran", "--no-manual")
# MUSTER_CHECK_TESTS=no leaves them out.
if (Sys.getenv("MUSTER_CHECK_TESTS") == "no") options <- c(options, "--no-tests")
# Where tools/setup.sh put checkbashisms, if the system has none.
Sys.setenv(PATH = paste0(Sys.getenv("PATH"), ":", file.path(getwd(), "build/devscripts/usr/bin")))

# Where a suggested package can't be had, R looks it up on CRAN to see whether it
# is orphaned, and ends if it can't: then without --as-cran.
suggests <- read.dcf("DESCRIPTION", "Suggests")[1L]
suggests <- trimws(sub("[(].*", "", strsplit(suggests, ",")[[1L]]))
lost <- suggests[!nzchar(vapply(suggests, function(x) system.file(package = x), ""))]
if (length(lost)) {
  cat("skipped: what --as-cran adds, because these packages aren't here:", lost, "\n")
  Sys.setenv(`_R_CHECK_FORCE_SUGGESTS_` = "false")
  options <- c(setdiff(options, "--as-cran"), if ("testthat" %in% lost) "--no-tests")
  skipped <- 1L
}

status <- system2("tools/build.sh")
tarball <- list.files("build/package", "^muster_.*[.]tar[.]gz$", full.names = TRUE)
if (status != 0L || length(tarball) != 1L) {
  cat("the source package can't be built\n")
  close_with(0L)
}
R <- file.path(R.home("bin"), "R")
# Every vignette is in the package, however it was built.
contents <- utils::untar(tarball, list = TRUE)
pages <- sub("Rmd$", "html", list.files("vignettes", "[.]Rmd$"))
if (!all(file.path("muster", "inst", "doc", pages) %in% contents)) {
  cat("the source package lacks a vignette\n")
  close_with(0L)
}
# Plain ones can't be built again.
builders <- requireNamespace("rmarkdown", quietly = TRUE) &&
  requireNamespace("knitr", quietly = TRUE) && rmarkdown::pandoc_available("1.14")
if (!builders) {
  cat("skipped: building vignettes again, which needs knitr, rmarkdown and pandoc\n")
  options <- c(options, "--ignore-vignettes")
  skipped <- 1L
}
status <- system2(R, c("CMD", "check", options, "-o", shQuote(out), shQuote(tarball)))

log_file <- file.path(out, "muster.Rcheck", "00check.log")
if (!file.exists(log_file)) {
  cat("R CMD check left no log\n")
  close_with(0L)
}
log <- readLines(log_file, warn = FALSE, encoding = "UTF-8")

# A section is a line "* checking ... VERDICT" and what follows it.
starts <- grep("^\\* ", log)
sections <- Map(function(from, to) log[from:to], starts, c(starts[-1L] - 1L, length(log)))
# The verdict may stand on a later line, after the output of tests.
verdict_of <- function(section) {
  pattern <- "^(.*[.]{3})? *(\\[[^]]*\\] *)?(NOTE|WARNING|ERROR)$"
  hits <- grep(pattern, section, value = TRUE)
  if (length(hits)) sub(pattern, "\\3", hits[1L]) else ""
}

# What is explained: a regular expression of a line, then its reason.
known <- readLines("tools/check-notes.txt", warn = FALSE, encoding = "UTF-8")
known <- known[nzchar(known) & !startsWith(known, "#")]
parts <- strsplit(known, "  # ", fixed = TRUE)
patterns <- vapply(parts, `[`, "", 1L)
reasons <- vapply(parts, `[`, "", 2L)
if (anyNA(reasons)) {
  cat("tools/check-notes.txt has a note without its reason:\n", known[is.na(reasons)], "\n")
  close_with(0L)
}

offences <- 0L
explained <- 0L
for (section in sections) {
  verdict <- verdict_of(section)
  if (!nzchar(verdict)) next
  body <- trimws(section[-1L])
  body <- body[nzchar(body)]
  by <- lapply(body, function(line) {
    which(vapply(patterns, grepl, logical(1), x = line, perl = TRUE))
  })
  if (verdict != "ERROR" && length(body) && all(lengths(by) > 0L)) {
    cat("\nexplained: ", section[1L], "\n", sep = "")
    cat(paste0("  ", unique(reasons[unlist(by)])), sep = "\n")
    explained <- explained + 1L
    next
  }
  offences <- offences + 1L
  cat("\nnot explained:\n")
  cat(section, sep = "\n")
}
timings <- file.path(out, "muster.Rcheck", "muster-Ex.timings")
if (file.exists(timings)) {
  timings <- utils::read.table(timings, header = TRUE)
  slow <- timings[timings$user + timings$system > limit_s, ]
  if (nrow(slow)) {
    offences <- offences + 1L
    cat(sprintf("\nexamples that compute for more than %g s:\n", limit_s))
    print(slow)
  }
}
summary_line <- tail(grep("^Status: ", log, value = TRUE), 1L)
cat("\n", summary_line, "\n", sep = "")
if (!length(summary_line)) {
  cat("R CMD check didn't come to its end\n")
  offences <- offences + 1L
}
# R's own count is the check on this reading of its log.
counted <- sum(as.integer(unlist(regmatches(summary_line, gregexpr("[0-9]+", summary_line)))))
if (counted != explained + offences) {
  cat("R CMD check tells of", counted, "problems,", explained + offences, "were found in its log\n")
  offences <- offences + 1L
}
if (status != 0L && offences == 0L) {
  cat("R CMD check ended with status", status, "\n")
  offences <- 1L
}
close_with(as.integer(offences == 0L))
