// The session's side. See dialin.h.
//
// Invariants (mst_acceptor_check): an admitted place has one connection, which is admitted for that
// place. A place in use has no connection here any more. Every other connection waits for its DIAL.
//
// Of two DIALs of one worker the attempt tells which is newer, not the time of reading: the older
// connection's bytes may be read later. An older one that comes after a newer one is closed, even
// if the newer one has ended.
#include "dialin/dialin.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"

enum conn_state { CONN_FREE, CONN_WAITING, CONN_ADMITTED };
struct conn {
  uint8_t state;
  uint32_t worker;    // if admitted
  uint32_t next_free; // if free
  int64_t due_ns;
};

enum place_state { PLACE_EMPTY, PLACE_ADMITTED, PLACE_USED };
struct place {
  uint8_t state;
  uint32_t epoch;
  uint32_t conn;        // if admitted
  struct mst_dial last; // the newest admitted; attempt 0: none yet
};

#define NO_CONN UINT32_MAX

struct mst_acceptor {
  uint32_t cluster, workers, used;
  uint32_t conns_max,
      conns;     // conns: one above the highest number used so far
  uint32_t free; // first free one below conns
  struct place *places;
  struct conn *all;
};

int mst_acceptor_open(uint32_t cluster, uint32_t workers, uint32_t conns_max,
                      struct mst_acceptor **out) {
  MST_ASSERT(conns_max >= 1 && conns_max <= MST_ACCEPTOR_CONNS_MAX);
  struct mst_acceptor *acceptor = calloc(1, sizeof *acceptor);
  *out = NULL;
  if (acceptor == NULL) return -MST_EMEM;
  acceptor->cluster = cluster;
  acceptor->workers = workers;
  acceptor->conns_max = conns_max;
  acceptor->free = NO_CONN;
  acceptor->places =
      calloc(workers > 0 ? workers : 1, sizeof *acceptor->places);
  acceptor->all = calloc(conns_max, sizeof *acceptor->all);
  if (acceptor->places == NULL || acceptor->all == NULL) {
    mst_acceptor_close(acceptor);
    return -MST_EMEM;
  }
  *out = acceptor;
  return 0;
}

void mst_acceptor_close(struct mst_acceptor *acceptor) {
  if (acceptor == NULL) return;
  free(acceptor->places);
  free(acceptor->all);
  free(acceptor);
}

int mst_acceptor_accepted(struct mst_acceptor *acceptor, int64_t now_ns,
                          uint32_t *conn) {
  uint32_t at = acceptor->free;
  if (at != NO_CONN) {
    acceptor->free = acceptor->all[at].next_free;
  } else if (acceptor->conns < acceptor->conns_max) {
    at = acceptor->conns++;
  } else {
    return -MST_ELIMIT;
  }
  acceptor->all[at] = (struct conn){.state = CONN_WAITING,
                                    .due_ns = now_ns + MST_ACCEPTOR_WAIT_NS};
  *conn = at;
  return 0;
}

static struct conn *conn_of(struct mst_acceptor *acceptor, uint32_t conn) {
  MST_ASSERT(conn < acceptor->conns && acceptor->all[conn].state != CONN_FREE);
  return &acceptor->all[conn];
}

// forget frees a number, and the place it was admitted for.
static void forget(struct mst_acceptor *acceptor, uint32_t conn) {
  struct conn *at = conn_of(acceptor, conn);
  if (at->state == CONN_ADMITTED) {
    struct place *place = &acceptor->places[at->worker];
    if (place->state == PLACE_ADMITTED) place->state = PLACE_EMPTY;
  }
  *at = (struct conn){.state = CONN_FREE, .next_free = acceptor->free};
  acceptor->free = conn;
}

static size_t act(struct mst_acceptor_action *action,
                  enum mst_acceptor_what what, uint32_t conn, uint32_t worker,
                  const char *why) {
  *action = (struct mst_acceptor_action){
      .what = what, .conn = conn, .worker = worker, .why = why};
  return 1;
}

