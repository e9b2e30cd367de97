// The session's end of a worker's checkpoint: the connection to its standby (fork/standby.c).
//
// The standby's socket goes to the worker over the control channel, before the order on the data
// channel, where the only descriptors that arrive are segments. The worker's reply is in sequence
// with its answers to calls, so both sides know which calls the checkpoint covers.
#include <errno.h>

#include "pool/session_int.h"

// tell gives the core an event of the incarnation that a standby becomes, unless that is outdated.
static void tell(struct mst_peer *peer, uint32_t epoch,
                 enum mst_event_kind kind, int32_t number) {
  const struct mst_event event = {
      .kind = kind, .worker = peer->index, .number = number};
  if (peer->cluster->closed || peer->worker->epoch != epoch) return;
  mst_calls_event(&peer->cluster->calls, &event, mst_clock_now());
}

void mst_standby_init(struct mst_standby *standby) {
  *standby = (struct mst_standby){.chan = {.fd = -1}, .io = {.fd = -1}};
}

static void let_go(struct mst_peer *peer, struct mst_standby *standby) {
  struct mst_session *session = peer->cluster->session;
  struct mst_launcher *home = standby->home;
  const int launching = standby->launching;
  const uint32_t epoch = standby->epoch;
  if (!mst_chan_is_open(&standby->chan)) return;
  mst_loop_remove(session->loop, &standby->io);
  mst_chan_close(&standby->chan);
  // If this process adopts the standby, it must be waited for.
  if (home != NULL && home->gone && home->adopt != NULL && standby->pid > 0)
    home->adopt(home, &(struct mst_incarnation){0}, standby->pid);
  mst_standby_init(standby);
  if (launching) tell(peer, epoch, MST_EV_LAUNCH_FAILED, EAGAIN);
}

static void forget_made(struct mst_peer *peer) {
  if (!mst_chan_is_open(&peer->standby.chan)) return;
  let_go(peer, &peer->standby);
  // the worker still uses its directory
  if (peer->worker->has_process) return;
  mst_peer_remove_directory(peer);
}

void mst_standby_forget(struct mst_peer *peer) {
  let_go(peer, &peer->next_standby);
  forget_made(peer);
}

void mst_standby_unask(struct mst_peer *peer) {
  let_go(peer, &peer->next_standby);
}

static void ended(struct mst_peer *peer, struct mst_standby *standby) {
  const int was_made = standby == &peer->standby;
  if (was_made) {
    forget_made(peer);
    mst_calls_checkpoint_ended(&peer->cluster->calls, peer->index,
                               mst_clock_now());
  } else {
    let_go(peer, standby);
  }
}

static void adopt(const struct mst_peer *peer,
                  const struct mst_standby *standby, pid_t pid) {
  struct mst_launcher *home = standby->home;
  const struct mst_incarnation of = {.cluster = peer->cluster->id,
                                     .worker = peer->index,
                                     .epoch = standby->epoch};
  home->adopt(home, &of, pid);
}

// read_pid reads pids: each process that becomes the standby sends its own once.
static void read_pid(struct mst_peer *peer, struct mst_standby *standby) {
  struct mst_frame frame;
  struct mst_proc_msg msg;
  const int rc = mst_chan_fill(&standby->chan, 0, NULL);
  int found = 0;
  while (rc == 1 && mst_chan_is_open(&standby->chan) &&
         (found = mst_chan_peek(&standby->chan, &frame, NULL)) == 1) {
    const int says = frame.head.kind == MST_KIND_FORKED &&
                     mst_proc_msg_decode(frame.payload,
                                         (size_t)frame.head.length, &msg) == 0;
    mst_chan_take(&standby->chan, &frame);
    // The standby is the worker now; the next standby sends its pid, too.
    if (says && standby->launching) {
      standby->launching = 0;
      adopt(peer, standby, (pid_t)msg.pid);
      tell(peer, standby->epoch, MST_EV_FORKED, (int32_t)msg.pid);
    } else if (says) {
      standby->pid = (pid_t)msg.pid;
    }
  }
  if ((rc < 0 && rc != -MST_EAGAIN && rc != -MST_EMEM) || found < 0)
    ended(peer, standby);
}

static void is_ready(struct mst_io *io, uint32_t ready) {
  struct mst_peer *peer = io->owner;
  (void)ready;
  read_pid(peer,
           io == &peer->standby.io ? &peer->standby : &peer->next_standby);
}

