library(testthat)
library(muster)

# A check of the package is to be short: files that take long run where NOT_CRAN is set, and in
# the sources' own suite.
long <- grep("^[^#]", readLines("long.txt"), value = TRUE)
filter <- if (!identical(Sys.getenv("NOT_CRAN"), "true")) {
  sprintf("^(?!(%s)$)", paste(long, collapse = "|"))
}
test_check("muster", filter = filter, perl = TRUE)
