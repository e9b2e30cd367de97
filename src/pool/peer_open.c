// Opens the session's channels to one incarnation of a worker, hands them to a launcher, closes
// them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "pool/session.h"
#include "pool/session_int.h"

// How much of a worker's last output goes with a loss.
#define WORDS_MAX ((size_t)MST_TAIL_BYTES)

// repeats: what comes next was printed the first time. A call may be sent right behind those that
// are replayed, so their output may come before their answers are read.
static int repeats(const struct mst_peer *peer) {
  return peer->printed_out < peer->worker->replay_left;
}

// printing gives the label of the task whose output comes next, or NULL.
static const char *printing(const struct mst_peer *peer) {
  const struct mst_call *call = peer->worker->mailbox.first;
  for (uint32_t i = peer->worker->replay_left;
       call != NULL && i < peer->printed_out; i++)
    call = call->next;
  return call != NULL && call->sent ? call->label : NULL;
}

// A NUL is the end of a call's output, or the user's. That it is no call's shows if there are too
// many.
static void printed(void *owner, const char *bytes, size_t n) {
  struct mst_peer *peer = owner;
  const uint64_t all =
      (uint64_t)peer->worker->replay_left + peer->worker->mailbox.count;
  while (n > 0) {
    const char *end = memchr(bytes, '\0', n);
    const size_t length = end == NULL ? n : (size_t)(end - bytes);
    if (!repeats(peer)) {
      mst_log_write(&peer->cluster->log, &peer->part, peer->index,
                    printing(peer), bytes, length);
      if (end != NULL)
        mst_log_end(&peer->cluster->log, &peer->part, peer->index);
    }
    if (end == NULL) return;
    if (peer->printed_out < all) peer->printed_out++;
    bytes = end + 1;
    n -= length + 1;
  }
}

static void put_off(void *owner, int64_t later_ns) {
  struct mst_cluster *cluster = ((struct mst_peer *)owner)->cluster;
  if (later_ns < cluster->flush_ns) cluster->flush_ns = later_ns;
}

void mst_peer_init(struct mst_peer *peer, struct mst_cluster *cluster,
                   struct mst_group *group, uint32_t index) {
  static const struct mst_conduit_events events = {.readable =
                                                       mst_peer_readable,
                                                   .control = mst_peer_control,
                                                   .printed = printed,
                                                   .put_off = put_off};
  peer->cluster = cluster;
  peer->index = index;
  peer->group = group;
  peer->host = group->launcher->host;
  mst_conduit_init(&peer->conduit, cluster->session->loop,
                   cluster->session->prints, &events, peer);
  mst_standby_init(&peer->standby);
  mst_standby_init(&peer->next_standby);
}

static int send_setup(struct mst_peer *peer, struct mst_err *err) {
  struct mst_head head = {.kind = MST_KIND_SETUP,
                          .cluster = peer->cluster->id,
                          .worker = peer->index,
                          .epoch = peer->worker->epoch};
  return mst_conduit_send(&peer->conduit, &head, peer->group->setup, err);
}

static void pause_ends(struct mst_peer *peer) {
  mst_peer_unwatch(peer);
  mst_conduit_close(&peer->conduit);
  peer->hello_seen = 0;
}

int mst_peer_launch(struct mst_peer *peer, struct mst_err *err) {
  const struct mst_incarnation of = mst_peer_incarnation(peer);
  struct mst_launcher *launcher = peer->group->launcher;
  int rc;
  peer->launcher = launcher;
  peer->host = launcher->host;
  peer->worker->journal.keeps = peer->host != &peer->cluster->session->here;
  mst_tail_free(
      &peer->conduit.output.tail); // its last words were for users until now
  if (mst_chan_is_open(&peer->standby.chan)) {
    rc = mst_standby_launch(peer, err);
  } else {
    rc = launcher->launch(launcher, &of, &peer->conduit, err);
  }
  if (rc != 0) return rc;
  // If the worker is gone already, its channel will say so. But a worker without its set-up would
  // wait for ever, and the start for the worker.
  rc = send_setup(peer, err);
  if (rc != 0 && rc != -MST_ECLOSED) {
    mst_calls_fail_told(&peer->cluster->calls, peer->index, err->text);
    mst_calls_broken(&peer->cluster->calls, peer->index, MST_WHY_NONE,
                     mst_clock_now());
  }
  return 0;
}

void mst_peer_let_go(struct mst_peer *peer) {
  pause_ends(peer);
  mst_standby_unask(peer);
  mst_log_end(&peer->cluster->log, &peer->part, peer->index);
  if (mst_chan_is_open(&peer->standby.chan))
    return; // the standby will use its directory
  free(peer->tempdir);
  peer->tempdir = NULL;
}

// ---- how it ended

void mst_peer_exited(struct mst_peer *peer) {
  if (peer->conduit.held) mst_peer_read_out(peer);
  mst_conduit_drain(&peer->conduit); // its last output
  if (mst_chan_is_open(&peer->standby.chan))
    return; // the standby uses its directory
  mst_peer_remove_directory(peer);
}

static char *last_words(const struct mst_peer *peer) {
  char *words = malloc(WORDS_MAX + 1);
  if (words == NULL) return NULL;
  const size_t n = mst_tail_read(&peer->conduit.output.tail, words);
  words[n] = '\0';
  return words;
}

int mst_peer_lacks(const struct mst_peer *peer) {
  char words[WORDS_MAX + 1];
  int number = 0;
  words[mst_tail_read(&peer->conduit.output.tail, words)] = '\0';
  const char *at = strstr(words, MST_CANT_START);
  if (at == NULL) return 0;
  (void)sscanf(at, MST_CANT_START "%*[a-z_0-9]: errno %d", &number);
  return number;
}

// The kernel counts kills in the whole cgroup, so it may have killed another process.
void mst_peer_judge(struct mst_peer *peer) {
  struct mst_host *host = peer->host;
  mst_peer_unwatch(peer);
  mst_conduit_drain(&peer->conduit);
  (void)mst_conduit_hear(
      &peer->conduit); // what it said of itself, or of a task
  struct mst_judged judged = {
      .words = last_words(peer),
      .host = host == &peer->cluster->session->here ? NULL : host->name,
      .job = host->job,
      .sys_errno = mst_peer_lacks(peer),
      .oom = mst_host_lacked_memory(host, mst_clock_now()) != 0};
  mst_calls_judged(&peer->cluster->calls, peer->index, &judged,
                   mst_clock_now());
  if (peer->worker->to_heal) { // its launcher is gone
    (void)mst_site_tell(peer->group->site, MST_SITE_NEEDED, 0, mst_clock_now());
    return;
  }
  if (peer->worker->oom) mst_host_count_kill(host);
  mst_peer_let_go(peer);
}

void mst_peer_close(struct mst_peer *peer, int ours) {
  mst_calls_close(&peer->cluster->calls, peer->index, mst_clock_now());
  mst_log_end(&peer->cluster->log, &peer->part, peer->index);
  if (ours) {
    mst_standby_forget(peer);
    mst_peer_unwatch(peer);
    mst_conduit_close(&peer->conduit);
  } else {
    mst_conduit_leave(&peer->conduit);
    mst_chan_leave(&peer->standby.chan);
    mst_chan_leave(&peer->next_standby.chan);
  }
  mst_tail_free(&peer->conduit.output.tail);
  free(peer->tempdir);
  peer->tempdir = NULL;
}
