// One incarnation of a worker from the session's side: its ends are opened, handed to
// a launcher, and closed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "pool/session.h"
#include "pool/session_int.h"

// Words of a worker that go with a loss.
#define WORDS_MAX ((size_t)MST_TAIL_BYTES)
// Ends for want of memory that come at once are heard within this time.
#define OOM_NS MST_NS_PER_S

// open_ends makes the three connections. ours: data, control, output; theirs
// likewise, to be handed over.
static int open_ends(int ours[3], int theirs[3], struct mst_err *err) {
  int pair[2];
  for (int i = 0; i < 3; i++)
    ours[i] = theirs[i] = -1;
  for (int i = 0; i < 3; i++) {
    const int rc = i < 2 ? mst_net_pair(pair, err) : mst_net_pipe(pair, err);
    if (rc != 0) return rc;
    mst_net_raise(&pair[0]);
    ours[i] = pair[0];
    theirs[i] = pair[1];
  }
  return 0;
}

static int send_setup(struct mst_peer *peer, struct mst_err *err) {
  struct mst_head head = {.kind = MST_KIND_SETUP,
                          .cluster = peer->cluster->id,
                          .worker = peer->index,
                          .epoch = mst_peer_worker(peer)->epoch};
  const int rc =
      mst_chan_send(&peer->data, &head, peer->cluster->setup, NULL, 0, 0, err);
  if (rc == 0 && peer->data.out_bytes > 0) mst_peer_want(peer);
  return rc;
}

// watch_ends hands our ends to the channels and the loop.
static int watch_ends(struct mst_peer *peer, int ours[3], struct mst_err *err) {
  struct mst_loop *loop = peer->cluster->session->loop;
  mst_chan_open(&peer->data, ours[0], MST_FRAME_MAX_HELLO);
  peer->data.takes_maps = 1;
  mst_chan_open(&peer->control, ours[1], MST_FRAME_MAX_CONTROL);
  peer->control_io = (struct mst_io){.fd = ours[1],
                                     .wanted = MST_READABLE,
                                     .ready = mst_peer_control_ready,
                                     .owner = peer};
  peer->data_io = (struct mst_io){.fd = ours[0],
                                  .wanted = MST_READABLE,
                                  .ready = mst_peer_data_ready,
                                  .owner = peer};
  ours[0] = ours[1] = -1;
  int rc = mst_loop_add(loop, &peer->data_io, err);
  if (rc == 0) rc = mst_loop_add(loop, &peer->control_io, err);
  if (rc != 0) return rc;
  rc = mst_output_open(&peer->output, peer->cluster->session->prints, ours[2],
                       err);
  ours[2] = -1;
  return rc;
}

// pause_ends closes what is open of an incarnation.
static void pause_ends(struct mst_peer *peer) {
  struct mst_loop *loop = peer->cluster->session->loop;
  mst_peer_unwatch(peer);
  mst_loop_remove(loop, &peer->control_io);
  mst_output_close(&peer->output);
  mst_chan_close(&peer->data);
  mst_chan_close(&peer->control);
  peer->hello_seen = 0;
}

int mst_peer_launch(struct mst_peer *peer, struct mst_err *err) {
  struct mst_launcher *launcher = peer->cluster->launcher;
  int ours[3], theirs[3];
  peer->launcher = launcher;
  int rc = open_ends(ours, theirs, err);
  if (rc == 0) rc = watch_ends(peer, ours, err);
  if (rc == 0 && peer->standby.chan.fd >= 0) {
    rc = mst_standby_launch(peer, theirs, err);
  } else if (rc == 0) {
    rc = launcher->launch(launcher, peer->cluster->id, peer->index,
                          mst_peer_worker(peer)->epoch, theirs, err);
  }
  for (int i = 0; i < 3; i++) {
    mst_net_close(&ours[i]);
    mst_net_close(&theirs[i]);
  }
  if (rc != 0) {
    pause_ends(peer);
    return rc;
  }
  // A worker that is gone already is told by its channel, not here. One that can't
  // be told what to do would wait for it, and the start for the worker.
  rc = send_setup(peer, err);
  if (rc != 0 && rc != -MST_ECLOSED) {
    mst_calls_broken(&peer->cluster->calls, peer->index, err->text,
                     mst_clock_now());
  }
  return 0;
}

