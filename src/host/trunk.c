// One end of a link. See trunk.h.
#include "host/trunk.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "net/net.h"

#define IN_BYTES ((size_t)4 * (MST_PIECE_HEAD_BYTES + MST_PIECE_MAX))
#define PINGS 6 // in the time of a silence that counts as broken
#define OWES_NS MST_NS_PER_MS

void mst_trunk_fail(struct mst_trunk *trunk, int code, const char *text) {
  if (trunk->failed != 0) return;
  trunk->failed = code;
  if (text != NULL)
    (void)mst_err_set(&trunk->err, (enum mst_code) - code, 0, NULL, "%s", text);
  if (trunk->ops->fails != NULL) trunk->ops->fails(trunk);
}

// fail_io: reading or writing failed.
static void fail_io(struct mst_trunk *trunk, int64_t code,
                    const struct mst_err *err) {
  mst_trunk_fail(trunk, (int)code,
                 code == -MST_ECLOSED ? "the link was closed" : err->text);
}

// ---- in

static void take_pieces(struct mst_trunk *trunk, int64_t now_ns) {
  struct mst_came what;
  while (trunk->failed == 0 && trunk->in_head < trunk->in.len) {
    size_t used;
    int rc = mst_mux_read(&trunk->mux, trunk->in.data + trunk->in_head,
                          trunk->in.len - trunk->in_head, now_ns, &what, &used);
    if (rc == 0) break;
    if (rc > 0) {
      trunk->in_head += used;
      rc = what.kind == MST_CAME_NOTHING
               ? 0
               : trunk->ops->came(trunk, &what, now_ns);
    }
    if (rc < 0) {
      mst_trunk_fail(trunk, rc,
                     rc == -MST_EMEM ? "no memory for what came"
                                     : "the other end of the link sent bytes "
                                       "that it can't have meant");
    }
  }
  const size_t left = trunk->in.len - trunk->in_head;
  if (left > 0 && trunk->in_head > 0)
    memmove(trunk->in.data, trunk->in.data + trunk->in_head, left);
  trunk->in.len = left;
  trunk->in_head = 0;
}

void mst_trunk_read(struct mst_trunk *trunk, int64_t now_ns) {
  struct mst_buf *in = &trunk->in;
  struct mst_err err;
  mst_err_clear(&err);
  while (trunk->failed == 0) {
    const int64_t got = mst_cable_read(&trunk->cable, in->data + in->len,
                                       in->cap - in->len, &err);
    if (got == -MST_EAGAIN) return;
    if (got < 0) {
      fail_io(trunk, got, &err);
    } else {
      in->len += (size_t)got;
      take_pieces(trunk, now_ns);
    }
    if (!mst_cable_has_more(&trunk->cable)) return;
  }
}

// ---- out

uint8_t *mst_trunk_end(const struct mst_trunk *trunk) {
  return trunk->out + trunk->out_n;
}

static void write_out(struct mst_trunk *trunk) {
  struct mst_err err;
  mst_err_clear(&err);
  while (trunk->out_head < trunk->out_n && !trunk->out_blocked &&
         trunk->failed == 0) {
    const int64_t sent =
        mst_cable_write(&trunk->cable, trunk->out + trunk->out_head,
                        trunk->out_n - trunk->out_head, &err);
    if (sent == -MST_EAGAIN) {
      trunk->out_blocked = 1;
    } else if (sent < 0) {
      fail_io(trunk, sent, &err);
    } else {
      trunk->out_head += (size_t)sent;
    }
  }
  if (trunk->out_head == trunk->out_n) trunk->out_head = trunk->out_n = 0;
}

void mst_trunk_push(struct mst_trunk *trunk, int64_t now_ns) {
  struct mst_turn turn;
  while (trunk->failed == 0) {
    if (trunk->out_n + MST_TRUNK_TURN_MAX > MST_TRUNK_OUT_BYTES) {
      write_out(trunk);
      if (trunk->out_n > 0) break;
    }
    if (!mst_mux_turn(&trunk->mux, now_ns, &turn)) break;
    if (turn.stream != NULL) {
      trunk->ops->turn(trunk, turn.stream, turn.most, now_ns);
      continue;
    }
    memcpy(mst_trunk_end(trunk), turn.bytes, turn.n);
    trunk->out_n += turn.n;
    trunk->some_over |= turn.over != NULL;
  }
  write_out(trunk);
}

