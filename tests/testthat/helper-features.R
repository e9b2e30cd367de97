# What the build of muster that is tested does without: see src/base/mst_features.h and the suite
# `portable` of tools/suite.sh.

built_with <- function(feature) .Call(ffi_built_with)[[feature]]

# Skips the rest of a block that is about what Linux alone has.
skip_without_feature <- function(feature) {
  testthat::skip_if_not(built_with(feature), paste("this build does without:", feature))
}
