// The session: gives the core of calls facts and carries out its actions, like peer.c and session.c
// but without sockets; and the users, who want answers.
#include "base/mst_err.h"
#include "canary.h"
#include "sim.h"

static void put(struct sim *sim, int64_t delay_ns, enum sim_what what,
                uint32_t worker) {
  sim_agenda_put(&sim->agenda,
                 (struct sim_entry){.at_ns = sim->now_ns + delay_ns,
                                    .what = what,
                                    .event = {.worker = worker}});
}

static struct mst_worker *worker_of(const struct sim *sim, uint32_t worker) {
  return sim->core.pool.workers[worker];
}

// ---- users

static const char caller; // all calls belong to one verb

static int takes_calls(const struct sim *sim, uint32_t worker) {
  const struct mst_worker *record = worker_of(sim, worker);
  if (!sim_is_running(sim) || (record->dead && record->sys_errno == 0))
    return 0;
  const int comes_back = sim->books[worker].again || record->moves;
  if (worker_of(sim, worker)->stop_ns != SIM_NEVER && !comes_back) return 0;
  if (worker_of(sim, worker)->drains && !comes_back) return 0;
  return sim->plan.policy.on || !mst_worker_is_gone(record);
}

static void call_sent(struct sim *sim, uint32_t worker) {
  const struct mst_worker *record = worker_of(sim, worker);
  if (record->dead) sim_saw(SIM_SAW_revived);
  if (!mst_worker_is_up(record)) {
    sim_saw(sim->books[worker].epoch == 0 && !sim->books[worker].lost
                ? SIM_SAW_sent_before_joined
                : SIM_SAW_sent_while_lost);
  }
  const uint64_t call = sim_ledger_made(sim, worker);
  if (call == 0) return;
  sim_ledger_call(sim, call)->changes =
      sim_chance(&sim->rng, sim->plan.changes);
  const int rc = mst_calls_send(&sim->core, worker, sim->payload, &caller,
                                (int32_t)call, 0, sim->now_ns);
  if (rc != 0) sim_fail(sim, "mst_calls_send: %d", rc);
  sim_ledger_call(sim, call)->wire = record->mailbox.calls;
}

static void task_submitted(struct sim *sim, uint32_t worker) {
  const struct mst_task_terms terms = {.retries = -1,
                                       .priority =
                                           (int32_t)sim_below(&sim->rng, 3),
                                       .group = sim_below(&sim->rng, 3)};
  uint32_t set[SIM_WORKERS_MAX];
  uint32_t count = 0;
  const int pinned = sim_chance(&sim->rng, 400);
  for (uint32_t i = 0; pinned && i < sim->plan.count; i++) {
    if (i == worker || sim_chance(&sim->rng, 300)) set[count++] = i;
  }
  if (count > 0) sim_saw(SIM_SAW_pinned);
  const uint64_t id = sim_ledger_made(sim, worker);
  if (id == 0) return;
  struct sim_call *call = sim_ledger_call(sim, id);
  call->changes = sim_chance(&sim->rng, sim->plan.changes);
  call->task =
      mst_calls_submit(&sim->core, sim->payload, count > 0 ? set : NULL, count,
                       &terms, sim->now_ns);
  call->task->tag = (int32_t)id;
}

static void user_sends(struct sim *sim, uint32_t worker) {
  if (sim_chance(&sim->rng, sim->plan.tasks)) {
    if (sim_is_running(sim)) task_submitted(sim, worker);
  } else if (takes_calls(sim, worker)) {
    call_sent(sim, worker);
  } else if (sim_is_running(sim) &&
             mst_calls_send(&sim->core, worker, sim->payload, &caller, 0, 0,
                            sim->now_ns) != -MST_ECLOSED) {
    sim_fail(sim, "worker %u takes a call and is to end", worker);
  }
  sim_stepped(sim);
}

