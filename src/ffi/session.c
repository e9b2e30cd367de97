// The session's fork servers and clusters, as external pointers.
//
// A cluster's pointer owns the cluster; each node's pointer is kept alive by it
// and names a peer in it. Stopping clears the cluster's pointer, so that every
// node, wherever a copy of it is, knows. A pointer that was serialized comes
// back as NULL: copies in workers and files are inert.
//
// Finalizers may run in the middle of any allocation, so they neither wait nor
// read: a cluster that nobody refers to is told to stop and freed later, by
// whoever runs the session next.
#include "ffi/ffi.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"

struct owned_server {
  struct owned_server *next;
  struct mst_server *server;
};

static struct mst_session *session_now;
static struct owned_server *servers;
static char build_text[64] = "unconfigured";
static int session_fd = -1; // pidfd of this process, for its children

struct mst_session *ffi_session_or_null(void) {
  return session_now != NULL && session_now->owner == getpid() ? session_now
                                                               : NULL;
}

static enum mst_loop_backend backend_wanted(void) {
  const char *name = getenv("MUSTER_LOOP");
  if (name != NULL && strcmp(name, "poll") == 0) return MST_LOOP_POLL;
  return MST_LOOP_BEST;
}

struct mst_session *ffi_session(void) {
  struct mst_session *session = ffi_session_or_null();
  if (session != NULL) return session;
  struct mst_err err;
  mst_err_clear(&err);
  session = malloc(sizeof *session);
  if (session == NULL ||
      mst_session_open(session, backend_wanted(), build_text, &err) != 0) {
    free(session);
    Rf_error("can't open the session's loop: %s: %s", err.call, err.text);
  }
  // A parent's session stays behind: its descriptors are shared with the parent
  // and must not be touched from here.
  session_now = session;
  servers = NULL;
  session_fd = mst_proc_pidfd(getpid());
  mst_net_raise(&session_fd, 1024);
  return session;
}

SEXP ffi_session_configure(SEXP build) {
  strncpy(build_text, CHAR(STRING_ELT(build, 0)), sizeof build_text - 1);
  return R_NilValue;
}

const char *ffi_build(void) { return build_text; }

// Symbols are never collected; looking one up costs 50 ns, which a call pays for.
static SEXP symbol(SEXP *known, const char *name) {
  if (*known == NULL) *known = Rf_install(name);
  return *known;
}

static SEXP cluster_tag(void) {
  static SEXP tag;
  return symbol(&tag, "muster_cluster_pointer");
}

static SEXP node_tag(void) {
  static SEXP tag;
  return symbol(&tag, "muster_node_pointer");
}

static SEXP server_tag(void) {
  static SEXP tag;
  return symbol(&tag, "muster_server_pointer");
}

static void *address_of(SEXP pointer, SEXP tag) {
  if (TYPEOF(pointer) != EXTPTRSXP || R_ExternalPtrTag(pointer) != tag) {
    return NULL;
  }
  return R_ExternalPtrAddr(pointer);
}

struct mst_cluster *ffi_cluster_of(SEXP pointer, enum ffi_outcome *outcome) {
  struct mst_cluster *cluster = address_of(pointer, cluster_tag());
  *outcome = FFI_STOPPED;
  if (cluster == NULL) return NULL;
  *outcome = FFI_FOREIGN;
  return cluster->session->owner == getpid() ? cluster : NULL;
}

struct mst_peer *ffi_peer_of(SEXP node, enum ffi_outcome *outcome) {
  static SEXP name;
  SEXP pointer = Rf_getAttrib(node, symbol(&name, "peer"));
  struct mst_peer *peer = address_of(pointer, node_tag());
  *outcome = FFI_FOREIGN;
  if (peer == NULL) return NULL;
  if (ffi_cluster_of(R_ExternalPtrProtected(pointer), outcome) == NULL) {
    return NULL;
  }
  *outcome = FFI_STOPPED;
  return mst_peer_worker(peer)->stop_ns == INT64_MAX ? peer : NULL;
}

// ---- waiting

// run_slice serves the session for a while and frees abandoned clusters that
// are down. R errors and interrupts are raised by the caller.
static void run_slice(struct mst_session *session, int timeout_ms) {
  (void)mst_session_run(session, timeout_ms, NULL);
  for (struct mst_cluster *cluster = session->clusters, *next; cluster != NULL;
       cluster = next) {
    next = cluster->next;
    if (cluster->abandoned && cluster->stopped) mst_cluster_free(cluster);
  }
}

