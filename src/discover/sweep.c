// The sweep of a discovery. See sweep.h.
//
// Used slots are a list in the order of their starts, so its head has the next deadline and
// everything here is O(1), except the cursor, which visits each probe once per pass.
#include "discover/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"

#define NONE UINT32_MAX
// A probe's byte: attempts started, and its state.
#define ATTEMPTS 0x3fu
#define FLYING 0x40u
#define DECIDED 0x80u
// After this many rounds of attempts, one more at once is tried: each failure costs a pause.
#define GROW_AFTER 10u
// If a start is later than this, the rate doesn't catch up.
#define RATE_SLACK_NS INT64_C(10000000)

struct link {
  uint32_t before, after;
};

struct slot {
  struct link link;
  uint32_t probe;
  int64_t start_ns;
};

// An address on the link that holds an entry of the neighbour table.
struct hold {
  struct link link;
  uint32_t address;
  int64_t until_ns;
};

// A list of slots or holds: the used ones, in order, or the free ones.
struct ends {
  uint32_t first, last;
};

struct mst_sweep {
  struct mst_sweep_policy policy;
  uint32_t count;  // probes
  uint8_t *probes; // one byte each
  struct slot *slots;
  struct ends used, free;
  uint32_t flying, limit, credit;
  uint32_t pass, cursor;
  uint64_t decided;
  int64_t next_start_ns, pause_ns;
  uint32_t pauses;
  struct hold *holds;
  uint32_t *hold_of; // by address: hold + 1, 0: none, NONE: it answered
  struct ends held, unheld;
  uint32_t near_now;
  int64_t srtt_ns, rttvar_ns; // srtt 0: not measured
};

// Slots and holds are both kept in these lists.
#define LINK(entries, i) (&(entries)[i].link)
#define PUSH(entries, ends, i)                                                 \
  do {                                                                         \
    *LINK(entries, i) = (struct link){(ends)->last, NONE};                     \
    if ((ends)->last == NONE) {                                                \
      (ends)->first = (i);                                                     \
    } else {                                                                   \
      LINK(entries, (ends)->last)->after = (i);                                \
    }                                                                          \
    (ends)->last = (i);                                                        \
  } while (0)
#define TAKE(entries, ends, i)                                                 \
  do {                                                                         \
    const struct link link = *LINK(entries, i);                                \
    if (link.before == NONE) {                                                 \
      (ends)->first = link.after;                                              \
    } else {                                                                   \
      LINK(entries, link.before)->after = link.after;                          \
    }                                                                          \
    if (link.after == NONE) {                                                  \
      (ends)->last = link.before;                                              \
    } else {                                                                   \
      LINK(entries, link.after)->before = link.before;                         \
    }                                                                          \
  } while (0)

static int allocate(struct mst_sweep *sweep) {
  const struct mst_sweep_policy *policy = &sweep->policy;
  sweep->probes = calloc(sweep->count, 1);
  sweep->slots = calloc(policy->in_flight, sizeof *sweep->slots);
  if (sweep->probes == NULL || sweep->slots == NULL) return -MST_EMEM;
  for (uint32_t i = 0; i < policy->in_flight; i++)
    PUSH(sweep->slots, &sweep->free, i);
  if (policy->near == NULL) return 0;
  sweep->holds = calloc(policy->near_max, sizeof *sweep->holds);
  sweep->hold_of = calloc(policy->addresses, sizeof *sweep->hold_of);
  if (sweep->holds == NULL || sweep->hold_of == NULL) return -MST_EMEM;
  for (uint32_t i = 0; i < policy->near_max; i++)
    PUSH(sweep->holds, &sweep->unheld, i);
  return 0;
}

