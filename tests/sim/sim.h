// sim: a deterministic simulation of one pool under a virtual clock.
//
// The pool's state machine (src/pool/state.c) is pure, so a cluster's whole life is a sequence of
// events with times. One seed draws a plan (how many workers, what goes wrong how often); a virtual
// world of processes and a fork server plays it; a monitor, which keeps its own book of what the
// pool was told, judges every action. Nothing reads the real clock; the same seed gives the same
// bytes.
//
// Between the pool and the world is the unchanged core of calls (src/pool/calls*.c, queue.c,
// journal.c, job.c, heal.c): session.c gives it facts and carries out its actions. The monitor and
// the ledger intercept the core's calls to the pool and to heal.c at link time (watch.c, --wrap),
// so the core contains nothing for them.
//
//   main.c     arguments, the loop of one run, the verdict
//   agenda.c   what happens when: a heap of entries; random numbers
//   plan.c     what a seed draws
//   world.c    processes, fork server, the user
//   hosts.c    where workers are launched: hosts that come late, fail, end, and are left
//   noise.c    events that are meaningless when they come
//   session.c  facts in and actions out: peer.c and session.c without sockets
//   watch.c    intercepts the calls between the core and the pool
//   ledger.c   how each call must end, and which silence is a loss
//   monitor.c  what the pool may and must do, from the events alone: books
//   limits.c   the same for time, and whether the pool's notes agree with the books
//   judge.c    whether the pool's actions agree with the books
//   canary.h   deliberate bugs, which the simulation must find
#ifndef MST_SIM_H
#define MST_SIM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/calls.h"

#define SIM_WORKERS_MAX 40u
#define SIM_CALLS_MAX 48u
#define SIM_SITES_MAX 3u
#define SIM_NEVER INT64_MAX
#define SIM_LAUNCH_ERRNO 11 // of all failing launches

// --- Random numbers ---

struct sim_rng {
  uint64_t state;
};
uint64_t sim_random(struct sim_rng *rng);
// sim_below gives 0 .. n - 1; n must not be 0.
uint32_t sim_below(struct sim_rng *rng, uint32_t n);
// sim_chance is true in permille of 1000 cases.
int sim_chance(struct sim_rng *rng, uint32_t permille);
// sim_between gives low_ns .. high_ns - 1.
int64_t sim_between(struct sim_rng *rng, int64_t low_ns, int64_t high_ns);

// --- The agenda ---

enum sim_what {
  SIM_NEWS = 1,    // an event reaches the session
  SIM_NOISE,       // an event that the pool must ignore reaches the session
  SIM_FORK,        // the fork server handles a launch
  SIM_READY,       // a worker is set up
  SIM_FAIL_SETUP,  // a worker's set-up fails
  SIM_DIE,         // a process ends; how and number say how
  SIM_WEDGE,       // a process closes its channel and lives on
  SIM_CALL_DONE,   // a worker has finished a call
  SIM_HANG,        // a process is stopped (SIGSTOP): it lives, but does nothing
  SIM_WAKE,        // it continues
  SIM_PONG,        // a worker's sign of life reaches the session
  SIM_HEAR,        // a worker is asked not to begin a call
  SIM_WITHDRAWN,   // the session hears that it won't
  SIM_SEND,        // the user sends a call
  SIM_FORGET,      // the user wants no more answers from a worker
  SIM_RETIRE,      // the user stops one worker
  SIM_END,         // the user kills one worker for good
  SIM_GROW,        // the user adds workers
  SIM_STOP,        // the user stops the pool
  SIM_DRAIN,       // the user lets one worker finish and end
  SIM_RETURN,      // the user wants a worker back that has left
  SIM_DEQUEUE,     // a launch has waited in its queue
  SIM_HOST,        // something happens to a host
  SIM_TEND,        // the session does what sites need
  SIM_LISTEN,      // the session checks signs of life
  SIM_SLEEP,       // the session does nothing for a while, and reads nothing
  SIM_CANCEL,      // the user cancels a task
  SIM_INTERRUPTED, // the end of a grace after an interrupt
  SIM_ODD          // a noise event, drawn when it is played
};

