// Segments on memfds. See segment.h.
//
// Not chosen: shm_open() and files in /dev/shm, which have names that stay behind after a crash and
// a size limit of their own (64 MB in many containers); huge pages, which an administrator must
// reserve. MAP_SHARED for reading would use the same memory, but R asks for writable pointers where
// it only reads (sort, match), and would fail.
#include "share/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_fault.h"
#include "base/mst_features.h"
#include "net/net.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
// One write takes at most this: the kernel stops a little below 2^31.
#define WRITE_MAX ((size_t)1 << 30)
#define MEMFD_NAME "muster"

static int fail(struct mst_err *err, enum mst_code code, const char *call) {
  return mst_err_set(err, code, errno, call, "%s", strerror(errno));
}

#if MST_HAVE_MEMFD && defined(MFD_CLOEXEC) && defined(F_ADD_SEALS)
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int make_fd(void) {
  if (mst_fault("share.memfd")) return -1;
  return memfd_create(MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}
static int add_seals(int fd) { return fcntl(fd, F_ADD_SEALS, SEALS); }
static int is_sealed(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & SEALS) == SEALS;
}
#else
static int make_fd(void) {
  errno = ENOSYS;
  return -1;
}
static int add_seals(int fd) {
  (void)fd;
  errno = ENOSYS;
  return -1;
}
static int is_sealed(int fd) {
  (void)fd;
  return 0;
}
#endif

// over_limit: writing past the file size limit would raise SIGXFSZ.
static int over_limit(uint64_t bytes) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         limit.rlim_cur != RLIM_INFINITY && bytes > (uint64_t)limit.rlim_cur;
}

static atomic_int open_now;

static int too_many(void) {
  struct rlimit limit;
  int most = MST_SEGMENTS_MAX;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
      limit.rlim_cur / 8 < (rlim_t)most) {
    most = (int)(limit.rlim_cur / 8);
  }
  return open_now >= most;
}

int mst_segment_open(struct mst_segment *segment, uint64_t bytes,
                     struct mst_err *err) {
  *segment = MST_SEGMENT_NONE;
  if (too_many()) {
    errno = EMFILE;
    return fail(err, MST_ESYS, "memfd_create");
  }
  return mst_segment_open_must(segment, bytes, err);
}

int mst_segment_open_must(struct mst_segment *segment, uint64_t bytes,
                          struct mst_err *err) {
  *segment = MST_SEGMENT_NONE;
  if (over_limit(bytes)) {
    errno = EFBIG;
    return fail(err, MST_ESYS, "memfd_create");
  }
  segment->fd = make_fd();
  if (segment->fd < 0) {
    segment->fd = -1;
    return fail(err, MST_ESYS, "memfd_create");
  }
  open_now++;
  mst_net_raise(&segment->fd);
  return 0;
}

void mst_segment_align(struct mst_segment *segment) {
  const uint64_t over = segment->bytes % MST_SEGMENT_ALIGN;
  if (over > 0) segment->bytes += MST_SEGMENT_ALIGN - over;
}

int mst_segment_append(struct mst_segment *segment, const void *bytes, size_t n,
                       struct mst_err *err) {
  const uint8_t *from = bytes;
  if (over_limit(segment->bytes + n)) {
    errno = EFBIG;
    return fail(err, MST_ESYS, "write");
  }
  while (n > 0) {
    const size_t part = n < WRITE_MAX ? n : WRITE_MAX;
    const ssize_t got =
        mst_fault("share.write")
            ? -1
            : pwrite(segment->fd, from, part, (off_t)segment->bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      if (got == 0) errno = ENOSPC;
      const int full = errno == ENOMEM || errno == ENOSPC;
      return fail(err, full ? MST_EMEM : MST_ESYS, "write");
    }
    segment->bytes += (uint64_t)got;
    from += got;
    n -= (size_t)got;
  }
  return 0;
}

