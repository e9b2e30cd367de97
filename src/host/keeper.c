// The thread of a session's link. See keeper.h.
#include "host/keeper.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "base/mst_thread.h"
#include "host/greet.h"
#include "net/net.h"

// In a silence that breaks the link.
#define KEEPS 12

struct mst_keeper {
  pthread_t thread;
  struct mst_link_config config;
  int64_t until_ns;
  int ends[2]; // the owner's, the thread's: each sees when the other is closed
  uint8_t runs;
  // Written by the thread before the state that lets others read them.
  struct mst_tail skipped;
  struct mst_err err;
  _Atomic int greeted; // 0, 1, or an error
  struct mst_link *_Atomic link;
};

// has_time waits. 0 once the owner wants the end.
static int has_time(const struct mst_keeper *self) {
  struct pollfd polled = {.fd = self->ends[1], .events = POLLIN};
  const int ms = (int)(self->config.silence_ns / KEEPS / MST_NS_PER_MS);
  return poll(&polled, 1, ms > 0 ? ms : 1) == 0;
}

static void serve(void *data) {
  struct mst_keeper *self = data;
  const struct mst_greet_link link = {.cable = &self->config.cable,
                                      .until = self->ends[1],
                                      .until_ns = self->until_ns};
  const int rc = mst_greet_session(&link, &self->skipped, &self->err);
  atomic_store(&self->greeted, rc == 0 ? 1 : rc);
  (void)mst_net_write(self->ends[1], "", 1, NULL);
  while (rc == 0 && has_time(self)) {
    struct mst_link *kept = atomic_load(&self->link);
    if (kept != NULL) mst_link_keep(kept, mst_clock_now());
  }
}

static void *thread_main(void *data) {
  struct mst_keeper *self = data;
  char text[MST_ASSERT_TEXT_MAX];
  if (mst_assert_guard(serve, self, text)) {
    struct mst_link *kept = atomic_load(&self->link);
    if (kept != NULL) mst_link_give_up(kept);
    (void)mst_err_set(&self->err, MST_EPROTO, 0, NULL, "%s", text);
    atomic_store(&self->greeted, -MST_EPROTO);
    (void)mst_net_write(self->ends[1], "", 1, NULL);
  }
  return NULL;
}

int mst_keeper_start(const struct mst_link_config *config, int64_t until_ns,
                     struct mst_keeper **out, struct mst_err *err) {
  struct mst_keeper *keeper = calloc(1, sizeof *keeper);
  if (keeper == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a link");
  keeper->config = *config;
  keeper->until_ns = until_ns;
  int rc = mst_net_pair(keeper->ends, err);
  if (rc != 0) {
    free(keeper);
    return rc;
  }
  mst_net_raise(&keeper->ends[0]);
  mst_net_raise(&keeper->ends[1]);
  rc = mst_thread_start(&keeper->thread, thread_main, keeper);
  keeper->runs = rc == 0;
  if (rc != 0) {
    mst_keeper_free(keeper);
    return mst_err_set(err, MST_ESYS, rc, "pthread_create", "%s", strerror(rc));
  }
  *out = keeper;
  return 0;
}

int mst_keeper_fd(const struct mst_keeper *keeper) { return keeper->ends[0]; }

int mst_keeper_greeted(const struct mst_keeper *keeper, struct mst_err *err) {
  const int greeted = atomic_load(&keeper->greeted);
  if (greeted < 0 && err != NULL) *err = keeper->err;
  return greeted;
}

size_t mst_keeper_skipped(const struct mst_keeper *keeper, char *out) {
  return atomic_load(&keeper->greeted) == 0
             ? 0
             : mst_tail_read(&keeper->skipped, out);
}

void mst_keeper_keep(struct mst_keeper *keeper, struct mst_link *link) {
  atomic_store(&keeper->link, link);
}

void mst_keeper_end(struct mst_keeper *keeper) {
  if (keeper == NULL || !keeper->runs) return;
  mst_net_shutdown(keeper->ends[0]); // forked children have copies
  mst_net_close(&keeper->ends[0]);
  (void)pthread_join(keeper->thread, NULL);
  keeper->runs = 0;
}

void mst_keeper_free(struct mst_keeper *keeper) {
  if (keeper == NULL) return;
  mst_net_close(&keeper->ends[0]);
  mst_net_close(&keeper->ends[1]);
  mst_tail_free(&keeper->skipped);
  free(keeper);
}
