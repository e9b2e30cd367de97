#!/bin/sh
# Runs the benchmarks on the muster in ./.lib; bench/run.R writes its table. Without
# arguments all of them and bench/bars.R; `bars` alone is that one. Status 1 if a bar is missed.
set -u
. "$(dirname -- "$0")/common.sh"
use_pcp
status=0
if [ "$*" != bars ]; then Rscript bench/run.R "$@" </dev/null || status=1; fi
case $* in
  '' | bars) Rscript bench/bars.R </dev/null || status=1 ;;
esac
exit $status
