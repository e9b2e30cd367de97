// Tests of pool/trash: directories of workers that have ended.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_features.h"
#include "host/link.h"
#include "loop/chan.h"
#include "mst_test.h"
#include "pool/session.h"

#if MST_LINUX
#include <sys/inotify.h>
#endif

static char dirs[2][64];

// make_dirs makes directories with some files, and schedules their removal.
static void make_dirs(struct mst_session *session) {
  for (int k = 0; k < 2; k++) {
    (void)snprintf(dirs[k], sizeof dirs[k], "/tmp/muster-trash-XXXXXX");
    CHECK(mkdtemp(dirs[k]) != NULL);
    for (int i = 0; i < 10; i++) {
      char path[160];
      (void)snprintf(path, sizeof path, "%s/%d", dirs[k], i);
      const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      CHECK(fd >= 0);
      (void)close(fd);
    }
    mst_trash_put(session, strdup(dirs[k]));
  }
}

static int there(void) {
  struct stat about;
  return (stat(dirs[0], &about) == 0) + (stat(dirs[1], &about) == 0);
}

TEST("C10: Directories are removed in turns, each within its time limit") {
  struct mst_session session = {0};
  mst_trash_put(&session, NULL);
  CHECK(session.trash == NULL);
  make_dirs(&session);
  for (int k = 0; k < 3; k++)
    mst_trash_work(&session, -1); // the time is over
  CHECK_INT(there(), 2);
  mst_trash_work(&session, 60 * MST_NS_PER_S);
  CHECK_INT(there(), 1);
  mst_trash_work(&session, 60 * MST_NS_PER_S);
  CHECK_INT(there(), 0);
  CHECK(session.trash == NULL);
  mst_trash_work(&session, 60 * MST_NS_PER_S);
}

#if MST_LINUX
static struct mst_chan says; // to a host process

static void say(struct mst_launcher *launcher) {
  struct mst_head head = {.kind = MST_KIND_PING};
  (void)launcher;
  CHECK_INT(mst_chan_send_small(&says, &head, "12345678", 8, 0, NULL), 0);
}

// happened tells what has happened to files of a watched directory, in order.
static const char *happened(int watch) {
  static char text[64]; // w for what was written, r for what was removed
  _Alignas(struct inotify_event) char bytes[4096];
  const ssize_t n = read(watch, bytes, sizeof bytes);
  size_t count = 0;
  for (ssize_t at = 0; at < n && count < sizeof text - 2;) {
    struct inotify_event event;
    memcpy(&event, bytes + at, sizeof event);
    if (event.mask & IN_MODIFY) text[count++] = 'w';
    if (event.mask & IN_DELETE) text[count++] = 'r';
    at += (ssize_t)(sizeof event + event.len);
  }
  text[count] = '\0';
  return text;
}

TEST("C10: What a round writes to a link doesn't wait for directories") {
  struct mst_session session;
  struct mst_cluster *cluster;
  struct mst_link *link;
  struct mst_line *line;
  int from[2];
  char path[160];
  mst_thread_mark_r();
  CHECK_INT(mst_session_open(&session, MST_LOOP_BEST, "a test", NULL), 0);
  // The link leads into a file of the directory.
  (void)snprintf(dirs[0], sizeof dirs[0], "/tmp/muster-trash-XXXXXX");
  CHECK(mkdtemp(dirs[0]) != NULL);
  (void)snprintf(path, sizeof path, "%s/link", dirs[0]);
  CHECK_INT(pipe(from), 0);
  const struct mst_link_config config = {
      .cable = {.in = from[0],
                .out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)},
      .silence_ns = 60 * MST_NS_PER_S};
  CHECK(config.cable.out >= 0);
  CHECK_INT(mst_link_open(&config, &session.links, session.prints, &link, &line,
                          NULL),
            0);
  mst_chan_open_line(&says, line, MST_FRAME_MAX_CONTROL);
  struct mst_launcher launcher = {.host = &session.here, .reap = say};
  struct mst_blob *setup = mst_blob_new();
  const struct mst_group group = {
      .workers = 1, .launcher = &launcher, .setup = setup};
  CHECK_INT(mst_cluster_new(&session, &group, 1, 32, &cluster, NULL), 0);
  mst_blob_release(setup);
  const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  CHECK(inotify_add_watch(watch, dirs[0], IN_MODIFY | IN_DELETE) >= 0);
  mst_trash_put(&session, strdup(dirs[0]));
  CHECK_INT(mst_session_run(&session, 0, NULL), 0);
  CHECK_TEXT(happened(watch), "wr");
  mst_cluster_free(cluster);
  mst_link_close(link);
  mst_chan_close(&says);
  mst_session_close(&session);
  (void)close(from[1]);
  (void)close(watch);
  if (access(dirs[0], F_OK) == 0) (void)rmdir(dirs[0]);
}
#endif
