// The simulation of a shuffle's plan: random stages on workers that are killed, come back, are
// slow, or lose their outputs, with news that comes late, twice and out of order.
//
//   shuffle [--runs N] [--first SEED]   seeds SEED .. SEED + N - 1
//   shuffle --seed SEED --log           one seed, a line per event
//
// The world is what the plan can't see: which incarnation of a worker has which attempt of which
// output, and its rows. Rows are bits: a source's part has one row of its own; a gathered part must
// have each row of all parts once. After each event: the plan's own invariants. When a wanted stage
// is complete: each of its outputs is where the plan says, with each row once.
//
// Canaries (-DSIM_CANARY=n) are mistakes in the world's driver that the plan's contract forbids;
// each must be found.
//   1  an attempt that is late counts: a task's output is what was done last
//   2  a new incarnation of a worker is told under the number of the one before
//   3  nobody tells that an attempt missed an input
//   4  a reader that misses an input says that it is done
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../c/mst_random.h"
#include "shuffle.h"

#ifndef SIM_CANARY
#define SIM_CANARY 0
#endif

static uint64_t seen_kills, seen_missed, seen_late, seen_copies, seen_again,
    seen_failed, seen_finished, seen_found;

static uint64_t below(struct sim *sim, uint64_t limit) {
  return mst_random_below(&sim->random, limit);
}

static void fail(struct sim *sim, const char *format, ...) {
  if (sim->failed) return;
  sim->failed = 1;
  (void)printf("sim: shuffle: seed %" PRIu64 " failed: ", sim->seed);
  va_list args;
  va_start(args, format);
  (void)vprintf(format, args);
  va_end(args);
  (void)printf("\nsim: replay: make -C tests/sim replay-shuffle SEED=%" PRIu64
               "\n",
               sim->seed);
}

static void note(const struct sim *sim, const char *format, ...) {
  if (!sim->logging) return;
  (void)printf("%9.3f ", (double)sim->now_ns / 1e6);
  va_list args;
  va_start(args, format);
  (void)vprintf(format, args);
  va_end(args);
  (void)printf("\n");
}

// ---- news on their way

static struct news *post(struct sim *sim, enum news_kind kind, uint32_t worker,
                         uint32_t epoch, int64_t delay_ns) {
  static struct news nowhere;
  if (sim->news_count == NEWS_MAX) return &nowhere;
  struct news *news = &sim->news[sim->news_count++];
  *news = (struct news){.kind = kind,
                        .at_ns = sim->now_ns + delay_ns,
                        .order = sim->order++,
                        .worker = worker,
                        .epoch = epoch};
  return news;
}

static struct news *post_of(struct sim *sim, enum news_kind kind, uint32_t w,
                            uint32_t epoch, int64_t delay_ns, uint32_t stage,
                            uint32_t task, uint32_t attempt) {
  struct news *news = post(sim, kind, w, epoch, delay_ns);
  news->stage = stage;
  news->task = task;
  news->attempt = attempt;
  return news;
}

static int64_t delay(struct sim *sim) {
  return below(sim, 10) == 0 ? (int64_t)below(sim, 500) * MS
                             : (int64_t)below(sim, 3) * MS;
}

// ---- the world

static void kill_worker(struct sim *sim, uint32_t w) {
  struct process *process = &sim->processes[w];
  note(sim, "~ worker %u is killed", w);
  seen_kills++;
  process->alive = 0;
  for (uint32_t s = 0; s < sim->stages; s++) {
    for (uint32_t t = 0; t < PARTS_MAX; t++) {
      for (uint32_t a = 0; a < ATTEMPTS_MAX; a++) {
        struct output *output = &sim->outputs[s][t][a];
        if (output->there && output->worker == w) output->there = 0;
      }
    }
  }
  const int64_t told_ns = delay(sim);
  process->gone = below(sim, 12) == 0;
  if (process->attempt != 0) {
    (void)post_of(sim, NEWS_ENDED, w, process->epoch, told_ns + delay(sim),
                  process->stage, process->task, process->attempt);
    process->attempt = 0;
  }
  // News tells the state at the time it arrives.
  post(sim, NEWS_STATE, w, 0, told_ns);
  process->back_ns = sim->now_ns + delay(sim);
}

static void come_back(struct sim *sim, uint32_t w) {
  struct process *process = &sim->processes[w];
  process->epoch++;
  process->alive = 1;
  post(sim, NEWS_STATE, w, 0, delay(sim));
}

