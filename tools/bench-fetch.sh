#!/bin/sh
# Runs the shuffle's settings in a network namespace of their own, with the muster in ./.lib:
#   tools/bench-fetch.sh [RUNS]
# bench/fetch/run.R writes tables and figures.
set -u
. "$(dirname -- "$0")/common.sh"

missing=
for program in unshare ip Rscript cc; do
  have $program || missing="$missing $program"
done
if [ -n "$missing" ]; then
  warn "bench-fetch: missing here:$missing (unshare is of util-linux, ip of iproute2)"
  exit 1
fi
if ! unshare -rn ip link set lo up 2>/dev/null; then
  warn "bench-fetch: no network namespace can be made here (unshare -rn)"
  exit 1
fi
exec unshare -rn tests/netns/namespace.sh -- Rscript bench/fetch/run.R "$@" </dev/null