struct sim_entry {
  int64_t at_ns;
  uint64_t order; // entries with equal times come in order of creation
  enum sim_what what;
  struct mst_event event; // all kinds use worker, how and number
  uint32_t epoch;         // of the process that causes it
  // ANSWERED: its id, 0: replayed; GROW: how many; HEAR, WITHDRAWN: its id, and in
  // event.number that in its mailbox
  uint64_t call;
};

struct sim_agenda {
  struct sim_entry *entries; // binary heap, owned
  size_t count;
  size_t cap;
  uint64_t made;
};
// sim_agenda_put fills in the order.
void sim_agenda_put(struct sim_agenda *agenda, struct sim_entry entry);
int sim_agenda_take(struct sim_agenda *agenda, struct sim_entry *entry);
int64_t sim_agenda_next_ns(const struct sim_agenda *agenda);
void sim_agenda_free(struct sim_agenda *agenda);

// --- The world: the truth, known to the session or not ---

struct sim_boot { // chances of a launch, in permille
  uint32_t launch_fail;
  uint32_t launch_unheard;
  uint32_t setup_fail;
  uint32_t die_booting;
  uint32_t hang_booting;
};

struct sim_plan {
  uint32_t count; // grows with the pool
  uint32_t window;
  uint32_t need;            // workers that the start needs
  uint32_t queue;           // launches that wait in a queue, in permille
  uint32_t drains, returns; // counts, like retires
  int64_t deadline_ns;      // after the start; SIM_NEVER: none
  int64_t stop_ns;          // after the start
  int64_t server_stuck_ns;  // when the fork server gets stuck
  uint32_t calls;           // that the user sends
  uint32_t retires;         // workers that the user stops one by one
  struct mst_heal_policy policy;
  uint32_t changes;      // calls that change their worker, in permille
  uint32_t tasks;        // calls that are tasks
  uint32_t cancels;      // of these, cancelled by the user
  uint32_t deaf;         // interrupts that have no effect
  int64_t timeout_ns;    // of one call; SIM_NEVER: no limit
  struct sim_boot first; // of first incarnations
  struct sim_boot later; // of later incarnations
  uint32_t slow_boot;    // chances, in permille
  uint32_t slow_mend;
  uint32_t die_replaying;
  uint32_t hang;
  uint32_t die_idle;
  uint32_t wedge;
  uint32_t die_busy;
  uint32_t die_answering; // right after an answer
  uint32_t held;          // the channel outlives the process
  uint32_t unreaped;      // the end is never reported
  uint32_t unkillable;
  uint32_t bye_ignored;
  uint32_t bye_late;
  uint32_t slow_news;
  uint32_t reorder;
  uint32_t repeat;
  uint32_t sites;           // on how many sites workers are launched
  uint32_t far;             // chances, in permille: of a site on another host
  uint32_t host_fails;      // of a host, or a fork server, that won't come
  uint32_t host_ends;       // of one that ends, or is told to
  uint32_t slow_hosts;      // of one that takes long
  uint32_t host_interrupts; // of a thing to do that the user interrupts
  uint32_t odd;             // number of odd events
  uint32_t lazy;            // chance that actions stay in the queue
  uint32_t late;            // chance that a TICK comes late
};

// A site's host: of its present link.
enum sim_host_is {
  SIM_HOST_NONE,
  SIM_HOST_STARTS,
  SIM_HOST_THERE,
  SIM_HOST_ENDED
};
enum sim_server_is {
  SIM_SERVER_NONE,
  SIM_SERVER_BOOTS,
  SIM_SERVER_READY,
  SIM_SERVER_GONE
};
enum sim_host_does {
  SIM_DOES_RUN = 1, // its command waits no more in a queue
  SIM_DOES_COME,
  SIM_DOES_END,
  SIM_DOES_LEAVE, // it is told to end
  SIM_DOES_BOOT,  // its fork server has booted, or has failed to
  SIM_DOES_FAIL
};
struct sim_host {
  uint32_t link;
  enum sim_host_is is;
  enum sim_server_is server;
  int pends;
  int leaves;
  int boots;        // the site waits for its server
  int64_t limit_ns; // when it ends
};

