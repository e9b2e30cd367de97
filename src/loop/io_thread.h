// io_thread: a thread that serves what its owner lends it while the owner is away.
//
// A structure that belongs to one thread (a loop and everything attached to it) is lent on the way
// out and taken back on the way in. Both cost a lock that is nearly always free, some 20 ns, and no
// system call as long as the owner comes and goes: once a tick, whose length the owner sets, the
// I/O thread checks whether something is lent. If it has been lent for a whole tick the thread
// serves it, sleeping until something is ready. While the owner keeps it the thread goes to sleep;
// lending to a sleeping thread sets a timer.
//
// An assertion that fails on the I/O thread ends it: its unfinished work is never continued, and
// the owner finds out when it takes back.
//
// mst_io_thread_start, _lend, _take, _failure and _end belong to the owner's thread, in the process
// that started it. A forked child has no I/O thread; it may only call mst_io_thread_is_lent. No R.
#ifndef MST_IO_THREAD_H
#define MST_IO_THREAD_H

#include "base/mst_err.h"

// After this many ticks without a lend the I/O thread sleeps until it is woken.
#define MST_IO_THREAD_TICKS 10

struct mst_io_thread;

// mst_io_thread_serve is called on the I/O thread, which owns what is lent meanwhile. It serves
// what is ready without waiting for more. Returns after how many milliseconds to call it again, -1
// for no time limit. *fd: a descriptor that becomes readable when there is something to serve (an
// epoll descriptor); -1, as before the call, means none. Without either it is called at the next
// lend.
typedef int (*mst_io_thread_serve)(void *owner, int *fd);

// mst_io_thread_start starts the thread, with all signals blocked. 0, -MST_EMEM, -MST_ESYS.
int mst_io_thread_start(mst_io_thread_serve serve, void *owner,
                        struct mst_io_thread **out, struct mst_err *err);
// mst_io_thread_lend lets the I/O thread serve until it is taken back. tick_ms: below 1,000.
void mst_io_thread_lend(struct mst_io_thread *thread, int tick_ms);
// mst_io_thread_take waits until the I/O thread is out of mst_io_thread_serve, and keeps it out.
void mst_io_thread_take(struct mst_io_thread *thread);
// mst_io_thread_failure gives the assertion that ended the I/O thread, or NULL. Only while nothing
// is lent.
const char *mst_io_thread_failure(const struct mst_io_thread *thread);
int mst_io_thread_is_lent(const struct mst_io_thread *thread);
// mst_io_thread_end takes back, waits for the thread to end and frees it. NULL is allowed.
void mst_io_thread_end(struct mst_io_thread *thread);

// mst_io_thread_may tells whether the calling thread may use what can be lent: the I/O thread while
// it serves, the R thread while nothing is lent or there is no I/O thread. For assertions.
int mst_io_thread_may(const struct mst_io_thread *thread);

#endif
