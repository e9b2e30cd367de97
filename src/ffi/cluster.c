// Clusters as external pointers: start, stop, what is known of their workers.
//
// A cluster's pointer owns the cluster; each node's pointer is kept alive by it
// and names a peer in it. Stopping clears the cluster's pointer, so that every
// node, wherever a copy of it is, knows.
//
// Finalizers may run in the middle of any allocation, so they neither wait nor
// read: a cluster that nobody refers to is told to stop and freed later, by
// whoever runs the session next.
#include <string.h>

#include "base/mst_clock.h"
#include "ffi/ffi.h"

// A pointer that nobody refers to any more: stop, without waiting.
static void finalize_cluster(SEXP pointer) {
  enum ffi_outcome outcome;
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) return;
  R_ClearExternalPtr(pointer);
  cluster->abandoned = 1;
  mst_cluster_stop(cluster);
}

static SEXP peer_failure(const struct mst_peer *peer) {
  return peer->failure == NULL ? R_NilValue
                               : ffi_text(peer->failure, strlen(peer->failure));
}

// describe_peer gives what is known of one worker, as R code wants it.
static SEXP describe_peer(const struct mst_peer *peer) {
  static const char *const names[] = {"worker", "pid",     "state",
                                      "done",   "how",     "number",
                                      "output", "failure", "tempdir"};
  const struct mst_worker *worker = mst_peer_worker(peer);
  SEXP list = PROTECT(ffi_list(9, names));
  SET_VECTOR_ELT(list, 0, Rf_ScalarInteger((int)peer->index + 1));
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger((int)worker->pid));
  SET_VECTOR_ELT(list, 2, Rf_mkString(mst_worker_state_name(worker->state)));
  SET_VECTOR_ELT(list, 3, Rf_ScalarReal((double)worker->done));
  SET_VECTOR_ELT(list, 4,
                 Rf_ScalarInteger(worker->exit_known ? (int)worker->exit_how
                                                     : MST_EXIT_NONE));
  SET_VECTOR_ELT(list, 5, Rf_ScalarInteger(worker->exit_number));
  SET_VECTOR_ELT(list, 6, ffi_tail_text(&peer->output.tail));
  SET_VECTOR_ELT(list, 7, peer_failure(peer));
  SET_VECTOR_ELT(list, 8,
                 Rf_mkString(peer->tempdir == NULL ? "" : peer->tempdir));
  UNPROTECT(1);
  return list;
}

// start_outcome describes why a start failed.
static SEXP start_outcome(const struct mst_cluster *cluster) {
  static const char *const fails[] = {"none",   "launch",   "setup",
                                      "exited", "deadline", "stopped"};
  static const char *const names[] = {"fail", "errno", "peer"};
  const struct mst_pool *pool = &cluster->pool;
  SEXP list = PROTECT(ffi_list(3, names));
  SET_VECTOR_ELT(list, 0, Rf_mkString(fails[pool->fail]));
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger(pool->fail_number));
  SET_VECTOR_ELT(list, 2, describe_peer(&cluster->peers[pool->fail_worker]));
  UNPROTECT(1);
  return list;
}

static SEXP node_pointers(struct mst_cluster *cluster, SEXP pointer) {
  SEXP nodes = PROTECT(Rf_allocVector(VECSXP, (R_xlen_t)cluster->pool.count));
  for (uint32_t i = 0; i < cluster->pool.count; i++) {
    SET_VECTOR_ELT(
        nodes, (R_xlen_t)i,
        R_MakeExternalPtr(&cluster->peers[i], ffi_node_tag(), pointer));
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
  while (!cluster->started && !cluster->start_failed) {
    ffi_run_slice(cluster->session, FFI_SLICE_MS);
    R_CheckUserInterrupt();
  }
  return R_NilValue;
}

// When the wait is left by an interrupt or a time limit, the half-started
// cluster is taken down whole before that goes on.
static void leave_start(void *data, Rboolean jump) {
  struct starting *starting = data;
  if (!jump) return;
  struct mst_cluster *cluster = starting->cluster;
  R_ClearExternalPtr(starting->pointer);
  mst_cluster_stop(cluster);
  while (!cluster->start_failed && !cluster->stopped) {
    (void)mst_session_run(cluster->session, FFI_SLICE_MS, NULL);
  }
  mst_cluster_free(cluster);
}

// make_cluster allocates everything that can fail before the cluster is shared
// with R. Returns NULL and fills err.
static struct mst_cluster *make_cluster(uint32_t workers, SEXP server,
                                        SEXP spawn, SEXP window, SEXP setup,
                                        struct mst_err *err) {
  struct mst_session *session = ffi_session();
  struct mst_blob *blob = ffi_blob_of(setup);
  struct mst_spawner *spawner = NULL;
  struct mst_launcher *launcher = NULL;
  struct mst_cluster *cluster = NULL;
  if (spawn != R_NilValue) {
    struct mst_spawn how;
    ffi_fill_spawn(&how, VECTOR_ELT(spawn, 0), VECTOR_ELT(spawn, 1),
                   VECTOR_ELT(spawn, 2));
    spawner = mst_spawner_new(&how, mst_session_news, session);
    if (spawner != NULL) launcher = mst_spawner_launcher(spawner);
  } else if (ffi_server_of(server) != NULL) {
    launcher = &ffi_server_of(server)->launcher;
  }
  if (launcher == NULL) {
    (void)mst_err_set(err, MST_EINPUT, 0, NULL, "there is no fork server");
  } else if (mst_cluster_new(session, workers, (uint32_t)Rf_asInteger(window),
                             launcher, spawner, blob, &cluster, err) != 0) {
    mst_spawner_free(spawner);
    cluster = NULL;
  }
  mst_blob_release(blob);
  return cluster;
}

// ffi_cluster_open starts a cluster and waits until it is there. Returns
// list(pointer, nodes), or a list that says why it failed.
SEXP ffi_cluster_open(SEXP workers, SEXP server, SEXP spawn, SEXP window,
                      SEXP setup, SEXP timeout_s) {
  static SEXP token;
  if (token == NULL) {
    token = R_MakeUnwindCont();
    R_PreserveObject(token);
  }
  struct mst_err err;
  mst_err_clear(&err);
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, ffi_cluster_tag(), server));
  struct mst_cluster *cluster = make_cluster(
      (uint32_t)Rf_asInteger(workers), server, spawn, window, setup, &err);
  if (cluster == NULL) {
    UNPROTECT(1);
    return ffi_error_list(&err);
  }
  R_SetExternalPtrAddr(pointer, cluster);
  struct starting starting = {.cluster = cluster, .pointer = pointer};
  mst_cluster_start(cluster, ffi_deadline(timeout_s));
  R_UnwindProtect(wait_started, &starting, leave_start, &starting, token);
  if (cluster->start_failed) {
    SEXP why = PROTECT(start_outcome(cluster));
    R_ClearExternalPtr(pointer);
    mst_cluster_free(cluster);
    UNPROTECT(2);
    return why;
  }
  R_RegisterCFinalizerEx(pointer, finalize_cluster, FALSE);
  static const char *const names[] = {"pointer", "nodes"};
  SEXP opened = PROTECT(ffi_list(2, names));
  SET_VECTOR_ELT(opened, 0, pointer);
  SET_VECTOR_ELT(opened, 1, node_pointers(cluster, pointer));
  UNPROTECT(2);
  return opened;
}

