// child: what a process does between fork() and its first R code. Only for fork/.
#ifndef MST_FORK_CHILD_H
#define MST_FORK_CHILD_H

#include <sys/types.h>

#include "base/mst_err.h"

// mst_child_become makes the calling process, just forked by the server, a worker: own process
// group, default signals, its own descriptors at their numbers and no others, its watch running.
// fds: data, control and output ends. 0, or an error: then the caller ends the process.
int mst_child_become(const int fds[3], pid_t server, pid_t session,
                     struct mst_err *err);

#endif
