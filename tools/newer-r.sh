#!/bin/sh
# Runs tests on the R of other releases of Debian, as an ordinary user:
#   tools/newer-r.sh RELEASE...        tests/testthat, workers and sessions that are killed, and
#                                      the release's own versions of other packages
#   tools/newer-r.sh --short RELEASE   a strict build and some files of the first, in a minute or
#                                      two, if the release's root is here
#   tools/newer-r.sh --run RELEASE COMMAND...   a command in /muster, a copy of this checkout
# trixie has R 4.5, sid 4.6 or newer. Their roots are made in build/roots, once (some 90 s each,
# 1 GB), with the packages of R that the release has built; `make clean` removes them. Needs root,
# debootstrap, mount namespaces, and the archive that this system's packages come from; without
# one of them the suite is skipped. Processes stay in this system's own namespace, where somebody
# waits for those whose parent ended.
set -u
. "$(dirname -- "$0")/common.sh"
. "$(dirname -- "$0")/root.sh"
label="newer R"
passed=0
failed=0
skipped=0

# What R changes most: methods of parallel's, calls, captures, how a worker runs; workers killed.
short="parallel-(calls|contract|examples|methods)|heal|map-captured|psock-kinds|worker-main"
# Those of muster's Suggests, and of its tests, that Debian has built.
packages="testthat withr callr processx bit64 data.table doparallel dplyr foreach future iterators
  jsonlite knitr parallelly progressr promises purrr shiny tidyr snow dosnow r6 boot codetools mass"

finish() {
  say "$label: $passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}
skip_all() {
  say "skipped: $1"
  skipped=1
  finish
}

# make_newer: the root of $release, unless it is here.
make_newer() {
  [ ! -e "$base/made" ] || { use_proxy && mount_root; return; }
  rm -rf -- "$base" && mkdir -p -- "$base" || return 1
  make_root "$release" r-base-dev make procps openssh-server openssh-client || return 1
  # One by one, since not every release has all of them.
  # shellcheck disable=SC2016,SC2086
  in_root sh -c 'for package in "$@"; do
      DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "r-cran-$package"
    done; apt-get clean' sh $packages
  : >"$base/made"
}

# suite NAME FILES: one of tools/suite.sh's in the root, and what it counted.
suite() {
  in_root env AS_USER=1 FILTER="${FILTER:-$2}" ${TEST_FILE:+"TEST_FILE=$TEST_FILE"} \
    MUSTER_TEST_SEED="${MUSTER_TEST_SEED:-1}" tools/suite.sh "$1" >"$log" 2>&1
  cat -- "$log"
  add_counts "$log"
}

# on_release: installs this checkout there and runs tests.
on_release() {
  say "---- $release: $(in_root R --version | head -n 1)"
  if ! in_root tools/suite.sh build >"$log" 2>&1; then
    cat -- "$log"
    say "failed: the package can't be installed"
    failed=$((failed + 1))
  elif [ "$mode" = --short ]; then
    suite testthat "^($short)\$"
  else
    suite testthat ""
    suite vital "^(crash-matrix|orphans|parallel-versions)\$"
  fi
}

mode=
case ${1:-} in
  --short | --run)
    mode=$1
    shift
    ;;
esac
[ -z "$mode" ] || [ -e "build/roots/${1:-}/made" ] ||
  skip_all "there is no root of $1; tools/newer-r.sh $1 makes it"
PATH=$PATH:/usr/sbin:/sbin
export PATH
is_root || skip_all "only root can make the root of another system"
have debootstrap || skip_all "there is no debootstrap"
find_archive || skip_all "this system's packages come from no archive of its release"
if [ -z "${MUSTER_OWN_MOUNTS:-}" ]; then
  unshare -m true 2>/dev/null || skip_all "no mount namespace can be made here (unshare -m)"
  MUSTER_OWN_MOUNTS=yes exec unshare -m "$0" ${mode:+"$mode"} "$@"
fi

mkdir -p -- build/roots
scratch=$(mktemp -d) || exit 1
trap 'rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
log=$scratch/log
for release in "$@"; do
  base=$root/build/roots/$release
  [ "$mode" != --run ] || shift
  if [ ! -e "$base/made" ] && ! has_release "$release" "$scratch"; then
    say "skipped: can't reach the archive of this system's packages, or it has no $release"
    skipped=$((skipped + 1))
  # In memory, so that runs at the same time have a /muster each.
  elif ! { make_newer && mount -t tmpfs -o mode=755 tmpfs "$base/muster" && fill_root; } \
    >"$log" 2>&1; then
    tail -n 40 -- "$log"
    say "failed: the root of $release can't be made"
    failed=$((failed + 1))
  elif [ "$mode" = --run ]; then
    in_root "$@"
    exit
  else
    on_release
  fi
done
finish
