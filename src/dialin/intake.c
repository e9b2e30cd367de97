// A thread that listens for hosts. See intake.h.
#include "dialin/intake.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "base/mst_thread.h"
#include "dialin/serve.h"
#include "loop/loop.h"
#include "net/stream.h"

#define SHORTAGE_MS 50

struct guest {
  struct guest *next;
  int fd;
  struct mst_secure *secure;
  uint32_t place;
};

struct mst_intake {
  pthread_t thread;
  struct mst_intake_config config;
  struct mst_loop *loop;
  struct mst_dialin *dialin;
  struct mst_dialin_proof proof;
  struct mst_io io; // the thread's end of `ends`
  int ends[2];      // the owner's, the thread's: each wakes the other by a byte
  int *listeners;
  uint8_t closes;
  pthread_mutex_t lock; // of what follows
  struct guest *first, *last;
  uint8_t *expected; // by place: may be taken again
};

// ---- the thread's

static void admitted(void *owner, uint32_t place, int fd,
                     struct mst_secure *secure) {
  struct mst_intake *intake = owner;
  struct guest *guest = calloc(1, sizeof *guest);
  if (guest == NULL) { // it calls again
    mst_secure_free(secure);
    mst_net_close_reset(&fd);
    mst_dialin_expect(intake->dialin, place, 0);
    return;
  }
  *guest = (struct guest){.fd = fd, .secure = secure, .place = place};
  (void)pthread_mutex_lock(&intake->lock);
  *(intake->last != NULL ? &intake->last->next : &intake->first) = guest;
  intake->last = guest;
  (void)pthread_mutex_unlock(&intake->lock);
  (void)mst_net_write(intake->ends[1], "", 1, NULL);
}

static void expect_again(struct mst_intake *intake) {
  (void)pthread_mutex_lock(&intake->lock);
  for (uint32_t i = 0; i < intake->config.places; i++) {
    if (intake->expected[i]) mst_dialin_expect(intake->dialin, i, 0);
    intake->expected[i] = 0;
  }
  (void)pthread_mutex_unlock(&intake->lock);
}

static void is_woken(struct mst_io *io, uint32_t ready) {
  struct mst_intake *intake = io->owner;
  uint8_t bytes[64];
  int64_t got;
  (void)ready;
  while ((got = mst_net_read(io->fd, bytes, sizeof bytes, NULL)) > 0)
    continue;
  intake->closes |= got != -MST_EAGAIN;
  expect_again(intake);
}

static void *thread_main(void *data) {
  struct mst_intake *intake = data;
  while (!intake->closes) {
    const int ms = mst_clock_ms_until(mst_dialin_due(intake->dialin), 60000);
    if (mst_loop_run(intake->loop, ms, NULL) < 0) {
      // Out of something, for now: nobody would hear of a thread that ended.
      is_woken(&intake->io, MST_READABLE);
      (void)poll(NULL, 0, SHORTAGE_MS);
    }
    mst_dialin_tick(intake->dialin, mst_clock_now());
  }
  return NULL;
}

// ---- the owner's

static int no_memory(struct mst_err *err) {
  return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory to listen");
}

static int begin(struct mst_intake *intake, struct mst_err *err) {
  const struct mst_intake_config *config = &intake->config;
  int rc = mst_loop_open(MST_LOOP_BEST, &intake->loop, err);
  if (rc == 0) rc = mst_net_pair(intake->ends, err);
  if (rc != 0) return rc;
  for (int i = 0; i < 2; i++) {
    mst_net_raise(&intake->ends[i]);
    mst_net_unblock(intake->ends[i]);
  }
  intake->io = (struct mst_io){.fd = intake->ends[1],
                               .wanted = MST_READABLE,
                               .ready = is_woken,
                               .owner = intake};
  rc = mst_loop_add(intake->loop, &intake->io, err);
  if (rc == 0)
    rc = mst_dialin_open(intake->loop, intake->listeners, config->count,
                         &intake->proof, config->cluster, config->places,
                         admitted, intake, &intake->dialin, err);
  return rc == 0 ? mst_thread_start(&intake->thread, thread_main, intake) : rc;
}

static void free_intake(struct mst_intake *intake) {
  mst_dialin_close(intake->dialin);
  if (intake->loop != NULL) {
    mst_loop_remove(intake->loop, &intake->io);
    mst_loop_close(intake->loop);
  }
  mst_net_close(&intake->ends[0]);
  mst_net_close(&intake->ends[1]);
  (void)pthread_mutex_destroy(&intake->lock);
  mst_psk_wipe(&intake->config.key);
  free(intake->listeners);
  free(intake->expected);
  free(intake);
}

int mst_intake_open(const struct mst_intake_config *config,
                    struct mst_intake **out, struct mst_err *err) {
  struct mst_intake *intake = calloc(1, sizeof *intake);
  if (intake == NULL) return no_memory(err);
  intake->config = *config;
  intake->ends[0] = intake->ends[1] = -1;
  intake->proof = (struct mst_dialin_proof){.key = intake->config.key.bytes,
                                            .name = intake->config.key.name};
  (void)pthread_mutex_init(&intake->lock, NULL);
  intake->listeners = calloc(config->count, sizeof *intake->listeners);
  intake->expected = calloc(config->places, 1);
  int rc = intake->listeners == NULL || intake->expected == NULL
               ? no_memory(err)
               : 0;
  if (rc == 0) {
    memcpy(intake->listeners, config->listeners,
           config->count * sizeof *intake->listeners);
    rc = begin(intake, err);
  }
  if (rc > 0)
    rc = mst_err_set(err, MST_ESYS, rc, "pthread_create", "%s", strerror(rc));
  if (rc != 0) {
    free_intake(intake);
    return rc;
  }
  *out = intake;
  return 0;
}

int mst_intake_fd(const struct mst_intake *intake) { return intake->ends[0]; }

int mst_intake_take(struct mst_intake *intake, int *fd,
                    struct mst_secure **secure, uint32_t *place) {
  uint8_t bytes[64];
  (void)pthread_mutex_lock(&intake->lock);
  struct guest *guest = intake->first;
  if (guest != NULL) intake->first = guest->next;
  if (intake->first == NULL) {
    intake->last = NULL;
    // Its bytes stay as long as anybody waits.
    while (mst_net_read(intake->ends[0], bytes, sizeof bytes, NULL) > 0)
      continue;
  }
  (void)pthread_mutex_unlock(&intake->lock);
  if (guest == NULL) return 0;
  *fd = guest->fd;
  *secure = guest->secure;
  *place = guest->place;
  free(guest);
  return 1;
}

void mst_intake_expect(struct mst_intake *intake, uint32_t place) {
  (void)pthread_mutex_lock(&intake->lock);
  intake->expected[place] = 1;
  (void)pthread_mutex_unlock(&intake->lock);
  (void)mst_net_write(intake->ends[0], "", 1, NULL);
}

// end closes what the thread had.
static void end(struct mst_intake *intake) {
  int fd;
  struct mst_secure *secure;
  uint32_t place;
  while (mst_intake_take(intake, &fd, &secure, &place)) {
    mst_secure_free(secure);
    mst_net_close(&fd);
  }
  for (size_t i = 0; i < intake->config.count; i++)
    mst_net_close(&intake->listeners[i]);
  free_intake(intake);
}

void mst_intake_close(struct mst_intake *intake) {
  if (intake == NULL) return;
  mst_net_cut(intake->ends[0]);
  (void)pthread_join(intake->thread, NULL);
  end(intake);
}
