// What the tests of intakes share, tests/netns/dialin.c among them: the session that takes what a
// intake has let in, hosts that call, and hostile peers. One thread goes round among all of them;
// nothing is decided by the clock, and each wait has a limit far beyond what it is for.
#ifndef MST_INTAKE_TEST_H
#define MST_INTAKE_TEST_H

#include <stdlib.h>
#include <string.h>

#include "dialin/caller.h"
#include "dialin/intake.h"
#include "mst_net_test.h"
#include "mst_random.h"

#define LIMIT_MS 300000 // of any wait: a test that comes here has failed
#define HOSTS_MAX 1024u

static const uint8_t key[MST_SECURE_KEY_BYTES] = "0123456789abcdef";
static const uint8_t no_key[MST_SECURE_KEY_BYTES] = "guess";

static struct mst_intake *intake;
static struct mst_addr bound; // where it listens

// open_intake opens an intake behind listeners, which it takes over.
static inline void open_intake(const int *listeners, size_t count,
                               uint32_t places) {
  struct mst_intake_config config = {.listeners = listeners,
                                     .count = count,
                                     .key = {.name = "a"},
                                     .cluster = 7,
                                     .places = places};
  memcpy(config.key.bytes, key, sizeof key);
  CHECK_INT(mst_intake_open(&config, &intake, NULL), 0);
}

// ---- the session: what the intake has let in

struct guest {
  int fd;
  struct mst_secure *secure;
  uint32_t place;
  uint16_t number; // of the host
};
static struct guest guests[HOSTS_MAX];
static uint32_t guest_count;
static uint8_t came[HOSTS_MAX]; // by the hosts' numbers

// take_in takes one guest and reads which host it is: one that isn't here. 0: there is none.
static inline int take_in(void) {
  struct guest *guest = &guests[guest_count];
  if (!mst_intake_take(intake, &guest->fd, &guest->secure, &guest->place))
    return 0;
  for (uint32_t i = 0; i < guest_count; i++)
    CHECK(guests[i].place != guest->place);
  CHECK_INT(mst_secure_read(guest->secure, &guest->number, 2, NULL), 2);
  CHECK(guest->number < HOSTS_MAX && !came[guest->number]);
  came[guest->number] = 1;
  CHECK(++guest_count < HOSTS_MAX);
  return 1;
}

static inline void answer(const struct guest *guest) {
  CHECK_INT(mst_secure_write(guest->secure, "s", 1, NULL), 1);
}

// forget_guest closes a guest, and another one may come.
static inline void forget_guest(uint32_t at) {
  struct guest *guest = &guests[at];
  mst_secure_free(guest->secure);
  mst_net_close(&guest->fd);
  mst_intake_expect(intake, guest->place);
  came[guest->number] = 0;
  *guest = guests[--guest_count];
}

static inline void forget_guests(void) {
  while (guest_count > 0)
    forget_guest(guest_count - 1);
}

// ---- hosts

struct host {
  struct mst_caller caller;
  uint16_t number;
  uint8_t asked; // has had a connection, on which it has asked
  uint8_t begun, said, heard;
};

static inline void open_host(struct host *host, uint16_t number) {
  *host =
      (struct host){.number = number,
                    .caller = {.count = 1, .cluster = 7, .key = {.name = "a"}}};
  host->caller.addrs[0] = bound;
  memcpy(host->caller.key.bytes, key, sizeof key);
  CHECK_INT(mst_caller_open(&host->caller, in_ms(LIMIT_MS), NULL), 0);
}

// call goes on with a host's call until it is admitted.
static inline void call(struct host *host) {
  struct mst_err err;
  mst_err_clear(&err);
  if (host->begun) return;
  const int rc = mst_caller_run(&host->caller, mst_clock_now(), &err);
  if (rc != -MST_EAGAIN) CHECK_TEXT(rc == 0 ? "" : err.text, "");
  if (host->caller.dialer.state == MST_DIALER_ASKING) host->asked = 1;
  host->begun = rc == 0;
}

