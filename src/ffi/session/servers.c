// The session's fork servers, as external pointers.
//
// A server belongs to this list, not to its pointer: it stays with the session, and ends with it or
// when R code ends it.
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "ffi/session/session.h"

struct owned_server {
  struct owned_server *next;
  struct mst_server *server;
  uint32_t site; // the number of the one that waits until it has booted, or 0
  uint32_t link; // over which
};

static struct owned_server *servers;
// Entry points may still have pointers to these.
static struct owned_server *ended;

static SEXP server_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_server_pointer");
}

// Of this list: a forked child leaves its parent's servers alone.
static pid_t owner;

static void forget_parents(void) {
  if (owner == ffi_self()) return;
  owner = ffi_self();
  servers = ended = NULL;
}

// end_for_good removes a server from the list.
static void end_for_good(const struct mst_server *server) {
  struct owned_server **at = &servers;
  while (*at != NULL && (*at)->server != server)
    at = &(*at)->next;
  if (*at == NULL) return;
  struct owned_server *gone = *at;
  *at = gone->next;
  gone->next = ended;
  ended = gone;
}

static void free_ended(void) {
  forget_parents();
  while (ended != NULL) {
    struct owned_server *gone = ended;
    ended = gone->next;
    mst_server_free(gone->server);
    free(gone);
  }
}

static void break_all(void) {
  forget_parents();
  for (const struct owned_server *at = servers; at != NULL; at = at->next)
    mst_server_break(at->server);
}

static void follow_entries(void) {
  static int is_done; // here or in the parent
  if (is_done) return;
  is_done = 1;
  ffi_on_entries(&(struct ffi_on_entries){.outside = free_ended});
  ffi_on_give_up(break_all);
}

struct mst_server *ffi_server_of(SEXP pointer) {
  struct mst_server *server = ffi_address_of(pointer, server_tag());
  return server != NULL && server->owner == ffi_self() ? server : NULL;
}

// own makes a server by start(data), and gives it its pointer, or why there is none. Frees the
// blobs.
static SEXP own(SEXP pointer,
                int (*start)(void *data, struct mst_server **server,
                             struct mst_err *err),
                void *data, struct mst_blob *blobs[2]) {
  forget_parents();
  follow_entries();
  struct owned_server *owned = malloc(sizeof *owned);
  struct mst_err err;
  mst_err_clear(&err);
  const int rc = owned == NULL ? -MST_EMEM : start(data, &owned->server, &err);
  mst_blob_release(blobs[0]);
  mst_blob_release(blobs[1]);
  if (rc != 0) {
    free(owned);
    return ffi_error_list(&err);
  }
  owned->site = owned->link = 0;
  owned->next = servers;
  servers = owned;
  R_SetExternalPtrAddr(pointer, owned->server);
  return pointer;
}

static SEXP new_pointer(void) {
  return R_MakeExternalPtr(NULL, server_tag(), R_NilValue);
}

struct starting {
  struct mst_session *session;
  struct mst_remote *remote; // NULL: on this machine
  struct mst_spawn spawn;
  struct mst_blob *blobs[2]; // set-up; order for the host process
};

static int start_here(void *data, struct mst_server **server,
                      struct mst_err *err) {
  struct starting *one = data;
  return mst_server_start(&one->session->here, one->session->loop,
                          one->session->prints, &one->spawn, one->blobs[0],
                          mst_session_news, one->session, server, err);
}

static int start_there(void *data, struct mst_server **server,
                       struct mst_err *err) {
  struct starting *one = data;
  return mst_remote_server(one->remote, one->blobs[1], one->blobs[0],
                           mst_session_news, one->session, server, err);
}

SEXP ffi_server_start(SEXP file, SEXP argv, SEXP env, SEXP setup) {
  struct starting one = {.session = ffi_session()};
  SEXP pointer = PROTECT(new_pointer());
  ffi_fill_spawn(&one.spawn, file, argv, env);
  one.blobs[0] = ffi_blob_of(setup);
  SEXP owned = own(pointer, start_here, &one, one.blobs);
  UNPROTECT(1);
  return owned;
}

// ffi_remote_server asks a host for a fork server: order is for the host process, setup for the
// server.
SEXP ffi_remote_server(SEXP remote, SEXP order, SEXP setup) {
  struct starting one = {.session = ffi_session(),
                         .remote = ffi_remote_of(remote)};
  if (one.remote == NULL) return R_NilValue;
  SEXP pointer = PROTECT(new_pointer());
  one.blobs[0] = ffi_hold_blob(ffi_blob_of(setup));
  mst_blob_release(one.blobs[0]); // the held reference stays
  one.blobs[1] = ffi_blob_of(order);
  ffi_unhold(one.blobs[0]);
  SEXP owned = own(pointer, start_there, &one, one.blobs);
  if (owned == pointer)
    servers->site = ffi_remote_number(remote, &servers->link);
  UNPROTECT(1);
  return owned;
}

