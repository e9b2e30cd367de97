#!/bin/sh
# Runs the test suites one after another, each with a time limit:
#   tools/check.sh [SUITE...]     all of them, if none is named
# All of them run in two lanes, beside each other: most tests wait for something most of
# the time. Each lane takes the next suite that no other has taken; the longest come
# first, so that both end at about the same time. LANES=1 has them one after another, as
# suites that are named are without LANES=2.
# A suite ends with its own `LABEL: N passed, N failed, N skipped`. One that
# fails to say so, ends with another status than its counts tell, passes its
# limit, or leaves processes behind counts as one more failure. The last line
# is the sum, alone: `N passed, N failed, N skipped`, of tests: how many seeds, kills or
# inputs they took stands in their suite's row, as it says it in a line `beside: ...`.
# Logs: build/check/.
#
# tests/testthat runs once, as an ordinary user; what only root can bring about is the
# suite "root". The limits are for what hangs, on a machine that is busy with other work.
#
# With CI=true a suite's output goes to its log only: the screen gets a line for
# each suite as it ends, and last of all what failed and why, so that this is
# seen where only a part of the output is kept.
# The single quotes around commands for sh are meant.
# shellcheck disable=SC2016
set -u
. "$(dirname -- "$0")/common.sh"

# The demo installs anew what the others use, so it comes when both lanes have ended.
all="tidy build full sim testthat asan rcheck faults netns soak bare user-code tsan c fuzz"
all="$all portable compilers root transcripts demo"
lane=
lanes=${LANES:-2}
if [ "${1:-}" = --second ]; then
  lane=second-
  shift
