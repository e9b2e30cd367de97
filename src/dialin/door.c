// The session's side. See dialin.h.
//
// Invariants (mst_door_check): a place that is admitted has one connection, and that
// connection is its. A place that is in use has none here any more. Every other connection
// waits for its DIAL.
//
// Which of two DIALs of one worker is newer is told by their attempt and not by when they
// are read: the older connection's bytes may be read later. An older one that comes after
// its newer one is closed, also when the newer one has ended meanwhile.
#include "dialin/dialin.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"

enum conn_state { CONN_FREE, CONN_WAITING, CONN_ADMITTED };
struct conn {
  uint8_t state;
  uint32_t worker;    // of an admitted one
  uint32_t next_free; // of a free one
  int64_t due_ns;
};

enum place_state { PLACE_EMPTY, PLACE_ADMITTED, PLACE_USED };
struct place {
  uint8_t state;
  uint32_t epoch;
  uint32_t conn;        // of an admitted one
  struct mst_dial last; // the newest that was admitted; attempt 0: none was
};

#define NO_CONN UINT32_MAX

struct mst_door {
  uint32_t cluster, workers, used;
  uint32_t conns_max,
      conns;     // conns: the highest number given so far, and one more
  uint32_t free; // first of the free ones below conns
  struct place *places;
  struct conn *all;
};

int mst_door_open(uint32_t cluster, uint32_t workers, uint32_t conns_max,
                  struct mst_door **out) {
  MST_ASSERT(conns_max >= 1 && conns_max <= MST_DOOR_CONNS_MAX);
  struct mst_door *door = calloc(1, sizeof *door);
  *out = NULL;
  if (door == NULL) return -MST_EMEM;
  door->cluster = cluster;
  door->workers = workers;
  door->conns_max = conns_max;
  door->free = NO_CONN;
  door->places = calloc(workers > 0 ? workers : 1, sizeof *door->places);
  door->all = calloc(conns_max, sizeof *door->all);
  if (door->places == NULL || door->all == NULL) {
    mst_door_close(door);
    return -MST_EMEM;
  }
  *out = door;
  return 0;
}

void mst_door_close(struct mst_door *door) {
  if (door == NULL) return;
  free(door->places);
  free(door->all);
  free(door);
}

int mst_door_accepted(struct mst_door *door, int64_t now_ns, uint32_t *conn) {
  uint32_t at = door->free;
  if (at != NO_CONN) {
    door->free = door->all[at].next_free;
  } else if (door->conns < door->conns_max) {
    at = door->conns++;
  } else {
    return -MST_ELIMIT;
  }
  door->all[at] =
      (struct conn){.state = CONN_WAITING, .due_ns = now_ns + MST_DOOR_WAIT_NS};
  *conn = at;
  return 0;
}

static struct conn *conn_of(struct mst_door *door, uint32_t conn) {
  MST_ASSERT(conn < door->conns && door->all[conn].state != CONN_FREE);
  return &door->all[conn];
}

// forget frees a number, and the place that it was admitted to.
static void forget(struct mst_door *door, uint32_t conn) {
  struct conn *at = conn_of(door, conn);
  if (at->state == CONN_ADMITTED) {
    struct place *place = &door->places[at->worker];
    if (place->state == PLACE_ADMITTED) place->state = PLACE_EMPTY;
  }
  *at = (struct conn){.state = CONN_FREE, .next_free = door->free};
  door->free = conn;
}

static size_t act(struct mst_door_action *action, enum mst_door_what what,
                  uint32_t conn, uint32_t worker, const char *why) {
  *action = (struct mst_door_action){
      .what = what, .conn = conn, .worker = worker, .why = why};
  return 1;
}

static const char *why_not(const struct mst_door *door,
                           const struct mst_dial *dial) {
  if (dial->cluster != door->cluster) return "no such cluster here";
  if (dial->worker >= door->workers) return "no such worker in this cluster";
  const struct place *place = &door->places[dial->worker];
  if (dial->epoch != place->epoch) return "another incarnation is expected";
  return place->state == PLACE_USED ? "this worker is in use already" : NULL;
}

// must_wait tells whether a connection is an older one of the same process, or one of
// another process while this place is admitted: that one may try again later.
static int must_wait(const struct place *place, const struct mst_dial *dial) {
  if (place->last.attempt == 0) return 0;
  const int same = memcmp(dial->nonce, place->last.nonce, MST_NONCE_BYTES) == 0;
  return same ? dial->attempt <= place->last.attempt
              : place->state == PLACE_ADMITTED;
}

