// The session: between the pool and the world, with what peer.c and mend.c do
// for a worker's calls, but without sockets, payloads and time limits.
//
// It asks heal.c and does as it is told. So a mistake in heal.c shows as a call
// that has no answer, has two, or is tried too often; the ledger watches that.
// mend.c itself is not run here: it must be read beside this file.
#include "canary.h"
#include "sim.h"

static void put(struct sim *sim, int64_t delay_ns, enum sim_what what,
                uint32_t worker) {
  sim_agenda_put(&sim->agenda,
                 (struct sim_entry){.at_ns = sim->now_ns + delay_ns,
                                    .what = what,
                                    .event = {.worker = worker}});
}

static void deliver(struct sim *sim, enum mst_event_kind kind,
                    uint32_t worker) {
  sim_deliver(sim, (struct mst_event){.kind = kind, .worker = worker}, 0);
}

static const struct mst_worker *worker_of(const struct sim *sim,
                                          uint32_t worker) {
  return &sim->pool.workers[worker];
}

static int is_up(const struct sim *sim, uint32_t worker) {
  const enum mst_worker_state state = worker_of(sim, worker)->state;
  return state == MST_WORKER_IDLE || state == MST_WORKER_BUSY;
}

// --- Calls ---

static void pop_call(struct sim_peer *peer) {
  for (uint32_t i = 1; i < peer->count; i++)
    peer->calls[i - 1] = peer->calls[i];
  peer->count--;
  if (peer->sent > 0) peer->sent--;
}

static void end_calls(struct sim *sim, struct sim_peer *peer,
                      enum sim_outcome outcome) {
  for (; peer->count > 0; pop_call(peer)) {
    if (peer->calls[0] <= peer->stale) continue; // forgotten before
    sim_ledger_ended(sim, peer->calls[0], outcome);
  }
}

static void send_call(struct sim *sim, uint32_t worker, uint64_t call) {
  struct sim_peer *peer = &sim->peers[worker];
  const int is_head = call == peer->calls[0];
  peer->sent++;
  sim_ledger_sent(sim, call, is_head ? peer->heal.attempt : 0);
  sim_world_receive(sim, worker, call);
  deliver(sim, MST_EV_SENT, worker);
}

static void user_sends(struct sim *sim, uint32_t worker) {
  struct sim_peer *peer = &sim->peers[worker];
  if (!sim_is_running(sim) || peer->dead) return;
  if (worker_of(sim, worker)->stop_ns != SIM_NEVER) return;
  if (!sim->plan.policy.on && peer->ended) return;
  const uint64_t call = sim_ledger_made(sim, worker);
  if (call == 0) return;
  peer->calls[peer->count++] = call;
  if (is_up(sim, worker) && !peer->resuming && !peer->ended) {
    send_call(sim, worker, call);
  } else {
    sim_saw(SIM_SAW_sent_while_lost);
  }
}

// What the user no longer waits for is evaluated to its end if it was sent.
static void user_forgets(struct sim *sim, uint32_t worker) {
  struct sim_peer *peer = &sim->peers[worker];
  if (peer->count == 0) return;
  for (uint32_t i = 0; i < peer->count; i++) {
    if (peer->calls[i] > peer->stale) {
      sim_ledger_ended(sim, peer->calls[i], SIM_FORGOTTEN);
    }
  }
  peer->stale = sim->call_count;
  if (is_up(sim, worker) && !peer->resuming && !peer->ended) {
    sim_saw(SIM_SAW_forgotten_while_sent);
    return;
  }
  sim_saw(SIM_SAW_forgotten_while_lost);
  peer->count = peer->sent = 0;
  canary_heal_answered(&peer->heal);
  sim_ledger_of_use(sim, worker);
}

static void be_idle(struct sim *sim, uint32_t worker) {
  mst_heal_idle(&sim->peers[worker].heal);
  sim_ledger_idle(sim, worker);
}

