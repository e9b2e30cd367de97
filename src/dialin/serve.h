// The acceptor on a loop: accepts, reads DIALs, answers, and hands connections over. One thread,
// the loop's; never blocks. No R.
#ifndef MST_DIALIN_SERVE_H
#define MST_DIALIN_SERVE_H

#include "dialin/dialin.h"
#include "loop/loop.h"
#include "secure/secure.h"

struct mst_dialin;

// Called when a worker's connection is in use; the callee owns fd, and what keeps it secure, or
// NULL. Nothing after the DIAL has been read from it; something is there. It may call
// mst_dialin_expect, but nothing else of this file.
typedef void (*mst_dialin_use)(void *owner, uint32_t worker, int fd,
                               struct mst_secure *secure);

// What peers must prove before a byte of theirs counts.
struct mst_dialin_proof {
  const uint8_t
      *key; // MST_SECURE_KEY_BYTES; the caller's, kept until mst_dialin_close
  const char *name; // of the key, likewise
};

// mst_dialin_open serves `count` listeners (net/stream.h), which the caller owns and must keep open
// until mst_dialin_close. proof: NULL if peers needn't prove anything. -MST_EMEM, -MST_ESYS.
int mst_dialin_open(struct mst_loop *loop, const int *listeners, size_t count,
                    const struct mst_dialin_proof *proof, uint32_t cluster,
                    uint32_t workers, mst_dialin_use use, void *owner,
                    struct mst_dialin **out, struct mst_err *err);
// mst_dialin_tick closes connections whose time is over. Call it after each mst_loop_run, which
// must wait no longer than until mst_dialin_due.
void mst_dialin_tick(struct mst_dialin *dialin, int64_t now_ns);
int64_t mst_dialin_due(const struct mst_dialin *dialin);
// mst_dialin_used gives how many workers are in use.
uint32_t mst_dialin_used(const struct mst_dialin *dialin);
// mst_dialin_waiting gives how many connections aren't in use.
uint32_t mst_dialin_waiting(const struct mst_dialin *dialin);
void mst_dialin_expect(struct mst_dialin *dialin, uint32_t worker,
                       uint32_t epoch);
// mst_dialin_close closes the connections that aren't in use, with resets. NULL is allowed.
void mst_dialin_close(struct mst_dialin *dialin);

#endif
