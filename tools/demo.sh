#!/bin/sh
# Runs the tour, demo/tour.R, on the muster in ./.lib.
set -u
. "$(dirname -- "$0")/common.sh"
exec Rscript demo/tour.R </dev/null
