// A relay's thread. See thread.h.
#include "host/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_thread.h"
#include "host/greet.h"
#include "net/net.h"

struct mst_relay_thread {
  pthread_t thread;
  struct mst_link_config config;
  int first;
  int64_t until_ns;
  // Written by the thread before the state that lets others read them.
  struct mst_err err;
  int failed;
  _Atomic int state;
};

static void close_all(struct mst_relay_thread *self) {
  mst_net_close(&self->first);
  mst_cable_close(&self->config.cable);
}

static void serve(void *data) {
  struct mst_relay_thread *self = data;
  const struct mst_link_config *config = &self->config;
  struct mst_relay *relay = NULL;
  const struct mst_greet_link link = {.cable = &config->cable,
                                      .until = self->first,
                                      .until_ns = self->until_ns};
  int rc = mst_greet_host(&link, &self->err);
  if (rc == 0) rc = mst_relay_open(config, self->first, &relay, &self->err);
  if (rc == 0) {
    atomic_store(&self->state, MST_RELAY_WORKS);
    while ((rc = mst_relay_run(relay, -1, &self->err)) == 0)
      continue;
  }
  // Whoever sees the end of a stream may ask why.
  self->failed = rc;
  atomic_store(&self->state, MST_RELAY_OVER);
  if (relay != NULL) {
    mst_relay_close(relay);
  } else {
    close_all(self);
  }
}

static void *thread_main(void *data) {
  struct mst_relay_thread *self = data;
  char text[MST_ASSERT_TEXT_MAX];
  if (mst_assert_guard(serve, self, text)) {
    // Whatever it held stays open: only the end of the process closes it.
    self->failed = mst_err_set(&self->err, MST_EPROTO, 0, NULL, "%s", text);
    atomic_store(&self->state, MST_RELAY_OVER);
  }
  return NULL;
}

int mst_relay_start(const struct mst_link_config *config, int first,
                    int64_t until_ns, struct mst_relay_thread **out,
                    struct mst_err *err) {
  struct mst_relay_thread *thread = calloc(1, sizeof *thread);
  if (thread == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a link");
  thread->config = *config;
  thread->first = first;
  thread->until_ns = until_ns;
  mst_err_clear(&thread->err);
  const int rc = mst_thread_start(&thread->thread, thread_main, thread);
  if (rc != 0) {
    free(thread);
    return mst_err_set(err, MST_ESYS, rc, "pthread_create", "%s", strerror(rc));
  }
  *out = thread;
  return 0;
}

enum mst_relay_state mst_relay_state(const struct mst_relay_thread *thread) {
  return (enum mst_relay_state)atomic_load(&thread->state);
}

int mst_relay_why(const struct mst_relay_thread *thread, struct mst_err *why) {
  if (mst_relay_state(thread) != MST_RELAY_OVER) return 0;
  if (why != NULL) *why = thread->err;
  return thread->failed;
}

void mst_relay_end(struct mst_relay_thread *thread) {
  if (thread == NULL) return;
  (void)pthread_join(thread->thread, NULL);
  free(thread);
}
