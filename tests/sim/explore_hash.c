// What distinguishes two states of a small world: all that the future depends on; times and numbers
// are relative to the current ones. See explore.h.
#include "explore.h"

static void mix(uint64_t *hash, uint64_t value) {
  uint64_t z = *hash ^ (value + UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  *hash = z ^ (z >> 31);
}

static void mix_time(uint64_t *hash, const struct ex *ex, int64_t at_ns) {
  mix(hash, at_ns == EX_NEVER ? UINT64_MAX : (uint64_t)(ex->now_ns - at_ns));
}

static void mix_process(uint64_t *hash, const struct ex_process *process) {
  mix(hash, process->life);
  mix(hash, process->spoken);
  mix(hash, (uint64_t)process->exit_due << 4 |
                (uint64_t)process->close_due << 3 |
                (uint64_t)process->let_go << 2 | (uint64_t)process->bye << 1 |
                process->by_itself);
  mix(hash, (uint64_t)process->trims << 2 | (uint64_t)process->queued << 1 |
                process->lacks);
  mix(hash, process->replayed);
  mix(hash, process->first);
  mix(hash, process->to_replay);
  mix(hash, (uint64_t)process->results << 8 | process->jobs);
  mix(hash, process->asked - process->last_id);
  mix(hash, process->withdrawn - process->last_id);
  mix(hash, process->in_count);
  for (uint32_t i = 0; i < process->in_count; i++) {
    mix(hash, process->in[i].call);
    mix(hash, (uint64_t)process->in[i].checkpoint << 1 | process->in[i].replay);
  }
}

static void mix_worker(uint64_t *hash, const struct ex *ex,
                       const struct mst_worker *worker) {
  mix(hash, (uint64_t)worker->state);
  mix(hash, worker->pid != 0);
  mix(hash, worker->owed);
  mix(hash, (uint64_t)worker->launched << 9 | (uint64_t)worker->awaited << 8 |
                (uint64_t)worker->has_process << 7 |
                (uint64_t)worker->exit_known << 6 |
                (uint64_t)worker->killed << 5 | (uint64_t)worker->channel << 3 |
                (uint64_t)worker->lost_given << 2 |
                (uint64_t)worker->again << 1 | worker->was_ready);
  mix(hash, (uint64_t)worker->presumed << 1 | worker->drains);
  mix(hash, worker->exit_how);
  mix(hash, (uint64_t)(int64_t)worker->exit_number);
  mix_time(hash, ex, worker->lost_ns);
  mix_time(hash, ex, worker->stop_ns);
  mix_time(hash, ex, worker->kill_ns);
  mix_time(hash, ex, worker->restart_ns);
}

static void mix_call(uint64_t *hash, const struct mst_call *call) {
  mix(hash, (uint64_t)(int64_t)call->tag);
  mix(hash, call->state);
  mix(hash, (uint64_t)call->sent << 3 | (uint64_t)call->cancelled << 2 |
                (uint64_t)call->timed_out << 1 | call->counted);
  mix(hash, call->refs);
  mix(hash, call->losses);
}

static void mix_mailbox(uint64_t *hash, const struct ex *ex,
                        const struct mst_worker *record) {
  for (const struct mst_call *at = record->mailbox.first; at != NULL;
       at = at->next) {
    mix(hash, at == record->mailbox.next_sent);
    mix_call(hash, at);
  }
  mix(hash, record->mailbox.count);
  mix(hash, record->mailbox.last != NULL &&
                record->mailbox.last->id == record->mailbox.withdraw);
  mix(hash, record->mailbox.first != NULL &&
                record->mailbox.first->id == record->mailbox.slow);
  for (const struct mst_call *at = record->mailbox.answers; at != NULL;
       at = at->next)
    mix_call(hash, at);
  mix(hash, record->mailbox.unread);
  mix(hash, record->mailbox.mixed);
  mix(hash, (uint64_t)record->dead << 8 | (uint64_t)record->to_heal << 7 |
                (uint64_t)record->resuming << 6 |
                (uint64_t)!record->channel << 5 | (uint64_t)record->alone << 9 |
                (uint64_t)record->replaying << 2 | (uint64_t)record->oom << 1 |
                record->ours);
  mix(hash, (uint64_t)record->trims << 2 | (uint64_t)record->moves << 1 |
                (record->why != MST_WHY_NONE));
  mix(hash, record->heal.deaths);
  mix(hash, record->heal.row);
  mix(hash, (uint64_t)record->journal.checkpoint << 4 |
                (uint64_t)record->journal.asking << 3 |
                (uint64_t)record->journal.incomplete << 1 |
                record->from_checkpoint);
  mix(hash, record->journal.pause);
  mix(hash,
      (uint64_t)record->journal.past.count << 1 | record->journal.past.lost);
  if (record->heal.deaths > 0) mix_time(hash, ex, record->heal.first_ns);
  mix(hash, (uint64_t)(int64_t)record->sys_errno);
  mix(hash, record->launches);
  mix_time(hash, ex, record->launch_ns);
  mix(hash, record->replay_left);
  mix(hash, record->mailbox.first != NULL &&
                record->cancel == record->mailbox.first->id);
  if (record->mailbox.first != NULL &&
      record->cancel == record->mailbox.first->id) {
    mix_time(hash, ex, record->cancel_ns);
  }
  for (const struct mst_entry *at = record->journal.first; at != NULL;
       at = at->next) {
    mix(hash, ex_call_of(ex, at->payload));
    mix(hash, at == record->replayed);
    mix(hash, (uint64_t)at->covered << 1 | at->failed);
  }
}

static void mix_world(uint64_t *hash, const struct ex *ex) {
  const struct ex_budget *left = &ex->left;
  mix(hash, ex->asked);
  mix(hash, (uint64_t)left->kills << 24 | (uint64_t)left->cancels << 16 |
                (uint64_t)left->forgets << 8 | left->no_launch);
  mix(hash, (uint64_t)left->bad_launch << 24 | (uint64_t)left->overdue << 16 |
                (uint64_t)left->errors << 8 | left->ends);
  mix(hash, (uint64_t)left->drains << 32 | (uint64_t)left->waits << 24 |
                (uint64_t)left->retires << 16 | (uint64_t)left->stops << 8 |
                (uint64_t)left->standbys << 4 | left->no_memory);
  mix(hash, (uint64_t)left->hosts << 24 | (uint64_t)left->no_hosts << 16 |
                (uint64_t)left->queues << 8 | left->moves);
  mix(hash, (uint64_t)ex->fail_launch << 4 | (uint64_t)ex->fail_send << 3 |
                (uint64_t)ex->stopped << 2 | (uint64_t)ex->stopping << 1 |
                ex->lasting);
  mix(hash, (uint64_t)ex->ended << 8 | ex->gone);
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    const struct ex_call *call = &ex->calls[i];
    mix(hash, (uint64_t)call->late << 5 | (uint64_t)call->cancelled << 4 |
                  (uint64_t)call->no_memory << 3 | (uint64_t)call->blamed << 1);
    mix(hash, (uint64_t)call->mailbox << 1 | call->handed_back);
    mix(hash, call->outcome);
    if (call->task == NULL) continue;
    mix_call(hash, call->task);
    mix(hash, (uint64_t)call->task->waits << 3 |
                  (uint64_t)call->task->held << 1 |
                  (call->task->cause != NULL));
    mix(hash, call->task->loss == NULL ? 9u : (uint64_t)call->task->loss->kind);
  }
  for (uint32_t w = 0; w < EX_WORKERS; w++) {
    mix(hash, ex->deaths[w]);
    mix(hash, ex->journal_count[w]);
    mix(hash, ex->covered[w]);
    mix(hash, ex->state[w]);
    for (uint8_t k = 0; k < ex->journal_count[w]; k++)
      mix(hash, ex->journal[w][k]);
  }
}