static int is_of(const struct place *place, const struct mst_dial *dial) {
  return place->last.attempt != 0 &&
         memcmp(dial->nonce, place->last.nonce, MST_NONCE_BYTES) == 0;
}

// place_for gives the worker that a DIAL is for: of MST_DIAL_ANY the one that its process has asked
// for before, or else the first that nobody has. acceptor->workers: there is none.
static uint32_t place_for(const struct mst_acceptor *acceptor,
                          const struct mst_dial *dial) {
  uint32_t empty = acceptor->workers;
  if (dial->worker != MST_DIAL_ANY) return dial->worker;
  for (uint32_t i = 0; i < acceptor->workers; i++) {
    const struct place *place = &acceptor->places[i];
    if (is_of(place, dial)) return i;
    if (place->state == PLACE_EMPTY && empty == acceptor->workers) empty = i;
  }
  return empty;
}

static const char *why_not(const struct mst_acceptor *acceptor,
                           const struct mst_dial *dial, uint32_t worker) {
  const int any = dial->worker == MST_DIAL_ANY;
  if (dial->cluster != acceptor->cluster) return "no such cluster here";
  if (worker >= acceptor->workers)
    return any ? "no more are needed here" : "no such worker in this cluster";
  const struct place *place = &acceptor->places[worker];
  if (!any && dial->epoch != place->epoch)
    return "another incarnation is expected";
  return place->state == PLACE_USED ? "this worker is in use already" : NULL;
}

// must_wait tells whether a connection is an older one of the same process, or one of another
// process while this place is admitted: that one may try again later.
static int must_wait(const struct place *place, const struct mst_dial *dial) {
  if (place->last.attempt == 0) return 0;
  return is_of(place, dial) ? dial->attempt <= place->last.attempt
                            : place->state == PLACE_ADMITTED;
}

// may_wait tells whether a process that may be any, and is refused, may have a place soon: when one
// that is admitted isn't used after all, or when the session learns that the process's own
// connection has ended.
static int may_wait(const struct mst_acceptor *acceptor,
                    const struct mst_dial *dial, uint32_t worker) {
  return dial->worker == MST_DIAL_ANY && dial->cluster == acceptor->cluster &&
         (worker < acceptor->workers || acceptor->used < acceptor->workers);
}

static size_t admit(struct mst_acceptor *acceptor, uint32_t conn,
                    const struct mst_dial *dial, uint32_t worker,
                    int64_t now_ns, struct mst_acceptor_action *action) {
  struct place *place = &acceptor->places[worker];
  place->state = PLACE_ADMITTED;
  place->conn = conn;
  place->last = *dial;
  acceptor->all[conn] = (struct conn){.state = CONN_ADMITTED,
                                      .worker = worker,
                                      .due_ns = now_ns + MST_ACCEPTOR_WAIT_NS};
  return act(action, MST_ACCEPTOR_ADMIT, conn, worker, NULL);
}

// dial_again: a DIAL on an admitted connection. A repeated DIAL gets the same answer again.
static size_t dial_again(struct mst_acceptor *acceptor, uint32_t conn,
                         const struct mst_dial *dial,
                         struct mst_acceptor_action *action) {
  const uint32_t worker = acceptor->all[conn].worker;
  if (mst_dial_same(dial, &acceptor->places[worker].last)) {
    return act(action, MST_ACCEPTOR_ADMIT, conn, worker, NULL);
  }
  forget(acceptor, conn);
  return act(action, MST_ACCEPTOR_CLOSE, conn, worker, NULL);
}

