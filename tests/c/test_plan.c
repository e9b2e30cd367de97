// Tests of shuffle/plan: one situation each. tests/sim/shuffle.c plays random ones.
#include <string.h>

#include "base/mst_err.h"
#include "mst_test.h"
#include "shuffle/plan.h"

#define NONE MST_PLAN_NONE
#define MS INT64_C(1000000)

static const uint32_t no_far[2] = {NONE, NONE};

// A plan with `workers` up and the stages of a shuffle: source, split, gather.
static void shuffle_of(struct mst_plan *plan, uint32_t workers, uint32_t maps,
                       uint32_t reduces) {
  uint32_t stage;
  CHECK_INT(mst_plan_init(plan, workers), 0);
  for (uint32_t w = 0; w < workers; w++)
    mst_plan_up(plan, w, 0);
  CHECK_INT(mst_plan_add(plan, maps, NONE, no_far, 1, &stage), 0);
  CHECK_INT(mst_plan_add(plan, maps, 0, no_far, 1, &stage), 0);
  CHECK_INT(mst_plan_add(plan, reduces, NONE, (uint32_t[]){1, NONE}, 1, &stage),
            0);
  CHECK_INT(stage, 2);
}

static int next(struct mst_plan *plan, int64_t now_ns,
                struct mst_plan_action *action) {
  const char *wrong = mst_plan_check(plan);
  if (wrong != NULL) CHECK_TEXT(wrong, "");
  const int rc = mst_plan_next(plan, now_ns, action);
  wrong = mst_plan_check(plan);
  if (wrong != NULL) CHECK_TEXT(wrong, "");
  return rc;
}

static enum mst_plan_told commit(struct mst_plan *plan,
                                 const struct mst_plan_action *run,
                                 int64_t now_ns) {
  return mst_plan_done(plan, run->stage, run->task, run->attempt, run->epoch,
                       now_ns);
}

// Runs and commits all attempts, 10 ms each; counts them by stage.
static void play(struct mst_plan *plan, uint32_t runs[3]) {
  struct mst_plan_action action;
  int64_t now_ns = 0;
  memset(runs, 0, 3 * sizeof *runs);
  while (next(plan, now_ns, &action) && action.kind == MST_PLAN_RUN) {
    runs[action.stage]++;
    now_ns += 10 * MS;
    CHECK_INT(commit(plan, &action, now_ns), MST_PLAN_COMMITTED);
  }
  CHECK_INT(action.kind, MST_PLAN_FINISHED);
}

TEST("F1 A shuffle runs each task once, near tasks where their input is") {
  struct mst_plan plan;
  struct mst_plan_action action;
  uint32_t runs[3] = {0};
  shuffle_of(&plan, 2, 4, 3);
  mst_plan_want(&plan, 0);
  play(&plan, runs);
  CHECK_INT(runs[0], 4);
  mst_plan_want(&plan, 2);
  memset(runs, 0, sizeof runs);
  while (next(&plan, 0, &action) && action.kind == MST_PLAN_RUN) {
    runs[action.stage]++;
    if (action.stage == 1) {
      CHECK_INT(action.worker,
                mst_plan_stage(&plan, 0)->tasks[action.task].worker);
      CHECK_INT(mst_plan_stage(&plan, 2)->done, 0);
    }
    CHECK_INT(commit(&plan, &action, 1), MST_PLAN_COMMITTED);
  }
  CHECK_INT(action.kind, MST_PLAN_FINISHED);
  CHECK_INT(runs[0], 0);
  CHECK_INT(runs[1], 4);
  CHECK_INT(runs[2], 3);
  CHECK_INT(plan.committed, 11);
  mst_plan_free(&plan);
}

