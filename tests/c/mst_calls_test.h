// A core of calls under test: one fact in, the exact list of actions out.
#ifndef MST_CALLS_TEST_H
#define MST_CALLS_TEST_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_err.h"
#include "mst_test.h"
#include "pool/calls.h"

#define MS MST_NS_PER_MS

// Each test runs in a process of its own, so these start as zero.
static struct mst_calls calls;
static struct mst_counts counts;
static struct mst_blob *payload;
static struct mst_judged judged; // what JUDGE finds
static int64_t now_ns;
static int exec_rc;               // of the next EXEC
static enum mst_do unsent;        // what can't be sent, with exec_rc
static struct mst_call *tasks[8]; // references
static uint32_t task_count;
static const char caller, other_caller;

static inline void check_calls(void) {
  const char *broken = mst_calls_check(&calls);
  CHECK_TEXT(broken == NULL ? "" : broken, "");
}

static inline const char *action_name(enum mst_do kind) {
  static const char *const names[] = {[MST_DO_LAUNCH] = "LAUNCH",
                                      [MST_DO_BYE] = "BYE",
                                      [MST_DO_KILL] = "KILL",
                                      [MST_DO_STARTED] = "STARTED",
                                      [MST_DO_START_FAILED] = "START_FAILED",
                                      [MST_DO_STOPPED] = "STOPPED",
                                      [MST_DO_CLOSE] = "CLOSE",
                                      [MST_DO_JUDGE] = "JUDGE",
                                      [MST_DO_BREAK] = "BREAK",
                                      [MST_DO_SEED] = "SEED",
                                      [MST_DO_JOB] = "JOB",
                                      [MST_DO_EXEC] = "EXEC",
                                      [MST_DO_CHECKPOINT] = "CHECKPOINT",
                                      [MST_DO_FORGET] = "FORGET",
                                      [MST_DO_DROP] = "DROP",
                                      [MST_DO_TRIM] = "TRIM",
                                      [MST_DO_CANCEL] = "CANCEL",
                                      [MST_DO_PING] = "PING",
                                      [MST_DO_WITHDRAW] = "WITHDRAW",
                                      [MST_DO_TELL] = "TELL"};
  return names[kind];
}

// describe writes an action down, as in "EXEC 0 #2 again 1": worker, call, attempt.
static inline int describe(char *text, size_t size,
                           const struct mst_action *action) {
  const char *name = action_name(action->kind);
  switch (action->kind) {
  case MST_DO_STARTED:
  case MST_DO_START_FAILED:
  case MST_DO_STOPPED:
    return snprintf(text, size, "%s", name);
  case MST_DO_EXEC:
    return snprintf(text, size, "%s%s %u #%u%s",
                    (action->flags & MST_FLAG_REPLAY) != 0 ? "RE" : "", name,
                    action->worker, (unsigned)action->id,
                    action->attempt > 0 ? " again" : "");
  case MST_DO_JOB:
  case MST_DO_DROP:
  case MST_DO_CANCEL:
  case MST_DO_WITHDRAW:
    return snprintf(text, size, "%s %u #%u", name, action->worker,
                    (unsigned)action->id);
  default:
    return snprintf(text, size, "%s %u", name, action->worker);
  }
}

static inline void carry_out(const struct mst_action *action) {
  if (exec_rc != 0 && action->kind == unsent) {
    const int rc = exec_rc;
    exec_rc = 0;
    (void)mst_calls_unsent(&calls, action->worker, action->kind, rc, now_ns);
  } else if (action->kind == MST_DO_EXEC) {
    mst_calls_sent(&calls, action->worker, now_ns);
  } else if (action->kind == MST_DO_JUDGE) {
    mst_calls_judged(&calls, action->worker, &judged, now_ns);
    judged = (struct mst_judged){0};
  } else if (action->kind == MST_DO_TELL) {
    mst_loss_free(action->loss);
  }
}

// taken carries out all actions and writes them down.
static inline const char *taken(void) {
  static char text[2000];
  struct mst_action action;
  size_t len = 0;
  text[0] = '\0';
  while (mst_calls_next_action(&calls, &action, now_ns) == 1) {
    check_calls();
    if (len > 0) len += (size_t)snprintf(text + len, sizeof text - len, ", ");
    len += (size_t)describe(text + len, sizeof text - len, &action);
    CHECK(len < sizeof text - 100);
    carry_out(&action);
    check_calls();
  }
  return text;
}
#define EXPECT(want) CHECK_TEXT(taken(), want)

static inline void fact(enum mst_event_kind kind, uint32_t worker, uint32_t how,
                        int32_t number) {
  const struct mst_event event = {
      .kind = kind, .worker = worker, .how = how, .number = number};
  mst_calls_event(&calls, &event, now_ns);
  check_calls();
}

static inline void tick(int64_t after_ns) {
  now_ns += after_ns;
  mst_calls_tick(&calls, 0, now_ns);
  check_calls();
}

