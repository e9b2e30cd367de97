#!/bin/sh
# Makes the source package, build/package/muster_*.tar.gz, with vignettes if they can be
# built here.
set -u
. "$(dirname -- "$0")/common.sh"
if can_vignettes; then
  build_tarball "$root/build/package" vignettes || exit 1
else
  warn "built without vignettes: they need knitr, rmarkdown and pandoc"
  build_tarball "$root/build/package" || exit 1
fi
say "$tarball"
