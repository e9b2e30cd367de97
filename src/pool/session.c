// Runs clusters: events in from descriptors, actions out to them.
//
// All facts go to the pure core (calls.h). This file alone carries out the core's actions, after
// the loop has handled what was ready. Answers belong to the core as soon as they are read
// (peer_read.c).
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_fault.h"
#include "pool/session_int.h"

// While somebody waits, spawned workers are checked for their end this often.
#define REAP_NS (20 * MST_NS_PER_MS)
// No wait sleeps longer, so that events that nobody reports are found.
#define SLEEP_MS_MAX 1000
// The same for the I/O thread, as in R's waits: limits on calls are checked then.
#define IO_THREAD_MS 50
// How long R must have been away before the I/O thread starts to serve tasks, and to read output.
#define TASKS_TICK_MS 2
#define PRINTS_TICK_MS 50
// How often the I/O thread reads output where no descriptor reports any.
#define PRINTS_LOOK_MS 100

static void prints_ready(struct mst_io *io, uint32_t ready) {
  (void)ready;
  (void)mst_loop_run(io->owner, 0, NULL);
}

// open_prints opens the loop for output pipes, which the session's loop watches by its descriptor.
// Without a descriptor both are the same loop.
static int open_prints(struct mst_session *session,
                       enum mst_loop_backend backend, struct mst_err *err) {
  session->prints = session->loop;
  if (mst_loop_fd(session->loop) < 0) return 0;
  int rc = mst_loop_open(backend, &session->prints, err);
  if (rc != 0) return rc;
  session->prints_io = (struct mst_io){.fd = mst_loop_fd(session->prints),
                                       .wanted = MST_READABLE,
                                       .ready = prints_ready,
                                       .owner = session->prints};
  rc = mst_loop_add(session->loop, &session->prints_io, err);
  if (rc != 0) mst_loop_close(session->prints);
  return rc;
}

int mst_session_open(struct mst_session *session, enum mst_loop_backend backend,
                     const char *build, struct mst_err *err) {
  memset(session, 0, sizeof *session);
  session->owner = getpid();
  session->listened_ns = mst_clock_now();
  session->notify_fd = -1;
  mst_host_here(&session->here);
  mst_session_nowhere(session);
  strncpy(session->build, build, sizeof session->build - 1);
  int rc = mst_loop_open(backend, &session->loop, err);
  if (rc != 0) return rc;
  rc = open_prints(session, backend, err);
  if (rc != 0) mst_loop_close(session->loop);
  return rc;
}

static void end_io_thread(struct mst_session *session) {
  mst_io_thread_end(session->io_thread);
  session->io_thread = NULL;
}

void mst_session_close(struct mst_session *session) {
  MST_ASSERT(session->clusters == NULL);
  end_io_thread(session);
  mst_session_tell_over(session);
  while (session->events != NULL)
    mst_loss_free(mst_session_event(session));
  mst_trash_free(session);
  mst_links_end(&session->links);
  mst_loop_remove(session->loop, &session->prints_io);
  if (session->prints != session->loop) mst_loop_close(session->prints);
  mst_loop_close(session->loop);
  session->loop = session->prints = NULL;
}

// Without its server, a worker may be reaped by init at any time, and its pid may belong to another
// process. An open channel shows that it is still there; if it has closed the channel, its watch
// ends it.
static void do_kill(struct mst_cluster *cluster, uint32_t index) {
  const struct mst_worker *worker = cluster->calls.pool.workers[index];
  struct mst_peer *peer = cluster->peers[index];
  if (!worker->channel && !mst_peer_is_told(peer)) {
    mst_conduit_cut_control(&peer->conduit);
    return;
  }
  const struct mst_incarnation of = mst_peer_incarnation(peer);
  peer->launcher->signal(peer->launcher, &of, (pid_t)worker->pid, SIGKILL);
}

