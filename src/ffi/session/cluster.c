// Clusters as external pointers: start, stop, and their workers' status.
//
// A cluster's pointer owns the cluster; each node's pointer keeps it alive and names one of its
// peers. Stopping clears the cluster's pointer, which tells every node, copies included.
//
// Finalizers may run within any allocation, so they neither wait nor read: an unreferenced cluster
// is told to stop, and freed when the session runs next.
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "ffi/session/session.h"

static void stop_abandoned(struct ffi_later *item) {
  item->run = NULL;
  struct mst_session *session = ffi_session_or_null();
  struct mst_cluster *cluster = session == NULL ? NULL : session->clusters;
  for (; cluster != NULL; cluster = cluster->next) {
    if (!cluster->abandoned || cluster->stop_begun) continue;
    mst_cluster_stop(cluster);
    ffi_remotes_abandon(cluster->id); // the next call may be hours away
  }
}

// The pointer is unreferenced: stop, without waiting.
static void finalize_cluster(SEXP pointer) {
  static struct ffi_later item;
  enum ffi_outcome outcome;
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) return; // stopped, session ended, or of another process
  R_ClearExternalPtr(pointer);
  cluster->abandoned = 1;
  if (item.run != NULL) return; // planned already
  item.run = stop_abandoned;
  ffi_do_later(&item);
}

static SEXP peer_failure(const struct mst_peer *peer) {
  return ffi_why(mst_peer_why(peer), mst_peer_failure(peer));
}

static struct mst_look look_at(const struct mst_peer *peer) {
  return mst_peer_look(peer, mst_clock_now());
}

// pid_of gives NA without a process: kill(0) would signal the caller's own process group.
static SEXP pid_of(uint32_t pid) {
  return Rf_ScalarInteger(pid == 0 ? NA_INTEGER : (int)pid);
}

// describe_peer describes a worker for R code.
static SEXP describe_peer(const struct mst_peer *peer) {
  static const char *const names[] = {
      "worker", "pid",     "state",   "done",     "how",     "number",
      "output", "failure", "tempdir", "restarts", "heard_s", "running_s",
      "owed",   "oom",     "ours",    "lacks",    "healing", "here",
      "task",   "host",    "job"};
  static const char *const healings[] = {[MST_HEALING_NONE] = "none",
                                         [MST_HEALING_FRESH] = "fresh",
                                         [MST_HEALING_REPLAY] = "replay",
                                         [MST_HEALING_STATE] = "state"};
  const int64_t now_ns = mst_clock_now();
  const struct mst_look look = mst_peer_look(peer, now_ns);
  const int sleeps = peer->group->site->is == MST_SITE_ASLEEP && look.lives &&
                     look.state == MST_WORKER_PENDING;
  const char *state = look.suspect ? "suspect"
                      : sleeps     ? "asleep"
                                   : mst_worker_state_name(look.state);
  SEXP list = PROTECT(ffi_list(21, names));
  SET_VECTOR_ELT(list, 0, Rf_ScalarInteger((int)peer->index + 1));
  SET_VECTOR_ELT(list, 1, pid_of(look.pid));
  SET_VECTOR_ELT(list, 2, Rf_mkString(state));
  SET_VECTOR_ELT(list, 3, Rf_ScalarReal((double)look.done));
  SET_VECTOR_ELT(list, 4, Rf_ScalarInteger((int)look.exit_how));
  SET_VECTOR_ELT(list, 5, Rf_ScalarInteger(look.exit_number));
  SET_VECTOR_ELT(list, 6, ffi_tail_text(&peer->conduit.output.tail));
  SET_VECTOR_ELT(list, 7, peer_failure(peer));
  SET_VECTOR_ELT(list, 8, ffi_text_at(&peer->tempdir));
  SET_VECTOR_ELT(list, 9, Rf_ScalarInteger((int)look.epoch));
  SET_VECTOR_ELT(list, 10,
                 Rf_ScalarReal((double)(now_ns - look.heard_ns) / 1e9));
  SET_VECTOR_ELT(list, 11,
                 Rf_ScalarReal(look.began_ns == INT64_MAX
                                   ? NA_REAL
                                   : (double)(now_ns - look.began_ns) / 1e9));
  SET_VECTOR_ELT(list, 12, Rf_ScalarInteger((int)look.unread));
  SET_VECTOR_ELT(list, 13, Rf_ScalarLogical(look.oom));
  SET_VECTOR_ELT(list, 14, Rf_ScalarLogical(look.ours));
  SET_VECTOR_ELT(list, 15, Rf_ScalarInteger(look.sys_errno));
  SET_VECTOR_ELT(list, 16, Rf_mkString(healings[look.healing]));
  SET_VECTOR_ELT(list, 17, Rf_ScalarLogical(peer->host->shares_processes));
  const struct mst_session *session = peer->cluster->session;
  if (peer->host != &session->here && peer->host != &session->nowhere_host) {
    SET_VECTOR_ELT(list, 19, Rf_mkString(peer->host->name));
    if (peer->host->job != NULL)
      SET_VECTOR_ELT(list, 20, Rf_mkString(peer->host->job));
  }
  if (look.began_ns != INT64_MAX)
    SET_VECTOR_ELT(list, 18, ffi_label(peer->worker->mailbox.first));
  UNPROTECT(1);
  return list;
}