void ffi_servers_tell(void) {
  forget_parents();
  for (struct owned_server *at = servers; at != NULL; at = at->next) {
    if (at->site == 0 || at->server->state == MST_SERVER_BOOTING) continue;
    struct mst_site *site = ffi_site_of(at->site, NULL);
    if (site != NULL && site->link == at->link)
      (void)mst_site_tell(site, MST_SITE_BOOTED, 0, mst_clock_now());
    at->site = 0;
  }
}

static int is_over(const struct mst_server *server) {
  return server->state != MST_SERVER_BOOTING &&
         server->state != MST_SERVER_READY;
}

// ffi_server_wait waits until the server is ready or has ended (then also for its exit and its last
// output). TRUE if it is ready.
SEXP ffi_server_wait(SEXP pointer, SEXP timeout_s) {
  struct mst_server *server = ffi_server_of(pointer);
  if (server == NULL) return Rf_ScalarLogical(0);
  struct mst_session *session = ffi_session();
  const int64_t deadline_ns = ffi_deadline(timeout_s);
  while (server->state == MST_SERVER_BOOTING && mst_clock_now() < deadline_ns) {
    ffi_run_slice(session, FFI_SLICE_MS);
    ffi_check_interrupt(NULL, NULL);
  }
  const int64_t end_ns = mst_clock_now() + MST_NS_PER_S;
  while (is_over(server) && mst_server_reap(server) == 0 &&
         mst_clock_now() < end_ns) {
    ffi_run_slice(session, 1);
  }
  mst_output_drain(&server->output);
  return Rf_ScalarLogical(server->state == MST_SERVER_READY);
}

SEXP ffi_server_state(SEXP pointer) {
  struct mst_server *server = ffi_server_of(pointer);
  if (server == NULL) return R_NilValue;
  static const char *const states[] = {"booting", "ready", "refused", "failed",
                                       "gone"};
  static const char *const names[] = {"state", "pid",    "text",    "output",
                                      "how",   "number", "threads", "silent"};
  // If the server has ended since it was last used, its channel shows that.
  ffi_run_slice(ffi_session(), 0);
  SEXP list = PROTECT(ffi_list(8, names));
  SET_VECTOR_ELT(list, 0, Rf_mkString(states[server->state]));
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger((int)server->pid));
  SET_VECTOR_ELT(list, 2, ffi_text(server->text, strlen(server->text)));
  SET_VECTOR_ELT(list, 3, ffi_tail_text(&server->output.tail));
  SET_VECTOR_ELT(list, 4, Rf_ScalarInteger((int)server->how));
  SET_VECTOR_ELT(list, 5, Rf_ScalarInteger(server->number));
  SET_VECTOR_ELT(list, 6, Rf_ScalarInteger(server->threads));
  SET_VECTOR_ELT(list, 7, Rf_ScalarLogical(server->silent));
  UNPROTECT(1);
  return list;
}

// ffi_server_end ends a server that no cluster uses. FALSE if one does; but a server that is gone
// is reaped in any case, since its workers may live for days.
SEXP ffi_server_end(SEXP pointer) {
  struct mst_server *server = ffi_server_of(pointer);
  if (server == NULL) return Rf_ScalarLogical(1);
  if (is_over(server)) (void)mst_server_reap(server);
  const struct mst_session *session = ffi_session_or_null();
  if (session != NULL && mst_session_needs(session, &server->launcher)) {
    return Rf_ScalarLogical(0);
  }
  mst_server_end(server);
  const int64_t deadline_ns = mst_clock_now() + 2 * MST_NS_PER_S;
  while (mst_server_reap(server) == 0 && mst_clock_now() < deadline_ns) {
    (void)poll(NULL, 0, 1);
  }
  R_ClearExternalPtr(pointer);
  end_for_good(server);
  return Rf_ScalarLogical(1);
}

void ffi_servers_end(int64_t deadline_ns) {
  forget_parents();
  for (struct owned_server *at = servers; at != NULL; at = at->next) {
    mst_server_end(at->server);
  }
  while (servers != NULL) {
    const struct owned_server *owned = servers;
    while (mst_server_reap(owned->server) == 0 &&
           mst_clock_now() < deadline_ns) {
      (void)poll(NULL, 0, 1);
    }
    end_for_good(owned->server);
  }
}