elif [ $# -gt 0 ]; then
  lanes=${LANES:-1}
else
  eval "set -- $all"
fi

logs=$root/build/check
mkdir -p -- "$logs" || exit 1
if [ -z "$lane" ]; then
  rm -rf -- "$logs"/*.log "$logs"/*total "$logs"/*table "$logs"/*failed "$logs/taken"
  mkdir -- "$logs/taken" || exit 1
fi
: >"$logs/${lane}table"

# taken SUITE: 0 if another lane has it.
taken() { ! mkdir -- "$logs/taken/$1" 2>/dev/null; }

# Tests that CRAN leaves out run here; R CMD check decides for itself.
NOT_CRAN=true
export NOT_CRAN
if [ -d build/blas ]; then
  MUSTER_TEST_BLAS=$root/build/blas
  export MUSTER_TEST_BLAS
fi
# A terminal's colours and its width are not what tests should depend on.
NO_COLOR=1
export NO_COLOR

# A bare machine has the locale C, in which R CMD check complains of itself.
if [ "$(locale charmap 2>/dev/null)" != UTF-8 ] &&
  locale -a 2>/dev/null | grep -qi '^c[.]utf-*8$'; then
  LC_ALL=C.UTF-8
  export LC_ALL
fi

limiter=
for program in timeout gtimeout; do
  if have $program; then
    limiter=$program
    break
  fi
done
[ -n "$limiter" ] || warn "check: no timeout program here, so the suites run without time limit."

quiet=no
# The second lane would talk into the first one's words.
if [ "${CI:-}" = true ] || [ -n "$lane" ]; then quiet=yes; fi

passed=0
failed=0
skipped=0
built=${MUSTER_CHECK_BUILT:-unknown}

# The labels of suites that failed, a line each.
: >"$logs/${lane}failed"

row() { printf '%-38s %7s %7s %8s  %s\n' "$@"; }

# title LABEL: says that a suite begins.
title() { [ $quiet = yes ] || printf '\n==== %s ====\n' "$1"; }

# keep LOG: copies what it reads to the log, and to the screen.
keep() {
  if [ $quiet = yes ]; then cat >>"$1"; else tee -a -- "$1"; fi
}

log_of() {
  say "$logs/$(printf '%s' "$1" | tr -cs 'A-Za-z0-9' '-' | sed 's|-$||').log"
}

# run LABEL LIMIT_S COMMAND...: one suite. The command runs in the background,
# so that an interrupt ends it and not only this script, and writes to the
# screen and its log through a pipe. Every process of the suite has a mark in
# its environment, by which those that outlive it are found.
run() {
  label=$1
  limit=$2
  shift 2
  log=$(log_of "$label")
  : >"$log"
  began=$(date +%s)
  title "$label"
  pipe=$logs/${lane}pipe
  rm -f -- "$pipe" "$pipe.pid" "$pipe.closed"
  mkfifo -- "$pipe" || exit 1
  (
    # Not by keep(), since what is killed must be the program itself.
    if [ $quiet = yes ]; then
      cat <"$pipe" >>"$log" &
    else
      tee -a -- "$log" <"$pipe" &
    fi
    say $! >"$pipe.pid"
    wait
    : >"$pipe.closed"
  ) &
  keeper_pid=$!
  mark=MUSTER_CHECK_MARK=$$.$(date +%s)
  if [ -n "$limiter" ]; then
    env "$mark" $limiter -k 30 "$limit" "$@" >"$pipe" 2>&1 </dev/null &
  else
    env "$mark" "$@" >"$pipe" 2>&1 </dev/null &
  fi
  suite_pid=$!
  wait $suite_pid
  status=$?
  suite_pid=

  why=
  if ! in_time 5 nothing_left; then
    why="processes outlived the suite"
    for pid in $left; do
      say "check: still running: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline")" | keep "$log"
      kill -9 "$pid" 2>/dev/null
    done
  fi
  if ! in_time 5 test -e "$pipe.closed"; then
    why="processes outlived the suite"
    kill "$(cat -- "$pipe.pid")"
  fi
  wait "$keeper_pid"
  rm -f -- "$pipe" "$pipe.pid" "$pipe.closed"

  line=$(grep -E '^(.*: )?[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
  if [ -n "$line" ]; then
    p=$(say "$line" | sed -E 's/^(.*[^0-9])?([0-9]+) passed, .*$/\2/')
    f=$(say "$line" | sed -E 's/^.* passed, ([0-9]+) failed, .*$/\1/')
    s=$(say "$line" | sed -E 's/^.* failed, ([0-9]+) skipped$/\1/')
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then
      why="the suite ended with status $status"
    fi
  else
    p=0 f=0 s=0
    why="the suite ended with status $status and told no counts"
  fi
  case $status in
    124 | 137) why="the suite passed its limit of $limit s" ;;
  esac
  if [ -n "$why" ]; then
    f=$((f + 1))
    say "check: $label: $why" | keep "$log"
  fi
  beside=$(sed -n 's/^beside: //p' "$log" | tail -n 1)
  count "$label" "$p" "$f" "$s" "$beside${why:+${beside:+; }$why}" $(($(date +%s) - began))
}

# in_time SECONDS COMMAND...: 0 as soon as the command says yes, 1 if it doesn't
# in that time.
in_time() {
  tries=$(($1 * 5))
  shift
  until "$@"; do
    [ $tries -gt 0 ] || return 1
    tries=$((tries - 1))
    sleep 0.2
  done
}

# nothing_left: 0 if no process has the mark, else $left has their ids. Where
# there is no /proc, only the pipe tells.
nothing_left() {
  left=$(grep -lsz "^$mark\$" /proc/[0-9]*/environ | cut -d / -f 3)
  [ -z "$left" ]
}

# count LABEL PASSED FAILED SKIPPED WORDS SECONDS: one row of the table.
count() {
  passed=$((passed + $2))
  failed=$((failed + $3))
  skipped=$((skipped + $4))
  row "$1" "$2" "$3" "$4" "$5" >>"$logs/${lane}table"
  [ "$3" -eq 0 ] || say "$1" >>"$logs/${lane}failed"
  [ $quiet = no ] || row "$1" "$2" "$3" "$4" "$6 s${5:+  $5}"
}

# skip LABEL REASON: a suite that can't run here.
skip() {
  title "$1"
  printf 'skipped: %s\n%s: 0 passed, 0 failed, 1 skipped\n' "$2" "$1" | keep "$(log_of "$1")"
  count "$1" 0 0 1 "$2" 0
}

# part LABEL LIMIT_S DIR TARGET...: a suite that is a Makefile of its own.
part() {
  if [ -f "$3/Makefile" ]; then
    label=$1 limit=$2 dir=$3
    shift 3
    run "$label" "$limit" make --no-print-directory -C "$dir" "$@"
  else
    skip "$1" "there is no $3/Makefile"
  fi
}

