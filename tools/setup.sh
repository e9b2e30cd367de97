#!/bin/sh
# Installs what a target of the Makefile needs and this machine has not:
#   tools/setup.sh run       the package and its demo
#   tools/setup.sh check     every test
#   tools/setup.sh bench     the peers that bench/ compares with
#   tools/setup.sh document  roxygen2
#
# R packages go into ./.lib, from the repository that R is set up with, and
# nowhere else. System packages: as root on Debian and its kin the missing ones
# are named and installed; anyone else gets the one line to run, and status 2.
# Nothing calls sudo. Without network, what is here is used; the rest is named,
# and the tests that want it are skipped. So they are where that line can't be
# run, with MISSING=skip in the environment.
#
# With CI=true what the installers say goes to build/setup-*.log; the screen gets
# what was missing and, if that can't be helped, the log's end.
#
# Status: 0 go on, 1 can't go on, 2 can't go on before that line has been run.
set -u
. "$(dirname -- "$0")/common.sh"

mode=${1:-}
case $mode in
  run | check | bench | document) ;;
  *)
    warn "usage: tools/setup.sh run|check|bench|document"
    exit 1
    ;;
esac

if [ "${CI:-}" = true ] && [ -z "${MUSTER_SETUP_LOGGED:-}" ]; then
  mkdir -p -- build || exit 1
  log=$root/build/setup-$mode.log
  MUSTER_SETUP_LOGGED=1 tools/setup.sh "$mode" >"$log" 2>&1
  status=$?
  if [ $status -eq 0 ]; then
    grep -E '^(setup: |E: |ERROR: )' "$log" | cut -c 1-200 | head -n 20
  else
    say "setup: status $status; the end of $log:"
    tail -n 60 -- "$log"
  fi
  exit $status
fi

# ---- system packages ------------------------------------------------------

# What the system's own packages are called. family: deb, rpm, brew, or none.
family() {
  if have apt-get && have dpkg; then
    say deb
  elif have dnf || have yum; then
    say rpm
  elif have brew; then
    say brew
  else
    say none
  fi
}

# package_of NEED: the packages which bring it.
package_of() {
  case $family:$1 in
    deb:r) say "r-base-dev r-cran-boot r-cran-codetools" ;;
    deb:headers | deb:compiler) say "r-base-dev" ;;
    deb:clang) say "clang $(clang_runtime)" ;;
    rpm:r | rpm:headers) say "R-core-devel" ;;
    rpm:compiler) say "gcc gcc-c++ gcc-gfortran" ;;
    deb:libuv) say "libuv1-dev" ;;
    deb:sshd | rpm:sshd) say "openssh-server" ;;
    deb:ggplot2) say "r-cran-ggplot2" ;;
    deb:rmarkdown) say "r-cran-rmarkdown pandoc" ;;
    rpm:rmarkdown | brew:rmarkdown) say "pandoc" ;;
    rpm:clang) say "clang compiler-rt" ;;
    rpm:libuv) say "libuv-devel" ;;
    brew:r | brew:headers) say "r" ;;
    brew:compiler) say "gcc" ;;
    brew:clang) say "llvm" ;;
    brew:tidy) say "tidy-html5" ;;
    *:r) say "R" ;;
    *:headers) say "R-devel" ;;
    *:compiler) say "gcc" ;;
    *) say "$1" ;;
  esac
}

# The library that clang's -fsanitize needs has clang's version in its name.
clang_runtime() {
  version=$(apt-cache depends clang 2>/dev/null |
    sed -n 's/^ *Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
  if [ -n "$version" ]; then say "libclang-rt-$version-dev"; fi
}

# has NEED: is it here? Programs are tried, not looked up in a list of packages,
# so that an R or a compiler that somebody built counts too.
has() {
  case $1 in
    r) have R && have Rscript ;;
    headers)
      ! have R || { makeconf=$(R RHOME)/etc/Makeconf && [ -f "$makeconf" ] &&
        [ -f "$(R CMD config --cppflags 2>/dev/null |
          sed -n 's/^-I"\{0,1\}\([^"]*[^" ]\).*$/\1/p' | head -n 1)/R.h" ]; }
      ;;
    compiler)
      if have R; then
        # The compiler may come with options, as in "gcc -std=gnu99".
        # shellcheck disable=SC2046
        set -- $(R CMD config CC 2>/dev/null)
        [ $# -gt 0 ] && have "$1"
      else
        have cc || have gcc
      fi
      ;;
    clang) clang_fuzzes ;;
    sshd) have sshd || [ -x /usr/sbin/sshd ] ;;
    rmarkdown)
      if [ "$family" = deb ]; then can_vignettes; else have pandoc; fi
      ;;
    ggplot2)
      # With all that it needs it takes long from source: built, or not at all.
      [ "$family" != deb ] || { have Rscript &&
        Rscript -e 'quit(status = !nzchar(system.file(package = "ggplot2")))'; }
      ;;
    libuv)
      # Only for building testthat, of which a part wants it.
      have Rscript && Rscript -e 'quit(status = !nzchar(system.file(package = "testthat")))' ||
        [ -f /usr/include/uv.h ] || { have pkg-config && pkg-config --exists libuv; }
      ;;
    *) have "$1" ;;
  esac
}

# clang_fuzzes: some clang, plain or with a version in its name, links a fuzzer.
clang_fuzzes() {
  for clang in clang /usr/bin/clang-[1-9] /usr/bin/clang-[1-9][0-9]; do
    have "$clang" || continue
    dir=$(mktemp -d) || return 1
    printf '%s\n' '#include <stddef.h>' \
      'int LLVMFuzzerTestOneInput(const unsigned char *d, size_t n);' \
      'int LLVMFuzzerTestOneInput(const unsigned char *d, size_t n) {' \
      '  return d == NULL && n > 0; }' >"$dir/f.c"
    "$clang" -fsanitize=fuzzer,address,undefined "$dir/f.c" -o "$dir/f" 2>/dev/null
    status=$?
    rm -rf -- "$dir"
    [ $status -eq 0 ] && return 0
  done
  return 1
}

