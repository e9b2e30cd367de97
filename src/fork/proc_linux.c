// Processes on Linux. What proc_other.c has in place of each part is for systems without it.
// See fork.h.
#include "base/mst_features.h"
#include "fork/fork.h"

#if MST_LINUX
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// The numbers of system calls are the same on every architecture; headers may be older than the
// kernel.

#if MST_HAVE_PIDFD
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

int mst_proc_pidfd(pid_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0); // close-on-exec; Linux 5.3
  return fd < 0 ? -1 : (int)fd;
}
#endif

#if MST_HAVE_PDEATHSIG
void mst_proc_die_with_parent(int signal) {
  (void)prctl(PR_SET_PDEATHSIG, (unsigned long)signal, 0UL, 0UL, 0UL);
}
#endif

#if MST_HAVE_FORK
int mst_proc_adopt(void) {
  return prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL) == 0 ? 0 : -MST_ESYS;
}

int mst_proc_adopts(void) {
  int asked = 0;
  return getpid() == 1 ||
         (prctl(PR_GET_CHILD_SUBREAPER, &asked, 0UL, 0UL, 0UL) == 0 && asked);
}
#endif

#if MST_HAVE_CLOSE_RANGE
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

void mst_proc_close_from(int lowest) {
  if (syscall(SYS_close_range, (unsigned)lowest, ~0U, 0U) == 0) return;
  mst_proc_close_each(lowest); // before Linux 5.9
}
#endif

#if MST_HAVE_PROC
// Paths of cgroups that are longer count as not known; so many levels are looked at.
#define GROUP_MAX 1024
#define GROUPS_DEEP 4

static const char *group_file(int first) {
  return first ? "memory.oom_control" : "memory.events";
}

// arguments gives where this process's arguments are in memory, and how many bytes; NULL if that
// can't be known. They are the fields 48 and 49 behind the name, which may have spaces in it.
static char *arguments(size_t *bytes) {
  char text[2048];
  const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  const ssize_t n = read(fd, text, sizeof text - 1);
  (void)close(fd);
  if (n <= 0) return NULL;
  text[n] = '\0';
  const char *at = strrchr(text, ')');
  for (int field = 2; at != NULL && field < 48; field++)
    at = strchr(at + 1, ' ');
  unsigned long begin, end;
  if (at == NULL || sscanf(at, " %lu %lu", &begin, &end) != 2 || begin == 0 ||
      end <= begin) {
    return NULL;
  }
  *bytes = end - begin;
  char *first;
  memcpy(&first, &begin, sizeof first);
  return first;
}

void mst_proc_title(const char *title) {
  size_t bytes;
  char *first = arguments(&bytes);
  if (first == NULL) return;
  size_t room = 0; // in front of the argument that ends with boot.R
  for (size_t at = 0; at < bytes;) {
    const size_t length = strnlen(first + at, bytes - at);
    static const char script[] = "boot.R";
    const size_t tail = sizeof script - 1;
    if (length >= tail &&
        memcmp(first + at + length - tail, script, tail) == 0) {
      room = at;
      break;
    }
    at += length + 1;
  }
  if (room == 0) return;
  memset(first, 0, room);
  const size_t length = strlen(title);
  memcpy(first, title, length < room ? length : room - 1);
}

// What a process may take back by itself is what it has put on.
#define EXPENDABLE 300

void mst_proc_expendable(int more) {
  static const char path[] = "/proc/self/oom_score_adj";
  static int before;
  char text[16];
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  if (more) {
    const ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    before = (int)strtol(text, NULL, 10);
  }
  const int now = !more ? before : before + EXPENDABLE;
  const int n = snprintf(text, sizeof text, "%d", now > 1000 ? 1000 : now);
  const ssize_t written = pwrite(fd, text, (size_t)n, 0);
  (void)written; // as any other process, then
  (void)close(fd);
}

uint64_t mst_proc_resident(void) {
  char text[128];
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, text, sizeof text - 1);
  (void)close(fd);
  unsigned long pages = 0;
  text[n > 0 ? n : 0] = '\0';
  if (sscanf(text, "%*u %lu", &pages) != 1) return 0;
  return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

