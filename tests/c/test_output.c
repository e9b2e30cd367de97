// Tests of loop/output: what a process prints, cut anywhere, its lines ended by NULs too.
#include <string.h>
#include <unistd.h>

#include "loop/output.h"
#include "mst_test.h"
#include "net/net.h"

static char got[64];
static size_t got_bytes;

static void take(void *owner, const char *bytes, size_t n) {
  (void)owner;
  memcpy(got + got_bytes, bytes, n);
  got_bytes += n;
}

static void check_tail(const struct mst_output *output, const char *text) {
  char tail[MST_TAIL_BYTES];
  CHECK_INT(mst_tail_read(&output->tail, tail), strlen(text));
  CHECK(memcmp(tail, text, strlen(text)) == 0);
}

TEST("C13: a NUL ends a line that has begun in the tail, and is otherwise ignored") {
  struct mst_output output = {.sink = take};
  struct mst_loop *loop;
  int pipe[2];
  CHECK_INT(mst_loop_open(MST_LOOP_BEST, &loop, NULL), 0);
  CHECK_INT(mst_net_pipe(pipe, NULL), 0);
  CHECK_INT(mst_output_open(&output, loop, pipe[0], NULL), 0);
  static const struct {
    const char *bytes;
    size_t n;
    const char *all; // received so far
  } steps[] = {{"\0\0a\0b", 5, "a\nb"},
               {"c", 1, "a\nbc"},
               {"\0", 1, "a\nbc\n"},
               {"\0\n\0", 3, "a\nbc\n\n"},
               {"d\n\0e\0", 5, "a\nbc\n\nd\ne\n"}};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    CHECK_INT(write(pipe[1], steps[i].bytes, steps[i].n), steps[i].n);
    got_bytes = 0;
    mst_output_drain(&output);
    CHECK_INT(got_bytes, steps[i].n); // its owner gets the NULs
    CHECK(memcmp(got, steps[i].bytes, got_bytes) == 0);
    check_tail(&output, steps[i].all);
  }
  mst_output_close(&output);
  mst_net_close(&pipe[1]);
  mst_tail_free(&output.tail);
  mst_loop_close(loop);
}
