#!/bin/sh
# Builds muster by clang, with its complaints as errors, and by gcc with link-time optimisation,
# and runs a few test files on each: calls, sums that have to be exact, shuffles.
set -u
. "$(dirname -- "$0")/common.sh"

filter='^(test-)?(calls|map-reduce|shuffle-(fold|links))([.]R)?$'
passed=0
failed=0
skipped=0
for kind in clang lto; do
  program=clang
  [ $kind = clang ] || program=gcc
  if ! have $program; then
    say "skipped: there is no $program"
    skipped=$((skipped + 1))
    continue
  fi
  if ! tools/install.sh build/lib-$kind tools/Makevars.$kind; then
    say "failed: the build ($kind)"
    failed=$((failed + 1))
    continue
  fi
  passed=$((passed + 1))
  R_LIBS="$root/build/lib-$kind:$R_LIBS" FILTER="$filter" \
    Rscript tools/testthat.R "by $kind" tests/testthat >build/$kind.out 2>&1
  cat build/$kind.out
  counts=$(grep "^by $kind: " build/$kind.out | tr -cd '0-9 ')
  # Three numbers.
  # shellcheck disable=SC2086
  set -- ${counts:-0 1 0}
  passed=$((passed + $1))
  failed=$((failed + $2))
  skipped=$((skipped + $3))
done
say "compilers: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
