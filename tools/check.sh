#!/bin/sh
# Runs suites of tests beside each other, and tells one verdict:
#   tools/check.sh            those that judge a change: `make check`
#   tools/check.sh all        all there are: `make check-all`, each time with another seed
#   tools/check.sh SUITE...   these; tools/suite.sh says what they are
# LANES=N suites run at a time; by default 2, and on a busy machine, where each of them has only a
# share of a core, up to 10. What else is heeded in the environment:
# tools/suite.sh.
#
# A suite that doesn't tell its counts, ends with another status than they say, passes its limit
# of time (for what hangs, on a machine that is busy with other work) or leaves processes behind
# counts as one more failure. A test file that failed runs again by itself when the lanes have
# ended, twice at most; if it passes, its tests count as passed and are named as flaky. What
# crashed, or left a process, doesn't run again.
#
# The last line is the sum of all tests: `N passed, N failed, N skipped`. In build/check: a log
# of each suite, and of what ran again; flaky; total, the last line; and, when no suites
# were named, commit: the commit (with -dirty if something was changed), passed, failed,
# skipped.
set -u
. "$(dirname -- "$0")/common.sh"

# Those that take longest first, so that the lanes end at about the same time.
gate="build testthat-1 testthat-2 testthat-3 testthat-4 testthat-5 testthat-6 testthat-7"
gate="$gate testthat-8 vital package c demo tidy sim transcripts root r45 r46"
more="full load newer-r sim-all asan rcheck faults netns soak history bare user-code tsan fuzz"
more="$more c-portable portable compilers testthat memory"
# The package in ./.lib isn't what these test.
without_package="build tidy c sim sim-all tsan fuzz c-portable"
logs=$root/build/check

is_in() { case " $2 " in *" $1 "*) ;; *) return 1 ;; esac }

row() { printf '%-14s %7s %7s %8s  %s\n' "$@"; }

# nothing_left MARK: 0 if no process has it in its environment, else $left has their ids.
nothing_left() {
  left=$(grep -lsz "^$1\$" /proc/[0-9]*/environ | cut -d / -f 3)
  [ -z "$left" ]
}

# in_time SECONDS COMMAND...: 0 as soon as the command says yes, 1 if it doesn't in that time.
in_time() {
  tries=$(($1 * 5))
  shift
  until "$@"; do
    [ $tries -gt 0 ] || return 1
    tries=$((tries - 1))
    sleep 0.2
  done
}

# make_cgroup NAME: a memory cgroup below ours, where one can be made; prints the file that takes
# processes in. What the kernel ends for memory in one suite is counted there, and not taken for
# a loss of another's.
make_cgroup() {
  own=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup 2>/dev/null)
  if [ -f "$own/memory.oom_control" ] && mkdir -- "$own/$1" 2>/dev/null; then
    say "$own/$1/cgroup.procs"
  fi
}

# run SUITE LOG LIMIT_S: sets $passed, $failed, $skipped, $seconds, and $why it failed if not by
# its tests alone. It runs in the background, so that an interrupt ends it too, and in a session of
# its own: Linux shares cores between sessions.
run() {
  began=$(date +%s)
  mark=MUSTER_CHECK_MARK=$$.$began
  group=$(make_cgroup "muster-check-$$.$began")
  # shellcheck disable=SC2016 # these are of the sh that becomes the suite
  env "$mark" ${alone:+setsid -w} sh -c 'echo $$ >"$0"; exec "$@"' "${group:-/dev/null}" \
    ${limiter:+"$limiter" -k 30 "$3"} tools/suite.sh "$1" >"$2" 2>&1 </dev/null &
  pid=$!
  wait $pid
  status=$?
  pid=
  why=
  if ! in_time 5 nothing_left "$mark"; then
    why="processes outlived the suite"
    for process in $left; do
      say "check: still running: $process $(tr '\0' ' ' <"/proc/$process/cmdline")" >>"$2"
      kill -9 "$process" 2>/dev/null
    done
  fi
  [ -z "$group" ] || rmdir -- "${group%/*}"
  counts=$(counts_of "$2")
  read -r passed failed skipped <<END
${counts:-0 0 0}
END
  if [ -z "$counts" ]; then
    why="it ended with status $status and told no counts"
  elif [ $status -ne 0 ] && [ "$failed" -eq 0 ]; then
    why="it ended with status $status"
  fi
  case $status in
    124 | 137) why="it passed its limit of time" ;;
  esac
  if [ -n "$why" ]; then
    failed=$((failed + 1))
    say "check: $1: $why" >>"$2"
  fi
  seconds=$(($(date +%s) - began))
}

# run_suite SUITE: a row of the table, and of build/check/SUITE.row, without the words.
run_suite() {
  run "$1" "$logs/$1.log" 5400
  say "$passed $failed $skipped" >"$logs/$1.row"
  beside=$(sed -n 's/^beside: //p' "$logs/$1.log" | tail -n 1)
  row "$1" "$passed" "$failed" "$skipped" "$seconds s${beside:+  $beside}${why:+  $why}"
  # Without the package nothing else makes sense.
  [ "$1" != build ] || [ "$failed" -eq 0 ]
}

