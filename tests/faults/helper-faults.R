# The fault tests use the helpers of the full suite.
source("../full/helper-full.R", local = TRUE, chdir = TRUE)