static inline void come_up(uint32_t worker) {
  fact(MST_EV_FORKED, worker, 0, 100 + (int32_t)worker);
  fact(MST_EV_READY, worker, 0, 0);
}

// die: both signs of a worker's end by SIGKILL; lose_one: and what follows, until the next
// incarnation is launched.
static inline void die(uint32_t worker) {
  fact(MST_EV_EXITED, worker, MST_EXIT_SIGNAL, SIGKILL);
  fact(MST_EV_CLOSED, worker, 0, 0);
}

static inline void lose_one(uint32_t worker) {
  char want[100];
  die(worker);
  (void)snprintf(want, sizeof want, "JUDGE %u, TELL %u, LAUNCH %u", worker,
                 worker, worker);
  EXPECT(want);
}

// begin_calls starts a cluster that heals, each call with one retry.
static inline void begin_in_window(uint32_t workers, uint32_t need,
                                   uint32_t window) {
  memset(&calls, 0xA5, sizeof calls); // init must not trust what it finds
  CHECK_INT(mst_calls_init(&calls, workers, window), 0);
  calls.tally.counts = &counts;
  calls.policy = (struct mst_heal_policy){.on = 1,
                                          .retries = 1,
                                          .heartbeat_ns = INT64_MAX,
                                          .replay_max_ns = INT64_MAX};
  payload = mst_blob_new();
  now_ns = MST_NS_PER_S;
  mst_calls_begin(&calls, now_ns, INT64_MAX, need);
  (void)taken();
}

static inline void begin_calls(uint32_t workers, uint32_t need) {
  begin_in_window(workers, need, workers);
}

// run_calls starts one whose workers are all ready.
static inline void run_calls(uint32_t workers) {
  begin_calls(workers, workers);
  for (uint32_t i = 0; i < workers; i++)
    come_up(i);
  EXPECT("STARTED");
}

static inline void ask(uint32_t worker) {
  CHECK_INT(mst_calls_send(&calls, worker, payload, &caller, 0, MST_UNSEEN_NOT,
                           now_ns),
            0);
  check_calls();
}

static inline struct mst_call *submit_with(struct mst_task_terms terms,
                                           const uint32_t *workers,
                                           uint32_t count) {
  struct mst_call *task =
      mst_calls_submit(&calls, payload, workers, count, &terms, now_ns);
  CHECK(task != NULL && task_count < 8);
  tasks[task_count++] = task;
  check_calls();
  return task;
}

// submit gives the pool a task, submit_to one for a certain worker.
static inline struct mst_call *submit(void) {
  return submit_with((struct mst_task_terms){.retries = -1}, NULL, 0);
}

static inline struct mst_call *submit_to(uint32_t worker) {
  return submit_with((struct mst_task_terms){.retries = -1}, &worker, 1);
}

static inline struct mst_call *submit_alone(uint32_t worker) {
  return submit_with((struct mst_task_terms){.retries = -1, .alone = 1},
                     &worker, 1);
}

static inline void trimmed(uint32_t worker) {
  mst_calls_trimmed(&calls, worker, now_ns);
  check_calls();
}

static inline void answer_as(uint32_t worker, uint64_t call, uint16_t flags) {
  struct mst_answered answered = {.call = call, .flags = flags};
  mst_calls_answered(&calls, worker, &answered, now_ns);
  check_calls();
}

static inline void answer(uint32_t worker, uint64_t call) {
  answer_as(worker, call, 0);
}

// answer_with a value of so many bytes.
static inline void answer_with(uint32_t worker, uint64_t call, size_t bytes) {
  struct mst_answered answered = {.call = call, .value_bytes = bytes};
  CHECK_INT(mst_buf_reserve(&answered.bytes, bytes), 0);
  answered.bytes.len = bytes;
  answered.value = memset(answered.bytes.data, 7, bytes);
  mst_calls_answered(&calls, worker, &answered, now_ns);
  check_calls();
}

// take takes a verb's oldest answer of a worker and tells its state.
static inline enum mst_call_state take(uint32_t worker) {
  struct mst_call *at =
      mst_mailbox_answer(&calls.pool.workers[worker]->mailbox, &caller);
  CHECK(at != NULL);
  const enum mst_call_state state = (enum mst_call_state)at->state;
  mst_mailbox_take(at->mailbox, at);
  mst_call_release(at);
  check_calls();
  return state;
}

// told: a worker answers a call, and the verb takes the answer.
static inline void told(uint32_t worker, uint64_t call, uint16_t flags) {
  answer_as(worker, call, flags);
  CHECK_INT(take(worker), MST_CALL_DONE);
}

// finish closes the cluster, after which nobody holds anything of it.
static inline void finish(void) {
  EXPECT("");
  mst_calls_free(&calls);
  for (uint32_t i = 0; i < task_count; i++) {
    CHECK(mst_call_is_done(tasks[i]) && tasks[i]->tally == NULL);
    mst_call_release(tasks[i]);
  }
  CHECK_INT(payload->refs, 1);
  CHECK_INT(counts.tasks, counts.tasks_done);
  mst_blob_release(payload);
}

#endif
