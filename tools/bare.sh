#!/bin/sh
# README's commands on a bare system: makes the root of a Debian that has R's core and
# make, but neither certificates nor R's recommended packages nor a compiler, and runs
# set-up and demo in it.
#   tools/bare.sh
# Needs root, debootstrap, namespaces for mounts and processes, and the archive that this
# system's packages come from; without one of them the suite is skipped. All happens in
# build/bare.*, in a namespace whose mounts and processes end with it.
# The single quotes around commands for the other root are meant.
# shellcheck disable=SC2016
set -u
inside=no
if [ "${1:-}" = --inside ]; then
  inside=yes
  scratch=$2 release=$3 archive=$4
fi
. "$(dirname -- "$0")/common.sh"
. "$(dirname -- "$0")/root.sh"
label=bare

skip_all() {
  say "skipped: $1"
  say "$label: 0 passed, 0 failed, 1 skipped"
  exit 0
}

if [ $inside = no ]; then
  PATH=$PATH:/usr/sbin:/sbin
  export PATH
  is_root || skip_all "only root can make the root of another system"
  have debootstrap || skip_all "there is no debootstrap"
  unshare -mpf --kill-child true 2>/dev/null ||
    skip_all "no namespaces can be made here (unshare -mpf)"
  find_archive || skip_all "this system's packages come from no archive of its release"
  mkdir -p -- build && scratch=$(mktemp -d "$root/build/bare.XXXXXX") || exit 1
  chmod 755 "$scratch" # apt fetches as a user of its own
  pid=
  # What was killed may take a moment to be gone.
  trap 'rm -rf -- "$scratch" 2>/dev/null || { sleep 2 && rm -rf -- "$scratch"; }' EXIT
  # unshare waits for its child whatever else it is told.
  trap 'trap - INT TERM HUP; [ -z "$pid" ] || kill -KILL "$pid"; wait; exit 130' INT TERM HUP
  has_release "$release" "$scratch" || skip_all "can't reach the archive of this system's packages"
  unshare -mpf --kill-child "$0" --inside "$scratch" "$release" "$archive" &
  pid=$!
  wait "$pid"
  exit $?
fi

# ---- in the namespace ---------------------------------------------------------

base=$scratch/root
passed=0
failed=0
skipped=0

# expect WHAT STATUS PATTERN COMMAND...: the command ends with this status and says this;
# an empty pattern: it says nothing. Lines are those of $said.
expect() {
  what=$1 status_wanted=$2 pattern=$3
  shift 3
  began=$(date +%s)
  "$@" >"$scratch/said" 2>&1
  status=$?
  said=$(cat -- "$scratch/said")
  if [ $status -eq "$status_wanted" ] &&
    if [ -n "$pattern" ]; then say "$said" | grep -Eq -- "$pattern"; else [ -z "$said" ]; fi; then
    passed=$((passed + 1))
    say "ok: $what ($(($(date +%s) - began)) s)"
  else
    failed=$((failed + 1))
    say "failed: $what: status $status, wanted $status_wanted and '$pattern'; it said:"
    say "$said" | tail -n 40
  fi
}

# make_bare: a root without certificates. Some releases have them come with R, others don't.
make_bare() {
  make_root "$release" r-base-core make && fill_root && in_root sh -c '
    ! dpkg -s ca-certificates >/dev/null 2>&1 || {
    dpkg --purge --force-depends ca-certificates &&
    sed -i "/^Depends:/s/, ca-certificates//" /var/lib/dpkg/status; }'
}

say "making a bare $release"
if ! make_bare >"$scratch/log" 2>&1; then
  say "failed: the root can't be made"
  tail -n 40 -- "$scratch/log"
  say "$label: 0 passed, 1 failed, 0 skipped"
  exit 1
fi
line="^apt-get update && apt-get install -y --no-install-recommends "

expect "an ordinary user is told the one line that installs all" 2 \
  "${line}ca-certificates r-base-dev r-cran-codetools r-cran-boot\$" as_user tools/setup.sh run
expect "an ordinary user is told what the tests need" 2 \
  "${line}ca-certificates r-base-dev .*libssl-dev.* shellcheck " as_user tools/setup.sh check
packages=$(say "$said" | sed -n "s/$line//p")
# A list of words.
# shellcheck disable=SC2086
expect "the archive has all that this line names" 0 "^Inst libssl-dev " \
  in_root apt-get install -s --no-install-recommends $packages
expect "root is told that there is no network" 1 "lists can't be brought up to date" \
  offline tools/setup.sh run
expect "a registry that isn't trusted is called out of reach" 1 \
  "^setup: can't reach the R package repository " in_root Rscript tools/install-packages.R boot
expect "make demo installs what is missing and runs" 0 \
  "^setup: installing ca-certificates r-base-dev " \
  in_root make demo WORKERS=8
expect "set-up has nothing more to do, with or without a network" 0 "" \
  offline setpriv --reuid=65534 --regid=65534 --clear-groups tools/setup.sh run
# Not where R's repository needs a certificate that only this environment names.
if in_root test -s /etc/ssl/certs/ca-certificates.crt &&
  in_root Rscript tools/install-packages.R absent | grep -q "can't reach the R package"; then
  say "skipped: R's repository can't be reached from the new root"
  skipped=1
else
  expect "R's repository is reached with the new certificates" 0 "^.lib/iterators\$" \
    in_root sh -c 'Rscript tools/install-packages.R iterators; ls -d .lib/iterators'
fi

say "$label: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