// find_input gives an output as a reader that was told this attempt finds it.
static const struct output *find_input(const struct sim *sim, uint32_t stage,
                                       uint32_t task, uint32_t attempt) {
  const struct output *output = &sim->outputs[stage][task][attempt];
  return output->there ? output : NULL;
}

static void add_rows(struct output *to, const struct output *from) {
  for (size_t i = 0; i < sizeof to->rows; i++)
    to->rows[i] = (uint8_t)(to->rows[i] + from->rows[i]);
}

static const struct mst_plan_task *tasks_of(const struct sim *sim,
                                            uint32_t stage) {
  return mst_plan_stage(&sim->plan, stage)->tasks;
}

static int missing(struct news *miss, uint32_t stage, uint32_t task,
                   uint32_t attempt) {
  *miss =
      (struct news){.in_stage = stage, .in_task = task, .in_attempt = attempt};
  return 0;
}

// make_output does a worker's job for a task: from its base up to its stage. 1, or 0 and the
// missing input.
static int make_output(struct sim *sim, uint32_t w, struct output *out,
                       struct news *miss) {
  const struct process *process = &sim->processes[w];
  const struct mst_plan *plan = &sim->plan;
  uint32_t base;
  memset(out, 0, sizeof *out);
  const int has_base =
      mst_plan_base(plan, process->stage, process->task, w, &base);
  if (has_base) {
    const uint32_t near = tasks_of(sim, base)[process->task].attempt;
    const struct output *input = find_input(sim, base, process->task, near);
    if (input == NULL || input->worker != w)
      return missing(miss, base, process->task, near);
    add_rows(out, input);
  }
  int from_nothing = !has_base;
  for (uint32_t s = process->stage; !has_base || s != base;
       s = mst_plan_stage(plan, s)->near) {
    const struct mst_plan_stage *stage = mst_plan_stage(plan, s);
    if (s == base) from_nothing = stage->far[0] == MST_PLAN_NONE;
    for (int k = 0; k < 2; k++) {
      if (stage->far[k] == MST_PLAN_NONE) continue;
      const uint32_t far = stage->far[k];
      for (uint32_t t = 0; t < mst_plan_stage(plan, far)->count; t++) {
        const uint32_t attempt = tasks_of(sim, far)[t].attempt;
        const struct output *input = find_input(sim, far, t, attempt);
        if (input == NULL) return missing(miss, far, t, attempt);
        add_rows(out, input);
      }
    }
    if (s == base) break;
  }
  if (from_nothing) out->rows[base * PARTS_MAX + process->task]++;
  return 1;
}

// make_here keeps the output of the worker's stage and task. 1, or 0 and the missing input.
static int make_here(struct sim *sim, uint32_t w, uint32_t attempt,
                     struct news *miss) {
  const struct process *process = &sim->processes[w];
  struct output made;
  if (!make_output(sim, w, &made, miss)) return 0;
  made.there = 1;
  made.worker = w;
  made.epoch = process->epoch;
  sim->outputs[process->stage][process->task][attempt] = made;
  return 1;
}

// keep_on_way: what a task has made of earlier stages stays, and is told.
static void keep_on_way(struct sim *sim, uint32_t w) {
  struct process *process = &sim->processes[w];
  const uint32_t stage = process->stage;
  struct news miss;
  for (uint32_t s = 0; s < stage; s++) {
    process->stage = s;
    if (process->noted[s] == 0 || !make_here(sim, w, process->noted[s], &miss))
      continue;
    (void)post_of(sim, NEWS_FOUND, w, process->epoch, delay(sim), s,
                  process->task, process->noted[s]);
  }
  process->stage = stage;
}

// end_run: a worker has finished its task; the news is on its way.
static void end_run(struct sim *sim, uint32_t w) {
  struct process *process = &sim->processes[w];
  struct news miss;
  keep_on_way(sim, w);
  const int ok = make_here(sim, w, process->attempt, &miss);
  if (!ok) seen_missed++;
  const int lies = SIM_CANARY == 4;
  const int copies = below(sim, 8) == 0 ? 2 : 1;
  for (int i = 0; i < copies; i++) {
    struct news *news =
        post_of(sim, ok || lies ? NEWS_DONE : NEWS_MISSED, w, process->epoch,
                delay(sim), process->stage, process->task, process->attempt);
    news->in_stage = miss.in_stage;
    news->in_task = miss.in_task;
    news->in_attempt = miss.in_attempt;
  }
  process->attempt = 0;
}

// ---- the plan's side

