// The acceptor on a loop. See serve.h.
//
// Queues stay short because accepting never waits for anything: it runs between any two lines, and
// reading a line takes only what has come.
#include "dialin/serve.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "net/stream.h"

// Accepted in a row before others have their turn.
#define ACCEPT_MAX 256
// Without free descriptors a listener stays ready: ignore it this long.
#define SHORTAGE_NS (100 * MST_NS_PER_MS)

// The least number of connections at a time whose peers have to prove a key; the most is a quarter
// of the files that this process may open.
#define LINES_LEAST 16

struct line {
  struct mst_io io;
  struct mst_dialin *dialin;
  uint32_t number;           // the acceptor's
  int fd;                    // owned until handed over, as is:
  struct mst_secure *secure; // NULL: bytes cross as they are
  int proved;                // its handshake is over
  int admitted;
  uint8_t bytes[MST_DIAL_BYTES]; // of the DIAL
  size_t got;
};

struct mst_dialin {
  struct mst_loop *loop;
  struct mst_acceptor *acceptor;
  struct mst_io *listeners;
  size_t count, turn;
  struct mst_dialin_proof proof;
  struct line **lines; // by the acceptor's numbers; NULL: free
  uint32_t waiting;
  int64_t shortage_ns; // when to watch listeners again, 0: they are watched
  mst_dialin_use use;
  void *owner;
};

static void drop_line(struct line *line, int reset) {
  struct mst_dialin *dialin = line->dialin;
  mst_loop_remove(dialin->loop, &line->io);
  mst_secure_free(line->secure);
  if (reset) mst_net_close_reset(&line->fd);
  mst_net_close(&line->fd);
  dialin->lines[line->number] = NULL;
  dialin->waiting--;
  free(line);
}

// end_line closes a line that is gone or unusable, and tells the acceptor.
static void end_line(struct line *line) {
  mst_acceptor_ended(line->dialin->acceptor, line->number);
  drop_line(line, 1);
}

// say sends the first bytes on a new connection: they fit.
static int say(struct line *line, const uint8_t *bytes, size_t n) {
  size_t done = 0;
  if (line->secure == NULL)
    return mst_net_send_until(line->fd, bytes, n, &done, 0, NULL);
  const int64_t sent = mst_secure_write(line->secure, bytes, n, NULL);
  return sent == (int64_t)n ? 0 : -MST_ECLOSED;
}

static void refuse(struct line *line, const char *why) {
  uint8_t bytes[MST_HEAD_BYTES + 4 + 64];
  const int n = mst_text_encode(why, bytes + MST_HEAD_BYTES,
                                sizeof bytes - MST_HEAD_BYTES);
  MST_ASSERT(n > 0);
  const struct mst_head head = {.kind = MST_KIND_REFUSE, .length = (uint64_t)n};
  mst_head_encode(&head, bytes);
  (void)say(line, bytes, MST_HEAD_BYTES + (size_t)n);
  drop_line(line, 0); // not with a reset: the peer must be able to read it
}

static void admit(struct line *line, const struct mst_dial *dial) {
  uint8_t bytes[MST_DIAL_BYTES];
  mst_dial_encode(dial, MST_KIND_ADMIT, bytes);
  line->admitted = 1;
  line->got = 0;
  if (say(line, bytes, sizeof bytes) != 0) end_line(line);
}

static void hand_over(struct line *line, uint32_t worker) {
  struct mst_dialin *dialin = line->dialin;
  const int fd = line->fd;
  struct mst_secure *secure = line->secure;
  mst_loop_remove(dialin->loop, &line->io);
  line->fd = -1;
  line->secure = NULL;
  drop_line(line, 0);
  dialin->use(dialin->owner, worker, fd, secure);
}

static void perform(struct mst_dialin *dialin,
                    const struct mst_acceptor_action *actions, size_t n,
                    const struct mst_dial *dial) {
  for (size_t i = 0; i < n; i++) {
    struct line *line = dialin->lines[actions[i].conn];
    MST_ASSERT(line != NULL);
    switch (actions[i].what) {
    case MST_ACCEPTOR_ADMIT:
      admit(line, dial);
      break;
    case MST_ACCEPTOR_REFUSE:
      refuse(line, actions[i].why);
      break;
    case MST_ACCEPTOR_CLOSE:
      drop_line(line, 1);
      break;
    case MST_ACCEPTOR_USE:
      hand_over(line, actions[i].worker);
      break;
    }
  }
}

