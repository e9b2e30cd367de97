// Files for partition_write(). R's connections don't report a full disk: they ignore the results of
// fwrite() and fclose().
#include "share/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_fault.h"

// macOS refuses to write or read 2 GB at once.
#define MOST ((size_t)1 << 30)

static int fail(struct mst_err *err, const char *call) {
  return mst_err_set(err, MST_ESYS, errno, call, "%s", strerror(errno));
}

static int write_all(int fd, const uint8_t *from, size_t n) {
  while (n > 0) {
    const ssize_t got = mst_fault("store.write")
                            ? -1
                            : write(fd, from, n < MOST ? n : MOST);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      if (got == 0) errno = ENOSPC;
      return -1;
    }
    from += got;
    n -= (size_t)got;
  }
  return 0;
}

static int sync_all(int fd) {
  int rc;
  do {
    rc = mst_fault("store.sync") ? -1 : fsync(fd);
  } while (rc != 0 && errno == EINTR);
  return rc == 0 || errno == EINVAL ? 0 : -1;
}

static int store(const char *path, int flags, const void *bytes, size_t n,
                 struct mst_err *err) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
  if (fd < 0) return fail(err, "open");
  const char *call = NULL;
  if (write_all(fd, bytes, n) != 0) {
    call = "write";
  } else if ((flags & O_CREAT) != 0 && sync_all(fd) != 0) {
    call = "fsync";
  }
  const int why = errno;
  // On a network file system, close() reports a full disk.
  const int closed = close(fd);
  if (call == NULL && (closed == 0 || errno == EINTR)) return 0;
  if (call != NULL) errno = why;
  const int rc = fail(err, call == NULL ? "close" : call);
  (void)unlink(path);
  return rc;
}

int mst_store_write(const char *path, const void *bytes, size_t n,
                    struct mst_err *err) {
  return store(path, O_CREAT | O_EXCL, bytes, n, err);
}

int mst_store_add(const char *path, const void *bytes, size_t n,
                  struct mst_err *err) {
  return store(path, O_APPEND, bytes, n, err);
}

int mst_store_sync(const char *path, struct mst_err *err) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(err, "open");
  const int rc = sync_all(fd) == 0 ? 0 : fail(err, "fsync");
  (void)close(fd);
  return rc;
}

int64_t mst_store_read(const char *path, int64_t from, void *bytes, size_t n,
                       struct mst_err *err) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(err, "open");
  size_t done = 0;
  while (done < n) {
    const size_t more = n - done < MOST ? n - done : MOST;
    const ssize_t got = mst_fault("store.read")
                            ? -1
                            : pread(fd, (uint8_t *)bytes + done, more,
                                    (off_t)(from + (int64_t)done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int rc = fail(err, "pread");
      (void)close(fd);
      return rc;
    }
    if (got == 0) break;
    done += (size_t)got;
  }
  (void)close(fd);
  return (int64_t)done;
}
