// A small world: two worker processes, the launcher, the user, and a session that gives the
// core its facts as peer.c and session.c do. See explore.h.
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/mst_err.h"
#include "explore.h"

#define ACTIONS_MAX 200u
#define LIMIT_NS MST_NS_PER_S
// Later limits of the core are for boots that never end: kills play these.
#define WAIT_MAX_NS (30 * MST_NS_PER_S)

static const struct mst_worker *worker_of(const struct ex *ex, uint32_t w) {
  return ex->core.pool.workers[w];
}

// ---- facts

static void carry_out(struct ex *ex) {
  struct mst_action action;
  unsigned count = 0;
  if (ex->carrying_out) return;
  ex->carrying_out = 1;
  while (!ex->failed &&
         mst_calls_next_action(&ex->core, &action, ex->now_ns) == 1) {
    if (ex->checking) ex_check(ex);
    if (++count == ACTIONS_MAX) ex_fail(ex, "actions without end");
    ex_act(ex, &action);
    if (ex->checking) ex_check(ex);
  }
  ex->carrying_out = 0;
  if (ex->checking && !ex->failed) ex_settled(ex);
}

void ex_stepped(struct ex *ex) {
  mst_calls_look_at_sites(&ex->core, ex->now_ns);
  if (ex->checking) ex_check(ex);
  if (!ex->failed) carry_out(ex);
}

void ex_fact(struct ex *ex, enum mst_event_kind kind, uint32_t worker,
             uint32_t how, int32_t number) {
  const struct mst_event event = {
      .kind = kind, .worker = worker, .how = how, .number = number};
  mst_calls_event(&ex->core, &event, ex->now_ns);
  ex_stepped(ex);
}

// ---- workers

void ex_die(struct ex *ex, uint32_t worker, uint32_t spoken) {
  struct ex_process *process = &ex->processes[worker];
  process->life = EX_DEAD;
  process->exit_due = 1;
  process->close_due = worker_of(ex, worker)->channel;
  process->spoken = (uint8_t)spoken;
}

static void be_ready(struct ex *ex, uint32_t worker) {
  struct ex_process *process = &ex->processes[worker];
  process->life = EX_ALIVE;
  ex_fact(ex, MST_EV_FORKED, worker, 0,
          100 + (int32_t)(worker + 10 * process->epoch));
  if (process->life == EX_ALIVE) ex_fact(ex, MST_EV_READY, worker, 0, 0);
}

// note_change updates what must be replayed.
static void note_change(struct ex *ex, uint32_t worker, uint8_t call) {
  const int logged = !ex->asks[call].is_task || ex->asks[call].changes;
  if (!logged || ex->plan->no_healing) return;
  ex->journal[worker][ex->journal_count[worker]++] = call;
}

static void take_frame(struct ex_process *process) {
  process->in_count--;
  memmove(process->in, process->in + 1,
          process->in_count * sizeof *process->in);
}

// note_withdrawn: what comes back to the queue may go to any worker.
static void note_withdrawn(struct ex *ex) {
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    struct ex_call *call = &ex->calls[i];
    if (call->task == NULL || call->task->state != MST_CALL_QUEUED) continue;
    if (call->mailbox == 0) continue;
    ex_saw(EX_SAW_withdrawn);
    call->mailbox = call->late = 0;
    call->handed_back = 1;
  }
}

// reached: the worker has passed over what is withdrawn before this call.
static void reached(struct ex *ex, uint32_t worker, uint64_t id) {
  struct ex_process *process = &ex->processes[worker];
  mst_calls_reached(&ex->core, worker, id, ex->now_ns);
  if (process->withdrawn == 0 || process->withdrawn > id) return;
  ex_saw(EX_SAW_withdrawn_unheard);
  note_withdrawn(ex);
}