// Calls that the user forgets are evaluated to their end if they were sent.
static void user_forgets(struct sim *sim, uint32_t worker) {
  const struct mst_worker *record = worker_of(sim, worker);
  int some = 0;
  for (const struct mst_call *at = record->mailbox.first; at != NULL;
       at = at->next) {
    if (at->is_task || at->cancelled) continue;
    sim_ledger_ended(sim, (uint64_t)at->tag, SIM_FORGOTTEN);
    some = 1;
  }
  if (!some) return;
  sim_saw(mst_worker_is_up(record) ? SIM_SAW_forgotten_while_sent
                                   : SIM_SAW_forgotten_while_lost);
  mst_calls_forget(&sim->core, worker, &caller, sim->now_ns);
  sim_stepped(sim);
}

static void user_cancels(struct sim *sim) {
  if (sim->call_count == 0) return;
  const uint64_t id = 1 + sim_below(&sim->rng, sim->call_count);
  struct sim_call *call = sim_ledger_call(sim, id);
  if (call->task == NULL || mst_call_is_done(call->task)) return;
  sim_saw(call->task->state == MST_CALL_QUEUED ? SIM_SAW_cancelled_queued
                                               : SIM_SAW_cancelled_given);
  sim_ledger_ended(sim, id, SIM_FORGOTTEN);
  if (mst_call_cancel(call->task, sim->now_ns) != 1) {
    sim_fail(sim, "a task that isn't done can't be cancelled");
  }
  sim_stepped(sim);
}

static void user_retires(struct sim *sim, uint32_t worker) {
  mst_calls_retire(&sim->core, worker, sim->now_ns);
  sim_stepped(sim);
}

static void user_drains(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  const enum mst_event_kind kind =
      entry->what == SIM_DRAIN ? MST_EV_DRAIN : MST_EV_RESTART;
  // Only the core knows when a lost worker may come back.
  if (kind == MST_EV_RESTART && !sim->books[worker].left) return;
  sim_deliver(sim, (struct mst_event){.kind = kind, .worker = worker}, 0);
}

static void user_ends(struct sim *sim, uint32_t worker) {
  if (!sim_is_running(sim)) return;
  sim_saw(SIM_SAW_ended_by_user);
  if (sim->books[worker].again) sim_saw(SIM_SAW_ended_while_waiting);
  mst_calls_kill(&sim->core, worker, sim->now_ns);
  sim_stepped(sim);
}

static void user_grows(struct sim *sim) {
  const uint32_t more = 1 + sim_below(&sim->rng, 3);
  if (sim->plan.count + more > SIM_WORKERS_MAX) return;
  if (!sim_is_running(sim)) {
    if (mst_calls_grow(&sim->core, more, sim->now_ns) == 0) {
      sim_fail(sim, "a pool that doesn't run has grown");
    }
    return;
  }
  sim_monitor_grown(sim, more);
  sim->plan.count += more;
  if (mst_calls_grow(&sim->core, more, sim->now_ns) != 0) {
    sim_fail(sim, "mst_calls_grow");
  }
  sim_stepped(sim);
}

// Sleep only delays what is meant for the session: see main.c.
static void fall_asleep(struct sim *sim) {
  const int64_t takes_ns = sim_between(&sim->rng, 0, 20 * MST_NS_PER_S);
  sim->awake_ns = sim->now_ns + takes_ns;
  sim->asleep_ns += takes_ns;
}

// ---- how calls end

static enum sim_outcome outcome_of(const struct mst_call *call) {
  if (call->state == MST_CALL_DONE) return SIM_VALUE;
  if (call->loss == NULL) return SIM_GIVEN_UP;
  switch (call->loss->kind) {
  case MST_LOSS_POISON:
    return SIM_POISON;
  case MST_LOSS_TIMEOUT:
    sim_saw(SIM_SAW_timed_out);
    return SIM_TIMED_OUT;
  default:
    return SIM_GIVEN_UP;
  }
}

static void collect_answers(struct sim *sim, uint32_t worker) {
  struct mst_call *answer;
  while ((answer = mst_mailbox_answer(&sim->core.pool.workers[worker]->mailbox,
                                      &caller)) != NULL) {
    sim_ledger_ended(sim, (uint64_t)answer->tag, outcome_of(answer));
    mst_mailbox_take(answer->mailbox, answer);
    mst_call_release(answer);
  }
}