static int64_t deadline_from(SEXP timeout_s) {
  const double s = Rf_asReal(timeout_s);
  if (!(s < 1e9)) return INT64_MAX / 2;
  return mst_clock_now() + (int64_t)(s * (double)MST_NS_PER_S);
}

static SEXP error_list(const struct mst_err *err) {
  static const char *const names[] = {"error", "call", "errno"};
  SEXP list = PROTECT(ffi_list(3, names));
  SET_VECTOR_ELT(list, 0, ffi_text(err->text, strlen(err->text)));
  SET_VECTOR_ELT(list, 1, Rf_mkString(err->call));
  SET_VECTOR_ELT(list, 2, Rf_ScalarInteger(err->sys_errno));
  UNPROTECT(1);
  return list;
}

static SEXP tail_text(const struct mst_tail *tail) {
  char *text = R_alloc(MST_TAIL_BYTES, 1);
  return ffi_text(text, mst_tail_read(tail, text));
}

// c_strings copies a character vector to a NULL-ended array of R's memory.
static char **c_strings(SEXP strings) {
  const R_xlen_t n = Rf_xlength(strings);
  char **list = (char **)(void *)R_alloc((size_t)n + 1, sizeof(char *));
  for (R_xlen_t i = 0; i < n; i++) {
    const char *text = Rf_translateChar(STRING_ELT(strings, i));
    list[i] = R_alloc(strlen(text) + 1, 1);
    memcpy(list[i], text, strlen(text) + 1);
  }
  list[n] = NULL;
  return list;
}

static void fill_spawn(struct mst_spawn *spawn, SEXP file, SEXP argv,
                       SEXP env) {
  spawn->file = Rf_translateChar(STRING_ELT(file, 0));
  spawn->argv = c_strings(argv);
  spawn->env = (const char *const *)c_strings(env);
  spawn->fds[0] = spawn->fds[1] = -1;
  spawn->fds[2] = session_fd;
  spawn->output = -1;
}

// blob_of serializes x into a blob of its own. Raises R errors; a blob that was
// begun is kept for the next call rather than lost.
static struct mst_blob *blob_of(SEXP x) {
  static struct mst_blob *begun;
  mst_blob_release(begun);
  begun = mst_blob_new();
  if (begun == NULL) Rf_error("no memory");
  ffi_serialize(x, &begun->buf);
  struct mst_blob *blob = begun;
  begun = NULL;
  return blob;
}

// ---- fork servers

static void forget_server(struct mst_server *server) {
  for (struct owned_server **at = &servers; *at != NULL; at = &(*at)->next) {
    if ((*at)->server == server) {
      struct owned_server *gone = *at;
      *at = gone->next;
      free(gone);
      return;
    }
  }
}

static struct mst_server *server_of(SEXP pointer) {
  struct mst_server *server = address_of(pointer, server_tag());
  return server != NULL && server->owner == getpid() ? server : NULL;
}

SEXP ffi_server_start(SEXP file, SEXP argv, SEXP env, SEXP setup) {
  struct mst_session *session = ffi_session();
  struct mst_spawn spawn;
  fill_spawn(&spawn, file, argv, env);
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, server_tag(), R_NilValue));
  struct mst_blob *blob = blob_of(setup);
  struct owned_server *owned = malloc(sizeof *owned);
  struct mst_err err;
  mst_err_clear(&err);
  int rc = -MST_EMEM;
  if (owned != NULL) {
    rc = mst_server_start(session->loop, &spawn, blob, mst_session_news,
                          session, &owned->server, &err);
  }
  mst_blob_release(blob);
  if (rc != 0) {
    free(owned);
    UNPROTECT(1);
    return error_list(&err);
  }
  owned->next = servers;
  servers = owned;
  R_SetExternalPtrAddr(pointer, owned->server);
  UNPROTECT(1);
  return pointer;
}

static int is_over(const struct mst_server *server) {
  return server->state != MST_SERVER_BOOTING &&
         server->state != MST_SERVER_READY;
}

// ffi_server_wait waits until the server is ready or has ended (then also for
// its last words and its exit). TRUE if it is ready.
SEXP ffi_server_wait(SEXP pointer, SEXP timeout_s) {
  struct mst_server *server = server_of(pointer);
  if (server == NULL) return Rf_ScalarLogical(0);
  struct mst_session *session = ffi_session();
  const int64_t deadline_ns = deadline_from(timeout_s);
  while (server->state == MST_SERVER_BOOTING &&
         mst_clock_now() < deadline_ns) {
    run_slice(session, FFI_SLICE_MS);
    R_CheckUserInterrupt();
  }
  const int64_t end_ns = mst_clock_now() + MST_NS_PER_S;
  while (is_over(server) && mst_server_reap(server) == 0 &&
         mst_clock_now() < end_ns) {
    run_slice(session, 1);
  }
  mst_output_drain(&server->output);
  return Rf_ScalarLogical(server->state == MST_SERVER_READY);
}