int64_t mst_segment_read(int fd, uint64_t offset, void *bytes, size_t n,
                         struct mst_err *err) {
  ssize_t got;
  do {
    got = pread(fd, bytes, n, (off_t)offset);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return (int64_t)got;
  return fail(err, got == 0 ? MST_ECLOSED : MST_ESYS, "pread");
}

int mst_segment_seal(struct mst_segment *segment, struct mst_err *err) {
  mst_segment_align(segment);
  if (ftruncate(segment->fd, (off_t)segment->bytes) != 0) {
    return fail(err, MST_ESYS, "ftruncate");
  }
  if (mst_fault("share.seal") || add_seals(segment->fd) != 0) {
    return fail(err, MST_ESYS, "fcntl");
  }
  return 0;
}

int mst_segment_open_file(struct mst_segment *segment, const char *path,
                          struct mst_err *err) {
  *segment = MST_SEGMENT_NONE;
  segment->fd = mst_fault("share.file")
                    ? -1
                    : open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (segment->fd < 0) {
    segment->fd = -1;
    return fail(err, MST_ESYS, "open");
  }
  open_now++;
  mst_net_raise(&segment->fd);
  return 0;
}

int mst_segment_end_file(struct mst_segment *segment, struct mst_err *err) {
  mst_segment_align(segment);
  if (ftruncate(segment->fd, (off_t)segment->bytes) != 0) {
    return fail(err, MST_ESYS, "ftruncate");
  }
  return 0;
}

void mst_segment_close(struct mst_segment *segment) {
  if (segment->fd >= 0) open_now--;
  mst_net_close(&segment->fd);
  segment->bytes = 0;
}

void mst_segment_adopt(struct mst_segment *segment, struct mst_map *map) {
  MST_ASSERT(map->fd >= 0);
  *segment = (struct mst_segment){.fd = map->fd, .bytes = map->bytes};
  map->fd = -1;
  open_now++;
}

int mst_segment_copy(const struct mst_map *map, struct mst_segment *segment,
                     struct mst_err *err) {
  int rc = mst_segment_open(segment, map->bytes, err);
  if (rc == 0)
    rc = mst_segment_append(segment, map->data, (size_t)map->bytes, err);
  if (rc == 0) rc = mst_segment_seal(segment, err);
  if (rc != 0) mst_segment_close(segment);
  return rc;
}

int mst_map_open(int fd, struct mst_map **out, struct mst_err *err) {
  struct stat about;
  if (!is_sealed(fd) || fstat(fd, &about) != 0 || about.st_size <= 0) {
    return mst_err_set(err, MST_EPROTO, 0, "fcntl",
                       "the descriptor isn't a sealed segment");
  }
  struct mst_map *map = malloc(sizeof *map);
  if (map == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a segment");
  }
  // Without MAP_POPULATE, which would write to each page and so copy all of them.
  void *data = mst_fault("share.map")
                   ? MAP_FAILED
                   : mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) {
    free(map);
    return fail(err, MST_EMEM, "mmap");
  }
  map->data = data;
  map->bytes = (uint64_t)about.st_size;
  map->fd = -1;
  map->refs = 1;
  *out = map;
  return 0;
}

#if MST_HAVE_PROC
// is_segment_at checks a link in /proc without opening it: opening another process's descriptor,
// such as the end of a pipe, could keep it busy. 0; -MST_ECLOSED; -MST_ESYS.
static int is_segment_at(const char *path, struct mst_err *err) {
  static const char name[] = "/memfd:" MEMFD_NAME;
  char target[sizeof name];
  ssize_t n = -1;
  if (!mst_fault("share.look")) {
    n = readlink(path, target, sizeof name - 1);
    // Linux also says so of a process that ends in the middle of the call.
    if (n < 0 && errno == EACCES) n = readlink(path, target, sizeof name - 1);
  }
  if (n < 0 && errno != ENOENT) return fail(err, MST_ESYS, "readlink");
  if (n == (ssize_t)sizeof name - 1 && memcmp(target, name, (size_t)n) == 0) {
    return 0;
  }
  return mst_err_set(err, MST_ECLOSED, 0, "readlink", "the segment is gone");
}