// A verb that waits for a worker that stays lost sees that, and gives up its calls.
static void leave_dead(struct sim *sim, uint32_t worker) {
  const struct mst_worker *record = worker_of(sim, worker);
  int some = 0;
  if (!record->dead || record->to_heal || sim->core.pool.due.first != NULL)
    return;
  if (!worker_of(sim, worker)->lost_given &&
      worker_of(sim, worker)->state != MST_WORKER_LEFT) {
    return;
  }
  for (const struct mst_call *at = record->mailbox.first; at != NULL;
       at = at->next) {
    if (at->is_task || at->cancelled) continue;
    sim_ledger_ended(sim, (uint64_t)at->tag, SIM_GIVEN_UP);
    some = 1;
  }
  if (some) mst_calls_forget(&sim->core, worker, &caller, sim->now_ns);
}

static void collect_task(struct sim *sim, uint64_t id) {
  struct sim_call *call = sim_ledger_call(sim, id);
  if (call->task == NULL || call->outcome != SIM_PENDING) return;
  if (!mst_call_is_done(call->task)) return;
  const enum sim_outcome outcome = outcome_of(call->task);
  if (outcome == SIM_VALUE) sim_saw(SIM_SAW_task_answered);
  if (outcome == SIM_POISON) sim_saw(SIM_SAW_task_poison);
  if (outcome == SIM_GIVEN_UP) sim_saw(SIM_SAW_task_lost);
  sim_ledger_ended(sim, id, outcome);
}

void sim_session_collect(struct sim *sim) {
  for (uint32_t i = 0; i < sim->plan.count && !sim->failed; i++) {
    collect_answers(sim, i);
    leave_dead(sim, i);
  }
  for (uint64_t id = 1; id <= sim->call_count && !sim->failed; id++)
    collect_task(sim, id);
}

// ---- news

// note_withdrawn: what is in the queue was sent, and comes back.
static void note_withdrawn(struct sim *sim) {
  for (uint64_t id = 1; id <= sim->call_count; id++) {
    struct sim_call *call = sim_ledger_call(sim, id);
    if (call->task == NULL || !call->sent) continue;
    if (call->task->state != MST_CALL_QUEUED) continue;
    call->sent = 0;
    sim_saw(SIM_SAW_withdrawn_task);
  }
}

static void answered(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  struct mst_answered answer = {.call = 0};
  if (!worker_of(sim, worker)->channel)
    return; // its channel isn't read any more
  if (entry->call == 0) {
    answer.flags = MST_FLAG_REPLAY;
    sim_saw(SIM_SAW_replayed);
  } else {
    const struct sim_call *call = sim_ledger_call(sim, entry->call);
    answer.call = call->wire;
    answer.flags = call->changes ? MST_FLAG_STATE : 0;
    if (call->outcome == SIM_FORGOTTEN) sim_saw(SIM_SAW_answer_to_forgotten);
  }
  if (SIM_CANARY == 17 && answer.call > 1) answer.call--; // another's answer
  if (!mst_calls_expects(&sim->core, worker)) {
    sim_fail(sim, "worker %u answers and owes nothing", worker);
  }
  if (entry->call != 0) {
    mst_calls_reached(&sim->core, worker, answer.call, sim->now_ns);
    note_withdrawn(sim);
  }
  mst_calls_answered(&sim->core, worker, &answer, sim->now_ns);
  if (!worker_of(sim, worker)->channel) {
    sim_fail(sim, "an answer of worker %u is taken for another's", worker);
  }
  sim_stepped(sim);
}

// An earlier incarnation, or one whose channels are closed, is heard only by the fork server, which
// says whose news these are.
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
  sim_deliver(sim, entry->event, entry->what == SIM_NOISE);
}

static void pong(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  if (entry->epoch != worker_of(sim, worker)->epoch) return;
  mst_calls_heard(&sim->core, worker, sim->now_ns);
  mst_calls_trimmed(&sim->core, worker, sim->now_ns);
}