size_t mst_acceptor_dial(struct mst_acceptor *acceptor, uint32_t conn,
                         const struct mst_dial *dial, int64_t now_ns,
                         struct mst_acceptor_action actions[2]) {
  if (conn_of(acceptor, conn)->state == CONN_ADMITTED) {
    return dial_again(acceptor, conn, dial, actions);
  }
  const uint32_t worker = place_for(acceptor, dial);
  const char *why = why_not(acceptor, dial, worker);
  if (why != NULL && !may_wait(acceptor, dial, worker)) {
    forget(acceptor, conn);
    return act(actions, MST_ACCEPTOR_REFUSE, conn, worker, why);
  }
  struct place *place =
      worker < acceptor->workers ? &acceptor->places[worker] : NULL;
  if (why != NULL || must_wait(place, dial)) {
    forget(acceptor, conn);
    return act(actions, MST_ACCEPTOR_CLOSE, conn, worker, NULL);
  }
  size_t n = 0;
  if (place->state == PLACE_ADMITTED) {
    n = act(actions, MST_ACCEPTOR_CLOSE, place->conn, worker, NULL);
    forget(acceptor, place->conn);
  }
  return n + admit(acceptor, conn, dial, worker, now_ns, &actions[n]);
}

size_t mst_acceptor_talked(struct mst_acceptor *acceptor, uint32_t conn,
                           struct mst_acceptor_action actions[1]) {
  struct conn *at = conn_of(acceptor, conn);
  if (at->state != CONN_ADMITTED) return 0;
  const uint32_t worker = at->worker;
  acceptor->places[worker].state = PLACE_USED;
  acceptor->used++;
  forget(acceptor, conn);
  return act(actions, MST_ACCEPTOR_USE, conn, worker, NULL);
}

void mst_acceptor_ended(struct mst_acceptor *acceptor, uint32_t conn) {
  forget(acceptor, conn);
}

size_t mst_acceptor_tick(struct mst_acceptor *acceptor, int64_t now_ns,
                         struct mst_acceptor_action actions[1]) {
  for (uint32_t i = 0; i < acceptor->conns; i++) {
    if (acceptor->all[i].state == CONN_FREE ||
        acceptor->all[i].due_ns > now_ns) {
      continue;
    }
    const uint32_t worker = acceptor->all[i].worker;
    forget(acceptor, i);
    return act(actions, MST_ACCEPTOR_CLOSE, i, worker, NULL);
  }
  return 0;
}

int64_t mst_acceptor_due(const struct mst_acceptor *acceptor) {
  int64_t due_ns = INT64_MAX;
  for (uint32_t i = 0; i < acceptor->conns; i++) {
    if (acceptor->all[i].state != CONN_FREE &&
        acceptor->all[i].due_ns < due_ns) {
      due_ns = acceptor->all[i].due_ns;
    }
  }
  return due_ns;
}

void mst_acceptor_expect(struct mst_acceptor *acceptor, uint32_t worker,
                         uint32_t epoch) {
  MST_ASSERT(worker < acceptor->workers);
  struct place *place = &acceptor->places[worker];
  MST_ASSERT(place->state != PLACE_ADMITTED);
  acceptor->used -= place->state == PLACE_USED;
  *place = (struct place){.state = PLACE_EMPTY, .epoch = epoch};
}

uint32_t mst_acceptor_used(const struct mst_acceptor *acceptor) {
  return acceptor->used;
}

void mst_acceptor_check(const struct mst_acceptor *acceptor) {
  uint32_t used = 0, admitted = 0;
  for (uint32_t i = 0; i < acceptor->workers; i++) {
    const struct place *place = &acceptor->places[i];
    used += place->state == PLACE_USED;
    if (place->state != PLACE_ADMITTED) continue;
    admitted++;
    MST_ASSERT(place->conn < acceptor->conns);
    MST_ASSERT(acceptor->all[place->conn].state == CONN_ADMITTED);
    MST_ASSERT(acceptor->all[place->conn].worker == i);
  }
  MST_ASSERT(used == acceptor->used);
  for (uint32_t i = 0; i < acceptor->conns; i++)
    admitted -= acceptor->all[i].state == CONN_ADMITTED;
  MST_ASSERT(admitted == 0);
}
