#!/bin/sh
# Sends signals to the children of some processes, the workers of fork servers, one
# after another:
#   killer.sh SEED PAUSE_S "KILL TERM ..." "PID ..." [MARKS]
# Which child and which signal is chosen at random; between two signals it waits for one
# to two times PAUSE_S. It goes on until it is ended, or none of the processes is there.
#
# A worker that was killed four times in 5 s without having come to any call is given up, and on a
# busy machine that may take a worker longer than the pauses. So one that left no file of its pid in
# the folder MARKS is killed every 3 s at most.
#
# A worker's standby becomes a child of the fork server when the worker ends. It isn't killed, since
# the loss of both is an error.
# Lists are words in one variable, and meant to be split.
# shellcheck disable=SC2086
set -u
seed=$1
pause=$2
signals=$3
parents=$4
marks=${5:-}
early_s=0

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
  ! grep -aqs standby "/proc/$victim/cmdline" || continue
  if [ -n "$marks" ] && [ ! -e "$marks/$victim" ]; then
    now_s=$(date +%s)
    [ $((now_s - early_s)) -ge 3 ] || continue
    early_s=$now_s
  fi
  draw
  kill -s "$(pick $signals)" "$victim" 2>/dev/null
done
