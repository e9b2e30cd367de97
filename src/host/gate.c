// Where hosts that come by themselves are let in. See gate.h.
#include "host/gate.h"

#include <stdlib.h>

#include "base/mst_clock.h"
#include "net/net.h"

// Of a host, or of a remote that waits for one.
struct place {
  struct mst_cable cable; // a host that nobody waits for yet
  uint8_t has_come;
  struct mst_remote *remote;
};

struct mst_gate {
  struct mst_loop *prints;
  struct mst_intake *intake;
  struct mst_io io;
  int64_t greeting_ns;
  uint32_t count;
  struct place *places; // by the intake's numbers
  struct mst_remote **waiting;
  uint32_t waits; // how many of these, the first first
};

// join gives hosts that have come to remotes that wait.
static void join(struct mst_gate *gate) {
  for (uint32_t i = 0; i < gate->count && gate->waits > 0; i++) {
    struct place *place = &gate->places[i];
    if (!place->has_come || place->remote != NULL) continue;
    place->remote = gate->waiting[0];
    gate->waits--;
    for (uint32_t k = 0; k < gate->waits; k++)
      gate->waiting[k] = gate->waiting[k + 1];
    // If that fails the remote is gone, and says why.
    (void)mst_remote_arrive(place->remote, &place->cable,
                            mst_clock_now() + gate->greeting_ns, NULL);
  }
}

static void has_come(struct mst_io *io, uint32_t ready) {
  struct mst_gate *gate = io->owner;
  struct mst_secure *secure;
  uint32_t at;
  int fd;
  (void)ready;
  while (mst_intake_take(gate->intake, &fd, &secure, &at)) {
    gate->places[at].has_come = 1;
    gate->places[at].cable =
        (struct mst_cable){.in = fd, .out = fd, .secure = secure};
  }
  join(gate);
}

static void free_gate(struct mst_gate *gate) {
  for (uint32_t i = 0; gate->places != NULL && i < gate->count; i++)
    mst_cable_close(&gate->places[i].cable);
  free(gate->places);
  free(gate->waiting);
  free(gate);
}

int mst_gate_open(const struct mst_intake_config *config,
                  struct mst_loop *prints, int64_t greeting_ns,
                  struct mst_gate **out, struct mst_err *err) {
  struct mst_gate *gate = calloc(1, sizeof *gate);
  if (gate == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory to listen");
  gate->prints = prints;
  gate->greeting_ns = greeting_ns;
  gate->places = calloc(config->places, sizeof *gate->places);
  gate->waiting = calloc(config->places, sizeof *gate->waiting);
  int rc = gate->places == NULL || gate->waiting == NULL
               ? mst_err_set(err, MST_EMEM, 0, "calloc", "no memory to listen")
               : 0;
  for (; rc == 0 && gate->count < config->places; gate->count++)
    gate->places[gate->count].cable = MST_CABLE_NONE;
  if (rc == 0) rc = mst_intake_open(config, &gate->intake, err);
  if (rc == 0) {
    gate->io = (struct mst_io){.fd = mst_intake_fd(gate->intake),
                               .wanted = MST_READABLE,
                               .ready = has_come,
                               .owner = gate};
    rc = mst_loop_add(prints, &gate->io, err);
    if (rc != 0) mst_intake_close(gate->intake);
  }
  if (rc != 0) {
    free_gate(gate);
    return rc;
  }
  *out = gate;
  return 0;
}

void mst_gate_await(struct mst_gate *gate, struct mst_remote *remote) {
  if (gate->waits == gate->count) return; // more than hosts are expected
  gate->waiting[gate->waits++] = remote;
  join(gate);
}

void mst_gate_forget(struct mst_gate *gate, const struct mst_remote *remote) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < gate->waits; i++) {
    if (gate->waiting[i] != remote) gate->waiting[left++] = gate->waiting[i];
  }
  gate->waits = left;
  for (uint32_t i = 0; i < gate->count; i++) {
    if (gate->places[i].remote != remote) continue;
    gate->places[i].remote = NULL;
    gate->places[i].has_come = 0;
    mst_intake_expect(gate->intake, i);
  }
}

int mst_gate_knows(const struct mst_gate *gate,
                   const struct mst_remote *remote) {
  for (uint32_t i = 0; i < gate->waits; i++)
    if (gate->waiting[i] == remote) return 1;
  for (uint32_t i = 0; i < gate->count; i++)
    if (gate->places[i].remote == remote) return 1;
  return 0;
}

void mst_gate_close(struct mst_gate *gate) {
  if (gate == NULL) return;
  mst_loop_remove(gate->prints, &gate->io);
  mst_intake_close(gate->intake);
  free_gate(gate);
}

void mst_gate_break(struct mst_gate *gate) {
  gate->io.slot = 0;
  mst_gate_close(gate);
}
