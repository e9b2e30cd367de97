// This process's session, and the pointers by which R holds what belongs to it.
//
// A pointer that was serialized comes back as NULL: copies in workers and files
// are inert. In a forked child the parent's pointers are known as foreign.
#include "ffi/ffi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"

static struct mst_session *session_now;
static char build_text[64] = "unconfigured";
static int session_fd = -1; // pidfd of this process, for its children

static pid_t self; // 0: not asked for in this process

static void forget_self(void) { self = 0; }

pid_t ffi_self(void) {
  static int registered;
  if (self == 0) {
    if (!registered) (void)pthread_atfork(NULL, NULL, forget_self);
    registered = 1;
    self = getpid();
  }
  return self;
}

struct mst_session *ffi_session_or_null(void) {
  return session_now != NULL && session_now->owner == ffi_self() ? session_now
                                                                 : NULL;
}

// ---- jumps

static SEXP token;

// Several may be under way with one token: R keeps a jump there only from where it lands to
// where it goes on, and `done` runs no R in between.
SEXP ffi_unwind(SEXP (*fun)(void *), void *data,
                void (*done)(void *, Rboolean jump), void *done_data) {
  SEXP value = R_UnwindProtect(fun, data, done, done_data, token);
  SETCAR(token, R_NilValue); // R leaves the value there, and it may be large
  return value;
}

void ffi_unwind_init(void) {
  token = R_MakeUnwindCont();
  R_PreserveObject(token);
}

// ---- who has the session

// Clusters that are closed: entries that R left for a while may still have pointers to them.
static struct mst_cluster *closed;

static void free_closed(void) {
  while (closed != NULL) {
    struct mst_cluster *cluster = closed;
    closed = cluster->next_closed;
    mst_cluster_free(cluster);
  }
  ffi_servers_free_ended();
}

// What finalizers want done. They may run in any allocation, in the middle of an entry.
static struct ffi_later *later_first, **later_end = &later_first;

static void do_later(void) {
  while (later_first != NULL) {
    struct ffi_later *item = later_first;
    later_first = item->next;
    if (later_first == NULL) later_end = &later_first;
    item->run(item);
  }
}

// Entries that R is in, one inside the other.
static uint32_t depth;

uint32_t ffi_depth(void) { return depth; }

static void begin(void) {
  if (depth++ > 0) return;
  // Lent by this process or, before it was forked, by its parent.
  struct mst_session *session = ffi_session_or_null();
  if (session != NULL) mst_session_take(session);
  do_later();
  free_closed();
}

static void end(void) {
  ffi_let_go_from(depth);
  if (--depth > 0) return;
  do_later();
  free_closed();
  struct mst_session *session = ffi_session_or_null();
  if (session != NULL) mst_session_lend(session);
}

static void end_entry(void *data, Rboolean jump) {
  (void)data;
  (void)jump;
  end();
}

SEXP ffi_entry(SEXP (*fun)(void *), void *data) {
  begin();
  return ffi_unwind(fun, data, end_entry, NULL);
}

void ffi_do_later(struct ffi_later *item) {
  item->next = NULL;
  *later_end = item;
  later_end = &item->next;
  if (depth > 0) return; // it isn't forgotten
  begin();
  end();
}

struct guarded {
  void (*left)(void *);
  void *data;
};

static void end_guarded(void *data, Rboolean jump) {
  const struct guarded *guarded = data;
  if (jump && guarded->left != NULL) guarded->left(guarded->data);
}

void ffi_guarded(SEXP (*fun)(void *), void (*left)(void *), void *data) {
  struct guarded guarded = {.left = left, .data = data};
  ffi_unwind(fun, data, end_guarded, &guarded);
}

static SEXP check_interrupt(void *data) {
  (void)data;
  R_CheckUserInterrupt();
  return R_NilValue;
}

void ffi_check_interrupt(void (*left)(void *), void *data) {
  ffi_guarded(check_interrupt, left, data);
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
  ffi_servers_forget();
  session_fd = mst_proc_pidfd(getpid());
  mst_net_raise(&session_fd);
  return session;
}

SEXP ffi_session_configure(SEXP build) {
  strncpy(build_text, CHAR(STRING_ELT(build, 0)), sizeof build_text - 1);
  return R_NilValue;
}

