// host/trunk: one end of a link: its descriptors, mux, what has come and what goes. Both ends read,
// write, answer pings and measure silence by it; what the streams are for is the owner's. No R.
//
// Whoever calls must have what the owner's lock guards. Nothing here waits.
#ifndef MST_HOST_TRUNK_H
#define MST_HOST_TRUNK_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "host/link_config.h"
#include "host/mux.h"
#include "loop/loop.h"

// Room for what one turn may put on the link: two pieces of data and an ATTACH between them.
#define MST_TRUNK_TURN_MAX                                                     \
  (2 * (size_t)MST_PIECE_HEAD_BYTES + MST_PIECE_MAX + MST_ATTACH_BYTES_MAX)
#define MST_TRUNK_OUT_BYTES (2 * MST_TRUNK_TURN_MAX)

struct mst_trunk;

struct mst_trunk_ops {
  uint8_t is_session; // this end is the session's
  // the loop says that a descriptor is ready: io->owner is the trunk.
  void (*ready)(struct mst_io *io, uint32_t ready);
  // deals with a piece. 0, or a negative code with which the link fails.
  int (*came)(struct mst_trunk *trunk, const struct mst_came *what,
              int64_t now_ns);
  // puts at most `most` bytes of a stream at mst_trunk_end, with headers, and counts them in out_n,
  // or says to mux that there are none.
  void (*turn)(struct mst_trunk *trunk, struct mst_stream *stream, size_t most,
               int64_t now_ns);
  // the link has failed. May be NULL.
  void (*fails)(struct mst_trunk *trunk);
};

struct mst_trunk {
  const struct mst_trunk_ops *ops;
  struct mst_mux mux;
  struct mst_loop *loop;
  struct mst_cable cable;
  struct mst_io in_io, out_io; // may be one descriptor
  struct mst_buf in;           // from in_head on: not dealt with
  size_t in_head;
  uint8_t *out; // from out_head to out_n
  size_t out_head, out_n;
  uint8_t out_blocked; // the link takes no more for now
  uint8_t some_over;   // a stream may be over
  uint8_t delays;
  int64_t owes_ns; // the answer that mux owes: when it is due; INT64_MAX
  int64_t silence_ns, pinged_ns;
  int failed; // 0, or a negative code; err says more
  struct mst_err err;
};

// mst_trunk_open joins the loop and asks for a ping, which measures the round trip; the next push
// sends it. 0, -MST_EMEM, -MST_ESYS: then nothing is kept. mst_trunk_close leaves the loop and
// closes the descriptors; mst_trunk_free leaves the loop and frees the rest. mst_trunk_break
// forgets the loop, where that was given up.
int mst_trunk_open(struct mst_trunk *trunk,
                   const struct mst_link_config *config,
                   const struct mst_trunk_ops *ops, struct mst_loop *loop,
                   int64_t now_ns, struct mst_err *err);
void mst_trunk_close(struct mst_trunk *trunk);
void mst_trunk_break(struct mst_trunk *trunk);
void mst_trunk_free(struct mst_trunk *trunk);
// mst_trunk_fail notes the first failure; text may be NULL.
void mst_trunk_fail(struct mst_trunk *trunk, int code, const char *text);
// mst_trunk_read takes what has come.
void mst_trunk_read(struct mst_trunk *trunk, int64_t now_ns);
// mst_trunk_end gives where the next bytes go. mst_trunk_push puts on the link what mux lets;
// mst_trunk_fill does so on the loop's thread, and has the loop tell when more can go.
uint8_t *mst_trunk_end(const struct mst_trunk *trunk);
void mst_trunk_push(struct mst_trunk *trunk, int64_t now_ns);
void mst_trunk_fill(struct mst_trunk *trunk, int64_t now_ns);
// mst_trunk_answer sends, on the loop's thread, what is due to go back.
void mst_trunk_answer(struct mst_trunk *trunk, int64_t now_ns);
// mst_trunk_beat measures silence, and pings when that is due, which the next push sends. It was
// last called at before_ns: a process that was stopped since hasn't listened.
void mst_trunk_beat(struct mst_trunk *trunk, int64_t before_ns, int64_t now_ns);
// mst_trunk_beat_ns gives how often it has to be called.
int64_t mst_trunk_beat_ns(const struct mst_trunk *trunk);

#endif
