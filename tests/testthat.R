library(testthat)
library(muster)

# A check of the package is to be short. Files that take long run where NOT_CRAN is set: there
# every suite of the sources runs them, under sanitizers and without privileges too.
long <- c(
  "adapt-parallel-values", "adapt-parallel-nodes", "adapt-parallel-calls", "cluster-share",
  "cluster-start", "cluster-stop", "discover-status", "leak-guard", "map", "psock-cluster",
  "socket-listen", "stock-nodes", "worker-clean"
)
filter <- if (!identical(Sys.getenv("NOT_CRAN"), "true")) {
  sprintf("^(?!(%s)$)", paste(long, collapse = "|"))
}
test_check("muster", filter = filter, perl = TRUE)
