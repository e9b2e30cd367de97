// Carries out the core's actions in a small world. See explore.h.
#include <errno.h>

#include "base/mst_err.h"
#include "explore.h"

uint8_t ex_call_of(const struct ex *ex, const struct mst_blob *payload) {
  uint8_t i = 0;
  while (i < EX_CALLS && ex->calls[i].payload != payload)
    i++;
  return i;
}

// ---- the data channel

static int is_read(const struct ex *ex, uint32_t worker) {
  return ex->core.pool.workers[worker]->channel &&
         ex->processes[worker].close_due;
}

// read_out: answers written before its end can still be read, while an action is carried out.
static void read_out(struct ex *ex, uint32_t worker) {
  struct ex_process *process = &ex->processes[worker];
  while (is_read(ex, worker) && process->spoken > 0) {
    process->spoken--;
    ex_read(ex, worker, 0);
    ex_stepped(ex);
  }
  if (!is_read(ex, worker)) return;
  process->close_due = 0;
  ex_fact(ex, MST_EV_CLOSED, worker, 0, 0);
}

static void unsent(struct ex *ex, const struct mst_action *action, int rc) {
  const struct mst_call *sending =
      ex->core.pool.workers[action->worker]->mailbox.sending;
  const uint8_t call =
      sending == NULL ? EX_CALLS : ex_call_of(ex, sending->payload);
  ex_saw(EX_SAW_send_failed);
  if (mst_calls_unsent(&ex->core, action->worker, action->kind, rc,
                       ex->now_ns) == 0) {
    return;
  }
  if (call == EX_CALLS) {
    ex_fail(ex, "a verb's call was dropped, and none was on its way");
  } else if (ex->calls[call].outcome == EX_PENDING) {
    ex->calls[call].outcome = EX_REFUSED;
  }
}

static void receive_result(struct ex *ex, struct ex_process *process,
                           const struct mst_action *action) {
  const struct mst_buf *bytes = &action->payload->buf;
  if (bytes->len != 1 || bytes->data[0] >= EX_CALLS) {
    ex_fail(ex, "worker %u is sent something else", action->worker);
    return;
  }
  const uint8_t source = bytes->data[0];
  if (((process->results >> source) & 1) != 0) {
    ex_fail(ex, "worker %u is sent a result twice", action->worker);
  }
  process->results = (uint8_t)(process->results | 1u << source);
  process->result_ids[source] = action->id;
}

static void drop_result(struct ex_process *process, uint64_t id) {
  for (uint8_t k = 0; k < EX_CALLS; k++) {
    if (process->result_ids[k] != id) continue;
    process->results = (uint8_t)(process->results & ~(1u << k));
    ex_saw(EX_SAW_result_dropped);
  }
}

static void receive(struct ex *ex, const struct mst_action *action) {
  struct ex_process *process = &ex->processes[action->worker];
  const uint8_t call = ex_call_of(ex, action->payload);
  if (action->kind == MST_DO_BYE) process->bye = 1;
  if (action->kind == MST_DO_DROP) drop_result(process, action->id);
  if (action->kind == MST_DO_JOB && call == EX_CALLS) {
    receive_result(ex, process, action);
  } else if (action->kind == MST_DO_JOB) {
    if (((process->jobs >> call) & 1) != 0) {
      ex_fail(ex, "worker %u is sent a job twice", action->worker);
    }
    process->jobs = (uint8_t)(process->jobs | 1u << call);
  }
  if (action->kind == MST_DO_CHECKPOINT && process->in_count < EX_FRAMES) {
    process->in[process->in_count++] = (struct ex_frame){.checkpoint = 1};
  }
  if (action->kind != MST_DO_EXEC) return;
  ex_judge_sent(ex, action->worker, action);
  if (process->in_count == EX_FRAMES) return;
  process->in[process->in_count++] =
      (struct ex_frame){.id = action->id,
                        .call = call,
                        .replay = (action->flags & MST_FLAG_REPLAY) != 0};
}

// no_memory_for a message: its call is lost, unless it is replayed.
static void no_memory_for(struct ex *ex, const struct mst_action *action) {
  const uint32_t worker = action->worker;
  const struct mst_call *sending =
      ex->core.pool.workers[worker]->mailbox.sending;
  ex->fail_send = 0;
  ex_saw(EX_SAW_no_memory);
  if (sending != NULL) {
    ex->calls[ex_call_of(ex, sending->payload)].no_memory = 1;
  }
  unsent(ex, action, -MST_EMEM);
}

static void say(struct ex *ex, const struct mst_action *action) {
  const uint32_t worker = action->worker;
  const struct ex_process *process = &ex->processes[worker];
  const int there = process->life == EX_ALIVE ||
                    (process->life == EX_DEAD && !process->let_go);
  if (!there) {
    ex_fail(ex, "worker %u is told %d and isn't there", worker,
            (int)action->kind);
    return;
  }
  if (ex->fail_send && action->kind == MST_DO_CHECKPOINT) {
    ex->fail_send = 0;
    mst_calls_no_checkpoint(&ex->core, worker, MST_REFUSED_SHORT, ex->now_ns);
  } else if (ex->fail_send && action->kind != MST_DO_BYE) {
    no_memory_for(ex, action);
  } else if (process->life == EX_ALIVE || ex->plan->held) {
    receive(ex, action);
    if (action->kind == MST_DO_EXEC) {
      mst_calls_sent(&ex->core, worker, ex->now_ns);
    }
  } else if (action->kind == MST_DO_CHECKPOINT) {
    mst_calls_no_checkpoint(&ex->core, worker, MST_REFUSED_SHORT, ex->now_ns);
  } else if (action->kind != MST_DO_BYE) {
    read_out(ex, worker);
    unsent(ex, action, -MST_ECLOSED);
  }
}