void ex_read(struct ex *ex, uint32_t worker, uint16_t flags) {
  struct ex_process *process = &ex->processes[worker];
  const struct ex_frame frame = process->in[0];
  struct mst_answered answered = {.call = frame.id, .flags = flags};
  take_frame(process);
  if (frame.checkpoint) {
    ex_saw(EX_SAW_checkpoint);
    ex->state[worker] = EX_CHECKPOINT;
    if (!ex->plan->keeps) ex->journal_count[worker] = 0;
    ex->covered[worker] = ex->journal_count[worker];
    mst_calls_checkpointed(&ex->core, worker, 1, ex->now_ns);
    return;
  }
  if (ex->plan->dear) {
    answered.elapsed_s = 1;
  }
  if (!mst_calls_expects(&ex->core, worker)) {
    ex_fail(ex, "worker %u answers and owes nothing", worker);
    return;
  }
  if (frame.replay) {
    answered.flags |= MST_FLAG_REPLAY;
    ex_saw(flags == 0 ? EX_SAW_replayed : EX_SAW_replay_failed);
    if (flags != 0) ex->lasting = 1;
  } else {
    reached(ex, worker, frame.id);
    if (ex->asks[frame.call].changes) answered.flags |= MST_FLAG_STATE;
    note_change(ex, worker, frame.call);
    if (mst_calls_wants(&ex->core, worker, frame.id)) {
      const uint8_t head[EX_ANSWER_BYTES] = {0};
      (void)mst_buf_append(&answered.bytes, head, sizeof head);
      answered.bytes.data[sizeof head - 1] = frame.call;
      answered.value = answered.bytes.data;
      answered.value_bytes = sizeof head;
    }
  }
  mst_calls_answered(&ex->core, worker, &answered, ex->now_ns);
  if (!worker_of(ex, worker)->channel && process->life == EX_ALIVE &&
      flags == 0) {
    ex_fail(ex, "an answer of worker %u is taken for another's", worker);
  }
}

// hear: a call that hasn't begun won't.
static void hear(struct ex *ex, uint32_t worker, int next) {
  struct ex_process *process = &ex->processes[worker];
  for (uint32_t i = 0; i < process->in_count; i++) {
    if (process->in[i].id != process->asked || process->in[i].replay) continue;
    // Its channel may be full.
    if ((i == 0 && !next) || process->withdrawn != 0) break;
    if (i == 0) ex_saw(EX_SAW_withdrawn_next);
    process->withdrawn = process->asked;
    process->in_count--;
    memmove(process->in + i, process->in + i + 1,
            (process->in_count - i) * sizeof *process->in);
    break;
  }
  process->asked = 0;
}

void ex_withdrawn(struct ex *ex, uint32_t worker) {
  struct ex_process *process = &ex->processes[worker];
  if (process->withdrawn == 0) return;
  if (process->life == EX_DEAD) ex_saw(EX_SAW_withdrawn_after_death);
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    const struct mst_call *task = ex->calls[i].task;
    if (task != NULL &&
        task->mailbox == &ex->core.pool.workers[worker]->mailbox &&
        task->id == process->withdrawn && task->cancelled)
      ex_saw(EX_SAW_withdrawn_cancelled);
  }
  mst_calls_withdrawn(&ex->core, worker, process->withdrawn, ex->now_ns);
  process->withdrawn = 0;
  note_withdrawn(ex);
}

static void exited(struct ex *ex, uint32_t worker) {
  struct ex_process *process = &ex->processes[worker];
  process->exit_due = 0;
  if (process->by_itself) {
    ex_fact(ex, MST_EV_EXITED, worker, MST_EXIT_CODE, 0);
  } else {
    ex_fact(ex, MST_EV_EXITED, worker, MST_EXIT_SIGNAL, SIGKILL);
  }
}

// wait_in_queue: the worker's tasks go to others.
static void wait_in_queue(struct ex *ex, uint32_t worker) {
  ex->processes[worker].queued = 1;
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    struct ex_call *call = &ex->calls[i];
    const struct mst_call *task = call->task;
    if (task == NULL || task->state != MST_CALL_GIVEN) continue;
    if (task->mailbox != &worker_of(ex, worker)->mailbox) continue;
    call->mailbox = 0;
    call->handed_back = 1;
    ex_saw(EX_SAW_handed_back);
  }
  ex_fact(ex, MST_EV_PENDING, worker, 0, 0);
}

static void launch_fails(struct ex *ex, struct ex_event event) {
  ex->processes[event.at].life = EX_NONE;
  ex_fact(ex, MST_EV_LAUNCH_FAILED, event.at, 0, event.more ? EAGAIN : EPERM);
}

// ---- which events may come

struct list {
  struct ex_event *events;
  uint32_t count;
};

static void may(struct list *list, enum ex_what what, uint32_t at,
                uint32_t more) {
  list->events[list->count++] =
      (struct ex_event){(uint8_t)what, (uint8_t)at, (uint8_t)more};
}

static int is_overdue_next(const struct ex *ex, uint32_t worker) {
  const struct mst_worker *record = worker_of(ex, worker);
  const struct mst_call *first = record->mailbox.first;
  return first != NULL && first->sent && first->timeout_ns > 0 &&
         !first->timed_out && !first->cancelled && mst_worker_is_up(record);
}