# installed LABEL: 0 if ./.lib has what the checkout holds. Installs it if no
# suite has yet; where that failed, the suite counts as failed too.
installed() {
  [ "$built" != unknown ] || suite_build
  [ "$built" = yes ] && return 0
  title "$1"
  say "failed: the package could not be installed" | keep "$(log_of "$1")"
  count "$1" 0 1 0 "the package could not be installed" 0
  return 1
}

suite_build() {
  rm -rf -- .lib/muster
  run "build (warnings are errors)" 900 sh -c '
    tools/install.sh .lib tools/Makevars.strict && [ -d .lib/muster ] && built=1 || built=0
    echo "build (warnings are errors): $built passed, $((1 - built)) failed, 0 skipped"
    [ $built -eq 1 ]'
  built=no
  [ $status -eq 0 ] && built=yes
}

suite_tidy() { run "tidy" 300 Rscript tools/tidy.R; }
suite_c() { part "c unit tests" 900 tests/c check; }
suite_tsan() { part "c unit tests (tsan)" 1200 tests/c check-tsan; }
# With canaries, deliberate bugs: the simulation has to find each.
suite_sim() { part "sim" 3600 tests/sim suite; }
suite_simfast() { part "sim" 300 tests/sim suite PARTS=check RUNS=200; }
suite_fuzz() { part "fuzz" 300 tests/fuzz smoke SECONDS=10; }

# What calls answer, and the bytes that they send, as they were recorded.
suite_transcripts() {
  installed "transcripts" || return 0
  run "transcripts" 900 Rscript tools/transcripts.R
}

suite_testthat() {
  installed "testthat" || return 0
  set -- Rscript tools/testthat.R testthat tests/testthat
  if is_root && have setpriv; then set -- tools/not-root.sh "$@"; fi
  run "testthat" 3600 "$@"
}

# The files that R CMD check takes, too: see tests/testthat.R.
suite_quick() {
  installed "testthat (quick)" || return 0
  run "testthat (quick)" 900 env QUICK=1 Rscript tools/testthat.R "testthat (quick)" tests/testthat
}

suite_root() {
  if ! is_root; then
    skip "root" "only root can play other users, mount and set the kernel"
    return 0
  fi
  installed "root" || return 0
  run "root" 900 Rscript tools/testthat.R root tests/root
}

# EVERY=1 runs all cells of the matrix, EVERY=3, the default, a third.
suite_user_code() {
  installed "user-code" || return 0
  run "user-code" 1800 Rscript tools/testthat.R user-code tests/user-code
}

suite_full() {
  installed "full" || return 0
  run "full" 5400 Rscript tools/testthat.R full tests/full
}

suite_netns() {
  if ! unshare -rn ip link set lo up >/dev/null 2>&1; then
    skip "netns" "no network namespace can be made here (unshare -rn, ip)"
    return 0
  fi
  installed "netns" || return 0
  use_pcp
  run "netns" 2400 Rscript tools/testthat.R netns tests/netns
}

# SOAK=10000 kills more workers, HOURS=1 has a longer history.
suite_soak() {
  installed "soak" || return 0
  run "soak" 2400 Rscript tests/soak/soak.R "${SOAK:-300}"
  run "soak history" 7200 Rscript tests/soak/history.R "${HOURS:-0.02}"
}

# Every failure path once: a build whose fault points can be armed.
suite_faults() {
  run "faults" 2400 sh -c '
    tools/install.sh build/lib-faults tools/Makevars.faults || exit 1
    R_LIBS="$PWD/build/lib-faults:$R_LIBS" \
      Rscript tools/testthat.R faults tests/faults'
}

suite_asan() { run "testthat (asan, ubsan, thread checks)" 3600 tools/asan.sh; }
# The branches for other systems than Linux, compiled and run on Linux.
suite_portable() {
  part "c unit tests (portable)" 900 tests/c check-portable
  run "portable" 2400 tools/portable.sh
}

suite_compilers() { run "compilers" 2400 tools/compilers.sh; }
suite_rcheck() { run "R CMD check" 3600 Rscript tools/rcheck.R; }
# What make_root fetches and installs takes as long as the network does.
suite_bare() { run "bare" 2400 tools/bare.sh; }

