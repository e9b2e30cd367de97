// output: the read end of a process's pipe for descriptors 1 and 2.
//
// What comes is kept in a tail. It is read whenever the loop runs, so a writer
// never waits while somebody waits for it. Its end is never waited for: what
// the process started may hold the other end for long. One thread, no R.
//
// A NUL ends a line that has begun, and is nothing else: workers write one when a call
// ends, so that what the next one prints begins a line.
#ifndef MST_OUTPUT_H
#define MST_OUTPUT_H

#include "base/mst_tail.h"
#include "loop/loop.h"

// Called with what was read, as it comes.
typedef void (*mst_output_sink)(void *owner, const char *bytes, size_t n);

struct mst_output {
  struct mst_io io;
  struct mst_loop *loop;
  struct mst_tail tail;
  mst_output_sink sink; // NULL: only the tail is kept
  void *sink_owner;
  int in_line; // a line has begun
};

// mst_output_open watches fd and takes it over; what the tail has is kept, and so is
// the sink. 0 or the loop's error; then fd is closed.
int mst_output_open(struct mst_output *output, struct mst_loop *loop, int fd,
                    struct mst_err *err);
// mst_output_drain reads what is there without waiting, at most 1 MiB: a
// process that prints without end can't keep the reader here. What was written before the
// call is read: no pipe holds more.
void mst_output_drain(struct mst_output *output);
// mst_output_close stops watching and closes; the tail can still be read.
void mst_output_close(struct mst_output *output);

#endif