static void may_of_alive(const struct ex *ex, uint32_t worker,
                         struct list *list) {
  const struct ex_process *process = &ex->processes[worker];
  if (process->in_count > 0 && worker_of(ex, worker)->channel) {
    may(list, EX_ANSWER, worker, 0);
    if (process->in[0].replay && ex->left.errors > 0) {
      may(list, EX_ERROR, worker, 0);
    }
  }
  for (uint32_t next = 0; process->asked != 0 && next < 2; next++) {
    if (next == 0 || process->in_count == 0 ||
        process->in[0].id == process->asked)
      may(list, EX_HEAR, worker, next);
  }
  if (process->trims && process->in_count == 0) may(list, EX_TRIM, worker, 0);
  if (process->in_count == 0 && process->bye) may(list, EX_LEAVE, worker, 0);
  for (uint32_t n = 0; ex->left.kills > 0 && n <= process->in_count; n++)
    may(list, EX_KILL, worker, n);
  for (uint32_t n = 0; ex->left.hosts > 0 && n <= process->in_count; n++)
    may(list, EX_HOST, worker, n);
  if (ex->left.overdue > 0 && is_overdue_next(ex, worker)) {
    may(list, EX_OVERDUE, worker, 0);
  }
}

static void may_of_dead(const struct ex *ex, uint32_t worker,
                        struct list *list) {
  const struct ex_process *process = &ex->processes[worker];
  if (process->exit_due) may(list, EX_EXITED, worker, 0);
  if (!process->close_due) return;
  may(list, process->spoken > 0 ? EX_READ : EX_CLOSED, worker, 0);
}

static void may_of_worker(const struct ex *ex, uint32_t worker,
                          struct list *list) {
  switch ((enum ex_life)ex->processes[worker].life) {
  case EX_NONE:
    break;
  case EX_BOOTING:
    may(list, EX_READY, worker, 0);
    if (ex->left.kills > 0) may(list, EX_KILL, worker, 0);
    if (ex->left.queues > 0 && !ex->processes[worker].queued) {
      may(list, EX_QUEUE, worker, 0);
    }
    for (uint32_t more = 0; ex->left.bad_launch > 0 && more < 2; more++)
      may(list, EX_BAD_LAUNCH, worker, more);
    break;
  case EX_ALIVE:
    may_of_alive(ex, worker, list);
    break;
  case EX_DEAD:
    may_of_dead(ex, worker, list);
    break;
  }
  if (ex->processes[worker].withdrawn != 0 && !ex->processes[worker].let_go &&
      ex->processes[worker].epoch == worker_of(ex, worker)->epoch)
    may(list, EX_WITHDRAWN, worker, 0);
  if (ex->stopping || worker_of(ex, worker)->dead) return;
  if (ex_host_may_come(ex, worker)) {
    may(list, EX_COME, worker, 0);
    if (ex->left.no_hosts > 0) may(list, EX_NO_HOST, worker, 0);
  }
  if (ex->left.moves > 0 && worker_of(ex, worker)->site->is == MST_SITE_UP)
    may(list, EX_MOVE, worker, 0);
  if (ex->left.ends > 0) may(list, EX_END, worker, 0);
  if (ex->left.drains > 0 && !worker_of(ex, worker)->drains) {
    may(list, EX_DRAIN, worker, 0);
  }
  if (ex->left.retires > 0 && worker_of(ex, worker)->stop_ns == EX_NEVER) {
    may(list, EX_RETIRE, worker, 0);
  }
}

static void may_of_user(const struct ex *ex, struct list *list) {
  if (ex->stopping) return;
  if (ex->asked < EX_CALLS) may(list, EX_ASK, ex->asked, 0);
  if (ex->left.stops > 0) may(list, EX_STOP, 0, 0);
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    const struct ex_call *call = &ex->calls[i];
    if (!call->asked || call->outcome != EX_PENDING) continue;
    if (call->task != NULL && ex->left.cancels > 0 &&
        !mst_call_is_done(call->task)) {
      may(list, EX_CANCEL, i, 0);
    }
    // Once for all calls of the same verb.
    uint8_t first = 0;
    while (!(ex->calls[first].asked && ex_of_verb(ex, first, i) &&
             ex->calls[first].outcome == EX_PENDING) &&
           first < i)
      first++;
    if (call->task == NULL && ex->left.forgets > 0 && first == i) {
      may(list, EX_FORGET, i, 0);
    }
  }
}