static void refuse(struct mst_peer *peer, enum mst_refusal why) {
  let_go(peer, &peer->next_standby);
  mst_calls_no_checkpoint(&peer->cluster->calls, peer->index, why,
                          mst_clock_now());
}

// watch has the loop report when the standby can be read.
static int watch(struct mst_peer *peer, struct mst_standby *standby) {
  standby->io = (struct mst_io){.fd = standby->chan.fd,
                                .line = standby->chan.line,
                                .wanted = MST_READABLE,
                                .ready = is_ready,
                                .owner = peer};
  return mst_loop_add(peer->cluster->session->loop, &standby->io, NULL);
}

void mst_standby_ask(struct mst_peer *peer) {
  struct mst_standby *next = &peer->next_standby;
  struct mst_head head = {.kind = MST_KIND_STANDBY,
                          .cluster = peer->cluster->id,
                          .worker = peer->index,
                          .epoch = peer->worker->epoch};
  let_go(peer, next);
  if (!peer->hello.forked || peer->launcher == NULL ||
      peer->launcher->adopt == NULL) {
    refuse(peer, MST_REFUSED_EVER);
    return;
  }
  if (mst_conduit_pass(&peer->conduit, &head, &next->chan, NULL) != 0) {
    refuse(peer, MST_REFUSED_SHORT);
    return;
  }
  next->home = peer->launcher;
  int rc = watch(peer, next);
  head.kind = MST_KIND_CHECKPOINT;
  if (rc == 0) rc = mst_conduit_send(&peer->conduit, &head, NULL, NULL);
  if (rc != 0) refuse(peer, MST_REFUSED_SHORT);
}

void mst_standby_made(struct mst_peer *peer, const struct mst_frame *frame) {
  struct mst_checkpointed made;
  struct mst_standby *next = &peer->next_standby;
  if (mst_checkpointed_decode(frame->payload, (size_t)frame->head.length,
                              &made) != 0) {
    made.sys_errno = EPROTO;
  }
  // A standby that has ended already can't replace anybody.
  if (made.sys_errno != 0 || !mst_chan_is_open(&next->chan)) {
    refuse(peer, made.sys_errno == ENOSYS    ? MST_REFUSED_EVER
                 : made.sys_errno == EDEADLK ? MST_REFUSED_YET
                                             : MST_REFUSED_SHORT);
    return;
  }
  let_go(peer, &peer->standby);
  mst_loop_remove(peer->cluster->session->loop, &next->io);
  peer->standby = *next;
  mst_standby_init(next);
  if (watch(peer, &peer->standby) != 0) {
    let_go(peer, &peer->standby);
    refuse(peer, MST_REFUSED_SHORT);
    return;
  }
  mst_calls_checkpointed(&peer->cluster->calls, peer->index,
                         (int64_t)made.cost_ns, mst_clock_now());
}

// send_place tells the standby to replace the worker.
static int send_place(struct mst_standby *standby, struct mst_peer *peer,
                      const struct mst_ends *theirs, struct mst_err *err) {
  const struct mst_incarnation of = mst_peer_incarnation(peer);
  struct mst_head head = {.kind = MST_KIND_FORK,
                          .cluster = of.cluster,
                          .worker = of.worker,
                          .epoch = of.epoch};
  return mst_chan_send_ends(&standby->chan, &head, NULL, theirs, 3, err);
}

int mst_standby_launch(struct mst_peer *peer, struct mst_err *err) {
  struct mst_standby *standby = &peer->standby;
  const uint32_t epoch = peer->worker->epoch;
  const pid_t pid = standby->pid;
  struct mst_ends theirs;
  int rc = mst_conduit_open(&peer->conduit, &standby->chan, &theirs, err);
  if (rc != 0) return rc;
  peer->launcher = standby->home;
  peer->host = standby->home->host;
  standby->epoch = epoch;
  if (pid != 0) adopt(peer, standby, pid);
  rc = send_place(standby, peer, &theirs, err);
  mst_ends_close(&theirs);
  if (rc != 0) {
    mst_conduit_close(&peer->conduit);
    return rc;
  }
  standby->launching = pid == 0;
  standby->pid = 0;
  if (pid != 0) tell(peer, epoch, MST_EV_FORKED, (int32_t)pid);
  return 0;
}
