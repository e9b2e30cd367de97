// The session's links to other hosts, as external pointers.
//
// As with fork servers, a link belongs to this list, not to its pointer: it stays with the session,
// and ends with it or when R code ends it. Its memory stays until R is in no entry, and no worker's
// peer refers to its host.
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "ffi/session/session.h"

struct owned_remote {
  struct owned_remote *next;
  struct mst_remote *remote;
  uint32_t cluster; // whose host it is; 0: none's yet
  uint32_t site;    // the number of the site that it is for
  uint32_t link;    // which of the site's links it is
};

static struct owned_remote *remotes;
static struct owned_remote *ended;
static pid_t owner; // a forked child leaves its parent's links alone

static SEXP remote_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_remote_pointer");
}

static void forget_parents(void) {
  if (owner == ffi_self()) return;
  owner = ffi_self();
  remotes = ended = NULL;
}

// is_in_use: workers that were lost with a link refer to its host until they are somewhere else.
static int is_in_use(const struct mst_remote *remote) {
  const struct mst_session *session = ffi_session_or_null();
  return session != NULL && mst_session_has_host(session, &remote->host);
}

static void free_ended(void) {
  forget_parents();
  for (struct owned_remote **at = &ended; *at != NULL;) {
    struct owned_remote *gone = *at;
    if (is_in_use(gone->remote)) {
      at = &gone->next;
      continue;
    }
    *at = gone->next;
    mst_remote_free(gone->remote);
    free(gone);
  }
}

static void break_all(void) {
  forget_parents();
  for (const struct owned_remote *at = remotes; at != NULL; at = at->next)
    mst_remote_break(at->remote);
}

static void follow_entries(void) {
  static int is_done; // here or in the parent
  if (is_done) return;
  is_done = 1;
  ffi_on_entries(&(struct ffi_on_entries){.outside = free_ended});
  ffi_on_give_up(break_all);
}

struct mst_remote *ffi_remote_of(SEXP pointer) {
  struct mst_remote *remote = ffi_address_of(pointer, remote_tag());
  return remote != NULL && remote->owner == ffi_self() ? remote : NULL;
}

// own puts a remote into the list, for the site with this number, and gives its pointer.
static void own(struct owned_remote *owned, SEXP site, SEXP pointer) {
  owned->cluster = owned->link = 0;
  owned->site = (uint32_t)Rf_asInteger(site);
  const struct mst_site *asks = ffi_site_of(owned->site, &owned->cluster);
  if (asks != NULL) owned->link = asks->link;
  owned->next = remotes;
  remotes = owned;
  R_SetExternalPtrAddr(pointer, owned->remote);
}

// ffi_remote_await has the next host that comes through the gate be this one. how: the silence that
// breaks the link, in seconds. A pointer, or why there is none.
SEXP ffi_remote_await(SEXP name, SEXP gate, SEXP how, SEXP site) {
  struct mst_session *session = ffi_session();
  struct mst_gate *from = ffi_gate_of(gate);
  if (from == NULL) Rf_error("hosts can't come: the session doesn't listen");
  forget_parents();
  follow_entries();
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, remote_tag(), R_NilValue));
  const struct mst_link_config link = {.silence_ns = ffi_ns(REAL(how)[0])};
  struct owned_remote *owned = malloc(sizeof *owned);
  struct mst_err err;
  mst_err_clear(&err);
  int rc = -MST_EMEM;
  if (owned != NULL)
    rc = mst_remote_expect(Rf_translateCharUTF8(STRING_ELT(name, 0)),
                           session->loop, session->prints, &session->links,
                           &link, &owned->remote, &err);
  if (rc != 0) {
    free(owned);
    UNPROTECT(1);
    return ffi_error_list(&err);
  }
  own(owned, site, pointer);
  mst_gate_await(from, owned->remote);
  UNPROTECT(1);
  return pointer;
}

