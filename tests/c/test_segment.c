// Tests of share/segment: bytes are read as written, nobody can change them, and other descriptors
// are recognized.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_fault.h"
#include "mst_test.h"
#include "share/segment.h"

static struct mst_segment segment_of(const char *text) {
  struct mst_segment segment;
  NEEDS(MST_HAVE_MEMFD);
  CHECK_INT(mst_segment_open(&segment, strlen(text), NULL), 0);
  CHECK_INT(mst_segment_append(&segment, text, strlen(text), NULL), 0);
  CHECK_INT(mst_segment_seal(&segment, NULL), 0);
  return segment;
}

TEST("A mapping has the bytes written to its segment") {
  NEEDS(MST_HAVE_MEMFD);
  struct mst_segment segment;
  struct mst_map *map = NULL;
  CHECK_INT(mst_segment_open(&segment, 200, NULL), 0);
  CHECK(segment.fd >= 1024);
  CHECK((fcntl(segment.fd, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK_INT(mst_segment_append(&segment, "first", 5, NULL), 0);
  mst_segment_align(&segment);
  CHECK_INT(segment.bytes, MST_SEGMENT_ALIGN);
  CHECK_INT(mst_segment_append(&segment, "second", 6, NULL), 0);
  CHECK_INT(mst_segment_seal(&segment, NULL), 0);
  CHECK_INT(segment.bytes, 2 * MST_SEGMENT_ALIGN);
  CHECK_INT(mst_map_open(segment.fd, &map, NULL), 0);
  mst_segment_close(&segment);
  CHECK_INT(segment.fd, -1);
  mst_segment_close(&segment);
  CHECK_INT(map->bytes, 2 * MST_SEGMENT_ALIGN);
  CHECK(memcmp(mst_map_at(map, 0, 5), "first", 5) == 0);
  CHECK(memcmp(mst_map_at(map, MST_SEGMENT_ALIGN, 6), "second", 6) == 0);
  CHECK(mst_map_hold(map) == map);
  mst_map_release(map);
  CHECK_INT(map->refs, 1);
  mst_map_release(map);
  mst_map_release(NULL);
}

TEST("A place outside of a mapping, or not aligned, is refused") {
  struct mst_segment segment = segment_of("x");
  struct mst_map *map = NULL;
  CHECK_INT(mst_map_open(segment.fd, &map, NULL), 0);
  const uint64_t n = map->bytes;
  CHECK(mst_map_at(map, 0, n) != NULL);
  CHECK(mst_map_at(map, n, 0) != NULL);
  CHECK(mst_map_at(map, 0, n + 1) == NULL);
  CHECK(mst_map_at(map, n, 1) == NULL);
  CHECK(mst_map_at(map, 2 * n, 0) == NULL);
  CHECK(mst_map_at(map, 8, 1) == NULL);
  CHECK(mst_map_at(map, 0, UINT64_MAX) == NULL);
  CHECK(mst_map_at(map, UINT64_MAX - 63, 64) == NULL);
  mst_map_release(map);
  mst_segment_close(&segment);
}

TEST(
    "One reader's writes are invisible to others, and a segment can't change") {
  struct mst_segment segment = segment_of("shared");
  struct mst_map *one = NULL, *other = NULL;
  CHECK_INT(mst_map_open(segment.fd, &one, NULL), 0);
  CHECK_INT(mst_map_open(segment.fd, &other, NULL), 0);
  one->data[0] = 'S';
  CHECK(memcmp(other->data, "shared", 6) == 0);
  CHECK(write(segment.fd, "x", 1) < 0);
  CHECK_INT(errno, EPERM);
  CHECK(ftruncate(segment.fd, 0) != 0);
  CHECK(ftruncate(segment.fd, 1 << 20) != 0);
  CHECK(mmap(NULL, 64, PROT_WRITE, MAP_SHARED, segment.fd, 0) == MAP_FAILED);
  mst_map_release(one);
  mst_map_release(other);
  mst_segment_close(&segment);
}

TEST("A map that keeps its segment's descriptor maps it anew as it was "
     "written") {
  struct mst_segment segment = segment_of("shared");
  struct mst_map *map = NULL, *again = NULL;
  CHECK_INT(mst_map_open(segment.fd, &map, NULL), 0);
  CHECK(mst_map_again(map, &again, NULL) != 0); // it keeps no descriptor
  mst_map_keep(map, segment.fd);
  const int fd = map->fd;
  segment.fd = -1;
  CHECK(fd >= 1024);
  map->data[0] = 'S';
  CHECK_INT(mst_map_again(map, &again, NULL), 0);
  CHECK(memcmp(again->data, "shared", 6) == 0);
  mst_map_release(again);
  mst_map_forget(map);
  CHECK_INT(fcntl(fd, F_GETFD), -1);
  mst_map_release(map);
}

TEST("Segments are equal if they hold the same bytes") {
  struct mst_segment none = MST_SEGMENT_NONE;
  struct mst_segment one = segment_of("one"), same = segment_of("one");
  struct mst_segment other = segment_of("two");
  CHECK(mst_segment_equal(&one, &same));
  CHECK(!mst_segment_equal(&one, &other));
  CHECK(!mst_segment_equal(&one, &none));
  CHECK(mst_segment_equal(&none, &none));
  mst_segment_close(&one);
  mst_segment_close(&same);
  mst_segment_close(&other);
}

TEST(
    "A descriptor that isn't a sealed segment, or an empty one, isn't mapped") {
  struct mst_map *map = NULL;
  int fds[2];
  CHECK_INT(pipe(fds), 0);
  CHECK_INT(mst_map_open(fds[0], &map, NULL), -MST_EPROTO);
  (void)close(fds[0]);
  (void)close(fds[1]);
  CHECK_INT(mst_map_open(-1, &map, NULL), -MST_EPROTO);
  const int file = open("/dev/zero", O_RDWR);
  CHECK_INT(mst_map_open(file, &map, NULL), -MST_EPROTO);
  (void)close(file);
  NEEDS(MST_HAVE_MEMFD);
  struct mst_segment segment;
  CHECK_INT(mst_segment_open(&segment, 0, NULL), 0);
  CHECK_INT(mst_map_open(segment.fd, &map, NULL), -MST_EPROTO); // not sealed
  CHECK_INT(mst_segment_seal(&segment, NULL), 0);
  CHECK_INT(mst_map_open(segment.fd, &map, NULL), -MST_EPROTO); // empty
  mst_segment_close(&segment);
  CHECK(map == NULL);
}

TEST("Each call that makes a segment may fail, and says how") {
  NEEDS(MST_HAVE_MEMFD);
  struct mst_segment segment;
  struct mst_map *map = NULL;
  struct mst_err err;
  mst_fault_arm("share.memfd", 1, ENOSYS);
  CHECK_INT(mst_segment_open(&segment, 1, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOSYS);
  CHECK_INT(segment.fd, -1);
  CHECK_INT(mst_segment_open(&segment, 1, NULL), 0);
  mst_fault_arm("share.write", 1, EINTR);
  CHECK_INT(mst_segment_append(&segment, "x", 1, NULL), 0);
  mst_fault_arm("share.write", 1, ENOSPC);
  CHECK_INT(mst_segment_append(&segment, "x", 1, NULL), -MST_EMEM);
  mst_fault_arm("share.write", 1, EIO);
  CHECK_INT(mst_segment_append(&segment, "x", 1, NULL), -MST_ESYS);
  mst_fault_arm("share.seal", 1, EPERM);
  CHECK_INT(mst_segment_seal(&segment, NULL), -MST_ESYS);
  CHECK_INT(mst_segment_seal(&segment, NULL), 0);
  mst_fault_arm("share.map", 1, ENOMEM);
  CHECK_INT(mst_map_open(segment.fd, &map, NULL), -MST_EMEM);
  mst_fault_arm("", 0, 0);
  mst_segment_close(&segment);
}

TEST("A limit on the size of files is an error, not a signal") {
  NEEDS(MST_HAVE_MEMFD);
  struct mst_segment segment;
  const struct rlimit limit = {.rlim_cur = 1000, .rlim_max = 1000};
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
  CHECK_INT(mst_segment_open(&segment, 1001, NULL), -MST_ESYS);
  CHECK_INT(errno, EFBIG);
  CHECK_INT(mst_segment_open(&segment, 1000, NULL), 0);
  mst_segment_close(&segment);
}

TEST("Segments never take all descriptors") {
  NEEDS(MST_HAVE_MEMFD);
  struct mst_segment segments[MST_SEGMENTS_MAX + 1];
  int n = 0;
  while (n <= MST_SEGMENTS_MAX &&
         mst_segment_open(&segments[n], 64, NULL) == 0) {
    n++;
  }
  CHECK(n > 0 && n <= MST_SEGMENTS_MAX);
  struct mst_err err;
  mst_err_clear(&err);
  CHECK_INT(mst_segment_open(&segments[n], 64, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, EMFILE);
  mst_segment_close(&segments[0]);
  mst_segment_close(&segments[0]); // counts once
  CHECK_INT(mst_segment_open(&segments[0], 64, NULL), 0);
  CHECK_INT(mst_segment_open(&segments[n], 64, NULL), -MST_ESYS);
  for (int i = 0; i < n; i++)
    mst_segment_close(&segments[i]);
}

TEST("A file replaces a segment if the system has none, and isn't mapped") {
  char path[] = "/tmp/mst-segment-XXXXXX";
  struct mst_segment segment;
  struct mst_map *map = NULL;
  struct mst_err err;
  if (!MST_HAVE_MEMFD) {
    CHECK_INT(mst_segment_open(&segment, 1, &err), -MST_ESYS);
    CHECK_INT(err.sys_errno, ENOSYS);
    CHECK_INT(segment.fd, -1);
  }
  const int taken = mkstemp(path);
  CHECK_INT(mst_segment_open_file(&segment, path, NULL), -MST_ESYS);
  CHECK_INT(errno, EEXIST);
  (void)close(taken);
  CHECK_INT(unlink(path), 0);
  CHECK_INT(mst_segment_open_file(&segment, path, NULL), 0);
  CHECK((fcntl(segment.fd, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK_INT(mst_segment_append(&segment, "kept", 4, NULL), 0);
  CHECK_INT(mst_segment_end_file(&segment, NULL), 0);
  CHECK_INT(mst_map_open(segment.fd, &map, NULL), -MST_EPROTO);
  CHECK_INT(mst_map_read(segment.fd, 0, 4, &map, NULL), 0);
  CHECK(memcmp(map->data, "kept", 4) == 0);
  mst_map_release(map);
  mst_segment_close(&segment);
  CHECK_INT(unlink(path), 0);
}
