// The session's end of a fork server. See fork.h.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "fork/fork.h"

// The kernel limits how many descriptors one user may have in flight (ETOOMANYREFS); each leaves
// flight when a server receives it. A launch waits for that for LACKS_NS.
#define LACKS_NS (5 * MST_NS_PER_S)
#define RETRY_NS (5 * MST_NS_PER_MS)

struct mst_server_launch {
  struct mst_server_launch *next;
  struct mst_incarnation of;
  struct mst_ends ends; // the worker's, ours until they are sent
  int64_t since_ns;
};

static struct mst_server *server_of(struct mst_launcher *launcher) {
  return (struct mst_server *)(void *)launcher;
}

static void serve_channel(struct mst_server *server, int readable);
static void want(struct mst_server *server);
static void server_gone(struct mst_server *server);

// is_here tells whether the server and its workers are processes of this machine. Those of another
// host are ended by closing their channels.
static int is_here(const struct mst_server *server) { return server->pid != 0; }

// end_silent kills a server that is stopped or hangs. It is our child and not reaped, so the pid is
// its own. Its workers go on.
static void end_silent(struct mst_server *server) {
  const int64_t deadline_ns = mst_clock_now() + MST_NS_PER_S;
  server->silent = 1;
  if (is_here(server)) (void)kill(server->pid, SIGKILL);
  server_gone(server);
  while (mst_server_reap(server) == 0 && mst_clock_now() < deadline_ns)
    (void)poll(NULL, 0, 1);
}

static struct mst_head head_of(const struct mst_incarnation *of, uint8_t kind) {
  return (struct mst_head){.kind = kind,
                           .cluster = of->cluster,
                           .worker = of->worker,
                           .epoch = of->epoch};
}

static void drop_launch(struct mst_server *server) {
  struct mst_server_launch *launch = server->waiting;
  server->waiting = launch->next;
  mst_ends_close(&launch->ends);
  free(launch);
}

// launch_failed: the oldest that waits can't be sent.
static void launch_failed(struct mst_server *server, int sys_errno) {
  const struct mst_news news = {.kind = MST_NEWS_FORK_FAILED,
                                .of = server->waiting->of,
                                .number =
                                    sys_errno != 0 ? sys_errno : ECONNRESET};
  server->asked--;
  server->sink(server->sink_owner, &news);
}

// send_launches sends as many waiting launches as fit. It never waits for the server: one that
// reports hundreds of exits to a session that only writes would block as well.
static void send_launches(struct mst_server *server) {
  server->lacks = 0;
  while (server->waiting != NULL) {
    const struct mst_server_launch *launch = server->waiting;
    struct mst_head head = head_of(&launch->of, MST_KIND_FORK);
    struct mst_err err;
    mst_err_clear(&err);
    const int rc =
        mst_chan_send_ends(&server->chan, &head, NULL, &launch->ends, 3, &err);
    server->lacks = rc == -MST_ESYS && mst_err_is_shortage(err.sys_errno) &&
                    mst_clock_now() - launch->since_ns < LACKS_NS;
    if (rc == -MST_EAGAIN || server->lacks) break;
    if (rc != 0) launch_failed(server, err.sys_errno);
    drop_launch(server);
  }
  want(server);
}

// owes_news: it was asked for workers of which it has said nothing yet, or one was killed whose end
// it hasn't reported.
static int owes_news(const struct mst_server *server) {
  return server->asked > 0 || mst_kids_killed(server->kids);
}

// expect_news: its silence counts from the first news that it owes. Call it before that is noted.
static void expect_news(struct mst_server *server) {
  if (!owes_news(server)) mst_heal_begin(&server->life, mst_clock_now());
}