// ffi_remote_start runs list(program, arguments), and greets the host process that it leads to.
// how: how long the greeting may take, the silence that breaks the link (both in seconds), 1 if the
// command may wait in a queue, 1 if it leaves TCP's delays on (see mst_link_config). site: the
// number of the one that has asked for it. A pointer, or why there is none.
SEXP ffi_remote_start(SEXP name, SEXP command, SEXP how, SEXP site) {
  struct mst_session *session = ffi_session();
  forget_parents();
  follow_entries();
  struct mst_spawn spawn;
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, remote_tag(), R_NilValue));
  ffi_fill_spawn(&spawn, VECTOR_ELT(command, 0), VECTOR_ELT(command, 1),
                 VECTOR_ELT(command, 2));
  spawn.fds[2] = -1; // not muster's
  const struct mst_link_config link = {.silence_ns = ffi_ns(REAL(how)[1]),
                                       .delays = REAL(how)[3] > 0};
  struct owned_remote *owned = malloc(sizeof *owned);
  struct mst_err err;
  mst_err_clear(&err);
  int rc = -MST_EMEM;
  if (owned != NULL) {
    rc = mst_remote_start(Rf_translateCharUTF8(STRING_ELT(name, 0)),
                          session->loop, session->prints, &session->links,
                          &spawn, &link, mst_clock_now() + ffi_ns(REAL(how)[0]),
                          &owned->remote, &err);
  }
  if (rc != 0) {
    free(owned);
    UNPROTECT(1);
    return ffi_error_list(&err);
  }
  owned->remote->waits = REAL(how)[2] > 0;
  own(owned, site, pointer);
  UNPROTECT(1);
  return pointer;
}

// ffi_remote_wait waits until the host has told its facts, or won't: then also for the command's
// end and its last words, until a second after the link's end: many hosts may be lost at once. TRUE
// if it has.
SEXP ffi_remote_wait(SEXP pointer, SEXP timeout_s) {
  struct mst_session *session = ffi_session();
  const int64_t deadline_ns = ffi_deadline(timeout_s);
  struct mst_remote *remote;
  int is = 0;
  while ((remote = ffi_remote_of(pointer)) != NULL &&
         (is = mst_remote_is(remote, NULL)) == 0 &&
         mst_clock_now() < deadline_ns) {
    ffi_run_slice(session, FFI_SLICE_MS);
    ffi_check_interrupt(NULL, NULL);
  }
  while (is == -MST_ECLOSED && (remote = ffi_remote_of(pointer)) != NULL &&
         mst_remote_reap(remote) == 0 &&
         mst_clock_now() - remote->gone_ns < MST_NS_PER_S) {
    ffi_run_slice(session, 1);
  }
  if (remote != NULL) mst_output_drain(&remote->errors);
  return Rf_ScalarLogical(is == 1);
}

uint32_t ffi_remote_number(SEXP pointer, uint32_t *link) {
  const struct mst_remote *remote = ffi_remote_of(pointer);
  const struct owned_remote *at = remotes;
  while (at != NULL && at->remote != remote)
    at = at->next;
  *link = at == NULL ? 0 : at->link;
  return at == NULL ? 0 : at->site;
}

// is_left tells whether its site, if there is one, has no use for a link any more.
static int is_left(const struct owned_remote *owned,
                   const struct mst_site *site) {
  return site == NULL || site->link != owned->link || site->left == owned->link;
}

int ffi_remotes_tell(void) {
  int over = 0;
  forget_parents();
  for (const struct owned_remote *at = remotes; at != NULL; at = at->next) {
    struct mst_site *site = ffi_site_of(at->site, NULL);
    const int is = mst_remote_is(at->remote, NULL);
    const int64_t now_ns = mst_clock_now();
    if (is_left(at, site)) {
      over |= is < 0;
      continue;
    }
    if (is == 1) (void)mst_site_tell(site, MST_SITE_LINKED, 0, now_ns);
    if (is < 0) (void)mst_site_tell(site, MST_SITE_ENDED, 0, now_ns);
    if (is == 1 && at->remote->leaves && !site->leaves)
      (void)mst_site_tell(site, MST_SITE_LEAVES, 0, now_ns);
  }
  return over;
}

static SEXP skipped_text(const struct mst_remote *remote) {
  char bytes[MST_TAIL_BYTES];
  if (remote->keeper == NULL) return R_BlankScalarString; // nobody has come
  return ffi_text(bytes, mst_keeper_skipped(remote->keeper, bytes));
}

static SEXP facts_of(const struct mst_remote *remote) {
  return remote->has_facts
             ? ffi_unserialize(remote->facts.data, remote->facts.len)
             : R_NilValue;
}

static const char *why_of(int is) {
  return is >= 0               ? ""
         : is == -MST_ETIMEOUT ? "timeout"
         : is == -MST_EPROTO   ? "protocol"
                               : "closed";
}

