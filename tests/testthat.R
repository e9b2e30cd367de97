library(testthat)
library(muster)

test_check("muster")
