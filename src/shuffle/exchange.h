// shuffle/exchange: blocks of this worker, and those that it reads from others. No R.
//
// Two threads: the R thread puts, asks and reads; the watch thread (fork/watch.h, whose guest
// this is) owns the links and answers others while R computes. One lock; each holds it for
// as long as it takes to look something up, and the watch thread for what a socket
// takes without waiting.
//
// An attempt's blocks are in one segment, or in one file in the worker's temporary directory,
// whose blocks carry checksums. A reader that knows where a segment lies opens it by /proc, and
// nobody is asked. Else it asks over a link: it gets the segment's descriptor, or the file's path.
// It keeps what it has got (its mapping) until that is dropped, so each worker does so once for
// each map task.
//
// Two workers have one lasting connection at most. It is dialled by a reader to one of the other's
// listeners (handlers), each of which has a queue of its own, so that no burst of readers can fill
// them all. A question without an answer is asked again on a new connection, and given up after a
// longer time.
#ifndef MST_SHUFFLE_EXCHANGE_H
#define MST_SHUFFLE_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "net/stream.h"
#include "share/segment.h"
#include "wire/link_msg.h"

// Questions that are open on one link.
#define MST_EXCHANGE_CREDIT 16u
// A question on whose link nothing comes for this long is asked again, on a new connection where
// there is a listener; it is given up after that.
#define MST_EXCHANGE_AGAIN_NS INT64_C(2500000000)
#define MST_EXCHANGE_SILENT_NS INT64_C(10000000000)
// A worker has a descriptor for each; a session can't have more workers anyway.
#define MST_LINKS_MAX 65536u
// Connections that were accepted and haven't said who they are.
#define MST_STRANGERS_MAX 1024u

// mst_exchange_begin makes this process's exchange a guest of its watch. R thread, before
// READY is said. 0, -MST_ESYS.
int mst_exchange_begin(struct mst_err *err);

// mst_exchange_end gives back all that it holds, once the watch has ended. For tests: a
// worker's process ends with its watch.
void mst_exchange_end(void);

// ---- how links come about. R thread

// Who this worker is, and how long it waits.
struct mst_exchange_way {
  uint32_t worker, epoch;
  int64_t again_ns, silent_ns; // see above
};
void mst_exchange_set(const struct mst_exchange_way *way);

// mst_exchange_listen opens listeners in a folder, which it makes, until there are `count` of
// them (1 to MST_HANDLERS_MAX; those that are open stay so): unix sockets "0", "1", ... that this
// user alone can reach, each with the longest queue. Others need the token, which is random, of
// this incarnation, and sent to them by the session. The folder is removed by its owner.
// mst_exchange_set must have said who this is. 0; -MST_ECONNECT (sys_errno: ENAMETOOLONG for a
// path that only /proc could shorten), -MST_ESYS,
// -MST_EMEM: those that were there are.
int mst_exchange_listen(const char *folder, uint32_t count,
                        uint8_t token[MST_TOKEN_BYTES], struct mst_err *err);

// Where a worker listens, as it told the session.
struct mst_place {
  uint32_t worker, epoch, handlers;
  char *folder;
  uint8_t token[MST_TOKEN_BYTES];
};
// mst_exchange_knows tells of one (copied); what was known of earlier incarnations is
// forgotten. 0, -MST_EMEM.
int mst_exchange_knows(const struct mst_place *place, struct mst_err *err);

// Counts for people and tests, never reset.
struct mst_exchange_counts {
  uint64_t opened;   // segments of others that were opened where they lie
  uint64_t dialled;  // connections to listeners of others that were begun,
  uint64_t full;     // found a full queue,
  uint64_t met;      // became links
  uint64_t accepted; // connections to own listeners,
  uint64_t refused;  // closed since they were none of our workers'
  uint64_t again;    // questions that were asked again
  uint64_t asked[MST_HANDLERS_MAX]; // links by each own listener
};
// mst_exchange_count gives them, and how many listeners are open and links are up now.
void mst_exchange_count(struct mst_exchange_counts *counts, uint32_t *handlers,
                        uint32_t *links);

// ---- own blocks. R thread

// Where a segment lies: a descriptor of a process. The token is the process's: numbers of both are
// used again.
#define MST_SPOT_TOKEN_MAX ((UINT64_C(1) << 62) - 1)
struct mst_spot {
  int32_t pid, fd; // pid 0: not known
  uint64_t token;
};

// mst_exchange_put keeps an attempt's blocks. The segment, sealed, is taken over; or
// path names the file, which is removed when they are dropped. size is of either. If they
// are kept already, what is given is let go instead. 0, -MST_EMEM (nothing is kept, the
// segment closed).
int mst_exchange_put(const struct mst_want *want, struct mst_segment *segment,
                     const char *path, uint64_t size,
                     const struct mst_block *blocks, uint32_t count,
                     struct mst_err *err);
// mst_exchange_sign writes, behind the blocks of a segment that isn't sealed yet, what is known of
// them, for readers that open it themselves. 0; -MST_EMEM; -MST_ESYS.
int mst_exchange_sign(const struct mst_want *want, struct mst_segment *segment,
                      const struct mst_block *blocks, uint32_t count,
                      struct mst_err *err);
// mst_exchange_spot tells where an own attempt's blocks lie; a pid of 0: no reader can open them.
struct mst_spot mst_exchange_spot(const struct mst_want *want);
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
  struct mst_spot spot;   // where its segment lies
};
enum mst_found {
  MST_FOUND_OPEN,
  MST_FOUND_HERE,
  MST_FOUND_NOT,
  MST_FOUND_BARRED, // this process may not open it where it lies, and there is no link
  MST_FOUND_SILENT
};

// mst_exchange_ask opens what it can of n sources, and begins to ask for the rest, in place of
// those asked for before. Blocks for some 20 us for each that it opens.
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