static int server_launch(struct mst_launcher *self,
                         const struct mst_incarnation *of,
                         struct mst_conduit *conduit, struct mst_err *err) {
  struct mst_server *server = server_of(self);
  if (server->state != MST_SERVER_READY) {
    return mst_err_set(err, MST_ECLOSED, ECONNRESET, NULL,
                       "the fork server is gone");
  }
  struct mst_server_launch *launch = calloc(1, sizeof *launch);
  if (launch == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a worker");
  }
  const int rc = mst_conduit_open(conduit, &server->chan, &launch->ends, err);
  if (rc != 0) {
    free(launch);
    return rc;
  }
  launch->of = *of;
  launch->since_ns = mst_clock_now();
  struct mst_server_launch **at = &server->waiting;
  while (*at != NULL)
    at = &(*at)->next;
  *at = launch;
  expect_news(server);
  server->asked++;
  send_launches(server);
  return 0;
}

static void server_signal(struct mst_launcher *self,
                          const struct mst_incarnation *of, pid_t pid,
                          int signal) {
  struct mst_server *server = server_of(self);
  struct mst_head head = head_of(of, MST_KIND_SIGNAL);
  const struct mst_proc_msg msg = {.pid = (uint32_t)pid, .number = signal};
  uint8_t payload[MST_PROC_MSG_BYTES];
  mst_proc_msg_encode(&msg, payload);
  if (signal == SIGKILL) {
    expect_news(server);
    mst_kids_mark(server->kids, of);
  }
  if (server->state == MST_SERVER_READY &&
      mst_chan_send_small(&server->chan, &head, payload, sizeof payload, 0,
                          NULL) == 0) {
    want(server);
    return;
  }
  // The caller asks only for workers with an open channel, so the pid is theirs.
  if (is_here(server)) (void)kill(-pid, signal);
}

// adopts: this process becomes the parent of workers whose server is gone.
static int adopts(const struct mst_server *server) {
  return is_here(server) && mst_proc_adopts();
}

// note_kid: one of a server that is gone is nobody's to wait for, unless this process adopts.
static void note_kid(struct mst_server *server,
                     const struct mst_incarnation *of, pid_t pid) {
  if (server->launcher.gone && !adopts(server)) return;
  struct mst_kid *kid = mst_kids_add(&server->kids, of);
  if (kid != NULL) kid->pid = pid;
}

static void server_adopt(struct mst_launcher *self,
                         const struct mst_incarnation *of, pid_t pid) {
  struct mst_server *server = server_of(self);
  struct mst_head head = head_of(of, MST_KIND_ADOPT);
  const struct mst_proc_msg msg = {.pid = (uint32_t)pid};
  uint8_t payload[MST_PROC_MSG_BYTES];
  mst_proc_msg_encode(&msg, payload);
  note_kid(server, of, pid);
  if (server->state != MST_SERVER_READY) return;
  (void)mst_chan_send_small(&server->chan, &head, payload, sizeof payload, 0,
                            NULL);
  want(server);
}

// ask_sign: it answers once it has served what was sent before. A server that is late because it
// waits for its turn isn't silent.
static void ask_sign(struct mst_server *server,
                     const struct mst_heal_policy *policy) {
  struct mst_head head = {.kind = MST_KIND_PING};
  const int64_t now_ns = mst_clock_now();
  if (server->chan.out_first == NULL)
    (void)mst_chan_send_small(&server->chan, &head, NULL, 0, 0, NULL);
  want(server);
  if (is_here(server) && mst_heal_is_suspect(&server->life, policy, now_ns) &&
      mst_proc_runs(server->pid)) {
    mst_heal_runs(&server->life, now_ns);
  }
}

// watch_silence is called often, and ends a silent server.
static void watch_silence(struct mst_server *server) {
  const int64_t now_ns = mst_clock_now();
  const int64_t slept_ns = now_ns - server->looked_ns;
  server->looked_ns = now_ns;
  if (mst_chan_later_ns(&server->chan) <= now_ns || server->waiting != NULL)
    serve_channel(server, 0);
  if (!owes_news(server) || server->lacks ||
      server->state != MST_SERVER_READY) {
    return;
  }
  const int64_t silence_ns = server->launcher.silence_ns;
  struct mst_heal_policy policy = {
      .heartbeat_ns = silence_ns > 0 ? silence_ns : MST_LAUNCHER_SILENCE_NS};
  const int64_t least_ns = is_here(server) ? MST_LAUNCHER_SILENCE_LEAST_NS
                                           : MST_LAUNCHER_SILENCE_FAR_NS;
  if (policy.heartbeat_ns < least_ns) policy.heartbeat_ns = least_ns;
  switch (mst_heal_beat(&server->life, &policy, slept_ns, now_ns)) {
  case MST_BEAT_ASK:
    ask_sign(server, &policy);
    break;
  case MST_BEAT_SILENT:
    end_silent(server);
    break;
  case MST_BEAT_FINE:
    break;
  }
}