static void tell(struct mst_session *session, struct mst_loss *event) {
  struct mst_loss **at = &session->events;
  if (session->event_count >= MST_EVENTS_MAX) {
    mst_loss_free(mst_session_event(session));
  }
  while (*at != NULL)
    at = &(*at)->next;
  *at = event;
  session->event_count++;
}

struct mst_loss *mst_session_event(struct mst_session *session) {
  struct mst_loss *event = session->events;
  if (event == NULL) return NULL;
  session->events = event->next;
  event->next = NULL;
  session->event_count--;
  return event;
}

static void carry_out(struct mst_cluster *cluster,
                      const struct mst_action *action) {
  struct mst_peer *peer = cluster->peers[action->worker];
  switch (action->kind) {
  case MST_DO_LAUNCH:
    mst_cluster_launch(cluster, action->worker);
    break;
  case MST_DO_PEND:
    mst_peer_pend(peer);
    break;
  case MST_DO_KILL:
    do_kill(cluster, action->worker);
    break;
  case MST_DO_STARTED:
    // Nobody needs the output of the start.
    cluster->shown = cluster->log.next;
    cluster->started = 1;
    break;
  case MST_DO_START_FAILED:
    cluster->start_failed = 1;
    break;
  case MST_DO_STOPPED:
    cluster->stopped = 1;
    break;
  case MST_DO_JUDGE:
    mst_group_look(cluster, peer->group);
    mst_peer_judge(peer);
    break;
  case MST_DO_CLOSE:
    mst_peer_let_go(peer);
    break;
  case MST_DO_FORGET:
    mst_standby_forget(peer);
    break;
  case MST_DO_BREAK:
    mst_conduit_cut(&peer->conduit);
    if (!peer->worker->channel) mst_peer_unwatch(peer);
    break;
  case MST_DO_TELL:
    tell(cluster->session, action->loss);
    break;
  case MST_DO_BYE:
  case MST_DO_SEED:
  case MST_DO_JOB:
  case MST_DO_EXEC:
  case MST_DO_CHECKPOINT:
  case MST_DO_DROP:
  case MST_DO_TRIM:
  case MST_DO_CANCEL:
  case MST_DO_PING:
  case MST_DO_WITHDRAW:
    mst_peer_say(peer, action);
    break;
  case MST_DO_RESUME:
  case MST_DO_LEAVE:
  case MST_DO_REPLAY:
    break; // the core's own
  }
}

// Facts that come while an action is carried out (a spawned worker's pid, when launch returns) are
// only recorded: actions are taken nowhere else.
void mst_cluster_carry_out(struct mst_cluster *cluster) {
  struct mst_action action;
  if (cluster->carrying_out) return;
  cluster->carrying_out = 1;
  mst_links_hold(&cluster->session->links);
  while (mst_calls_next_action(&cluster->calls, &action, mst_clock_now()) == 1)
    carry_out(cluster, &action);
  mst_links_go_on(&cluster->session->links);
  cluster->carrying_out = 0;
}

int mst_session_serve(struct mst_session *session) {
  const int rc = mst_loop_run(session->loop, 0, NULL);
  if (session->links.first != NULL)
    mst_links_deliver(&session->links, mst_clock_now());
  for (struct mst_cluster *cluster = session->clusters; cluster != NULL;
       cluster = cluster->next)
    mst_cluster_carry_out(cluster);
  return rc;
}

void mst_session_heal(struct mst_session *session) {
  const int64_t now_ns = mst_clock_now();
  const int64_t slept_ns = now_ns - session->listened_ns;
  for (struct mst_cluster *cluster = session->clusters; cluster != NULL;
       cluster = cluster->next) {
    mst_cluster_look_at_sites(cluster, now_ns);
    if (cluster->flush_ns <= now_ns) mst_cluster_flush_late(cluster);
    mst_cluster_carry_out(cluster); // heals workers lost by now
    mst_calls_tick(&cluster->calls, slept_ns, now_ns);
    mst_cluster_carry_out(cluster);
    mst_cluster_look_at_scale(cluster, now_ns);
    mst_cluster_leave_silent(cluster, slept_ns, now_ns);
    mst_cluster_carry_out(cluster);
    if (cluster->held == 0) continue;
    mst_cluster_read_on(cluster);
    mst_cluster_carry_out(cluster);
  }
}

