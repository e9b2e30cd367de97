#!/bin/sh
# Runs a command as a user who isn't root, in a copy of what the tests use (the
# checkout may be where that user can't read), with a home and a folder for
# temporary files of its own. Needs root, leaves nothing behind.
#   tools/not-root.sh COMMAND...
set -u
. "$(dirname -- "$0")/common.sh"

user=65534 # nobody, on every system; no account is needed for it
scratch=$(mktemp -d) || exit 1
trap 'rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

mkdir -- "$scratch/checkout" "$scratch/home" "$scratch/tmp" || exit 1
cp -R -- .lib tests demo tools DESCRIPTION "$scratch/checkout" || exit 1
if [ -n "${MUSTER_TEST_BLAS:-}" ]; then
  cp -R -- "$MUSTER_TEST_BLAS" "$scratch/blas" || exit 1
  MUSTER_TEST_BLAS=$scratch/blas
  export MUSTER_TEST_BLAS
fi
chown -R $user:$user "$scratch" || exit 1

HOME=$scratch/home
TMPDIR=$scratch/tmp
R_LIBS="$scratch/checkout/.lib:${R_LIBS#*:}"
USER=nobody
LOGNAME=nobody
export HOME TMPDIR R_LIBS USER LOGNAME
cd -- "$scratch/checkout" || exit 1
setpriv --reuid=$user --regid=$user --clear-groups "$@"
