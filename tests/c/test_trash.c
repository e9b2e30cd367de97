// Tests of pool/trash: directories of workers that have ended.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mst_test.h"
#include "pool/session.h"

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