// reap_adopted: workers are the server's children until it is a zombie, then this process's.
static void reap_adopted(struct mst_server *server) {
  if (server->kids == NULL || mst_server_reap(server) == 0) return;
  mst_kids_reap(&server->kids, server->sink, server->sink_owner);
}

static void server_look(struct mst_launcher *self) {
  struct mst_server *server = server_of(self);
  if (self->gone) {
    reap_adopted(server);
  } else {
    watch_silence(server);
  }
}

static int server_tells(struct mst_launcher *self,
                        const struct mst_incarnation *of) {
  return mst_kids_have(server_of(self)->kids, of);
}

static void take_text(struct mst_server *server, const struct mst_frame *frame,
                      enum mst_server_state state) {
  if (mst_text_decode(frame->payload, (size_t)frame->head.length,
                      server->text) != 0) {
    strncpy(server->text, "(unreadable)", MST_TEXT_MAX);
  }
  server->state = state;
}

static void take_news(struct mst_server *server, const struct mst_frame *frame,
                      enum mst_news_kind kind) {
  struct mst_proc_msg msg;
  if (mst_proc_msg_decode(frame->payload, (size_t)frame->head.length, &msg) !=
      0) {
    return;
  }
  if (msg.how == MST_EXIT_MEMORY) {
    mst_host_note_kill(server->launcher.host, mst_clock_now());
    msg.how = MST_EXIT_SIGNAL;
    msg.number = SIGKILL;
  }
  const struct mst_news news = {
      .kind = kind,
      .of = {.cluster = frame->head.cluster,
             .worker = frame->head.worker,
             .epoch = frame->head.epoch},
      .how = msg.how,
      .number = kind == MST_NEWS_FORKED ? (int32_t)msg.pid : msg.number};
  if (kind == MST_NEWS_FORKED) {
    // kill(-pid) signals a group: 0 would be the session's own, 1 every process.
    if (msg.pid <= 1) return;
    note_kid(server, &news.of, (pid_t)msg.pid);
  } else {
    mst_kids_drop(&server->kids, &news.of);
  }
  server->sink(server->sink_owner, &news);
}

static void take_frame(struct mst_server *server,
                       const struct mst_frame *frame) {
  struct mst_proc_msg msg;
  const uint8_t kind = frame->head.kind;
  mst_heal_heard(&server->life, mst_clock_now());
  if ((kind == MST_KIND_FORKED || kind == MST_KIND_FORK_FAILED) &&
      server->asked > 0) {
    server->asked--;
  }
  switch (kind) {
  case MST_KIND_SERVER_READY:
    if (mst_proc_msg_decode(frame->payload, (size_t)frame->head.length, &msg) ==
        0) {
      server->threads = msg.number;
    }
    server->state = MST_SERVER_READY;
    break;
  case MST_KIND_SERVER_REFUSE:
    take_text(server, frame, MST_SERVER_REFUSED);
    break;
  case MST_KIND_FAILED:
    take_text(server, frame, MST_SERVER_FAILED);
    break;
  case MST_KIND_FORKED:
    take_news(server, frame, MST_NEWS_FORKED);
    break;
  case MST_KIND_FORK_FAILED:
    take_news(server, frame, MST_NEWS_FORK_FAILED);
    break;
  case MST_KIND_EXITED:
    take_news(server, frame, MST_NEWS_EXITED);
    break;
  default: // a newer server may send more
    break;
  }
}