static size_t admit(struct mst_door *door, uint32_t conn,
                    const struct mst_dial *dial, int64_t now_ns,
                    struct mst_door_action *action) {
  struct place *place = &door->places[dial->worker];
  place->state = PLACE_ADMITTED;
  place->conn = conn;
  place->last = *dial;
  door->all[conn] = (struct conn){.state = CONN_ADMITTED,
                                  .worker = dial->worker,
                                  .due_ns = now_ns + MST_DOOR_WAIT_NS};
  return act(action, MST_DOOR_ADMIT, conn, dial->worker, NULL);
}

// dial_again: a DIAL on a connection that is admitted. The same again is answered again.
static size_t dial_again(struct mst_door *door, uint32_t conn,
                         const struct mst_dial *dial,
                         struct mst_door_action *action) {
  const uint32_t worker = door->all[conn].worker;
  if (mst_dial_same(dial, &door->places[worker].last)) {
    return act(action, MST_DOOR_ADMIT, conn, worker, NULL);
  }
  forget(door, conn);
  return act(action, MST_DOOR_CLOSE, conn, worker, NULL);
}

size_t mst_door_dial(struct mst_door *door, uint32_t conn,
                     const struct mst_dial *dial, int64_t now_ns,
                     struct mst_door_action actions[2]) {
  if (conn_of(door, conn)->state == CONN_ADMITTED) {
    return dial_again(door, conn, dial, actions);
  }
  const char *why = why_not(door, dial);
  if (why != NULL) {
    forget(door, conn);
    return act(actions, MST_DOOR_REFUSE, conn, dial->worker, why);
  }
  struct place *place = &door->places[dial->worker];
  if (must_wait(place, dial)) {
    forget(door, conn);
    return act(actions, MST_DOOR_CLOSE, conn, dial->worker, NULL);
  }
  size_t n = 0;
  if (place->state == PLACE_ADMITTED) {
    n = act(actions, MST_DOOR_CLOSE, place->conn, dial->worker, NULL);
    forget(door, place->conn);
  }
  return n + admit(door, conn, dial, now_ns, &actions[n]);
}

size_t mst_door_talked(struct mst_door *door, uint32_t conn,
                       struct mst_door_action actions[1]) {
  struct conn *at = conn_of(door, conn);
  if (at->state != CONN_ADMITTED) return 0;
  const uint32_t worker = at->worker;
  door->places[worker].state = PLACE_USED;
  door->used++;
  forget(door, conn);
  return act(actions, MST_DOOR_USE, conn, worker, NULL);
}

void mst_door_ended(struct mst_door *door, uint32_t conn) {
  forget(door, conn);
}

size_t mst_door_tick(struct mst_door *door, int64_t now_ns,
                     struct mst_door_action actions[1]) {
  for (uint32_t i = 0; i < door->conns; i++) {
    if (door->all[i].state == CONN_FREE || door->all[i].due_ns > now_ns) {
      continue;
    }
    const uint32_t worker = door->all[i].worker;
    forget(door, i);
    return act(actions, MST_DOOR_CLOSE, i, worker, NULL);
  }
  return 0;
}

int64_t mst_door_due(const struct mst_door *door) {
  int64_t due_ns = INT64_MAX;
  for (uint32_t i = 0; i < door->conns; i++) {
    if (door->all[i].state != CONN_FREE && door->all[i].due_ns < due_ns) {
      due_ns = door->all[i].due_ns;
    }
  }
  return due_ns;
}

void mst_door_expect(struct mst_door *door, uint32_t worker, uint32_t epoch) {
  MST_ASSERT(worker < door->workers);
  struct place *place = &door->places[worker];
  MST_ASSERT(place->state != PLACE_ADMITTED);
  door->used -= place->state == PLACE_USED;
  *place = (struct place){.state = PLACE_EMPTY, .epoch = epoch};
}

uint32_t mst_door_used(const struct mst_door *door) { return door->used; }

void mst_door_check(const struct mst_door *door) {
  uint32_t used = 0, admitted = 0;
  for (uint32_t i = 0; i < door->workers; i++) {
    const struct place *place = &door->places[i];
    used += place->state == PLACE_USED;
    if (place->state != PLACE_ADMITTED) continue;
    admitted++;
    MST_ASSERT(place->conn < door->conns);
    MST_ASSERT(door->all[place->conn].state == CONN_ADMITTED);
    MST_ASSERT(door->all[place->conn].worker == i);
  }
  MST_ASSERT(used == door->used);
  for (uint32_t i = 0; i < door->conns; i++)
    admitted -= door->all[i].state == CONN_ADMITTED;
  MST_ASSERT(admitted == 0);
}