static void let_time_pass(struct mst_session *session) {
  const int64_t now_ns = mst_clock_now();
  const int reap = now_ns - session->reap_ns >= REAP_NS;
  if (reap) {
    session->reap_ns = now_ns;
    mst_session_set_silence(session);
  }
  for (struct mst_cluster *cluster = session->clusters; cluster != NULL;
       cluster = cluster->next) {
    if ((reap || mst_cluster_due_ns(cluster) <= now_ns) &&
        cluster->calls.pool.phase != MST_POOL_DOWN) {
      mst_cluster_reap(cluster);
    }
    if (mst_cluster_lacks_reports(cluster)) mst_cluster_orphans(cluster);
  }
  mst_session_heal(session);
}

// sleep_ms shortens a wait to what the clusters need: ticks, and reaping of spawned workers.
static int sleep_ms(const struct mst_session *session, int timeout_ms) {
  int ms =
      timeout_ms < 0 || timeout_ms > SLEEP_MS_MAX ? SLEEP_MS_MAX : timeout_ms;
  for (const struct mst_cluster *cluster = session->clusters;
       cluster != NULL && ms > 0; cluster = cluster->next) {
    int64_t wake_ns = mst_calls_wake_ns(&cluster->calls);
    const int64_t due_ns = mst_cluster_due_ns(cluster);
    if (cluster->flush_ns < wake_ns) wake_ns = cluster->flush_ns;
    if (due_ns < wake_ns) wake_ns = due_ns;
    if (cluster->scale_ns < wake_ns) wake_ns = cluster->scale_ns;
    if (wake_ns != INT64_MAX) ms = mst_clock_ms_until(wake_ns, ms);
    // A wait as long as a beat's interval would count as sleep.
    const int64_t beat_ms =
        cluster->calls.policy.heartbeat_ns / MST_NS_PER_MS / 6;
    if (beat_ms < ms) ms = beat_ms > 1 ? (int)beat_ms : 1;
    if ((mst_cluster_spawns(cluster) || mst_cluster_lacks_reports(cluster)) &&
        cluster->calls.pool.phase != MST_POOL_RUNNING &&
        cluster->calls.pool.phase != MST_POOL_DOWN && ms > 2) {
      ms = 2; // nobody reports these ends: poll for them
    }
  }
  if (session->trash != NULL && ms > 0)
    ms = mst_clock_ms_until(session->trash_ns, ms);
  if (session->links.first == NULL) return ms;
  if (mst_links_have_news(&session->links)) return 0;
  return mst_clock_ms_until(mst_links_due_ns(&session->links), ms);
}

int mst_session_run(struct mst_session *session, int timeout_ms,
                    struct mst_err *err) {
  if (session->broken) {
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the session is broken");
  }
  MST_ASSERT_HOLDS(session);
  MST_ASSERT(!mst_fault("pool.assert"));
  const int rc =
      mst_loop_run(session->loop, sleep_ms(session, timeout_ms), err);
  mst_links_hold(&session->links);
  if (session->links.first != NULL)
    mst_links_deliver(&session->links, mst_clock_now());
  let_time_pass(session);
  mst_links_go_on(&session->links);
  mst_trash_work(session, MST_TRASH_TURN_NS); // no word waits for it
  session->listened_ns = mst_clock_now();
  return rc < 0 ? rc : 0;
}

static void free_peers(struct mst_cluster *cluster, uint32_t from,
                       uint32_t to) {
  for (uint32_t i = from; i < to; i++)
    free(cluster->peers[i]);
}

// has_tasks tells whether any submitted task isn't over.
static int has_tasks(const struct mst_session *session) {
  return session->counts.tasks > session->counts.tasks_done;
}

