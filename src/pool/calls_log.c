// What restores a worker's state: its journal, and when a checkpoint replaces that. The contract is
// in calls.h.
#include "pool/calls_int.h"

void mst_calls_forbid_checkpoints(struct mst_calls *calls) {
  calls->no_checkpoints = 1;
  for (uint32_t i = 0; i < calls->pool.count; i++)
    mst_journal_refused(&calls->pool.workers[i]->journal, MST_REFUSED_EVER);
}

// loss_ns gives the mean time between two losses of a worker, from those that there were.
static double loss_ns(const struct mst_calls *calls) {
  const double lived_ns =
      (double)(calls->now_ns - calls->began_ns) * (double)calls->pool.count;
  return ((double)MST_HEAL_LOSS_NS + lived_ns) / (1 + (double)calls->losses);
}

void mst_worker_want(struct mst_calls *calls, struct mst_worker *worker,
                     int now) {
  const struct mst_pace pace = {.every_ns = calls->policy.checkpoint_ns,
                                .loss_ns = loss_ns(calls),
                                .idle = worker->mailbox.count <= 1};
  if (mst_journal_wants(&worker->journal, now, &pace, calls->now_ns)) {
    mst_due_add(&calls->pool.due, worker, MST_DO_CHECKPOINT);
  }
}

// note_seed: draws from a L'Ecuyer stream are repeated by setting the position, which is known.
// Draws from another generator are repeated by replaying the calls that drew, from where the stream
// is known: a checkpoint has it, and a worker begins with one that all its incarnations have. Draws
// of tasks that change nothing aren't repeated, since those aren't replayed.
static void note_seed(struct mst_calls *calls, struct mst_worker *worker,
                      const struct mst_answered *answered) {
  if ((answered->flags & MST_FLAG_RNG) != 0) {
    const int replayed = !worker->mailbox.first->is_task ||
                         (answered->flags & MST_FLAG_STATE) != 0;
    const int repeats = replayed && worker->rng_kept && !worker->rng_other;
    const int matters = replayed || worker->seed.known;
    if (matters && (!repeats || worker->rng_strayed)) worker->rng_redraws = 1;
    if (matters && !repeats) worker->rng_since = 1;
    worker->seed.known = 0;
    if (!replayed || !worker->rng_kept)
      worker->rng_other = worker->rng_strayed = 1;
    if (replayed && !worker->rng_kept) mst_worker_want(calls, worker, 1);
  }
  if ((answered->flags & MST_FLAG_SEED) == 0) return;
  worker->rng_other = worker->rng_strayed = 0;
  worker->seed = answered->seed;
}

static void note_state(struct mst_calls *calls, struct mst_worker *worker,
                       const struct mst_answered *answered) {
  const struct mst_call *call = worker->mailbox.first;
  const struct mst_entry entry = {
      .payload = call->payload,
      .job = call->job,
      .seed = worker->seed,
      .call = call->id,
      .elapsed_s = answered->elapsed_s,
      .failed = (answered->flags & MST_FLAG_ERROR) != 0,
      .visible = (answered->flags & MST_FLAG_STATE) != 0,
      .is_task = call->is_task,
      .unseen = call->unseen};
  if (call->cast != NULL) {
    mst_common_answered(&calls->common, call->cast, &entry);
  }
  if (call->is_task && !entry.visible) return; // any worker could have done it
  (void)mst_journal_add(&worker->journal, &entry); // marks itself if it fails
  mst_journal_bound(&worker->journal, calls->policy.replay_max_ns);
  mst_worker_want(calls, worker, 0);
}

void mst_worker_note(struct mst_calls *calls, struct mst_worker *worker,
                     const struct mst_answered *answered) {
  const struct mst_call *call = worker->mailbox.first;
  mst_heal_answered(&worker->heal);
  mst_heal_heard(&worker->heal, calls->now_ns);
  worker->head_ns = calls->now_ns;
  if (!calls->policy.on) return; // nothing is kept
  // A call that was interrupted and undone isn't replayed: it didn't run to its end.
  const int undone = (call->cancelled || call->timed_out) &&
                     (answered->flags & MST_FLAG_ERROR) != 0 &&
                     (answered->flags & MST_FLAG_STATE) == 0;
  if (!undone && !calls->policy.fresh) note_state(calls, worker, answered);
  // It may have changed more than the worker can see and undo: a checkpoint has that, too.
  if (undone && !call->is_task && answered->elapsed_s > 0) {
    mst_worker_want(calls, worker, 1);
  }
  note_seed(calls, worker, answered);
}

int mst_calls_log_grew(const struct mst_calls *calls) {
  return calls->log_bytes > calls->log_looked &&
         calls->log_bytes - calls->log_looked >= MST_LOG_STEP_BYTES;
}