// start_outcome describes why a start failed.
static SEXP start_outcome(const struct mst_cluster *cluster) {
  static const char *const fails[] = {"none",   "launch",   "setup",
                                      "exited", "deadline", "stopped"};
  static const char *const names[] = {"fail", "errno", "peer"};
  const struct mst_pool *pool = &cluster->calls.pool;
  const struct mst_peer *peer = cluster->peers[pool->fail_worker];
  // A worker that lacks a resource prints that and exits.
  const int lacks = pool->fail == MST_FAIL_EXITED ? mst_peer_lacks(peer) : 0;
  SEXP list = PROTECT(ffi_list(3, names));
  SET_VECTOR_ELT(list, 0,
                 Rf_mkString(fails[lacks != 0 ? MST_FAIL_LAUNCH : pool->fail]));
  SET_VECTOR_ELT(list, 1,
                 Rf_ScalarInteger(lacks != 0 ? lacks : pool->fail_number));
  SET_VECTOR_ELT(list, 2, describe_peer(peer));
  UNPROTECT(1);
  return list;
}

// node_pointers gives pointers to the workers from `from` to before `to`.
static SEXP node_pointers(struct mst_cluster *cluster, uint32_t from,
                          uint32_t to, SEXP pointer) {
  const R_xlen_t n = (R_xlen_t)(to - from);
  SEXP nodes = PROTECT(Rf_allocVector(VECSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    SET_VECTOR_ELT(nodes, i,
                   R_MakeExternalPtr(cluster->peers[from + (uint32_t)i],
                                     ffi_node_tag(), pointer));
  }
  UNPROTECT(1);
  return nodes;
}

struct starting {
  struct mst_cluster *cluster;
  SEXP pointer;
};

static SEXP wait_started(void *data) {
  struct starting *starting = data;
  struct mst_cluster *cluster = starting->cluster;
  const struct mst_session *session = cluster->session;
  while (!cluster->started &&
         !(cluster->start_failed && session->trash == NULL)) {
    ffi_run_slice(cluster->session, FFI_SLICE_MS);
    R_CheckUserInterrupt();
    if (cluster->closed) Rf_error("muster's session has ended");
  }
  return R_NilValue;
}

// How long a start that was interrupted waits for its workers to end.
#define LEAVE_NS (500 * MST_NS_PER_MS)

// If an interrupt or a time limit ends the wait, the half-started cluster is taken down first. A
// stopped fork server may still fork workers later: these find their channels closed.
static void leave_start(void *data) {
  struct starting *starting = data;
  struct mst_cluster *cluster = starting->cluster;
  R_ClearExternalPtr(starting->pointer);
  if (cluster->closed) return;
  mst_cluster_stop(cluster);
  const int64_t end_ns = mst_clock_now() + LEAVE_NS;
  struct mst_session *session = cluster->session;
  while (((!cluster->start_failed && !cluster->stopped) ||
          session->trash != NULL) &&
         mst_clock_now() < end_ns) {
    (void)mst_session_run(session, FFI_SLICE_MS, NULL);
  }
  ffi_cluster_close(cluster);
}

static void free_spawner(void *spawner) { mst_spawner_free(spawner); }

// fill_launcher fills a group's launcher from a fork server, from list(file, arguments, variables)
// of a program to start, or from NULL: it will come. The spawner is held.
static int fill_launcher(struct mst_group *group, SEXP source,
                         struct mst_err *err) {
  struct mst_session *session = ffi_session();
  if (TYPEOF(source) == VECSXP) {
    struct mst_spawn how;
    ffi_fill_spawn(&how, VECTOR_ELT(source, 0), VECTOR_ELT(source, 1),
                   VECTOR_ELT(source, 2));
    group->spawner =
        mst_spawner_new(&session->here, &how, mst_session_news, session);
    if (group->spawner == NULL) {
      return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory");
    }
    (void)ffi_hold(group->spawner, free_spawner);
    group->launcher = mst_spawner_launcher(group->spawner);
  } else if (source == R_NilValue) {
    group->launcher = &session->nowhere;
  } else if (ffi_server_of(source) != NULL) {
    group->launcher = &ffi_server_of(source)->launcher;
  } else {
    return mst_err_set(err, MST_EINPUT, 0, NULL, "there is no fork server");
  }
  return 0;
}

// make_cluster allocates all that can fail, before R sees the cluster. Returns NULL and fills err.
// Set-ups first: serializing them may run R code, which may end fork servers.
static struct mst_cluster *make_cluster(SEXP given, SEXP window,
                                        struct mst_err *err) {
  const uint32_t count = (uint32_t)Rf_xlength(given);
  struct mst_group *groups = calloc(count + 1, sizeof *groups);
  struct mst_cluster *cluster = NULL;
  int rc = 0;
  if (groups == NULL) {
    (void)mst_err_set(err, MST_EMEM, 0, "calloc", "no memory");
    return NULL;
  }
  (void)ffi_hold(groups, free);
  for (uint32_t g = 0; g < count; g++) {
    SEXP one = VECTOR_ELT(given, g);
    groups[g].workers = (uint32_t)Rf_asInteger(VECTOR_ELT(one, 0));
    groups[g].site = ffi_site_begun((uint32_t)Rf_asInteger(VECTOR_ELT(one, 3)));
    groups[g].setup = ffi_hold_blob(ffi_blob_of(VECTOR_ELT(one, 2)));
    mst_blob_release(groups[g].setup); // the held reference stays
  }
  for (uint32_t g = 0; rc == 0 && g < count; g++)
    rc = fill_launcher(&groups[g], VECTOR_ELT(VECTOR_ELT(given, g), 1), err);
  if (rc == 0) {
    rc = mst_cluster_new(ffi_session(), groups, count,
                         (uint32_t)Rf_asInteger(window), &cluster, err);
  }
  for (uint32_t g = 0; rc == 0 && g < count; g++) {
    if (groups[g].spawner != NULL) ffi_unhold(groups[g].spawner);
  }
  for (uint32_t g = 0; g < count; g++)
    ffi_drop(groups[g].setup);
  ffi_drop(groups);
  return rc == 0 ? cluster : NULL;
}

static int64_t limit_ns(double s) { return s < 1e9 ? ffi_ns(s) : INT64_MAX; }

// makes_checkpoints: they need a worker made by a fork server, on a system that can count a
// process's threads.
static int makes_checkpoints(const struct mst_cluster *cluster) {
  if (mst_proc_threads() < 0) return 0;
  for (uint32_t g = 0; g < cluster->group_count; g++)
    if (cluster->groups[g].launcher->adopt != NULL) return 1;
  return 0;
}

// ffi_cluster_open starts a cluster and waits until it runs. groups: list(workers, source, setup,
// site) of each; source: a fork server, list(file, arguments, variables) of a program to start, or
// NULL: ffi_cluster_adopt gives one later, and the start doesn't wait for it. site: the number of
// one that ffi_site_new has made; 0: on this machine.
// policy: healing (0, 1, or 2: without state), retries, heartbeat and time limit of a call in
// seconds, checkpoints (negative: none; 0: when they pay; else after so many seconds of
// evaluation), limit in seconds for a replay without a checkpoint. Returns list(pointer, nodes,
// id), or a list that tells why it failed.
SEXP ffi_cluster_open(SEXP groups, SEXP window, SEXP timeout_s, SEXP policy) {
  struct mst_err err;
  mst_err_clear(&err);
  if (TYPEOF(policy) != REALSXP || Rf_xlength(policy) != 6) {
    Rf_error("a policy has six numbers");
  }
  // The pointer doesn't protect `groups`: protected objects are serialized with the cluster.
  SEXP pointer =
      PROTECT(ffi_own(ffi_cluster_tag(), R_NilValue, finalize_cluster, 0));
  struct mst_cluster *cluster = make_cluster(groups, window, &err);
  if (cluster == NULL) {
    UNPROTECT(1);
    return ffi_error_list(&err);
  }
  const double *how = REAL(policy);
  cluster->calls.policy.on = how[0] > 0;
  cluster->calls.policy.fresh = how[0] > 1;
  cluster->calls.policy.retries = (uint32_t)how[1];
  cluster->calls.policy.heartbeat_ns = limit_ns(how[2]);
  cluster->calls.timeout_ns = limit_ns(how[3]);
  cluster->calls.policy.replay_max_ns = limit_ns(how[5]);
  cluster->calls.policy.checkpoint_ns = how[4] > 0 ? limit_ns(how[4]) : 0;
  if (how[4] < 0 || cluster->calls.policy.fresh ||
      !makes_checkpoints(cluster)) {
    mst_calls_forbid_checkpoints(&cluster->calls);
  }
  R_SetExternalPtrAddr(pointer, cluster);
  struct starting starting = {.cluster = cluster, .pointer = pointer};
  mst_cluster_start(cluster, ffi_deadline(timeout_s));
  ffi_guarded(wait_started, leave_start, &starting);
  if (cluster->start_failed) {
    SEXP why = PROTECT(start_outcome(cluster));
    R_ClearExternalPtr(pointer);
    ffi_cluster_close(cluster);
    UNPROTECT(2);
    return why;
  }
  static const char *const names[] = {"pointer", "nodes", "id"};
  SEXP opened = PROTECT(ffi_list(3, names));
  SET_VECTOR_ELT(opened, 2, Rf_ScalarInteger((int)cluster->id));
  SET_VECTOR_ELT(opened, 0, pointer);
  SET_VECTOR_ELT(opened, 1,
                 node_pointers(cluster, 0, cluster->calls.pool.count, pointer));
  UNPROTECT(2);
  return opened;
}

// ffi_cluster_grow adds workers where the one with this rank (from 1) is, which may not be ready
// yet: list(from, nodes, lacking), with the rank of the first, pointers to them, and whether they
// lack what the others were given (NA: nothing is kept); or an outcome; or FALSE, if they would
// lack that and bare is FALSE. A worker that can't be started is lost, like one that can't be
// restarted.
SEXP ffi_cluster_grow(SEXP pointer, SEXP more, SEXP like, SEXP bare) {
  static const char *const names[] = {"from", "nodes", "lacking"};
  enum ffi_outcome outcome;
  struct mst_err err;
  mst_err_clear(&err);
  const uint32_t count = (uint32_t)Rf_asInteger(more);
  SEXP grown = PROTECT(ffi_list(3, names));
  SEXP rank = SET_VECTOR_ELT(grown, 0, Rf_allocVector(INTSXP, 1));
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) {
    UNPROTECT(1);
    return Rf_ScalarInteger((int)outcome);
  }
  const int lacking =
      cluster->calls.policy.on ? cluster->calls.common.incomplete : NA_LOGICAL;
  if (lacking == 1 && Rf_asLogical(bare) != 1) {
    UNPROTECT(1);
    return Rf_ScalarLogical(0);
  }
  const uint32_t from = cluster->calls.pool.count;
  INTEGER(rank)[0] = (int)from + 1;
  struct mst_group *group =
      cluster->peers[(uint32_t)Rf_asInteger(like) - 1u]->group;
  if (mst_cluster_grow(cluster, group, count, &err) != 0) {
    UNPROTECT(1);
    return ffi_error_list(&err);
  }
  SET_VECTOR_ELT(grown, 1, node_pointers(cluster, from, from + count, pointer));
  SET_VECTOR_ELT(grown, 2, Rf_ScalarLogical(lacking));
  UNPROTECT(1);
  return grown;
}