// The I/O thread's turn. With tasks, or when a host is to be given back: the same as R's waits,
// except for what only R can do. Otherwise it only reads output, so that no process blocks on a
// full pipe.
static int stand_in(void *owner, int *fd) {
  struct mst_session *session = owner;
  const int all =
      has_tasks(session) || mst_session_scale_ns(session) <= mst_clock_now();
  const int rc = all ? mst_session_run(session, 0, NULL)
                     : mst_loop_run(session->prints, 0, NULL);
  if (rc < 0) return -1;
  mst_session_tell_over(session);
  if (has_tasks(session)) {
    *fd = mst_loop_fd(session->loop);
    return sleep_ms(session, *fd < 0 ? TASKS_TICK_MS : IO_THREAD_MS);
  }
  *fd = mst_loop_fd(session->prints);
  const int most_ms = *fd < 0 ? PRINTS_LOOK_MS : SLEEP_MS_MAX;
  mst_links_tidy(&session->links, mst_clock_now());
  int64_t due_ns = mst_session_scale_ns(session);
  const int64_t links_ns = mst_links_due_ns(&session->links);
  if (links_ns < due_ns) due_ns = links_ns;
  if (due_ns != INT64_MAX) return mst_clock_ms_until(due_ns, most_ms);
  return *fd < 0 ? PRINTS_LOOK_MS : -1;
}

// After how long the I/O thread stands in. Who is to be notified waits for nothing else.
static int tick_ms(const struct mst_session *session) {
  if (!has_tasks(session)) return PRINTS_TICK_MS;
  return session->notify_fd < 0 ? TASKS_TICK_MS : 0;
}

void mst_session_lend(struct mst_session *session) {
  mst_session_tell_over(session);
  if (session->clusters == NULL) return;
  if (session->io_thread == NULL &&
      mst_io_thread_start(stand_in, session, &session->io_thread, NULL) != 0) {
    return;
  }
  mst_io_thread_lend(session->io_thread, tick_ms(session));
}

void mst_session_take(struct mst_session *session) {
  if (session->io_thread != NULL && mst_io_thread_is_lent(session->io_thread)) {
    mst_io_thread_take(session->io_thread);
  }
}

// make_peers makes the peers of workers from..to - 1, with nothing open. cluster->peers has room.
static int make_peers(struct mst_cluster *cluster, struct mst_group *group,
                      uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    cluster->peers[i] = calloc(1, sizeof **cluster->peers);
    if (cluster->peers[i] == NULL) {
      free_peers(cluster, from, i);
      return -MST_EMEM;
    }
    mst_peer_init(cluster->peers[i], cluster, group, i);
  }
  return 0;
}

static int first_peers(struct mst_cluster *cluster, uint32_t workers) {
  cluster->peers = calloc(workers, sizeof(struct mst_peer *));
  if (cluster->peers == NULL) return -MST_EMEM;
  uint32_t made = 0;
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    struct mst_group *group = &cluster->groups[g];
    const int rc = make_peers(cluster, group, made, made + group->workers);
    if (rc != 0) {
      free_peers(cluster, 0, made);
      return rc;
    }
    made += group->workers;
  }
  for (uint32_t i = 0; i < workers; i++)
    cluster->peers[i]->worker = cluster->calls.pool.workers[i];
  return 0;
}

// copy_groups copies the caller's groups into the cluster, and takes no references yet.
static int copy_groups(struct mst_cluster *cluster,
                       const struct mst_group *groups, uint32_t count) {
  cluster->groups = calloc(count, sizeof *groups);
  if (cluster->groups == NULL) return -MST_EMEM;
  memcpy(cluster->groups, groups, count * sizeof *groups);
  cluster->group_count = count;
  return 0;
}

