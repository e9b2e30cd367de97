// conduit: what a process has of a worker. Two streams of frames, and the bytes that the worker
// prints. Data has calls and answers; control has a few small frames that don't wait behind data.
//
// It is by descriptors where both ends are on one machine: large vectors go along as descriptors,
// and looking again and again for an answer costs less than sleeping until it comes. It is by lines
// (line.h) where the worker is on another host.
//
// A conduit belongs to the thread that has its loops. Nothing here blocks. No R.
#ifndef MST_CONDUIT_H
#define MST_CONDUIT_H

#include <stdint.h>

#include "base/mst_err.h"
#include "loop/chan.h"
#include "loop/loop.h"
#include "loop/output.h"

// What its owner is told, from a loop; printed also from mst_conduit_drain.
struct mst_conduit_events {
  // Data has come, or its end: the owner calls mst_conduit_fill. Also while it is held, but only
  // for the end.
  void (*readable)(void *owner);
  // A frame of control.
  void (*control)(void *owner, const struct mst_frame *frame);
  mst_output_sink printed;
  // The system had no room for what is queued: call mst_conduit_flush at later_ns. Comes from the
  // functions that send, too.
  void (*put_off)(void *owner, int64_t later_ns);
};

struct mst_conduit {
  const struct mst_conduit_events *events;
  void *owner;
  struct mst_loop *loop, *prints; // prints: for output, may be the same
  struct mst_chan
      data; // what came: peek, map, take, detach, begun, drop, see chan.h
  struct mst_io data_io;
  struct mst_chan control;
  struct mst_io control_io;
  struct mst_output output; // its tail stays when the conduit is closed
  uint8_t held;             // data isn't read
};

// mst_conduit_init makes one with nothing open. events and the loops must outlive it.
void mst_conduit_init(struct mst_conduit *conduit, struct mst_loop *loop,
                      struct mst_loop *prints,
                      const struct mst_conduit_events *events, void *owner);
// mst_conduit_open opens it, and gives the worker's ends: data, control, output. The caller sends
// them over `over` (NULL: by itself), and closes its copies. 0, or -MST_ESYS, -MST_EMEM: then
// nothing is open.
int mst_conduit_open(struct mst_conduit *conduit, const struct mst_chan *over,
                     struct mst_ends *theirs, struct mst_err *err);
// mst_conduit_close closes all, without harm if it isn't open; the worker sees the end of both
// streams even if other processes have copies of their descriptors. It may be opened again.
void mst_conduit_close(struct mst_conduit *conduit);
// mst_conduit_break does the same where the loops are given up, and doesn't look at them.
// mst_conduit_leave, in a forked child, closes the child's copies alone: the worker sees nothing.
void mst_conduit_break(struct mst_conduit *conduit);
void mst_conduit_leave(struct mst_conduit *conduit);

// mst_conduit_send sends a frame of data, or queues it: mst_conduit_queued tells. Whether a large
// vector of the payload goes along as a descriptor, or its bytes, is the conduit's choice. As
// mst_chan_send otherwise, and mst_chan_send_small.
int mst_conduit_send(struct mst_conduit *conduit, struct mst_head *head,
                     struct mst_blob *payload, struct mst_err *err);
int mst_conduit_send_small(struct mst_conduit *conduit, struct mst_head *head,
                           const void *payload, size_t n, struct mst_err *err);
int mst_conduit_queued(const struct mst_conduit *conduit);
// mst_conduit_flush sends what is queued of both streams, as far as it fits.
void mst_conduit_flush(struct mst_conduit *conduit);

// mst_conduit_say sends a frame of control. -MST_ECLOSED if it isn't open; else as mst_chan_send.
// mst_conduit_says: the last one hasn't been sent whole. mst_conduit_pass makes a channel, for
// small frames, whose other end goes to the worker along with the frame; after an error there is
// none.
int mst_conduit_say(struct mst_conduit *conduit, struct mst_head *head,
                    const void *payload, size_t n, struct mst_err *err);
int mst_conduit_says(const struct mst_conduit *conduit);
int mst_conduit_pass(struct mst_conduit *conduit, struct mst_head *head,
                     struct mst_chan *chan, struct mst_err *err);

// mst_conduit_fill reads what is there, see mst_chan_fill.
int mst_conduit_fill(struct mst_conduit *conduit, struct mst_err *err);
// mst_conduit_hold stops reading data, or (0) goes on.
void mst_conduit_hold(struct mst_conduit *conduit, int on);
// mst_conduit_deafen stops reading data for good: a process that the worker left behind may hold
// the other end for ever. What was read can be taken. mst_conduit_listens: that wasn't done, and it
// is open.
void mst_conduit_deafen(struct mst_conduit *conduit);
int mst_conduit_listens(const struct mst_conduit *conduit);

// mst_conduit_hear reads the frames of control that have come: 0, or 1 if it has ended or isn't
// understood. The loop does this; before a verdict about the worker it is done at once.
int mst_conduit_hear(struct mst_conduit *conduit);
// mst_conduit_cut ends data: the worker sees its end, and reading gives what had come before.
// mst_conduit_cut_control ends control: its watch ends the worker.
void mst_conduit_cut(struct mst_conduit *conduit);
void mst_conduit_cut_control(struct mst_conduit *conduit);

// mst_conduit_drain gives what was printed until now to the owner.
void mst_conduit_drain(struct mst_conduit *conduit);
// mst_conduit_is_far: the worker is on another host. mst_conduit_soon_ns gives how soon it can
// answer at best: 0 for at once, INT64_MAX if that is unknown.
int mst_conduit_is_far(const struct mst_conduit *conduit);
int64_t mst_conduit_soon_ns(const struct mst_conduit *conduit);

#endif