int mst_sweep_open(const struct mst_sweep_policy *policy,
                   struct mst_sweep **out, struct mst_err *err) {
  MST_ASSERT(policy->addresses > 0 && policy->ports > 0 &&
             policy->in_flight > 0 && policy->in_flight < NONE);
  MST_ASSERT(policy->attempts > 0 &&
             policy->attempts <= MST_SWEEP_ATTEMPTS_MAX);
  MST_ASSERT(policy->near == NULL || policy->near_max > 0);
  if (policy->addresses >= NONE / policy->ports) {
    return mst_err_set(err, MST_ELIMIT, 0, NULL, "more than 2^32 probes");
  }
  struct mst_sweep *sweep = calloc(1, sizeof *sweep);
  if (sweep == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory");
  sweep->policy = *policy;
  sweep->count = (uint32_t)policy->addresses * policy->ports;
  if (sweep->policy.in_flight > sweep->count) {
    sweep->policy.in_flight = sweep->count;
  }
  sweep->limit = sweep->policy.in_flight;
  sweep->pass = 1;
  sweep->pause_ns = INT64_MIN;
  sweep->used = sweep->free = sweep->held = sweep->unheld =
      (struct ends){NONE, NONE};
  if (allocate(sweep) != 0) {
    mst_sweep_close(sweep);
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a sweep");
  }
  *out = sweep;
  return 0;
}

void mst_sweep_close(struct mst_sweep *sweep) {
  if (sweep == NULL) return;
  free(sweep->probes);
  free(sweep->slots);
  free(sweep->holds);
  free(sweep->hold_of);
  free(sweep);
}

uint64_t mst_sweep_decided(const struct mst_sweep *sweep) {
  return sweep->decided;
}

int64_t mst_sweep_timeout(const struct mst_sweep *sweep) {
  if (sweep->policy.timeout_ns > 0) return sweep->policy.timeout_ns;
  if (sweep->srtt_ns == 0) return MST_SWEEP_AUTO_FIRST_NS;
  const int64_t timeout_ns = sweep->srtt_ns + 4 * sweep->rttvar_ns;
  if (timeout_ns < MST_SWEEP_AUTO_MIN_NS) return MST_SWEEP_AUTO_MIN_NS;
  if (timeout_ns > MST_SWEEP_AUTO_MAX_NS) return MST_SWEEP_AUTO_MAX_NS;
  return timeout_ns;
}

// ---- neighbours on the link

static uint32_t address_of(const struct mst_sweep *sweep, uint32_t probe) {
  return probe / sweep->policy.ports;
}

static void end_hold(struct mst_sweep *sweep, uint32_t address, uint32_t mark) {
  const uint32_t hold = sweep->hold_of[address] - 1;
  TAKE(sweep->holds, &sweep->held, hold);
  PUSH(sweep->holds, &sweep->unheld, hold);
  sweep->hold_of[address] = mark;
  sweep->near_now--;
}

static void end_old_holds(struct mst_sweep *sweep, int64_t now_ns) {
  while (sweep->held.first != NONE &&
         sweep->holds[sweep->held.first].until_ns <= now_ns) {
    end_hold(sweep, sweep->holds[sweep->held.first].address, 0);
  }
}

// wants_hold tells whether an attempt at this address needs a new entry of the neighbour table.
static int wants_hold(const struct mst_sweep *sweep, uint32_t address) {
  return sweep->policy.near != NULL && sweep->policy.near[address] &&
         sweep->hold_of[address] == 0;
}

static void begin_hold(struct mst_sweep *sweep, uint32_t address,
                       int64_t now_ns) {
  const uint32_t hold = sweep->unheld.first;
  MST_ASSERT(hold != NONE);
  TAKE(sweep->holds, &sweep->unheld, hold);
  sweep->holds[hold].address = address;
  sweep->holds[hold].until_ns = now_ns + MST_SWEEP_NEAR_HOLD_NS;
  PUSH(sweep->holds, &sweep->held, hold);
  sweep->hold_of[address] = hold + 1;
  sweep->near_now++;
}

static void note_neighbour(struct mst_sweep *sweep, uint32_t address) {
  if (sweep->policy.near == NULL || !sweep->policy.near[address]) return;
  if (sweep->hold_of[address] != 0 && sweep->hold_of[address] != NONE) {
    end_hold(sweep, address, NONE);
  }
  sweep->hold_of[address] = NONE;
}

// ---- slots

static void free_slot(struct mst_sweep *sweep, uint32_t slot) {
  MST_ASSERT(slot < sweep->policy.in_flight && sweep->flying > 0);
  sweep->probes[sweep->slots[slot].probe] &= (uint8_t)~FLYING;
  TAKE(sweep->slots, &sweep->used, slot);
  PUSH(sweep->slots, &sweep->free, slot);
  sweep->flying--;
}

// An attempt that got a socket ends a series of pauses and lets the limit grow again.
static void release(struct mst_sweep *sweep, uint32_t slot) {
  free_slot(sweep, slot);
  sweep->pauses = 0;
  if (sweep->limit < sweep->policy.in_flight &&
      ++sweep->credit >= GROW_AFTER * sweep->limit) {
    sweep->limit++;
    sweep->credit = 0;
  }
}

static void decide(struct mst_sweep *sweep, uint32_t probe) {
  MST_ASSERT((sweep->probes[probe] & DECIDED) == 0);
  sweep->probes[probe] |= DECIDED;
  sweep->decided++;
}

void mst_sweep_ended(struct mst_sweep *sweep, uint32_t slot) {
  const uint32_t probe = sweep->slots[slot].probe;
  release(sweep, slot);
  decide(sweep, probe);
}

void mst_sweep_failed(struct mst_sweep *sweep, uint32_t slot) {
  const uint32_t probe = sweep->slots[slot].probe;
  release(sweep, slot);
  if ((sweep->probes[probe] & ATTEMPTS) >= sweep->policy.attempts) {
    decide(sweep, probe);
  }
}

void mst_sweep_no_socket(struct mst_sweep *sweep, uint32_t slot,
                         int64_t now_ns) {
  const uint32_t probe = sweep->slots[slot].probe;
  MST_ASSERT(sweep->cursor == probe + 1);
  free_slot(sweep, slot);
  sweep->probes[probe]--;
  sweep->cursor = probe;
  sweep->limit = sweep->flying > 0 ? sweep->flying : 1;
  sweep->credit = 0;
  sweep->pauses++;
  sweep->pause_ns = now_ns + MST_SWEEP_PAUSE_NS;
}

void mst_sweep_answered(struct mst_sweep *sweep, uint32_t slot,
                        int64_t rtt_ns) {
  note_neighbour(sweep, address_of(sweep, sweep->slots[slot].probe));
  if (rtt_ns < 1) rtt_ns = 1;
  if (rtt_ns > MST_SWEEP_AUTO_BOGUS_NS) return;
  if (sweep->srtt_ns == 0) {
    sweep->srtt_ns = rtt_ns;
    sweep->rttvar_ns = rtt_ns / 2;
    return;
  }
  const int64_t off = rtt_ns - sweep->srtt_ns;
  sweep->srtt_ns += off / 8;
  if (sweep->srtt_ns < 1) sweep->srtt_ns = 1;
  sweep->rttvar_ns += ((off < 0 ? -off : off) - sweep->rttvar_ns) / 4;
}

// ---- what is next

// find_probe moves the cursor to the next probe that needs an attempt. 0 with *ended 1 if none is
// left, 0 with *ended 0 while that probe's earlier attempt is in flight.
static int find_probe(struct mst_sweep *sweep, int *ended) {
  *ended = 0;
  for (; sweep->pass <= sweep->policy.attempts;
       sweep->pass++, sweep->cursor = 0) {
    for (; sweep->cursor < sweep->count; sweep->cursor++) {
      const uint32_t state = sweep->probes[sweep->cursor];
      if ((state & DECIDED) != 0 || (state & ATTEMPTS) >= sweep->pass) continue;
      return (state & FLYING) == 0;
    }
  }
  sweep->pass = sweep->policy.attempts; // stays there, at its end
  sweep->cursor = sweep->count;
  *ended = 1;
  return 0;
}

static void start(struct mst_sweep *sweep, int64_t now_ns,
                  struct mst_sweep_action *action) {
  const uint32_t probe = sweep->cursor++, slot = sweep->free.first;
  const uint32_t address = address_of(sweep, probe);
  MST_ASSERT(slot != NONE);
  TAKE(sweep->slots, &sweep->free, slot);
  PUSH(sweep->slots, &sweep->used, slot);
  sweep->slots[slot].probe = probe;
  sweep->slots[slot].start_ns = now_ns;
  sweep->flying++;
  sweep->probes[probe] = (uint8_t)((sweep->probes[probe] + 1u) | FLYING);
  if (wants_hold(sweep, address)) begin_hold(sweep, address, now_ns);
  const int64_t late = now_ns - sweep->next_start_ns;
  sweep->next_start_ns =
      (late > RATE_SLACK_NS ? now_ns : sweep->next_start_ns) +
      sweep->policy.gap_ns;
  *action =
      (struct mst_sweep_action){.kind = MST_SWEEP_START,
                                .slot = slot,
                                .probe = probe,
                                .attempt = sweep->probes[probe] & ATTEMPTS};
}

static void expire(struct mst_sweep *sweep, struct mst_sweep_action *action) {
  const uint32_t slot = sweep->used.first, probe = sweep->slots[slot].probe;
  *action =
      (struct mst_sweep_action){.kind = MST_SWEEP_EXPIRE,
                                .slot = slot,
                                .probe = probe,
                                .attempt = sweep->probes[probe] & ATTEMPTS};
  mst_sweep_failed(sweep, slot);
}

// start_time gives when the next attempt may start: now or before, later, or INT64_MAX if an
// attempt in flight must end first.
static int64_t start_time(const struct mst_sweep *sweep) {
  if (sweep->flying >= sweep->limit) return INT64_MAX;
  int64_t at_ns = sweep->next_start_ns;
  if (sweep->policy.gap_ns == 0) at_ns = INT64_MIN;
  if (sweep->pause_ns > at_ns) at_ns = sweep->pause_ns;
  if (wants_hold(sweep, address_of(sweep, sweep->cursor)) &&
      sweep->near_now >= sweep->policy.near_max) {
    const int64_t free_ns = sweep->holds[sweep->held.first].until_ns;
    if (free_ns > at_ns) at_ns = free_ns;
  }
  return at_ns;
}

void mst_sweep_next(struct mst_sweep *sweep, int64_t now_ns, int64_t looked_ns,
                    struct mst_sweep_action *action) {
  int64_t deadline_ns = INT64_MAX;
  if (sweep->used.first != NONE) {
    deadline_ns =
        sweep->slots[sweep->used.first].start_ns + mst_sweep_timeout(sweep);
    if (deadline_ns <= looked_ns) {
      expire(sweep, action);
      return;
    }
  }
  end_old_holds(sweep, now_ns);
  int ended;
  int64_t at_ns = INT64_MAX;
  if (find_probe(sweep, &ended)) at_ns = start_time(sweep);
  if (at_ns <= now_ns) {
    if (sweep->pauses > MST_SWEEP_PAUSES_MAX && sweep->flying == 0) {
      *action = (struct mst_sweep_action){.kind = MST_SWEEP_STUCK};
    } else {
      start(sweep, now_ns, action);
    }
    return;
  }
  *action = (struct mst_sweep_action){
      .kind = ended && sweep->flying == 0 ? MST_SWEEP_DONE : MST_SWEEP_WAIT,
      .until_ns = at_ns < deadline_ns ? at_ns : deadline_ns};
}
