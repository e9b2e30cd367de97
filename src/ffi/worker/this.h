// This worker, for worker.c and checkpoint.c.
#ifndef MST_FFI_THIS_H
#define MST_FFI_THIS_H

#include <sys/resource.h>

#include "ffi/worker/worker.h"
#include "loop/chan.h"
#include "pool/spin.h"

struct ffi_this {
  struct mst_chan chan;
  struct mst_spin spin;
  struct mst_head call;   // the call being evaluated
  struct mst_blob *reply; // reused for each answer
  SEXP keep;              // list(tag of the call)
  int reading;            // a frame is being unserialized
  double taken;           // number of frames taken up
  int timed;              // begin_* belong to this call
  int64_t begin_ns;
  struct rusage begin_usage;
  uint16_t changed;     // changes found but not reported yet
  struct mst_seed seed; // stream position not reported yet
  int raised;           // the watch interrupted the last call
  int session;          // its process id, for people
  pid_t pid;            // of the process that evaluates the call
  uint32_t cluster;     // the numbers of the cluster and of this worker
  uint32_t worker;
  int stands;           // it has a standby, as far as it knows
  uint64_t resident;    // memory after the last collection for a standby
  // When the last standby was made: what this process had used, and the pages that it shares since.
  struct rusage stood_usage;
  uint64_t stood_pages;
  int output; // the output pipe, wherever the user's code leads 1 and 2; 0: none
};
extern struct ffi_this ffi_this;

// ---- this.c. R thread

void ffi_this_open_channel(void);
void ffi_this_say_hello(int forked);
void ffi_this_say_text(uint8_t kind, const char *text);
void ffi_this_say_ready(const char *tempdir);
// ffi_this_end_line ends an unfinished line of the user's output by a NUL, which the session
// understands. Call it before an answer, so that both arrive together.
void ffi_this_end_line(void);
// ffi_this_next_frame waits for one whole frame. 1, or 0 when the session is gone or there is no
// memory for the frame: then this worker must end.
int ffi_this_next_frame(struct mst_frame *frame);
// ffi_this_title makes the title of this process for ps, for the cluster and worker of the
// session's frame.
#define FFI_TITLE_BYTES 64
void ffi_this_title(char title[FFI_TITLE_BYTES], const char *what,
                    const struct mst_frame *frame);

// ---- checkpoint.c

// ffi_this_checkpoint answers CHECKPOINT: it takes the order, and makes a standby. 0 when the
// session is gone. Returns in the worker and, when that is lost, in the standby that replaces it.
// Raises R errors.
int ffi_this_checkpoint(const struct mst_frame *order);
// ffi_this_trim gives memory back, if there may be much, and says so. 1; 0: the session is gone.
int ffi_this_trim(const struct mst_frame *order);

#endif