// ---- processes

static void launch(struct ex *ex, uint32_t worker) {
  struct ex_process *process = &ex->processes[worker];
  if (process->life == EX_ALIVE || process->life == EX_BOOTING) {
    ex_fail(ex, "worker %u is launched while it lives", worker);
  }
  if (ex->core.pool.workers[worker]->epoch > 0 && !process->let_go) {
    ex_fail(ex, "worker %u is launched before it was let go", worker);
  }
  const uint8_t first =
      ex->state[worker] == EX_CHECKPOINT ? ex->covered[worker] : 0;
  *process = (struct ex_process){
      .life = EX_BOOTING,
      .epoch = ex->core.pool.workers[worker]->epoch,
      .first = first,
      .to_replay = (uint8_t)(ex->journal_count[worker] - first),
      .lacks = ex->state[worker] == EX_CUT};
  if (!ex->fail_launch || !ex->started) return;
  ex->fail_launch = 0;
  process->life = EX_NONE;
  ex_fact(ex, MST_EV_LAUNCH_FAILED, worker, 0, EAGAIN);
}

static void kill_process(struct ex *ex, uint32_t worker) {
  const struct ex_process *process = &ex->processes[worker];
  if (process->life == EX_DEAD || process->life == EX_NONE) return;
  ex_die(ex, worker, 0);
}

// break_off: the worker sees its channel's end. If the core has seen it too, nothing more is read.
static void break_off(struct ex *ex, uint32_t worker) {
  struct ex_process *process = &ex->processes[worker];
  kill_process(ex, worker);
  if (!ex->core.pool.workers[worker]->channel) process->close_due = 0;
}

static void let_go(struct ex *ex, uint32_t worker) {
  struct ex_process *process = &ex->processes[worker];
  kill_process(ex, worker); // it sees its channels closed
  process->let_go = 1;
  process->close_due = 0;
}

static void judge(struct ex *ex, uint32_t worker) {
  const struct mst_worker *record = ex->core.pool.workers[worker];
  ex->processes[worker].close_due = 0;
  ex_withdrawn(ex, worker);
  ex_judge_loss(ex, worker);
  if (record->to_heal) {
    (void)mst_site_tell(record->site, MST_SITE_NEEDED, 0, ex->now_ns);
    return;
  }
  let_go(ex, worker);
  if (record->launch_ns != EX_NEVER) ex_saw(EX_SAW_launched_later);
  if (record->alone) ex_saw(EX_SAW_alone);
  if (!record->dead) return;
  ex_saw(EX_SAW_given_up);
  ex->gone = (uint8_t)(ex->gone | 1u << worker);
}

void ex_act(struct ex *ex, const struct mst_action *action) {
  const uint32_t worker = action->worker;
  ex_log(ex, "    > %d %u, call %u", (int)action->kind, worker,
         (unsigned)action->id);
  switch (action->kind) {
  case MST_DO_LAUNCH:
    launch(ex, worker);
    break;
  case MST_DO_PEND:
    ex_worker_waits(ex, worker);
    break;
  case MST_DO_KILL:
    kill_process(ex, worker);
    break;
  case MST_DO_STARTED:
    ex->started = 1;
    break;
  case MST_DO_START_FAILED:
    ex_fail(ex, "the start failed");
    break;
  case MST_DO_STOPPED:
    ex->stopped = 1;
    break;
  case MST_DO_JUDGE:
    judge(ex, worker);
    break;
  case MST_DO_CLOSE:
    let_go(ex, worker);
    break;
  case MST_DO_FORGET:
    ex->state[worker] = EX_LOG;
    break;
  case MST_DO_BREAK:
    break_off(ex, worker);
    break;
  case MST_DO_TELL:
    mst_loss_free(action->loss);
    break;
  case MST_DO_BYE:
  case MST_DO_SEED:
  case MST_DO_JOB:
  case MST_DO_EXEC:
  case MST_DO_CHECKPOINT:
  case MST_DO_DROP:
    say(ex, action);
    break;
  case MST_DO_CANCEL: // it may see this or not: a kill or an answer follows
  case MST_DO_PING:
    break;
  case MST_DO_WITHDRAW:
    if (ex->processes[worker].life == EX_ALIVE)
      ex->processes[worker].asked = action->id;
    break;
  case MST_DO_TRIM:
    ex->processes[worker].trims = 1;
    break;
  case MST_DO_RESUME:
  case MST_DO_LEAVE:
  case MST_DO_REPLAY:
    ex_fail(ex, "the core gives away what is its own");
    break;
  }
}