uint32_t ex_events(const struct ex *ex, struct ex_event *events) {
  struct list list = {.events = events};
  if (ex->stopped) return 0;
  may_of_user(ex, &list);
  for (uint32_t i = 0; i < EX_WORKERS; i++)
    may_of_worker(ex, i, &list);
  if (ex->core.to_heal > 0 || ex->core.alone > 0) may(&list, EX_MEND, 0, 0);
  const int64_t wake_ns = mst_calls_wake_ns(&ex->core);
  if (wake_ns != EX_NEVER && wake_ns - ex->now_ns <= WAIT_MAX_NS &&
      (ex->left.waits > 0 || ex_is_quiet(events, list.count))) {
    may(&list, EX_WAIT, 0, 0);
  }
  const int launches = ex->core.waiting > 0 ||
                       ex->processes[0].life == EX_DEAD ||
                       ex->processes[1].life == EX_DEAD;
  if (ex->left.no_launch > 0 && launches && !ex->fail_launch) {
    may(&list, EX_NO_LAUNCH, 0, 0);
  }
  if (ex->left.no_memory > 0 && !ex->fail_send) {
    may(&list, EX_NO_MEMORY, 0, 0);
  }
  for (uint32_t i = 0; ex->left.standbys > 0 && i < EX_WORKERS; i++) {
    if (ex->state[i] == EX_CHECKPOINT) may(&list, EX_STANDBY, i, 0);
  }
  return list.count;
}

int ex_is_quiet(const struct ex_event *events, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (events[i].what < EX_MISHAPS) return 0;
  }
  return 1;
}

// ---- effects of events

// Time passes everywhere: what takes too long elsewhere is late, too.
static void tick(struct ex *ex) {
  mst_calls_tick(&ex->core, 0, ex->now_ns);
  for (uint32_t i = 0; i < EX_WORKERS; i++) {
    const struct mst_call *first = worker_of(ex, i)->mailbox.first;
    if (first == NULL || !first->timed_out) continue;
    ex->calls[ex_call_of(ex, first->payload)].late = 1;
  }
}

static void apply_mishap(struct ex *ex, struct ex_event event) {
  switch ((enum ex_what)event.what) {
  case EX_KILL:
    ex->left.kills--;
    ex_die(ex, event.at, event.more);
    return;
  case EX_CANCEL:
    ex->left.cancels--;
    ex_cancel(ex, event.at);
    break;
  case EX_FORGET:
    ex->left.forgets--;
    ex_forget(ex, event.at);
    break;
  case EX_NO_LAUNCH:
    ex->left.no_launch--;
    ex->fail_launch = 1;
    return;
  case EX_BAD_LAUNCH:
    ex->left.bad_launch--;
    launch_fails(ex, event);
    return;
  case EX_OVERDUE:
    ex->left.overdue--;
    ex->calls[ex_call_of(ex, worker_of(ex, event.at)->mailbox.first->payload)]
        .late = 1;
    ex->now_ns += LIMIT_NS;
    tick(ex);
    break;
  case EX_ERROR:
    ex->left.errors--;
    ex_read(ex, event.at, MST_FLAG_ERROR);
    break;
  case EX_END:
    ex->left.ends--;
    ex->lasting = 1;
    ex->ended = (uint8_t)(ex->ended | 1u << event.at);
    mst_calls_kill(&ex->core, event.at, ex->now_ns);
    break;
  case EX_RETIRE:
    ex->left.retires--;
    ex->lasting = 1;
    mst_calls_retire(&ex->core, event.at, ex->now_ns);
    break;
  case EX_DRAIN:
    ex->left.drains--;
    ex->lasting = 1;
    ex->gone = (uint8_t)(ex->gone | 1u << event.at);
    ex_fact(ex, MST_EV_DRAIN, event.at, 0, 0);
    return;
  case EX_STOP:
    ex->left.stops--;
    ex_stop(ex);
    return;
  case EX_NO_MEMORY:
    ex->left.no_memory--;
    ex->fail_send = 1;
    return;
  case EX_STANDBY:
    ex->left.standbys--;
    if (!ex->plan->keeps) ex->lasting = 1;
    ex->state[event.at] = ex->plan->keeps ? EX_LOG : EX_CUT;
    ex_saw(EX_SAW_standby_ended);
    mst_calls_checkpoint_ended(&ex->core, event.at, ex->now_ns);
    break;
  case EX_MOVE:
    ex->left.moves--;
    ex_host_leaves(ex, event.at);
    break;
  case EX_HOST:
    ex->left.hosts--;
    ex_host_ends(ex, event.at, event.more);
    return;
  case EX_NO_HOST:
    ex->left.no_hosts--;
    ex->lasting = 1;
    ex_host_comes(ex, event.at, 1);
    break;
  case EX_QUEUE:
    ex->left.queues--;
    wait_in_queue(ex, event.at);
    return;
  default:
    ex_fail(ex, "no such event");
  }
  ex_stepped(ex);
}