TEST("F1 Nothing is gathered before all blocks are there, and a busy worker "
     "gets no second task") {
  struct mst_plan plan;
  struct mst_plan_action a, b, c;
  shuffle_of(&plan, 2, 2, 1);
  mst_plan_want(&plan, 2);
  CHECK(next(&plan, 0, &a) && next(&plan, 0, &b));
  CHECK_INT(a.stage, 1); // which makes the source itself
  CHECK_INT(b.stage, 1);
  CHECK(a.worker != b.worker);
  uint32_t base;
  CHECK_INT(mst_plan_base(&plan, 1, a.task, a.worker, &base), 0);
  CHECK_INT(base, 0);
  CHECK(!next(&plan, 0, &c));
  CHECK_INT(commit(&plan, &a, 1), MST_PLAN_COMMITTED);
  CHECK(!next(&plan, 0, &c));
  CHECK_INT(commit(&plan, &b, 1), MST_PLAN_COMMITTED);
  CHECK(next(&plan, 0, &c));
  CHECK_INT(c.stage, 2);
  mst_plan_free(&plan);
}

TEST(
    "F1 After a worker's end only its outputs that are wanted are made again") {
  struct mst_plan plan;
  uint32_t runs[3];
  shuffle_of(&plan, 4, 8, 4);
  mst_plan_want(&plan, 0);
  mst_plan_want(&plan, 2);
  play(&plan, runs);
  mst_plan_unwant(&plan);
  const uint32_t had = 2; // of 8 and of 4 parts, on 4 workers
  mst_plan_down(&plan, 1, 0);
  struct mst_plan_action action;
  CHECK(next(&plan, 0, &action));
  CHECK_INT(action.kind, MST_PLAN_FINISHED); // nothing is wanted
  mst_plan_up(&plan, 1, 1);
  mst_plan_want(&plan, 2);
  play(&plan, runs);
  CHECK_INT(runs[0], 0); // made by the split
  CHECK_INT(runs[1], had);
  CHECK_INT(runs[2], 1);
  mst_plan_free(&plan);
}

TEST("F1 Only a lost part is gathered again while the blocks are there") {
  struct mst_plan plan;
  struct mst_plan_action action;
  uint32_t runs[3];
  shuffle_of(&plan, 2, 2, 2);
  mst_plan_want(&plan, 2);
  play(&plan, runs);
  const struct mst_plan_task *part = &mst_plan_stage(&plan, 2)->tasks[1];
  const uint32_t attempt = part->attempt;
  uint32_t stage;
  CHECK_INT(mst_plan_add(&plan, 2, 2, no_far, 1, &stage), 0);
  mst_plan_want(&plan, stage);
  CHECK(next(&plan, 0, &action) && next(&plan, 0, &action));
  CHECK_INT(action.task, 1);
  mst_plan_missed(&plan, stage, 1, action.attempt, 2, 1, attempt);
  CHECK_INT(part->state, MST_PLAN_IDLE);
  CHECK(next(&plan, 0, &action));
  CHECK_INT(action.stage, 2); // wanted itself, and first
  CHECK_INT(action.task, 1);
  mst_plan_free(&plan);
}

TEST("F1 An attempt is committed once; repeated or late ones aren't") {
  struct mst_plan plan;
  struct mst_plan_action action;
  shuffle_of(&plan, 1, 1, 1);
  mst_plan_want(&plan, 0);
  CHECK(next(&plan, 0, &action));
  CHECK_INT(mst_plan_done(&plan, 0, 0, action.attempt + 1, 0, 1),
            MST_PLAN_KNOWN);
  CHECK_INT(commit(&plan, &action, 1), MST_PLAN_COMMITTED);
  CHECK_INT(commit(&plan, &action, 2), MST_PLAN_KNOWN);
  CHECK_INT(mst_plan_done(&plan, 7, 0, 1, 0, 1), MST_PLAN_KNOWN);
  CHECK_INT(mst_plan_done(&plan, 0, 1, 1, 0, 1), MST_PLAN_KNOWN);
  CHECK_INT(plan.committed, 1);
  mst_plan_down(&plan, 0, 0);
  mst_plan_up(&plan, 0, 1);
  CHECK_INT(commit(&plan, &action, 3),
            MST_PLAN_LATE); // of the incarnation before
  CHECK(next(&plan, 3, &action));
  CHECK_INT(mst_plan_done(&plan, 0, 0, action.attempt, 0, 4), MST_PLAN_LATE);
  mst_plan_free(&plan);
}

