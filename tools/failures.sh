#!/bin/sh
# Tells from a suite's log why the suite failed, in 80 lines at most:
#   tools/failures.sh LOG
# Tests that failed with what they said, reports of sanitizers, the problems that
# R CMD check found. Where none of these is known in the log, its last 60 lines.
set -u
. "$(dirname -- "$0")/common.sh"

log=$1
lines_max=80

# Blocks of tools/testthat.R with the name of their file; a test that failed may
# compare long values, of which the first lines will do.
testthat_failures() {
  awk -v block_max=15 '
    /^[^ ]*[.][rR]$/ { file = $0 }
    /^  (passed|failed|skipped) +[0-9.]+ s  / {
      in_block = /^  failed/
      count = 0
      if (in_block) print file ":" $0
      next
    }
    !/^      / { in_block = 0 }
    in_block && ++count <= block_max { print }
    in_block && count == block_max + 1 { print "      ..." }
  ' "$log"
}

# Whole lines: C tests, fuzz targets, rules of style with their places, compilers
# and make.
line_failures() {
  awk '
    /^failed: / { print; in_rule = 1; next }
    in_rule && /^  / { print; next }
    { in_rule = 0 }
    /^FAIL / || /^sim: (seed|replay)/ || /canary [a-z0-9-]+: missed/ { print; next }
    /runtime error: |: (fatal )?error: |undefined reference/ { print; next }
    /^ERROR: |^Error |^make.*[*][*][*]/ { print; next }
    /^  failed: the tests in / { print }
  ' "$log"
}

# From where the report begins on.
part_from() { awk -v from="$1" '$0 ~ from { on = 1 } on' "$log"; }

found=$({
  testthat_failures
  line_failures
  part_from '^---- .* begins:' | head -n 40
  part_from '^not explained:' | tail -n 50
})
# What tools/check.sh adds comes last. A suite that was ended may have hung in a
# test that has told nothing yet: the log's end shows after which one.
if [ -z "$found" ]; then
  found=$(tail -n 60 -- "$log")
elif grep -q '^check: .*passed its limit' "$log"; then
  found=$(say "$found" && say "..." && tail -n 15 -- "$log")
else
  found=$(say "$found" && grep '^check: ' "$log")
fi
shown=$(say "$found" | cut -c 1-200)
count=$(say "$shown" | wc -l)
if [ "$count" -le $lines_max ]; then
  say "$shown"
else
  say "$shown" | head -n $((lines_max - 21))
  say "... ($((count - lines_max + 1)) lines left out)"
  say "$shown" | tail -n 20
fi