// The channel to the watch may be read for longer than that for answers.
static void withdrawn(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  if (entry->epoch != worker_of(sim, worker)->epoch) {
    sim_saw(SIM_SAW_withdrawn_late_news);
    return;
  }
  mst_calls_withdrawn(&sim->core, worker, (uint64_t)entry->event.number,
                      sim->now_ns);
  note_withdrawn(sim);
  sim_stepped(sim);
}

static void listen(struct sim *sim) {
  if (!sim_is_running(sim)) return;
  sim_tick(sim);
  sim_ledger_listened(sim);
  put(sim, sim->plan.policy.heartbeat_ns / 6, SIM_LISTEN, 0);
}

// ---- actions

static void execute(struct sim *sim, const struct mst_action *action) {
  const uint32_t worker = action->worker;
  if ((action->flags & MST_FLAG_REPLAY) != 0) {
    sim_world_receive(sim, worker, 0);
    return;
  }
  sim_monitor_call(sim, worker);
  const struct mst_call *sending = worker_of(sim, worker)->mailbox.sending;
  const uint64_t id = (uint64_t)sending->tag;
  struct sim_call *call = sim_ledger_call(sim, id);
  call->worker = worker;
  call->wire = action->id;
  if (SIM_CANARY == 18 && id == 2) sim_ledger_sent(sim, id, action->attempt);
  sim_ledger_sent(sim, id, action->attempt);
  sim_world_receive(sim, worker, id);
  mst_calls_sent(&sim->core, worker, sim->now_ns);
}

static void interrupt(struct sim *sim, const struct mst_action *action) {
  for (uint64_t id = 1; id <= sim->call_count; id++) {
    const struct sim_call *call = sim_ledger_call(sim, id);
    if (call->worker != action->worker || call->wire != action->id) continue;
    if (!call->sent) continue;
    sim_world_interrupt(sim, action->worker, id);
  }
}

static void ask_back(struct sim *sim, const struct mst_action *action) {
  for (uint64_t id = 1; id <= sim->call_count; id++) {
    const struct sim_call *call = sim_ledger_call(sim, id);
    if (call->worker != action->worker || call->wire != action->id) continue;
    if (call->task != NULL && call->sent)
      sim_world_ask(sim, action->worker, id, call->wire);
  }
}

// A lost worker may have to wait for another fork server.
static void lose_launcher(struct sim *sim, uint32_t worker) {
  if (sim_chance(&sim->rng, sim->plan.slow_mend))
    sim_host_lose_server(sim, worker);
}

static void judge(struct sim *sim, uint32_t worker) {
  const struct mst_judged judged = {.words = NULL};
  const struct mst_worker *record = worker_of(sim, worker);
  const uint32_t launches = record->launches;
  const int dead = record->dead;
  sim_session_collect(sim); // what was read before the verdict
  lose_launcher(sim, worker);
  if (sim->stopping) sim_saw(SIM_SAW_stop_before_mend);
  if (record->replay_left > 0) sim_saw(SIM_SAW_died_replaying);
  mst_calls_judged(&sim->core, worker, &judged, sim->now_ns);
  if (record->to_heal) {
    sim_host_needed(sim, worker);
  } else if (sim->plan.policy.on && sim_is_running(sim) &&
             mst_site_is_gone(record->site)) {
    sim_fail(sim, "worker %u doesn't wait for a fork server", worker);
  }
  if (record->launches > launches) sim_saw(SIM_SAW_launched_later);
  if (!dead && record->dead && record->sys_errno != 0) {
    sim_saw(SIM_SAW_short_given_up);
  }
  if (SIM_CANARY == 19 &&
      record->mailbox.first != NULL) { // a call that is lost for good
    record->mailbox.first->cancelled = 1;
  }
}

static void started(struct sim *sim) {
  sim->listened_ns = sim->looked_ns = sim->now_ns;
  if (sim->plan.policy.heartbeat_ns == SIM_NEVER) return;
  put(sim, sim->plan.policy.heartbeat_ns / 6, SIM_LISTEN, 0);
}

