// dialin: how workers join a cluster over TCP, whatever happens to their connections on the way.
// Two pure cores: the dialer is the worker's side, the acceptor the session's. No socket, no clock,
// no R, no allocation except in mst_acceptor_open; events and the time go in, actions come out.
// serve.h connects the acceptor to sockets. docs/PROTOCOL.md, "Dialling in", says the same for
// writers of other clients.
//
// Problem: a full accept queue drops a handshake's packets, and then one end may believe in a
// connection that the other end has never seen or has forgotten (half-open). A worker that waits
// silently on it waits for days.
//
// Way chosen: the worker speaks first (DIAL), so that TCP resends its bytes until they arrive, and
// expects an answer (ADMIT) within 250 ms, and within up to 2 s later. Without one it closes the
// connection, and only then, after a pause that grows and has jitter, opens another: so it has at
// most one at any time, and only its newest can be valid. The session admits the newest connection
// that it hears of, replacing an older one that isn't in use. A connection is in use once the
// worker has sent something after ADMIT; from then on nothing replaces it.
//
// Not chosen: two connections at a time, of which the first to be answered wins. It saves up to 250
// ms after a loss, but needs a second round of answers to agree on one.
//
//   worker   dial ──> DIAL sent ──> admitted (says hello) ──> heard (done)
//              ^          │ 250 ms, end        │ end
//              └── pause ─┴────────────────────┘
//   session  waiting (no DIAL yet) ──> admitted ──> in use, handed over
//                 └ 2 s: closed           └ 2 s, end, newer one: closed
#ifndef MST_DIALIN_H
#define MST_DIALIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "wire/wire.h"

// ---- DIAL and ADMIT

#define MST_NONCE_BYTES 16u
#define MST_DIAL_BYTES (MST_HEAD_BYTES + MST_NONCE_BYTES)

// A process that may be any of those that are expected; its epoch doesn't matter.
#define MST_DIAL_ANY UINT32_MAX

struct mst_dial {
  uint32_t cluster;
  uint32_t worker; // index in the cluster, or MST_DIAL_ANY
  uint32_t epoch;  // incarnation of the worker
  uint16_t
      attempt; // number of this process's connection, from 1, higher is newer
  uint8_t nonce[MST_NONCE_BYTES]; // random, of this process
};

// mst_dial_encode writes a DIAL, or an ADMIT, which repeats it.
void mst_dial_encode(const struct mst_dial *dial, enum mst_kind kind,
                     uint8_t out[MST_DIAL_BYTES]);
// mst_dial_decode reads one from n bytes and ignores those past MST_DIAL_BYTES. 1: *dial is filled;
// 0: more bytes are needed; -MST_EPROTO: not a valid one, reported as early as possible.
int mst_dial_decode(const uint8_t *bytes, size_t n, enum mst_kind kind,
                    struct mst_dial *dial);
int mst_dial_same(const struct mst_dial *one, const struct mst_dial *other);

// ---- the worker's side

// From the start of a connect to ADMIT. Each further attempt waits half as long again, up to the
// last: a worker that is far away needs two round trips, and three with a key to prove.
#define MST_DIAL_ANSWER_NS (INT64_C(250) * 1000000)
#define MST_DIAL_ANSWER_NS_MAX (INT64_C(2000) * 1000000)
// The pause before the second attempt is random from 0 to this: 1,000 workers then come 0.1 ms
// apart, which one acceptor can handle. Each further maximum is half as long again, up to the last.
#define MST_DIAL_PAUSE_NS (INT64_C(100) * 1000000)
#define MST_DIAL_PAUSE_NS_MAX (INT64_C(2000) * 1000000)

enum mst_dialer_state {
  MST_DIALER_PAUSED,  // until due_ns
  MST_DIALER_DIALING, // connecting
  MST_DIALER_ASKING,  // DIAL was sent
  MST_DIALER_BEGUN,   // admitted; nothing from the session since
  MST_DIALER_DONE,    // the session talks
  MST_DIALER_FAILED   // out of time, or refused
};
enum mst_dialer_event {
  MST_DIALER_TICK,      // time has passed
  MST_DIALER_CONNECTED, // the connection is up
  MST_DIALER_ENDED,     // it failed, or the peer closed it
  MST_DIALER_ADMITTED,  // our ADMIT came (mst_dial_same)
  MST_DIALER_REFUSED,   // REFUSE came
  MST_DIALER_HEARD      // another frame came after ADMIT
};
// Actions, in this order; bits.
enum mst_dialer_action {
  MST_DIALER_CLOSE = 1, // the connection, with a reset
  MST_DIALER_OPEN = 2,  // connect
  MST_DIALER_SEND = 4,  // DIAL: dialer->dial
  MST_DIALER_BEGIN = 8, // send the worker's HELLO
  MST_DIALER_END = 16   // done or failed: see the state
};

