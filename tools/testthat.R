# Runs folders of testthat tests against the installed muster:
#   Rscript tools/testthat.R LABEL DIR...
# FILTER=regexp takes only the test files whose names, without "test-" and ".R", match, and of
# these SHARD=1/2 the first, third and so on, 2/2 the others. Each
# test_that() block is one line and counts as passed, failed or skipped; expectations that failed
# and reasons for skipping follow below their block. Each file draws from the seed
# MUSTER_TEST_SEED. Blocks that failed, but for those that told of a crash or left processes,
# are named in lines `again: FILE: BLOCK`. Ends with `LABEL: N passed, N failed, N skipped`, and
# status 1 if one failed.

arguments <- commandArgs(trailingOnly = TRUE)
label <- arguments[1]
dirs <- arguments[-1]

close_with <- function(passed, failed, skipped) {
  cat(sprintf("%s: %d passed, %d failed, %d skipped\n", label, passed, failed, skipped))
  quit(status = as.integer(failed > 0))
}

if (!requireNamespace("testthat", quietly = TRUE)) {
  cat("skipped: the R package testthat isn't here\n")
  close_with(0L, 0L, 1L)
}

seed <- as.integer(Sys.getenv("MUSTER_TEST_SEED", "1"))

# A failure that tells of a crash of R's, a sanitizer's report or processes that are left.
is_unforgivable <- function(result) {
  signs <- c(
    "caught segfault", "^status -(4|6|7|8|11)$", "AddressSanitizer", "runtime error: ",
    "^processes: ", "muster_error_internal"
  )
  lines <- strsplit(format(result), "\n", fixed = TRUE)[[1L]]
  any(grepl(paste(signs, collapse = "|"), lines))
}

block_reporter <- R6::R6Class(
  "block_reporter",
  inherit = testthat::Reporter,
  public = list(
    counts = c(passed = 0L, failed = 0L, skipped = 0L),
    results = list(),
    began = NULL,
    file = NULL,
    again = character(),

    start_file = function(file) {
      cat("\n", file, "\n", sep = "")
      self$file <- sub("^test-?(.*)[.][rR]$", "\\1", file)
      self$results <- list()
      set.seed(seed)
    },
    start_test = function(context, test) {
      self$began <- Sys.time()
      self$results <- list()
    },
    add_result = function(context, test, result) {
      self$results <- c(self$results, list(result))
      # What fails outside test_that() is a block of its own.
      if (is.null(self$began)) self$close_block("(outside test_that())")
    },
    end_test = function(context, test) {
      self$close_block(test)
      self$began <- NULL
    },
    close_block = function(name) {
      is_of <- function(kinds) {
        vapply(self$results, inherits, logical(1), what = paste0("expectation_", kinds))
      }
      bad <- is_of(c("failure", "error"))
      skip <- is_of("skip")
      verdict <- if (any(bad)) "failed" else if (any(skip)) "skipped" else "passed"
      if (is.null(self$began) && verdict == "passed") {
        self$results <- list() # a message or a warning outside the blocks
        return(invisible())
      }
      self$counts[verdict] <- self$counts[verdict] + 1L
      seconds <- if (is.null(self$began)) 0 else {
        as.numeric(difftime(Sys.time(), self$began, units = "secs"))
      }
      cat(sprintf("  %-7s %6.2f s  %s\n", verdict, seconds, name))
      for (result in self$results[bad | skip | is_of("warning")]) self$explain(result)
      if (verdict == "failed" && !any(vapply(self$results[bad], is_unforgivable, NA))) {
        self$again <- c(self$again, sprintf("again: %s: %s", self$file, name))
      }
      self$results <- list()
    },
    explain = function(result) {
      where <- result$srcref
      where <- if (is.null(where)) "" else {
        sprintf("%s:%d: ", basename(attr(where, "srcfile")$filename), where[1L])
      }
      text <- format(result)
      cat(paste0("      ", strsplit(paste0(where, text), "\n", fixed = TRUE)[[1L]]), sep = "\n")
    }
  )
)

counts <- c(passed = 0L, failed = 0L, skipped = 0L)
again <- character()
filter <- Sys.getenv("FILTER")
for (dir in dirs) {
  files <- sub("^test-?(.*)[.][rR]$", "\\1", list.files(dir, "^test.*[.][rR]$"))
  if (nzchar(filter)) files <- grep(filter, files, value = TRUE, perl = TRUE)
  shard <- as.integer(strsplit(Sys.getenv("SHARD", "1/1"), "/", fixed = TRUE)[[1L]])
  files <- files[(seq_along(files) - shard[1L]) %% shard[2L] == 0L]
  if (!length(files)) {
    cat("skipped: no test files in ", dir, "\n", sep = "")
    counts["skipped"] <- counts["skipped"] + 1L
    next
  }
  reporter <- block_reporter$new()
  tryCatch(
    testthat::test_dir(
      dir,
      filter = sprintf("^(%s)$", paste(files, collapse = "|")),
      perl = TRUE,
      reporter = reporter,
      package = "muster",
      load_package = "installed",
      stop_on_failure = FALSE
    ),
    error = function(e) {
      cat("  failed: the tests in ", dir, " can't go on: ", conditionMessage(e), "\n", sep = "")
      reporter$counts["failed"] <- reporter$counts["failed"] + 1L
    }
  )
  counts <- counts + reporter$counts
  again <- c(again, reporter$again)
}
cat("\n", paste0(again, "\n"), sep = "")
close_with(counts[["passed"]], counts[["failed"]], counts[["skipped"]])
