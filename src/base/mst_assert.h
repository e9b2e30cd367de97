// mst_assert: assertions that are always on, and thread checks of test builds.
//
// A failed assertion is a mistake of ours, never of the world. Each process sets
// what then happens: the user's session raises muster_error_internal (ffi/ sets
// a handler that leaves by R's error) and gives up what it was in the middle of; so does
// its I/O thread, which tells R's thread (mst_assert_guard). Workers and fork servers write one
// line and end by SIGABRT. assert.h is not used because R builds packages with NDEBUG, and
// because abort() in a library is not ours to call.
#ifndef MST_ASSERT_H
#define MST_ASSERT_H

typedef void (*mst_assert_handler)(const char *what, const char *file,
                                   int line);

// mst_assert_on_failure names what runs when an assertion fails; NULL brings
// back the default, one line to descriptor 2 and raise(SIGABRT).
// R thread only, before other threads run. The handler may leave by longjmp.
void mst_assert_on_failure(mst_assert_handler handler);

// mst_assert_failed calls the handler. On another thread than the R thread R can't be
// entered: there it leaves mst_assert_guard, or else the default runs. Doesn't come back.
void mst_assert_failed(const char *what, const char *file, int line);

// mst_assert_guard calls run(data). An assertion that fails in it, on this thread, leaves it
// by a jump: then 1 is returned and text says which one, otherwise 0. What run was in the
// middle of stays as it was, locks too. Not on the R thread; not inside of another.
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