struct sim_process {
  uint32_t epoch;
  int forked;
  int alive;
  int hung;
  int64_t wake_ns; // when hung
  int channel;     // its end of the data channel is open
  int held;        // drawn at the fork, like the next three
  int unreaped;
  int unkillable;
  int bye_ignored;
  int bye;       // BYE was sent to it
  int in_queue;  // its launch is in a queue
  int withdrawn; // and was to be taken out of it
  int computing;
  uint64_t in[2 * SIM_CALLS_MAX]; // ids of calls that it was sent,
  uint32_t in_first;              // 0: replayed
  uint32_t in_count;
  int64_t data_ns; // time of the last news on its data channel
};

// --- The ledger: what became of each call ---

enum sim_outcome {
  SIM_PENDING = 0,
  SIM_VALUE,
  SIM_POISON,
  SIM_GIVEN_UP, // with its worker
  SIM_TIMED_OUT,
  SIM_FORGOTTEN
};

struct sim_call {
  uint32_t worker;       // for a task: the last that had it
  struct mst_call *task; // a reference, NULL for a verb's call
  uint64_t wire;         // its id in its worker's mailbox
  int changes;           // its worker's state
  enum sim_outcome outcome;
  int sent;        // to the current incarnation
  int began;       // that incarnation has started to evaluate it
  uint32_t blamed; // losses that it was blamed for
  // Evaluations that ended by an answer or by a loss it was blamed for, or that go on.
  uint32_t attempts;
};

// Deaths of a worker without a call to blame, since its last answer.
#define SIM_DEATHS_KEPT 64u
struct sim_deaths {
  int64_t at_ns[SIM_DEATHS_KEPT];
  uint32_t count;
  uint32_t row; // in a row
};

// --- The monitor: what the pool was told, and its consequences ---

struct sim_book {
  uint32_t epoch;
  // told
  int launched;
  int pid; // FORKED came
  int ready;
  int closed;
  int ended;    // EXITED or LAUNCH_FAILED came
  uint32_t how; // of the first EXITED
  int32_t number;
  int32_t launch_errno; // of the last failed launch
  int32_t pid_number;
  uint32_t owed;
  uint64_t done;
  // follows
  int lost;          // a sign of its end came while the pool ran
  int lost_due;      // LOST must be given
  int again;         // it must be launched again
  int joined_due;    // JOINED must be given
  int queued;        // PENDING came
  int drained;       // it must finish and end
  int left;          // and did
  int joined_moot;   // it has calls already, so JOINED may be dropped
  int bye_due;       // it must end, by a stop or alone
  int unasked;       // likewise, but it isn't ready: killed without BYE
  int restarted_due; // RESTARTED must be given
  int kill_due;      // its process must be killed
  int given_up;
  int64_t limit_ns; // start of its boot limit; SIM_NEVER: none
  int64_t lost_ns;
  int presumed; // it counted as lost before any sign of its end
  int64_t bye_ns;
  int64_t kill_ns; // when it had to be killed
  // done
  int lost_given;
  int bye_given;
  int kill_given;
  int restarted_given;
  int joined_given;
};

struct sim {
  uint64_t seed;
  struct sim_rng rng;
  struct sim_plan plan;
  struct sim_agenda agenda;
  struct sim_process processes[SIM_WORKERS_MAX];
  struct sim_host hosts[SIM_SITES_MAX];
  struct mst_counts counts;
  struct mst_calls core;
  struct mst_blob *payload;
  int64_t listened_ns;
  int64_t awake_ns;                     // the session sleeps until then
  int64_t asleep_ns;                    // total sleep
  struct sim_call calls[SIM_CALLS_MAX]; // call id - 1
  uint32_t call_count;
  struct sim_deaths deaths[SIM_WORKERS_MAX];
  int64_t heard_ns[SIM_WORKERS_MAX]; // last sign of life
  int64_t looked_ns;                 // when signs of life were last checked
  int64_t woke_ns;                   // since when the session has listened
  int64_t server_ns; // time of the last news on the fork server's channel
  struct sim_book books[SIM_WORKERS_MAX];
  int64_t start_ns;
  int64_t deadline_ns;
  int64_t now_ns;
  int64_t event_ns;      // of the last event given to the pool
  int64_t down_began_ns; // start of a stop or take-down
  int runs;              // as many workers as needed were ready
  int failing;
  int stopping;
  int down_due;
  int started_given;
  int down_given;
  uint32_t gone; // workers lost during the start
  uint32_t ready;
  enum mst_fail fail;
  uint32_t fail_worker;
  uint64_t step;
  uint64_t hash; // of all input and output
  int logging;
  int carrying_out;
  int noise;
  int failed;
};

