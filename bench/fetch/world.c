// The namespace that a run has for itself, and its counters.
#include "fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int loopback_up(void) {
  struct ifreq lo = {.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK};
  memcpy(lo.ifr_name, "lo", 3);
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int failed = ioctl(fd, SIOCSIFFLAGS, &lo);
  close(fd);
  return failed;
}

static int write_number(const char *path, int value) {
  char text[16];
  int n = snprintf(text, sizeof text, "%d", value);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t written = write(fd, text, (size_t)n);
  close(fd);
  return written == n ? 0 : -1;
}

int world_enter(int somaxconn) {
  // Without the right to make one here, it can be made in a user namespace of its own.
  if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
    fprintf(stderr, "fetch: no network namespace: %s\n", strerror(errno));
    return -1;
  }
  if (loopback_up() < 0) {
    fprintf(stderr, "fetch: the loopback can't be set up: %s\n",
            strerror(errno));
    return -1;
  }
  if (write_number("/proc/sys/net/core/somaxconn", somaxconn) < 0) {
    fprintf(stderr, "fetch: net.core.somaxconn can't be set: %s\n",
            strerror(errno));
    return -1;
  }
  return 0;
}

// The number below `name`: the file has a line of names, then a line of numbers.
static uint64_t counter(const char *names, const char *numbers,
                        const char *name) {
  size_t n = strlen(name);
  while (*names != 0 && *names != '\n') {
    const char *end = names + strcspn(names, " \n");
    if ((size_t)(end - names) == n && memcmp(names, name, n) == 0) {
      return strtoull(numbers, NULL, 10);
    }
    names = end + strspn(end, " ");
    numbers += strcspn(numbers, " \n");
    numbers += strspn(numbers, " ");
  }
  return 0;
}

int world_counters(struct counters *counters) {
  static char text[1 << 16];
  int fd = open("/proc/self/net/netstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t n = 0;
  ssize_t got;
  while (n < sizeof text - 1 &&
         (got = read(fd, text + n, sizeof text - 1 - n)) > 0) {
    n += (size_t)got;
  }
  close(fd);
  text[n] = 0;
  const char *names = strstr(text, "TcpExt: ");
  const char *numbers = names == NULL ? NULL : strstr(names + 1, "TcpExt: ");
  if (numbers == NULL) return -1;
  counters->overflows = counter(names, numbers, "ListenOverflows");
  counters->drops = counter(names, numbers, "ListenDrops");
  counters->syn_again = counter(names, numbers, "TCPSynRetrans");
  return 0;
}
