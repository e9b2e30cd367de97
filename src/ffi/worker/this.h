// What worker.c and checkpoint.c share: this worker.
#ifndef MST_FFI_THIS_H
#define MST_FFI_THIS_H

#include <sys/resource.h>

#include "ffi/worker/worker.h"
#include "loop/chan.h"
#include "pool/spin.h"

struct ffi_this {
  struct mst_chan chan;
  struct mst_spin spin;
  struct mst_head call;   // the one that is being evaluated
  struct mst_blob *reply; // used again and again
  SEXP keep;              // list(tag of the call)
  int reading;            // a frame is being unserialized
  double taken;           // frames that were begun with
  int timed;              // begin_* are of this call
  int64_t begin_ns;
  struct rusage begin_usage;
  uint16_t changed;     // what was found to have changed and isn't told yet
  struct mst_seed seed; // the stream's position that isn't told yet
  int raised;           // the last call was interrupted by the watch
  int session;          // its process id, for people
  int stands;           // it has a standby, as far as it knows
  uint64_t resident;    // memory after the last collection for a standby
  int output; // the output pipe, wherever the user's code leads 1 and 2; 0: none
};
extern struct ffi_this ffi_this;

// ---- worker.c

void ffi_this_open_channel(void);
void ffi_this_say_hello(int forked);
void ffi_this_say_ready(const char *tempdir);
// ffi_this_next_frame waits for one whole frame. 1, or 0 when the session is gone, or there is no
// memory for it: then this worker is of no use any more.
int ffi_this_next_frame(struct mst_frame *frame);
// ffi_this_title gives what lists of processes are to show for this, which the session's frame is
// for.
#define FFI_TITLE_BYTES 64
void ffi_this_title(char title[FFI_TITLE_BYTES], const char *what,
                    const struct mst_frame *frame);

// ---- checkpoint.c

// ffi_this_checkpoint answers CHECKPOINT: it takes the order, and makes a standby. 0 when the
// session is gone. Returns in the worker and, once that is lost, in the standby that takes its
// place. Raises R errors.
int ffi_this_checkpoint(const struct mst_frame *order);

#endif
