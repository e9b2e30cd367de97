// The session's end of another host. See remote.h.
#include "host/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_assert.h"

// How long a command may take to end once its link is closed, and once it was told to: some have to
// give back what they were allotted. An R that still boots sees the end when it reads: if it were
// killed, its temporary directory would stay.
#define CLOSED_NS (2 * MST_NS_PER_S)
#define BOOT_NS (500 * MST_NS_PER_MS)
#define TOLD_NS (6 * MST_NS_PER_S)

// ---- what the host process says

static void close_link(struct mst_remote *remote) {
  mst_loop_remove(remote->prints, &remote->greeted_io);
  mst_keeper_end(remote->keeper);
  if (remote->link != NULL && remote->failed == 0)
    remote->failed = mst_link_why(remote->link, &remote->err);
  mst_link_close(remote->link);
  remote->link = NULL;
  mst_cable_close(&remote->config.cable);
}

static void gone(struct mst_remote *remote) {
  if (remote->gone) return;
  remote->gone = 1;
  remote->gone_ns = mst_clock_now();
  mst_loop_remove(remote->loop, &remote->io);
  close_link(remote); // with the last line the link may be freed
  mst_chan_close(&remote->chan);
}

// want has the loop tell when what is queued can be sent.
static void want(struct mst_remote *remote) {
  const int writes = mst_chan_wants_write(&remote->chan);
  (void)mst_loop_want(remote->loop, &remote->io,
                      MST_READABLE | (writes ? MST_WRITABLE : 0), NULL);
}

static void is_ready(struct mst_io *io, uint32_t ready) {
  struct mst_remote *remote = io->owner;
  struct mst_frame frame;
  if (remote->chan.out_first != NULL) {
    (void)mst_chan_flush(&remote->chan, NULL);
    want(remote);
  }
  if ((ready & MST_READABLE) == 0) return;
  const int rc = mst_chan_fill(&remote->chan, 0, NULL);
  int found;
  while ((found = mst_chan_peek(&remote->chan, &frame, NULL)) == 1) {
    if (frame.head.kind == MST_KIND_HOST && !remote->has_facts) {
      remote->has_facts = mst_buf_append(&remote->facts, frame.payload,
                                         (size_t)frame.head.length) == 0;
    }
    if (frame.head.kind == MST_KIND_LEAVING) remote->leaves = 1;
    mst_chan_take(&remote->chan, &frame);
  }
  if ((rc < 0 && rc != -MST_EAGAIN && rc != -MST_EMEM) || found < 0)
    gone(remote);
}

static int begin(struct mst_remote *remote, struct mst_err *err) {
  struct mst_line *first;
  const int rc = mst_link_open(&remote->config, remote->links, remote->prints,
                               &remote->link, &first, err);
  if (rc != 0) return rc;
  remote->config.cable = MST_CABLE_NONE;
  mst_keeper_keep(remote->keeper, remote->link);
  mst_chan_open_line(&remote->chan, first, MST_FRAME_MAX_CONTROL);
  remote->io = (struct mst_io){.fd = -1,
                               .line = first,
                               .wanted = MST_READABLE,
                               .ready = is_ready,
                               .owner = remote};
  return mst_loop_add(remote->loop, &remote->io, err);
}

static void is_greeted(struct mst_io *io, uint32_t ready) {
  struct mst_remote *remote = io->owner;
  int rc = mst_keeper_greeted(remote->keeper, &remote->err);
  (void)ready;
  if (rc == 0) return;
  mst_loop_remove(remote->prints, io);
  if (rc > 0) rc = begin(remote, &remote->err);
  if (rc == 0) return;
  remote->failed = rc;
  gone(remote);
}

// remove_there asks the host process to remove a worker's directory.
static void remove_there(struct mst_host *host, const char *path) {
  struct mst_remote *remote = (struct mst_remote *)(void *)host;
  struct mst_head head = {.kind = MST_KIND_REMOVE};
  uint8_t payload[MST_TEXT_BYTES_MAX];
  const int n = mst_text_encode(path, payload, sizeof payload);
  if (n < 0 || remote->gone) return; // it goes with the host
  (void)mst_chan_send_small(&remote->chan, &head, payload, (size_t)n, 0, NULL);
  want(remote);
}

