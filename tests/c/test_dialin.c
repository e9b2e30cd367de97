// Tests of dialin: DIAL's bytes, the worker's side, the session's side, and both together on
// a network that loses, delays and cuts, in an order given by a seed.
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "dialin/dialin.h"
#include "mst_random.h"
#include "mst_test.h"

static struct mst_dial dial_of(uint32_t worker, uint16_t attempt,
                               uint8_t nonce) {
  struct mst_dial dial = {.cluster = 7, .worker = worker, .attempt = attempt};
  memset(dial.nonce, nonce, sizeof dial.nonce);
  return dial;
}

TEST("A DIAL is decoded as it was encoded, cut anywhere, and nothing else is") {
  const struct mst_dial dial = dial_of(3, 2, 9);
  struct mst_dial got;
  uint8_t bytes[MST_DIAL_BYTES];
  mst_dial_encode(&dial, MST_KIND_DIAL, bytes);
  for (size_t n = 0; n < sizeof bytes; n++)
    CHECK_INT(mst_dial_decode(bytes, n, MST_KIND_DIAL, &got), 0);
  CHECK_INT(mst_dial_decode(bytes, sizeof bytes, MST_KIND_DIAL, &got), 1);
  CHECK(mst_dial_same(&dial, &got));
  CHECK_INT(mst_dial_decode(bytes, sizeof bytes, MST_KIND_ADMIT, &got),
            -MST_EPROTO);
  CHECK_INT(mst_dial_decode((const uint8_t *)"GET", 3, MST_KIND_DIAL, &got),
            -MST_EPROTO);
  const struct mst_dial none = dial_of(3, 0, 9);
  mst_dial_encode(&none, MST_KIND_DIAL, bytes);
  CHECK_INT(mst_dial_decode(bytes, sizeof bytes, MST_KIND_DIAL, &got),
            -MST_EPROTO);
  bytes[32] = 200; // a length that none has
  CHECK_INT(mst_dial_decode(bytes, sizeof bytes, MST_KIND_DIAL, &got),
            -MST_EPROTO);
}

TEST("A worker dials until it is admitted, and pauses longer each time") {
  const struct mst_dial dial = dial_of(0, 0, 5);
  struct mst_dialer dialer;
  int64_t now = 1000;
  mst_dialer_open(&dialer, &dial, now, now + 60 * MST_NS_PER_S);
  CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_CONNECTED, now), 0);
  int64_t last_pause = 0, longest = MST_DIAL_PAUSE_NS,
          answer = MST_DIAL_ANSWER_NS;
  for (int i = 1; i <= 6; i++) {
    CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_TICK, now), MST_DIALER_OPEN);
    CHECK_INT(dialer.dial.attempt, i);
    CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_CONNECTED, now),
              MST_DIALER_SEND);
    now += answer - 1;
    CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_TICK, now), 0);
    now += 1;
    CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_TICK, now),
              MST_DIALER_CLOSE);
    const int64_t pause = dialer.due_ns - now;
    CHECK(pause >= 0 && pause <= longest);
    longest += longest / 2;
    answer += answer / 2;
    if (answer > MST_DIAL_ANSWER_NS_MAX) answer = MST_DIAL_ANSWER_NS_MAX;
    CHECK(pause <= MST_DIAL_PAUSE_NS_MAX);
    last_pause = pause > last_pause ? pause : last_pause;
    // An answer on a closed connection is ignored.
    CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_ADMITTED, now), 0);
    now = dialer.due_ns;
  }
  CHECK(last_pause > MST_DIAL_PAUSE_NS);
  CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_TICK, now), MST_DIALER_OPEN);
  CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_CONNECTED, now),
            MST_DIALER_SEND);
  CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_ADMITTED, now),
            MST_DIALER_BEGIN);
  CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_ADMITTED, now), 0);
  CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_HEARD, now), MST_DIALER_END);
  CHECK_INT(dialer.state, MST_DIALER_DONE);
}