static void tell(struct sim *sim, const struct news *news) {
  static const char *const names[] = {"done", "missed", "ended", "state",
                                      "found"};
  struct mst_plan *plan = &sim->plan;
  note(sim, "< %s worker %u epoch %u: %u.%u attempt %u", names[news->kind],
       news->worker, news->epoch, news->stage, news->task, news->attempt);
  switch (news->kind) {
  case NEWS_STATE: {
    const struct process *process = &sim->processes[news->worker];
    if (process->alive) {
      mst_plan_up(plan, news->worker, SIM_CANARY == 2 ? 0 : process->epoch);
    } else {
      if (SIM_CANARY != 2) mst_plan_down(plan, news->worker, process->gone);
    }
    break;
  }
  case NEWS_DONE: {
    const uint32_t epoch =
        SIM_CANARY == 2 ? plan->workers[news->worker].epoch : news->epoch;
    const int is_late =
        mst_plan_done(plan, news->stage, news->task, news->attempt, epoch,
                      sim->now_ns) == MST_PLAN_LATE;
    if (is_late) seen_late++;
    if (is_late && SIM_CANARY == 1) {
      struct mst_plan_task *task =
          &mst_plan_stage(plan, news->stage)->tasks[news->task];
      task->attempt = news->attempt;
    }
    // A late output is dropped where it was made.
    if (is_late) {
      sim->outputs[news->stage][news->task][news->attempt].there = 0;
    }
    break;
  }
  case NEWS_MISSED:
    if (SIM_CANARY == 3) break;
    mst_plan_missed(plan, news->stage, news->task, news->attempt,
                    news->in_stage, news->in_task, news->in_attempt);
    break;
  case NEWS_FOUND:
    if (mst_plan_found(plan, news->stage, news->task, news->attempt,
                       news->worker, news->epoch) == MST_PLAN_COMMITTED) {
      seen_found++;
    } else {
      sim->outputs[news->stage][news->task][news->attempt].there = 0;
    }
    break;
  case NEWS_ENDED:
    mst_plan_ended(plan, news->stage, news->task, news->attempt);
    break;
  }
}

// note_on_way has some of the earlier stages' outputs stay that a task makes.
static void note_on_way(struct sim *sim, uint32_t w) {
  struct process *process = &sim->processes[w];
  struct mst_plan *plan = &sim->plan;
  uint32_t base;
  memset(process->noted, 0, sizeof process->noted);
  const int has_base =
      mst_plan_base(plan, process->stage, process->task, w, &base);
  for (uint32_t s = mst_plan_stage(plan, process->stage)->near;
       s != MST_PLAN_NONE && !(has_base && s == base);
       s = mst_plan_stage(plan, s)->near) {
    const uint32_t made =
        mst_plan_stage(plan, s)->tasks[process->task].attempts;
    if (below(sim, 2) == 0 && made < ATTEMPTS_MAX / 2) {
      const uint32_t sharer = below(sim, 2) == 0 ? w : MST_PLAN_NONE;
      process->noted[s] = mst_plan_note(plan, s, process->task, sharer);
    }
  }
}

// A worker runs a task that it is sent if it is the incarnation that was meant.
static void start(struct sim *sim, const struct mst_plan_action *action) {
  struct process *process = &sim->processes[action->worker];
  note(sim, "> run %u.%u attempt %u at worker %u", action->stage, action->task,
       action->attempt, action->worker);
  if (action->attempt > 1) seen_again++;
  if (action->attempt >= ATTEMPTS_MAX) {
    fail(sim, "a task has %u attempts", action->attempt);
    return;
  }
  const int other = SIM_CANARY != 2 && process->epoch != action->epoch;
  if (!process->alive || other) {
    (void)post_of(sim, NEWS_ENDED, action->worker, action->epoch, delay(sim),
                  action->stage, action->task, action->attempt);
    return;
  }
  process->stage = action->stage;
  process->task = action->task;
  process->attempt = action->attempt;
  note_on_way(sim, action->worker);
  process->end_ns = sim->now_ns + (int64_t)(1 + below(sim, 40)) * MS +
                    (below(sim, 15) == 0 ? (int64_t)below(sim, 5000) * MS : 0);
}

// is_unheard tells whether a worker's state has changed and wasn't reported yet.
static int is_unheard(const struct sim *sim, uint32_t w) {
  if (!sim->processes[w].alive) return 1;
  for (uint32_t i = 0; i < sim->news_count; i++) {
    const struct news *news = &sim->news[i];
    if (news->kind == NEWS_STATE && news->worker == w) return 1;
  }
  return 0;
}

static uint32_t root_of(const struct mst_plan *plan, uint32_t stage) {
  while (stage != MST_PLAN_NONE &&
         mst_plan_stage(plan, stage)->near != MST_PLAN_NONE)
    stage = mst_plan_stage(plan, stage)->near;
  return stage;
}