// place gives each group its site.
static int place(struct mst_cluster *cluster) {
  const uint32_t count = cluster->group_count;
  const struct mst_launcher *nowhere = &cluster->session->nowhere;
  uint32_t *workers = calloc(count, sizeof *workers);
  if (workers == NULL) return -MST_EMEM;
  for (uint32_t g = 0; g < count; g++)
    workers[g] = cluster->groups[g].workers;
  const int rc = mst_calls_split(&cluster->calls, workers, count);
  free(workers);
  for (uint32_t g = 0; rc == 0 && g < count; g++) {
    const struct mst_site *given = cluster->groups[g].site;
    struct mst_site *site = &cluster->calls.sites[g];
    if (given != NULL) *site = *given;
    site->terms.only = count == 1;
    if (given != NULL && cluster->groups[g].launcher != nowhere) {
      (void)mst_site_tell(site, MST_SITE_SERVED, 0, mst_clock_now());
      site->again = 1; // it was there, even if its link has just ended
    }
    cluster->groups[g].site = site;
  }
  return rc;
}

static uint32_t count_workers(const struct mst_group *groups, uint32_t count) {
  uint32_t workers = 0;
  for (uint32_t g = 0; g < count; g++) {
    if (groups[g].workers == 0) return 0;
    if (groups[g].workers > MST_WORKERS_MAX - workers) return 0;
    workers += groups[g].workers;
  }
  return workers;
}

int mst_cluster_new(struct mst_session *session, const struct mst_group *groups,
                    uint32_t count, uint32_t window, struct mst_cluster **out,
                    struct mst_err *err) {
  const uint32_t workers = count_workers(groups, count);
  if (workers == 0) {
    return mst_err_set(err, MST_EINPUT, 0, NULL, "workers out of range");
  }
  struct mst_cluster *cluster = calloc(1, sizeof *cluster);
  int rc = cluster == NULL ? -MST_EMEM : copy_groups(cluster, groups, count);
  if (rc == 0) {
    cluster->session = session;
    cluster->flush_ns = INT64_MAX;
    cluster->scale_ns = cluster->scale_away_ns = INT64_MAX;
    rc = mst_calls_init(&cluster->calls, workers, window);
  }
  if (rc == 0) {
    rc = place(cluster);
    if (rc == 0) rc = first_peers(cluster, workers);
    if (rc != 0) mst_calls_free(&cluster->calls);
  }
  if (rc != 0) {
    if (cluster != NULL) free(cluster->peers);
    if (cluster != NULL) free(cluster->groups);
    free(cluster);
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for %u workers",
                       workers);
  }
  cluster->id = ++session->cluster_id;
  cluster->calls.id = cluster->id;
  cluster->calls.tally.counts = &session->counts;
  for (uint32_t g = 0; g < count; g++)
    groups[g].setup->refs++;
  cluster->next = session->clusters;
  session->clusters = cluster;
  *out = cluster;
  return 0;
}

int mst_cluster_grow(struct mst_cluster *cluster, struct mst_group *group,
                     uint32_t more, struct mst_err *err) {
  const uint32_t from = cluster->calls.pool.count;
  if (more > MST_WORKERS_MAX - from) {
    return mst_err_set(err, MST_EINPUT, 0, NULL, "workers out of range");
  }
  // Peers first: every worker has a peer.
  struct mst_peer **peers =
      realloc(cluster->peers, (from + more) * sizeof(struct mst_peer *));
  int rc = peers == NULL ? -MST_EMEM : 0;
  if (peers != NULL) cluster->peers = peers;
  if (rc == 0) rc = make_peers(cluster, group, from, from + more);
  if (rc == 0) {
    rc = mst_calls_grow(&cluster->calls, more, mst_clock_now());
    if (rc != 0) free_peers(cluster, from, from + more);
  }
  if (rc != 0) {
    return mst_err_set(err, (enum mst_code) - rc, 0, "realloc",
                       "no memory for %u more workers", more);
  }
  for (uint32_t i = from; i < from + more; i++) {
    cluster->peers[i]->worker = cluster->calls.pool.workers[i];
    cluster->peers[i]->worker->site = group->site;
  }
  mst_cluster_carry_out(cluster);
  return 0;
}