TEST(
    "A worker gives up when its time is over, and at once when it is refused") {
  const struct mst_dial dial = dial_of(0, 0, 5);
  struct mst_dialer dialer;
  mst_dialer_open(&dialer, &dial, 0, MST_NS_PER_S);
  int64_t now = 0;
  int failed = 0;
  for (int i = 0; i < 100 && !failed; i++) {
    const unsigned todo = mst_dialer_event(&dialer, MST_DIALER_TICK, now);
    // Each connect is refused.
    if (todo & MST_DIALER_OPEN) {
      CHECK(mst_dialer_event(&dialer, MST_DIALER_ENDED, now) &
            MST_DIALER_CLOSE);
    }
    failed = (todo & MST_DIALER_END) != 0;
    if (!failed) now = dialer.due_ns;
  }
  CHECK_INT(dialer.state, MST_DIALER_FAILED);
  CHECK_INT(now, MST_NS_PER_S);
  mst_dialer_open(&dialer, &dial, 0, MST_NS_PER_S);
  CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_TICK, 0), MST_DIALER_OPEN);
  CHECK_INT(mst_dialer_event(&dialer, MST_DIALER_REFUSED, 0),
            MST_DIALER_CLOSE | MST_DIALER_END);
  CHECK_INT(dialer.state, MST_DIALER_FAILED);
}

static uint32_t come_in(struct mst_acceptor *acceptor) {
  uint32_t conn;
  CHECK_INT(mst_acceptor_accepted(acceptor, 0, &conn), 0);
  return conn;
}

// What the acceptor does with a DIAL; the number of actions is checked.
static struct mst_acceptor_action dialled(struct mst_acceptor *acceptor,
                                          uint32_t conn, struct mst_dial dial,
                                          size_t n) {
  struct mst_acceptor_action actions[2];
  CHECK_INT(mst_acceptor_dial(acceptor, conn, &dial, 0, actions), n);
  mst_acceptor_check(acceptor);
  return actions[n - 1];
}

TEST("The newest connection of a worker wins before it is used, none after") {
  struct mst_acceptor *acceptor;
  struct mst_acceptor_action action;
  CHECK_INT(mst_acceptor_open(7, 4, 16, &acceptor), 0);
  const uint32_t one = come_in(acceptor), two = come_in(acceptor);
  CHECK_INT(dialled(acceptor, one, dial_of(2, 1, 5), 1).what,
            MST_ACCEPTOR_ADMIT);
  // A repetition on the same connection gets the same answer.
  CHECK_INT(dialled(acceptor, one, dial_of(2, 1, 5), 1).what,
            MST_ACCEPTOR_ADMIT);
  struct mst_acceptor_action actions[2];
  const struct mst_dial newer = dial_of(2, 2, 5);
  CHECK_INT(mst_acceptor_dial(acceptor, two, &newer, 0, actions), 2);
  CHECK_INT(actions[0].what, MST_ACCEPTOR_CLOSE);
  CHECK_INT(actions[0].conn, one);
  CHECK_INT(actions[1].what, MST_ACCEPTOR_ADMIT);
  CHECK_INT(actions[1].conn, two);
  // An older one that is read later is closed, now and afterwards.
  CHECK_INT(dialled(acceptor, come_in(acceptor), dial_of(2, 1, 5), 1).what,
            MST_ACCEPTOR_CLOSE);
  // Nor has another process, for now.
  CHECK_INT(dialled(acceptor, come_in(acceptor), dial_of(2, 9, 6), 1).what,
            MST_ACCEPTOR_CLOSE);
  CHECK_INT(mst_acceptor_talked(acceptor, two, &action), 1);
  CHECK_INT(action.what, MST_ACCEPTOR_USE);
  CHECK_INT(action.worker, 2);
  CHECK_INT(mst_acceptor_used(acceptor), 1);
  CHECK_INT(dialled(acceptor, come_in(acceptor), dial_of(2, 3, 5), 1).what,
            MST_ACCEPTOR_REFUSE);
  mst_acceptor_expect(acceptor, 2, 1);
  CHECK_INT(mst_acceptor_used(acceptor), 0);
  CHECK_INT(dialled(acceptor, come_in(acceptor), dial_of(2, 3, 5), 1).what,
            MST_ACCEPTOR_REFUSE);
  struct mst_dial again = dial_of(2, 1, 8);
  again.epoch = 1;
  CHECK_INT(dialled(acceptor, come_in(acceptor), again, 1).what,
            MST_ACCEPTOR_ADMIT);
  mst_acceptor_close(acceptor);
}