TEST("F4 A late task gets a copy elsewhere, then one more; the first counts") {
  struct mst_plan plan;
  struct mst_plan_action slow = {0}, copy, more, action;
  uint32_t stage;
  CHECK_INT(mst_plan_init(&plan, 40), 0);
  for (uint32_t w = 0; w < 40; w++)
    mst_plan_up(&plan, w, 0);
  CHECK_INT(mst_plan_add(&plan, 8, NONE, no_far, 1, &stage), 0);
  mst_plan_want(&plan, 0);
  for (int i = 0; i < 8; i++) {
    CHECK(next(&plan, 0, &action));
    if (i == 7) {
      slow = action;
    } else {
      CHECK_INT(commit(&plan, &action, 400 * MS), MST_PLAN_COMMITTED);
    }
  }
  CHECK(!next(&plan, 799 * MS, &copy)); // twice the median
  CHECK(next(&plan, 800 * MS, &copy));
  CHECK_INT(copy.kind, MST_PLAN_RUN);
  CHECK_INT(copy.task, 7);
  CHECK(copy.worker != slow.worker && copy.attempt != slow.attempt);
  CHECK(!next(&plan, 801 * MS, &more));
  CHECK(next(&plan, 1600 * MS, &more));
  CHECK(more.worker != slow.worker && more.worker != copy.worker);
  CHECK(!next(&plan, 9000 * MS, &action));
  CHECK_INT(commit(&plan, &copy, 9001 * MS), MST_PLAN_COMMITTED);
  CHECK_INT(plan.won, 1);
  CHECK_INT(commit(&plan, &slow, 9002 * MS),
            MST_PLAN_LATE); // before it was cancelled
  CHECK(next(&plan, 9002 * MS, &action));
  CHECK_INT(action.kind, MST_PLAN_CANCEL);
  CHECK_INT(action.attempt, more.attempt);
  CHECK(next(&plan, 9002 * MS, &action));
  CHECK_INT(action.kind, MST_PLAN_FINISHED);
  CHECK_INT(commit(&plan, &more, 9003 * MS), MST_PLAN_LATE);
  CHECK_INT(plan.speculated, 2);
  mst_plan_free(&plan);
}

TEST("F4 Copies run on a tenth of the workers, at least one, and never if "
     "switched off") {
  struct mst_plan plan;
  struct mst_plan_action action;
  uint32_t stage;
  for (int on = 0; on <= 1; on++) {
    CHECK_INT(mst_plan_init(&plan, 8), 0);
    for (uint32_t w = 0; w < 8; w++)
      mst_plan_up(&plan, w, 0);
    CHECK_INT(mst_plan_add(&plan, 8, NONE, no_far, on, &stage), 0);
    mst_plan_want(&plan, 0);
    for (int i = 0; i < 8; i++) {
      CHECK(next(&plan, 0, &action));
      if (i < 6) CHECK_INT(commit(&plan, &action, 10 * MS), MST_PLAN_COMMITTED);
    }
    CHECK_INT(next(&plan, 5000 * MS, &action), on);
    CHECK(!next(&plan, 5000 * MS, &action)); // two are late, one has a copy
    mst_plan_free(&plan);
  }
}

TEST("A task that is lost repeatedly is given up; a killed worker doesn't "
     "count against others") {
  struct mst_plan plan;
  struct mst_plan_action action;
  shuffle_of(&plan, 1, 2, 1);
  mst_plan_want(&plan, 0);
  for (uint32_t i = 0; i <= MST_PLAN_LOSSES_MAX; i++) {
    CHECK(next(&plan, 0, &action));
    CHECK_INT(action.kind, MST_PLAN_RUN);
    CHECK_INT(action.task, 0);
    mst_plan_down(&plan, 0, 0);
    mst_plan_ended(&plan, 0, 0, action.attempt); // known already
    mst_plan_up(&plan, 0, i + 1);
  }
  CHECK(next(&plan, 0, &action));
  CHECK_INT(action.kind, MST_PLAN_FAIL);
  CHECK_INT(action.task, 0);
  CHECK_INT(mst_plan_stage(&plan, 0)->tasks[1].losses, 0);
  mst_plan_unwant(&plan);
  mst_plan_want(&plan, 0);
  uint32_t runs[3];
  play(&plan, runs); // a new call starts over
  CHECK_INT(runs[0], 2);
  mst_plan_free(&plan);
}

