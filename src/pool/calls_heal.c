// What follows from a loss, the way back, and limits on calls. What to do is decided by
// heal.h and state.h, what to replay is kept by journal.h. The contract is in calls.h.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "pool/calls_int.h"

// ---- what is told

// loss_of describes how this incarnation ended. NULL without memory: then nobody
// is told, and what follows is done anyway.
static struct mst_loss *loss_of(const struct mst_calls *calls,
                                const struct mst_lane *lane,
                                enum mst_loss_kind kind, const char *words) {
  const struct mst_worker *worker = worker_of(calls, lane);
  struct mst_loss *loss = calloc(1, sizeof *loss);
  if (loss == NULL) return NULL;
  loss->kind = kind;
  loss->cluster = calls->id;
  loss->worker = lane->worker;
  loss->pid = worker->pid;
  loss->how = worker->exit_known ? worker->exit_how : MST_EXIT_NONE;
  loss->number = worker->exit_number;
  loss->ours = lane->ours;
  loss->sys_errno = lane->sys_errno;
  if (words != NULL) loss->output = strdup(words);
  if (lane->failure != NULL) loss->reason = strdup(lane->failure);
  return loss;
}

static void tell(struct mst_calls *calls, struct mst_loss *loss) {
  if (loss == NULL) return;
  if (calls->last_told != NULL) {
    calls->last_told->next = loss;
  } else {
    calls->told = loss;
  }
  calls->last_told = loss;
}

void mst_lane_fail_first(struct mst_calls *calls, struct mst_lane *lane,
                         enum mst_loss_kind kind, uint32_t attempts,
                         const char *words) {
  struct mst_call *call = lane->first;
  struct mst_loss *loss = loss_of(calls, lane, kind, words);
  if (loss != NULL) {
    loss->call = call->id;
    loss->attempts = attempts;
    loss->oom = lane->oom;
    loss->tag = call->tag;
  }
  if (!call->cancelled) {
    call->loss = loss;
  } else {
    mst_loss_free(loss);
  }
  mst_calls_effects(calls, lane,
                    mst_lane_finish(lane, call, MST_CALL_LOST, calls->now_ns));
}

// ---- a loss

void mst_lane_lost(struct mst_calls *calls, struct mst_lane *lane) {
  lane->ended = 1;
  lane->replaying = 0;
  if (lane->to_heal) return;
  lane->to_heal = 1;
  calls->to_heal++;
}

static void wait_no_more(struct mst_calls *calls, struct mst_lane *lane) {
  if (lane->launch_ns == NEVER) return;
  lane->launch_ns = NEVER;
  calls->waiting--;
}

void mst_lane_leave(struct mst_calls *calls, struct mst_lane *lane, int told,
                    char *words) {
  lane->dead = 1;
  lane->resuming = 0;
  wait_no_more(calls, lane);
  // If it is ever revived, the next call has all of its attempts.
  if (lane->first != NULL && lane->first->is_task) {
    mst_heal_answered(&lane->heal);
  }
  mst_calls_effects(calls, lane, mst_lane_drop_cancelled(lane, 1));
  for (struct mst_call *call = lane->first, *next; call != NULL; call = next) {
    next = call->next;
    call->sent = 0;
    if (!call->is_task) continue; // whoever waits for it sees that it is dead
    call->loss = loss_of(calls, lane, MST_LOSS_GIVEN_UP, words);
    if (call->loss != NULL) {
      call->loss->call = call->id;
      call->loss->attempts = 1;
      call->loss->oom = lane->oom;
    }
    (void)mst_lane_finish(lane, call, MST_CALL_LOST, calls->now_ns);
  }
  mst_calls_sweep(calls);
  calls->to_dispatch = 1;
  // Short of something it may be revived, as it was.
  if ((lane->journal.checkpoint || lane->journal.asking) &&
      (lane->sys_errno == 0 || lane->journal.incomplete)) {
    mst_due_add(&calls->due, lane, MST_TODO_FORGET);
  }
  if (told) tell(calls, loss_of(calls, lane, MST_LOSS_GIVEN_UP, words));
}