TEST("Unknown workers are refused, and silent ones are closed in time") {
  struct mst_acceptor *acceptor;
  struct mst_acceptor_action action;
  CHECK_INT(mst_acceptor_open(7, 4, 2, &acceptor), 0);
  struct mst_dial foreign = dial_of(0, 1, 1);
  foreign.cluster = 8;
  CHECK_INT(dialled(acceptor, come_in(acceptor), foreign, 1).what,
            MST_ACCEPTOR_REFUSE);
  action = dialled(acceptor, come_in(acceptor), dial_of(4, 1, 1), 1);
  CHECK_INT(action.what, MST_ACCEPTOR_REFUSE);
  CHECK(strstr(action.why, "no such worker") != NULL);
  const uint32_t silent = come_in(acceptor), admitted = come_in(acceptor);
  uint32_t conn;
  CHECK_INT(mst_acceptor_accepted(acceptor, 0, &conn), -MST_ELIMIT);
  CHECK_INT(dialled(acceptor, admitted, dial_of(1, 1, 1), 1).what,
            MST_ACCEPTOR_ADMIT);
  CHECK_INT(mst_acceptor_talked(acceptor, silent, &action), 0);
  CHECK_INT(mst_acceptor_due(acceptor), MST_ACCEPTOR_WAIT_NS);
  CHECK_INT(mst_acceptor_tick(acceptor, MST_ACCEPTOR_WAIT_NS - 1, &action), 0);
  CHECK_INT(mst_acceptor_tick(acceptor, MST_ACCEPTOR_WAIT_NS, &action), 1);
  CHECK_INT(action.what, MST_ACCEPTOR_CLOSE);
  CHECK_INT(mst_acceptor_tick(acceptor, MST_ACCEPTOR_WAIT_NS, &action), 1);
  CHECK_INT(mst_acceptor_tick(acceptor, MST_ACCEPTOR_WAIT_NS, &action), 0);
  mst_acceptor_check(acceptor);
  CHECK_INT(mst_acceptor_due(acceptor), INT64_MAX);
  CHECK_INT(dialled(acceptor, come_in(acceptor), dial_of(1, 2, 1), 1).what,
            MST_ACCEPTOR_ADMIT);
  mst_acceptor_close(acceptor);
}

// ---- both sides, on a network of its own

#define WORKERS 12
#define LINKS_MAX 4096
#define EVENTS_MAX 20000

enum what {
  TICK,         // of a worker
  UP,           // the client's side is connected
  CLIENT_END,   // the client hears the end
  SERVER_IN,    // accepted
  SERVER_DIAL,  // the session reads the DIAL
  SERVER_TALK,  // it reads what follows
  SERVER_END,   // it hears the end
  CLIENT_ADMIT, // the worker reads ADMIT
  CLIENT_REFUSE,
  CLIENT_HEARD // the worker reads what follows
};
struct event {
  int64_t at_ns;
  enum what what;
  size_t link; // or the worker, of TICK
};
// One connection of a worker. to_server_ns and to_client_ns keep each direction's order.
struct link {
  uint32_t worker;
  struct mst_dial dial;
  int lost, half_open; // SYN never comes; only the client knows
  int client_open, server_open, accepted;
  uint32_t conn;
  int64_t to_server_ns, to_client_ns;
};
struct world {
  uint64_t random;
  int64_t now_ns;
  struct event events[EVENTS_MAX];
  size_t event_count;
  struct link links[LINKS_MAX];
  size_t link_count;
  struct mst_dialer dialers[WORKERS];
  size_t current[WORKERS]; // link of each, LINKS_MAX none
  struct mst_acceptor *acceptor;
  size_t link_of[64];   // by the acceptor's numbers
  size_t used[WORKERS]; // link in use, LINKS_MAX none
  int uses[WORKERS];
  int64_t done_ns; // when the last worker was heard
};

static void plan(struct world *world, int64_t at_ns, enum what what,
                 size_t link) {
  CHECK(world->event_count < EVENTS_MAX);
  world->events[world->event_count++] =
      (struct event){.at_ns = at_ns, .what = what, .link = link};
}

static int64_t some(struct world *world, int64_t max_ms) {
  return (int64_t)mst_random_below(&world->random,
                                   (uint64_t)(max_ms * MST_NS_PER_MS) + 1);
}

