#!/bin/sh
# Runs the benchmarks on the muster in ./.lib; bench/run.R writes its table.
set -u
. "$(dirname -- "$0")/common.sh"
use_pcp
exec Rscript bench/run.R "$@" </dev/null
