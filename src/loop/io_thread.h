// io_thread: a thread that serves what its owner lends it while the owner is away.
//
// Something that belongs to one thread (a loop and all that hangs on it) is lent on the
// way out and taken back on the way in. Both cost a lock that is nearly always free,
// some 20 ns, and no system call as long as the owner comes and goes: the I/O thread looks
// once a tick, whose length the owner says, whether something is lent, and only one that
// was away for a whole tick is really served from then on, by sleeping until something is
// ready. An owner who stays lets it sleep; lending to one that sleeps sets a timer.
//
// An assertion that fails on the I/O thread ends it: what it was in the middle of is never
// gone on with, and its owner learns of it when it takes back.
//
// mst_io_thread_start, _lend, _take, _failure and _end belong to the owner's thread, in the process
// that started it; in a forked child there is no I/O thread, and none of these may be called
// but mst_io_thread_is_lent. No R.
#ifndef MST_IO_THREAD_H
#define MST_IO_THREAD_H

#include "base/mst_err.h"

// After so many ticks without anything lent the I/O thread sleeps until it is woken.
#define MST_IO_THREAD_TICKS 10

struct mst_io_thread;

// mst_io_thread_serve is called on the I/O thread, which has what was lent meanwhile:
// serves what is ready without waiting for more. Returns after how many milliseconds it
// wants to be called again, -1 if no time matters. *fd: becomes readable when there is
// something to serve (an epoll descriptor); it is -1 before the call, which stands for none.
// Without either it is called when it is lent again.
typedef int (*mst_io_thread_serve)(void *owner, int *fd);

// mst_io_thread_start starts the thread, with all signals blocked. 0, -MST_EMEM, -MST_ESYS.
int mst_io_thread_start(mst_io_thread_serve serve, void *owner,
                        struct mst_io_thread **out, struct mst_err *err);
// mst_io_thread_lend lets the I/O thread serve until it is taken back. tick_ms: below 1,000.
void mst_io_thread_lend(struct mst_io_thread *thread, int tick_ms);
// mst_io_thread_take waits until the I/O thread is out of mst_io_thread_serve, and keeps it out.
void mst_io_thread_take(struct mst_io_thread *thread);
// mst_io_thread_failure tells which assertion has ended the I/O thread, NULL if none has. Only
// while nothing is lent.
const char *mst_io_thread_failure(const struct mst_io_thread *thread);
int mst_io_thread_is_lent(const struct mst_io_thread *thread);
// mst_io_thread_end takes back, waits for the thread's end and frees. NULL is allowed.
void mst_io_thread_end(struct mst_io_thread *thread);

// mst_io_thread_may tells whether the calling thread may use what can be lent: the I/O thread's
// while it serves, the R thread while nothing is lent or there is no I/O thread. For
// assertions.
int mst_io_thread_may(const struct mst_io_thread *thread);

#endif