static void judge(struct sim *sim) {
  const struct mst_plan *plan = &sim->plan;
  for (uint32_t s = 0; s < sim->stages; s++) {
    const struct mst_plan_stage *stage = mst_plan_stage(plan, s);
    for (uint32_t t = 0; stage->wanted && t < stage->count; t++) {
      const struct mst_plan_task *task = &stage->tasks[t];
      const struct output *output = &sim->outputs[s][t][task->attempt];
      if (is_unheard(sim, task->worker)) continue;
      if (!output->there) {
        fail(sim, "output %u.%u isn't where the plan says", s, t);
        return;
      }
      for (size_t i = 0; i < sizeof output->rows; i++) {
        if (output->rows[i] > 1) {
          fail(sim, "a row is %u times in output %u.%u", output->rows[i], s, t);
        }
      }
      // A gathered part has all rows of all parts of the stages that it reads.
      const uint32_t root = root_of(plan, s);
      for (int k = 0; k < 2; k++) {
        const uint32_t from = root_of(plan, mst_plan_stage(plan, root)->far[k]);
        if (from == MST_PLAN_NONE ||
            mst_plan_stage(plan, from)->far[0] != MST_PLAN_NONE)
          continue;
        for (uint32_t p = 0; p < mst_plan_stage(plan, from)->count; p++) {
          if (output->rows[from * PARTS_MAX + p] != 1) {
            fail(sim, "output %u.%u lacks rows of %u.%u", s, t, from, p);
          }
        }
      }
    }
  }
}

// order_stage has a stage's tasks started in some random order.
static void order_stage(struct sim *sim, uint32_t stage, uint32_t count) {
  uint32_t order[PARTS_MAX] = {0};
  for (uint32_t k = 0; k < count; k++) {
    const uint32_t at = (uint32_t)below(sim, k + 1);
    order[k] = order[at];
    order[at] = k;
  }
  if (mst_plan_order(&sim->plan, stage, order, count) != 0) {
    fail(sim, "the plan refuses an order");
  }
}

// Chains of source, map, split, gather; or two sources and a gather of both (a join).
static void make_stages(struct sim *sim) {
  const uint32_t no[2] = {MST_PLAN_NONE, MST_PLAN_NONE};
  const int speculate = below(sim, 4) != 0;
  const uint32_t maps = 1 + (uint32_t)below(sim, PARTS_MAX);
  const uint32_t parts = 1 + (uint32_t)below(sim, PARTS_MAX);
  struct mst_plan *plan = &sim->plan;
  uint32_t stage, source, split;
  (void)mst_plan_add(plan, maps, MST_PLAN_NONE, no, speculate, &source);
  (void)mst_plan_add(plan, maps, source, no, speculate, &split);
  if (below(sim, 2) == 0) {
    const uint32_t far[2] = {split, MST_PLAN_NONE};
    (void)mst_plan_add(plan, parts, MST_PLAN_NONE, far, speculate, &stage);
    if (below(sim, 2) == 0) {
      (void)mst_plan_add(plan, parts, stage, no, speculate, &stage);
    }
  } else {
    const uint32_t more = 1 + (uint32_t)below(sim, PARTS_MAX);
    (void)mst_plan_add(plan, more, MST_PLAN_NONE, no, speculate, &stage);
    const uint32_t far[2] = {split, stage};
    (void)mst_plan_add(plan, parts, MST_PLAN_NONE, far, speculate, &stage);
  }
  sim->stages = plan->stage_count;
  if (below(sim, 2) == 0) order_stage(sim, stage, parts);
  mst_plan_want(plan, stage);
  for (uint32_t s = 0; s < stage; s++) {
    if (below(sim, 3) == 0) mst_plan_want(plan, s);
  }
}

// next_news takes the earliest news: 1, or 0 if nothing happens before `limit_ns`.
static int next_news(struct sim *sim, int64_t limit_ns, struct news *news) {
  uint32_t first = NEWS_MAX;
  for (uint32_t i = 0; i < sim->news_count; i++) {
    const struct news *one = &sim->news[i];
    if (one->at_ns > limit_ns) continue;
    if (first == NEWS_MAX || one->at_ns < sim->news[first].at_ns ||
        (one->at_ns == sim->news[first].at_ns &&
         one->order < sim->news[first].order)) {
      first = i;
    }
  }
  if (first == NEWS_MAX) return 0;
  *news = sim->news[first];
  sim->news[first] = sim->news[--sim->news_count];
  return 1;
}