# run_again SUITE: the test files that failed there, by themselves.
run_again() {
  first=$logs/$1.log
  read -r passed_before failed_before skipped_before <"$logs/$1.row"
  sed -n 's/^again: \([^:]*\): .*/\1/p' "$first" | sort -u >"$logs/again"
  while read -r file <&3; do
    for attempt in 1 2; do
      TEST_FILE=$file run "$1" "$logs/$1-$file-again-$attempt.log" 1800
      row "$1" "$passed" "$failed" "$skipped" "$seconds s  $file, again"
      if [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]; then
        sed -n "s/^again: $file: /flaky: $1, $file: /p" "$first" >>"$logs/flaky"
        n=$(grep -c "^again: $file: " "$first")
        passed_before=$((passed_before + n))
        failed_before=$((failed_before - n))
        break
      fi
    done
  done 3<"$logs/again"
  rm -f -- "$logs/again"
  say "$passed_before $failed_before $skipped_before" >"$logs/$1.row"
}

# roll_of SUITE: the names of what failed, which fit where only a few lines are kept.
roll_of() {
  say "$1"
  grep -ahE '^  failed +[0-9.]+ s  |^FAIL |^failed: |: missed|^check: ' "$logs/$1.log" |
    sed -E 's/^  failed +[0-9.]+ s  //' | cut -c 1-90 | sed 's/^/  /' | head -n 8
}

limiter=
for program in timeout gtimeout; do
  if have $program; then
    limiter=$program
    break
  fi
done

alone=
! have setsid || alone=yes

pid=
trap 'trap - INT TERM HUP; [ -z "$pid" ] || kill "$pid" 2>/dev/null; exit 130' INT TERM HUP
if [ "${1:-}" = --suite ]; then
  run_suite "$2"
  exit
fi

whole=no
# Lists of words.
# shellcheck disable=SC2046,SC2086
case "$*" in
  '')
    whole=yes
    set -- $gate
    ;;
  all)
    whole=yes
    # What these show is in sim-all, full, rcheck and newer-r.
    set -- $(printf '%s\n' $gate $more | grep -vxE 'testthat|sim|vital|package|r4.')
    MUSTER_TEST_SEED=${MUSTER_TEST_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
    export MUSTER_TEST_SEED
    say "seed $MUSTER_TEST_SEED; again: MUSTER_TEST_SEED=$MUSTER_TEST_SEED make check-all"
    ;;
esac
for suite in "$@"; do
  if ! is_in "$suite" "$gate $more"; then
    warn "check: there is no suite '$suite'; there are: $gate $more"
    exit 1
  fi
done
[ -n "$limiter" ] || warn "check: no timeout program here, so suites run without a limit of time"

rm -rf -- "$logs" && mkdir -p -- "$logs" || exit 1
: >"$logs/flaky"
commit=$(git rev-parse HEAD 2>/dev/null || say unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit=$commit-dirty

row suite passed failed skipped time
for suite in "$@"; do
  say "all: $suite"
  say ".PHONY: $suite"
  say "$suite: ; @tools/check.sh --suite $suite"
  is_in "$suite" "$without_package" || say "$suite: build"
done | {
  cat
  is_in build "$*" || say "build: ; @tools/check.sh --suite build"
} >"$logs/suites.mk"
make -s -k -j "${LANES:-$(jobs_here)}" -f "$logs/suites.mk" all &
pid=$!
wait $pid
pid=

is_in build "$*" || ! [ -e "$logs/build.row" ] || set -- build "$@"
total_passed=0 total_failed=0 total_skipped=0 bad=
for suite in "$@"; do
  if ! [ -e "$logs/$suite.row" ]; then
    say "check: it didn't run, since the package can't be built" >"$logs/$suite.log"
    say "0 1 0" >"$logs/$suite.row"
  elif grep -q '^again: ' "$logs/$suite.log"; then
    run_again "$suite"
  fi
  read -r passed failed skipped <"$logs/$suite.row"
  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_skipped=$((total_skipped + skipped))
  [ "$failed" -eq 0 ] || bad="$bad $suite"
done

if [ $total_skipped -gt 0 ]; then
  printf '\nskipped, and why:\n'
  grep -ahiE '^ *(skipped: |.*Reason: )' "$logs"/*.log | sed 's/^ *//' | sort | uniq -c | head -n 40
fi
for suite in $bad; do
  printf '\n==== %s: what failed ====\n' "$suite"
  tools/failures.sh "$logs/$suite.log"
done
if [ -n "$bad" ]; then
  printf '\nfailed:\n'
  for suite in $bad; do roll_of "$suite"; done
fi
printf '\n'
cat -- "$logs/flaky"
say "$total_passed passed, $total_failed failed, $total_skipped skipped" | tee -- "$logs/total"
if [ $whole = yes ]; then
  say "$commit $total_passed $total_failed $total_skipped" >"$logs/commit"
fi
[ $total_failed -eq 0 ]