// lives tells whether a worker is there that was not asked to end.
static int lives(const struct mst_peer *peer) {
  const struct mst_worker *worker = mst_peer_worker(peer);
  return worker->awaited && worker->stop_ns == INT64_MAX;
}

// retire asks the workers with these ranks to end. Returns how many others live.
static uint32_t retire(struct mst_cluster *cluster, SEXP ranks) {
  for (R_xlen_t i = 0; i < Rf_xlength(ranks); i++) {
    mst_peer_retire(&cluster->peers[INTEGER(ranks)[i] - 1]);
  }
  uint32_t others = 0;
  for (uint32_t i = 0; i < cluster->pool.count; i++) {
    if (lives(&cluster->peers[i])) others++;
  }
  return others;
}

// retired tells whether all of these have ended, and closes what they had.
static int retired(struct mst_cluster *cluster, SEXP ranks) {
  int all = 1;
  for (R_xlen_t i = 0; i < Rf_xlength(ranks); i++) {
    struct mst_peer *peer = &cluster->peers[INTEGER(ranks)[i] - 1];
    if (mst_peer_worker(peer)->awaited) {
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

// ffi_cluster_stop stops the workers with these ranks, and the cluster with the
// last of them, and waits until they are reaped. An interrupt leaves the wait;
// the workers end all the same, since they were told to.
SEXP ffi_cluster_stop(SEXP pointer, SEXP ranks) {
  enum ffi_outcome outcome;
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) return Rf_ScalarInteger((int)outcome);
  struct mst_session *session = cluster->session;
  if (retire(cluster, ranks) > 0) {
    while (!retired(cluster, ranks)) {
      ffi_run_slice(session, FFI_SLICE_MS);
      R_CheckUserInterrupt();
    }
    return R_NilValue;
  }
  mst_cluster_stop(cluster);
  R_ClearExternalPtr(pointer);
  cluster->abandoned = 1;
  const uint32_t id = cluster->id;
  for (;;) {
    ffi_run_slice(session, FFI_SLICE_MS);
    if (!is_there(session, id)) return R_NilValue;
    R_CheckUserInterrupt();
  }
}

SEXP ffi_cluster_status(SEXP pointer) {
  enum ffi_outcome outcome;
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) return Rf_ScalarInteger((int)outcome);
  ffi_run_slice(cluster->session, 0);
  SEXP list = PROTECT(Rf_allocVector(VECSXP, (R_xlen_t)cluster->pool.count));
  for (uint32_t i = 0; i < cluster->pool.count; i++) {
    SET_VECTOR_ELT(list, (R_xlen_t)i, describe_peer(&cluster->peers[i]));
  }
  UNPROTECT(1);
  return list;
}

// ffi_node_outcome tells what keeps a node from being used, 0 if nothing does.
SEXP ffi_node_outcome(SEXP node) {
  enum ffi_outcome outcome;
  const struct mst_peer *peer = ffi_peer_of(node, &outcome);
  return Rf_ScalarInteger(peer == NULL ? (int)outcome : 0);
}

SEXP ffi_node_status(SEXP node) {
  enum ffi_outcome outcome;
  struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer == NULL) return Rf_ScalarInteger((int)outcome);
  // How a lost worker ended may be known a moment after that it did.
  const int64_t deadline_ns = mst_clock_now() + 300 * MST_NS_PER_MS;
  do {
    ffi_run_slice(peer->cluster->session, 5);
  } while (mst_peer_worker(peer)->state == MST_WORKER_LOST &&
           !mst_peer_worker(peer)->exit_known && mst_clock_now() < deadline_ns);
  return describe_peer(peer);
}