// ffi_nodes_ready waits until workers that are starting are ready and have replayed what the others
// were given, or won't come. NULL, or the outcome of one that can't be used.
SEXP ffi_nodes_ready(SEXP nodes) {
  enum ffi_outcome outcome;
  for (R_xlen_t i = 0; i < Rf_xlength(nodes);) {
    // Look it up each time: the wait runs the user's code.
    const struct mst_peer *peer = ffi_peer_of(VECTOR_ELT(nodes, i), &outcome);
    if (peer == NULL) return Rf_ScalarInteger((int)outcome);
    const struct mst_look look = look_at(peer);
    if (look.dead || (!look.resuming && !look.replaying)) {
      i++;
    } else {
      ffi_wait_slice(peer->cluster->session, FFI_SLICE_MS);
    }
  }
  return R_NilValue;
}

// ffi_cluster_revive restarts the workers that were given up because the system lacked a resource,
// and waits until they are back, or given up again. NULL, or an outcome.
SEXP ffi_cluster_revive(SEXP pointer) {
  enum ffi_outcome outcome;
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) return Rf_ScalarInteger((int)outcome);
  uint32_t left = mst_cluster_revive(cluster);
  while (left > 0) {
    ffi_wait_slice(cluster->session, FFI_SLICE_MS);
    cluster = ffi_cluster_of(pointer, &outcome);
    if (cluster == NULL) break;
    left = 0;
    for (uint32_t i = 0; i < cluster->calls.pool.count; i++)
      left += look_at(cluster->peers[i]).resuming;
  }
  return R_NilValue;
}