static inline void call_again(struct host *host) {
  mst_caller_again(&host->caller);
  host->begun = host->said = host->heard = 0;
}

// step lets a host call, say its number, and hear the session.
static inline void step(struct host *host) {
  uint8_t byte;
  call(host);
  if (!host->begun || host->heard) return;
  if (!host->said)
    host->said =
        mst_secure_write(host->caller.secure, &host->number, 2, NULL) == 2;
  const int64_t got = mst_secure_read(host->caller.secure, &byte, 1, NULL);
  host->heard = got == 1 && byte == 's';
  if (got < 0 && got != -MST_EAGAIN) call_again(host);
}

// attempts gives how many connections a host has opened.
static inline uint32_t attempts(const struct host *host) {
  return host->caller.dialer.dial.attempt;
}

// ---- peers

enum what {
  SILENT,    // never says anything
  DRIPS,     // a host's bytes, one at a time
  GARBAGE,   // random bytes
  HTTP,      // another protocol
  BARE,      // DIAL, without TLS
  TLS_12,    // the hello of a client that speaks no TLS 1.3
  HELLO,     // a host's hello, and no more
  REPLAYS,   // all that a host has said
  WRONG_KEY, // the right name
  WRONG_NAME,
  WHATS
};
struct peer {
  enum what what;
  int fd;
  const uint8_t *bytes;
  size_t n, sent;
  int64_t pause_ns, next_ns; // between two bytes
  struct mst_secure *secure;
  uint8_t heard[8];
  size_t got;
  uint8_t up;   // connected
  uint8_t over; // the intake has ended it
};

// What `openssl s_client -tls1_2` says first, with fewer ciphers.
static const uint8_t hello_12[] =
    "\x16\x03\x01\x00\x47\x01\x00\x00\x43\x03\x03"
    "0123456789abcdef0123456789abcdef"
    "\x00\x00\x06\xc0\x2f\x00\xa8\x00\xff\x01\x00\x00\x14"
    "\x00\x0d\x00\x06\x00\x04\x04\x01\x04\x03\x00\x0a\x00\x06\x00\x04\x00\x1d"
    "\x00\x17";

static uint8_t garbage[600], bare[MST_DIAL_BYTES];
static uint8_t recorded[4096]; // what a host has said
static size_t recorded_n, hello_n;

static inline void open_peer(struct peer *peer, enum what what,
                             int64_t pause_ns) {
  static const char get[] = "GET / HTTP/1.1\r\n\r\n";
  const struct peer all[WHATS] = {
      [DRIPS] = {.bytes = recorded, .n = recorded_n},
      [GARBAGE] = {.bytes = garbage, .n = sizeof garbage},
      [HTTP] = {.bytes = (const uint8_t *)get, .n = sizeof get - 1},
      [BARE] = {.bytes = bare, .n = sizeof bare},
      [TLS_12] = {.bytes = hello_12, .n = sizeof hello_12 - 1},
      [HELLO] = {.bytes = recorded, .n = hello_n},
      [REPLAYS] = {.bytes = recorded, .n = recorded_n}};
  *peer = all[what];
  peer->what = what;
  peer->pause_ns = pause_ns;
  const int rc = mst_net_dial(&bound, &peer->fd, NULL);
  if (rc != 0 && rc != -MST_EAGAIN) {
    peer->over = 1; // one too many, and reset before the connect was over
    return;
  }
  if (what >= WRONG_KEY)
    CHECK_INT(mst_secure_open(
                  MST_SECURE_DIALS, peer->fd, what == WRONG_KEY ? no_key : key,
                  what == WRONG_KEY ? "a" : "b", &peer->secure, NULL),
              0);
}

static inline void close_peer(struct peer *peer) {
  mst_secure_free(peer->secure);
  mst_net_close(&peer->fd);
}

