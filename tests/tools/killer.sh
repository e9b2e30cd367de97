#!/bin/sh
# Sends signals to the children of some processes, the workers of fork servers, one
# after another:
#   killer.sh SEED PAUSE_S "KILL TERM ..." "PID ..."
# Which child and which signal is chosen at random; between two signals it waits for one
# to two times PAUSE_S. It goes on until it is ended, or none of the processes is there.
# Lists are words in one variable, and meant to be split.
# shellcheck disable=SC2086
set -u
seed=$1
pause=$2
signals=$3
parents=$4

draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); }

# pick WORD...: one of them.
pick() {
  shift $((seed / 65536 % $#))
  printf '%s\n' "$1"
}

while :; do
  draw
  sleep "$(awk "BEGIN { print $pause * (1 + $seed / 2147483648) }")"
  children=
  there=
  for pid in $parents; do
    [ -d "/proc/$pid" ] || continue
    there=yes
    children="$children $(cat "/proc/$pid/task/$pid/children" 2>/dev/null)"
  done
  [ -n "$there" ] || exit 0
  [ -n "${children# }" ] || continue
  draw
  victim=$(pick $children)
  draw
  kill -s "$(pick $signals)" "$victim" 2>/dev/null
done
