// This worker's channel, and what any worker says and hears on it. See this.h.
#include "ffi/worker/this.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "fork/fork.h"

struct ffi_this ffi_this;

void ffi_this_end_line(void) {
  ssize_t n = -1;
  while (ffi_this.output > 0 && n < 0) {
    n = write(ffi_this.output, "", 1);
    if (n < 0 && errno != EINTR) return; // the session is gone
  }
}

// ---- saying

static uint32_t r_version(void) {
  SEXP call = PROTECT(Rf_lang1(Rf_install("getRversion")));
  SEXP version = PROTECT(Rf_eval(call, R_BaseEnv));
  SEXP parts = VECTOR_ELT(version, 0);
  uint32_t number = 0;
  for (int i = 0; i < 3; i++) {
    number = number << 8 | (uint32_t)(INTEGER(parts)[i] & 0xff);
  }
  UNPROTECT(2);
  return number;
}

static int big_endian(void) {
  const uint16_t probe = 1;
  uint8_t first;
  memcpy(&first, &probe, 1);
  return first == 0;
}

void ffi_this_say_hello(int forked) {
  struct mst_hello hello = {.version_min = MST_WIRE_VERSION,
                            .version_max = MST_WIRE_VERSION,
                            .big_endian = (uint8_t)big_endian(),
                            .forked = (uint8_t)forked,
                            .pid = (uint32_t)getpid(),
                            .r_version = r_version()};
  strncpy(hello.build, ffi_build(), sizeof hello.build - 1);
  struct mst_head head = {.kind = MST_KIND_HELLO};
  uint8_t bytes[256];
  const int n = mst_hello_encode(&hello, bytes, sizeof bytes);
  MST_ASSERT(n > 0);
  (void)mst_chan_send_small(&ffi_this.chan, &head, bytes, (size_t)n, 1, NULL);
}

void ffi_this_open_channel(void) {
  mst_chan_open(&ffi_this.chan, MST_FD_DATA, MST_FRAME_MAX);
  ffi_this.chan.takes_maps = ffi_this.chan.keeps_fds = 1;
}

void ffi_this_say_text(uint8_t kind, const char *text) {
  struct mst_head head = {.kind = kind};
  uint8_t bytes[MST_TEXT_MAX + 8u];
  const int n = mst_text_encode(text, bytes, sizeof bytes);
  if (n < 0) return;
  (void)mst_chan_send_small(&ffi_this.chan, &head, bytes, (size_t)n, 1, NULL);
}

void ffi_this_say_ready(const char *tempdir) {
  mst_watch_set_tempdir(tempdir);
  ffi_this.resident = mst_proc_resident();
  ffi_this_end_line();
  ffi_this_say_text(MST_KIND_READY, tempdir);
}

// ---- receiving

// fill_or_wait gets more bytes: first by polling for a short while, then by sleeping in the kernel.
// 0, or -MST_ECLOSED.
static int fill_or_wait(void) {
  int rc = -MST_EAGAIN;
  if (mst_spin_begin(&ffi_this.spin)) {
    const int64_t end_ns = mst_clock_now() + MST_SPIN_NS;
    do {
      rc = mst_chan_fill(&ffi_this.chan, 0, NULL);
    } while (rc == -MST_EAGAIN && mst_clock_now() < end_ns);
    mst_spin_end(&ffi_this.spin, rc != -MST_EAGAIN);
  }
  while (rc == -MST_EAGAIN) {
    rc = mst_chan_fill(&ffi_this.chan, 1, NULL);
    if (rc == -MST_EAGAIN) R_CheckUserInterrupt(); // a signal ended the sleep
  }
  if (rc == -MST_EMEM) REprintf("no memory for a message of the session\n");
  return rc == 1 ? 0 : -MST_ECLOSED;
}

int ffi_this_next_frame(struct mst_frame *frame) {
  if (ffi_this.reading) { // reading the last one raised an error
    ffi_this.reading = 0;
    if (mst_chan_peek(&ffi_this.chan, frame, NULL) == 1) {
      mst_chan_take(&ffi_this.chan, frame);
    }
  }
  for (;;) {
    const int rc = mst_chan_peek(&ffi_this.chan, frame, NULL);
    if (rc != 0) return rc == 1;
    if (fill_or_wait() != 0) return 0;
  }
}

void ffi_this_title(char title[FFI_TITLE_BYTES], const char *what,
                    const struct mst_frame *frame) {
  (void)snprintf(title, FFI_TITLE_BYTES, "muster %s %u of %d", what,
                 frame->head.worker + 1, ffi_this.session);
}
