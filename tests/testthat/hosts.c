// hosts: a machine full of hosts, on addresses of 127/8, for tests of discover().
//
//   hosts PORT ADDRESS=KIND...
//
// Each address gets a listener on the port; 0 takes one that is free on the first address.
// The port is written to standard output as a line when all listen. Ends when its standard
// input does.
//
//   open      accepts (the kernel does) and says nothing
//   silent    drops the SYNs that come, since its queue is full
//   late:MS   silent until MS ms after the first SYN was due: the kernel's next SYN, a second
//             later, is let in
//   reset     accepts and resets at once
//   close     accepts and closes at once
//   say:HEX   accepts and says these bytes; by pieces where a dot stands, 5 ms apart
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HOSTS_MAX 64
#define CLIENTS_MAX 64

struct host {
  const char *kind;
  int listener;
  long open_ms; // late: when its queue gets room, 0 if it has or never does
};

static struct host hosts[HOSTS_MAX];
static int clients[CLIENTS_MAX], client_count;

static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

// drop_all fills the listener's queue, which has one place then: the kernel drops the SYNs
// that come. A socket filter would do it, too, but not every user may set one.
static void drop_all(int fd) {
  struct sockaddr_in at;
  socklen_t n = sizeof at;
  int filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (filler < 0 || listen(fd, 0) != 0 ||
      getsockname(fd, (struct sockaddr *)&at, &n) != 0 ||
      connect(filler, (struct sockaddr *)&at, n) != 0) {
    die("a full queue");
  }
}

static void drop_none(int fd) {
  if (listen(fd, 64) != 0) die("listen");
}

static int listen_at(const char *address, int *port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(*port)};
  socklen_t n = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
      on = 1;
  if (fd < 0 || inet_pton(AF_INET, address, &at.sin_addr) != 1) die(address);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 64))
    die(address);
  if (getsockname(fd, (struct sockaddr *)&at, &n)) die(address);
  *port = ntohs(at.sin_port);
  return fd;
}

static void say(int fd, const char *hex) {
  for (; *hex != '\0'; hex += 2) {
    if (*hex == '.') {
      struct timespec pause = {0, 5000000};
      nanosleep(&pause, NULL);
      hex--;
      continue;
    }
    unsigned byte;
    if (sscanf(hex, "%2x", &byte) != 1) break;
    unsigned char c = (unsigned char)byte;
    if (send(fd, &c, 1, MSG_NOSIGNAL) != 1) break;
  }
}

static void keep(int fd) {
  if (client_count == CLIENTS_MAX) {
    close(clients[0]);
    memmove(clients, clients + 1, (CLIENTS_MAX - 1) * sizeof *clients);
    client_count--;
  }
  clients[client_count++] = fd;
}

static void serve(const struct host *host) {
  int fd = accept(host->listener, NULL, NULL);
  if (fd < 0) return;
  if (strcmp(host->kind, "reset") == 0) {
    struct linger at_once = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
  } else if (strcmp(host->kind, "close") == 0) {
    close(fd);
  } else {
    if (strncmp(host->kind, "say:", 4) == 0) say(fd, host->kind + 4);
    keep(fd);
  }
}

// accepts tells whether this program, and not only the kernel, takes connections.
static int accepts(const char *kind) {
  return strcmp(kind, "reset") == 0 || strcmp(kind, "close") == 0 ||
         strncmp(kind, "say:", 4) == 0;
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > HOSTS_MAX + 2) return 2;
  int port = (int)strtol(argv[1], NULL, 10), count = argc - 2;
  struct pollfd at[HOSTS_MAX + 1] = {{.fd = 0, .events = POLLIN}};
  for (int i = 0; i < count; i++) {
    char *equals = strchr(argv[i + 2], '=');
    if (equals == NULL) return 2;
    *equals = '\0';
    hosts[i].kind = equals + 1;
    hosts[i].listener = listen_at(argv[i + 2], &port);
    if (strcmp(hosts[i].kind, "silent") == 0) drop_all(hosts[i].listener);
    if (strncmp(hosts[i].kind, "late:", 5) == 0) {
      drop_all(hosts[i].listener);
      hosts[i].open_ms = now_ms() + (int)strtol(hosts[i].kind + 5, NULL, 10);
    }
    at[i + 1].fd = accepts(hosts[i].kind) ? hosts[i].listener : -1;
    at[i + 1].events = POLLIN;
  }
  printf("%d\n", port);
  fflush(stdout);
  for (;;) {
    poll(at, (nfds_t)count + 1, 10);
    char byte;
    if ((at[0].revents & (POLLIN | POLLHUP)) && read(0, &byte, 1) <= 0)
      return 0;
    for (int i = 0; i < count; i++) {
      if (at[i + 1].revents != 0) serve(&hosts[i]);
      if (hosts[i].open_ms > 0 && now_ms() >= hosts[i].open_ms) {
        drop_none(hosts[i].listener);
        hosts[i].open_ms = 0;
      }
    }
  }
}
