// mst_thread: starts threads of ours. No R.
#ifndef MST_THREAD_H
#define MST_THREAD_H

#include <pthread.h>

// mst_thread_start starts a thread with a small stack and all signals blocked, so that none is
// delivered to it. The caller joins or detaches it. 0, or an errno.
int mst_thread_start(pthread_t *thread, void *(*run)(void *), void *data);

#endif