int mst_map_open_at(int32_t pid, int32_t fd, struct mst_map **out,
                    struct mst_err *err) {
  char path[64];
  (void)snprintf(path, sizeof path, MST_PROC "/%d/fd/%d", (int)pid, (int)fd);
  int rc = is_segment_at(path, err);
  if (rc != 0) return rc;
  const int how = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  int own = open(path, how);
  if (own < 0 && errno == EACCES) own = open(path, how);
  if (own < 0) {
    return fail(err, errno == ENOENT ? MST_ECLOSED : MST_ESYS, "open");
  }
  rc = mst_map_open(own, out, err);
  mst_net_close(&own);
  return rc == -MST_EPROTO ? -MST_ECLOSED : rc;
}
#else
int mst_map_open_at(int32_t pid, int32_t fd, struct mst_map **out,
                    struct mst_err *err) {
  (void)pid;
  (void)fd;
  (void)out;
  errno = ENOSYS;
  return fail(err, MST_ESYS, "open");
}
#endif

// The first reference is never released.
static struct mst_map lost = {.fd = -1, .refs = 1};

struct mst_map *mst_map_lost(void) {
  return mst_map_hold(&lost);
}

int mst_map_is_lost(const struct mst_map *map) { return map == &lost; }

// read_all returns -MST_EPROTO if the file ends before n bytes.
static int read_all(int fd, uint64_t offset, uint8_t *to, uint64_t n,
                    struct mst_err *err) {
  while (n > 0) {
    const size_t part = n < WRITE_MAX ? (size_t)n : WRITE_MAX;
    const ssize_t got = pread(fd, to, part, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(err, MST_ESYS, "pread");
    if (got == 0)
      return mst_err_set(err, MST_EPROTO, 0, "pread", "it is truncated");
    to += got;
    offset += (uint64_t)got;
    n -= (uint64_t)got;
  }
  return 0;
}

int mst_map_read(int fd, uint64_t offset, uint64_t n, struct mst_map **out,
                 struct mst_err *err) {
  struct mst_map *map = malloc(sizeof *map);
  void *data = MAP_FAILED;
  if (map != NULL) {
    data = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (data == MAP_FAILED) {
    free(map);
    return fail(err, MST_EMEM, "mmap");
  }
  map->data = data;
  map->bytes = n;
  map->fd = -1;
  map->refs = 1;
  const int rc = read_all(fd, offset, map->data, n, err);
  if (rc != 0) {
    mst_map_release(map);
    return rc;
  }
  *out = map;
  return 0;
}

struct mst_map *mst_map_hold(struct mst_map *map) {
  if (map != NULL) map->refs++;
  return map;
}

void mst_map_release(struct mst_map *map) {
  if (map == NULL) return;
  const size_t before = map->refs--;
  MST_ASSERT(before > 0);
  if (before > 1) return;
  (void)munmap(map->data, (size_t)map->bytes);
  mst_map_forget(map);
  free(map);
}

void mst_map_keep(struct mst_map *map, int fd) {
  MST_ASSERT(map->fd < 0);
  mst_net_raise(&fd);
  map->fd = fd;
}

void mst_map_forget(struct mst_map *map) { mst_net_close(&map->fd); }

int mst_map_again(const struct mst_map *map, struct mst_map **out,
                  struct mst_err *err) {
  return mst_map_open(map->fd, out, err);
}

int mst_segment_equal(const struct mst_segment *a,
                      const struct mst_segment *b) {
  struct mst_map *one = NULL, *other = NULL;
  if (a->bytes != b->bytes || (a->fd < 0) != (b->fd < 0)) return 0;
  if (a->fd == b->fd) return 1;
  const int equal = mst_map_open(a->fd, &one, NULL) == 0 &&
                    mst_map_open(b->fd, &other, NULL) == 0 &&
                    memcmp(one->data, other->data, (size_t)one->bytes) == 0;
  mst_map_release(one);
  mst_map_release(other);
  return equal;
}

void *mst_map_at(const struct mst_map *map, uint64_t offset, uint64_t n) {
  if (offset % MST_SEGMENT_ALIGN != 0) return NULL;
  if (offset > map->bytes || n > map->bytes - offset) return NULL;
  return map->data + offset;
}
