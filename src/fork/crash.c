// What the R thread has time for, and its reports of crashes. The contract is in crash.h.
#include "fork/crash.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/mst_clock.h"
#include "fork/fork.h"

// R's report of a crash may take this long, not counting what it waits for the processor.
#define CRASH_NS (2 * MST_NS_PER_S)

int mst_span_look(struct mst_span *span, int thread) {
  const int64_t now_ns = mst_clock_now();
  // The watch may be late, too.
  int64_t own_ns = now_ns - span->seen_ns;
  if (own_ns > 2 * MST_PACE_MS * MST_NS_PER_MS)
    own_ns = 2 * MST_PACE_MS * MST_NS_PER_MS;
  struct mst_activity pace;
  if (mst_proc_activity(thread, &pace) == 0) {
    if (!pace.sleeps) own_ns = pace.cpu_ns - span->cpu_ns;
    span->cpu_ns = pace.cpu_ns;
  }
  span->seen_ns = now_ns;
  span->left_ns -= own_ns;
  return span->left_ns <= 0;
}

void mst_span_begin(struct mst_span *span, int thread, int64_t ns) {
  (void)mst_span_look(span, thread);
  span->left_ns = ns;
}

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL};
#define CRASH_SIGNALS (sizeof crash_signals / sizeof crash_signals[0])
static struct sigaction crash_before[CRASH_SIGNALS];
static int crashed; // R reports a crash
static struct mst_span crash;

static void on_crash(int sig, siginfo_t *info, void *context) {
  __atomic_store_n(&crashed, 1, __ATOMIC_RELEASE);
  for (size_t i = 0; i < CRASH_SIGNALS; i++) {
    if (crash_signals[i] != sig) continue;
    // The next signal finds the handler that was there before.
    (void)sigaction(sig, &crash_before[i], NULL);
    if ((crash_before[i].sa_flags & SA_SIGINFO) != 0) {
      crash_before[i].sa_sigaction(sig, info, context);
    } else if (crash_before[i].sa_handler == SIG_DFL) {
      (void)raise(sig);
    }
  }
}

void mst_watch_crashes(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (size_t i = 0; i < CRASH_SIGNALS; i++) {
    (void)sigaction(crash_signals[i], &action, &crash_before[i]);
  }
}

int mst_crash_ms(int thread) {
  if (!__atomic_load_n(&crashed, __ATOMIC_ACQUIRE)) return -1;
  if (crash.seen_ns == 0) mst_span_begin(&crash, thread, CRASH_NS);
  return mst_span_look(&crash, thread) ? 0 : MST_PACE_MS;
}
