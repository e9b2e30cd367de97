#!/bin/sh
# Makes the source package, build/package/muster_*.tar.gz.
set -u
. "$(dirname -- "$0")/common.sh"
build_tarball "$root/build/package" || exit 1
say "$tarball"
