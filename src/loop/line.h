// line: one end of a stream of bytes that is no descriptor here. What is written to it goes over a
// link to another host, what is read comes from there (host/link.h); channels and outputs use it as
// they use a socket or a pipe, by the same rules. An io with a line is added to a loop as one with
// a descriptor: ready is called for it, but by the link.
//
// A line belongs to the thread that has the loops. References are counted: whoever opens it has the
// first. No R.
#ifndef MST_LINE_H
#define MST_LINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/mst_err.h"
#include "share/blob.h"
#include "wire/stream.h"

struct mst_io;
struct mst_line;

// What goes along with the first byte that is written: descriptors, to a socket; to a line the
// segment of a blob, or other lines of its link, whose other ends then go to the reader.
struct mst_along {
  const int *fds;
  size_t fd_count;
  struct mst_blob *blob; // NULL, or with a segment
  struct mst_line *const *lines;
  size_t line_count;
};

struct mst_line_ops {
  // open makes a line of the same link. Its bytes wait until it went along with others. NULL: no
  // memory.
  struct mst_line *(*open)(struct mst_line *beside,
                           enum mst_stream_class class);
  // read and write are as mst_net_recv_fds and mst_net_sendv without wait. *fd: of a segment that
  // comes with these bytes, the caller's; else -1. *lost: it was there, but no descriptor for it.
  int64_t (*read)(struct mst_line *line, void *bytes, size_t n, int *fd,
                  int *lost, struct mst_err *err);
  int64_t (*write)(struct mst_line *line, const struct iovec *parts, int count,
                   const struct mst_along *along, struct mst_err *err);
  // want sets its io, NULL for none, and what this wants: another thread may look at them.
  void (*want)(struct mst_line *line, struct mst_io *io, uint32_t wanted);
  // cut ends it in both directions, after what was written: reading gives what came before, and
  // then the end.
  void (*cut)(struct mst_line *line);
  void (*release)(
      struct mst_line *line); // drops a reference; the last one cuts it
  // round_trip_ns gives the shortest one over the link that was measured; 0: none yet.
  int64_t (*round_trip_ns)(struct mst_line *line);
};

struct mst_line {
  const struct mst_line_ops *ops;
  struct mst_io *io; // added to a loop, or NULL
  size_t refs;
};

// What a process on a link's host, or a process here, gets of what is opened for it.
struct mst_ends {
  int fds[3];                // -1: none
  struct mst_line *lines[3]; // each with a reference; NULL: none
};
#define MST_ENDS_NONE ((struct mst_ends){.fds = {-1, -1, -1}})
// mst_ends_close closes this process's copies.
void mst_ends_close(struct mst_ends *ends);

#endif
