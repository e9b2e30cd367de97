// A worker makes its standby, and a standby replaces the worker. See fork/standby.c.
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "ffi/worker/this.h"
#include "fork/fork.h"
#include "shuffle/exchange.h"

// The standby's descriptor comes through another channel than the order, and before it.
#define END_MS 5000
#define SHRINK_BYTES ((uint64_t)64 << 20)
#define TRIM_BYTES ((uint64_t)32 << 20)
// A page fault takes no longer, whatever else the system did for this process.
#define FAULT_NS_MAX 25000

// take_place makes this process, a copy of the worker, the worker: it drops what was received for
// the other, and says hello like any worker. Its set-up was done in the other, so it answers SETUP
// at once.
static int take_place(void) {
  struct mst_frame frame;
  struct mst_err err;
  mst_err_clear(&err);
  ffi_this.chan.fd = -1; // the new channel has its number now
  mst_chan_close(&ffi_this.chan);
  ffi_this_open_channel();
  memset(&ffi_this.spin, 0, sizeof ffi_this.spin);
  (void)getrusage(RUSAGE_SELF, &ffi_this.stood_usage);
  if (mst_exchange_begin(&err) != 0) return 0;
  ffi_call_ours(FFI_TAKE_PLACE, NULL);
  ffi_this_say_hello(1);
  if (!ffi_this_next_frame(&frame) || frame.head.kind != MST_KIND_SETUP)
    return 0;
  char title[FFI_TITLE_BYTES];
  ffi_this_title(title, "worker", &frame);
  mst_proc_title(title);
  mst_chan_take(&ffi_this.chan, &frame);
  ffi_this_say_ready(mst_watch_tempdir());
  return 1;
}

// has_grown tells whether this process has so many bytes more than after its last collection.
static int has_grown(uint64_t bytes) {
  const uint64_t now = mst_proc_resident();
  if (now < ffi_this.resident) ffi_this.resident = now;
  return now > ffi_this.resident + bytes;
}

// shrink frees garbage that a standby would keep forever: a collection costs more than a fork, so
// it runs only if there may be much.
static void shrink(void) {
  if (!has_grown(SHRINK_BYTES)) return;
  R_gc();
  ffi_this.resident = mst_proc_resident();
}

// In a forked worker, a full collection copies some 30 MB that it shared until then: one that has
// computed little would take more memory by it, not less.
int ffi_this_trim(const struct mst_frame *order) {
  struct mst_head head = {.kind = MST_KIND_TRIM};
  mst_chan_take(&ffi_this.chan, order);
  if (has_grown(TRIM_BYTES)) {
    (void)ffi_memory_return();
    ffi_this.resident = mst_proc_resident();
  }
  return mst_chan_send_small(&ffi_this.chan, &head, NULL, 0, 1, NULL) == 0;
}

// computed_ns gives this thread's processor time: the cost of a checkpoint, even on a machine that
// is busy with other work.
static int64_t computed_ns(void) {
  struct timespec now = {0};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * MST_NS_PER_S + now.tv_nsec;
}

static int64_t ns_between(struct timeval begin, struct timeval end) {
  return (int64_t)(end.tv_sec - begin.tv_sec) * MST_NS_PER_S +
         (int64_t)(end.tv_usec - begin.tv_usec) * 1000;
}

// faults_ns gives the price of the page faults that a standby brings. This process copies each page
// that it writes to from then on: as many as since the last standby; or all, before the first one.
// What a fault takes follows from the system's time for this process meanwhile. That may include
// other work of the system's, so there is a limit.
static int64_t faults_ns(void) {
  struct rusage now;
  (void)getrusage(RUSAGE_SELF, &now);
  const struct rusage *before = &ffi_this.stood_usage; // or nothing yet
  const int64_t faults = now.ru_minflt - before->ru_minflt;
  const int64_t pages =
      (int64_t)(mst_proc_resident() / (uint64_t)sysconf(_SC_PAGESIZE));
  int64_t each_ns =
      faults < 1 ? 0 : ns_between(before->ru_stime, now.ru_stime) / faults;
  if (each_ns > FAULT_NS_MAX) each_ns = FAULT_NS_MAX;
  int64_t copied = ffi_this.stands ? faults : pages;
  if (ffi_this.stands && copied > (int64_t)ffi_this.stood_pages)
    copied = (int64_t)ffi_this.stood_pages;
  ffi_this.stood_usage = now;
  ffi_this.stood_pages = (uint64_t)pages;
  return copied * each_ns;
}

static int say_made(int sys_errno, int64_t cost_ns) {
  struct mst_head head = {.kind = MST_KIND_CHECKPOINTED};
  const struct mst_checkpointed made = {.sys_errno = sys_errno,
                                        .cost_ns = (uint64_t)cost_ns};
  uint8_t bytes[MST_CHECKPOINTED_BYTES];
  mst_checkpointed_encode(&made, bytes);
  return mst_chan_send_small(&ffi_this.chan, &head, bytes, sizeof bytes, 1,
                             NULL) == 0;
}

int ffi_this_checkpoint(const struct mst_frame *order) {
  struct mst_err err;
  mst_err_clear(&err);
  char title[FFI_TITLE_BYTES];
  ffi_this_title(title, "standby", order);
  mst_chan_take(&ffi_this.chan, order);
  const int end = mst_watch_take_end(END_MS);
  if (end < 0) return say_made(EMFILE, 0);
  shrink();
  const int64_t later_ns = faults_ns();
  const int64_t begin_ns =
      computed_ns();   // the garbage had to go anyway: don't count it
  ffi_this.stands = 1; // a standby that becomes a worker leaves one, too
  ffi_call_ours(FFI_PAUSE_THREADS, NULL);
  const int rc =
      mst_standby_make(end, ffi_this.output, ffi_this.session, title, &err);
  if (rc == 0) return take_place();
  ffi_call_ours(FFI_RESUME_THREADS, NULL);
  ffi_this.stands = rc == 1;
  return say_made(rc < 0 ? err.sys_errno : 0,
                  later_ns + computed_ns() - begin_ns);
}
