// The plan of a discovery. See plan.h.
//
// Slots in use are a list in the order of their starts, so the next deadline is its head's
// and everything here is O(1), but for the cursor, which walks over each probe once a pass.
#include "discover/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"

#define NONE UINT32_MAX
// A probe's byte: attempts started, and what has become of it.
#define ATTEMPTS 0x3fu
#define FLYING 0x40u
#define DECIDED 0x80u
// Rounds of attempts after which one more at once is tried again: each try that fails
// costs a pause.
#define GROW_AFTER 10u
// Starts that were late by more than this aren't made up for.
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

// List 0 is of what is used, in order, list 1 of what is free.
struct ends {
  uint32_t first, last;
};

struct mst_plan {
  struct mst_plan_policy policy;
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
  uint32_t *hold_of; // by address: its hold + 1, 0 none, NONE: it has answered
  struct ends held, unheld;
  uint32_t near_now;
  int64_t srtt_ns, rttvar_ns; // srtt 0: nothing measured
};

// Slots and holds are both kept in such lists.
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

static int allocate(struct mst_plan *plan) {
  const struct mst_plan_policy *policy = &plan->policy;
  plan->probes = calloc(plan->count, 1);
  plan->slots = calloc(policy->in_flight, sizeof *plan->slots);
  if (plan->probes == NULL || plan->slots == NULL) return -MST_EMEM;
  for (uint32_t i = 0; i < policy->in_flight; i++)
    PUSH(plan->slots, &plan->free, i);
  if (policy->near == NULL) return 0;
  plan->holds = calloc(policy->near_max, sizeof *plan->holds);
  plan->hold_of = calloc(policy->addresses, sizeof *plan->hold_of);
  if (plan->holds == NULL || plan->hold_of == NULL) return -MST_EMEM;
  for (uint32_t i = 0; i < policy->near_max; i++)
    PUSH(plan->holds, &plan->unheld, i);
  return 0;
}

int mst_plan_open(const struct mst_plan_policy *policy, struct mst_plan **out,
                  struct mst_err *err) {
  MST_ASSERT(policy->addresses > 0 && policy->ports > 0 &&
             policy->in_flight > 0 && policy->in_flight < NONE);
  MST_ASSERT(policy->attempts > 0 && policy->attempts <= MST_PLAN_ATTEMPTS_MAX);
  MST_ASSERT(policy->near == NULL || policy->near_max > 0);
  if (policy->addresses >= NONE / policy->ports) {
    return mst_err_set(err, MST_ELIMIT, 0, NULL, "more than 2^32 probes");
  }
  struct mst_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory");
  plan->policy = *policy;
  plan->count = (uint32_t)policy->addresses * policy->ports;
  if (plan->policy.in_flight > plan->count) {
    plan->policy.in_flight = plan->count;
  }
  plan->limit = plan->policy.in_flight;
  plan->pass = 1;
  plan->pause_ns = INT64_MIN;
  plan->used = plan->free = plan->held = plan->unheld =
      (struct ends){NONE, NONE};
  if (allocate(plan) != 0) {
    mst_plan_close(plan);
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a plan");
  }
  *out = plan;
  return 0;
}

void mst_plan_close(struct mst_plan *plan) {
  if (plan == NULL) return;
  free(plan->probes);
  free(plan->slots);
  free(plan->holds);
  free(plan->hold_of);
  free(plan);
}

uint32_t mst_plan_in_flight(const struct mst_plan *plan) {
  return plan->flying;
}
uint32_t mst_plan_near_now(const struct mst_plan *plan) {
  return plan->near_now;
}
uint64_t mst_plan_decided(const struct mst_plan *plan) { return plan->decided; }

int64_t mst_plan_timeout(const struct mst_plan *plan) {
  if (plan->policy.timeout_ns > 0) return plan->policy.timeout_ns;
  if (plan->srtt_ns == 0) return MST_PLAN_AUTO_FIRST_NS;
  const int64_t timeout_ns = plan->srtt_ns + 4 * plan->rttvar_ns;
  if (timeout_ns < MST_PLAN_AUTO_MIN_NS) return MST_PLAN_AUTO_MIN_NS;
  if (timeout_ns > MST_PLAN_AUTO_MAX_NS) return MST_PLAN_AUTO_MAX_NS;
  return timeout_ns;
}

// ---- neighbours on the link

static uint32_t address_of(const struct mst_plan *plan, uint32_t probe) {
  return probe / plan->policy.ports;
}