static void check(struct sim *sim) {
  const char *wrong = mst_plan_check(&sim->plan);
  if (wrong != NULL) fail(sim, "%s", wrong);
}

// act carries out the plan's actions; 1 when it is finished.
static int act(struct sim *sim) {
  struct mst_plan_action action;
  while (!sim->failed && mst_plan_next(&sim->plan, sim->now_ns, &action)) {
    check(sim);
    switch (action.kind) {
    case MST_PLAN_RUN:
      start(sim, &action);
      break;
    case MST_PLAN_CANCEL: {
      struct process *process = &sim->processes[action.worker];
      note(sim, "> cancel %u.%u attempt %u", action.stage, action.task,
           action.attempt);
      if (process->attempt == action.attempt &&
          process->stage == action.stage && process->task == action.task) {
        process->attempt = 0;
      }
      sim->outputs[action.stage][action.task][action.attempt].there = 0;
      break;
    }
    case MST_PLAN_FAIL:
      seen_failed++;
      return 1;
    case MST_PLAN_FINISHED:
      judge(sim);
      seen_finished++;
      return 1;
    }
  }
  return sim->failed;
}

static void step(struct sim *sim) {
  struct news news;
  sim->now_ns += MS;
  for (uint32_t w = 0; w < sim->workers; w++) {
    struct process *process = &sim->processes[w];
    if (!process->alive && !process->gone && process->back_ns <= sim->now_ns) {
      come_back(sim, w);
    }
    if (process->alive && sim->kills_left > 0 && below(sim, 60) == 0) {
      sim->kills_left--;
      kill_worker(sim, w);
    }
    if (process->attempt != 0 && process->end_ns <= sim->now_ns) {
      end_run(sim, w);
    }
  }
  while (!sim->failed && next_news(sim, sim->now_ns, &news)) {
    tell(sim, &news);
    check(sim);
  }
}

static int run_seed(uint64_t seed, int logging) {
  static struct sim sim;
  memset(&sim, 0, sizeof sim);
  sim.seed = sim.random = seed;
  sim.logging = logging;
  sim.workers = 1 + (uint32_t)below(&sim, WORKERS_MAX);
  sim.kills_left = (uint32_t)below(&sim, 5);
  if (mst_plan_init(&sim.plan, sim.workers) != 0) return 0;
  for (uint32_t w = 0; w < sim.workers; w++) {
    sim.processes[w].alive = 1;
    mst_plan_up(&sim.plan, w, 0);
  }
  make_stages(&sim);
  uint32_t steps = 0;
  // After its end the stages are wanted again, with what was lost meanwhile.
  for (int round = 0; round < 2 && !sim.failed; round++) {
    while (!act(&sim) && steps++ < STEPS_MAX)
      step(&sim);
    if (steps >= STEPS_MAX) fail(&sim, "it has no end");
    for (int i = 0; i < 600; i++)
      step(&sim);
  }
  seen_copies += sim.plan.speculated;
  mst_plan_free(&sim.plan);
  return sim.failed;
}

int main(int argc, char **argv) {
  uint64_t first = 1, runs = 1000, failures = 0;
  int logging = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--log") == 0) logging = 1;
    if (i + 1 == argc) break;
    const uint64_t number = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--runs") == 0) runs = number;
    if (strcmp(argv[i], "--first") == 0) first = number;
    if (strcmp(argv[i], "--seed") == 0) {
      first = number;
      runs = 1;
    }
  }
  for (uint64_t seed = first; seed < first + runs && failures < 5; seed++)
    failures += (uint64_t)run_seed(seed, logging);
  (void)printf("sim: shuffle: %" PRIu64 " runs, %" PRIu64 " failed (%" PRIu64
               " kills, %" PRIu64 " missed, %" PRIu64 " late, %" PRIu64
               " copies, %" PRIu64 " attempts again, %" PRIu64
               " given up, %" PRIu64 " found, %" PRIu64 " finished)\n",
               runs, failures, seen_kills, seen_missed, seen_late, seen_copies,
               seen_again, seen_failed, seen_found, seen_finished);
  const int judged = failures == 0 && runs >= 1000;
  const int unseen =
      judged && (seen_kills == 0 || seen_missed == 0 || seen_late == 0 ||
                 seen_copies == 0 || seen_again == 0 || seen_failed == 0 ||
                 seen_found == 0);
  if (unseen) (void)printf("sim: shuffle: something never happened\n");
  (void)printf("sim: shuffle: %d passed, %d failed, 0 skipped\n",
               (failures == 0) + (judged && !unseen), (failures > 0) + unseen);
  return failures > 0 || unseen;
}