TEST(
    "Without a worker that can come back a plan fails, and with one it waits") {
  struct mst_plan plan;
  struct mst_plan_action action;
  shuffle_of(&plan, 2, 2, 1);
  mst_plan_want(&plan, 0);
  mst_plan_down(&plan, 0, 1);
  mst_plan_down(&plan, 1, 0);
  CHECK(!next(&plan, 0, &action));
  mst_plan_down(&plan, 1, 1);
  CHECK(next(&plan, 0, &action));
  CHECK_INT(action.kind, MST_PLAN_FAIL);
  mst_plan_free(&plan);
}

TEST("A stage needs existing inputs, and can be forgotten and retired") {
  struct mst_plan plan;
  struct mst_plan_action action;
  uint32_t stage, runs[3];
  shuffle_of(&plan, 2, 2, 2);
  CHECK_INT(mst_plan_add(&plan, 3, 0, no_far, 1, &stage), -MST_EINPUT);
  CHECK_INT(mst_plan_add(&plan, 3, NONE, (uint32_t[]){9, NONE}, 1, &stage),
            -MST_EINPUT);
  CHECK_INT(mst_plan_add(&plan, 0, NONE, no_far, 1, &stage), -MST_ELIMIT);
  mst_plan_want(&plan, 2);
  play(&plan, runs);
  mst_plan_forget(&plan, 1);
  mst_plan_forget(&plan, 0);
  CHECK(next(&plan, 0, &action));
  CHECK_INT(action.kind, MST_PLAN_FINISHED);
  mst_plan_retire(&plan, 1);
  mst_plan_retire(&plan, 0);
  CHECK_INT(mst_plan_add(&plan, 2, 0, no_far, 1, &stage), -MST_EINPUT);
  CHECK(mst_plan_check(&plan) == NULL);
  CHECK_INT(mst_plan_workers(&plan, 5), 0);
  CHECK_INT(plan.worker_count, 5);
  mst_plan_free(&plan);
}

TEST("F4 Tasks that wait behind a late one run elsewhere, until it gets a "
     "copy") {
  struct mst_plan plan;
  struct mst_plan_action action, slow;
  uint32_t runs[3], stage;
  shuffle_of(&plan, 2, 4, 1);
  mst_plan_down(&plan, 1, 0);
  mst_plan_want(&plan, 0);
  play(&plan, runs); // all on the first worker
  mst_plan_up(&plan, 1, 0);
  CHECK_INT(mst_plan_add(&plan, 4, 0, no_far, 1, &stage), 0);
  mst_plan_want(&plan, stage);
  CHECK(next(&plan, 0, &action));
  CHECK_INT(commit(&plan, &action, 10 * MS), MST_PLAN_COMMITTED);
  CHECK(next(&plan, 10 * MS, &slow));
  CHECK(!next(&plan, 20 * MS, &action));
  for (int i = 0; i < 2; i++) {
    CHECK(next(&plan, 600 * MS, &action));
    CHECK_INT(action.worker, 1);
    CHECK(action.task != slow.task);
    CHECK_INT(commit(&plan, &action, 610 * MS), MST_PLAN_COMMITTED);
  }
  CHECK(next(&plan, 620 * MS, &action));
  CHECK_INT(action.task, slow.task);
  CHECK_INT(action.worker, 1);
  CHECK_INT(commit(&plan, &action, 630 * MS), MST_PLAN_COMMITTED);
  CHECK_INT(plan.won, 1);
  mst_plan_free(&plan);
}