static void end_hold(struct mst_plan *plan, uint32_t address, uint32_t mark) {
  const uint32_t hold = plan->hold_of[address] - 1;
  TAKE(plan->holds, &plan->held, hold);
  PUSH(plan->holds, &plan->unheld, hold);
  plan->hold_of[address] = mark;
  plan->near_now--;
}

static void end_old_holds(struct mst_plan *plan, int64_t now_ns) {
  while (plan->held.first != NONE &&
         plan->holds[plan->held.first].until_ns <= now_ns) {
    end_hold(plan, plan->holds[plan->held.first].address, 0);
  }
}

// wants_hold tells whether an attempt at this address would need an entry of the table
// that it doesn't have yet.
static int wants_hold(const struct mst_plan *plan, uint32_t address) {
  return plan->policy.near != NULL && plan->policy.near[address] &&
         plan->hold_of[address] == 0;
}

static void begin_hold(struct mst_plan *plan, uint32_t address,
                       int64_t now_ns) {
  const uint32_t hold = plan->unheld.first;
  MST_ASSERT(hold != NONE);
  TAKE(plan->holds, &plan->unheld, hold);
  plan->holds[hold].address = address;
  plan->holds[hold].until_ns = now_ns + MST_PLAN_NEAR_HOLD_NS;
  PUSH(plan->holds, &plan->held, hold);
  plan->hold_of[address] = hold + 1;
  plan->near_now++;
}

static void note_neighbour(struct mst_plan *plan, uint32_t address) {
  if (plan->policy.near == NULL || !plan->policy.near[address]) return;
  if (plan->hold_of[address] != 0 && plan->hold_of[address] != NONE) {
    end_hold(plan, address, NONE);
  }
  plan->hold_of[address] = NONE;
}

// ---- slots

static void free_slot(struct mst_plan *plan, uint32_t slot) {
  MST_ASSERT(slot < plan->policy.in_flight && plan->flying > 0);
  plan->probes[plan->slots[slot].probe] &= (uint8_t)~FLYING;
  TAKE(plan->slots, &plan->used, slot);
  PUSH(plan->slots, &plan->free, slot);
  plan->flying--;
}

// A slot that was really used ends a row of pauses, and lets the limit grow back.
static void release(struct mst_plan *plan, uint32_t slot) {
  free_slot(plan, slot);
  plan->pauses = 0;
  if (plan->limit < plan->policy.in_flight &&
      ++plan->credit >= GROW_AFTER * plan->limit) {
    plan->limit++;
    plan->credit = 0;
  }
}

static void decide(struct mst_plan *plan, uint32_t probe) {
  MST_ASSERT((plan->probes[probe] & DECIDED) == 0);
  plan->probes[probe] |= DECIDED;
  plan->decided++;
}

void mst_plan_ended(struct mst_plan *plan, uint32_t slot) {
  const uint32_t probe = plan->slots[slot].probe;
  release(plan, slot);
  decide(plan, probe);
}

void mst_plan_failed(struct mst_plan *plan, uint32_t slot) {
  const uint32_t probe = plan->slots[slot].probe;
  release(plan, slot);
  if ((plan->probes[probe] & ATTEMPTS) >= plan->policy.attempts) {
    decide(plan, probe);
  }
}

void mst_plan_no_socket(struct mst_plan *plan, uint32_t slot, int64_t now_ns) {
  const uint32_t probe = plan->slots[slot].probe;
  MST_ASSERT(plan->cursor == probe + 1);
  free_slot(plan, slot);
  plan->probes[probe]--;
  plan->cursor = probe;
  plan->limit = plan->flying > 0 ? plan->flying : 1;
  plan->credit = 0;
  plan->pauses++;
  plan->pause_ns = now_ns + MST_PLAN_PAUSE_NS;
}

void mst_plan_answered(struct mst_plan *plan, uint32_t slot, int64_t rtt_ns) {
  note_neighbour(plan, address_of(plan, plan->slots[slot].probe));
  if (rtt_ns < 1) rtt_ns = 1;
  if (rtt_ns > MST_PLAN_AUTO_BOGUS_NS) return;
  if (plan->srtt_ns == 0) {
    plan->srtt_ns = rtt_ns;
    plan->rttvar_ns = rtt_ns / 2;
    return;
  }
  const int64_t off = rtt_ns - plan->srtt_ns;
  plan->srtt_ns += off / 8;
  if (plan->srtt_ns < 1) plan->srtt_ns = 1;
  plan->rttvar_ns += ((off < 0 ? -off : off) - plan->rttvar_ns) / 4;
}

