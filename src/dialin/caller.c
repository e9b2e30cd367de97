// The host's side of a dial-in. See caller.h.
#include "dialin/caller.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/mst_clock.h"
#include "base/mst_entropy.h"
#include "net/stream.h"

static void happens(struct mst_caller *caller, enum mst_dialer_event event);

int mst_caller_open(struct mst_caller *caller, int64_t give_up_ns,
                    struct mst_err *err) {
  struct mst_dial dial = {.cluster = caller->cluster, .worker = MST_DIAL_ANY};
  caller->fd = -1;
  caller->secure = NULL;
  caller->why[0] = '\0';
  mst_err_clear(&caller->last);
  const int rc = mst_entropy_take(dial.nonce, sizeof dial.nonce, err);
  if (rc == 0)
    mst_dialer_open(&caller->dialer, &dial, mst_clock_now(), give_up_ns);
  return rc;
}

void mst_caller_give(struct mst_caller *caller, int *fd,
                     struct mst_secure **secure) {
  *fd = caller->fd;
  *secure = caller->secure;
  caller->fd = -1;
  caller->secure = NULL;
}

static void hang_up(struct mst_caller *caller) {
  mst_secure_free(caller->secure);
  caller->secure = NULL;
  if (caller->fd >= 0) mst_net_close_reset(&caller->fd);
}

void mst_caller_close(struct mst_caller *caller) {
  hang_up(caller);
  mst_psk_wipe(&caller->key);
}

// ---- one connection

static void dial(struct mst_caller *caller) {
  const struct mst_addr *addr =
      &caller->addrs[(caller->dialer.dial.attempt - 1) % caller->count];
  caller->got = 0;
  caller->asked = 0;
  const int rc = mst_net_dial(addr, &caller->fd, &caller->last);
  if (rc == 0) {
    happens(caller, MST_DIALER_CONNECTED);
  } else if (rc != -MST_EAGAIN) {
    happens(caller, MST_DIALER_ENDED);
  }
}

static void prove(struct mst_caller *caller) {
  if (mst_secure_open(MST_SECURE_DIALS, caller->fd, caller->key.bytes,
                      caller->key.name, &caller->secure, &caller->last) != 0)
    happens(caller, MST_DIALER_ENDED);
}

static void happens(struct mst_caller *caller, enum mst_dialer_event event) {
  const unsigned todo =
      mst_dialer_event(&caller->dialer, event, mst_clock_now());
  if (todo & MST_DIALER_CLOSE) hang_up(caller);
  if (todo & MST_DIALER_OPEN) dial(caller);
  if (todo & MST_DIALER_SEND) prove(caller); // and then it is sent
}

// ask goes on with the handshake, and then says DIAL. 0 once that is said.
static int ask(struct mst_caller *caller) {
  uint8_t bytes[MST_DIAL_BYTES];
  const int rc = mst_secure_shake(caller->secure, &caller->last);
  if (rc != 0) return rc;
  mst_dial_encode(&caller->dialer.dial, MST_KIND_DIAL, bytes);
  const int64_t sent =
      mst_secure_write(caller->secure, bytes, sizeof bytes, &caller->last);
  caller->asked = sent == (int64_t)sizeof bytes;
  return caller->asked ? 0 : -MST_ECLOSED;
}

// refused reads why. 1 once that is whole.
static int refused(struct mst_caller *caller) {
  struct mst_frame frame;
  uint64_t used;
  if (mst_frame_parse(caller->bytes, caller->got, MST_FRAME_MAX_CONTROL, &frame,
                      &used) != 1 ||
      frame.head.kind != MST_KIND_REFUSE) {
    return 0;
  }
  if (mst_text_decode(frame.payload, (size_t)frame.head.length, caller->why) <
      0)
    memcpy(caller->why, "refused", sizeof "refused");
  return 1;
}

// hear reads the answer: not a byte more than ADMIT, or REFUSE, has. An error: the connection ends.
static int hear(struct mst_caller *caller) {
  struct mst_dial dial;
  const size_t most =
      caller->got < MST_DIAL_BYTES ? MST_DIAL_BYTES : sizeof caller->bytes;
  const int64_t got =
      mst_secure_read(caller->secure, caller->bytes + caller->got,
                      most - caller->got, &caller->last);
  if (got < 0) return got == -MST_EAGAIN ? 0 : (int)got;
  caller->got += (size_t)got;
  const int rc =
      mst_dial_decode(caller->bytes, caller->got, MST_KIND_ADMIT, &dial);
  if (rc > 0 && mst_dial_same(&dial, &caller->dialer.dial)) {
    happens(caller, MST_DIALER_ADMITTED);
  } else if (refused(caller)) {
    happens(caller, MST_DIALER_REFUSED);
  } else if (rc > 0) {
    return -MST_EPROTO;
  }
  return 0;
}

static void is_ready(struct mst_caller *caller) {
  int rc;
  if (caller->dialer.state == MST_DIALER_DIALING) {
    rc = mst_net_dial_done(caller->fd, &caller->last);
    if (rc == 0) happens(caller, MST_DIALER_CONNECTED);
  } else {
    rc = caller->asked ? 0 : ask(caller);
    if (rc == 0) rc = hear(caller);
  }
  if (rc < 0 && rc != -MST_EAGAIN) happens(caller, MST_DIALER_ENDED);
}

// ---- rounds

static short wants(const struct mst_caller *caller) {
  if (caller->dialer.state == MST_DIALER_DIALING) return POLLOUT;
  return caller->asked ? POLLIN : mst_secure_wants(caller->secure);
}

// wait waits until something is to do. 1: the connection is ready; 0: time has passed; -1: a
// signal.
static int wait(const struct mst_caller *caller, int64_t until_ns) {
  struct pollfd polled = {.fd = caller->fd};
  const int64_t due_ns = caller->dialer.due_ns;
  if (caller->fd >= 0) polled.events = wants(caller);
  return poll(&polled, 1,
              mst_clock_ms_until(due_ns < until_ns ? due_ns : until_ns, 60000));
}

static int failed(const struct mst_caller *caller, struct mst_err *err) {
  if (caller->why[0] != '\0')
    return mst_err_set(err, MST_EPROTO, 0, NULL, "%s", caller->why);
  if (err != NULL) *err = caller->last;
  return -MST_ETIMEOUT;
}

int mst_caller_run(struct mst_caller *caller, int64_t until_ns,
                   struct mst_err *err) {
  while (caller->dialer.state != MST_DIALER_BEGUN) {
    if (caller->dialer.state == MST_DIALER_FAILED) return failed(caller, err);
    const int rc = wait(caller, until_ns);
    if (rc > 0) is_ready(caller);
    happens(caller, MST_DIALER_TICK);
    if (rc < 0 || mst_clock_now() >= until_ns) return -MST_EAGAIN;
  }
  return 0;
}

void mst_caller_again(struct mst_caller *caller) {
  if (caller->dialer.state == MST_DIALER_BEGUN)
    happens(caller, MST_DIALER_ENDED);
}