// let_go_of the incarnation that was lost.
static void let_go(struct mst_calls *calls, struct mst_lane *lane) {
  mst_journal_unask(&lane->journal);
  mst_due_add(&calls->due, lane, MST_TODO_PAUSE);
  free(lane->failure);
  lane->failure = NULL;
  lane->replay_left = 0;
  lane->cancel = 0;
  lane->resuming = 1;
  mst_lane_unsend(lane);
}

void mst_lane_return(struct mst_calls *calls, struct mst_lane *lane) {
  lane->dead = 0;
  let_go(calls, lane);
}

static void restart(struct mst_calls *calls, struct mst_lane *lane,
                    const char *words) {
  // One that never was there has been told of as what it was to replace.
  struct mst_loss *event =
      worker_of(calls, lane)->pid == 0
          ? NULL
          : loss_of(calls, lane, MST_LOSS_RESTARTED, words);
  if (event != NULL) {
    event->oom = lane->oom;
    event->again = lane->count;
    event->attempts = lane->heal.attempt;
    event->fresh_rng = lane->rng_other;
  }
  tell(calls, event);
  lane->alone = lane->oom;
  let_go(calls, lane);
  mst_calls_tell_pool(calls, MST_EV_RESTART, lane->worker);
}

// settle_calls drops the calls that nobody waits for, and fails one that took too
// long. Returns what the worker was at: a call that was given to one that was lost already, and
// never sent, is not to blame.
static enum mst_heal_at settle_calls(struct mst_calls *calls,
                                     struct mst_lane *lane, const char *words) {
  int evaluating = !lane->resuming && lane->replay_left == 0;
  if (lane->first != NULL && lane->first->cancelled) {
    evaluating = 0;
    mst_heal_answered(&lane->heal);
  }
  mst_calls_effects(calls, lane, mst_lane_drop_cancelled(lane, 1));
  if (lane->first != NULL && lane->first->timed_out) {
    mst_lane_fail_first(calls, lane, MST_LOSS_TIMEOUT, 1, words);
    evaluating = 0;
    mst_heal_answered(&lane->heal);
  }
  if (lane->replay_left > 0) return MST_HEAL_REPLAYING;
  return evaluating && lane->first != NULL && lane->first->sent
             ? MST_HEAL_EVALUATING
             : MST_HEAL_IDLE;
}

// policy_of: the cluster's, with the retries of the task that is at work.
static struct mst_heal_policy policy_of(const struct mst_calls *calls,
                                        const struct mst_lane *lane) {
  struct mst_heal_policy policy = calls->policy;
  if (lane->first != NULL && lane->first->retries >= 0) {
    policy.retries = (uint32_t)lane->first->retries;
  }
  return policy;
}

// ---- launches that failed for want of something

static int is_short(int sys_errno) {
  return sys_errno == EAGAIN || sys_errno == ENOMEM || sys_errno == EMFILE ||
         sys_errno == ENFILE || sys_errno == ETOOMANYREFS ||
         sys_errno == ENOBUFS;
}

// short_of gives the errno for want of which this incarnation never was, 0 if not so.
static int short_of(const struct mst_calls *calls, const struct mst_lane *lane,
                    const struct mst_judged *judged) {
  const struct mst_worker *worker = worker_of(calls, lane);
  if (is_short(judged->sys_errno)) return judged->sys_errno;
  const int failed = worker->exit_known && worker->exit_how == MST_EXIT_NONE;
  return failed && is_short(worker->exit_number) ? worker->exit_number : 0;
}

// was_refused: the fork server found threads in itself (fork/server.c).
static int was_refused(const struct mst_worker *worker) {
  return worker->exit_known && worker->exit_how == MST_EXIT_NONE &&
         worker->exit_number == EDEADLK;
}

// launch_later: it isn't to blame for what the system hasn't got now.
static void launch_later(struct mst_calls *calls, struct mst_lane *lane,
                         int sys_errno, char *words) {
  lane->sys_errno = sys_errno;
  mst_calls_effects(calls, lane, mst_lane_drop_cancelled(lane, 1));
  if (lane->launches >= MST_SHORT_TRIES) {
    mst_lane_fail(lane, "it can't be started again: the system is short of "
                        "processes, descriptors or memory");
    mst_lane_leave(calls, lane, 1, words);
    return;
  }
  let_go(calls, lane);
  lane->launch_ns = calls->now_ns + (MST_SHORT_PAUSE_NS << lane->launches);
  lane->launches++;
  calls->waiting++;
}

