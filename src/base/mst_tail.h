// mst_tail: the last bytes of a stream, in a fixed array. No allocation, no R.
#ifndef MST_TAIL_H
#define MST_TAIL_H

#include <stddef.h>
#include <stdint.h>

// Enough for a traceback; small enough to keep one for each of 1,000 workers.
#define MST_TAIL_BYTES 8192u

struct mst_tail {
  char *bytes;    // MST_TAIL_BYTES, allocated by the first write; owned
  size_t next;    // where the next byte goes
  uint64_t total; // bytes ever written
};

// mst_tail_write keeps the last MST_TAIL_BYTES. Keeps nothing if memory is short.
void mst_tail_write(struct mst_tail *tail, const char *bytes, size_t n);

// mst_tail_read copies the kept bytes, oldest first, to out[MST_TAIL_BYTES] and returns their
// number. If older bytes were dropped it starts after the first newline, so that no partial line is
// shown (unless there is only one line).
size_t mst_tail_read(const struct mst_tail *tail, char *out);

void mst_tail_free(struct mst_tail *tail);

#endif
