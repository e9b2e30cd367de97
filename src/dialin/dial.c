// DIAL and ADMIT, and the worker's side. See dialin.h.
#include "dialin/dialin.h"

#include <string.h>

#include "base/mst_assert.h"

void mst_dial_encode(const struct mst_dial *dial, enum mst_kind kind,
                     uint8_t out[MST_DIAL_BYTES]) {
  MST_ASSERT(kind == MST_KIND_DIAL || kind == MST_KIND_ADMIT);
  const struct mst_head head = {.kind = (uint8_t)kind,
                                .attempt = dial->attempt,
                                .cluster = dial->cluster,
                                .worker = dial->worker,
                                .epoch = dial->epoch,
                                .length = MST_NONCE_BYTES};
  mst_head_encode(&head, out);
  memcpy(out + MST_HEAD_BYTES, dial->nonce, MST_NONCE_BYTES);
}

int mst_dial_decode(const uint8_t *bytes, size_t n, enum mst_kind kind,
                    struct mst_dial *dial) {
  struct mst_head head;
  const int rc = mst_head_decode(bytes, n, MST_NONCE_BYTES, &head);
  if (rc < 0) return -MST_EPROTO;
  if (rc == 0) return 0;
  if (head.kind != kind || head.flags != 0 || head.call != 0 ||
      head.attempt == 0 || head.length != MST_NONCE_BYTES) {
    return -MST_EPROTO;
  }
  if (n < MST_DIAL_BYTES) return 0;
  *dial = (struct mst_dial){.cluster = head.cluster,
                            .worker = head.worker,
                            .epoch = head.epoch,
                            .attempt = head.attempt};
  memcpy(dial->nonce, bytes + MST_HEAD_BYTES, MST_NONCE_BYTES);
  return 1;
}

int mst_dial_same(const struct mst_dial *one, const struct mst_dial *other) {
  return one->cluster == other->cluster && one->worker == other->worker &&
         one->epoch == other->epoch && one->attempt == other->attempt &&
         memcmp(one->nonce, other->nonce, MST_NONCE_BYTES) == 0;
}

// ---- the worker's side

void mst_dialer_open(struct mst_dialer *dialer, const struct mst_dial *dial,
                     int64_t now_ns, int64_t give_up_ns) {
  *dialer = (struct mst_dialer){.dial = *dial,
                                .state = MST_DIALER_PAUSED,
                                .due_ns = now_ns,
                                .give_up_ns = give_up_ns,
                                .pause_ns = MST_DIAL_PAUSE_NS,
                                .answer_ns = MST_DIAL_ANSWER_NS};
  dialer->dial.attempt = 0;
  memcpy(&dialer->random, dial->nonce, sizeof dialer->random);
}

// jitter gives a number from 0 to limit (splitmix64).
static int64_t jitter(struct mst_dialer *dialer, int64_t limit) {
  dialer->random += UINT64_C(0x9E3779B97F4A7C15);
  uint64_t bits = dialer->random;
  bits = (bits ^ bits >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  bits = (bits ^ bits >> 27) * UINT64_C(0x94D049BB133111EB);
  bits ^= bits >> 31;
  return (int64_t)(bits % ((uint64_t)limit + 1));
}

static unsigned fail(struct mst_dialer *dialer, unsigned actions) {
  dialer->state = MST_DIALER_FAILED;
  dialer->due_ns = INT64_MAX;
  return actions | MST_DIALER_END;
}

// longer gives half as long again, up to the last.
static int64_t longer(int64_t ns, int64_t last_ns) {
  return ns + ns / 2 < last_ns ? ns + ns / 2 : last_ns;
}

// dial_again closes the connection, if any, and pauses before the next attempt.
static unsigned dial_again(struct mst_dialer *dialer, int64_t now_ns) {
  const int64_t pause_ns = jitter(dialer, dialer->pause_ns);
  if (now_ns >= dialer->give_up_ns || dialer->dial.attempt == UINT16_MAX) {
    return fail(dialer, MST_DIALER_CLOSE);
  }
  dialer->state = MST_DIALER_PAUSED;
  dialer->due_ns = now_ns + pause_ns;
  if (dialer->due_ns > dialer->give_up_ns) dialer->due_ns = dialer->give_up_ns;
  dialer->pause_ns = longer(dialer->pause_ns, MST_DIAL_PAUSE_NS_MAX);
  dialer->answer_ns = longer(dialer->answer_ns, MST_DIAL_ANSWER_NS_MAX);
  return MST_DIALER_CLOSE;
}

static unsigned tick(struct mst_dialer *dialer, int64_t now_ns) {
  if (now_ns < dialer->due_ns) return 0;
  switch (dialer->state) {
  case MST_DIALER_PAUSED:
    if (now_ns >= dialer->give_up_ns) return fail(dialer, 0);
    dialer->dial.attempt++;
    dialer->state = MST_DIALER_DIALING;
    dialer->due_ns = now_ns + dialer->answer_ns;
    return MST_DIALER_OPEN;
  case MST_DIALER_DIALING:
  case MST_DIALER_ASKING:
    return dial_again(dialer, now_ns);
  case MST_DIALER_BEGUN:
    return fail(dialer, MST_DIALER_CLOSE);
  default:
    return 0;
  }
}

static int has_connection(const struct mst_dialer *dialer) {
  return dialer->state == MST_DIALER_DIALING ||
         dialer->state == MST_DIALER_ASKING ||
         dialer->state == MST_DIALER_BEGUN;
}

unsigned mst_dialer_event(struct mst_dialer *dialer,
                          enum mst_dialer_event event, int64_t now_ns) {
  switch (event) {
  case MST_DIALER_TICK:
    return tick(dialer, now_ns);
  case MST_DIALER_CONNECTED:
    if (dialer->state != MST_DIALER_DIALING) return 0;
    dialer->state = MST_DIALER_ASKING;
    return MST_DIALER_SEND;
  case MST_DIALER_ADMITTED:
    if (dialer->state != MST_DIALER_ASKING) return 0;
    dialer->state = MST_DIALER_BEGUN;
    dialer->due_ns = dialer->give_up_ns;
    return MST_DIALER_BEGIN;
  case MST_DIALER_HEARD:
    if (dialer->state != MST_DIALER_BEGUN) return 0;
    dialer->state = MST_DIALER_DONE;
    dialer->due_ns = INT64_MAX;
    return MST_DIALER_END;
  case MST_DIALER_ENDED:
    return has_connection(dialer) ? dial_again(dialer, now_ns) : 0;
  case MST_DIALER_REFUSED:
    return has_connection(dialer) ? fail(dialer, MST_DIALER_CLOSE) : 0;
  }
  return 0;
}