struct mst_dialer {
  struct mst_dial dial; // attempt is that of the present connection
  enum mst_dialer_state state;
  int64_t due_ns;     // when TICK has something to do, or INT64_MAX
  int64_t give_up_ns; // the end of all attempts
  int64_t pause_ns;   // the next pause is at most this
  int64_t answer_ns;  // how long the next attempt waits
  uint64_t random;    // state of the jitter
};

// mst_dialer_open fills a dialer; its first TICK opens a connection. dial has all fields but the
// attempt; its nonce seeds the jitter.
void mst_dialer_open(struct mst_dialer *dialer, const struct mst_dial *dial,
                     int64_t now_ns, int64_t give_up_ns);
// mst_dialer_event takes an event and returns the actions. An event that doesn't apply in this
// state changes nothing.
unsigned mst_dialer_event(struct mst_dialer *dialer,
                          enum mst_dialer_event event, int64_t now_ns);

// ---- the session's side

// From accept to DIAL, and from ADMIT to the worker's next bytes.
#define MST_ACCEPTOR_WAIT_NS (INT64_C(2000) * 1000000)
// The most connections not in use. Each costs a descriptor and 300 bytes, and one that has a key to
// prove another 10 kB once it has said something.
#define MST_ACCEPTOR_CONNS_MAX 16384u

enum mst_acceptor_what {
  MST_ACCEPTOR_ADMIT,  // answer with ADMIT: conn, dial
  MST_ACCEPTOR_REFUSE, // answer with REFUSE and close: conn, why
  MST_ACCEPTOR_CLOSE,  // close, with a reset: conn
  MST_ACCEPTOR_USE     // hand over to the worker: conn, worker
};
struct mst_acceptor_action {
  enum mst_acceptor_what what;
  uint32_t conn;
  uint32_t worker;
  const char *why; // for REFUSE; a constant
};

struct mst_acceptor;

// mst_acceptor_open makes an acceptor for workers 0 .. workers - 1 of a cluster, all of epoch 0,
// with at most conns_max connections at once. The caller ends it by mst_acceptor_close. -MST_EMEM.
int mst_acceptor_open(uint32_t cluster, uint32_t workers, uint32_t conns_max,
                      struct mst_acceptor **out);
void mst_acceptor_close(struct mst_acceptor *acceptor);

// mst_acceptor_accepted gives an accepted connection a number. -MST_ELIMIT if there are too many:
// close it, its worker dials again.
int mst_acceptor_accepted(struct mst_acceptor *acceptor, int64_t now_ns,
                          uint32_t *conn);
// mst_acceptor_dial: a DIAL came. Returns the number of actions, 1 or 2. After REFUSE, CLOSE and
// USE a connection's number is free: the caller must forget it at once.
size_t mst_acceptor_dial(struct mst_acceptor *acceptor, uint32_t conn,
                         const struct mst_dial *dial, int64_t now_ns,
                         struct mst_acceptor_action actions[2]);
// mst_acceptor_talked: an admitted connection sent something after its DIAL. USE.
size_t mst_acceptor_talked(struct mst_acceptor *acceptor, uint32_t conn,
                           struct mst_acceptor_action actions[1]);
// mst_acceptor_ended: a connection is gone; its number is free.
void mst_acceptor_ended(struct mst_acceptor *acceptor, uint32_t conn);
// mst_acceptor_tick closes a connection whose time is over. Returns 1, or 0 once none is left: call
// it until then.
size_t mst_acceptor_tick(struct mst_acceptor *acceptor, int64_t now_ns,
                         struct mst_acceptor_action actions[1]);
// mst_acceptor_due gives when tick has something to do, or INT64_MAX.
int64_t mst_acceptor_due(const struct mst_acceptor *acceptor);
// mst_acceptor_expect: the worker is gone, and will come back with this epoch.
void mst_acceptor_expect(struct mst_acceptor *acceptor, uint32_t worker,
                         uint32_t epoch);
uint32_t mst_acceptor_used(const struct mst_acceptor *acceptor);
// mst_acceptor_check asserts the invariants. For tests.
void mst_acceptor_check(const struct mst_acceptor *acceptor);

#endif
