// mst_assert: assertions that are always on, and thread checks of test builds.
//
// A failed assertion is our mistake, never the world's. Each process sets what happens then. The
// user's session raises muster_error_internal (ffi/ sets a handler that leaves by R's error) and
// abandons what it was doing; so does its I/O thread, which tells R's thread (mst_assert_guard).
// Workers and fork servers write one line and end by SIGABRT. assert.h is not used because R builds
// packages with NDEBUG, and because a library must not call abort().
#ifndef MST_ASSERT_H
#define MST_ASSERT_H

typedef void (*mst_assert_handler)(const char *what, const char *file,
                                   int line);

// mst_assert_on_failure sets the function that runs when an assertion fails; NULL restores the
// default, one line to descriptor 2 and raise(SIGABRT).
// R thread only, before other threads run. The handler may leave by longjmp.
void mst_assert_on_failure(mst_assert_handler handler);

// mst_assert_failed calls the handler on the R thread. Other threads can't enter R: there it leaves
// mst_assert_guard or, outside of one, runs the default. Doesn't return.
void mst_assert_failed(const char *what, const char *file, int line);

// mst_assert_guard calls run(data). If an assertion fails in it, on this thread, control jumps out
// of run: returns 1, and text says which one. Otherwise 0. Whatever run was changing stays as it
// was, locks included. Not on the R thread; not nested.
#define MST_ASSERT_TEXT_MAX 256
int mst_assert_guard(void (*run)(void *), void *data,
                     char text[MST_ASSERT_TEXT_MAX]);

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