// What a large number of runs must have seen at least once each: otherwise the simulation has
// become blind.
// clang-format off
#define SIM_SIGHTS(SIGHT)                                                      \
  SIGHT(started) SIGHT(stopped) SIGHT(fail_launch) SIGHT(fail_setup)           \
  SIGHT(fail_exited) SIGHT(fail_deadline) SIGHT(fail_stopped)                  \
  SIGHT(ready_before_forked) SIGHT(exited_before_forked)                       \
  SIGHT(forked_when_given_up) SIGHT(kill_awaited_pid)                          \
  SIGHT(setup_told_after_end) SIGHT(launch_told_after_end)                     \
  SIGHT(words_never_came) SIGHT(lost_closed_first) SIGHT(lost_exited_first)    \
  SIGHT(lost_half_told) SIGHT(lost_said_by_stop) SIGHT(wedged_killed)          \
  SIGHT(answer_after_exit) SIGHT(finished_in_stop) SIGHT(busy_killed)          \
  SIGHT(hung_killed) SIGHT(ended_by_itself_in_stop) SIGHT(given_up_in_run)     \
  SIGHT(retired) SIGHT(stop_finds_retired) SIGHT(retired_given_up_in_run)      \
  SIGHT(given_up_going_down) SIGHT(action_dropped) SIGHT(stop_again)           \
  SIGHT(noise) SIGHT(restarted) SIGHT(restarted_often)                         \
  SIGHT(restart_launch_failed) SIGHT(restart_setup_failed)                     \
  SIGHT(restart_died_booting) SIGHT(restart_too_slow)                          \
  SIGHT(restart_waited_for_window) SIGHT(restart_left_unreaped)                \
  SIGHT(stop_finds_waiting) SIGHT(stop_finds_restarting)                       \
  SIGHT(retire_finds_waiting) SIGHT(retire_finds_restarting)                   \
  SIGHT(stop_before_mend) SIGHT(died_replaying) SIGHT(grown) SIGHT(ghost)      \
  SIGHT(old_news) SIGHT(answered) SIGHT(answered_after_retry) SIGHT(poison)    \
  SIGHT(poison_after_retries) SIGHT(retried_behind_poison) SIGHT(budget_spent) \
  SIGHT(left) SIGHT(answer_to_forgotten) SIGHT(forgotten_while_lost)           \
  SIGHT(forgotten_while_sent) SIGHT(sent_while_lost) SIGHT(silent)             \
  SIGHT(silent_hung) SIGHT(woke_in_time) SIGHT(slept_through_silence)          \
  SIGHT(ended_by_user) SIGHT(ended_while_waiting) SIGHT(blamed_for_another)    \
  SIGHT(launched_later) SIGHT(short_given_up) SIGHT(revived)                   \
  SIGHT(task_answered) SIGHT(task_poison) SIGHT(task_lost)                     \
  SIGHT(cancelled_queued) SIGHT(cancelled_given) SIGHT(interrupted)            \
  SIGHT(ended_by_watch) SIGHT(timed_out) SIGHT(replayed) SIGHT(pinned)         \
  SIGHT(began_partly) SIGHT(lost_before_started) SIGHT(joined)                 \
  SIGHT(late_died_booting) SIGHT(late_too_slow) SIGHT(ended_unlaunched)        \
  SIGHT(pending) SIGHT(forked_from_queue) SIGHT(withdrawn)                     \
  SIGHT(withdrawn_late) SIGHT(stop_finds_pending) SIGHT(drained_idle)          \
  SIGHT(drained_busy) SIGHT(drained_booting) SIGHT(finished_in_drain)          \
  SIGHT(left_drained) SIGHT(left_for_lost) SIGHT(left_comes_back)              \
  SIGHT(drained_and_lost) SIGHT(undrained) SIGHT(sent_before_joined)           \
  SIGHT(withdrawn_task) SIGHT(withdrawn_too_late) SIGHT(withdrawn_late_news)   \
  SIGHT(host_asked) SIGHT(host_joined) SIGHT(host_pending) SIGHT(host_late)    \
  SIGHT(host_ended) SIGHT(host_leaves) SIGHT(host_limit) SIGHT(host_sleeps)    \
  SIGHT(server_replaced) SIGHT(site_again) SIGHT(site_lost) SIGHT(site_error)  \
  SIGHT(site_retried) SIGHT(worker_waits)