// ---- what is next

// find_probe moves the cursor to the next probe that wants an attempt. 0 if there is none
// left, or none before one of the last pass has ended: then *ended is 0.
static int find_probe(struct mst_plan *plan, int *ended) {
  *ended = 0;
  for (; plan->pass <= plan->policy.attempts; plan->pass++, plan->cursor = 0) {
    for (; plan->cursor < plan->count; plan->cursor++) {
      const uint32_t state = plan->probes[plan->cursor];
      if ((state & DECIDED) != 0 || (state & ATTEMPTS) >= plan->pass) continue;
      return (state & FLYING) == 0;
    }
  }
  plan->pass = plan->policy.attempts; // stays there, at its end
  plan->cursor = plan->count;
  *ended = 1;
  return 0;
}

static void start(struct mst_plan *plan, int64_t now_ns,
                  struct mst_plan_action *action) {
  const uint32_t probe = plan->cursor++, slot = plan->free.first;
  const uint32_t address = address_of(plan, probe);
  MST_ASSERT(slot != NONE);
  TAKE(plan->slots, &plan->free, slot);
  PUSH(plan->slots, &plan->used, slot);
  plan->slots[slot].probe = probe;
  plan->slots[slot].start_ns = now_ns;
  plan->flying++;
  plan->probes[probe] = (uint8_t)((plan->probes[probe] + 1u) | FLYING);
  if (wants_hold(plan, address)) begin_hold(plan, address, now_ns);
  const int64_t late = now_ns - plan->next_start_ns;
  plan->next_start_ns = (late > RATE_SLACK_NS ? now_ns : plan->next_start_ns) +
                        plan->policy.gap_ns;
  *action = (struct mst_plan_action){.kind = MST_PLAN_START,
                                     .slot = slot,
                                     .probe = probe,
                                     .attempt = plan->probes[probe] & ATTEMPTS};
}

static void expire(struct mst_plan *plan, struct mst_plan_action *action) {
  const uint32_t slot = plan->used.first, probe = plan->slots[slot].probe;
  *action = (struct mst_plan_action){.kind = MST_PLAN_EXPIRE,
                                     .slot = slot,
                                     .probe = probe,
                                     .attempt = plan->probes[probe] & ATTEMPTS};
  mst_plan_failed(plan, slot);
}

// start_time gives when the next attempt may start: now or before, later, or INT64_MAX if
// something in flight must end first.
static int64_t start_time(const struct mst_plan *plan) {
  if (plan->flying >= plan->limit) return INT64_MAX;
  int64_t at_ns = plan->next_start_ns;
  if (plan->policy.gap_ns == 0) at_ns = INT64_MIN;
  if (plan->pause_ns > at_ns) at_ns = plan->pause_ns;
  if (wants_hold(plan, address_of(plan, plan->cursor)) &&
      plan->near_now >= plan->policy.near_max) {
    const int64_t free_ns = plan->holds[plan->held.first].until_ns;
    if (free_ns > at_ns) at_ns = free_ns;
  }
  return at_ns;
}

void mst_plan_next(struct mst_plan *plan, int64_t now_ns, int64_t looked_ns,
                   struct mst_plan_action *action) {
  int64_t deadline_ns = INT64_MAX;
  if (plan->used.first != NONE) {
    deadline_ns =
        plan->slots[plan->used.first].start_ns + mst_plan_timeout(plan);
    if (deadline_ns <= looked_ns) {
      expire(plan, action);
      return;
    }
  }
  end_old_holds(plan, now_ns);
  int ended;
  int64_t at_ns = INT64_MAX;
  if (find_probe(plan, &ended)) at_ns = start_time(plan);
  if (at_ns <= now_ns) {
    if (plan->pauses > MST_PLAN_PAUSES_MAX && plan->flying == 0) {
      *action = (struct mst_plan_action){.kind = MST_PLAN_STUCK};
    } else {
      start(plan, now_ns, action);
    }
    return;
  }
  *action = (struct mst_plan_action){
      .kind = ended && plan->flying == 0 ? MST_PLAN_DONE : MST_PLAN_WAIT,
      .until_ns = at_ns < deadline_ns ? at_ns : deadline_ns};
}
