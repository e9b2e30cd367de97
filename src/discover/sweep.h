// sweep: what a discovery does next. Pure: events and the time go in, one action comes out.
//
// A probe is one address and one port: number address * ports + port. The sweep starts attempts in
// that order, in one pass over all probes for each attempt that a silent one may have, within its
// bounds: simultaneous attempts, starts per second, new neighbours on the link. It knows neither
// sockets nor clock; the same events give the same actions.
//
// Every attempt has one deadline for the connect and the proof of the service: its start plus the
// present timeout. Since that is the same for all, attempts expire in the order of their starts.
//
// Not chosen: a queue of silent probes to retry at once. A pass needs only a byte per probe, and a
// burst of losses is over when the next pass comes.
#ifndef MST_DISCOVER_SWEEP_H
#define MST_DISCOVER_SWEEP_H

#include <stdint.h>

#include "base/mst_err.h"

// After it got no socket, the sweep starts nothing for this long (source document P4).
#define MST_SWEEP_PAUSE_NS INT64_C(100000000)
// After this many pauses in a row without an attempt the system won't provide any more.
#define MST_SWEEP_PAUSES_MAX 50u
// An address on the link that doesn't answer occupies an entry of the neighbour table for three
// requests, a second apart.
#define MST_SWEEP_NEAR_HOLD_NS INT64_C(3100000000)
// timeout = "auto": before any measurement, and its bounds. As in nmap, whose minimum is 100 ms, so
// that near hosts don't hide distant ones.
#define MST_SWEEP_AUTO_FIRST_NS INT64_C(1000000000)
#define MST_SWEEP_AUTO_MIN_NS INT64_C(100000000)
#define MST_SWEEP_AUTO_MAX_NS INT64_C(10000000000)
// A longer round trip tells more about us than about the network.
#define MST_SWEEP_AUTO_BOGUS_NS INT64_C(8000000000)
#define MST_SWEEP_ATTEMPTS_MAX 32u

struct mst_sweep_policy {
  uint64_t addresses; // at least 1
  uint32_t ports;     // at least 1; addresses * ports is below 2^32
  uint32_t in_flight; // simultaneous attempts, at least 1
  uint32_t attempts;  // for a silent probe, from 1 to MST_SWEEP_ATTEMPTS_MAX
  int64_t timeout_ns; // of each attempt; 0: follows the measured round trips
  int64_t gap_ns;     // minimum time between two starts; 0: no limit
  // One byte per address, 1 if it is on the link; NULL if none is. The caller keeps it alive.
  const uint8_t *near;
  uint32_t near_max; // addresses on the link that may be unanswered at once
};

enum mst_sweep_kind {
  MST_SWEEP_START,  // start an attempt at `probe`, in `slot`
  MST_SWEEP_EXPIRE, // end the attempt in `slot`: its time is over
  MST_SWEEP_WAIT,   // nothing to do before until_ns or the next event
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

// mst_sweep_next gives the next action at now_ns. The caller has reported all answers up to
// looked_ns: only attempts with an earlier deadline expire, so that a process that was delayed
// never counts a host as silent that had answered in time. Call it until it says WAIT, STUCK or
// DONE.
void mst_sweep_next(struct mst_sweep *sweep, int64_t now_ns, int64_t looked_ns,
                    struct mst_sweep_action *action);

// mst_sweep_answered: the host of this slot's attempt answered, with this round trip. The attempt
// goes on (a proof), or is ended next.
void mst_sweep_answered(struct mst_sweep *sweep, uint32_t slot, int64_t rtt_ns);
// mst_sweep_ended: this slot's probe is decided; the slot is free again.
void mst_sweep_ended(struct mst_sweep *sweep, uint32_t slot);
// mst_sweep_failed: this slot's attempt ended without a verdict, as if it had expired; the probe
// keeps its other attempts.
void mst_sweep_failed(struct mst_sweep *sweep, uint32_t slot);
// mst_sweep_no_socket: the attempt that was just started got no socket. It isn't counted; starts
// pause, and fewer run at once.
void mst_sweep_no_socket(struct mst_sweep *sweep, uint32_t slot,
                         int64_t now_ns);

// Its state, for progress and tests.
uint64_t mst_sweep_decided(const struct mst_sweep *sweep);
int64_t mst_sweep_timeout(const struct mst_sweep *sweep);

#endif
