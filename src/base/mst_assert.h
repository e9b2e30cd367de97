// mst_assert: assertions that are always on, and thread checks of test builds.
//
// A failed assertion is a mistake of ours, never of the world. Each process sets
// what then happens: the user's session raises muster_error_internal (ffi/ sets
// a handler that leaves by R's error), workers, fork servers and the I/O thread
// write one line and end by SIGABRT. assert.h is not used because R builds
// packages with NDEBUG, and because abort() in a library is not ours to call.
#ifndef MST_ASSERT_H
#define MST_ASSERT_H

typedef void (*mst_assert_handler)(const char *what, const char *file,
                                   int line);

// mst_assert_on_failure names what runs when an assertion fails; NULL brings
// back the default, one line to descriptor 2 and raise(SIGABRT).
// R thread only, before other threads run. The handler may leave by longjmp.
void mst_assert_on_failure(mst_assert_handler handler);

// mst_assert_failed calls the handler. When called on another thread than the
// R thread, the default always runs: R can't be entered from there.
void mst_assert_failed(const char *what, const char *file, int line);

// mst_thread_mark_r remembers the calling thread as the R thread, again after
// a fork. mst_thread_is_r tells whether the caller is on it.
void mst_thread_mark_r(void);
int mst_thread_is_r(void);

#define MST_ASSERT(cond)                                                       \
  ((cond) ? (void)0 : mst_assert_failed(#cond, __FILE__, __LINE__))

// Thread checks cost a call each, so only builds with -DMST_CHECK_THREADS have
// them; CI runs the whole suite on such a build.
#ifdef MST_CHECK_THREADS
#define MST_ASSERT_R_THREAD() MST_ASSERT(mst_thread_is_r())
#define MST_ASSERT_IO_THREAD() MST_ASSERT(!mst_thread_is_r())
#else
#define MST_ASSERT_R_THREAD() ((void)0)
#define MST_ASSERT_IO_THREAD() ((void)0)
#endif

#endif