// retire asks the workers with these ranks to end. Returns how many others are alive.
static uint32_t retire(struct mst_cluster *cluster, SEXP ranks) {
  for (R_xlen_t i = 0; i < Rf_xlength(ranks); i++) {
    mst_peer_retire(cluster->peers[INTEGER(ranks)[i] - 1]);
  }
  uint32_t others = 0;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    others += look_at(cluster->peers[i]).lives;
  }
  return others;
}

// retired tells whether all of these have ended, and closes their peers. R code that ran since the
// last call may have closed the cluster.
static int retired(struct mst_cluster *cluster, SEXP ranks) {
  int all = 1;
  if (cluster->closed) return 1;
  for (R_xlen_t i = 0; i < Rf_xlength(ranks); i++) {
    struct mst_peer *peer = cluster->peers[INTEGER(ranks)[i] - 1];
    if (look_at(peer).awaited) {
      all = 0;
    } else {
      mst_peer_close(peer, 1);
    }
  }
  return all;
}

static int is_there(const struct mst_session *session, uint32_t id) {
  const struct mst_cluster *cluster = session->clusters;
  while (cluster != NULL && cluster->id != id)
    cluster = cluster->next;
  return cluster != NULL;
}

static int was_restarted(const struct mst_cluster *cluster) {
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    if (look_at(cluster->peers[i]).epoch > 0) return 1;
  }
  return 0;
}

