// A process's output pipe, kept as a tail. See output.h.
#include "loop/output.h"

#include <string.h>

#include "net/net.h"

#define DRAIN_MAX ((size_t)1 << 20)

static void output_ready(struct mst_io *io, uint32_t ready) {
  (void)ready;
  mst_output_drain(io->owner);
}

static void set_io(struct mst_output *output, struct mst_loop *loop, int fd,
                   struct mst_line *line) {
  output->loop = loop;
  output->io = (struct mst_io){.fd = fd,
                               .line = line,
                               .wanted = MST_READABLE,
                               .ready = output_ready,
                               .owner = output};
  output->in_line = 0;
}

int mst_output_open(struct mst_output *output, struct mst_loop *loop, int fd,
                    struct mst_err *err) {
  set_io(output, loop, fd, NULL);
  const int rc = mst_loop_add(loop, &output->io, err);
  if (rc != 0) mst_net_close(&output->io.fd);
  return rc;
}

void mst_output_open_line(struct mst_output *output, struct mst_loop *loop,
                          struct mst_line *line) {
  set_io(output, loop, -1, line);
  (void)mst_loop_add(loop, &output->io, NULL);
}

static int is_open(const struct mst_output *output) {
  return output->io.fd >= 0 || output->io.line != NULL;
}

static int64_t read_some(struct mst_output *output, char *bytes, size_t n) {
  int fd = -1, lost;
  if (output->io.line == NULL)
    return mst_net_read(output->io.fd, bytes, n, NULL);
  return output->io.line->ops->read(output->io.line, bytes, n, &fd, &lost,
                                    NULL);
}

// end_lines replaces NULs that end a line by newlines, in place, and drops the other NULs. Returns
// the number of bytes left.
static size_t end_lines(struct mst_output *output, char *bytes, size_t n) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (bytes[i] == '\0' && !output->in_line) continue;
    bytes[kept] = bytes[i] == '\0' ? '\n' : bytes[i];
    output->in_line = bytes[kept++] != '\n';
  }
  return kept;
}

void mst_output_drain(struct mst_output *output) {
  char bytes[16384];
  size_t all = 0;
  // What a line holds is bounded already.
  while (is_open(output) && (all < DRAIN_MAX || output->io.line != NULL)) {
    const int64_t got = read_some(output, bytes, sizeof bytes);
    if (got == -MST_EAGAIN) return;
    if (got < 0) {
      mst_output_close(output);
      return;
    }
    if (output->sink != NULL)
      output->sink(output->sink_owner, bytes, (size_t)got);
    mst_tail_write(&output->tail, bytes, end_lines(output, bytes, (size_t)got));
    all += (size_t)got;
    if ((size_t)got < sizeof bytes) return; // the pipe is empty
  }
}

void mst_output_close(struct mst_output *output) {
  struct mst_line *line = output->io.line;
  if (!is_open(output) || output->loop == NULL) return;
  mst_loop_remove(output->loop, &output->io);
  output->io.line = NULL;
  mst_net_close(&output->io.fd);
  if (line != NULL) line->ops->release(line);
}

void mst_output_leave(struct mst_output *output) {
  output->io.slot = 0;
  output->io.line = NULL;
  mst_net_close(&output->io.fd);
}