uint32_t mst_cluster_revive(struct mst_cluster *cluster) {
  const uint32_t n = mst_calls_revive(&cluster->calls, mst_clock_now());
  mst_cluster_carry_out(cluster);
  return n;
}

void mst_cluster_start(struct mst_cluster *cluster, int64_t deadline_ns) {
  uint32_t need = 0;
  for (uint32_t g = 0; g < cluster->group_count; g++)
    need += mst_site_waits(cluster->groups[g].site)
                ? 0
                : cluster->groups[g].workers;
  mst_calls_begin(&cluster->calls, mst_clock_now(), deadline_ns, need);
  mst_cluster_carry_out(cluster);
}

void mst_cluster_stop(struct mst_cluster *cluster) {
  cluster->stop_begun = 1;
  mst_calls_end_queue(&cluster->calls, mst_clock_now());
  const struct mst_event stop = {.kind = MST_EV_STOP};
  mst_calls_event(&cluster->calls, &stop, mst_clock_now());
  mst_cluster_carry_out(cluster);
}

// ---- tasks

struct mst_call *mst_task_submit(struct mst_cluster *cluster,
                                 struct mst_blob *payload,
                                 const uint32_t *workers, uint32_t count,
                                 const struct mst_task_terms *terms) {
  struct mst_call *task = mst_calls_submit(&cluster->calls, payload, workers,
                                           count, terms, mst_clock_now());
  mst_cluster_carry_out(cluster);
  return task;
}

int mst_task_cancel(struct mst_call *task) {
  struct mst_cluster *cluster = mst_task_cluster(task);
  if (cluster == NULL) return 0;
  if (task->mailbox != NULL)
    cluster->peers[task->mailbox->worker]->no_memory = 0;
  const int cancelled = mst_call_cancel(task, mst_clock_now());
  mst_cluster_carry_out(cluster);
  return cancelled;
}

struct mst_cluster *mst_task_cluster(const struct mst_call *task) {
  if (task->tally == NULL) return NULL;
  return (struct mst_cluster *)(void *)((char *)task->tally->calls -
                                        offsetof(struct mst_cluster, calls));
}

void mst_cluster_trim(struct mst_cluster *cluster) {
  // In a forked child, the workers belong to its parent.
  if (cluster->session->owner != getpid()) return;
  mst_calls_trim(&cluster->calls);
  mst_cluster_carry_out(cluster);
}

void mst_cluster_close(struct mst_cluster *cluster) {
  struct mst_session *session = cluster->session;
  if (cluster->closed) return;
  cluster->closed = 1;
  const int ours = session->owner == getpid();
  mst_calls_end_queue(&cluster->calls, mst_clock_now());
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    if (ours && cluster->calls.pool.workers[i]->has_process)
      do_kill(cluster, i);
    mst_peer_close(cluster->peers[i], ours);
  }
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    struct mst_group *group = &cluster->groups[g];
    if (group->spawner != NULL && ours) mst_spawner_end(group->spawner);
    mst_spawner_free(group->spawner);
    group->spawner = NULL;
  }
  struct mst_cluster **at = &session->clusters;
  while (*at != cluster)
    at = &(*at)->next;
  *at = cluster->next;
  if (ours && session->clusters == NULL) end_io_thread(session);
}

void mst_cluster_free(struct mst_cluster *cluster) {
  mst_cluster_close(cluster);
  for (uint32_t g = 0; g < cluster->group_count; g++)
    mst_blob_release(cluster->groups[g].setup);
  free_peers(cluster, 0, cluster->calls.pool.count);
  mst_job_release(cluster->context);
  mst_calls_free(&cluster->calls);
  mst_log_free(&cluster->log);
  free(cluster->peers);
  free(cluster->scaled);
  free(cluster->groups);
  free(cluster);
}
