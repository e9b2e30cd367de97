# Random pipelines of dplyr's verbs on random tables: what workers give is what dplyr gives, but for
# the order of rows. helper-oracle.R has the tables, the steps and the comparison.

# Loading them sets options.
has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)

test_cluster("Random pipelines on random tables give dplyr's rows and types", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  limit_time(60)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  for (seed in 1:100) {
    local_seed(seed)
    differs <- suppressWarnings(suppressMessages(oracle_run(cl)))
    expect_null(differs, info = paste("seed", seed))
  }
})