static void release(struct mst_host *host) {
  mst_remote_end((struct mst_remote *)(void *)host);
}

int mst_remote_is(const struct mst_remote *remote, struct mst_err *err) {
  if (!remote->gone) return remote->has_facts;
  if (remote->failed != 0 && err != NULL) *err = remote->err;
  return remote->failed != 0
             ? remote->failed
             : mst_err_set(err, MST_ECLOSED, 0, NULL, "the link was closed");
}

// ---- opened

struct ends {
  int in[2], out[2], errors[2];
};

static int open_ends(struct ends *ends, struct mst_err *err) {
  *ends = (struct ends){{-1, -1}, {-1, -1}, {-1, -1}};
  int rc = mst_net_pipe(ends->in, err);
  if (rc == 0) rc = mst_net_pipe(ends->out, err);
  if (rc == 0) rc = mst_net_pipe(ends->errors, err);
  if (rc != 0) return rc;
  (void)fcntl(ends->in[0], F_SETFL, 0); // the command's own
  mst_net_raise(&ends->in[1]);
  mst_net_raise(&ends->out[0]);
  mst_net_raise(&ends->errors[0]);
  return 0;
}

static void close_ends(struct ends *ends) {
  int *const all[] = {ends->in, ends->out, ends->errors};
  for (int i = 0; i < 6; i++)
    mst_net_close(&all[i / 2][i % 2]);
}

// greet has the host process greeted at the other end of the cable, and the loop tell when that is
// over.
static int greet(struct mst_remote *remote, int64_t until_ns,
                 struct mst_err *err) {
  const int rc =
      mst_keeper_start(&remote->config, until_ns, &remote->keeper, err);
  if (rc != 0) return rc;
  remote->greeted_io = (struct mst_io){.fd = mst_keeper_fd(remote->keeper),
                                       .wanted = MST_READABLE,
                                       .ready = is_greeted,
                                       .owner = remote};
  return mst_loop_add(remote->prints, &remote->greeted_io, err);
}

static int run(struct mst_remote *remote, struct ends *ends,
               struct mst_spawn *spawn, int64_t until_ns, struct mst_err *err) {
  spawn->input = ends->in[0];
  spawn->output = ends->out[1];
  spawn->errors = ends->errors[1];
  spawn->end_signal = SIGTERM; // srun takes its job back
  int rc = mst_spawn_run(spawn, &remote->pid, err);
  if (rc != 0) return rc;
  remote->config.cable.in = ends->out[0];
  remote->config.cable.out = ends->in[1];
  ends->out[0] = ends->in[1] = -1;
  rc = mst_output_open(&remote->errors, remote->prints, ends->errors[0], err);
  ends->errors[0] = -1;
  return rc == 0 ? greet(remote, until_ns, err) : rc;
}

static struct mst_remote *new_remote(const char *name, struct mst_loop *loop,
                                     struct mst_loop *prints,
                                     struct mst_links *links,
                                     const struct mst_link_config *how) {
  struct mst_remote *remote = calloc(1, sizeof *remote);
  if (remote == NULL) return NULL;
  strncpy(remote->name, name, sizeof remote->name - 1);
  remote->host = (struct mst_host){.name = remote->name,
                                   .build = remote->build,
                                   .remove = remove_there,
                                   .release = release};
  remote->loop = loop;
  remote->prints = prints;
  remote->links = links;
  remote->owner = getpid();
  remote->config = *how;
  remote->config.cable = MST_CABLE_NONE;
  remote->chan.fd = remote->errors.io.fd = -1;
  return remote;
}

