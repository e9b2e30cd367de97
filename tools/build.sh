#!/bin/sh
# Makes the source package, build/package/muster_*.tar.gz, with all vignettes: by knitr,
# rmarkdown and pandoc, or where one of them is missing, or with MUSTER_VIGNETTES=plain in the
# environment, by tools/vignettes.R, which needs nothing but R and makes plainer pages.
set -u
. "$(dirname -- "$0")/common.sh"
if [ "${MUSTER_VIGNETTES:-}" != plain ] && can_vignettes; then
  build_tarball "$root/build/package" vignettes || exit 1
else
  warn "building plain vignettes: others need knitr, rmarkdown and pandoc"
  # Their code runs on what is built here.
  library=$root/build/lib-vignettes
  tools/install.sh "$library" || exit 1
  R_LIBS="$library:$R_LIBS"
  build_tarball "$root/build/package" plain || exit 1
fi
say "$tarball"
