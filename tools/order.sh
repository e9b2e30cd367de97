#!/bin/sh
# Fails if files use each other in a circle: tools/order.sh OBJECT...
# Their object files go in. tsort names the files of each circle.
set -u
uses=$(mktemp) || exit 1
trap 'rm -f -- "$uses"' EXIT
nm -A -g "$@" | awk '
  { file = $1; sub(/:.*/, "", file); kind = $(NF - 1) }
  kind == "U" { user[++n] = file; used[n] = $NF }
  kind ~ /^[BDRT]$/ { home[$NF] = file }
  END { for (i = 1; i <= n; i++)
    if (used[i] in home && home[used[i]] != user[i]) print user[i], home[used[i]] }' |
  sort -u >"$uses"
tsort "$uses" >/dev/null
