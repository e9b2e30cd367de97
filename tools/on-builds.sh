#!/bin/sh
# Runs test files on builds that are made of other flags than usual:
#   tools/on-builds.sh LABEL KIND FILES DIR [KIND FILES DIR...]
# installs muster into build/lib-KIND by tools/Makevars.KIND, and runs what FILES, a regular
# expression of their names (without "test-" and ".R"), takes of DIR. A build counts as a test. A
# kind that needs clang is skipped where there is none. FILTER=regexp takes other files.
set -u
. "$(dirname -- "$0")/common.sh"

label=$1
shift
passed=0
failed=0
skipped=0
built=
while [ $# -ge 3 ]; do
  kind=$1 files=$2 dir=$3
  shift 3
  if [ "$kind" = clang ] && ! have clang; then
    say "skipped: there is no clang"
    skipped=$((skipped + 1))
    continue
  fi
  if [ "$kind" != "$built" ]; then
    if ! tools/install.sh "build/lib-$kind" "tools/Makevars.$kind" >"build/$kind.log" 2>&1; then
      cat -- "build/$kind.log"
      say "failed: the build ($kind)"
      failed=$((failed + 1))
      continue
    fi
    built=$kind
    passed=$((passed + 1))
  fi
  say "---- on the build $kind: $dir"
  R_LIBS="$root/build/lib-$kind:$R_LIBS" FILTER="${FILTER:-^(test-)?($files)([.]R)?\$}" \
    Rscript tools/testthat.R "on $kind" "$dir" >"build/$kind.log" 2>&1
  cat -- "build/$kind.log"
  add_counts "build/$kind.log"
done
say "$label: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
