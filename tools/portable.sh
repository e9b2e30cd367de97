#!/bin/sh
# Runs tests/testthat on a build that does without what Linux alone has (src/base/mst_features.h),
# in build/lib-portable: epoll, pidfds, memfds, /proc, descriptors that are sent, fork. What macOS
# and other systems get is compiled and run so. Workers are booted there, one R each, so that
# only files are taken whose subject differs. FILTER=regexp takes others.
set -u
. "$(dirname -- "$0")/common.sh"

tools/install.sh build/lib-portable tools/Makevars.portable || exit 1
R_LIBS="$root/build/lib-portable:$R_LIBS"
export R_LIBS
# Starts and ends; calls; large vectors; shuffles; sockets; what is told of the machine.
files="cluster-(join|nodes|start|status|stop)|server-silent|psock-cluster|stock-nodes"
files="$files|calls|task|heal|map"
files="$files|cluster-share"
files="$files|partition-shuffle|shuffle-(links|stage)"
files="$files|discover-input|socket-(listen|select|send)"
files="$files|cores-(affinity|machine|system)|doctor(-network|-machine)?|features"
FILTER=${FILTER:-"^(test-)?($files)([.]R)?$"}
export FILTER
exec Rscript tools/testthat.R portable tests/testthat