// ffi_cluster_stop stops the workers with these ranks, and the cluster with its last worker, and
// waits until they are reaped and their directories removed. TRUE if any worker had been restarted.
// An interrupt ends only the wait: the workers end as requested.
SEXP ffi_cluster_stop(SEXP pointer, SEXP ranks) {
  enum ffi_outcome outcome;
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) return Rf_ScalarInteger((int)outcome);
  struct mst_session *session = cluster->session;
  const int restarted = was_restarted(cluster);
  if (retire(cluster, ranks) > 0) {
    while (!retired(cluster, ranks) || session->trash != NULL) {
      ffi_run_slice(session, FFI_SLICE_MS);
      ffi_check_interrupt(NULL, NULL);
    }
    return Rf_ScalarLogical(restarted);
  }
  mst_cluster_stop(cluster);
  R_ClearExternalPtr(pointer);
  cluster->abandoned = 1;
  const uint32_t id = cluster->id;
  for (;;) {
    ffi_run_slice(session, FFI_SLICE_MS);
    if (!is_there(session, id) && session->trash == NULL)
      return Rf_ScalarLogical(restarted);
    ffi_check_interrupt(NULL, NULL);
  }
}

SEXP ffi_cluster_status(SEXP pointer) {
  enum ffi_outcome outcome;
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) return Rf_ScalarInteger((int)outcome);
  ffi_run_slice(cluster->session, 0);
  const uint32_t n = cluster->calls.pool.count; // finalizers may add some
  SEXP list = PROTECT(Rf_allocVector(VECSXP, (R_xlen_t)n));
  for (uint32_t i = 0; i < n; i++) {
    SET_VECTOR_ELT(list, (R_xlen_t)i, describe_peer(cluster->peers[i]));
  }
  UNPROTECT(1);
  return list;
}

