// The ledger: the monitor of the session. It records how often each call was tried and how it
// ended, and when each worker died and was heard, and judges what heal.c makes the session do:
//   - a call ends once: answered, poison, given up with its worker, or forgotten by the
//     user; after that it is neither sent nor evaluated. A worker's calls end in order;
//   - it is poison after its last attempt, neither before nor later, and each message
//     says which attempt it is;
//   - a worker is given up only after more than MST_HEAL_DEATHS deaths of its own within
//     the period, and always after twice as many; those during replay count only in a row;
//   - silence is judged after a whole heartbeat of listening, and then always.
#include "sim.h"

struct sim_call *sim_ledger_call(struct sim *sim, uint64_t call) {
  return &sim->calls[call - 1];
}

static struct sim_call *call_of(struct sim *sim, uint64_t call) {
  return &sim->calls[call - 1];
}

uint64_t sim_ledger_made(struct sim *sim, uint32_t worker) {
  if (sim->call_count == SIM_CALLS_MAX) return 0;
  sim->calls[sim->call_count++] = (struct sim_call){.worker = worker};
  return sim->call_count;
}

void sim_ledger_sent(struct sim *sim, uint64_t id, uint32_t attempt) {
  struct sim_call *call = call_of(sim, id);
  if (call->outcome != SIM_PENDING && call->outcome != SIM_FORGOTTEN) {
    sim_fail(sim, "call %u is sent after its end", (unsigned)id);
  }
  if (call->outcome == SIM_FORGOTTEN) {
    sim_fail(sim, "call %u is sent although it is forgotten", (unsigned)id);
  }
  if (call->sent) sim_fail(sim, "call %u is sent twice", (unsigned)id);
  if (attempt != call->blamed) {
    sim_fail(sim, "call %u is sent as attempt %u, not %u", (unsigned)id,
             attempt, call->blamed);
  }
  call->sent = 1;
}

void sim_ledger_began(struct sim *sim, uint64_t id) {
  struct sim_call *call = call_of(sim, id);
  if (call->outcome != SIM_PENDING && call->outcome != SIM_FORGOTTEN) {
    sim_fail(sim, "call %u is evaluated after its end", (unsigned)id);
  }
  call->began = 1;
  call->attempts++;
  if (call->attempts > sim->plan.policy.retries + 1) {
    sim_fail(sim, "call %u is tried too often", (unsigned)id);
  }
}

void sim_ledger_ended(struct sim *sim, uint64_t id, enum sim_outcome outcome) {
  struct sim_call *call = call_of(sim, id);
  sim_note(sim, "CALL_ENDED", call->worker, id);
  if (call->outcome != SIM_PENDING) {
    sim_fail(sim, "call %u ends twice", (unsigned)id);
  }
  for (uint64_t before = 1; before < id && call->task == NULL; before++) {
    const struct sim_call *other = call_of(sim, before);
    if (other->worker == call->worker && other->task == NULL &&
        other->outcome == SIM_PENDING) {
      sim_fail(sim, "call %u ends before %u", (unsigned)id, (unsigned)before);
    }
  }
  const int due = call->blamed == sim->plan.policy.retries + 1;
  const int wanted = outcome != SIM_FORGOTTEN;
  if (wanted && due != (outcome == SIM_POISON)) {
    sim_fail(sim, "call %u is poison or not", (unsigned)id);
  }
  call->outcome = outcome;
  if (outcome == SIM_VALUE) {
    sim_saw(call->blamed > 0 ? SIM_SAW_answered_after_retry : SIM_SAW_answered);
    if (!call->sent) sim_fail(sim, "call %u was never sent", (unsigned)id);
  }
  if (outcome == SIM_POISON) {
    sim_saw(call->blamed > 1 ? SIM_SAW_poison_after_retries : SIM_SAW_poison);
  }
}

// --- Losses ---

void sim_ledger_of_use(struct sim *sim, uint32_t worker) {
  sim->deaths[worker].count = sim->deaths[worker].row = 0;
}

void sim_ledger_idle(struct sim *sim, uint32_t worker) {
  sim->deaths[worker].count = 0;
}

// deaths_within counts the deaths in the period that ends now.
static uint32_t deaths_within(const struct sim *sim,
                              const struct sim_deaths *deaths) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < deaths->count; i++) {
    n += sim->now_ns - deaths->at_ns[i] <= MST_HEAL_PERIOD_NS;
  }
  return n;
}

static void note_death(struct sim *sim, struct sim_deaths *deaths) {
  if (deaths->count == SIM_DEATHS_KEPT) { // the oldest doesn't matter any more
    for (uint32_t i = 1; i < SIM_DEATHS_KEPT; i++)
      deaths->at_ns[i - 1] = deaths->at_ns[i];
    deaths->count--;
  }
  deaths->at_ns[deaths->count++] = sim->now_ns;
}

