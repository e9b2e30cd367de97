// output: the read end of a process's pipe for descriptors 1 and 2.
//
// Output is kept in a tail. It is read whenever the loop runs, so a writer never blocks while the
// session waits for it. Nothing waits for the pipe's end: children of the process may hold it open
// for long. One thread, no R.
//
// Workers write a NUL after each call. In the tail it ends a line that has begun, so that the next
// call's output begins a line, and is otherwise ignored.
#ifndef MST_OUTPUT_H
#define MST_OUTPUT_H

#include "base/mst_tail.h"
#include "loop/line.h"
#include "loop/loop.h"

// Called with output as it comes, NULs included.
typedef void (*mst_output_sink)(void *owner, const char *bytes, size_t n);

struct mst_output {
  struct mst_io io;
  struct mst_loop *loop;
  struct mst_tail tail;
  mst_output_sink sink; // NULL: only the tail is kept
  void *sink_owner;
  int in_line; // a line has begun
};

// mst_output_open takes over fd and watches it; keeps the tail's contents and the sink. 0, or the
// loop's error; then fd is closed.
int mst_output_open(struct mst_output *output, struct mst_loop *loop, int fd,
                    struct mst_err *err);
// mst_output_open_line is the same for a line, whose reference it takes over.
void mst_output_open_line(struct mst_output *output, struct mst_loop *loop,
                          struct mst_line *line);
// mst_output_drain reads without waiting, at most 1 MiB, so that a process that prints without end
// can't keep the reader here. It reads everything written before the call: no pipe holds more.
void mst_output_drain(struct mst_output *output);
// mst_output_close stops watching and closes; the tail can still be read.
void mst_output_close(struct mst_output *output);
// mst_output_leave closes this process's copy: in a forked child, or where the loop is given up.
void mst_output_leave(struct mst_output *output);

#endif