// want_out has the loop tell when the link takes more. It isn't in the loop otherwise: its end
// would be reported again and again.
static void want_out(struct mst_trunk *trunk) {
  const uint32_t write = trunk->out_blocked ? MST_WRITABLE : 0;
  if (trunk->failed != 0) {
    mst_loop_remove(trunk->loop, &trunk->in_io);
    mst_loop_remove(trunk->loop, &trunk->out_io);
  } else if (trunk->out_io.fd == trunk->in_io.fd) {
    (void)mst_loop_want(trunk->loop, &trunk->in_io, MST_READABLE | write, NULL);
  } else if (!trunk->out_blocked) {
    mst_loop_remove(trunk->loop, &trunk->out_io);
  } else if (trunk->out_io.slot == 0) {
    (void)mst_loop_add(trunk->loop, &trunk->out_io, NULL);
  }
}

void mst_trunk_fill(struct mst_trunk *trunk, int64_t now_ns) {
  mst_trunk_push(trunk, now_ns);
  want_out(trunk);
}

// ---- signs of life

// A ping answers what wanted no answer, where the link has TCP's delays on: packets of the other
// end that wait for an acknowledgement are sent with it.
void mst_trunk_answer(struct mst_trunk *trunk, int64_t now_ns) {
  if (!trunk->delays || trunk->mux.owes == MST_OWES_NOTHING) {
    trunk->owes_ns = INT64_MAX;
    return;
  }
  if (trunk->owes_ns == INT64_MAX) trunk->owes_ns = now_ns + OWES_NS;
  if (trunk->mux.owes != MST_OWES_NOW && now_ns < trunk->owes_ns) return;
  trunk->owes_ns = INT64_MAX;
  mst_mux_ping(&trunk->mux, now_ns);
  mst_trunk_fill(trunk, now_ns);
}

int64_t mst_trunk_beat_ns(const struct mst_trunk *trunk) {
  return trunk->silence_ns / PINGS;
}

void mst_trunk_beat(struct mst_trunk *trunk, int64_t before_ns,
                    int64_t now_ns) {
  const int64_t beat_ns = mst_trunk_beat_ns(trunk);
  if (now_ns - before_ns > 2 * beat_ns) trunk->mux.heard_ns = now_ns;
  if (now_ns - trunk->mux.heard_ns > trunk->silence_ns)
    mst_trunk_fail(trunk, -MST_ETIMEOUT, "the other end of the link is silent");
  if (now_ns - trunk->pinged_ns < beat_ns) return;
  trunk->pinged_ns = now_ns;
  mst_mux_ping(&trunk->mux, now_ns);
}

// ---- opened and closed

int mst_trunk_open(struct mst_trunk *trunk,
                   const struct mst_link_config *config,
                   const struct mst_trunk_ops *ops, struct mst_loop *loop,
                   int64_t now_ns, struct mst_err *err) {
  *trunk = (struct mst_trunk){
      .ops = ops,
      .loop = loop,
      .cable = config->cable,
      .in_io = {.fd = config->cable.in,
                .wanted = MST_READABLE,
                .ready = ops->ready,
                .owner = trunk},
      .out_io = {.fd = config->cable.out,
                 .wanted = MST_WRITABLE,
                 .ready = ops->ready,
                 .owner = trunk},
      .out = malloc(MST_TRUNK_OUT_BYTES),
      .delays = config->delays,
      .owes_ns = INT64_MAX,
      .silence_ns = config->silence_ns,
      .pinged_ns = now_ns,
  };
  mst_mux_init(&trunk->mux, ops->is_session, now_ns);
  int rc = trunk->out == NULL || mst_buf_reserve(&trunk->in, IN_BYTES) != 0
               ? mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a link")
               : 0;
  if (rc == 0) {
    mst_net_unblock(config->cable.in);
    mst_net_unblock(config->cable.out);
    rc = mst_loop_add(loop, &trunk->in_io, err);
  }
  if (rc != 0) {
    mst_trunk_free(trunk);
    return rc;
  }
  mst_mux_ping(&trunk->mux, now_ns);
  return 0;
}

void mst_trunk_close(struct mst_trunk *trunk) {
  mst_loop_remove(trunk->loop, &trunk->in_io);
  mst_loop_remove(trunk->loop, &trunk->out_io);
  trunk->in_io.fd = trunk->out_io.fd = -1;
  mst_cable_close(&trunk->cable);
}

void mst_trunk_break(struct mst_trunk *trunk) {
  trunk->in_io.slot = trunk->out_io.slot = 0;
}

void mst_trunk_free(struct mst_trunk *trunk) {
  mst_loop_remove(trunk->loop, &trunk->in_io);
  mst_loop_remove(trunk->loop, &trunk->out_io);
  mst_mux_free(&trunk->mux);
  mst_buf_free(&trunk->in);
  free(trunk->out);
  trunk->out = NULL;
}