# missing_of NEED...: those that are not here.
missing_of() {
  for need in "$@"; do
    has "$need" || printf '%s ' "$need"
  done
}

# packages_of NEED...: their packages, each once.
packages_of() {
  for need in "$@"; do
    # Each answer is a list of words.
    # shellcheck disable=SC2046
    printf '%s\n' $(package_of "$need")
  done | awk '!seen[$0]++' | tr '\n' ' ' | sed 's/ $//'
}

install_line() {
  case $family in
    deb) say "apt-get update && apt-get install -y --no-install-recommends $*" ;;
    rpm) if have dnf; then say "dnf install -y $*"; else say "yum install -y $*"; fi ;;
    brew) say "brew install $*" ;;
    *) say "install with this system's package manager: $*" ;;
  esac
}

updated=no
# Package lists are brought up to date at most once, and only to install.
apt_update() {
  [ $updated = yes ] && return 0
  updated=yes
  apt-get update -q || warn "setup: the package lists can't be brought up to date."
}

apt_install() {
  apt_update
  # Lists of words.
  # shellcheck disable=SC2048,SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
    --no-install-recommends $* </dev/null
}

family=$(family)
needed="r headers compiler make"
optional=
[ "$mode" = check ] && optional="libuv qpdf tidy clang sshd ggplot2 rmarkdown"

# Lists of words from here on.
# shellcheck disable=SC2086
{
  missing=$(missing_of $needed)
  wanted=$(missing_of $optional)
  if [ -n "$missing$wanted" ] && [ $family = deb ] && is_root; then
    apt_update # clang's package is found in the lists
    say "setup: missing on this system: $missing$wanted"
    say "setup: installing $(packages_of $missing $wanted)"
    # In one go; if that fails, one by one, so that a package which isn't to be
    # had doesn't stop the others.
    if ! apt_install "$(packages_of $missing $wanted)"; then
      for need in $missing $wanted; do
        apt_install "$(package_of "$need")" ||
          warn "setup: $(package_of "$need") can't be installed."
      done
    fi
    missing=$(missing_of $needed)
    wanted=$(missing_of $optional)
  fi
  if [ -n "$missing$wanted" ] && [ $family = deb ] && is_root; then
    if [ -n "$missing" ]; then
      warn "setup: can't go on without: $missing"
      exit 1
    fi
    warn "setup: going on without: $wanted(tests that use it are skipped)"
  elif [ -n "$missing$wanted" ]; then
    warn "setup: missing on this system: $missing$wanted"
    if [ -z "$missing" ] && [ "${MISSING:-}" = skip ]; then
      warn "setup: going on without it; tests that use it are skipped"
    else
      [ -n "$missing" ] || warn "setup: MISSING=skip goes on without it; this line installs it:"
      say "$(install_line "$(packages_of $missing $wanted)")"
      exit 2
    fi
  fi
}

# ---- R packages -----------------------------------------------------------

case $mode in
  run) set -- boot ;;
  check)
    set -- boot codetools data.table doParallel foreach future iterators jsonlite
    set -- "$@" nanoparquet nycflights13 "parallelly>=1.48.0" pkgbuild testthat
    ;;
  bench) set -- boot "parallelly>=1.48.0" mirai future future.apply crew multidplyr data.table ;;
  document) set -- roxygen2 ;;
esac
Rscript tools/install-packages.R "$@" </dev/null
status=$?
[ $status -eq 0 ] || exit $status

# ---- what tests want, but not installed -------------------------------------

# unpack NAME FILE PACKAGE...: packages under build/NAME, where FILE is then. The system
# stays as it is: its own BLAS, and no PCP, whose package wants systemd to be installed.
# tools/check.sh tells the tests where they are.
unpack() {
  name=$1 file=$2
  shift 2
  dir=$root/build/$name
  [ -n "$(find "$dir" -name "$file" 2>/dev/null | head -n 1)" ] && return 0
  rm -rf -- "$dir"
  mkdir -p -- "$dir/get" || return 1
  (
    cd -- "$dir/get" || exit 1
    if ! apt-get download -q "$@" >log 2>&1; then
      is_root || exit 1
      apt_update
      apt-get download -q "$@" >log 2>&1 || exit 1
    fi
    for package in *.deb; do
      dpkg-deb -x "$package" .. || exit 1
    done
  )
  status=$?
  rm -rf -- "$dir/get"
  if [ $status -ne 0 ]; then
    rm -rf -- "$dir"
    warn "setup: $* can't be downloaded; tests with $name are skipped."
  fi
}

# PCP with the libraries of its own, and those that a small system lacks.
pcp_packages="pcp pcp-conf libpcp3 libpcp-pmda3 libpcp-mmv1 libpcp-web1 libsasl2-2 libuv1"

if [ "$mode" = check ] || [ "$mode" = bench ]; then
  if [ "$family" = deb ] && have dpkg-deb; then
    if [ "$mode" = check ]; then
      unpack blas/pthread 'libblas.so.3*' libopenblas0-pthread
      unpack blas/openmp 'libblas.so.3*' libopenblas0-openmp
    fi
    # A list of words.
    # shellcheck disable=SC2086
    have pmfind || unpack pcp pmfind $pcp_packages
  else
    warn "setup: no Debian packages here; tests with other BLAS libraries and PCP are skipped."
  fi
fi
exit 0