// mix_site: what a site that does everything in one event leaves.
static void mix_site(uint64_t *hash, const struct mst_worker *worker) {
  const struct mst_site *site = worker->site;
  mix(hash, (uint64_t)site->is << 8 | site->linked);
  mix(hash, site->todo);
  mix(hash, site->link - site->left);
  mix(hash, site->link - site->moved);
  mix(hash, worker->link == 0 ? UINT64_MAX : site->link - worker->link);
  mix(hash, (uint64_t)(site->link - worker->standby_link) << 1 | worker->pends);
}

uint64_t ex_hash(const struct ex *ex) {
  const struct mst_calls *core = &ex->core;
  uint64_t hash = 1;
  mix_world(&hash, ex);
  for (uint32_t i = 0; i < EX_WORKERS; i++) {
    mix_process(&hash, &ex->processes[i]);
    mix_worker(&hash, ex, core->pool.workers[i]);
    mix_mailbox(&hash, ex, core->pool.workers[i]);
    mix_site(&hash, core->pool.workers[i]);
  }
  mix(&hash, (uint64_t)core->pool.phase);
  mix(&hash, core->dispatch.turn % EX_WORKERS);
  mix(&hash, core->to_heal);
  mix(&hash, core->waiting);
  mix(&hash, core->alone);
  mix(&hash, mst_queue_count(&core->dispatch.queue));
  mix_time(&hash, ex, mst_calls_wake_ns(core));
  return hash;
}