suite_demo() {
  run "demo" 900 sh -c '
    WORKERS=8 make demo >build/demo.txt 2>&1 && ok=1 || ok=0
    cat build/demo.txt
    grep -q "^6[.] What muster doesn.t gain" build/demo.txt || ok=0
    echo "demo: $ok passed, $((1 - ok)) failed, 0 skipped"
    [ $ok -eq 1 ]'
}

# failures FILE: why each suite that is named there failed.
failures() {
  while read -r label; do
    printf '\n==== %s: what failed ====\n' "$label"
    tools/failures.sh "$(log_of "$label")"
  done <"$1"
}

# roll_of_failures FILE: the names alone, which fit where only a few lines are kept.
roll_of_failures() {
  [ -s "$1" ] || return 0
  printf '\nfailed:\n'
  while read -r label; do
    say "$label"
    grep -hE '^  failed +[0-9.]+ s  |^FAIL |^failed: |: missed|^check: ' "$(log_of "$label")" |
      sed -E 's/^  failed +[0-9.]+ s  //' | cut -c 1-90 | sed 's/^/  /' | head -n 8
  done <"$1"
}

# begin_second SUITE...: the second lane, a process of its own, as soon as the package is built.
begin_second() {
  if [ "$lanes" = 2 ] && [ -z "$lane$second_pid" ] && [ "$built" != unknown ]; then
    MUSTER_CHECK_BUILT=$built "$0" --second "$@" &
    second_pid=$!
  fi
}

# end_second waits for it and adds what it counted.
end_second() {
  [ -n "$second_pid" ] || return 0
  wait "$second_pid"
  second_pid=
  cat -- "$logs/second-table" >>"$logs/table"
  cat -- "$logs/second-failed" >>"$logs/failed"
  [ $quiet = yes ] || failures "$logs/second-failed"
  if [ -s "$logs/second-total" ]; then
    # Three numbers.
    # shellcheck disable=SC2046
    set -- $(tr -cd '0-9 ' <"$logs/second-total")
  else
    set -- 0 1 0
    say "the second lane told no counts"
  fi
  passed=$((passed + $1))
  failed=$((failed + $2))
  skipped=$((skipped + $3))
}

suite_pid=
second_pid=
stop() {
  trap - INT TERM HUP
  [ -z "$suite_pid" ] || kill "$suite_pid" 2>/dev/null
  [ -z "$second_pid" ] || kill "$second_pid" 2>/dev/null
  rm -f -- "$logs/${lane}pipe"*
  [ $quiet = no ] || failures "$logs/${lane}failed"
  warn "check: interrupted"
  exit 130
}
trap stop INT TERM HUP

for suite in "$@"; do
  case " $all quick simfast " in
    *" $suite "*) ;;
    *)
      warn "check: there is no suite '$suite'; there are: $all quick simfast"
      exit 1
      ;;
  esac
done
[ $quiet = no ] || [ -n "$lane" ] || row suite passed failed skipped time
last=
for suite in "$@"; do
  if [ "$suite" = demo ]; then
    last=demo
  elif ! taken "$suite"; then
    suite_"$(printf '%s' "$suite" | tr - _)"
  fi
  begin_second "$@"
done
end_second
if [ -n "$last" ] && [ -z "$lane" ]; then suite_demo; fi

if [ -n "$lane" ]; then
  say "$passed passed, $failed failed, $skipped skipped" >"$logs/${lane}total"
  exit $((failed > 0))
fi

if [ $quiet = no ]; then
  printf '\n'
  row suite passed failed skipped ''
  cat -- "$logs/table"
fi
if [ $skipped -gt 0 ]; then
  printf '\nskipped, and why:\n'
  for log in "$logs"/*.log; do
    [ -f "$log" ] && grep -hiE '^ *(skipped: |.*Reason: )' "$log"
  done | sed 's/^ *//' | sort | uniq -c | head -n 40
fi
if [ $quiet = yes ]; then
  failures "$logs/failed"
  roll_of_failures "$logs/failed"
fi
printf '\n'
say "$passed passed, $failed failed, $skipped skipped" | tee -- "$logs/total"
[ $failed -eq 0 ]