static void launch_now(struct mst_calls *calls, struct mst_lane *lane) {
  wait_no_more(calls, lane);
  if (calls->pool.phase != MST_POOL_RUNNING ||
      worker_of(calls, lane)->stop_ns != NEVER || lane->dead) {
    mst_lane_leave(calls, lane, 0, NULL);
    return;
  }
  mst_calls_tell_pool(calls, MST_EV_RESTART, lane->worker);
}

uint32_t mst_calls_revive(struct mst_calls *calls, int64_t now_ns) {
  uint32_t n = 0;
  calls->now_ns = now_ns;
  if (calls->pool.phase != MST_POOL_RUNNING) return 0;
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    struct mst_lane *lane = calls->lanes[i];
    if (!lane->dead || lane->sys_errno == 0) continue;
    if (worker_of(calls, lane)->state != MST_WORKER_LOST) continue;
    lane->dead = 0;
    lane->launches = 0;
    let_go(calls, lane);
    mst_calls_tell_pool(calls, MST_EV_RESTART, i);
    n++;
  }
  return n;
}

// ---- how it ended, and what follows

// ignored_interrupt: its watch ends a worker whose cancelled call goes on after its grace.
static int ignored_interrupt(const struct mst_calls *calls,
                             const struct mst_lane *lane) {
  const struct mst_call *call = lane->first;
  return call != NULL && (call->cancelled || call->timed_out) &&
         lane->cancel == call->id &&
         worker_of(calls, lane)->lost_ns - lane->cancel_ns >=
             MST_CANCEL_GRACE_MS * MST_NS_PER_MS;
}

// note_killer: muster, which has said why it gave it up; the kernel for memory; or
// somebody who isn't known.
static void note_killer(const struct mst_calls *calls, struct mst_lane *lane,
                        int oom) {
  const struct mst_worker *worker = worker_of(calls, lane);
  const int killed = worker->exit_known &&
                     worker->exit_how == MST_EXIT_SIGNAL &&
                     worker->exit_number == SIGKILL;
  if (killed && ignored_interrupt(calls, lane)) {
    mst_lane_fail(lane, "its call went on for a second after it was "
                        "interrupted");
  }
  lane->ours = (uint8_t)(killed && lane->failure != NULL);
  lane->oom = (uint8_t)(killed && !lane->ours && oom);
}

static const char *lost_state(uint8_t why) {
  static const char *const words[] = {
      [MST_INCOMPLETE_MANY] =
          "its state can't be restored: too many calls have changed it",
      [MST_INCOMPLETE_LONG] =
          "its state can't be restored: it can't be copied, and to repeat its "
          "calls would take longer than options(muster.replay_max =) allows",
      [MST_INCOMPLETE_MEMORY] =
          "its state can't be restored: there was no memory to keep all calls "
          "that have changed it",
      [MST_INCOMPLETE_ENDED] =
          "its state can't be restored: the process that kept it had ended"};
  return words[why];
}

static void heal(struct mst_calls *calls, struct mst_lane *lane, char *words) {
  lane->sys_errno = 0; // this time it was there, or nothing was short
  const enum mst_heal_at at =
      calls->policy.on ? settle_calls(calls, lane, words) : MST_HEAL_IDLE;
  const struct mst_heal_policy policy = policy_of(calls, lane);
  enum mst_heal_verdict verdict =
      mst_heal_lost(&lane->heal, &policy, at, calls->now_ns);
  if (verdict == MST_HEAL_POISON) {
    mst_lane_fail_first(calls, lane, MST_LOSS_POISON, policy.retries + 1,
                        words);
  }
  const int comes_back =
      verdict == MST_HEAL_RESTART || verdict == MST_HEAL_POISON;
  if (comes_back && lane->journal.incomplete) {
    mst_lane_fail(lane, lost_state(lane->journal.incomplete));
    verdict = MST_HEAL_GIVE_UP;
  }
  if (verdict == MST_HEAL_RESTART || verdict == MST_HEAL_POISON) {
    restart(calls, lane, words);
  } else {
    mst_lane_leave(calls, lane, verdict == MST_HEAL_GIVE_UP, words);
  }
}

