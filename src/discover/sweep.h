// sweep: what a discovery does next. Pure: events and the time in, one action out.
//
// A probe is one address and one port: number address * ports + port. The sweep starts
// attempts in that order, one pass over all probes for each attempt that a silent one may
// have, and keeps to its bounds: attempts at once, starts a second, new neighbours on the
// link. It knows neither sockets nor clock; the same events give the same actions.
//
// Every attempt has one deadline for everything, the connect and the proof of the service:
// its start and the timeout in force. Since that is the same for all, attempts expire in
// the order in which they were started.
//
// Not chosen: a queue of silent probes to be tried again at once. A pass needs no memory
// but a byte a probe, and a burst of losses has ended when it comes.
#ifndef MST_DISCOVER_SWEEP_H
#define MST_DISCOVER_SWEEP_H

#include <stdint.h>

#include "base/mst_err.h"

// Out of sockets, the sweep starts nothing for this long (source document P4).
#define MST_SWEEP_PAUSE_NS INT64_C(100000000)
// After so many pauses in a row without a single attempt the world won't give any.
#define MST_SWEEP_PAUSES_MAX 50u
// An address on the link that doesn't answer holds an entry of the neighbour table for
// three requests, a second apart.
#define MST_SWEEP_NEAR_HOLD_NS INT64_C(3100000000)
// timeout = "auto": before anything was measured, and its bounds. As nmap's, whose
// smallest is 100 ms, so that near hosts don't hide those that are farther.
#define MST_SWEEP_AUTO_FIRST_NS INT64_C(1000000000)
#define MST_SWEEP_AUTO_MIN_NS INT64_C(100000000)
#define MST_SWEEP_AUTO_MAX_NS INT64_C(10000000000)
// A round trip above this says more about us than about the network.
#define MST_SWEEP_AUTO_BOGUS_NS INT64_C(8000000000)
#define MST_SWEEP_ATTEMPTS_MAX 32u

struct mst_sweep_policy {
  uint64_t addresses; // from 1
  uint32_t ports;     // from 1; addresses * ports is below 2^32
  uint32_t in_flight; // attempts at once, from 1
  uint32_t attempts;  // for a silent probe, from 1 to MST_SWEEP_ATTEMPTS_MAX
  int64_t timeout_ns; // of each attempt; 0: follows the round trips measured
  int64_t gap_ns;     // least time between two starts; 0: none
  // One byte an address, 1 if it is on the link; NULL if none is. The caller's, and stays.
  const uint8_t *near;
  uint32_t near_max; // addresses on the link that may be unanswered at once
};

enum mst_sweep_kind {
  MST_SWEEP_START,  // start an attempt at `probe`, in `slot`
  MST_SWEEP_EXPIRE, // end the attempt in `slot`: its time is over
  MST_SWEEP_WAIT,   // nothing to be done before until_ns or the next event
  MST_SWEEP_STUCK,  // nothing can be started: the system provides no more sockets
  MST_SWEEP_DONE
};

struct mst_sweep_action {
  enum mst_sweep_kind kind;
  uint32_t slot;    // below in_flight
  uint32_t attempt; // from 1
  uint32_t probe;
  int64_t until_ns;
};

struct mst_sweep;

// mst_sweep_open makes a sweep; the caller closes it. -MST_EMEM, -MST_ELIMIT.
int mst_sweep_open(const struct mst_sweep_policy *policy,
                   struct mst_sweep **out, struct mst_err *err);
void mst_sweep_close(struct mst_sweep *sweep);

// mst_sweep_next gives the next action at now_ns. Answers that had come by looked_ns have
// all been told: only attempts whose deadline was before it expire, so that a process which
// was kept from looking never calls a host silent that had answered in time. Call it until
// it says WAIT, STUCK or DONE.
void mst_sweep_next(struct mst_sweep *sweep, int64_t now_ns, int64_t looked_ns,
                    struct mst_sweep_action *action);

// mst_sweep_answered says that the host of this slot's attempt is there: its round trip.
// The attempt goes on (a proof), or is ended next.
void mst_sweep_answered(struct mst_sweep *sweep, uint32_t slot, int64_t rtt_ns);
// mst_sweep_ended says that this slot's probe is decided; the slot is free again.
void mst_sweep_ended(struct mst_sweep *sweep, uint32_t slot);
// mst_sweep_failed says that this slot's attempt ended without a verdict, as if it had
// expired: the probe has the attempts that are left.
void mst_sweep_failed(struct mst_sweep *sweep, uint32_t slot);
// mst_sweep_no_socket says that the attempt which was just started got no socket. It isn't
// counted; starts pause, and fewer are made at once.
void mst_sweep_no_socket(struct mst_sweep *sweep, uint32_t slot,
                         int64_t now_ns);

// What it knows, for progress and tests.
uint64_t mst_sweep_decided(const struct mst_sweep *sweep);
int64_t mst_sweep_timeout(const struct mst_sweep *sweep);

#endif