static void read_dial(struct line *line) {
  uint8_t *to = line->bytes + line->got;
  const size_t room = sizeof line->bytes - line->got;
  const int64_t got = line->secure == NULL
                          ? mst_net_recv(line->fd, to, room, 0, NULL)
                          : mst_secure_read(line->secure, to, room, NULL);
  if (got == -MST_EAGAIN) return;
  if (got < 0) {
    end_line(line);
    return;
  }
  line->got += (size_t)got;
  struct mst_dial dial;
  const int rc = mst_dial_decode(line->bytes, line->got, MST_KIND_DIAL, &dial);
  if (rc < 0) end_line(line);
  if (rc <= 0) return;
  struct mst_acceptor_action actions[2];
  const size_t n = mst_acceptor_dial(line->dialin->acceptor, line->number,
                                     &dial, mst_clock_now(), actions);
  perform(line->dialin, actions, n, &dial);
}

static void talked(struct line *line) {
  struct mst_acceptor_action action;
  const size_t n =
      mst_acceptor_talked(line->dialin->acceptor, line->number, &action);
  perform(line->dialin, &action, n, NULL);
}

// look_behind: did an admitted worker send anything but its DIAL again?
static void look_behind(struct line *line) {
  uint8_t bytes[4];
  const int64_t got = mst_net_peek(line->fd, bytes, sizeof bytes, NULL);
  if (got == -MST_EAGAIN) return;
  // A frame's first bytes come together; a peer that sends single bytes would keep us busy.
  if (got < (int64_t)sizeof bytes) {
    end_line(line);
    return;
  }
  if (bytes[3] == MST_KIND_DIAL) {
    read_dial(line);
    return;
  }
  talked(line);
}

// prove goes on with the handshake. 1: it is over. What that needs is made once there is something
// to read: a peer that is silent costs a descriptor and the line.
static int prove(struct line *line) {
  const struct mst_dialin_proof *proof = &line->dialin->proof;
  if (proof->key == NULL || line->proved) return 1;
  if (line->secure == NULL &&
      mst_secure_open(MST_SECURE_ACCEPTS, line->fd, proof->key, proof->name,
                      &line->secure, NULL) != 0) {
    end_line(line);
    return 0;
  }
  const int rc = mst_secure_shake(line->secure, NULL);
  line->proved = rc == 0;
  if (rc != 0 && rc != -MST_EAGAIN) {
    end_line(line);
    return 0;
  }
  const int writes =
      rc == -MST_EAGAIN && mst_secure_wants(line->secure) == POLLOUT;
  (void)mst_loop_want(line->dialin->loop, &line->io,
                      writes ? MST_WRITABLE : MST_READABLE, NULL);
  return rc == 0;
}

// read_on reads what has come. Whoever was admitted and has proved a key sends nothing again.
static void read_on(struct line *line) {
  if (!prove(line)) return;
  if (!line->admitted || line->got > 0) {
    read_dial(line);
    return;
  }
  if (line->secure == NULL) {
    look_behind(line);
    return;
  }
  const int rc = mst_secure_await(line->secure, NULL);
  if (rc == 1) {
    talked(line);
  } else if (rc != -MST_EAGAIN) {
    end_line(line);
  }
}

static void line_ready(struct mst_io *io, uint32_t ready);

// new_line makes a line for a connection. NULL: no memory, or too many of them.
static struct line *new_line(struct mst_dialin *dialin) {
  struct line *line = calloc(1, sizeof *line);
  if (line == NULL) return NULL;
  if (mst_acceptor_accepted(dialin->acceptor, mst_clock_now(), &line->number) ==
      0)
    return line;
  free(line);
  return NULL;
}

static void take_in(struct mst_dialin *dialin, int fd) {
  mst_net_raise(&fd);
  struct line *line = new_line(dialin);
  if (line == NULL) {
    mst_net_close_reset(&fd); // its worker dials again
    return;
  }
  line->dialin = dialin;
  line->fd = fd;
  line->io = (struct mst_io){
      .fd = fd, .wanted = MST_READABLE, .ready = line_ready, .owner = line};
  dialin->lines[line->number] = line;
  dialin->waiting++;
  if (mst_loop_add(dialin->loop, &line->io, NULL) != 0) end_line(line);
}

static void watch_listeners(struct mst_dialin *dialin, int on) {
  for (size_t i = 0; i < dialin->count; i++) {
    (void)mst_loop_want(dialin->loop, &dialin->listeners[i],
                        on ? MST_READABLE : 0, NULL);
  }
}

static void accept_some(struct mst_dialin *dialin, int listener, int most) {
  for (int i = 0; i < most; i++) {
    int fd;
    const int rc = mst_net_accept(listener, &fd, NULL, NULL);
    if (rc == -MST_EAGAIN) return;
    if (rc != 0) {
      dialin->shortage_ns = mst_clock_now() + SHORTAGE_NS;
      watch_listeners(dialin, 0);
      return;
    }
    take_in(dialin, fd);
  }
}

