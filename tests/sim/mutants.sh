#!/bin/sh
# Builds the programs of the simulation with deliberate bugs in the core, and tells whether
# each is found: mutants.sh [NAME...], all by default. With --places only whether the code is there
# in which each puts its bug. For `make canary` and `make check-mutants`, which set
#   BUILD    where objects are and mutants go     SRC      the core's sources
#   COMPILE  the compiler with its flags          WRAP     what else links the simulation
#   CORE_OBJ, SIM_OBJ, EXPLORE_OBJ, SITE_OBJ  objects
set -u
list=$(dirname -- "$0")/mutants.txt
found=0
missed=0
places=no
if [ "${1:-}" = --places ]; then
  places=yes
  shift
fi
limiter=
# What bounds a search are its runs and its worlds. A bug in the core may go round in circles.
if command -v timeout >/dev/null; then limiter="timeout 600"; fi

say() { printf '%s\n' "$1"; }

miss() {
  say "canary $name: missed: $1"
  missed=$((missed + 1))
}

# put: the mutant's file with its bug.
put() {
  dir=$BUILD/mutants/$name
  mkdir -p -- "$dir"
  awk -v name="$name" '
    /^#/ || !NF { next }
    /^[^ ]/ { on = $1 == name; next }
    on { sub(/^ +/, ""); print }' "$list" >"$dir/script"
  whole=$SRC/pool/$file
  [ -f "$whole" ] || whole=$SRC/sched/$file
  sed -f "$dir/script" "$whole" >"$dir/$file" || return 1
  if cmp -s -- "$dir/$file" "$whole"; then
    say "its place isn't in $file any more" >"$dir/out"
    return 1
  fi
}

# build: with it in place of the core's.
build() {
  put || return 1
  [ $places = no ] || return 0
  objects=$(say "$CORE_OBJ" | tr ' ' '\n' | grep -v "/${file%.c}[.]o\$")
  case $program in
    sim) own="$SIM_OBJ $WRAP" ;;
    site) own=$SITE_OBJ objects= ;;
    *) own=$EXPLORE_OBJ ;;
  esac
  # shellcheck disable=SC2086 # lists of words
  $COMPILE -Wno-error -w -o "$dir/run" "$dir/$file" $objects $own -pthread >"$dir/out" 2>&1
}

# try: whether the program finds the bug, and says what is expected.
try() {
  if ! build; then
    miss "$(tail -n 1 -- "$dir/out")"
    return
  fi
  if [ $places = yes ]; then
    found=$((found + 1))
    rm -rf -- "$dir"
    return
  fi
  case $program in
    sim) set -- --runs 5000 --few ;;
    site) set -- --runs 2000 ;;
    *) set -- --until-failure ;;
  esac
  # shellcheck disable=SC2086
  $limiter "$dir/run" "$@" >"$dir/out" 2>&1
  status=$?
  what=$(sed -n '/ failed[ :]/{s/^sim: //p;q;}' "$dir/out")
  if [ $status -eq 0 ] || [ $status -eq 124 ] || ! grep -q '^sim: replay:' "$dir/out"; then
    miss "status $status"
  elif [ "$words" != - ] && ! grep -qF -- "$words" "$dir/out"; then
    miss "found, but otherwise: $what"
  else
    say "canary $name: found by $program ($what)"
    found=$((found + 1))
    rm -rf -- "$dir"
  fi
}

while read -r name file program words <&3; do
  if [ $# -gt 0 ]; then
    case " $* " in *" $name "*) ;; *) continue ;; esac
  fi
  try
done 3<<END
$(grep '^[a-z]' "$list")
END
say "mutants: $found passed, $missed failed, 0 skipped"
[ $missed -eq 0 ]
