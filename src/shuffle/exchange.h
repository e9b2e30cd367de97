// shuffle/exchange: this worker's blocks, and those it reads from others. No R.
//
// Two threads: the R thread puts, asks and reads; the watch thread (fork/watch.h, whose guest this
// is) owns the links and answers others while R computes. One lock; each holds it as long as a
// look-up takes, and the watch thread also while it writes what a socket takes without waiting.
//
// An attempt's blocks are in one segment, or in one file in the worker's temporary directory, with
// checksums. A reader that knows where a segment is opens it through /proc, without asking.
// Otherwise it asks over a link, and gets the segment's descriptor or the file's path. It keeps the
// mapping until it is dropped, so each worker does this once for each map task.
//
// Two workers have at most one lasting connection. A reader dials one of the other's listeners
// (handlers), each with a queue of its own, so that no burst of readers can fill them all. An
// unanswered question is repeated on a new connection, and given up after a longer time.
#ifndef MST_SHUFFLE_EXCHANGE_H
#define MST_SHUFFLE_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "net/stream.h"
#include "share/segment.h"
#include "wire/link_msg.h"

// Open questions on one link.
#define MST_EXCHANGE_CREDIT 16u
// A question is repeated if its link is silent this long, on a new connection if there is a
// listener. After this time it is given up.
#define MST_EXCHANGE_AGAIN_NS INT64_C(2500000000)
#define MST_EXCHANGE_SILENT_NS INT64_C(10000000000)
// Each needs a descriptor; a session can't have more workers anyway.
#define MST_LINKS_MAX 65536u
// Accepted connections that haven't said yet who they are.
#define MST_STRANGERS_MAX 1024u

// mst_exchange_begin makes this process's exchange a guest of its watch. R thread, before READY is
// sent. 0, -MST_ESYS.
int mst_exchange_begin(struct mst_err *err);

// mst_exchange_end frees everything, after the watch has ended. For tests: a worker's process ends
// with its watch.
void mst_exchange_end(void);

// ---- how links are made. R thread

// Who this worker is, and how long it waits.
struct mst_exchange_way {
  uint32_t worker, epoch;
  int64_t again_ns, silent_ns; // see above
};
void mst_exchange_set(const struct mst_exchange_way *way);

// mst_exchange_listen creates a folder and opens listeners in it until there are `count` (1 to
// MST_HANDLERS_MAX; open ones stay open): unix sockets "0", "1", ... that only this user can reach,
// each with the longest queue. Peers need this incarnation's random token, which the session sends
// them. The folder's owner removes it. Call mst_exchange_set first. 0; -MST_ECONNECT (sys_errno:
// ENAMETOOLONG for a path that only /proc could shorten), -MST_ESYS, -MST_EMEM: those already open
// stay open.
int mst_exchange_listen(const char *folder, uint32_t count,
                        uint8_t token[MST_TOKEN_BYTES], struct mst_err *err);

// Where a worker listens, as reported to the session.
struct mst_place {
  uint32_t worker, epoch, handlers;
  char *folder;
  uint8_t token[MST_TOKEN_BYTES];
};
// mst_exchange_knows records a place (copied) and forgets those of earlier incarnations. 0,
// -MST_EMEM.
int mst_exchange_knows(const struct mst_place *place, struct mst_err *err);

// Counts for people and tests, never reset.
struct mst_exchange_counts {
  uint64_t opened;   // segments of others opened directly
  uint64_t dialled;  // connections begun to listeners of others,
  uint64_t full;     // found a full queue,
  uint64_t met;      // became links
  uint64_t accepted; // connections to own listeners,
  uint64_t refused;  // closed since they weren't from our workers
  uint64_t again;    // questions that were repeated
  uint64_t asked[MST_HANDLERS_MAX]; // links through each own listener
};
// mst_exchange_count gives them, and the numbers of open listeners and links that are up.
void mst_exchange_count(struct mst_exchange_counts *counts, uint32_t *handlers,
                        uint32_t *links);

// ---- own blocks. R thread

// Where a segment is: a descriptor of a process. The token identifies the process: pids and
// descriptors are reused.
#define MST_SPOT_TOKEN_MAX ((UINT64_C(1) << 62) - 1)
struct mst_spot {
  int32_t pid, fd; // pid 0: unknown
  uint64_t token;
};

// mst_exchange_put keeps an attempt's blocks. It takes over the sealed segment; or path names the
// file, which is removed when they are dropped. size is that of either. If they are kept already,
// the new ones are released. 0, -MST_EMEM (nothing is kept, the segment is closed).
int mst_exchange_put(const struct mst_want *want, struct mst_segment *segment,
                     const char *path, uint64_t size,
                     const struct mst_block *blocks, uint32_t count,
                     struct mst_err *err);
// mst_exchange_sign appends a description of the blocks to a segment that isn't sealed yet, for
// readers that open it directly. 0; -MST_EMEM; -MST_ESYS.
int mst_exchange_sign(const struct mst_want *want, struct mst_segment *segment,
                      const struct mst_block *blocks, uint32_t count,
                      struct mst_err *err);
// mst_exchange_spot tells where an own attempt's blocks are; pid 0: no reader can open them.
struct mst_spot mst_exchange_spot(const struct mst_want *want);
// mst_exchange_held gives the bytes of own blocks in segments.
uint64_t mst_exchange_held(void);
// mst_exchange_drop drops all blocks of a stage, own and others' (attempt 0), or of one attempt of
// one task.
void mst_exchange_drop(const struct mst_want *want);

// ---- others' blocks. R thread

// The blocks should be at this worker itself.
#define MST_SOURCE_SELF UINT32_MAX

struct mst_source {
  struct mst_want want;
  uint32_t worker, epoch; // that has it, according to the plan
  struct mst_spot spot;   // where its segment is
};
enum mst_fetched {
  MST_FETCHED_OPEN,
  MST_FETCHED_HERE,
  MST_FETCHED_NOT,
  MST_FETCHED_BARRED, // this process may not open it, and there is no link
  MST_FETCHED_SILENT
};

// mst_exchange_ask opens what it can of n sources, and begins to ask for the rest. These replace
// the earlier questions. Blocks some 20 us for each source that it opens. 0, -MST_EMEM.
int mst_exchange_ask(const struct mst_source *sources, size_t n,
                     struct mst_err *err);
// mst_exchange_wait waits until no question is open, at most timeout_ms. Returns how many still
// are.
size_t mst_exchange_wait(int timeout_ms);
// mst_exchange_state tells the state of one source. Blocks that are here stay until they are
// dropped.
enum mst_fetched mst_exchange_state(size_t index);

// mst_exchange_describe gives a block's description. 0; -MST_EINPUT if it isn't here.
int mst_exchange_describe(const struct mst_want *want, uint32_t index,
                          struct mst_block *block);
// mst_exchange_read gives one block: a reference to its mapping (the caller releases it), its
// offset there, and its description. *map is NULL for a block without rows. 0; -MST_EINPUT if it
// isn't here;
// -MST_EPROTO if its checksum is wrong or its file is gone or truncated: then the source is
// forgotten; -MST_EMEM.
int mst_exchange_read(const struct mst_want *want, uint32_t index,
                      struct mst_map **map, uint64_t *base,
                      struct mst_block *block, struct mst_err *err);

#endif