SEXP ffi_server_state(SEXP pointer) {
  struct mst_server *server = server_of(pointer);
  if (server == NULL) return R_NilValue;
  static const char *const states[] = {"booting", "ready", "refused", "failed",
                                       "gone"};
  static const char *const names[] = {"state",  "pid",  "text",   "output",
                                      "how",    "number", "threads"};
  // A server that ended since it was last used says so by its channel.
  run_slice(ffi_session(), 0);
  SEXP list = PROTECT(ffi_list(7, names));
  SET_VECTOR_ELT(list, 0, Rf_mkString(states[server->state]));
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger((int)server->pid));
  SET_VECTOR_ELT(list, 2, ffi_text(server->text, strlen(server->text)));
  SET_VECTOR_ELT(list, 3, tail_text(&server->output.tail));
  SET_VECTOR_ELT(list, 4, Rf_ScalarInteger((int)server->how));
  SET_VECTOR_ELT(list, 5, Rf_ScalarInteger(server->number));
  SET_VECTOR_ELT(list, 6, Rf_ScalarInteger(server->threads));
  UNPROTECT(1);
  return list;
}

static int launches_for_someone(const struct mst_server *server) {
  const struct mst_session *session = ffi_session_or_null();
  for (const struct mst_cluster *cluster =
           session == NULL ? NULL : session->clusters;
       cluster != NULL; cluster = cluster->next) {
    if (cluster->launcher == &server->launcher) return 1;
  }
  return 0;
}

// ffi_server_end ends a server that no cluster uses. FALSE if one does.
SEXP ffi_server_end(SEXP pointer) {
  struct mst_server *server = server_of(pointer);
  if (server == NULL) return Rf_ScalarLogical(1);
  if (launches_for_someone(server)) return Rf_ScalarLogical(0);
  mst_server_end(server);
  const int64_t deadline_ns = mst_clock_now() + 2 * MST_NS_PER_S;
  while (mst_server_reap(server) == 0 && mst_clock_now() < deadline_ns) {
    (void)poll(NULL, 0, 1);
  }
  R_ClearExternalPtr(pointer);
  forget_server(server);
  mst_server_free(server);
  return Rf_ScalarLogical(1);
}

// ---- clusters

// A pointer that nobody refers to any more: stop, without waiting.
static void finalize_cluster(SEXP pointer) {
  enum ffi_outcome outcome;
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) return;
  R_ClearExternalPtr(pointer);
  cluster->abandoned = 1;
  mst_cluster_stop(cluster);
}

SEXP ffi_cluster_abandon(SEXP pointer) {
  finalize_cluster(pointer);
  return R_NilValue;
}

static SEXP peer_failure(const struct mst_peer *peer) {
  return peer->failure == NULL ? R_NilValue
                               : ffi_text(peer->failure, strlen(peer->failure));
}

// describe_peer gives what is known of one worker, as R code wants it.
static SEXP describe_peer(const struct mst_peer *peer) {
  static const char *const names[] = {"worker", "pid",    "state",  "done",
                                      "how",    "number", "output", "failure",
                                      "tempdir"};
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
  SET_VECTOR_ELT(list, 6, tail_text(&peer->output.tail));
  SET_VECTOR_ELT(list, 7, peer_failure(peer));
  SET_VECTOR_ELT(list, 8, Rf_mkString(peer->tempdir == NULL ? ""
                                                            : peer->tempdir));
  UNPROTECT(1);
  return list;
}

