#!/bin/sh
# Builds muster and installs it:
#   tools/install.sh [LIBRARY [MAKEVARS [OPTION...]]]
# into ./.lib unless another library is named, with the compiler flags of a
# Makevars file where one is named, and options of R CMD INSTALL.
set -u
. "$(dirname -- "$0")/common.sh"

library=${1:-.lib}
[ $# -gt 0 ] && shift
makevars=${1:-}
[ $# -gt 0 ] && shift

mkdir -p -- "$library" || exit 1
library=$(cd -- "$library" && pwd -P)
mkdir -p -- build && scratch=$(mktemp -d "$root/build/install.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
build_tarball "$scratch" || exit 1
if [ -n "$makevars" ]; then
  R_MAKEVARS_USER=$root/$makevars
  export R_MAKEVARS_USER
fi
MAKE="${MAKE:-make} -j $(jobs_here)"
export MAKE
# The library goes first, so that the load test at the end loads what was built.
R_LIBS="$library:$R_LIBS" R CMD INSTALL --no-multiarch --library="$library" "$@" "$tarball"
