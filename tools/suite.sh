#!/bin/sh
# Runs one suite of tests, and shows what it says:
#   tools/suite.sh NAME     the names: see below; tools/check.sh runs several
# A suite ends with `LABEL: N passed, N failed, N skipped`, of tests; how many seeds, kills or
# inputs they took may stand before that in a line `beside: ...`. One with test files that may
# be run again tells those that failed, each test in a line `again: FILE: TEST`.
#
# In the environment: FILTER=regexp takes only test files that match, TEST_FILE=name only that one;
# with AS_USER=yes they don't run as root;
# MUSTER_TEST_SEED=N is the seed of all that is drawn, 1 by default.
# The single quotes around commands for sh are meant.
# shellcheck disable=SC2016
set -u
. "$(dirname -- "$0")/common.sh"

# A shell has what runs in its background ignore SIGINT, and R from 4.5 on leaves it so; tests send
# it to themselves.
if [ -z "${MUSTER_SUITE:-}" ] && env --default-signal=INT true 2>/dev/null; then
  MUSTER_SUITE=1 exec env --default-signal=INT "$0" "$@"
fi

suite=${1:-}
if [ -n "${TEST_FILE:-}" ]; then FILTER="^$TEST_FILE\$"; fi

# Tests that CRAN leaves out run here; R CMD check decides for itself.
NOT_CRAN=true
# A terminal's colours and its width are not what tests should depend on.
NO_COLOR=1
MUSTER_TEST_SEED=${MUSTER_TEST_SEED:-1}
export NOT_CRAN NO_COLOR MUSTER_TEST_SEED
if [ -d build/blas ]; then
  MUSTER_TEST_BLAS=$root/build/blas
  export MUSTER_TEST_BLAS
fi
# A bare machine has the locale C, in which R CMD check complains of itself.
if [ "$(locale charmap 2>/dev/null)" != UTF-8 ] &&
  locale -a 2>/dev/null | grep -qi '^c[.]utf-*8$'; then
  LC_ALL=C.UTF-8
  export LC_ALL
fi

skip() {
  printf 'skipped: %s\n%s: 0 passed, 0 failed, 1 skipped\n' "$1" "$suite"
  exit 0
}

# testthat FOLDER [FILES]: the files of a folder; FILES, a regular expression, unless FILTER says.
testthat() {
  FILTER=${FILTER:-${2:-}}
  export FILTER
  set -- Rscript tools/testthat.R "$suite" "$1"
  # What only root can bring about is in tests/root.
  case $suite in testthat*) AS_USER=yes ;; esac
  if [ -n "${AS_USER:-}" ] && is_root && have setpriv; then set -- tools/not-root.sh "$@"; fi
  exec "$@"
}

# part FOLDER TARGET...: a Makefile of its own.
part() {
  folder=$1
  shift
  exec make --no-print-directory -C "$folder" "$@"
}

# one COMMAND...: a suite that is one test.
one() {
  "$@" && ok=1 || ok=0
  say "$suite: $ok passed, $((1 - ok)) failed, 0 skipped"
  [ "$ok" -eq 1 ]
}

case $suite in
  # ---- those of `make check`
  build) # without a warning, into ./.lib
    one tools/install.sh .lib tools/Makevars.strict
    ;;
  tidy) exec Rscript tools/tidy.R ;;
  c) part tests/c check ONLY="${TEST_FILE:-}" ;;
  sim) part tests/sim suite PARTS=check RUNS=1000 ;;
  testthat) testthat tests/testthat ;;
  testthat-[1-8]) # each eighth file of it
    if [ -z "${TEST_FILE:-}" ]; then
      SHARD=${suite#testthat-}/8
      export SHARD
    fi
    testthat tests/testthat
    ;;
  vital) # of tests/full what must never break: workers and sessions that are killed, README, ssh
    testthat tests/full '^(crash-matrix|orphans|psock-ssh|readme)$'
    ;;
  root)
    is_root || skip "only root can play other users, mount and set the kernel"
    testthat tests/root '^(disk-full|psock-stock-other-user|partition-users|partition-handlers)$'
    ;;
  memory) # a table larger than memory, rounds for ever: minutes; the kernel decides who gets some
    is_root || skip "only root can make control groups"
    testthat tests/root '^(partition-memory|rounds)$'
    ;;
  transcripts) # what calls answer, and the bytes that they send, as they were recorded
    exec Rscript tools/transcripts.R
    ;;
  package) # R CMD check, without the tests that testthat has run
    MUSTER_CHECK_TESTS=no
    export MUSTER_CHECK_TESTS
    exec Rscript tools/rcheck.R
    ;;
  r45) exec tools/newer-r.sh --short trixie ;; # on R 4.5, and on 4.6, where they are here
  r46) exec tools/newer-r.sh --short sid ;;
  demo) # in a copy of the checkout, since it installs muster anew
    rm -rf -- build/demo && mkdir -p -- build/demo || exit 1
    tar -cf - --exclude=./.git --exclude=./.lib --exclude=./build . | tar -xf - -C build/demo
    one sh -c '
      make -C build/demo demo WORKERS=8 >build/demo.txt 2>&1
      status=$?
      cat build/demo.txt
      [ $status -eq 0 ] && grep -q "^6[.] What muster doesn.t gain" build/demo.txt'
    ;;

  # ---- the others of `make check-all`
  full) testthat tests/full ;;
  load) # a thousand rounds, beside other work of six kinds
    MUSTER_LOAD_ROUNDS=${MUSTER_LOAD_ROUNDS:-167}
    export MUSTER_LOAD_ROUNDS
    testthat tests/full '^load(-many)?$'
    ;;
  rcheck) exec Rscript tools/rcheck.R ;;
  sim-all) # also with deliberate bugs, of which each has to be found
    part tests/sim suite
    ;;
  tsan) part tests/c check-tsan ;;
  asan) exec tools/asan.sh ;;
  user-code) # EVERY=1 runs all cells of the matrix, EVERY=3, the default, a third
    testthat tests/user-code
    ;;
  netns)
    unshare -rn ip link set lo up >/dev/null 2>&1 ||
      skip "no network namespace can be made here (unshare -rn, ip)"
    use_pcp
    testthat tests/netns
    ;;
  soak) # SOAK=10000 kills more workers
    exec Rscript tests/soak/soak.R "${SOAK:-300}" "$MUSTER_TEST_SEED"
    ;;
  history) # HOURS=1 has a longer one
    exec Rscript tests/soak/history.R "${HOURS:-0.02}" "$MUSTER_TEST_SEED"
    ;;
  faults) # every failure path once: a build whose fault points can be armed
    tools/install.sh build/lib-faults tools/Makevars.faults || exit 1
    R_LIBS="$root/build/lib-faults:$R_LIBS"
    testthat tests/faults
    ;;
  fuzz) part tests/fuzz smoke SECONDS=10 ;;
  c-portable) part tests/c check-portable ;;
  portable) exec tools/portable.sh ;;
  compilers) # built by clang, with nearly all of its complaints as errors, and by gcc as a whole
    files="calls|shuffle-(fold|links)" # calls, sums that have to be exact, shuffles
    exec tools/on-builds.sh compilers clang "$files" tests/testthat lto "$files" tests/testthat
    ;;
  newer-r) exec tools/newer-r.sh trixie sid ;;
  bare) exec tools/bare.sh ;;
  *)
    warn "tools/suite.sh: there is no suite '$suite'"
    exit 1
    ;;
esac
