#!/bin/sh
# Compiles the program of this folder, with the parts of the core that it uses:
#   bench/fetch/build.sh PROGRAM
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
core=$here/../../src
exec ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wconversion -Werror -O2 -pthread \
  -I"$core" -I"$here" -o "$1" "$here"/*.c "$core"/base/mst_assert.c "$core"/base/mst_clock.c \
  "$core"/base/mst_hash.c "$core"/wire/frame.c "$core"/wire/link_msg.c