void mst_calls_judged(struct mst_calls *calls, uint32_t worker,
                      const struct mst_judged *judged, int64_t now_ns) {
  struct mst_lane *lane = calls->lanes[worker];
  calls->now_ns = now_ns;
  lane->to_heal = 0;
  calls->to_heal--;
  note_killer(calls, lane, judged->oom);
  const int lacks = short_of(calls, lane, judged);
  if (calls->pool.phase != MST_POOL_RUNNING ||
      worker_of(calls, lane)->stop_ns != NEVER || lane->dead) {
    mst_lane_leave(calls, lane, 0, judged->words);
  } else if (calls->policy.on && lacks != 0) {
    launch_later(calls, lane, lacks, judged->words);
  } else {
    if (was_refused(worker_of(calls, lane))) {
      mst_lane_fail(lane,
                    "its fork server has more than one thread by now, and "
                    "such a process must not fork");
    }
    heal(calls, lane, judged->words);
  }
  free(judged->words);
}

// ---- coming back

// give_up: it has come back, and isn't what it was.
static void give_up(struct mst_calls *calls, struct mst_lane *lane,
                    const char *text) {
  mst_lane_fail(lane, text);
  lane->dead = 1;
  tell(calls, loss_of(calls, lane, MST_LOSS_GIVEN_UP, NULL));
  mst_calls_tell_pool(calls, MST_EV_SILENT, lane->worker);
}

void mst_lane_resume(struct mst_calls *calls, struct mst_lane *lane) {
  mst_heal_back(&lane->heal, calls->now_ns);
  lane->sys_errno = 0;
  lane->launches = 0;
  lane->replay_left = 0;
  lane->replayed = lane->replay = lane->journal.first;
  lane->replaying = 1;
  lane->seeded = 0;
  lane->rng_kept &= lane->from_checkpoint;
  // Its checkpoint has ended since it was judged.
  if (lane->journal.incomplete && !lane->from_checkpoint) {
    lane->replaying = 0;
    give_up(calls, lane, lost_state(lane->journal.incomplete));
    return;
  }
  mst_due_add(&calls->due, lane, 0);
}

static int others_are_busy(const struct mst_calls *calls,
                           const struct mst_lane *lane) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    // One that is lost owes too, but computes nothing, and may owe for ever.
    if (i != lane->worker && calls->pool.workers[i].state == MST_WORKER_BUSY) {
      return 1;
    }
  }
  return 0;
}

void mst_lane_go_on(struct mst_calls *calls, struct mst_lane *lane) {
  if (lane->alone && lane->first != NULL && others_are_busy(calls, lane)) {
    calls->alone = 1;
    return; // tried again with time
  }
  lane->alone = 0;
  lane->resuming = 0;
  if (lane->journal.incomplete) mst_lane_want(calls, lane, 1);
  mst_heal_back(&lane->heal, calls->now_ns); // from now on it is listened to
  lane->next_sent = lane->first;
  mst_due_add(&calls->due, lane, MST_TODO_CALLS);
  calls->to_dispatch = 1;
}

void mst_lane_replayed(struct mst_calls *calls, struct mst_lane *lane,
                       uint16_t flags) {
  const struct mst_entry *entry = lane->replayed;
  if (lane->replay_left == 0 || entry == NULL) return;
  lane->replay_left--;
  lane->replayed = entry->next;
  lane->head_ns = calls->now_ns; // what it owes comes after the journal
  const int failed = (flags & MST_FLAG_ERROR) != 0;
  if (failed && !entry->failed) {
    give_up(calls, lane,
            "a call of its journal failed when it was replayed, see "
            "cluster_journal()");
  } else if (lane->replay_left == 0 && !lane->replaying) {
    mst_heal_idle(&lane->heal);
  }
}

// ---- signs of life, and time limits

void mst_calls_heard(struct mst_calls *calls, uint32_t worker, int64_t now_ns) {
  mst_heal_heard(&calls->lanes[worker]->heal, now_ns);
}

