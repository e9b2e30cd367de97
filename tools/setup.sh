#!/bin/sh
# Installs what a target of the Makefile needs and this machine has not:
#   tools/setup.sh run       the package and its demo
#   tools/setup.sh check     every test; with BROWSER=yes those in a browser, too, of 400 MB
#   tools/setup.sh bench     the peers that bench/ compares with
#   tools/setup.sh document  roxygen2
#
# R packages go into ./.lib, from the repository that R is set up with, and
# nowhere else; on Debian those that its R leaves out (boot, codetools) come with the
# system packages. System packages: as root on Debian and its kin the missing ones
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

# system_r: R comes from the system's packages, or isn't here yet. One that
# somebody built doesn't see what those packages bring, but for programs.
system_r() { ! have R || dpkg -S "$(R RHOME)" >/dev/null 2>&1; }

# package_of NEED: the packages which bring it.
package_of() {
  case $family:$1 in
    deb:r) say "r-base-dev r-cran-boot r-cran-codetools" ;;
    deb:headers | deb:compiler) say "r-base-dev" ;;
    deb:clang) say "clang $(clang_runtime)" ;;
    rpm:r | rpm:headers) say "R-core-devel" ;;
    rpm:compiler) say "gcc gcc-c++ gcc-gfortran" ;;
    deb:boot | deb:codetools) say "r-cran-$1" ;;
    *:certificates) say "ca-certificates" ;;
    deb:libuv) say "libuv1-dev" ;;
    deb:libssl) say "libssl-dev" ;;
    rpm:libssl) say "openssl-devel" ;;
    brew:libssl) say "openssl" ;;
    deb:ip) say "iproute2" ;;
    rpm:ip) say "iproute" ;;
    rpm:shellcheck) say "ShellCheck" ;;
    deb:sshd | rpm:sshd) say "openssh-server" ;;
    deb:slurm) say "slurm-wlm munge" ;;
    rpm:slurm) say "slurm slurm-slurmctld slurm-slurmd munge" ;;
    deb:groff | rpm:groff) say "groff-base" ;;
    deb:dplyr | deb:furrr | deb:ggplot2 | deb:MASS | deb:shiny | deb:terra | deb:tidyr)
      say "r-cran-$1" | tr '[:upper:]' '[:lower:]'
      ;;
    deb:rmarkdown) if system_r; then say "r-cran-rmarkdown pandoc"; else say "pandoc"; fi ;;
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
    boot | codetools)
      case " $r_missing " in *" $1 "*) return 1 ;; esac
      ;;
    certificates)
      # Nothing but R packages that come over https needs them.
      case "$family $r_missing " in
        deb*" https "* | rpm*" https "*) has_certificates ;;
      esac
      ;;
    libssl)
      # The compiler may come with options here, too.
      # shellcheck disable=SC2046
      { have pkg-config && pkg-config --exists libssl; } ||
        { has compiler && say '#include <openssl/ssl.h>' |
          $(R CMD config CC) -E - >/dev/null 2>&1; }
      ;;
    ip | debootstrap) have "$1" || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ;;
    sshd) have sshd || [ -x /usr/sbin/sshd ] ;;
    slurm) have srun && [ -x /usr/sbin/slurmd ] && [ -x /usr/sbin/munged ] ;;
    rmarkdown)
      if [ "$family" = deb ] && system_r; then can_vignettes; else have pandoc; fi
      ;;
    dplyr | furrr | ggplot2 | MASS | shiny | terra | tidyr)
      # With all that they need, or for an old R, these can't be had from source, or take
      # long: built, or not at all.
      [ "$family" != deb ] || ! system_r || { have Rscript &&
        Rscript -e 'quit(status = !nzchar(system.file(package = commandArgs(TRUE))))' "$1"; }
      ;;
    libuv)
      # Only for building testthat, of which a part wants it.
      have Rscript && Rscript -e 'quit(status = !nzchar(system.file(package = "testthat")))' ||
        [ -f /usr/include/uv.h ] || { have pkg-config && pkg-config --exists libuv; }
      ;;
    *) have "$1" ;;
  esac
}

# has_certificates: those by which https is trusted.
has_certificates() {
  for file in "${CURL_CA_BUNDLE:-}" "${SSL_CERT_FILE:-}" \
    /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
    [ -s "$file" ] && return 0
  done
  return 1
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
retries=3 # of what can't be fetched
# Package lists are brought up to date at most once, and only to install.
apt_update() {
  [ $updated = yes ] && return 0
  updated=yes
  apt-get update -q -o APT::Update::Error-Mode=any && return 0
  warn "setup: the system's package lists can't be brought up to date; is there a network?"
  retries=0
}

apt_install() {
  apt_update
  # Lists of words.
  # shellcheck disable=SC2048,SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q -o Acquire::Retries=$retries \
    --no-install-recommends $* </dev/null
}

family=$(family)
case $mode in
  run) r_packages="codetools boot" ;;
  check)
    r_packages="codetools boot bit64 data.table doParallel doRNG doSNOW foreach
      future>=1.49.0 future.tests iterators jsonlite knitr later>=1.4.0 nanoparquet nycflights13
      parallelly>=1.48.0 pkgbuild progressr promises rgenoud snow S7 testthat"
    ;;
  bench)
    r_packages="codetools boot parallelly>=1.48.0 mirai future future.apply future.mirai
      future.tests crew multidplyr data.table doFuture doParallel doSNOW foreach"
    ;;
  document) r_packages="codetools roxygen2" ;;
