// shuffle/exchange: blocks of this worker, and those that it reads from others. No R.
//
// Two threads: the R thread puts, asks and reads; the watch thread (fork/watch.h, whose guest
// this is) owns the links and answers others while R computes. One lock; each holds it for
// as long as it takes to look something up, and the watch thread for what a socket
// takes without waiting.
//
// An attempt's blocks are in one segment, handed to readers by descriptor, or in one
// file in the worker's temporary directory, told by its path, whose blocks carry checksums.
// A reader keeps what it was given (its mapping) until it is dropped, so each worker
// asks once for each map task.
#ifndef MST_SHUFFLE_EXCHANGE_H
#define MST_SHUFFLE_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "share/segment.h"
#include "wire/link.h"

// Questions that are open on one link.
#define MST_EXCHANGE_CREDIT 16u
// A question without an answer is asked again after this long, and given up after that.
#define MST_EXCHANGE_AGAIN_NS INT64_C(2500000000)
#define MST_EXCHANGE_SILENT_NS INT64_C(10000000000)
#define MST_LINKS_MAX 256u

// mst_exchange_begin makes this process's exchange a guest of its watch. R thread, before
// READY is said.
void mst_exchange_begin(void);

// mst_exchange_end gives back all that it holds, once the watch has ended. For tests: a
// worker's process ends with its watch.
void mst_exchange_end(void);

// ---- own blocks. R thread

// mst_exchange_put keeps an attempt's blocks. The segment, sealed, is taken over; or
// path names the file, which is removed when they are dropped. size is of either. If they
// are kept already, what is given is let go instead. 0, -MST_EMEM (nothing is kept, the
// segment closed).
int mst_exchange_put(const struct mst_want *want, struct mst_segment *segment,
                     const char *path, uint64_t size,
                     const struct mst_block *blocks, uint32_t count,
                     struct mst_err *err);
// mst_exchange_held gives the bytes of own blocks in segments.
uint64_t mst_exchange_held(void);
// mst_exchange_drop lets go of all blocks of a stage, own and others' (attempt 0), or of one
// attempt of one task.
void mst_exchange_drop(const struct mst_want *want);

// ---- others' blocks. R thread

// This worker itself is to have it.
#define MST_SOURCE_SELF UINT32_MAX

struct mst_source {
  struct mst_want want;
  uint32_t worker, epoch; // that has it, as the plan says
};
enum mst_found {
  MST_FOUND_OPEN,
  MST_FOUND_HERE,
  MST_FOUND_NOT,
  MST_FOUND_SILENT
};

// mst_exchange_ask begins to look for n sources, in place of those asked for before.
// 0, -MST_EMEM.
int mst_exchange_ask(const struct mst_source *sources, size_t n,
                     struct mst_err *err);
// mst_exchange_wait waits until none is open, at most timeout_ms: how many still are.
size_t mst_exchange_wait(int timeout_ms);
// mst_exchange_state tells what became of one of them. Blocks that are here stay so until
// they are dropped.
enum mst_found mst_exchange_state(size_t index);

// mst_exchange_read gives one block: a reference to the mapping that it is in (the caller
// releases it), where it begins there, and what is known of it. *map is NULL for a block
// without rows. 0; -MST_EINPUT if it isn't here; -MST_EPROTO if its checksum is wrong or its
// file gone or cut: then the source is forgotten; -MST_EMEM.
int mst_exchange_read(const struct mst_want *want, uint32_t index,
                      struct mst_map **map, uint64_t *base,
                      struct mst_block *block, struct mst_err *err);

#endif
