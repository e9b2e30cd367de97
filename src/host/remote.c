// The session's end of another host. See remote.h.
#include "host/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// How long a command may take to end once its link is closed, and once it was told to: some have to
// give back what they were allotted. An R that still boots sees the end when it reads: if it were
// killed, its temporary directory would stay.
#define CLOSED_NS (2 * MST_NS_PER_S)
#define BOOT_NS (500 * MST_NS_PER_MS)
#define TOLD_NS (6 * MST_NS_PER_S)

// ---- what the host process says

static void gone(struct mst_remote *remote) {
  remote->gone = 1;
  mst_loop_remove(remote->loop, &remote->io);
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
  (void)ready;
  if (remote->chan.out_first != NULL) {
    (void)mst_chan_flush(&remote->chan, NULL);
    want(remote);
  }
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
  const int why = mst_relay_why(remote->relay, err);
  return why != 0
             ? why
             : mst_err_set(err, MST_ECLOSED, 0, NULL, "the link was closed");
}

// ---- opened

struct ends {
  int in[2], out[2], errors[2], first[2];
};

static int open_ends(struct ends *ends, struct mst_err *err) {
  *ends = (struct ends){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
  int rc = mst_net_pipe(ends->in, err);
  if (rc == 0) rc = mst_net_pipe(ends->out, err);
  if (rc == 0) rc = mst_net_pipe(ends->errors, err);
  if (rc == 0) rc = mst_net_pair(ends->first, err);
  if (rc != 0) return rc;
  (void)fcntl(ends->in[0], F_SETFL, 0); // the command's own
  mst_net_raise(&ends->in[1]);
  mst_net_raise(&ends->out[0]);
  mst_net_raise(&ends->errors[0]);
  mst_net_raise(&ends->first[0]);
  mst_net_raise(&ends->first[1]);
  return 0;
}

static void close_ends(struct ends *ends) {
  int *const all[] = {ends->in, ends->out, ends->errors, ends->first};
  for (int i = 0; i < 8; i++)
    mst_net_close(&all[i / 2][i % 2]);
}

// watch has the loops tell what the command and the host process say.
static int watch(struct mst_remote *remote, struct ends *ends,
                 struct mst_err *err) {
  mst_chan_open(&remote->chan, ends->first[0], MST_FRAME_MAX_CONTROL);
  const int errors = ends->errors[0];
  ends->first[0] = ends->errors[0] = -1;
  int rc = mst_output_open(&remote->errors, remote->prints, errors, err);
  if (rc != 0) return rc;
  remote->io = (struct mst_io){.fd = remote->chan.fd,
                               .wanted = MST_READABLE,
                               .ready = is_ready,
                               .owner = remote};
  return mst_loop_add(remote->loop, &remote->io, err);
}

static int run(struct mst_remote *remote, struct ends *ends,
               struct mst_spawn *spawn, const struct mst_relay_config *how,
               int64_t until_ns, struct mst_err *err) {
  struct mst_relay_config config = *how;
  spawn->input = ends->in[0];
  spawn->output = ends->out[1];
  spawn->errors = ends->errors[1];
  spawn->end_signal = SIGTERM; // srun takes its job back
  int rc = mst_spawn_run(spawn, &remote->pid, err);
  if (rc == 0) rc = watch(remote, ends, err);
  if (rc != 0) return rc;
  config.in = ends->out[0];
  config.out = ends->in[1];
  config.first = ends->first[1];
  rc = mst_relay_start(&config, until_ns, &remote->relay, err);
  if (rc == 0) ends->out[0] = ends->in[1] = ends->first[1] = -1;
  return rc;
}

int mst_remote_start(const char *name, struct mst_loop *loop,
                     struct mst_loop *prints, struct mst_spawn *spawn,
                     const struct mst_relay_config *how, int64_t until_ns,
                     struct mst_remote **out, struct mst_err *err) {
  struct mst_remote *remote = calloc(1, sizeof *remote);
  if (remote == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a host");
  struct ends ends;
  strncpy(remote->name, name, sizeof remote->name - 1);
  remote->host = (struct mst_host){.name = remote->name,
                                   .build = remote->build,
                                   .remove = remove_there,
                                   .release = release};
  remote->loop = loop;
  remote->prints = prints;
  remote->owner = getpid();
  remote->chan.fd = remote->io.fd = remote->errors.io.fd = -1;
  int rc = open_ends(&ends, err);
  if (rc == 0) rc = run(remote, &ends, spawn, how, until_ns, err);
  close_ends(&ends);
  if (rc != 0) {
    mst_remote_free(remote);
    return rc;
  }
  *out = remote;
  return 0;
}

int mst_remote_server(struct mst_remote *remote, struct mst_blob *order,
                      struct mst_blob *setup, mst_news_sink sink,
                      void *sink_owner, struct mst_server **out,
                      struct mst_err *err) {
  struct mst_head head = {.kind = MST_KIND_SERVER};
  int pair[2], output[2];
  int rc = mst_net_pair(pair, err);
  if (rc != 0) return rc;
  rc = mst_net_pipe(output, err);
  if (rc != 0) {
    mst_net_close(&pair[0]);
    mst_net_close(&pair[1]);
    return rc;
  }
  mst_net_raise(&pair[0]);
  mst_net_raise(&output[0]);
  const int theirs[] = {pair[1], output[1]};
  int ours[] = {pair[0], output[0]};
  rc = mst_chan_send(&remote->chan, &head, order, theirs, 2, 0, err);
  mst_net_close(&pair[1]);
  mst_net_close(&output[1]);
  if (rc == 0) {
    return mst_server_over(&remote->host, remote->loop, remote->prints, ours,
                           setup, sink, sink_owner, out, err);
  }
  mst_net_close(&ours[0]);
  mst_net_close(&ours[1]);
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
  if (!remote->gone && remote->chan.fd >= 0) gone(remote);
  if (remote->end_ns == 0) remote->end_ns = mst_clock_now();
  if (!remote->has_facts && remote->waits) tell(remote, SIGTERM);
}

void mst_remote_break(struct mst_remote *remote) {
  remote->io.slot = remote->errors.io.slot = 0;
  remote->gone = 1;
  mst_net_close(&remote->errors.io.fd);
  mst_net_shutdown(remote->chan.fd);
  mst_net_close(&remote->chan.fd);
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
    mst_relay_end(remote->relay);
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
  free(remote);
}
