#!/bin/sh
# Removes what building and testing left, but not the packages in ./.lib.
set -u
. "$(dirname -- "$0")/common.sh"
for dir in tests/c tests/sim tests/fuzz; do
  if [ -f "$dir/Makefile" ]; then make -s -C "$dir" clean; fi
done
find src tests \( -name '*.o' -o -name '*.so' -o -name '*.dylib' \) -exec rm -f -- {} +
rm -f -- src/Makevars
rm -rf -- build ./*.Rcheck ./muster_*.tar.gz .lib/muster .lib/00LOCK*
