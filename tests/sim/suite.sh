#!/bin/sh
# Runs targets of the Makefile and adds up what each of them counts, for `make suite`:
#   suite.sh MAKE BUILD RUNS TARGET...
# Ends with `sim: N passed, N failed, N skipped`, before it the seeds that were played.
set -u
make=$1 build=$2 runs=$3
shift 3
mkdir -p -- "$build"
out=$build/suite.out
{
  "$make" --no-print-directory -k "$@" RUNS="$runs" 2>&1
  echo $? >"$out.status"
} | tee -- "$out"
status=$(cat -- "$out.status")

awk -v runs="$runs" '
  BEGIN { while (runs ~ /[0-9][0-9][0-9][0-9](,|$)/) sub(/[0-9][0-9][0-9](,|$)/, ",&", runs) }
  / passed, [0-9]+ failed, [0-9]+ skipped$/ {
    sub(/^.*: /, "")
    passed += $1; failed += $3; skipped += $5
  }
  END {
    print "beside: " runs " seeds each of the pool, the shuffle and the sites"
    printf "sim: %d passed, %d failed, %d skipped\n", passed, failed, skipped
  }' "$out"
exit "$status"
