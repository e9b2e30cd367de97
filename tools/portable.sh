#!/bin/sh
# Runs tests on builds that do without what Linux alone has (src/base/mst_features.h): epoll,
# pidfds, memfds, /proc, descriptors that are sent, fork. What macOS and other systems get is
# compiled and run so. Workers are booted there, one R each, so that only files are taken whose
# subject differs. Then fork servers on a build that has nothing else of it.
set -u

# Starts and ends; calls; large vectors; shuffles; sockets; what is told of the machine.
files="cluster-(start|status|stop)|node-(cluster|join|manage|stock$)"
files="$files|calls|task|heal"
files="$files|cluster-share"
files="$files|partition-(links|shuffle|stage)"
files="$files|discover-input|socket-(faults|listen|select|send)"
files="$files|cores-(affinity|machine|system)|doctor(-network|-machine)?|features"

exec "$(dirname -- "$0")/on-builds.sh" portable \
  portable "$files" tests/testthat \
  portable-fork "cluster-servers-silent|cluster-start|features|partition-links" tests/testthat \
  portable-fork "orphans" tests/full