// Mostly quick, sometimes slower than a worker waits.
static int64_t delay(struct world *world) {
  return mst_random_below(&world->random, 4) == 0 ? some(world, 600)
                                                  : some(world, 5);
}

// Each end's bytes reach the other in order.
static void to_server(struct world *world, size_t i, enum what what) {
  struct link *link = &world->links[i];
  if (link->lost || link->half_open) return;
  int64_t at_ns = world->now_ns + delay(world);
  if (at_ns <= link->to_server_ns) at_ns = link->to_server_ns + 1;
  link->to_server_ns = at_ns;
  plan(world, at_ns, what, i);
}

static void to_client(struct world *world, size_t i, enum what what) {
  struct link *link = &world->links[i];
  int64_t at_ns = world->now_ns + delay(world);
  if (at_ns <= link->to_client_ns) at_ns = link->to_client_ns + 1;
  link->to_client_ns = at_ns;
  plan(world, at_ns, what, i);
}

static void close_client(struct world *world, uint32_t worker) {
  const size_t i = world->current[worker];
  world->current[worker] = LINKS_MAX;
  if (i == LINKS_MAX || !world->links[i].client_open) return;
  world->links[i].client_open = 0;
  to_server(world, i, SERVER_END);
}

static void open_client(struct world *world, uint32_t worker) {
  CHECK(world->link_count < LINKS_MAX);
  CHECK_INT(world->current[worker], LINKS_MAX); // one connection at a time
  const size_t i = world->link_count++;
  struct link *link = &world->links[i];
  *link = (struct link){
      .worker = worker, .dial = world->dialers[worker].dial, .client_open = 1};
  link->lost = mst_random_below(&world->random, 4) == 0;
  link->half_open = !link->lost && mst_random_below(&world->random, 5) == 0;
  world->current[worker] = i;
  to_server(world, i, SERVER_IN);
  if (link->lost) {
    if (mst_random_below(&world->random, 2) == 0)
      to_client(world, i, CLIENT_END);
  } else {
    to_client(world, i, UP);
  }
}

static void client_event(struct world *world, uint32_t worker,
                         enum mst_dialer_event event) {
  struct mst_dialer *dialer = &world->dialers[worker];
  const int64_t due_before = dialer->due_ns;
  const unsigned todo = mst_dialer_event(dialer, event, world->now_ns);
  CHECK((todo & MST_DIALER_END) == 0 || dialer->state == MST_DIALER_DONE);
  if (todo & MST_DIALER_END) world->done_ns = world->now_ns;
  if (todo & MST_DIALER_CLOSE) close_client(world, worker);
  if (todo & MST_DIALER_OPEN) open_client(world, worker);
  if (todo & MST_DIALER_SEND) {
    to_server(world, world->current[worker], SERVER_DIAL);
  }
  if (todo & MST_DIALER_BEGIN) {
    to_server(world, world->current[worker], SERVER_TALK);
  }
  if (dialer->due_ns != due_before && dialer->due_ns != INT64_MAX) {
    plan(world, dialer->due_ns, TICK, worker);
  }
}

static void close_server(struct world *world, size_t i) {
  struct link *link = &world->links[i];
  CHECK(link->server_open);
  link->server_open = 0;
  to_client(world, i, CLIENT_END);
}

static void perform(struct world *world,
                    const struct mst_acceptor_action *actions, size_t n) {
  for (size_t k = 0; k < n; k++) {
    const size_t i = world->link_of[actions[k].conn];
    struct link *link = &world->links[i];
    switch (actions[k].what) {
    case MST_ACCEPTOR_ADMIT:
      to_client(world, i, CLIENT_ADMIT);
      break;
    case MST_ACCEPTOR_REFUSE:
      to_client(world, i, CLIENT_REFUSE);
      close_server(world, i);
      break;
    case MST_ACCEPTOR_CLOSE:
      close_server(world, i);
      break;
    case MST_ACCEPTOR_USE:
      CHECK_INT(actions[k].worker, link->worker);
      CHECK_INT(world->used[link->worker], LINKS_MAX); // none twice
      world->used[link->worker] = i;
      world->uses[link->worker]++;
      link->accepted = 0; // the acceptor's number is another's now
      to_client(world, i, CLIENT_HEARD);
      break;
    }
    if (actions[k].what != MST_ACCEPTOR_ADMIT) link->accepted = 0;
  }
  mst_acceptor_check(world->acceptor);
}