// was_told: a client of another version was told so, by a fatal alert. Not if it came too late.
static inline int was_told(const struct peer *peer) {
  if (peer->what != TLS_12 || peer->got == 0) return 0;
  CHECK(peer->got == 7 && peer->heard[0] == 0x15 && peer->heard[5] == 2 &&
        peer->heard[6] == 70);
  return 1;
}

// bother lets a peer do its next bit.
static inline void bother(struct peer *peer) {
  uint8_t bytes[512];
  if (peer->over) return;
  if (!peer->up) {
    const int rc = mst_net_dial_done(peer->fd, NULL);
    peer->up = rc == 0;
    peer->over = rc != 0 && rc != -MST_EAGAIN;
    if (rc != 0) return;
  }
  if (peer->secure != NULL) {
    const int rc = mst_secure_shake(peer->secure, NULL);
    CHECK(rc != 0);
    peer->over = rc != -MST_EAGAIN;
    return;
  }
  if (peer->sent < peer->n && mst_clock_now() >= peer->next_ns) {
    const size_t n = peer->what == DRIPS ? 1 : peer->n - peer->sent;
    const int64_t sent =
        mst_net_write(peer->fd, peer->bytes + peer->sent, n, NULL);
    if (sent > 0) peer->sent += (size_t)sent;
    peer->next_ns = mst_clock_now() + peer->pause_ns;
  }
  const int64_t got = mst_net_recv(peer->fd, bytes, sizeof bytes, 0, NULL);
  peer->over = got < 0 && got != -MST_EAGAIN;
  for (int64_t i = 0; i < got && peer->got < sizeof peer->heard; i++)
    peer->heard[peer->got++] = bytes[i];
}

// ---- what replays say

// pump hands on what the ends of two connections say, and writes down what the first says. 0: one
// has ended.
static inline int pump(const int ends[2]) {
  for (int i = 0; i < 2; i++) {
    uint8_t bytes[2048];
    const int64_t n = mst_net_recv(ends[i], bytes, sizeof bytes, 0, NULL);
    if (n == -MST_EAGAIN) continue;
    if (n < 0) return 0;
    CHECK_INT(mst_net_write(ends[!i], bytes, (size_t)n, NULL), n);
    if (i == 1) continue;
    CHECK(recorded_n + (size_t)n <= sizeof recorded);
    memcpy(recorded + recorded_n, bytes, (size_t)n);
    recorded_n += (size_t)n;
  }
  return 1;
}

// record has a host call by way of a relay, until it is in.
static inline void record(struct host *host) {
  const int64_t limit_ns = in_ms(LIMIT_MS);
  const struct mst_addr real = bound;
  int relay = listen_at("127.0.0.1", 8, &bound), ends[2] = {-1, -1};
  open_host(host, 0);
  bound = real;
  while (!host->heard) {
    step(host);
    while (take_in())
      answer(&guests[guest_count - 1]);
    CHECK(mst_clock_now() < limit_ns);
    if (ends[0] < 0) {
      if (mst_net_accept(relay, &ends[0], NULL, NULL) != 0) continue;
      CHECK_INT(dial_within(&bound, &ends[1], NULL), 0);
      recorded_n = 0;
    }
    if (pump(ends)) continue;
    mst_net_close(&ends[0]); // it was too slow, and calls again
    mst_net_close(&ends[1]);
  }
  hello_n = 5 + (size_t)(recorded[3] << 8) + recorded[4];
  CHECK(recorded[0] == 0x16 && hello_n < recorded_n);
  mst_caller_close(&host->caller);
  forget_guests();
  mst_net_close(&ends[0]);
  mst_net_close(&ends[1]);
  mst_net_close(&relay);
}

// prepare makes what peers say. The intake must be open.
static inline void prepare(struct host *host) {
  uint64_t random = 1;
  const struct mst_dial dial = {
      .cluster = 7, .worker = MST_DIAL_ANY, .attempt = 1};
  for (size_t i = 0; i < sizeof garbage; i++)
    garbage[i] = (uint8_t)mst_random(&random);
  mst_dial_encode(&dial, MST_KIND_DIAL, bare);
  record(host);
}

#endif
