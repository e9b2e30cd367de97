// Removes a directory tree. See fork.h.
//
// Own code because nftw() has no deadline, depends on the working directory and can't be told to
// use descriptors. Descriptors (openat, unlinkat) prevent that a directory that is replaced by a
// link meanwhile leads elsewhere.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "fork/fork.h"

// Deeper trees are left: each level holds a descriptor.
#define DEPTH_MAX 64

static int remove_entries(int dir_fd, int depth, int64_t deadline_ns);

static int remove_entry(int dir_fd, const char *name, int depth,
                        int64_t deadline_ns) {
  if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT) return 0;
  // EISDIR on Linux, EPERM by POSIX: it is a directory.
  if (errno != EISDIR && errno != EPERM) return -MST_ESYS;
  if (depth >= DEPTH_MAX) return -MST_ESYS;
  const int fd =
      openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? 0 : -MST_ESYS;
  const int rc = remove_entries(fd, depth + 1, deadline_ns);
  if (rc != 0) return rc;
  return unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT
             ? 0
             : -MST_ESYS;
}

// remove_entries empties the directory behind dir_fd and closes dir_fd.
static int remove_entries(int dir_fd, int depth, int64_t deadline_ns) {
  DIR *dir = fdopendir(dir_fd);
  if (dir == NULL) {
    (void)close(dir_fd);
    return -MST_ESYS;
  }
  int rc = 0;
  for (struct dirent *entry = readdir(dir); entry != NULL && rc == 0;
       entry = readdir(dir)) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
      continue;
    }
    if (mst_clock_now() > deadline_ns) {
      rc = -MST_ETIMEOUT;
    } else {
      rc = remove_entry(dirfd(dir), entry->d_name, depth, deadline_ns);
    }
  }
  (void)closedir(dir);
  return rc;
}

int mst_tree_remove(const char *path, int64_t deadline_ns) {
  if (path == NULL || path[0] == '\0') return 0;
  return remove_entry(AT_FDCWD, path, 0, deadline_ns);
}

int mst_tree_probe(const char *path) {
  static const char page[4096];
  const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return -MST_ESYS;
  const ssize_t written = write(fd, page, sizeof page);
  const int closed = close(fd);
  (void)unlink(path);
  return written == (ssize_t)sizeof page && closed == 0 ? 0 : -MST_ESYS;
}
