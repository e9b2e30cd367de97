#!/bin/sh
# Builds muster by clang, with nearly all of its complaints as errors, and by gcc with link-time
# optimisation, and runs a few test files on each: calls, sums that have to be exact, shuffles.
set -u

files="calls|shuffle-(fold|links)"
exec "$(dirname -- "$0")/on-builds.sh" compilers \
  clang "$files" tests/testthat \
  lto "$files" tests/testthat