static void answered(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  struct sim_peer *peer = &sim->peers[worker];
  const int read = !peer->ended;
  if (read && entry->call == 0) {
    if (peer->replay_left > 0 && --peer->replay_left == 0) {
      be_idle(sim, worker);
    }
    return;
  }
  const int late = entry->call <= peer->stale &&
                   (peer->count == 0 || entry->call < peer->calls[0]);
  if (late) sim_saw(SIM_SAW_answer_to_forgotten);
  if (read && !late) {
    if (peer->count == 0 || peer->calls[0] != entry->call) {
      sim_fail(sim, "worker %u answers another call", worker);
      return;
    }
    canary_heal_answered(&peer->heal);
    mst_heal_heard(&peer->heal, sim->now_ns);
    sim->heard_ns[worker] = sim->now_ns;
    sim_ledger_of_use(sim, worker);
    if (entry->call > peer->stale) {
      sim_ledger_ended(sim, entry->call, SIM_VALUE);
    }
    pop_call(peer);
  }
  if (entry->call != 0) deliver(sim, MST_EV_ANSWERED, worker);
}

// --- News ---

// Of an earlier incarnation, or of one whose channels were closed, nothing is
// heard but by the fork server, which says whose it is.
static void news(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  if (entry->epoch != worker_of(sim, worker)->epoch && SIM_CANARY != 14) {
    sim_saw(SIM_SAW_old_news);
    return;
  }
  if (entry->epoch != sim->books[worker].epoch) {
    sim_fail(sim, "news of an earlier incarnation of worker %u", worker);
    return;
  }
  if (entry->what == SIM_NEWS && entry->event.kind == MST_EV_ANSWERED) {
    answered(sim, entry);
    return;
  }
  if (entry->event.kind == MST_EV_CLOSED) sim->peers[worker].ended = 1;
  sim_deliver(sim, entry->event, entry->what == SIM_NOISE);
}

// --- Healing ---

static void leave(struct sim *sim, uint32_t worker) {
  struct sim_peer *peer = &sim->peers[worker];
  peer->dead = 1;
  peer->resuming = 0;
  end_calls(sim, peer, SIM_GIVEN_UP);
}

// settle_calls drops what was forgotten, and tells whether the oldest call was
// being evaluated.
static int settle_calls(struct sim *sim, uint32_t worker) {
  struct sim_peer *peer = &sim->peers[worker];
  int evaluating = !peer->resuming && peer->replay_left == 0;
  while (peer->count > 0 && peer->calls[0] <= peer->stale) {
    pop_call(peer);
    evaluating = 0;
    canary_heal_answered(&peer->heal);
    sim_ledger_of_use(sim, worker);
  }
  return evaluating && peer->count > 0 && peer->sent > 0;
}

static void mend(struct sim *sim, uint32_t worker) {
  struct sim_peer *peer = &sim->peers[worker];
  const struct mst_heal_policy *policy = &sim->plan.policy;
  peer->to_heal = 0;
  if (!sim_is_running(sim) || peer->dead ||
      worker_of(sim, worker)->stop_ns != SIM_NEVER) {
    if (sim->stopping) sim_saw(SIM_SAW_stop_before_mend);
    leave(sim, worker);
    return;
  }
  if (peer->replay_left > 0) sim_saw(SIM_SAW_died_replaying);
  const int evaluating = policy->on ? settle_calls(sim, worker) : 0;
  const enum mst_heal_verdict verdict =
      canary_heal_lost(&peer->heal, policy, evaluating, sim->now_ns);
  sim_ledger_lost(sim, worker, evaluating ? peer->calls[0] : 0, verdict);
  sim_note(sim, "VERDICT", worker, verdict);
  if (verdict == MST_HEAL_LEAVE || verdict == MST_HEAL_GIVE_UP) {
    leave(sim, worker);
    return;
  }
  if (verdict == MST_HEAL_POISON) {
    sim_ledger_ended(sim, peer->calls[0], SIM_POISON);
    pop_call(peer);
    if (peer->count > 0) sim_saw(SIM_SAW_retried_behind_poison);
  }
  peer->replay_left = 0;
  peer->sent = 0;
  peer->resuming = 1;
  deliver(sim, MST_EV_RESTART, worker);
}

static void lost(struct sim *sim, uint32_t worker) {
  struct sim_peer *peer = &sim->peers[worker];
  peer->ended = 1;
  peer->to_heal = 1;
  // At the end of this turn, or when there is a fork server again.
  const int slow = sim_chance(&sim->rng, sim->plan.slow_mend);
  const int64_t most_ns = slow ? 2 * MST_NS_PER_S : MST_NS_PER_MS;
  put(sim, sim_between(&sim->rng, 0, most_ns), SIM_MEND, worker);
}