// Three workers, all blocks there: each stopped worker has one of `reduces` tasks, which never
// ends, and worker 0 does all others. Then the time is 1000 ms, and those tasks are late.
static void play_stopped(struct mst_plan *plan, uint32_t reduces,
                         uint32_t stopped) {
  struct mst_plan_action action;
  uint32_t runs[3];
  shuffle_of(plan, 3, 3, reduces);
  mst_plan_want(plan, 0);
  play(plan, runs);
  mst_plan_want(plan, 1);
  play(plan, runs);
  mst_plan_unwant(plan); // from here on only their readers need blocks
  mst_plan_want(plan, 2);
  while (next(plan, 100 * MS, &action)) {
    CHECK_INT(action.kind, MST_PLAN_RUN);
    if (action.worker < 3 - stopped)
      CHECK_INT(commit(plan, &action, 110 * MS), MST_PLAN_COMMITTED);
  }
  CHECK_INT(mst_plan_stage(plan, 2)->done, reduces - stopped);
}

TEST("F4 Blocks that a late task's copy misses are made again although the "
     "task runs") {
  struct mst_plan plan;
  struct mst_plan_action copy, again, action;
  play_stopped(&plan, 9, 1);
  CHECK(next(&plan, 1000 * MS, &copy));
  CHECK_INT(copy.stage, 2);
  CHECK(copy.worker != 2);
  const struct mst_plan_task *block = &mst_plan_stage(&plan, 1)->tasks[2];
  CHECK_INT(block->worker, 2);
  mst_plan_missed(&plan, 2, copy.task, copy.attempt, 1, 2, block->attempt);
  CHECK(next(&plan, 1010 * MS, &again));
  CHECK_INT(again.stage, 1);
  CHECK_INT(again.task, 2);
  CHECK(again.worker != 2);
  CHECK_INT(commit(&plan, &again, 1020 * MS), MST_PLAN_COMMITTED);
  CHECK(next(&plan, 1030 * MS, &action));
  CHECK_INT(action.stage, 2);
  CHECK_INT(action.task, copy.task);
  CHECK(action.worker != 2);
  CHECK_INT(commit(&plan, &action, 1040 * MS), MST_PLAN_COMMITTED);
  CHECK(next(&plan, 1050 * MS, &action));
  CHECK_INT(action.kind, MST_PLAN_CANCEL);
  CHECK(next(&plan, 1050 * MS, &action));
  CHECK_INT(action.kind, MST_PLAN_FINISHED);
  mst_plan_free(&plan);
}

TEST("F4 A worker whose late attempt was ended gets a copy after all others, "
     "until it does something") {
  struct mst_plan plan;
  struct mst_plan_action first, second, action;
  play_stopped(&plan, 9, 2);
  for (int i = 0; i < 2; i++) { // the late tasks of workers 1 and 2, in turn
    struct mst_plan_action *copy = i == 0 ? &first : &second;
    CHECK(next(&plan, 1000 * MS, copy));
    CHECK_INT(copy->kind, MST_PLAN_RUN);
    CHECK_INT(copy->worker, 0); // the other worker is in doubt now
    CHECK_INT(commit(&plan, copy, 1010 * MS), MST_PLAN_COMMITTED);
    CHECK(next(&plan, 1010 * MS, &action));
    CHECK_INT(action.kind, MST_PLAN_CANCEL);
    CHECK_INT(plan.workers[action.worker].doubt, 1);
  }
  CHECK(next(&plan, 1010 * MS, &action));
  CHECK_INT(action.kind, MST_PLAN_FINISHED);
  mst_plan_up(&plan, 1, 1);
  CHECK_INT(plan.workers[1].doubt, 0);
  mst_plan_free(&plan);
}

TEST("F1 Tasks that wait for a worker which never ends its first one are "
     "moved") {
  struct mst_plan plan;
  struct mst_plan_action action, stuck;
  uint32_t stage, runs[3];
  shuffle_of(&plan, 2, 2, 1);
  mst_plan_down(&plan, 1, 0);
  mst_plan_want(&plan, 0);
  play(&plan, runs);
  mst_plan_up(&plan, 1, 0);
  CHECK_INT(mst_plan_add(&plan, 2, 0, no_far, 1, &stage), 0);
  mst_plan_want(&plan, stage);
  CHECK(next(&plan, 0, &stuck));
  CHECK_INT(stuck.worker, 0);
  CHECK(!next(&plan, MST_PLAN_STUCK_NS - 1, &action));
  CHECK(next(&plan, MST_PLAN_STUCK_NS, &action));
  CHECK_INT(action.worker, 1);
  CHECK(action.task != stuck.task);
  mst_plan_free(&plan);
}