// clang-format on

#define SIM_SIGHT_NAME(name) SIM_SAW_##name,
enum sim_sight { SIM_SIGHTS(SIM_SIGHT_NAME) SIM_SIGHT_COUNT };
void sim_saw(enum sim_sight sight);

// sim_fail records the first thing wrong in a run, and prints it with the command that replays the
// run.
void sim_fail(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// sim_deliver gives the core one fact. noise: the pool must ignore it.
void sim_deliver(struct sim *sim, struct mst_event event, int noise);
// sim_stepped checks the core after a step, and carries out its actions.
void sim_stepped(struct sim *sim);
// sim_tick lets time pass for the core.
void sim_tick(struct sim *sim);
// sim_running gives the current run.
struct sim *sim_running(void);
void sim_log_event(struct sim *sim, const struct mst_event *event, int noise);
void sim_log_action(struct sim *sim, const struct mst_action *action);

void sim_plan_draw(struct sim_rng *rng, struct sim_plan *plan);
void sim_world_begin(struct sim *sim);
void sim_world_entry(struct sim *sim, const struct sim_entry *entry);
void sim_world_launch(struct sim *sim, uint32_t worker);
void sim_world_bye(struct sim *sim, uint32_t worker);
void sim_world_kill(struct sim *sim, uint32_t worker);
// sim_world_withdraw takes launches that must end out of their queue.
void sim_world_withdraw(struct sim *sim);
// sim_world_receive delivers a call, sim_world_ping a request for a sign of life.
void sim_world_receive(struct sim *sim, uint32_t worker, uint64_t call);
void sim_world_ping(struct sim *sim, uint32_t worker);
// sim_world_noise gives the pool a meaningless event (noise.c).
void sim_world_noise(struct sim *sim);
// sim_world_interrupt tells a worker that a call isn't wanted; sim_world_break ends its data
// channel.
void sim_world_interrupt(struct sim *sim, uint32_t worker, uint64_t call);
void sim_world_break(struct sim *sim, uint32_t worker);
// sim_world_ask asks a worker not to begin a call, which has this id in its mailbox.
void sim_world_ask(struct sim *sim, uint32_t worker, uint64_t call,
                   uint64_t wire);

// sim_world_lose: a worker's process is lost with its host.
void sim_world_lose(struct sim *sim, uint32_t worker);

// Hosts. sim_hosts_begin makes the sites; sim_hosts_tend does what they need; sim_hosts_look has
// workers do as they say. sim_host_launches tells whether a worker can be launched now.
// sim_host_needed: it can't come back. sim_host_lose_server: its fork server ends.
void sim_hosts_begin(struct sim *sim);
void sim_hosts_tend(struct sim *sim);
void sim_hosts_look(struct sim *sim);
void sim_host_entry(struct sim *sim, const struct sim_entry *entry);
int sim_host_launches(const struct sim *sim, uint32_t worker);
void sim_host_needed(struct sim *sim, uint32_t worker);
void sim_host_lose_server(struct sim *sim, uint32_t worker);

// sim_session_entry handles entries for the session; sim_session_has tells which these are.
int sim_session_has(enum sim_what what);
void sim_session_entry(struct sim *sim, const struct sim_entry *entry);
void sim_session_action(struct sim *sim, const struct mst_action *action);
// sim_session_collect takes what users would take: answers and losses.
void sim_session_collect(struct sim *sim);
// sim_session_settled checks, once no action is left, that the session has forgotten nobody.
void sim_session_settled(struct sim *sim);

// The ledger. sim_ledger_made gives the id of a new call, 0 if there is no room.
uint64_t sim_ledger_made(struct sim *sim, uint32_t worker);
struct sim_call *sim_ledger_call(struct sim *sim, uint64_t call);
void sim_ledger_sent(struct sim *sim, uint64_t call, uint32_t attempt);
// sim_ledger_began: the current incarnation starts to evaluate the call.
void sim_ledger_began(struct sim *sim, uint64_t call);
void sim_ledger_ended(struct sim *sim, uint64_t call, enum sim_outcome outcome);
// sim_ledger_lost checks the session's verdict on a loss, and records the call that is to blame, or
// 0.
void sim_ledger_lost(struct sim *sim, uint32_t worker, enum mst_heal_at at,
                     uint64_t blamed, enum mst_heal_verdict verdict);
void sim_ledger_of_use(struct sim *sim, uint32_t worker);
// sim_ledger_idle: the worker is back and has replayed its journal.
void sim_ledger_idle(struct sim *sim, uint32_t worker);
void sim_ledger_looks(struct sim *sim);    // before silence is judged
void sim_ledger_listened(struct sim *sim); // after it
void sim_ledger_beat(struct sim *sim, uint32_t worker, enum mst_beat beat);
void sim_ledger_down(struct sim *sim);

// sim_monitor_event books an event before the pool gets it; sim_monitor_action judges an action.
void sim_monitor_event(struct sim *sim, const struct mst_event *event);
// sim_monitor_call checks that the worker may be sent a call.
void sim_monitor_call(struct sim *sim, uint32_t worker);
// Before plan.count changes.
void sim_monitor_grown(struct sim *sim, uint32_t more);
void sim_monitor_action(struct sim *sim, const struct mst_action *action);
// sim_monitor_time checks whether the pool should be down. Noise counts too: any event shows the
// pool the time.
void sim_monitor_time(struct sim *sim);
// sim_monitor_facts compares pool and book after an event at now_ns; sim_monitor_settled once no
// action is left.
void sim_monitor_facts(struct sim *sim, int64_t wake_ns);
void sim_monitor_settled(struct sim *sim);
// sim_monitor_bound_ns gives the time by which the pool must be down, SIM_NEVER while it starts or
// runs.
int64_t sim_monitor_bound_ns(const struct sim *sim);
int sim_is_running(const struct sim *sim);
int sim_is_starting(const struct sim *sim);
uint32_t sim_in_flight(const struct sim *sim);
uint32_t sim_in_queue(const struct sim *sim);    // launches outside the window
int sim_is_awaited(const struct sim_book *book); // its end is still to come
// Launched, and without a sign of its end.
int sim_is_live(const struct sim_book *book);
int sim_is_on_its_way(const struct sim_book *book);
int sim_serves(const struct sim_book *book); // it takes calls
int sim_all_ended(const struct sim *sim);
int sim_words_awaited(const struct sim *sim);

// Shared by monitor.c and limits.c: consequences of events and of time.
void sim_kill_is_due(struct sim *sim, struct sim_book *book);
void sim_start_fails(struct sim *sim, enum mst_fail fail, uint32_t worker);
void sim_start_loses(struct sim *sim, enum mst_fail fail, uint32_t worker);
void sim_loses(struct sim *sim, struct sim_book *book);
void sim_lost_is_due(struct sim_book *book);
void sim_told_closed(struct sim *sim, uint32_t worker);
void sim_told_time(struct sim *sim);

// sim_note logs a line that is neither an event nor an action.
void sim_note(struct sim *sim, const char *name, uint32_t worker,
              uint64_t number);

const char *sim_event_name(enum mst_event_kind kind);
const char *sim_action_name(enum mst_do kind);

#endif