static void listener_ready(struct mst_io *io, uint32_t ready) {
  (void)ready;
  accept_some(io->owner, io->fd, ACCEPT_MAX);
}

// A loop's round may serve a hundred lines, and a queue of three is full long before that: so each
// line accepts from a listener first.
static void line_ready(struct mst_io *io, uint32_t ready) {
  struct line *line = io->owner;
  struct mst_dialin *dialin = line->dialin;
  (void)ready;
  if (dialin->shortage_ns == 0) {
    dialin->turn = (dialin->turn + 1) % dialin->count;
    accept_some(dialin, dialin->listeners[dialin->turn].fd, ACCEPT_MAX);
  }
  read_on(line);
}

// most_lines: peers that have proved nothing must not take the files that the user's code needs.
static uint32_t most_lines(const struct mst_dialin_proof *proof) {
  int64_t soft, hard, open_now;
  if (proof == NULL) return MST_ACCEPTOR_CONNS_MAX;
  mst_net_fd_limits(&soft, &hard, &open_now);
  if (soft / 4 < LINES_LEAST) return LINES_LEAST;
  return soft / 4 < MST_ACCEPTOR_CONNS_MAX ? (uint32_t)(soft / 4)
                                           : MST_ACCEPTOR_CONNS_MAX;
}

int mst_dialin_open(struct mst_loop *loop, const int *listeners, size_t count,
                    const struct mst_dialin_proof *proof, uint32_t cluster,
                    uint32_t workers, mst_dialin_use use, void *owner,
                    struct mst_dialin **out, struct mst_err *err) {
  struct mst_dialin *dialin = calloc(1, sizeof *dialin);
  *out = NULL;
  int rc = dialin == NULL ? -MST_EMEM : 0;
  if (rc == 0) {
    *dialin = (struct mst_dialin){.loop = loop, .use = use, .owner = owner};
    if (proof != NULL) dialin->proof = *proof;
    dialin->listeners = calloc(count, sizeof *dialin->listeners);
    dialin->lines = calloc(MST_ACCEPTOR_CONNS_MAX, sizeof(struct line *));
    rc = mst_acceptor_open(cluster, workers, most_lines(proof),
                           &dialin->acceptor);
    if (dialin->listeners == NULL || dialin->lines == NULL) rc = -MST_EMEM;
  }
  for (size_t i = 0; rc == 0 && i < count; i++) {
    dialin->listeners[i] = (struct mst_io){.fd = listeners[i],
                                           .wanted = MST_READABLE,
                                           .ready = listener_ready,
                                           .owner = dialin};
    rc = mst_loop_add(loop, &dialin->listeners[i], err);
    if (rc == 0) dialin->count++;
  }
  if (rc == 0) {
    *out = dialin;
    return 0;
  }
  mst_dialin_close(dialin);
  return rc == -MST_EMEM ? mst_err_set(err, MST_EMEM, 0, "calloc", "no memory")
                         : rc;
}

void mst_dialin_tick(struct mst_dialin *dialin, int64_t now_ns) {
  struct mst_acceptor_action action;
  while (mst_acceptor_tick(dialin->acceptor, now_ns, &action) > 0)
    perform(dialin, &action, 1, NULL);
  if (dialin->shortage_ns != 0 && now_ns >= dialin->shortage_ns) {
    dialin->shortage_ns = 0;
    watch_listeners(dialin, 1);
  }
}

int64_t mst_dialin_due(const struct mst_dialin *dialin) {
  const int64_t due_ns = mst_acceptor_due(dialin->acceptor);
  const int64_t shortage_ns =
      dialin->shortage_ns != 0 ? dialin->shortage_ns : INT64_MAX;
  return due_ns < shortage_ns ? due_ns : shortage_ns;
}

uint32_t mst_dialin_used(const struct mst_dialin *dialin) {
  return mst_acceptor_used(dialin->acceptor);
}

uint32_t mst_dialin_waiting(const struct mst_dialin *dialin) {
  return dialin->waiting;
}

void mst_dialin_expect(struct mst_dialin *dialin, uint32_t worker,
                       uint32_t epoch) {
  mst_acceptor_expect(dialin->acceptor, worker, epoch);
}

void mst_dialin_close(struct mst_dialin *dialin) {
  if (dialin == NULL) return;
  for (uint32_t i = 0; dialin->lines != NULL && i < MST_ACCEPTOR_CONNS_MAX;
       i++) {
    if (dialin->lines[i] != NULL) end_line(dialin->lines[i]);
  }
  for (size_t i = 0; i < dialin->count; i++)
    mst_loop_remove(dialin->loop, &dialin->listeners[i]);
  mst_acceptor_close(dialin->acceptor);
  free(dialin->lines);
  free(dialin->listeners);
  free(dialin);
}
