// One incarnation of a worker from the session's side: its ends are opened, handed to
// a launcher, and closed.
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "pool/run.h"
#include "pool/run_int.h"
#include "pool/task.h"

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
  if (rc == 0 && peer->data.out_bytes > 0) mst_peer_want_write(peer);
  return rc;
}

// watch_ends hands our ends to the channels and the loop.
static int watch_ends(struct mst_peer *peer, int ours[3], struct mst_err *err) {
  struct mst_loop *loop = peer->cluster->session->loop;
  // Answers of an earlier incarnation that were not taken are in the buffer.
  mst_chan_resume(&peer->data, ours[0],
                  peer->data.in.len > 0 ? MST_FRAME_MAX : MST_FRAME_MAX_HELLO);
  peer->data.takes_maps = 1;
  mst_chan_open(&peer->control, ours[1], MST_FRAME_MAX_CONTROL);
  peer->control_watch = (struct mst_watch){.fd = ours[1],
                                           .wanted = MST_READABLE,
                                           .ready = mst_peer_control_ready,
                                           .owner = peer};
  peer->data_watch = (struct mst_watch){.fd = ours[0],
                                        .wanted = MST_READABLE,
                                        .ready = mst_peer_data_ready,
                                        .owner = peer};
  ours[0] = ours[1] = -1;
  int rc = mst_loop_add(loop, &peer->data_watch, err);
  if (rc == 0) rc = mst_loop_add(loop, &peer->control_watch, err);
  if (rc != 0) return rc;
  rc = mst_output_open(&peer->output, loop, ours[2], err);
  ours[2] = -1;
  return rc;
}

int mst_peer_launch(struct mst_peer *peer, struct mst_err *err) {
  struct mst_launcher *launcher = peer->cluster->launcher;
  int ours[3], theirs[3];
  peer->launcher = launcher;
  int rc = open_ends(ours, theirs, err);
  if (rc == 0) rc = watch_ends(peer, ours, err);
  if (rc == 0) {
    rc = launcher->launch(launcher, peer->cluster->id, peer->index,
                          mst_peer_worker(peer)->epoch, theirs, err);
  }
  for (int i = 0; i < 3; i++) {
    mst_net_close(&ours[i]);
    mst_net_close(&theirs[i]);
  }
  if (rc != 0) {
    mst_peer_pause(peer);
    return rc;
  }
  // A worker that is gone already is told by its channel, not here. One that can't
  // be told what to do would wait for it, and the start for the worker.
  rc = send_setup(peer, err);
  if (rc != 0 && rc != -MST_ECLOSED) mst_peer_broken(peer, err->text);
  return 0;
}

void mst_peer_pause(struct mst_peer *peer) {
  struct mst_loop *loop = peer->cluster->session->loop;
  mst_loop_remove(loop, &peer->data_watch);
  mst_loop_remove(loop, &peer->control_watch);
  mst_output_close(&peer->output);
  mst_chan_pause(&peer->data);
  mst_chan_close(&peer->control);
  peer->hello_seen = 0;
}

// forget_all frees what healing keeps.
static void forget_all(struct mst_peer *peer) {
  while (peer->first_call != NULL) {
    if (peer->first_call->task != NULL) {
      mst_task_failed(peer->first_call->task, NULL);
    }
    mst_peer_pop_call(peer);
  }
  while (peer->losses != NULL)
    mst_peer_pop_loss(peer);
  mst_journal_free(&peer->journal);
  if (peer->to_heal) peer->cluster->session->to_heal--;
  peer->to_heal = 0;
}

void mst_peer_close(struct mst_peer *peer, int ours) {
  forget_all(peer);
  mst_log_end(&peer->cluster->log, &peer->part, peer->index);
  if (ours) {
    mst_loop_remove(peer->cluster->session->loop, &peer->data_watch);
    mst_loop_remove(peer->cluster->session->loop, &peer->control_watch);
    mst_output_close(&peer->output);
    mst_chan_close(&peer->data);
    mst_chan_close(&peer->control);
  } else {
    mst_net_close(&peer->data.fd);
    mst_net_close(&peer->control.fd);
    mst_net_close(&peer->output.watch.fd);
  }
  mst_tail_free(&peer->output.tail);
  free(peer->tempdir);
  free(peer->failure);
  peer->tempdir = peer->failure = NULL;
}
