// Memory that is free. See room.h.
//
// Where the process's own group isn't found below `sys` by the path that the kernel
// tells (a container without a cgroup namespace is told its path on the host), the root
// of the mount counts: in a container that is its own group. Swap is not counted: a
// segment that lives in it would be slower than a copy through a socket.
#include "share/room.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// memory.stat has some 50 lines; /proc/meminfo as many.
#define FILE_MAX 8192
#define PATH_BYTES 4608

// read_file gives the start of a file as text. 1, or 0 if there is nothing to read.
static int read_file(const char *path, char *text, size_t cap) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t len = 0;
  ssize_t got;
  while (len + 1 < cap && (got = read(fd, text + len, cap - 1 - len)) > 0)
    len += (size_t)got;
  (void)close(fd);
  text[len] = '\0';
  return len > 0;
}

// number_at reads a whole number, -1 if there is none ("max", "-1") or it is larger
// than any memory: v1 says "no limit" by one close to 2^63.
static int64_t number_at(const char *text) {
  while (*text == ' ' || *text == '\t')
    text++;
  if (*text < '0' || *text > '9') return -1;
  const unsigned long long value = strtoull(text, NULL, 10);
  return value >= (1ULL << 60) ? -1 : (int64_t)value;
}

// field finds "name value" at a line's start, -1 without one.
static int64_t field(const char *text, const char *name) {
  const size_t n = strlen(name);
  for (const char *line = text; line != NULL && *line != '\0';) {
    if (strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == ':')) {
      return number_at(line + n + 1);
    }
    line = strchr(line, '\n');
    if (line != NULL) line++;
  }
  return -1;
}

static int64_t number_in(const char *dir, const char *name) {
  char path[PATH_BYTES + 64], text[64];
  (void)snprintf(path, sizeof path, "%s/%s", dir, name);
  return read_file(path, text, sizeof text) ? number_at(text) : -1;
}

// droppable gives the bytes of files that a group holds in memory.
static int64_t droppable(const char *dir, const char *prefix) {
  static const char *const names[] = {"inactive_file", "active_file"};
  char path[PATH_BYTES + 64], text[FILE_MAX], name[64];
  int64_t sum = 0;
  (void)snprintf(path, sizeof path, "%s/memory.stat", dir);
  if (!read_file(path, text, sizeof text)) return 0;
  for (size_t i = 0; i < 2; i++) {
    (void)snprintf(name, sizeof name, "%s%s", prefix, names[i]);
    const int64_t bytes = field(text, name);
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
                          struct mst_room *room) {
  const int64_t limit = number_in(dir, version->limit);
  const int64_t usage = limit < 0 ? -1 : number_in(dir, version->usage);
  if (usage < 0) return;
  int64_t used = usage - droppable(dir, version->prefix);
  if (used < 0) used = 0;
  const int64_t left = limit > used ? limit - used : 0;
  if (left < room->bytes) {
    room->bytes = left;
    room->is_cgroup = 1;
  }
}

// look_up the hierarchy: the group at root + path, and those above it.
static void look_at_groups(const char *root, const char *path,
                           const struct version *version,
                           struct mst_room *room) {
  char dir[PATH_BYTES];
  const size_t root_bytes = strlen(root);
  const int n = snprintf(dir, sizeof dir, "%s%s", root, path);
  if (n < 0 || (size_t)n >= sizeof dir) return;
  // ".." leads out of what this process may see: then the root isn't its own either.
  if (strstr(path, "/..") != NULL) return;
  for (;;) {
    look_at_group(dir, version, room);
    char *slash = strrchr(dir, '/');
    if (slash == NULL || (size_t)(slash - dir) < root_bytes) break;
    *slash = '\0';
  }
}

// has_word finds a name in a list with commas.
static int has_word(const char *list, size_t n, const char *word) {
  const size_t length = strlen(word);
  for (size_t i = 0; i + length <= n; i++) {
    const int begins = i == 0 || list[i - 1] == ',';
    const int ends = i + length == n || list[i + length] == ',';
    if (begins && ends && memcmp(list + i, word, length) == 0) return 1;
  }
  return 0;
}

static int is_there(const char *root, const char *name, char *path,
                    size_t cap) {
  struct stat about;
  (void)snprintf(path, cap, "%s%s", root, name);
  return stat(path, &about) == 0;
}

// One line of /proc/self/cgroup: "number:controllers:path".
static void look_at_line(char *line, const char *sys, struct mst_room *room) {
  char root[PATH_BYTES];
  char *fields = strchr(line, ':');
  char *path = fields == NULL ? NULL : strchr(fields + 1, ':');
  if (path == NULL || path[1] != '/') return;
  const size_t n = (size_t)(path - fields) - 1;
  if (n > 0) {
    if (!has_word(fields + 1, n, "memory")) return;
    if (!is_there(sys, "/memory", root, sizeof root)) return;
    look_at_groups(root, path + 1, &versions[0], room);
    return;
  }
  // Hybrid systems mount v2 beside the controllers of v1.
  if (is_there(sys, "/cgroup.controllers", root, sizeof root) ||
      !is_there(sys, "/unified", root, sizeof root)) {
    (void)snprintf(root, sizeof root, "%s", sys);
  }
  look_at_groups(root, path + 1, &versions[1], room);
}

void mst_room_look(const char *proc, const char *sys, struct mst_room *room) {
  char path[PATH_BYTES], text[FILE_MAX];
  *room = (struct mst_room){.bytes = INT64_MAX};
  (void)snprintf(path, sizeof path, "%s/meminfo", proc);
  if (read_file(path, text, sizeof text)) {
    const int64_t kb = field(text, "MemAvailable");
    if (kb >= 0 && kb < INT64_MAX / 1024) room->bytes = kb * 1024;
  }
  (void)snprintf(path, sizeof path, "%s/self/cgroup", proc);
  if (!read_file(path, text, sizeof text)) return;
  for (char *line = text; line != NULL;) {
    char *next = strchr(line, '\n');
    if (next != NULL) *next++ = '\0';
    look_at_line(line, sys, room);
    line = next;
  }
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
