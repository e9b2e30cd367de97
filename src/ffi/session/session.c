// This process's session, and the external pointers of R's objects that belong to it.
//
// A pointer that was serialized comes back as NULL, so copies in workers and files are inert. In a
// forked child the parent's pointers are recognized as foreign.
#include "ffi/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"

static struct mst_session *session_now;
static int is_over;         // to be closed when R has left muster's entries
static int session_fd = -1; // pidfd of this process, for its children

struct mst_session *ffi_session_or_null(void) {
  return session_now != NULL && session_now->owner == ffi_self() ? session_now
                                                                 : NULL;
}

// Closed clusters: suspended entries may still have pointers to them.
static struct mst_cluster *closed;

// ---- giving a session up

static struct {
  uint32_t cluster_id;            // the last one given
  uint32_t count;                 // of sessions given up
  char what[MST_ASSERT_TEXT_MAX]; // the last assertion that failed
} failures;
// An entry uses the session, or was left by a jump while it did.
static int has_session;

#define GIVE_UPS 3
static void (*on_give_up[GIVE_UPS])(void);
void ffi_on_give_up(void (*then)(void)) {
  int i = 0;
  while (i < GIVE_UPS - 1 && on_give_up[i] != NULL)
    i++;
  on_give_up[i] = then;
}

// give_up: the session's memory stays, see mst_session_break.
static void give_up(struct mst_session *session, const char *what) {
  failures.count++;
  failures.cluster_id = session->cluster_id;
  (void)snprintf(failures.what, sizeof failures.what, "%s", what);
  session_now = NULL;
  is_over = 0;
  mst_session_break(session);
  for (int i = 0; i < GIVE_UPS; i++) {
    if (on_give_up[i] != NULL) on_give_up[i]();
  }
  mst_net_close(&session_fd);
}

int ffi_session_failed(const char *what) {
  struct mst_session *session = has_session ? ffi_session_or_null() : NULL;
  if (session == NULL) return 0;
  give_up(session, what);
  return 1;
}

uint32_t ffi_session_failures(void) { return failures.count; }

// ffi_session_failure gives the assertion that made this process give up its last session, or NULL.
SEXP ffi_session_failure(void) {
  return failures.count == 0 ? R_NilValue : Rf_mkString(failures.what);
}

// ffi_session_assert fails an assertion within an entry, for tests.
SEXP ffi_session_assert(void) {
  MST_ASSERT(0 && "asked for by a test");
  return R_NilValue;
}

// ---- entries

// The session was lent by this process or, before the fork, by its parent.
static void take_session(void) {
  struct mst_session *session = ffi_session_or_null();
  has_session = 1;
  if (session == NULL) return;
  mst_session_take(session);
  const char *failure = mst_session_failure(session);
  if (failure != NULL) give_up(session, failure);
}

static void close_now(struct mst_session *session) {
  mst_session_close(session);
  free(session);
  session_now = NULL;
  is_over = 0;
  mst_net_close(&session_fd);
}

static void lend_session(void) {
  struct mst_session *session = ffi_session_or_null();
  if (session != NULL && is_over) {
    close_now(session);
  } else if (session != NULL) {
    mst_session_lend(session);
  }
  has_session = 0;
}

static void free_closed(void) {
  while (closed != NULL) {
    struct mst_cluster *cluster = closed;
    closed = cluster->next_closed;
    mst_cluster_free(cluster);
  }
}

static void follow_entries(void) {
  static int is_done; // in this process or its parent
  if (is_done) return;
  is_done = 1;
  ffi_on_entries(&(struct ffi_on_entries){
      .begin = take_session, .outside = free_closed, .end = lend_session});
}

static enum mst_loop_backend backend_wanted(void) {
  const char *name = getenv("MUSTER_LOOP");
  if (name != NULL && strcmp(name, "poll") == 0) return MST_LOOP_POLL;
  return MST_LOOP_BEST;
}

struct mst_session *ffi_session(void) {
  struct mst_session *session = ffi_session_or_null();
  is_over = 0;
  if (session != NULL) return session;
  struct mst_err err;
  mst_err_clear(&err);
  session = malloc(sizeof *session);
  if (session == NULL ||
      mst_session_open(session, backend_wanted(), ffi_build(), &err) != 0) {
    free(session);
    Rf_error("can't open the session's loop: %s: %s", err.call, err.text);
  }
  // A parent's session stays behind: its descriptors are shared with the parent and must not be
  // touched.
  session_now = session;
  session->cluster_id = failures.cluster_id; // R code knows clusters by number
  follow_entries();
  has_session = 1; // for entries that began before
  session_fd = mst_proc_pidfd(getpid());
  mst_net_raise(&session_fd);
  return session;
}

