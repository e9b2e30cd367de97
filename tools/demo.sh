#!/bin/sh
# Runs the main job, demo/bootstrap.R, on the muster in ./.lib.
set -u
. "$(dirname -- "$0")/common.sh"
exec Rscript demo/bootstrap.R </dev/null