esac
needed="r headers compiler make"
optional=
if [ "$mode" = check ]; then
  optional="libuv libssl openssl qpdf tidy clang sshd slurm ip python3 shellcheck groff zsh tcsh"
  optional="$optional strace valgrind dplyr furrr ggplot2 MASS terra tidyr rmarkdown"
  if [ -n "${BROWSER:-}" ]; then optional="$optional chromium shiny"; fi
  # Only root can make the root of another system.
  if [ "$family" = deb ] && is_root; then optional="$optional debootstrap"; fi
fi

# look: what isn't here. Without $missing nothing goes on, $wanted is for some tests,
# and $either can also come from R's repository.
# Lists of words.
# shellcheck disable=SC2086
look() {
  set -- $r_packages
  r_missing=$(Rscript tools/install-packages.R --missing "$@" </dev/null 2>/dev/null) ||
    r_missing="$* https"
  missing=$(missing_of $needed)
  wanted=$(missing_of $optional)
  either=
  if [ "$family" = deb ] && system_r; then either=$(missing_of codetools boot); fi
  if has boot && has codetools; then
    wanted="$(missing_of certificates)$wanted"
  else
    missing="$(missing_of certificates)$missing"
  fi
}

# install_missing: as root on Debian. In one go; if that fails, one by one, so that a
# package which isn't to be had doesn't stop the others.
# shellcheck disable=SC2086
install_missing() {
  apt_update # clang's package is found in the lists
  say "setup: missing on this system: $missing$either$wanted"
  say "setup: installing $(packages_of $missing $either $wanted)"
  apt_install "$(packages_of $missing $either $wanted)" && return 0
  for need in $missing $either $wanted; do
    apt_install "$(package_of "$need")" ||
      warn "setup: $(package_of "$need") can't be installed."
  done
}

look
# Lists of words from here on.
# shellcheck disable=SC2086
if [ $family = deb ] && is_root; then
  if [ -n "$missing$either$wanted" ]; then
    install_missing
    look
  fi
  if [ -n "$missing" ]; then
    warn "setup: can't go on without: $missing"
    exit 1
  fi
  [ -z "$wanted" ] ||
    warn "setup: going on without: $wanted(tests that use it are skipped)"
elif [ -n "$missing$wanted" ]; then
  warn "setup: missing on this system: $missing$either$wanted"
  if [ -z "$missing" ] && [ "${MISSING:-}" = skip ]; then
    warn "setup: going on without it; tests that use it are skipped"
  else
    [ -n "$missing" ] || warn "setup: MISSING=skip goes on without it; this line installs it:"
    say "$(install_line "$(packages_of $missing $either $wanted)")"
    exit 2
  fi
fi

# ---- R packages -----------------------------------------------------------

if [ -n "$r_missing" ]; then
  # Lists of words.
  # shellcheck disable=SC2086
  if ! Rscript tools/install-packages.R $r_packages </dev/null; then
    [ -n "$either" ] && ! is_root || exit 1
    warn "setup: this line installs them from the system's packages:"
    say "$(install_line "$(packages_of $either)")"
    exit 2
  fi
fi

# ---- what tests want, but not installed -------------------------------------

# unpack NAME FILE PACKAGE...: packages under build/NAME, where FILE is then. The system
# stays as it is: its own BLAS, and no PCP, whose package wants systemd to be installed.
# tools/suite.sh tells the tests where they are.
unpack() {
  name=$1 file=$2
  shift 2
  dir=$root/build/$name
  [ -n "$(find "$dir" -name "$file" 2>/dev/null | head -n 1)" ] && return 0
  rm -rf -- "$dir"
  mkdir -p -- "$dir/get" || return 1
  (
    cd -- "$dir/get" || exit 1
    if ! apt-get download -q -o Acquire::Retries=$retries "$@" >log 2>&1; then
      is_root || exit 1
      apt_update
      apt-get download -q -o Acquire::Retries=$retries "$@" >log 2>&1 || exit 1
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
    # One script of a package whose dependencies are large.
    have checkbashisms || [ "$mode" != check ] || unpack devscripts checkbashisms devscripts
  else
    warn "setup: no Debian packages here; tests with other BLAS libraries and PCP are skipped."
  fi
fi
exit 0