TEST("Tasks start in the given order, each once") {
  struct mst_plan plan;
  struct mst_plan_action action;
  const uint32_t order[4] = {2, 0, 3, 1};
  const uint32_t twice[4] = {2, 0, 2, 1}, beyond[4] = {0, 1, 2, 4};
  shuffle_of(&plan, 1, 2, 4);
  CHECK_INT(mst_plan_order(&plan, 2, twice, 4), -MST_EINPUT);
  CHECK_INT(mst_plan_order(&plan, 2, beyond, 4), -MST_EINPUT);
  CHECK_INT(mst_plan_order(&plan, 2, order, 3), -MST_EINPUT);
  CHECK_INT(mst_plan_order(&plan, 7, order, 4), -MST_EINPUT);
  CHECK_INT(mst_plan_order(&plan, 2, order, 4), 0);
  CHECK_INT(mst_plan_order(&plan, 2, order, 4), 0);
  mst_plan_want(&plan, 2);
  uint32_t started = 0;
  while (next(&plan, 0, &action) && action.kind == MST_PLAN_RUN) {
    if (action.stage == 2) CHECK_INT(action.task, order[started++]);
    CHECK_INT(commit(&plan, &action, 1), MST_PLAN_COMMITTED);
  }
  CHECK_INT(action.kind, MST_PLAN_FINISHED);
  CHECK_INT(started, 4);
  mst_plan_retire(&plan, 2);
  mst_plan_free(&plan);
}

TEST("Retired stages leave only their numbers, which aren't reused") {
  struct mst_plan plan;
  static const uint32_t none[2] = {MST_PLAN_NONE, MST_PLAN_NONE};
  uint32_t kept, stage;
  CHECK_INT(mst_plan_init(&plan, 1), 0);
  CHECK_INT(mst_plan_add(&plan, 3, MST_PLAN_NONE, none, 0, &kept), 0);
  for (uint32_t i = 1; i <= 1000; i++) {
    CHECK_INT(mst_plan_add(&plan, 2, MST_PLAN_NONE, none, 0, &stage), 0);
    CHECK_INT(stage, i);
    mst_plan_retire(&plan, stage);
  }
  CHECK_INT(plan.live_count, 1);
  uint32_t blocks = 0;
  for (uint32_t b = 0; b <= 1000 / MST_PLAN_BLOCK; b++)
    blocks += plan.blocks[b] != NULL;
  CHECK_INT(blocks, 2); // that of the stage that is kept, and the last one
  CHECK_INT(mst_plan_stage(&plan, kept)->count, 3);
  CHECK(mst_plan_stage(&plan, 500)->tasks == NULL);
  CHECK_INT(mst_plan_add(&plan, 2, 500, none, 0, &stage), -MST_EINPUT);
  mst_plan_free(&plan);
}

// has_home tells whether a task of the split has its input at this worker.
static uint32_t has_home(const struct mst_plan *plan, uint32_t task,
                         uint32_t worker) {
  const struct mst_plan_task *input = &mst_plan_stage(plan, 0)->tasks[task];
  return input->state == MST_PLAN_DONE && input->worker == worker;
}

TEST("F1 A worker does first what it has the input of; what was lost is left "
     "to others") {
  struct mst_plan plan;
  struct mst_plan_action first, second;
  uint32_t runs[3];
  shuffle_of(&plan, 2, 4, 1);
  mst_plan_want(&plan, 0);
  play(&plan, runs);
  const uint32_t lost = mst_plan_stage(&plan, 0)->tasks[0].worker;
  mst_plan_up(&plan, lost, 1);
  mst_plan_unwant(&plan);
  mst_plan_want(&plan, 1);
  for (int i = 0; i < 2; i++) {
    // Task 0 has no input, and comes first by number.
    CHECK_INT(next(&plan, 0, &first), 1);
    CHECK_INT(first.worker, 1 - lost);
    CHECK(has_home(&plan, first.task, 1 - lost));
    CHECK_INT(next(&plan, 0, &second), 1);
    CHECK_INT(second.worker, lost);
    CHECK(!has_home(&plan, second.task, 1 - lost));
    CHECK_INT(commit(&plan, &first, MS), MST_PLAN_COMMITTED);
    CHECK_INT(commit(&plan, &second, MS), MST_PLAN_COMMITTED);
  }
  mst_plan_free(&plan);
}