void sim_session_action(struct sim *sim, const struct mst_action *action) {
  const uint32_t worker = action->worker;
  switch (action->kind) {
  case MST_DO_LAUNCH:
    if (mst_site_waits(worker_of(sim, worker)->site))
      sim_fail(sim, "worker %u is launched, and its host isn't there", worker);
    sim_world_launch(sim, worker);
    break;
  case MST_DO_PEND:
    sim_saw(SIM_SAW_worker_waits);
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
  case MST_DO_JUDGE:
    judge(sim, worker);
    break;
  case MST_DO_BREAK:
    sim_world_break(sim, worker);
    break;
  case MST_DO_EXEC:
    execute(sim, action);
    break;
  case MST_DO_CANCEL:
    interrupt(sim, action);
    break;
  case MST_DO_WITHDRAW:
    ask_back(sim, action);
    break;
  case MST_DO_PING:
  case MST_DO_TRIM:
    sim_world_ping(sim, worker);
    break;
  case MST_DO_TELL:
    mst_loss_free(action->loss);
    break;
  case MST_DO_STOPPED:
    sim_session_collect(sim);
    sim_ledger_down(sim);
    break;
  default:
    break; // for the user, or meaningless here
  }
}

// ---- functions of sim.h

int sim_session_has(enum sim_what what) {
  switch (what) {
  case SIM_NEWS:
  case SIM_NOISE:
  case SIM_PONG:
  case SIM_WITHDRAWN:
  case SIM_SEND:
  case SIM_FORGET:
  case SIM_CANCEL:
  case SIM_RETIRE:
  case SIM_DRAIN:
  case SIM_RETURN:
  case SIM_END:
  case SIM_GROW:
  case SIM_STOP:
  case SIM_TEND:
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
  case SIM_WITHDRAWN:
    withdrawn(sim, entry);
    break;
  case SIM_SEND:
    user_sends(sim, worker);
    break;
  case SIM_FORGET:
    user_forgets(sim, worker);
    break;
  case SIM_CANCEL:
    user_cancels(sim);
    break;
  case SIM_RETIRE:
    user_retires(sim, worker);
    break;
  case SIM_DRAIN:
  case SIM_RETURN:
    user_drains(sim, entry);
    break;
  case SIM_END:
    user_ends(sim, worker);
    break;
  case SIM_GROW:
    user_grows(sim);
    break;
  case SIM_STOP:
    mst_calls_end_queue(&sim->core, sim->now_ns);
    sim_deliver(sim, (struct mst_event){.kind = MST_EV_STOP}, 0);
    break;
  case SIM_TEND:
    sim_hosts_tend(sim);
    sim_tick(sim);
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

static const char *forgotten(const struct sim *sim, uint32_t index) {
  const struct mst_worker *record = worker_of(sim, index);
  const struct mst_worker *worker = worker_of(sim, index);
  switch (worker->state) {
  case MST_WORKER_IDLE:
    if (record->dead) return "it is there and takes no calls";
    if (record->alone) return NULL; // until all others are idle
    if (record->mailbox.count > 0) return "an idle worker's calls wait";
    return record->resuming ? "an idle worker waits to go on" : NULL;
  case MST_WORKER_BUSY:
    return worker->owed == record->mailbox.count ? NULL
                                                 : "a busy worker's calls wait";
  case MST_WORKER_DRAINING:
    return worker->owed > 0 ? NULL : "a drained worker stays";
  case MST_WORKER_LEFT:
    for (const struct mst_call *at = record->mailbox.first; at != NULL;
         at = at->next) {
      if (at->is_task || at->sent) return "a call stays with one that left";
    }
    return record->dead || worker->again ? NULL : "one that left takes calls";
  case MST_WORKER_RESTARTING:
    return record->resuming || record->dead ? NULL
                                            : "a restart that nobody awaits";
  case MST_WORKER_LOST:
    if (!worker->lost_given || record->to_heal) return NULL;
    if (record->dead || record->launch_ns != SIM_NEVER) return NULL;
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