// longest_journal among those that aren't being replayed, NULL if all are empty. hopeless: only
// those that no checkpoint can shorten now.
static struct mst_journal *longest_journal(struct mst_calls *calls,
                                           int hopeless) {
  struct mst_journal *longest = &calls->common.journal;
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    struct mst_worker *worker = calls->pool.workers[i];
    if (worker->replaying || worker->replay_left > 0) continue;
    if (hopeless && !worker->journal.unfit) continue;
    if (worker->journal.bytes > longest->bytes) longest = &worker->journal;
  }
  return longest->bytes == 0 ? NULL : longest;
}

static void give_up_longest(struct mst_calls *calls, int hopeless,
                            int64_t most) {
  struct mst_journal *longest;
  while ((int64_t)calls->log_bytes > most &&
         (longest = longest_journal(calls, hopeless)) != NULL) {
    if (longest == &calls->common.journal) {
      mst_common_give_up(&calls->common);
    } else {
      mst_journal_give_up(longest, MST_INCOMPLETE_MEMORY);
    }
  }
}

// Checkpoints take a while, so journals that one can shorten may use twice as much until then.
void mst_calls_bound_log(struct mst_calls *calls, int64_t free_bytes) {
  const int64_t most = free_bytes / 4 + (int64_t)(calls->log_bytes / 4);
  if ((int64_t)calls->log_bytes > most / 2) {
    for (uint32_t i = 0; i < calls->pool.count; i++) {
      struct mst_worker *worker = calls->pool.workers[i];
      mst_journal_forget_past(&worker->journal);
      if (worker->journal.bytes > 0) mst_worker_want(calls, worker, 1);
    }
  }
  give_up_longest(calls, 1, most);
  give_up_longest(calls, 0, 2 * most);
  calls->log_looked = calls->log_bytes;
}

void mst_calls_checkpointed(struct mst_calls *calls, uint32_t index,
                            int64_t cost_ns, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  calls->now_ns = now_ns;
  mst_journal_made(&worker->journal, cost_ns, now_ns);
  worker->standby_link = worker->link;
  // The checkpoint has the stream, of any generator, and what was made of it.
  worker->rng_other = worker->rng_since = 0;
  worker->rng_kept = 1;
}

void mst_calls_no_checkpoint(struct mst_calls *calls, uint32_t index,
                             enum mst_refusal why, int64_t now_ns) {
  calls->now_ns = now_ns;
  struct mst_journal *journal = &calls->pool.workers[index]->journal;
  mst_journal_refused(journal, why);
  mst_journal_bound(journal, calls->policy.replay_max_ns);
}

void mst_calls_checkpoint_ended(struct mst_calls *calls, uint32_t index,
                                int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  calls->now_ns = now_ns;
  mst_journal_ended(&worker->journal);
  if (mst_worker_is_up(worker)) mst_worker_want(calls, worker, 1);
}

int mst_calls_can_move(const struct mst_calls *calls, uint32_t index,
                       int64_t replay_max_ns) {
  const struct mst_worker *worker = calls->pool.workers[index];
  const struct mst_journal *journal = &worker->journal;
  if (!calls->policy.on || worker->dead) return 0;
  if (calls->policy.fresh) return 1;
  if (journal->incomplete || worker->rng_redraws) return 0;
  if (!journal->checkpoint) return journal->replay_ns <= replay_max_ns;
  return journal->keeps && !journal->past.lost &&
         journal->past.replay_ns + journal->replay_ns <= replay_max_ns;
}

// ---- what all workers were given

// has_all tells whether every worker that takes calls has got the current cast.
static int has_all(const struct mst_calls *calls, const struct mst_cast *cast) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    const struct mst_worker *worker = calls->pool.workers[i];
    if (worker->mailbox.cast != cast->number &&
        mst_calls_is_usable(calls, worker)) {
      return 0;
    }
  }
  return 1;
}

void mst_calls_close_cast(struct mst_calls *calls) {
  struct mst_common *common = &calls->common;
  if (common->now == NULL) return;
  mst_common_close(common, has_all(calls, common->now));
}

struct mst_cast *mst_calls_cast_of(struct mst_calls *calls,
                                   struct mst_worker *worker,
                                   struct mst_blob *payload,
                                   const void *caller) {
  struct mst_common *common = &calls->common;
  if (!calls->policy.on) return NULL; // nothing is kept
  if (!mst_common_goes_on(common, payload, caller) ||
      worker->mailbox.cast == common->now->number) {
    mst_calls_close_cast(calls);
  }
  if (payload->one) return NULL;
  struct mst_cast *cast = mst_common_open(common, payload, caller);
  if (cast != NULL) worker->mailbox.cast = cast->number;
  return cast;
}