int mst_remote_start(const char *name, struct mst_loop *loop,
                     struct mst_loop *prints, struct mst_links *links,
                     struct mst_spawn *spawn, const struct mst_link_config *how,
                     int64_t until_ns, struct mst_remote **out,
                     struct mst_err *err) {
  struct mst_remote *remote = new_remote(name, loop, prints, links, how);
  if (remote == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a host");
  struct ends ends;
  int rc = open_ends(&ends, err);
  if (rc == 0) rc = run(remote, &ends, spawn, until_ns, err);
  close_ends(&ends);
  if (rc != 0) {
    mst_remote_free(remote);
    return rc;
  }
  *out = remote;
  return 0;
}

int mst_remote_expect(const char *name, struct mst_loop *loop,
                      struct mst_loop *prints, struct mst_links *links,
                      const struct mst_link_config *how,
                      struct mst_remote **out, struct mst_err *err) {
  *out = new_remote(name, loop, prints, links, how);
  return *out != NULL
             ? 0
             : mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a host");
}

int mst_remote_arrive(struct mst_remote *remote, struct mst_cable *cable,
                      int64_t until_ns, struct mst_err *err) {
  MST_ASSERT(remote->pid == 0 && remote->keeper == NULL && !remote->gone);
  remote->config.cable = *cable;
  *cable = MST_CABLE_NONE;
  const int rc = greet(remote, until_ns, &remote->err);
  if (rc == 0) return 0;
  if (err != NULL) *err = remote->err;
  remote->failed = rc;
  gone(remote);
  return rc;
}

int mst_remote_server(struct mst_remote *remote, struct mst_blob *order,
                      struct mst_blob *setup, mst_news_sink sink,
                      void *sink_owner, struct mst_server **out,
                      struct mst_err *err) {
  static const enum mst_stream_class classes[] = {MST_STREAM_CONTROL,
                                                  MST_STREAM_OUTPUT};
  struct mst_head head = {.kind = MST_KIND_SERVER};
  struct mst_ends ends = MST_ENDS_NONE;
  struct mst_line *over = remote->chan.line;
  if (over == NULL)
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the link was closed");
  int rc = 0;
  for (int i = 0; i < 2 && rc == 0; i++) {
    ends.lines[i] = over->ops->open(over, classes[i]);
    if (ends.lines[i] == NULL)
      rc = mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a server");
  }
  if (rc == 0)
    rc = mst_chan_send_ends(&remote->chan, &head, order, &ends, 2, err);
  if (rc == 0) {
    want(remote);
    rc = mst_server_over(&remote->host, remote->loop, remote->prints, &ends,
                         setup, sink, sink_owner, out, err);
  }
  mst_ends_close(&ends);
  return rc;
}

// ---- ended

int mst_remote_reap(struct mst_remote *remote) {
  if (remote->pid == 0 || remote->how != MST_EXIT_NONE) return 1;
  return mst_reap(remote->pid, &remote->how, &remote->number) != 0;
}

// A command that is stopped has to go on, to end.
static void tell(struct mst_remote *remote, int signal) {
  if (mst_remote_reap(remote) != 0) return;
  (void)kill(-remote->pid, signal);
  (void)kill(-remote->pid, SIGCONT);
}

void mst_remote_end(struct mst_remote *remote) {
  gone(remote);
  if (remote->end_ns == 0) remote->end_ns = mst_clock_now();
  if (!remote->has_facts && remote->waits) tell(remote, SIGTERM);
}

void mst_remote_break(struct mst_remote *remote) {
  remote->io.slot = remote->greeted_io.slot = 0;
  remote->gone = 1;
  mst_output_leave(&remote->errors);
  mst_chan_leave(&remote->chan);
  mst_keeper_end(remote->keeper);
  mst_link_break(remote->link);
  mst_cable_close(&remote->config.cable);
}

static int ends_within(struct mst_remote *remote, int64_t wait_ns) {
  const int64_t end_ns = mst_clock_now() + wait_ns;
  int ended;
  while ((ended = mst_remote_reap(remote)) == 0 && mst_clock_now() < end_ns)
    (void)poll(NULL, 0, 1);
  return ended;
}

void mst_remote_free(struct mst_remote *remote) {
  if (remote == NULL) return;
  if (remote->owner == getpid()) {
    mst_remote_end(remote);
    int64_t closed_ns = remote->has_facts ? CLOSED_NS : BOOT_NS;
    closed_ns -= mst_clock_now() - remote->end_ns;
    if (remote->host.silent) closed_ns = 0;
    if (!ends_within(remote, closed_ns)) tell(remote, SIGTERM);
    if (!ends_within(remote, TOLD_NS)) tell(remote, SIGKILL);
    while (mst_remote_reap(remote) == 0)
      (void)poll(NULL, 0, 1);
  }
  mst_output_close(&remote->errors);
  mst_tail_free(&remote->errors.tail);
  mst_buf_free(&remote->facts);
  mst_keeper_free(remote->keeper);
  free(remote);
}