static void resume(struct sim *sim, uint32_t worker) {
  struct sim_peer *peer = &sim->peers[worker];
  mst_heal_heard(&peer->heal, sim->now_ns);
  sim->heard_ns[worker] = sim->now_ns;
  if (worker_of(sim, worker)->stop_ns != SIM_NEVER) return;
  for (uint32_t k = 0; k < sim->plan.journal; k++)
    sim_world_receive(sim, worker, 0);
  peer->replay_left = sim->plan.journal;
  if (peer->replay_left == 0) be_idle(sim, worker);
  peer->resuming = 0;
  for (uint32_t i = 0; i < peer->count; i++)
    send_call(sim, worker, peer->calls[i]);
}

// --- Signs of life ---

static int64_t listen_every_ns(const struct sim *sim) {
  return sim->plan.policy.heartbeat_ns / 6;
}

static void pong(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  if (entry->epoch != worker_of(sim, worker)->epoch) return;
  mst_heal_heard(&sim->peers[worker].heal, sim->now_ns);
  sim->heard_ns[worker] = sim->now_ns;
}

static void listen(struct sim *sim) {
  const int64_t slept_ns = sim->now_ns - sim->listened_ns;
  if (!sim_is_running(sim)) return;
  sim_ledger_looks(sim);
  for (uint32_t i = 0; i < sim->plan.count && !sim->failed; i++) {
    if (!is_up(sim, i) || sim->peers[i].resuming) continue;
    const enum mst_beat beat = canary_heal_beat(
        &sim->peers[i].heal, &sim->plan.policy, slept_ns, sim->now_ns);
    sim_ledger_beat(sim, i, beat);
    if (beat == MST_BEAT_ASK) sim_world_ping(sim, i);
    if (beat == MST_BEAT_SILENT) deliver(sim, MST_EV_SILENT, i);
  }
  sim->listened_ns = sim->now_ns;
  put(sim, listen_every_ns(sim), SIM_LISTEN, 0);
}

static void started(struct sim *sim) {
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    mst_heal_begin(&sim->peers[i].heal, sim->now_ns);
    sim->heard_ns[i] = sim->now_ns;
  }
  if (sim->plan.policy.heartbeat_ns == SIM_NEVER) return;
  sim->listened_ns = sim->looked_ns = sim->now_ns;
  put(sim, listen_every_ns(sim), SIM_LISTEN, 0);
}

// --- The user ---

static void user_retires(struct sim *sim, uint32_t worker) {
  if (sim_is_running(sim)) {
    const int lost = worker_of(sim, worker)->state == MST_WORKER_LOST;
    if (lost) sim->peers[worker].dead = 1;
    if (sim->peers[worker].resuming) leave(sim, worker);
  }
  deliver(sim, MST_EV_RETIRE, worker);
}

static void user_ends(struct sim *sim, uint32_t worker) {
  if (!sim_is_running(sim)) return;
  const int waits = worker_of(sim, worker)->state == MST_WORKER_LOST;
  sim_saw(SIM_SAW_ended_by_user);
  if (sim->books[worker].again) sim_saw(SIM_SAW_ended_while_waiting);
  sim->peers[worker].dead = 1;
  if (waits && sim->peers[worker].resuming) leave(sim, worker);
  deliver(sim, waits ? MST_EV_RETIRE : MST_EV_SILENT, worker);
}

static void user_grows(struct sim *sim) {
  const uint32_t from = sim->plan.count;
  const uint32_t more = 1 + sim_below(&sim->rng, 3);
  if (from + more > SIM_WORKERS_MAX) return;
  const int rc = mst_pool_grow(&sim->pool, more);
  if (rc != 0) {
    if (sim_is_running(sim)) sim_fail(sim, "mst_pool_grow");
    return;
  }
  if (!sim_is_running(sim)) sim_fail(sim, "a pool that doesn't run has grown");
  sim_monitor_grown(sim, more);
  sim->plan.count += more;
  for (uint32_t i = from; i < from + more; i++) {
    mst_heal_begin(&sim->peers[i].heal, sim->now_ns);
    sim->peers[i].ended = 1;
    sim->peers[i].to_heal = 1; // until it is its turn below
    sim->peers[i].resuming = 1;
  }
  for (uint32_t i = from; i < from + more; i++) {
    sim->peers[i].to_heal = 0;
    if (sim->plan.policy.on) {
      deliver(sim, MST_EV_RESTART, i);
    } else {
      leave(sim, i);
    }
  }
}