// note_gone forgets workers that this process won't adopt.
static void note_gone(struct mst_server *server) {
  server->launcher.gone = 1;
  server->launcher.due_ns = 0;
  while (server->waiting != NULL)
    drop_launch(server);
  if (!adopts(server)) mst_kids_free(&server->kids);
  if (server->state == MST_SERVER_BOOTING ||
      server->state == MST_SERVER_READY) {
    server->state = MST_SERVER_GONE;
  }
}

static void server_gone(struct mst_server *server) {
  mst_loop_remove(server->loop, &server->io);
  mst_chan_close(&server->chan);
  note_gone(server);
}

// want has the loop tell when something can be sent. What the system has no room for goes out when
// the server is looked after (watch_silence).
static void want(struct mst_server *server) {
  const struct mst_chan *chan = &server->chan;
  const int waits =
      server->waiting != NULL && chan->out_first == NULL && !server->lacks;
  const uint32_t write = mst_chan_wants_write(chan) || waits ? MST_WRITABLE : 0;
  const int64_t later_ns = mst_chan_later_ns(chan);
  server->launcher.due_ns = server->lacks           ? mst_clock_now() + RETRY_NS
                            : later_ns != INT64_MAX ? later_ns
                                                    : 0;
  (void)mst_loop_want(server->loop, &server->io, MST_READABLE | write, NULL);
}

// serve_channel sends queued frames and takes received ones.
static void serve_channel(struct mst_server *server, int readable) {
  struct mst_frame frame;
  if (!mst_chan_is_open(&server->chan)) return;
  if (server->chan.out_first != NULL) {
    (void)mst_chan_flush(&server->chan, NULL);
    want(server);
  }
  if (server->waiting != NULL) send_launches(server);
  if (!readable) return;
  const int rc = mst_chan_fill(&server->chan, 0, NULL);
  int found;
  while ((found = mst_chan_peek(&server->chan, &frame, NULL)) == 1) {
    // Take it first: the news may lead to another fork, which may read on.
    const struct mst_head head = frame.head;
    uint8_t payload[MST_TEXT_MAX + 8u];
    if (head.length <= sizeof payload) {
      memcpy(payload, frame.payload, (size_t)head.length);
    }
    mst_chan_take(&server->chan, &frame);
    frame.payload = payload;
    if (head.length <= sizeof payload) take_frame(server, &frame);
    if (!mst_chan_is_open(&server->chan)) return;
  }
  // If memory is short the bytes stay in the socket for later.
  if ((rc < 0 && rc != -MST_EAGAIN && rc != -MST_EMEM) || found < 0) {
    server_gone(server);
  }
}

static void chan_ready(struct mst_io *io, uint32_t ready) {
  serve_channel(io->owner, (ready & MST_READABLE) != 0);
}

// spawn_server makes the server's two channels and spawns it.
static int spawn_server(struct mst_server *server, struct mst_loop *prints,
                        struct mst_spawn *spawn, struct mst_err *err) {
  int pair[2], output[2];
  int rc = mst_net_pair(pair, err);
  if (rc != 0) return rc;
  rc = mst_net_pipe(output, err);
  if (rc != 0) goto out_pair;
  mst_net_raise(&pair[0]);
  mst_net_raise(&output[0]);
  spawn->fds[0] = pair[1];
  spawn->output = output[1];
  rc = mst_spawn_run(spawn, &server->pid, err);
  if (rc == 0) {
    mst_chan_open(&server->chan, pair[0], MST_FRAME_MAX_CONTROL);
    rc = mst_output_open(&server->output, prints, output[0], err);
    pair[0] = output[0] = -1;
  }
  mst_net_close(&output[0]);
  mst_net_close(&output[1]);
out_pair:
  mst_net_close(&pair[0]);
  mst_net_close(&pair[1]);
  return rc;
}

static struct mst_server *new_server(struct mst_host *host,
                                     struct mst_loop *loop, mst_news_sink sink,
                                     void *sink_owner, struct mst_err *err) {
  struct mst_server *server = calloc(1, sizeof *server);
  if (server == NULL) {
    (void)mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a server");
    return NULL;
  }
  server->launcher.host = host;
  server->launcher.launch = server_launch;
  server->launcher.signal = server_signal;
  server->launcher.adopt = server_adopt;
  server->launcher.reap = server_look;
  server->launcher.tells = server_tells;
  server->loop = loop;
  server->owner = getpid();
  server->chan.fd = server->io.fd = server->output.io.fd = -1;
  server->sink = sink;
  server->sink_owner = sink_owner;
  server->state = MST_SERVER_BOOTING;
  return server;
}