// start_outcome describes why a start failed.
static SEXP start_outcome(const struct mst_cluster *cluster) {
  static const char *const fails[] = {"none",     "launch",   "setup",
                                      "exited",   "deadline", "stopped"};
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
        R_MakeExternalPtr(&cluster->peers[i], node_tag(), pointer));
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
    run_slice(cluster->session, FFI_SLICE_MS);
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
  struct mst_blob *blob = blob_of(setup);
  struct mst_spawner *spawner = NULL;
  struct mst_launcher *launcher = NULL;
  struct mst_cluster *cluster = NULL;
  if (spawn != R_NilValue) {
    struct mst_spawn how;
    fill_spawn(&how, VECTOR_ELT(spawn, 0), VECTOR_ELT(spawn, 1),
               VECTOR_ELT(spawn, 2));
    spawner = mst_spawner_new(&how, mst_session_news, session);
    if (spawner != NULL) launcher = mst_spawner_launcher(spawner);
  } else if (server_of(server) != NULL) {
    launcher = &server_of(server)->launcher;
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
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, cluster_tag(), server));
  struct mst_cluster *cluster = make_cluster(
      (uint32_t)Rf_asInteger(workers), server, spawn, window, setup, &err);
  if (cluster == NULL) {
    UNPROTECT(1);
    return error_list(&err);
  }
  R_SetExternalPtrAddr(pointer, cluster);
  struct starting starting = {.cluster = cluster, .pointer = pointer};
  mst_cluster_start(cluster, deadline_from(timeout_s));
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
  while (cluster != NULL && cluster->id != id) cluster = cluster->next;
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
      run_slice(session, FFI_SLICE_MS);
      R_CheckUserInterrupt();
    }
    return R_NilValue;
  }
  mst_cluster_stop(cluster);
  R_ClearExternalPtr(pointer);
  cluster->abandoned = 1;
  const uint32_t id = cluster->id;
  for (;;) {
    run_slice(session, FFI_SLICE_MS);
    if (!is_there(session, id)) return R_NilValue;
    R_CheckUserInterrupt();
  }
}

SEXP ffi_cluster_status(SEXP pointer) {
  enum ffi_outcome outcome;
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) return Rf_ScalarInteger((int)outcome);
  run_slice(cluster->session, 0);
  SEXP list =
      PROTECT(Rf_allocVector(VECSXP, (R_xlen_t)cluster->pool.count));
  for (uint32_t i = 0; i < cluster->pool.count; i++) {
    SET_VECTOR_ELT(list, (R_xlen_t)i, describe_peer(&cluster->peers[i]));
  }
  UNPROTECT(1);
  return list;
}

SEXP ffi_node_status(SEXP node) {
  enum ffi_outcome outcome;
  struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer == NULL) return Rf_ScalarInteger((int)outcome);
  // How a lost worker ended may be known a moment after that it did.
  const int64_t deadline_ns = mst_clock_now() + 300 * MST_NS_PER_MS;
  do {
    run_slice(peer->cluster->session, 5);
  } while (mst_peer_worker(peer)->state == MST_WORKER_LOST &&
           !mst_peer_worker(peer)->exit_known &&
           mst_clock_now() < deadline_ns);
  return describe_peer(peer);
}

// ffi_session_tempdirs gives the temporary directories of all workers that are
// not known to have ended.
SEXP ffi_session_tempdirs(void) {
  const struct mst_session *session = ffi_session_or_null();
  R_xlen_t n = 0;
  for (const struct mst_cluster *cluster =
           session == NULL ? NULL : session->clusters;
       cluster != NULL; cluster = cluster->next) {
    n += (R_xlen_t)cluster->pool.count;
  }
  SEXP paths = PROTECT(Rf_allocVector(STRSXP, n)); // "" where there is none
  n = 0;
  for (const struct mst_cluster *cluster =
           session == NULL ? NULL : session->clusters;
       cluster != NULL; cluster = cluster->next) {
    for (uint32_t i = 0; i < cluster->pool.count; i++, n++) {
      const struct mst_peer *peer = &cluster->peers[i];
      if (peer->tempdir == NULL || !mst_peer_worker(peer)->awaited) continue;
      SET_STRING_ELT(paths, n, Rf_mkChar(peer->tempdir));
    }
  }
  UNPROTECT(1);
  return paths;
}

// ffi_session_end ends all clusters and servers of this process and waits for
// the servers, who remove what their workers left. For the end of R.
SEXP ffi_session_end(SEXP timeout_s) {
  struct mst_session *session = ffi_session_or_null();
  if (session == NULL) return R_NilValue;
  const int64_t deadline_ns = deadline_from(timeout_s);
  while (session->clusters != NULL) mst_cluster_free(session->clusters);
  for (struct owned_server *at = servers; at != NULL; at = at->next) {
    mst_server_end(at->server);
  }
  while (servers != NULL) {
    struct owned_server *owned = servers;
    while (mst_server_reap(owned->server) == 0 &&
           mst_clock_now() < deadline_ns) {
      (void)poll(NULL, 0, 1);
    }
    servers = owned->next;
    mst_server_free(owned->server);
    free(owned);
  }
  mst_session_close(session);
  free(session);
  session_now = NULL;
  mst_net_close(&session_fd);
  return R_NilValue;
}