int ffi_session_fd(void) { return session_fd; }

SEXP ffi_cluster_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_cluster_pointer");
}

SEXP ffi_node_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_node_pointer");
}

struct mst_cluster *ffi_cluster_of(SEXP pointer, enum ffi_outcome *outcome) {
  struct mst_cluster *cluster = ffi_address_of(pointer, ffi_cluster_tag());
  *outcome = FFI_STOPPED;
  if (cluster == NULL) return NULL;
  *outcome = FFI_FOREIGN;
  if (cluster->session->owner != ffi_self()) return NULL;
  *outcome = FFI_BROKEN;
  return cluster->session->broken ? NULL : cluster;
}

struct mst_peer *ffi_peer_of(SEXP node, enum ffi_outcome *outcome) {
  static SEXP name;
  SEXP pointer = Rf_getAttrib(node, ffi_symbol(&name, "peer"));
  struct mst_peer *peer = ffi_address_of(pointer, ffi_node_tag());
  *outcome = FFI_FOREIGN;
  if (peer == NULL) return NULL;
  if (ffi_cluster_of(R_ExternalPtrProtected(pointer), outcome) == NULL) {
    return NULL;
  }
  *outcome = FFI_STOPPED;
  return mst_peer_ends(peer) ? NULL : peer;
}

void ffi_cluster_close(struct mst_cluster *cluster) {
  mst_cluster_close(cluster);
  cluster->next_closed = closed;
  closed = cluster;
}

void ffi_run_slice(struct mst_session *session, int timeout_ms) {
  (void)mst_session_run(session, timeout_ms, NULL);
  ffi_later_now();
  for (struct mst_cluster *cluster = session->clusters, *next; cluster != NULL;
       cluster = next) {
    next = cluster->next;
    if (cluster->abandoned && cluster->stopped) ffi_cluster_close(cluster);
  }
}

static int is_booting(const struct mst_session *session) {
  for (const struct mst_cluster *cluster = session->clusters; cluster != NULL;
       cluster = cluster->next) {
    if (cluster->calls.pool.in_flight > 0 || cluster->calls.pool.again > 0)
      return 1;
  }
  return 0;
}

// ffi_session_tempdirs gives the temporary directories of all workers that aren't known to have
// ended; NULL while some worker is booting.
SEXP ffi_session_tempdirs(void) {
  struct mst_session *session = ffi_session_or_null();
  if (session != NULL) ffi_run_slice(session, 0);
  if (session != NULL && is_booting(session)) return R_NilValue;
  const struct mst_cluster *first = session == NULL ? NULL : session->clusters;
  R_xlen_t n = 0;
  for (const struct mst_cluster *at = first; at != NULL; at = at->next)
    n += (R_xlen_t)at->calls.pool.count;
  SEXP paths = PROTECT(Rf_allocVector(STRSXP, n)); // "" for the rest
  R_xlen_t k = 0;
  for (const struct mst_cluster *at = first; at != NULL; at = at->next) {
    // Finalizers may have added workers.
    for (uint32_t i = 0; i < at->calls.pool.count && k < n; i++) {
      const struct mst_peer *peer = at->peers[i];
      if (peer->tempdir == NULL || !peer->worker->awaited ||
          !peer->host->shares_files) {
        continue;
      }
      SEXP path = PROTECT(ffi_text_at(&peer->tempdir));
      SET_STRING_ELT(paths, k++, STRING_ELT(path, 0));
      UNPROTECT(1);
    }
  }
  UNPROTECT(1);
  return paths;
}

struct mst_cluster *ffi_clusters(void) {
  const struct mst_session *session = ffi_session_or_null();
  return session == NULL ? NULL : session->clusters;
}

struct mst_cluster *ffi_cluster_with(uint32_t id) {
  struct mst_cluster *at = ffi_clusters();
  while (at != NULL && at->id != id)
    at = at->next;
  return at;
}

void ffi_fill_spawn(struct mst_spawn *spawn, SEXP file, SEXP argv, SEXP env) {
  *spawn = (struct mst_spawn){.file = Rf_translateChar(STRING_ELT(file, 0)),
                              .argv = ffi_strings(argv),
                              .env = (const char *const *)ffi_strings(env),
                              .fds = {-1, -1, ffi_session_fd()},
                              .output = -1,
                              .errors = -1,
                              .input = -1};
}

void ffi_session_close(void) { is_over = 1; }