// Sleep only puts off what is meant for the session: main.c does that.
static void fall_asleep(struct sim *sim) {
  const int64_t takes_ns = sim_between(&sim->rng, 0, 20 * MST_NS_PER_S);
  sim->awake_ns = sim->now_ns + takes_ns;
  sim->asleep_ns += takes_ns;
}

// --- The session's face ---

int sim_session_has(enum sim_what what) {
  switch (what) {
  case SIM_NEWS:
  case SIM_NOISE:
  case SIM_PONG:
  case SIM_SEND:
  case SIM_FORGET:
  case SIM_RETIRE:
  case SIM_END:
  case SIM_GROW:
  case SIM_STOP:
  case SIM_MEND:
  case SIM_LISTEN:
  case SIM_SLEEP:
    return 1;
  default:
    return 0;
  }
}

void sim_session_entry(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  switch (entry->what) {
  case SIM_NEWS:
  case SIM_NOISE:
    news(sim, entry);
    break;
  case SIM_PONG:
    pong(sim, entry);
    break;
  case SIM_SEND:
    user_sends(sim, worker);
    break;
  case SIM_FORGET:
    user_forgets(sim, worker);
    break;
  case SIM_RETIRE:
    user_retires(sim, worker);
    break;
  case SIM_END:
    user_ends(sim, worker);
    break;
  case SIM_GROW:
    user_grows(sim);
    break;
  case SIM_STOP:
    deliver(sim, MST_EV_STOP, 0);
    break;
  case SIM_MEND:
    mend(sim, worker);
    break;
  case SIM_LISTEN:
    listen(sim);
    break;
  case SIM_SLEEP:
    fall_asleep(sim);
    break;
  default:
    break;
  }
}

void sim_session_action(struct sim *sim, const struct mst_action *action) {
  const uint32_t worker = action->worker;
  switch (action->kind) {
  case MST_DO_LAUNCH:
    sim->peers[worker].ended = 0;
    sim_world_launch(sim, worker);
    break;
  case MST_DO_BYE:
    sim_world_bye(sim, worker);
    break;
  case MST_DO_KILL:
    sim_world_kill(sim, worker);
    break;
  case MST_DO_STARTED:
    started(sim);
    break;
  case MST_DO_LOST:
    lost(sim, worker);
    break;
  case MST_DO_RESTARTED:
    resume(sim, worker);
    break;
  case MST_DO_START_FAILED:
    break; // for the user only
  case MST_DO_STOPPED:
    sim_ledger_down(sim);
    break;
  }
}

static const char *forgotten(const struct sim *sim, uint32_t index) {
  const struct sim_peer *peer = &sim->peers[index];
  const struct mst_worker *worker = worker_of(sim, index);
  switch (worker->state) {
  case MST_WORKER_IDLE:
    if (peer->count > 0) return "an idle worker's calls wait";
    return peer->resuming ? "an idle worker waits to go on" : NULL;
  case MST_WORKER_BUSY:
    return worker->owed == peer->count ? NULL : "a busy worker's calls wait";
  case MST_WORKER_RESTARTING:
    return peer->resuming || peer->dead ? NULL : "a restart that nobody awaits";
  case MST_WORKER_LOST:
    if (!worker->lost_given || peer->to_heal) return NULL;
    if (peer->dead)
      return peer->count > 0 ? "calls of a dead worker wait" : NULL;
    return worker->again ? NULL : "a lost worker is left without a word";
  default:
    return NULL;
  }
}

void sim_session_settled(struct sim *sim) {
  if (!sim_is_running(sim)) return;
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    if (sim->books[i].bye_due) continue;
    const char *what = forgotten(sim, i);
    if (what != NULL) sim_fail(sim, "worker %u: %s", i, what);
  }
}