void mst_peer_let_go(struct mst_peer *peer) {
  pause_ends(peer);
  mst_standby_unask(peer);
  mst_log_end(&peer->cluster->log, &peer->part, peer->index);
  mst_tail_free(&peer->output.tail);
  if (peer->standby.chan.fd >= 0) return; // which is to find its directory
  free(peer->tempdir);
  peer->tempdir = NULL;
}

// ---- how it ended

void mst_peer_exited(struct mst_peer *peer) {
  if (peer->held) mst_peer_read_out(peer);
  mst_output_drain(&peer->output);        // its last words
  if (peer->standby.chan.fd >= 0) return; // its directory is its standby's
  mst_trash_put(peer->cluster->session, peer->tempdir);
  peer->tempdir = NULL;
}

static char *last_words(const struct mst_peer *peer) {
  char *words = malloc(WORDS_MAX + 1);
  if (words == NULL) return NULL;
  const size_t n = mst_tail_read(&peer->output.tail, words);
  words[n] = '\0';
  return words;
}

// look_for_oom counts what the kernel has ended for memory since it was last asked. Several
// workers may be ended at once, and their ends be heard one after the other.
static void look_for_oom(struct mst_session *session, int64_t now_ns) {
  const int64_t before = session->oom_kills;
  session->oom_kills = mst_proc_oom_kills();
  if (now_ns - session->oom_ns > OOM_NS) session->oom_new = 0;
  if (before < 0 || session->oom_kills <= before) return;
  session->oom_new += session->oom_kills - before;
  session->oom_ns = now_ns;
}

int mst_peer_lacks(const struct mst_peer *peer) {
  char words[WORDS_MAX + 1];
  int number = 0;
  words[mst_tail_read(&peer->output.tail, words)] = '\0';
  const char *at = strstr(words, MST_CANT_START);
  if (at == NULL) return 0;
  (void)sscanf(at, MST_CANT_START "%*[a-z_0-9]: errno %d", &number);
  return number;
}

// The kernel's count is that of the cgroup, so another of its processes may be what was
// ended.
void mst_peer_judge(struct mst_peer *peer) {
  struct mst_session *session = peer->cluster->session;
  mst_output_drain(&peer->output);
  look_for_oom(session, mst_clock_now());
  struct mst_judged judged = {.words = last_words(peer),
                              .sys_errno = mst_peer_lacks(peer),
                              .oom = session->oom_new > 0};
  mst_calls_judged(&peer->cluster->calls, peer->index, &judged,
                   mst_clock_now());
  if (peer->slot->oom) session->oom_new--;
}

void mst_peer_close(struct mst_peer *peer, int ours) {
  mst_calls_close(&peer->cluster->calls, peer->index, mst_clock_now());
  mst_log_end(&peer->cluster->log, &peer->part, peer->index);
  if (ours) {
    mst_standby_forget(peer);
    mst_peer_unwatch(peer);
    mst_loop_remove(peer->cluster->session->loop, &peer->control_io);
    mst_output_close(&peer->output);
    mst_chan_close(&peer->data);
    mst_chan_close(&peer->control);
  } else {
    mst_net_close(&peer->data.fd);
    mst_net_close(&peer->control.fd);
    mst_net_close(&peer->output.io.fd);
    mst_net_close(&peer->standby.chan.fd);
    mst_net_close(&peer->next_standby.chan.fd);
  }
  mst_tail_free(&peer->output.tail);
  free(peer->tempdir);
  peer->tempdir = NULL;
}