static void judge_death(struct sim *sim, uint32_t worker, enum mst_heal_at at,
                        enum mst_heal_verdict verdict) {
  struct sim_deaths *deaths = &sim->deaths[worker];
  const uint32_t retries = sim->plan.policy.retries;
  const int replays = at == MST_HEAL_REPLAYING;
  const uint32_t most = retries > MST_HEAL_ROW ? retries : MST_HEAL_ROW;
  if (!replays) note_death(sim, deaths);
  deaths->row++;
  const uint32_t recent = deaths_within(sim, deaths);
  if (verdict == MST_HEAL_GIVE_UP) {
    sim_saw(SIM_SAW_budget_spent);
    if ((replays || recent <= MST_HEAL_DEATHS) && deaths->row <= most) {
      sim_fail(sim, "worker %u is given up after %u deaths", worker, recent);
    }
  } else if (verdict != MST_HEAL_RESTART) {
    sim_fail(sim, "worker %u dies by itself: verdict %d", worker, (int)verdict);
  } else if (recent > 2 * MST_HEAL_DEATHS || deaths->row > most) {
    sim_fail(sim, "worker %u comes back after %u deaths", worker, recent);
  }
}

static void judge_blame(struct sim *sim, uint64_t id,
                        enum mst_heal_verdict verdict) {
  struct sim_call *call = call_of(sim, id);
  if (!call->sent || call->outcome != SIM_PENDING) {
    sim_fail(sim, "call %u is blamed, and wasn't evaluated", (unsigned)id);
  }
  if (!call->began) sim_saw(SIM_SAW_blamed_for_another);
  const int last = call->blamed++ == sim->plan.policy.retries;
  if (verdict != (last ? MST_HEAL_POISON : MST_HEAL_RESTART)) {
    sim_fail(sim, "call %u after %u losses: verdict %d", (unsigned)id,
             call->blamed, (int)verdict);
  }
  sim_ledger_of_use(sim, call->worker);
}

void sim_ledger_lost(struct sim *sim, uint32_t worker, enum mst_heal_at at,
                     uint64_t blamed, enum mst_heal_verdict verdict) {
  if (!sim->plan.policy.on) {
    if (verdict != MST_HEAL_LEAVE) sim_fail(sim, "healing is off");
    sim_saw(SIM_SAW_left);
    return;
  }
  if (blamed != 0) {
    judge_blame(sim, blamed, verdict);
  } else {
    judge_death(sim, worker, at, verdict);
  }
  for (uint64_t id = 1; id <= sim->call_count; id++) {
    struct sim_call *call = call_of(sim, id);
    if (call->worker != worker) continue;
    // It had started, and its answer was lost with an earlier one, or with the replay's: nobody can
    // know, so it isn't blamed.
    if (call->outcome == SIM_PENDING && call->began && id != blamed) {
      call->attempts--;
    }
    call->began = call->sent = 0;
  }
}

// --- Silence ---

void sim_ledger_looks(struct sim *sim) {
  if (sim->now_ns - sim->looked_ns > sim->plan.policy.heartbeat_ns / 3) {
    sim->woke_ns = sim->now_ns;
  }
  sim->looked_ns = sim->now_ns;
}

void sim_ledger_beat(struct sim *sim, uint32_t worker, enum mst_beat beat) {
  const int64_t heard_ns = sim->heard_ns[worker];
  const int64_t since_ns = heard_ns > sim->woke_ns ? heard_ns : sim->woke_ns;
  const int64_t limit_ns = sim->plan.policy.heartbeat_ns;
  const int due = sim->now_ns - since_ns >= limit_ns;
  if (beat == MST_BEAT_SILENT) {
    sim_saw(SIM_SAW_silent);
    if (sim->processes[worker].hung) sim_saw(SIM_SAW_silent_hung);
  }
  if (!due && sim->now_ns - heard_ns >= limit_ns) {
    sim_saw(SIM_SAW_slept_through_silence);
  }
  if (due != (beat == MST_BEAT_SILENT)) {
    sim_fail(sim,
             due ? "worker %u is silent and isn't found"
                 : "worker %u is judged too early",
             worker);
  }
}

// Each worker that should have been heard is judged in time.
void sim_ledger_listened(struct sim *sim) {
  const int64_t limit_ns = sim->plan.policy.heartbeat_ns;
  for (uint32_t i = 0; i < sim->plan.count && !sim->failed; i++) {
    const struct sim_book *book = &sim->books[i];
    const int64_t heard_ns = sim->heard_ns[i];
    const int64_t since_ns = heard_ns > sim->woke_ns ? heard_ns : sim->woke_ns;
    if (!sim_is_running(sim) || !sim_is_live(book) || !book->ready) continue;
    if (book->bye_due || sim->core.pool.workers[i]->resuming) continue;
    if (sim->now_ns - since_ns <= limit_ns + limit_ns / 3) continue;
    sim_fail(sim, "worker %u is silent and nobody looks", i);
  }
}

// --- The end ---

// All calls have ended, except those of a worker that the stop or the user has asked to end, and
// those that waited for one to come back.
void sim_ledger_down(struct sim *sim) {
  for (uint64_t id = 1; id <= sim->call_count; id++) {
    const struct sim_call *call = call_of(sim, id);
    if (call->outcome != SIM_PENDING) continue;
    if (sim->books[call->worker].bye_due) continue;
    const struct mst_worker *record = sim->core.pool.workers[call->worker];
    if (call->task == NULL && (record->resuming || record->to_heal)) continue;
    if (call->task != NULL && !mst_call_is_done(call->task)) continue;
    sim_fail(sim, "call %u has no end", (unsigned)id);
  }
}