int ffi_session_fd(void) { return session_fd; }

const char *ffi_build(void) { return build_text; }

// Symbols are never collected; looking one up costs 50 ns, which a call pays for.
SEXP ffi_symbol(SEXP *known, const char *name) {
  if (*known == NULL) *known = Rf_install(name);
  return *known;
}

SEXP ffi_cluster_tag(void) {
  static SEXP tag;
  return ffi_symbol(&tag, "muster_cluster_pointer");
}

SEXP ffi_node_tag(void) {
  static SEXP tag;
  return ffi_symbol(&tag, "muster_node_pointer");
}

void *ffi_address_of(SEXP pointer, SEXP tag) {
  if (TYPEOF(pointer) != EXTPTRSXP || R_ExternalPtrTag(pointer) != tag) {
    return NULL;
  }
  return R_ExternalPtrAddr(pointer);
}

struct mst_cluster *ffi_cluster_of(SEXP pointer, enum ffi_outcome *outcome) {
  struct mst_cluster *cluster = ffi_address_of(pointer, ffi_cluster_tag());
  *outcome = FFI_STOPPED;
  if (cluster == NULL) return NULL;
  *outcome = FFI_FOREIGN;
  return cluster->session->owner == ffi_self() ? cluster : NULL;
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
  return mst_peer_worker(peer)->stop_ns == INT64_MAX ? peer : NULL;
}

void ffi_cluster_close(struct mst_cluster *cluster) {
  mst_cluster_close(cluster);
  cluster->next_closed = closed;
  closed = cluster;
}

void ffi_run_slice(struct mst_session *session, int timeout_ms) {
  (void)mst_session_run(session, timeout_ms, NULL);
  do_later();
  for (struct mst_cluster *cluster = session->clusters, *next; cluster != NULL;
       cluster = next) {
    next = cluster->next;
    if (cluster->abandoned && cluster->stopped) ffi_cluster_close(cluster);
  }
}

int64_t ffi_deadline(SEXP timeout_s) {
  const double s = Rf_asReal(timeout_s);
  if (!(s < 1e9)) return INT64_MAX / 2;
  return mst_clock_now() + ffi_ns(s);
}

static int is_booting(const struct mst_session *session) {
  for (const struct mst_cluster *cluster = session->clusters; cluster != NULL;
       cluster = cluster->next) {
    if (cluster->calls.pool.in_flight > 0 || cluster->calls.pool.again > 0)
      return 1;
  }
  return 0;
}

// ffi_session_tempdirs gives the temporary directories of all workers that are
// not known to have ended; NULL while some worker hasn't told its own yet.
SEXP ffi_session_tempdirs(void) {
  struct mst_session *session = ffi_session_or_null();
  if (session != NULL) ffi_run_slice(session, 0);
  if (session != NULL && is_booting(session)) return R_NilValue;
  const struct mst_cluster *first = session == NULL ? NULL : session->clusters;
  R_xlen_t n = 0;
  for (const struct mst_cluster *at = first; at != NULL; at = at->next)
    n += (R_xlen_t)at->calls.pool.count;
  SEXP paths = PROTECT(Rf_allocVector(STRSXP, n)); // "" where there is none
  R_xlen_t k = 0;
  for (const struct mst_cluster *at = first; at != NULL; at = at->next) {
    // Finalizers may have added workers.
    for (uint32_t i = 0; i < at->calls.pool.count && k < n; i++) {
      const struct mst_peer *peer = at->peers[i];
      if (peer->tempdir == NULL || !mst_peer_worker(peer)->awaited) continue;
      SEXP path = PROTECT(ffi_text_at(&peer->tempdir));
      SET_STRING_ELT(paths, k++, STRING_ELT(path, 0));
      UNPROTECT(1);
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
  const int64_t deadline_ns = ffi_deadline(timeout_s);
  while (session->clusters != NULL)
    ffi_cluster_close(session->clusters);
  free_closed();
  ffi_servers_end(deadline_ns);
  mst_session_close(session);
  free(session);
  session_now = NULL;
  mst_net_close(&session_fd);
  return R_NilValue;
}