void ex_apply(struct ex *ex, struct ex_event event) {
  struct ex_process *process = &ex->processes[event.at];
  ex_log(ex, "< %s %u %u", ex_event_name(event.what), event.at, event.more);
  switch ((enum ex_what)event.what) {
  case EX_ASK:
    ex_ask_next(ex);
    break;
  case EX_READY:
    be_ready(ex, event.at);
    return;
  case EX_READ:
    process->spoken--;
    ex_saw(EX_SAW_read_after_death);
    ex_read(ex, event.at, 0);
    break;
  case EX_ANSWER:
    ex_read(ex, event.at, 0);
    break;
  case EX_EXITED:
    exited(ex, event.at);
    return;
  case EX_CLOSED:
    process->close_due = 0;
    ex_fact(ex, MST_EV_CLOSED, event.at, 0, 0);
    return;
  case EX_LEAVE:
    process->by_itself = 1;
    ex_die(ex, event.at, 0);
    return;
  case EX_TRIM:
    process->trims = 0;
    ex_saw(EX_SAW_trimmed);
    mst_calls_trimmed(&ex->core, event.at, ex->now_ns);
    break;
  case EX_HEAR:
    hear(ex, event.at, event.more);
    return;
  case EX_WITHDRAWN:
    ex_withdrawn(ex, event.at);
    break;
  case EX_COME:
    ex_host_comes(ex, event.at, 0);
    break;
  case EX_MEND:
    tick(ex);
    break;
  case EX_WAIT:
    ex_saw(EX_SAW_waited);
    if (ex->left.waits > 0) ex->left.waits--;
    ex->now_ns = mst_calls_wake_ns(&ex->core);
    tick(ex);
    break;
  default:
    apply_mishap(ex, event);
    return;
  }
  ex_stepped(ex);
}

// ---- a world's life

static void begin_calls(struct ex *ex) {
  ex_plan_asks(ex->plan, ex->asks);
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    struct ex_call *call = &ex->calls[i];
    call->payload = mst_blob_new();
    (void)mst_buf_append(&call->payload->buf, &i, 1);
    if (!ex->asks[i].has_job) continue;
    call->job = mst_jobs_hold(&ex->core.jobs, call->payload);
  }
}

void ex_begin(struct ex *ex, const struct ex_plan *plan, int logging) {
  memset(ex, 0, sizeof *ex);
  ex->plan = plan;
  ex->left = ex_plan_budget(plan);
  ex->logging = logging;
  ex->now_ns = 1000 * MST_NS_PER_S;
  (void)mst_calls_init(&ex->core, EX_WORKERS, EX_WORKERS);
  ex->core.tally.counts = &ex->counts;
  ex->core.policy =
      (struct mst_heal_policy){.on = !plan->no_healing,
                               .retries = 1,
                               .heartbeat_ns = EX_NEVER,
                               .checkpoint_ns = plan->dear ? MST_NS_PER_S : 0,
                               .replay_max_ns = EX_NEVER};
  ex_hosts_begin(ex);
  begin_calls(ex);
  mst_calls_begin(&ex->core, ex->now_ns, EX_NEVER, EX_WORKERS);
  ex_stepped(ex);
  for (uint32_t i = 0; i < EX_WORKERS; i++)
    be_ready(ex, i);
  for (uint32_t i = 0; plan->tired && i < EX_WORKERS; i++) {
    ex->core.pool.workers[i]->heal.deaths = MST_HEAL_DEATHS;
    ex->core.pool.workers[i]->heal.row = MST_HEAL_ROW;
    ex->core.pool.workers[i]->heal.first_ns = ex->now_ns;
  }
  for (uint32_t i = 0; i < EX_WORKERS; i++)
    ex->core.pool.workers[i]->journal.keeps = plan->keeps;
  for (uint32_t i = 0; plan->short_of && i < EX_WORKERS; i++)
    ex->core.pool.workers[i]->launches = MST_SHORT_TRIES;
  if (plan->tired) ex->lasting = 1;
}

void ex_end(struct ex *ex) {
  mst_calls_free(&ex->core);
  if (!ex->failed) ex_released(ex);
  for (uint32_t i = 0; i < EX_CALLS; i++) {
    struct ex_call *call = &ex->calls[i];
    if (call->task != NULL) mst_call_release(call->task);
    mst_job_release(call->job);
    mst_blob_release(call->payload);
  }
}
