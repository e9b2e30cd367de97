// Tests of share/store: a file is complete on the disk, or there is none and the error says why.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_fault.h"
#include "mst_test.h"
#include "share/store.h"

static char folder[] = "/tmp/mst-store-XXXXXX";
static char file[sizeof folder + 8];

static void make_folder(void) {
  memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
  CHECK(mkdtemp(folder) != NULL);
  memcpy(file, folder, sizeof folder - 1);
  memcpy(file + sizeof folder - 1, "/file", 6);
}

static void check_content(const char *wanted) {
  char bytes[32];
  const int fd = open(file, O_RDONLY);
  CHECK(fd >= 0);
  CHECK_INT(read(fd, bytes, sizeof bytes), (long)strlen(wanted));
  CHECK(memcmp(bytes, wanted, strlen(wanted)) == 0);
  (void)close(fd);
}

TEST("A stored file has its bytes, and an existing one is left alone") {
  struct mst_err err;
  make_folder();
  CHECK_INT(mst_store_write(file, "bytes", 5, &err), 0);
  check_content("bytes");
  CHECK_INT(mst_store_write(file, "other", 5, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, EEXIST);
  check_content("bytes");
  CHECK_INT(mst_store_sync(file, &err), 0);
  CHECK_INT(mst_store_sync(folder, &err), 0);
  CHECK_INT(mst_store_add(file, " and more", 9, &err), 0);
  check_content("bytes and more");
  CHECK_INT(unlink(file), 0);
  CHECK_INT(mst_store_add(file, "bytes", 5, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOENT);
  CHECK_INT(mst_store_sync(file, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOENT);
  CHECK_INT(mst_store_write(file, "", 0, &err), 0);
  check_content("");
  CHECK_INT(unlink(file), 0);
  CHECK_INT(rmdir(folder), 0);
  CHECK_INT(mst_store_write(file, "bytes", 5, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOENT);
}

TEST("A failed write leaves no file, and the error names call and reason") {
  static const struct {
    const char *point, *call;
    int why;
  } cases[] = {{"store.write", "write", ENOSPC},
               {"store.write", "write", EFBIG},
               {"store.sync", "fsync", EIO}};
  struct mst_err err;
  struct stat st;
  make_folder();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mst_fault_arm(cases[i].point, 1, cases[i].why);
    CHECK_INT(mst_store_write(file, "bytes", 5, &err), -MST_ESYS);
    CHECK_INT(err.sys_errno, cases[i].why);
    CHECK(strcmp(err.call, cases[i].call) == 0);
    CHECK(stat(file, &st) != 0);
  }
  CHECK_INT(mst_store_write(file, "bytes", 5, &err), 0);
  mst_fault_arm("store.write", 1, ENOSPC);
  CHECK_INT(mst_store_add(file, "bytes", 5, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOSPC);
  CHECK(stat(file, &st) != 0);
  // A signal is no failure.
  mst_fault_arm("store.write", 1, EINTR);
  CHECK_INT(mst_store_write(file, "bytes", 5, &err), 0);
  check_content("bytes");
  mst_fault_arm("store.sync", 1, EINTR);
  CHECK_INT(mst_store_sync(file, &err), 0);
  // A file system without fsync() for folders.
  mst_fault_arm("store.sync", 1, EINVAL);
  CHECK_INT(mst_store_sync(folder, &err), 0);
  mst_fault_arm("", 0, 0);
  CHECK_INT(unlink(file), 0);
  CHECK_INT(rmdir(folder), 0);
}

TEST("A range of a file is read, as far as there are bytes") {
  struct mst_err err;
  char bytes[8] = "";
  make_folder();
  CHECK_INT(mst_store_write(file, "0123456789", 10, &err), 0);
  CHECK_INT(mst_store_read(file, 3, bytes, 4, &err), 4);
  CHECK(memcmp(bytes, "3456", 4) == 0);
  CHECK_INT(mst_store_read(file, 8, bytes, 4, &err), 2);
  CHECK_INT(mst_store_read(file, 20, bytes, 4, &err), 0);
  mst_fault_arm("store.read", 1, EINTR);
  CHECK_INT(mst_store_read(file, 0, bytes, 4, &err), 4);
  mst_fault_arm("store.read", 1, EIO);
  CHECK_INT(mst_store_read(file, 0, bytes, 4, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, EIO);
  CHECK_INT(unlink(file), 0);
  CHECK_INT(mst_store_read(file, 0, bytes, 4, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOENT);
  CHECK_INT(rmdir(folder), 0);
}
