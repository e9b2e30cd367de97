// Processes on Linux. proc_other.c has the parts for systems that lack a feature. See fork.h.
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

#include "base/mst_kernel.h"
#endif

// System call numbers are the same on every architecture; headers may be older than the kernel.

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
// Longer paths of cgroups count as unknown; at most this many levels are searched.
#define GROUP_MAX 1024
#define GROUPS_DEEP 4

// arguments gives the address and size of this process's arguments; NULL if unknown. They are
// fields 48 and 49, counted after the name, which may contain spaces.
static char *arguments(size_t *bytes) {
  char text[2048];
  (void)mst_kernel_read(MST_PROC "/self/stat", text, sizeof text);
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
  size_t capacity = 0; // bytes before the argument that ends with boot.R
  for (size_t at = 0; at < bytes;) {
    const size_t length = strnlen(first + at, bytes - at);
    static const char script[] = "boot.R";
    const size_t tail = sizeof script - 1;
    if (length >= tail &&
        memcmp(first + at + length - tail, script, tail) == 0) {
      capacity = at;
      break;
    }
    at += length + 1;
  }
  if (capacity == 0) return;
  memset(first, 0, capacity);
  const size_t length = strlen(title);
  memcpy(first, title, length < capacity ? length : capacity - 1);
}

// Without privilege a process can lower its value only as far as it has raised it.
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
  (void)written; // on failure it stays as it was
  (void)close(fd);
}

uint64_t mst_proc_resident(void) {
  char text[128];
  unsigned long pages = 0;
  (void)mst_kernel_read(MST_PROC "/self/statm", text, sizeof text);
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

// PF_EXITING of include/linux/sched.h: set before a process's descriptors are closed, and kept in a
// zombie.
#define FLAG_EXITING 0x4ul

int mst_proc_exits(pid_t pid) {
  char path[64], text[1024];
  (void)snprintf(path, sizeof path, MST_PROC "/%d/stat", (int)pid);
  (void)mst_kernel_read(path, text, sizeof text);
  const char *at = strrchr(text, ')');
  unsigned long flags;
  // state, parent, group, session, terminal, its group, flags
  if (at == NULL ||
      sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) != 1) {
    return -1;
  }
  return (flags & FLAG_EXITING) != 0;
}

int mst_proc_thread(void) { return (int)syscall(SYS_gettid); }

int mst_proc_activity(int thread, struct mst_activity *activity) {
  char path[64], text[1024];
  (void)snprintf(path, sizeof path, MST_PROC "/self/task/%d/stat", thread);
  (void)mst_kernel_read(path, text, sizeof text);
  const char *at = strrchr(text, ')');
  char state;
  unsigned long user, system;
  // state, then ten numbers, of which none is needed
  if (at == NULL ||
      sscanf(at + 1,
             " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state,
             &user, &system) != 3) {
    return -1;
  }
  activity->cpu_ns = (int64_t)((double)(user + system) /
                           (double)sysconf(_SC_CLK_TCK) * MST_NS_PER_S);
  activity->sleeps = state == 'S';
  return 0;
}

int mst_proc_runs(pid_t pid) {
  char path[64], file[128], text[1024];
  int runs = 0;
  (void)snprintf(path, sizeof path, MST_PROC "/%d/task", (int)pid);
  DIR *dir = opendir(path);
  if (dir == NULL) return 0;
  for (struct dirent *entry = readdir(dir); entry != NULL && !runs;
       entry = readdir(dir)) {
    if (entry->d_name[0] == '.') continue;
    (void)snprintf(file, sizeof file, "%s/%.20s/stat", path, entry->d_name);
    (void)mst_kernel_read(file, text, sizeof text);
    const char *at = strrchr(text, ')');
    char state = 'S';
    runs = at != NULL && sscanf(at + 1, " %c", &state) == 1 &&
           strchr("RDt", state) != NULL;
  }
  (void)closedir(dir);
  return runs;
}

static int64_t kills_in(const char *path) {
  char text[16384];
  (void)mst_kernel_read(path, text, sizeof text);
  return mst_kernel_field(text, "oom_kill");
}

static int64_t kills_of(const char *folder, int version) {
  char path[2 * GROUP_MAX];
  (void)snprintf(path, sizeof path, "%s%s", folder,
                 version == 1 ? "memory.oom_control" : "memory.events");
  return kills_in(path);
}

// own_group gives the folder of this process's memory cgroup, with a final '/', and its version; 0
// if it is unknown or the root.
static int own_group(char *folder, size_t size) {
  char text[8192];
  const char *path;
  int version;
  (void)mst_kernel_read(MST_PROC "/self/cgroup", text, sizeof text);
  for (char *rest = text; (version = mst_kernel_group(&rest, &path)) != 0;) {
    if (version == 1 && strcmp(path, "/") == 0) return 0;
    const int n = snprintf(folder, size, MST_SYS "/fs/cgroup%s%s/",
                           version == 1 ? "/memory" : "", path);
    // If both versions are mounted, v2 lacks the memory controller.
    if (n > 0 && (size_t)n < size && kills_of(folder, version) >= 0) break;
  }
  return version;
}

// tree_count adds up the counts of a tree: version 1 counts each cgroup alone.
static int64_t tree_count(const char *folder, int depth) {
  char path[2 * GROUP_MAX];
  int64_t count = kills_of(folder, 1);
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
  switch (own_group(folder, sizeof folder)) {
  case 0:
    return kills_in(MST_PROC "/vmstat");
  case 1:
    return tree_count(folder, GROUPS_DEEP);
  default:
    return kills_of(folder, 2);
  }
}
#endif