TEST("F1 What is made on the way doesn't stay at a worker that has its share") {
  struct mst_plan plan;
  uint32_t runs[3];
  shuffle_of(&plan, 2, 5, 1);
  mst_plan_want(&plan, 0);
  play(&plan, runs);
  const uint32_t lost = mst_plan_stage(&plan, 0)->tasks[0].worker;
  const uint32_t other = 1 - lost;
  mst_plan_up(&plan, lost, 1);
  // A share of 5 is 3: how many of them are left, how many may stay.
  uint32_t has = 0, stays = 0;
  for (uint32_t t = 0; t < 5; t++)
    has += has_home(&plan, t, other);
  for (uint32_t t = 0; t < 5; t++) {
    const uint32_t attempt = mst_plan_note(&plan, 0, t, other);
    if (attempt == 0) continue;
    CHECK_INT(mst_plan_found(&plan, 0, t, attempt, other, 0),
              MST_PLAN_COMMITTED);
    stays++;
  }
  CHECK_INT(has + stays, 3);
  for (uint32_t t = 0; t < 5; t++)
    CHECK_INT(mst_plan_note(&plan, 0, t, lost) > 0, !has_home(&plan, t, other));
  for (uint32_t t = 0; t < 5; t++)
    CHECK_INT(mst_plan_note(&plan, 0, t, NONE) > 0,
              mst_plan_stage(&plan, 0)->tasks[t].state == MST_PLAN_IDLE);
  // The last worker takes all.
  mst_plan_down(&plan, lost, 1);
  for (uint32_t t = 0; t < 5; t++)
    CHECK_INT(mst_plan_note(&plan, 0, t, other) > 0,
              !has_home(&plan, t, other));
  mst_plan_free(&plan);
}

TEST("What a task makes on its way counts if nobody has or makes it, and its "
     "worker is the same") {
  struct mst_plan plan;
  struct mst_plan_action action;
  uint32_t runs[3];
  shuffle_of(&plan, 2, 2, 1);
  mst_plan_want(&plan, 0);
  play(&plan, runs);
  const uint32_t worker = mst_plan_stage(&plan, 0)->tasks[0].worker;
  CHECK_INT(mst_plan_note(&plan, 0, 0, worker), 0); // it is there
  mst_plan_up(&plan, worker, 1);
  const uint32_t attempt = mst_plan_note(&plan, 0, 0, worker);
  CHECK_INT(attempt, 2);
  // In another incarnation, of another worker, of a number that wasn't given.
  CHECK_INT(mst_plan_found(&plan, 0, 0, attempt, worker, 0), MST_PLAN_LATE);
  CHECK_INT(mst_plan_found(&plan, 0, 0, attempt, 7, 1), MST_PLAN_LATE);
  CHECK_INT(mst_plan_found(&plan, 0, 0, attempt + 1, worker, 1), MST_PLAN_LATE);
  CHECK_INT(mst_plan_found(&plan, 9, 0, 1, worker, 1), MST_PLAN_LATE);
  CHECK_INT(mst_plan_found(&plan, 0, 0, attempt, worker, 1),
            MST_PLAN_COMMITTED);
  CHECK_INT(mst_plan_found(&plan, 0, 0, attempt, worker, 1), MST_PLAN_LATE);
  CHECK_TEXT(mst_plan_check(&plan) == NULL ? "" : "wrong", "");
  // The split starts from it.
  uint32_t base;
  CHECK_INT(mst_plan_base(&plan, 1, 0, worker, &base), 1);
  CHECK_INT(base, 0);
  // One that is being made isn't noted.
  mst_plan_up(&plan, worker, 2);
  CHECK_INT(next(&plan, 0, &action), 1);
  CHECK_INT(action.stage, 0);
  CHECK_INT(mst_plan_note(&plan, 0, action.task, worker), 0);
  mst_plan_free(&plan);
}