// ffi_remote_state describes a link: NULL once it was ended. why: it has ended, "" while it hasn't.
// left: nobody needs it.
SEXP ffi_remote_state(SEXP pointer) {
  static const char *const names[] = {"state",  "facts",   "why", "error",
                                      "output", "skipped", "pid", "how",
                                      "number", "left"};
  struct mst_remote *remote = ffi_remote_of(pointer);
  if (remote == NULL) return R_NilValue;
  ffi_run_slice(ffi_session(), 0);
  struct mst_err err;
  mst_err_clear(&err);
  const int is = mst_remote_is(remote, &err);
  if (is < 0) (void)mst_remote_reap(remote);
  const struct owned_remote *owned = remotes;
  while (owned != NULL && owned->remote != remote)
    owned = owned->next;
  const int left =
      owned == NULL || is_left(owned, ffi_site_of(owned->site, NULL));
  SEXP list = PROTECT(ffi_list(10, names));
  SET_VECTOR_ELT(list, 9, Rf_ScalarLogical(left));
  SET_VECTOR_ELT(list, 0,
                 Rf_mkString(is < 0 ? "gone"
                             : is   ? "up"
                                    : "starting"));
  SET_VECTOR_ELT(list, 1, facts_of(remote));
  SET_VECTOR_ELT(list, 2, Rf_mkString(why_of(is)));
  SET_VECTOR_ELT(list, 3, ffi_text(err.text, strlen(err.text)));
  SET_VECTOR_ELT(list, 4, ffi_tail_text(&remote->errors.tail));
  SET_VECTOR_ELT(list, 5, skipped_text(remote));
  SET_VECTOR_ELT(list, 6, Rf_ScalarInteger((int)remote->pid));
  SET_VECTOR_ELT(list, 7, Rf_ScalarInteger((int)remote->how));
  SET_VECTOR_ELT(list, 8, Rf_ScalarInteger(remote->number));
  UNPROTECT(1);
  return list;
}

// ffi_remote_is says what the host is: its workers' build (the host process's own), c(how it is
// called, the number of its job or ""), and whether its pids are those of processes here.
SEXP ffi_remote_is(SEXP pointer, SEXP build, SEXP names, SEXP here) {
  struct mst_remote *remote = ffi_remote_of(pointer);
  if (remote == NULL) return R_NilValue;
  strncpy(remote->build, Rf_translateCharUTF8(STRING_ELT(build, 0)),
          sizeof remote->build - 1);
  strncpy(remote->name, Rf_translateCharUTF8(STRING_ELT(names, 0)),
          sizeof remote->name - 1);
  strncpy(remote->job, Rf_translateCharUTF8(STRING_ELT(names, 1)),
          sizeof remote->job - 1);
  remote->host.job = remote->job[0] == '\0' ? NULL : remote->job;
  remote->host.shares_processes = Rf_asLogical(here) == 1;
  return R_NilValue;
}

// end_for_good moves a link out of the list: free_ended frees it.
static void end_for_good(const struct mst_remote *remote) {
  struct owned_remote **at = &remotes;
  while (*at != NULL && (*at)->remote != remote)
    at = &(*at)->next;
  if (*at == NULL) return;
  struct owned_remote *gone = *at;
  *at = gone->next;
  gone->next = ended;
  ended = gone;
  ffi_gates_forget(remote);
}

SEXP ffi_remote_end(SEXP pointer) {
  struct mst_remote *remote = ffi_remote_of(pointer);
  if (remote == NULL) return R_NilValue;
  mst_remote_end(remote);
  R_ClearExternalPtr(pointer);
  end_for_good(remote);
  return R_NilValue;
}

// ffi_remote_owner: the link is for the cluster with this id, and ends with it.
SEXP ffi_remote_owner(SEXP pointer, SEXP id) {
  const struct mst_remote *remote = ffi_remote_of(pointer);
  for (struct owned_remote *at = remotes; at != NULL; at = at->next)
    if (at->remote == remote) at->cluster = (uint32_t)Rf_asInteger(id);
  return R_NilValue;
}

void ffi_remotes_abandon(uint32_t cluster) {
  forget_parents();
  for (struct owned_remote *at = remotes; at != NULL; at = at->next) {
    if (at->cluster != cluster) continue;
    at->remote->waits = 1; // nobody waits for its end: it is told at once
    mst_remote_end(at->remote);
    ffi_gates_abandon(at->remote);
  }
}

void ffi_remotes_end(int64_t deadline_ns) {
  forget_parents();
  for (struct owned_remote *at = remotes; at != NULL; at = at->next)
    mst_remote_end(at->remote);
  while (remotes != NULL) {
    struct mst_remote *remote = remotes->remote;
    while (mst_remote_reap(remote) == 0 && mst_clock_now() < deadline_ns)
      (void)poll(NULL, 0, 1);
    end_for_good(remote);
  }
}
