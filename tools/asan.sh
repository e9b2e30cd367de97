#!/bin/sh
# Runs files of tests/testthat on a build of muster with the address and undefined
# behaviour sanitizers, the thread assertions and the fault points in it: those whose
# tests run C of muster's own in a session or in workers, below. Left out are files
# about R code alone (cores-*, cli*, doctor-* but for the one that reads the kernel's
# lists of sockets, printing, conditions, arguments), those that go the same ways through
# C with other R code around them (cluster-start, map*, progress, user-code, worker-clean
# and -renew, most of adapt-*, node-cluster and -kinds), and what tests/c and tests/fuzz run
# under the same sanitizers. FILTER=regexp takes other files.
#
# The address sanitizer's reports go to files, because those of workers and fork
# servers would be taken for their output; the other one's end its process by a
# line that says "runtime error". Any report is a failure.
set -u
. "$(dirname -- "$0")/common.sh"
label="testthat (asan, ubsan, thread checks)"

# In the order of the folders below src/ that they are for.
files="calls task heal cluster-servers-silent psock-join cluster-stop cluster-status psock-manage
  parallel-nodes worker-main message-form
  cluster-share
  psock-stock psock-stock-secret
  socket-faults socket-lines socket-listen socket-send
  discover-status discover-input doctor-network
  partition-fold partition-groups partition-links partition-rows partition-stage
  partition-join partition-scatter partition-shuffle partition-summarise"
for file in $files; do
  if [ ! -f "tests/testthat/test-$file.R" ]; then
    say "failed: there is no tests/testthat/test-$file.R any more: see tools/asan.sh"
    say "$label: 0 passed, 1 failed, 0 skipped"
    exit 1
  fi
done
# A list of words.
# shellcheck disable=SC2086
FILTER=${FILTER:-$(printf '%s|' $files | sed 's/^/^(/; s/|$/)$/')}
export FILTER

libasan=$(gcc -print-file-name=libasan.so 2>/dev/null)
case $libasan in
  /*) ;;
  *)
    say "skipped: gcc has no libasan here"
    say "$label: 0 passed, 0 failed, 1 skipped"
    exit 0
    ;;
esac
# The file may be a script for the linker, which can't be preloaded.
libasan=$(readlink -f -- "$libasan")

reports=$root/build/asan
rm -rf -- "$reports" build/lib-asan
mkdir -p -- "$reports" || exit 1
# The load test would run without the sanitizer's library.
tools/install.sh build/lib-asan tools/Makevars.asan --no-test-load || exit 1

# The sanitizers take these quotes off.
# shellcheck disable=SC2089,SC2090
{
  # R itself leaks. Signals are the tests' own: workers are killed by them.
  ASAN_OPTIONS="detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0"
  ASAN_OPTIONS="$ASAN_OPTIONS:handle_sigfpe=0:log_path='$reports/asan'"
  # This one has no files of its own beside the other: both have one setting.
  UBSAN_OPTIONS="halt_on_error=1:log_path='$reports/asan'"
  R_LIBS="$root/build/lib-asan:$R_LIBS"
  # Tests may ask for this one, where a sanitizer's appetite for memory or time
  # makes a limit meaningless.
  MUSTER_TEST_SANITIZERS=1
  export ASAN_OPTIONS UBSAN_OPTIONS R_LIBS MUSTER_TEST_SANITIZERS
}

LD_PRELOAD=$libasan Rscript tools/testthat.R "on this build" tests/testthat 2>&1 |
  tee -- "$reports/output"
passed=0
failed=0
skipped=0
add_counts "$reports/output"

found=$(grep -c 'runtime error: ' "$reports/output")
for report in "$reports"/asan.*; do
  [ -s "$report" ] || continue
  found=$((found + 1))
  say "---- $report begins:"
  head -n 20 -- "$report"
done
say "reports of the sanitizers: $found"

failed=$((failed + found))
say "$label: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
