# shellcheck shell=sh
# Sourced by the scripts in tools/: goes to the checkout's root, puts ./.lib in
# front of R's libraries, and has the few functions that all of them use.
# POSIX sh; the sourcing script has set -u.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
cd -- "$root" || exit 1

case ":${R_LIBS:-}:" in
  ":$root/.lib:"*) ;;
  *) R_LIBS="$root/.lib${R_LIBS:+:$R_LIBS}" ;;
esac
export R_LIBS
mkdir -p .lib || exit 1

# A make that runs us must not hand its jobs and flags to the make inside R.
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES 2>/dev/null || :

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" -eq 0 ]; }

# jobs_here: how many jobs should run at a time. Beside other work each has a part of a core only.
jobs_here() {
  load=$(cut -d . -f 1 /proc/loadavg 2>/dev/null || say 0)
  jobs=$((2 + 2 * load / $(getconf _NPROCESSORS_ONLN)))
  [ $jobs -le 10 ] || jobs=10
  say $jobs
}

# counts_of LOG: passed, failed and skipped, as its last line of counts tells them; or nothing.
counts_of() {
  sed -nE 's/^(.*: )?([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\2 \3 \4/p' "$1" |
    tail -n 1
}

# add_counts LOG: adds them to $passed, $failed and $skipped; what told none is one more failure.
add_counts() {
  read -r p f s <<END
$(counts_of "$1" | grep . || say 0 1 0)
END
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# use_pcp puts PCP's programs into the path, where tools/setup.sh unpacked them.
use_pcp() {
  have pmfind && return 0
  [ -x build/pcp/usr/bin/pmfind ] || return 0
  PCP_DIR=$root/build/pcp
  PCP_BINADM_DIR=$PCP_DIR/usr/lib/pcp/bin
  PATH=$PATH:$PCP_DIR/usr/bin
  for folder in "$PCP_DIR"/lib "$PCP_DIR"/usr/lib "$PCP_DIR"/usr/lib/*-linux-gnu*; do
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
  done
  export PCP_DIR PCP_BINADM_DIR PATH LD_LIBRARY_PATH
}

# build_tarball DIR [vignettes|plain] makes the source package in DIR and sets $tarball, with
# vignettes where they are asked for: by knitr and pandoc, which takes an installation, or
# plain, by tools/vignettes.R and the muster that is installed. All
# installing starts from it, never from src/, so that objects of one build (a
# sanitizer's, say) never get into another, nor into the checkout. R CMD build
# copies all of a folder before it leaves out what .Rbuildignore says, so it
# gets a copy without the large ones.
build_tarball() {
  tarball=
  rm -rf -- "$1/muster" && mkdir -p -- "$1/muster" || return 1
  rm -f -- "$1"/muster_*.tar.gz
  tar -cf - --exclude=./.git --exclude=./.lib --exclude=./build . |
    tar -xf - -C "$1/muster" || return 1
  if [ "${2:-}" = plain ]; then
    Rscript tools/vignettes.R "$1/muster" || return 1
  fi
  if [ "${2:-}" = vignettes ]; then
    (cd -- "$1" && R CMD build --no-manual muster) || return 1
  else
    (cd -- "$1" && R CMD build --no-manual --no-build-vignettes muster) || return 1
  fi
  rm -rf -- "$1/muster"
  for file in "$1"/muster_*.tar.gz; do
    [ -f "$file" ] && tarball=$file
  done
  [ -n "$tarball" ]
}

# can_vignettes: here is what builds them.
can_vignettes() {
  Rscript -e 'here <- requireNamespace("rmarkdown", quietly = TRUE) &&' \
    -e '  requireNamespace("knitr", quietly = TRUE) && rmarkdown::pandoc_available("1.14")' \
    -e 'quit(status = !here)' >/dev/null 2>&1
}