// begin sends the set-up and has the loop tell when the server answers.
static int begin(struct mst_server *server, struct mst_blob *setup,
                 struct mst_err *err) {
  struct mst_head head = {.kind = MST_KIND_SETUP};
  const int rc = mst_chan_send(&server->chan, &head, setup, NULL, 0, 0, err);
  if (rc != 0) return rc;
  server->io = (struct mst_io){.fd = server->chan.fd,
                               .line = server->chan.line,
                               .wanted = MST_READABLE,
                               .ready = chan_ready,
                               .owner = server};
  return mst_loop_add(server->loop, &server->io, err);
}

int mst_server_start(struct mst_host *host, struct mst_loop *loop,
                     struct mst_loop *prints, struct mst_spawn *spawn,
                     struct mst_blob *setup, mst_news_sink sink,
                     void *sink_owner, struct mst_server **out,
                     struct mst_err *err) {
  struct mst_server *server = new_server(host, loop, sink, sink_owner, err);
  if (server == NULL) return -MST_EMEM;
  int rc = spawn_server(server, prints, spawn, err);
  if (rc == 0) rc = begin(server, setup, err);
  if (rc != 0) {
    mst_server_free(server);
    return rc;
  }
  *out = server;
  return 0;
}

int mst_server_over(struct mst_host *host, struct mst_loop *loop,
                    struct mst_loop *prints, struct mst_ends *ours,
                    struct mst_blob *setup, mst_news_sink sink,
                    void *sink_owner, struct mst_server **out,
                    struct mst_err *err) {
  struct mst_server *server = new_server(host, loop, sink, sink_owner, err);
  if (server == NULL) return -MST_EMEM;
  mst_chan_open_line(&server->chan, ours->lines[0], MST_FRAME_MAX_CONTROL);
  mst_output_open_line(&server->output, prints, ours->lines[1]);
  *ours = MST_ENDS_NONE;
  const int rc = begin(server, setup, err);
  if (rc == 0) {
    *out = server;
  } else {
    mst_server_free(server);
  }
  return rc;
}

int mst_server_reap(struct mst_server *server) {
  if (server->pid == 0 || server->how != MST_EXIT_NONE) return 1;
  return mst_reap(server->pid, &server->how, &server->number) != 0;
}

void mst_server_end(struct mst_server *server) {
  if (mst_chan_is_open(&server->chan)) server_gone(server);
}

void mst_server_break(struct mst_server *server) {
  server->io.slot = 0;
  mst_output_leave(&server->output);
  mst_net_shutdown(server->chan.fd);
  mst_chan_leave(&server->chan);
  mst_kids_free(&server->kids); // kills and reaps them
  for (struct mst_server_launch *at = server->waiting; at != NULL;
       at = at->next)
    memset(at->ends.lines, 0, sizeof at->ends.lines);
  note_gone(server);
}

// end_adopted kills adopted workers: no server does.
static void end_adopted(struct mst_server *server) {
  mst_kids_reap(&server->kids, NULL, NULL);
  mst_kids_kill(server->kids);
  mst_kids_wait(&server->kids, mst_clock_now() + MST_NS_PER_S, NULL, NULL);
}

void mst_server_free(struct mst_server *server) {
  if (server == NULL) return;
  if (server->owner == getpid()) {
    mst_server_end(server);
    if (server->pid != 0 && mst_server_reap(server) == 0) {
      (void)kill(server->pid, SIGKILL);
      while (mst_server_reap(server) == 0)
        (void)poll(NULL, 0, 1);
    }
    end_adopted(server);
  }
  mst_kids_free(&server->kids);
  mst_output_close(&server->output);
  mst_tail_free(&server->output.tail);
  free(server);
}