static void server_event(struct world *world, const struct event *event) {
  struct link *link = &world->links[event->link];
  struct mst_acceptor_action actions[2];
  if (event->what == SERVER_IN) {
    if (mst_acceptor_accepted(world->acceptor, world->now_ns, &link->conn) != 0)
      return;
    link->server_open = link->accepted = 1;
    world->link_of[link->conn] = event->link;
    return;
  }
  if (!link->server_open || !link->accepted) return;
  if (event->what == SERVER_DIAL) {
    perform(world, actions,
            mst_acceptor_dial(world->acceptor, link->conn, &link->dial,
                              world->now_ns, actions));
  } else if (event->what == SERVER_TALK) {
    perform(world, actions,
            mst_acceptor_talked(world->acceptor, link->conn, actions));
  } else {
    mst_acceptor_ended(world->acceptor, link->conn);
    link->server_open = link->accepted = 0;
  }
}

static void happen(struct world *world, const struct event *event) {
  if (event->what == TICK) {
    client_event(world, (uint32_t)event->link, MST_DIALER_TICK);
    return;
  }
  if (event->what >= SERVER_IN && event->what <= SERVER_END) {
    server_event(world, event);
    return;
  }
  const struct link *link = &world->links[event->link];
  if (!link->client_open || world->current[link->worker] != event->link) return;
  static const enum mst_dialer_event events[] = {
      [UP] = MST_DIALER_CONNECTED,
      [CLIENT_END] = MST_DIALER_ENDED,
      [CLIENT_ADMIT] = MST_DIALER_ADMITTED,
      [CLIENT_REFUSE] = MST_DIALER_REFUSED,
      [CLIENT_HEARD] = MST_DIALER_HEARD};
  client_event(world, link->worker, events[event->what]);
}

// next takes the earliest event; among simultaneous ones, any.
static struct event next(struct world *world) {
  size_t best = 0;
  for (size_t i = 1; i < world->event_count; i++) {
    if (world->events[i].at_ns < world->events[best].at_ns) best = i;
  }
  const struct event event = world->events[best];
  world->events[best] = world->events[--world->event_count];
  return event;
}

static void play(struct world *world, uint64_t seed) {
  memset(world, 0, sizeof *world);
  world->random = seed;
  CHECK_INT(mst_acceptor_open(7, WORKERS, 64, &world->acceptor), 0);
  for (uint32_t i = 0; i < WORKERS; i++) {
    struct mst_dial dial = {.cluster = 7, .worker = i};
    for (size_t k = 0; k < MST_NONCE_BYTES; k++)
      dial.nonce[k] = (uint8_t)mst_random(&world->random);
    world->current[i] = world->used[i] = LINKS_MAX;
    mst_dialer_open(&world->dialers[i], &dial, 0, 600 * MST_NS_PER_S);
    plan(world, 0, TICK, i);
  }
  while (world->event_count > 0) {
    const struct event event = next(world);
    world->now_ns = event.at_ns;
    struct mst_acceptor_action action;
    while (mst_acceptor_tick(world->acceptor, world->now_ns, &action) > 0)
      perform(world, &action, 1);
    happen(world, &event);
    mst_acceptor_check(world->acceptor);
  }
}

TEST("Whatever a network does, each worker gets in once, and nothing is left") {
  struct world *world = malloc(sizeof *world);
  CHECK(world != NULL);
  const uint64_t seed = mst_test_seed();
  for (uint64_t run = 0; run < 300; run++) {
    play(world, seed + run);
    CHECK_INT(mst_acceptor_used(world->acceptor), WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
      CHECK_INT(world->dialers[i].state, MST_DIALER_DONE);
      CHECK_INT(world->uses[i], 1);
      CHECK_INT(world->current[i], world->used[i]); // both mean the same one
    }
    CHECK(world->done_ns < 120 * MST_NS_PER_S);
    // The session's remaining waits end.
    struct mst_acceptor_action action;
    while (mst_acceptor_tick(world->acceptor, INT64_MAX / 2, &action) > 0)
      ;
    CHECK_INT(mst_acceptor_due(world->acceptor), INT64_MAX);
    mst_acceptor_close(world->acceptor);
  }
  free(world);
}
