// Processes on Linux. See fork.h.
#ifdef __linux__
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fork/fork.h"

// The numbers are the same on every architecture; headers may be older than
// the kernel.
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

int mst_proc_pidfd(pid_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0); // close-on-exec; Linux 5.3
  return fd < 0 ? -1 : (int)fd;
}

void mst_proc_die_with_parent(int signal) {
  (void)prctl(PR_SET_PDEATHSIG, (unsigned long)signal, 0UL, 0UL, 0UL);
}

void mst_proc_close_from(int lowest) {
  if (syscall(SYS_close_range, (unsigned)lowest, ~0U, 0U) == 0) return;
  // Before Linux 5.9. sysconf() is the soft limit; what was opened under a
  // higher limit stays open, but is close-on-exec where muster opened it.
  long last = sysconf(_SC_OPEN_MAX);
  if (last < 0 || last > 65536) last = 65536;
  for (int fd = lowest; fd < (int)last; fd++)
    (void)close(fd);
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

int64_t mst_proc_oom_kills(void) {
  char text[16384];
  const int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t n = 0;
  ssize_t got;
  while (n < sizeof text - 1 &&
         (got = read(fd, text + n, sizeof text - 1 - n)) > 0) {
    n += (size_t)got;
  }
  (void)close(fd);
  text[n] = '\0';
  const char *at = strstr(text, "\noom_kill ");
  return at == NULL ? -1 : strtoll(at + strlen("\noom_kill "), NULL, 10);
}

int mst_proc_can_fork(void) { return 1; }
#else
typedef int mst_proc_linux_unused; // a translation unit must hold something
#endif
