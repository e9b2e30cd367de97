#!/bin/sh
# Runs the benchmarks on the muster in ./.lib; bench/run.R writes its table.
set -u
. "$(dirname -- "$0")/common.sh"
exec Rscript bench/run.R "$@" </dev/null