// ffi_node_outcome gives the reason why a node can't be used, or 0.
SEXP ffi_node_outcome(SEXP node) {
  enum ffi_outcome outcome;
  const struct mst_peer *peer = ffi_peer_of(node, &outcome);
  return Rf_ScalarInteger(peer == NULL ? (int)outcome : 0);
}

// ffi_node_look describes a worker's current state, without waiting.
SEXP ffi_node_look(SEXP node) {
  enum ffi_outcome outcome;
  struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer == NULL) return Rf_ScalarInteger((int)outcome);
  ffi_run_slice(peer->cluster->session, 0);
  return describe_peer(peer);
}

// ffi_node_heals serves the session for a moment and tells whether the worker is being replaced if
// it is gone, or would be if it is lost.
SEXP ffi_node_heals(SEXP node) {
  enum ffi_outcome outcome;
  const struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer == NULL) return Rf_ScalarLogical(0);
  ffi_wait_slice(peer->cluster->session, 2);
  peer = ffi_peer_of(node, &outcome);
  return Rf_ScalarLogical(peer != NULL && peer->cluster->calls.policy.on &&
                          !look_at(peer).dead);
}

// ffi_node_status waits until it is known how a lost worker ended, or that nobody can tell.
SEXP ffi_node_status(SEXP node) {
  enum ffi_outcome outcome;
  struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer != NULL) ffi_run_slice(peer->cluster->session, 0);
  while (peer != NULL && look_at(peer).ending) {
    ffi_wait_slice(peer->cluster->session, FFI_SLICE_MS);
    peer = ffi_peer_of(node, &outcome); // a handler may have stopped it
  }
  return peer == NULL ? Rf_ScalarInteger((int)outcome) : describe_peer(peer);
}

// ffi_node_host gives the name of the host of the worker to which a node's pointer refers.
SEXP ffi_node_host(SEXP pointer) {
  const struct mst_peer *peer = ffi_address_of(pointer, ffi_node_tag());
  return peer == NULL ? Rf_ScalarString(NA_STRING)
                      : Rf_mkString(peer->host->name);
}

// ffi_node_pid gives the last known pid once the cluster is stopped; NA in a copy.
SEXP ffi_node_pid(SEXP node) {
  enum ffi_outcome outcome;
  const struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer == NULL) return ffi_noted(node, FFI_NOTE_PID);
  SEXP pid = PROTECT(pid_of(look_at(peer).pid));
  ffi_note(node, FFI_NOTE_PID, pid);
  UNPROTECT(1);
  return pid;
}

// ffi_node_kill kills a worker for good and waits until it is gone: TRUE, or FALSE if it already
// was; or an outcome.
SEXP ffi_node_kill(SEXP node) {
  enum ffi_outcome outcome;
  struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer == NULL) return Rf_ScalarInteger((int)outcome);
  struct mst_session *session = peer->cluster->session;
  ffi_run_slice(session, 0);
  if (look_at(peer).dead) return Rf_ScalarLogical(0);
  const int64_t deadline_ns = mst_clock_now() + 5 * MST_NS_PER_S;
  mst_peer_kill(peer);
  while (look_at(peer).awaited && mst_clock_now() < deadline_ns) {
    ffi_run_slice(session, 5);
    ffi_check_interrupt(NULL, NULL);
  }
  return Rf_ScalarLogical(1);
}