int mst_proc_threads(void) {
  DIR *dir = opendir("/proc/self/task");
  if (dir == NULL) return -1;
  int n = 0;
  for (struct dirent *entry = readdir(dir); entry != NULL;
       entry = readdir(dir)) {
    if (entry->d_name[0] != '.') n++;
  }
  (void)closedir(dir);
  return n;
}

// PF_EXITING of include/linux/sched.h: set before a process's descriptors are closed, and still
// there in a zombie.
#define FLAG_EXITING 0x4ul

int mst_proc_exits(pid_t pid) {
  char path[64], text[1024];
  (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t n = read(fd, text, sizeof text - 1);
  (void)close(fd);
  if (n <= 0) return -1;
  text[n] = '\0';
  const char *at = strrchr(text, ')');
  unsigned long flags;
  // state, parent, group, session, terminal, its group, flags
  if (at == NULL ||
      sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) != 1) {
    return -1;
  }
  return (flags & FLAG_EXITING) != 0;
}

// count_of gives the number after `word` where a line of a file begins with it, -1 if none
// does.
static int64_t count_of(const char *path, const char *word) {
  char text[16384];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t n = 1;
  ssize_t got;
  text[0] = '\n';
  while (n < sizeof text - 1 &&
         (got = read(fd, text + n, sizeof text - 1 - n)) > 0) {
    n += (size_t)got;
  }
  (void)close(fd);
  text[n] = '\0';
  char line[32];
  (void)snprintf(line, sizeof line, "\n%s ", word);
  const char *at = strstr(text, line);
  return at == NULL ? -1 : strtoll(at + strlen(line), NULL, 10);
}

// own_group gives the folder of this process's cgroup for memory, with ending '/', and
// whether it is of version 1. 0, or -1: not known, or the whole machine's.
static int own_group(char *folder, size_t size, int *first) {
  char line[GROUP_MAX];
  int rc = -1;
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (file == NULL) return -1;
  while (rc != 0 && fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    const char *names = strchr(line, ':');
    const char *path = names == NULL ? NULL : strchr(names + 1, ':');
    if (path == NULL) continue;
    *first = strncmp(names, ":memory:", 8) == 0;
    if (!*first && strncmp(line, "0::", 3) != 0) continue;
    if (*first && strcmp(path, ":/") == 0) break;
    const char *mount = *first ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    const int n = snprintf(folder, size, "%s%s/", mount, path + 1);
    char events[2 * GROUP_MAX];
    (void)snprintf(events, sizeof events, "%s%s", folder, group_file(*first));
    // With both versions mounted the second one doesn't have the memory.
    if (n > 0 && (size_t)n < size && count_of(events, "oom_kill") >= 0) rc = 0;
  }
  (void)fclose(file);
  return rc;
}

// tree_count adds up what version 1 counts for each cgroup alone.
static int64_t tree_count(const char *folder, int depth) {
  char path[2 * GROUP_MAX];
  (void)snprintf(path, sizeof path, "%s%s", folder, group_file(1));
  int64_t count = count_of(path, "oom_kill");
  if (count < 0) count = 0;
  DIR *dir = depth > 0 ? opendir(folder) : NULL;
  if (dir == NULL) return count;
  for (struct dirent *entry = readdir(dir); entry != NULL;
       entry = readdir(dir)) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    const int n = snprintf(path, sizeof path, "%s%s/", folder, entry->d_name);
    if (n > 0 && (size_t)n < sizeof path) count += tree_count(path, depth - 1);
  }
  (void)closedir(dir);
  return count;
}

int64_t mst_proc_oom_kills(void) {
  char folder[GROUP_MAX];
  int first = 0;
  if (own_group(folder, sizeof folder, &first) != 0) {
    return count_of("/proc/vmstat", "oom_kill");
  }
  if (first) return tree_count(folder, GROUPS_DEEP);
  char path[2 * GROUP_MAX];
  (void)snprintf(path, sizeof path, "%s%s", folder, group_file(0));
  return count_of(path, "oom_kill");
}
#endif