static void listen_to(struct mst_calls *calls, struct mst_lane *lane,
                      int64_t slept_ns) {
  switch (mst_heal_beat(&lane->heal, &calls->policy, slept_ns, calls->now_ns)) {
  case MST_BEAT_ASK:
    mst_due_add(&calls->due, lane, MST_TODO_PING);
    break;
  case MST_BEAT_SILENT:
    mst_lane_fail(lane, "it didn't respond within `heartbeat` seconds (the "
                        "process or its host is stopped)");
    mst_calls_tell_pool(calls, MST_EV_SILENT, lane->worker);
    break;
  case MST_BEAT_FINE:
    break;
  }
}

static int64_t limit_of(const struct mst_calls *calls,
                        const struct mst_call *call) {
  return call->timeout_ns > 0 ? call->timeout_ns : calls->timeout_ns;
}

static void watch_time(struct mst_calls *calls, struct mst_lane *lane) {
  struct mst_call *call = lane->first;
  if (call == NULL || call->timed_out || call->cancelled) return;
  if (lane->resuming || lane->replaying || lane->replay_left > 0) return;
  if (calls->now_ns - lane->head_ns < limit_of(calls, call)) return;
  call->timed_out = 1;
  mst_calls_effects(calls, lane, MST_LANE_INTERRUPT);
}

static int is_interrupted(const struct mst_lane *lane) {
  const struct mst_call *call = lane->first;
  return call != NULL && call->sent && lane->cancel == call->id &&
         (call->cancelled || call->timed_out);
}

// A worker's watch interrupts a cancelled call, and ends the worker if that goes on anyway. It
// lets the worker finish what must not be left half done (packages that a task needs are loaded,
// a large message is read); that may take longer, as long as the watch answers.
static void watch_cancelled(struct mst_calls *calls, struct mst_lane *lane,
                            int64_t slept_ns) {
  if (!is_interrupted(lane)) return;
  // Whoever slept hasn't read the answer that may be there.
  if (slept_ns > MST_NS_PER_S) {
    lane->cancel_ns = calls->now_ns;
    mst_due_add(&calls->due, lane, MST_TODO_PING);
  }
  if (lane->replay_left > 0) lane->cancel_ns = calls->now_ns;
  const int lives = lane->heal.heard_ns > lane->cancel_ns;
  const int64_t patience_ns =
      lives ? MST_CANCEL_FINISH_NS : MST_CANCEL_PATIENCE_NS;
  if (calls->now_ns - lane->cancel_ns < patience_ns) return;
  mst_lane_fail(lane, lives ? "its call went on for a minute after it was "
                              "cancelled"
                            : "its call went on for a second after it was "
                              "interrupted");
  mst_calls_tell_pool(calls, MST_EV_SILENT, lane->worker);
}

void mst_lane_time(struct mst_calls *calls, struct mst_lane *lane,
                   int64_t slept_ns) {
  if (lane->launch_ns <= calls->now_ns) launch_now(calls, lane);
  if (lane->to_heal) {
    if (calls->policy.on && calls->launcher_gone &&
        calls->pool.phase == MST_POOL_RUNNING) {
      calls->orphaned = 1; // wait for another
    } else {
      mst_due_add(&calls->due, lane, MST_TODO_JUDGE);
    }
  }
  const enum mst_worker_state state = worker_of(calls, lane)->state;
  if (state != MST_WORKER_IDLE && state != MST_WORKER_BUSY &&
      state != MST_WORKER_DRAINING) {
    return;
  }
  if (lane->resuming && !lane->alone) return; // RESTARTED is still to be taken
  if (lane->alone && lane->resuming && !lane->replaying) {
    mst_lane_go_on(calls, lane);
  }
  if (is_interrupted(lane)) calls->interrupts = 1;
  if (calls->pool.phase == MST_POOL_RUNNING && calls->started &&
      worker_of(calls, lane)->channel != MST_CHANNEL_AWAY) {
    listen_to(calls, lane, slept_ns);
    watch_cancelled(calls, lane, slept_ns);
  }
  watch_time(calls, lane);
}
