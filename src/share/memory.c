// Memory that is free. See memory.h.
//
// If the process's own group isn't found below `sys` by the path that the kernel gives (a container
// without a cgroup namespace sees its path on the host), the root of the mount counts: in a
// container that is its own group. Swap doesn't count: a segment in it would be slower than a copy
// through a socket.
#include "share/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_kernel.h"

// memory.stat has some 50 lines; /proc/meminfo as many.
#define FILE_MAX 8192
#define PATH_BYTES 4608

static int64_t number_in(const char *dir, const char *name) {
  char path[PATH_BYTES + 64], text[64];
  (void)snprintf(path, sizeof path, "%s/%s", dir, name);
  (void)mst_kernel_read(path, text, sizeof text);
  return mst_kernel_number(text);
}

// droppable gives the bytes of file pages that a group holds in memory.
static int64_t droppable(const char *dir, const char *prefix) {
  static const char *const names[] = {"inactive_file", "active_file"};
  char path[PATH_BYTES + 64], text[FILE_MAX], name[64];
  int64_t sum = 0;
  (void)snprintf(path, sizeof path, "%s/memory.stat", dir);
  (void)mst_kernel_read(path, text, sizeof text);
  for (size_t i = 0; i < 2; i++) {
    (void)snprintf(name, sizeof name, "%s%s", prefix, names[i]);
    const int64_t bytes = mst_kernel_field(text, name);
    if (bytes > 0) sum += bytes;
  }
  return sum;
}

struct version {
  const char *limit, *usage, *prefix;
};
static const struct version versions[] = {
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"},
    {"memory.max", "memory.current", ""}};

static void look_at_group(const char *dir, const struct version *version,
                          struct mst_memory *memory) {
  const int64_t limit = number_in(dir, version->limit);
  const int64_t usage = limit < 0 ? -1 : number_in(dir, version->usage);
  if (usage < 0) return;
  int64_t used = usage - droppable(dir, version->prefix);
  if (used < 0) used = 0;
  const int64_t left = limit > used ? limit - used : 0;
  if (left < memory->bytes) {
    memory->bytes = left;
    memory->is_cgroup = 1;
  }
}

// look_at_groups goes up the hierarchy: the group at root + path, and those above it.
static void look_at_groups(const char *root, const char *path,
                           const struct version *version,
                           struct mst_memory *memory) {
  char dir[PATH_BYTES];
  const size_t root_bytes = strlen(root);
  const int n = snprintf(dir, sizeof dir, "%s%s", root, path);
  if (n < 0 || (size_t)n >= sizeof dir) return;
  // ".." leads outside of what this process may see: then the root isn't its own group either.
  if (strstr(path, "/..") != NULL) return;
  for (;;) {
    look_at_group(dir, version, memory);
    char *slash = strrchr(dir, '/');
    if (slash == NULL || (size_t)(slash - dir) < root_bytes) break;
    *slash = '\0';
  }
}

static int is_there(const char *root, const char *name, char *path,
                    size_t cap) {
  struct stat about;
  (void)snprintf(path, cap, "%s%s", root, name);
  return stat(path, &about) == 0;
}

static void look_at_version(int version, const char *path, const char *sys,
                            struct mst_memory *memory) {
  char root[PATH_BYTES];
  if (version == 1) {
    if (!is_there(sys, "/memory", root, sizeof root)) return;
  } else if (is_there(sys, "/cgroup.controllers", root, sizeof root) ||
             !is_there(sys, "/unified", root, sizeof root)) {
    // Hybrid systems mount v2 next to the controllers of v1.
    (void)snprintf(root, sizeof root, "%s", sys);
  }
  look_at_groups(root, path, &versions[version - 1], memory);
}

void mst_memory_look(const char *proc, const char *sys,
                     struct mst_memory *memory) {
  char path[PATH_BYTES], text[FILE_MAX];
  *memory = (struct mst_memory){.bytes = INT64_MAX};
  (void)snprintf(path, sizeof path, "%s/meminfo", proc);
  (void)mst_kernel_read(path, text, sizeof text);
  const int64_t kb = mst_kernel_field(text, "MemAvailable");
  if (kb >= 0 && kb < INT64_MAX / 1024) memory->bytes = kb * 1024;
  (void)snprintf(path, sizeof path, "%s/self/cgroup", proc);
  (void)mst_kernel_read(path, text, sizeof text);
  const char *group;
  int version;
  for (char *rest = text; (version = mst_kernel_group(&rest, &group)) != 0;)
    look_at_version(version, group, sys, memory);
}

// ---- mappings

void mst_room_mappings(const char *proc, struct mst_mappings *now) {
  char path[PATH_BYTES], bytes[FILE_MAX];
  *now = (struct mst_mappings){.count = -1, .limit = -1};
  (void)snprintf(path, sizeof path, "%s/sys/vm", proc);
  now->limit = number_in(path, "max_map_count");
  (void)snprintf(path, sizeof path, "%s/self/maps", proc);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t got;
  now->count = 0;
  while ((got = read(fd, bytes, sizeof bytes)) > 0) {
    for (ssize_t i = 0; i < got; i++) {
      now->count += bytes[i] == '\n';
    }
  }
  (void)close(fd);
}
