// The clock of all benchmarks, and the limits to measure against: nothing that
// forks R can be faster than bare forks of R, nothing that sends a call to another
// process and waits for its answer can be faster than one byte there and back. And no
// socket is connected, or address tried, faster than by the system calls that do it.
//
// bench/run.R compiles this into a directory of its own, which goes when it ends.
// A forked child here does nothing but read, write and _exit: no R, no malloc.

#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// bench_now gives monotonic time in seconds, from an arbitrary beginning.
SEXP bench_now(void) { return Rf_ScalarReal(now_s()); }

// Reads until `bytes` have come. Returns 0, or -1 at an error or the end.
static int read_all(int fd, size_t bytes) {
  char buf[4096];
  while (bytes > 0) {
    ssize_t got = read(fd, buf, bytes < sizeof buf ? bytes : sizeof buf);
    if (got > 0) {
      bytes -= (size_t)got;
    } else if (got == 0 || errno != EINTR) {
      return -1;
    }
  }
  return 0;
}

static int write_byte(int fd) {
  ssize_t sent;
  do {
    sent = write(fd, "x", 1);
  } while (sent < 0 && errno == EINTR);
  return sent == 1 ? 0 : -1;
}

static void reap(pid_t pid) {
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
  }
}

// bench_forks forks this process `count` times, without anything between, and gives
// the seconds until every child has written one byte. The children then see their
// pipe end, and are reaped.
SEXP bench_forks(SEXP count_arg) {
  int count = Rf_asInteger(count_arg);
  pid_t *pids = (pid_t *)(void *)R_alloc((size_t)count, sizeof(pid_t));
  int answers[2], end[2];
  if (pipe(answers) < 0) {
    Rf_error("pipe: %s", strerror(errno));
  }
  if (pipe(end) < 0) {
    int error = errno;
    close(answers[0]);
    close(answers[1]);
    Rf_error("pipe: %s", strerror(error));
  }

  double began = now_s();
  int forked = 0, error = 0;
  while (forked < count && error == 0) {
    pid_t pid = fork();
    if (pid == 0) {
      close(end[1]);
      write_byte(answers[1]);
      read_all(end[0], 1);
      _exit(0);
    }
    if (pid < 0) {
      error = errno;
    } else {
      pids[forked++] = pid;
    }
  }
  close(answers[1]);
  if (read_all(answers[0], (size_t)forked) < 0 && error == 0) {
    error = EPIPE;
  }
  double took = now_s() - began;

  close(end[1]);
  close(end[0]);
  close(answers[0]);
  for (int i = 0; i < forked; i++) {
    reap(pids[i]);
  }
  if (error != 0) {
    Rf_error("fork: %s", strerror(error));
  }
  return Rf_ScalarReal(took);
}

// bench_touch reads every byte of a vector of numbers, as a receiver of bytes has: gives how many.
SEXP bench_touch(SEXP x) {
  size_t bytes = (size_t)XLENGTH(x) * (TYPEOF(x) == REALSXP ? sizeof(double) : sizeof(int));
  const unsigned char *at = DATAPTR_RO(x);
  unsigned long long sum = 0, word;
  for (size_t i = 0; i + sizeof word <= bytes; i += sizeof word) {
    memcpy(&word, at + i, sizeof word);
    sum += word;
  }
  // Looked at, so that no compiler leaves the loop out.
  return Rf_ScalarReal(sum == 1 ? -1 : (double)bytes);
}

// Sends and receives `bytes` each, at the same time, as far as the socket takes them. Returns 0,
// or -1.
static int exchange(int fd, double bytes) {
  static char out[1 << 18], in[1 << 18];
  double sent = 0, got = 0;
  while (sent < bytes || got < bytes) {
    struct pollfd at = {fd, (short)(sent < bytes ? POLLIN | POLLOUT : POLLIN), 0};
    if (poll(&at, 1, -1) < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    if ((at.revents & POLLOUT) != 0) {
      double left = bytes - sent;
      ssize_t n = send(fd, out, left < sizeof out ? (size_t)left : sizeof out, MSG_DONTWAIT);
      if (n > 0) sent += (double)n;
    }
    if (got < bytes && (at.revents & (POLLIN | POLLHUP)) != 0) {
      double left = bytes - got;
      ssize_t n = recv(fd, in, left < sizeof in ? (size_t)left : sizeof in, MSG_DONTWAIT);
      if (n == 0 && left > 0) return -1;
      if (n > 0) got += (double)n;
    }
  }
  return 0;
}

// bench_exchange gives the seconds in which this process and a forked one have sent each other
// so many bytes over a unix socket, both at once.
SEXP bench_exchange(SEXP bytes_arg) {
  double bytes = floor(Rf_asReal(bytes_arg));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) {
    Rf_error("socketpair: %s", strerror(errno));
  }
  pid_t pid = fork();
  if (pid < 0) {
    int error = errno;
    close(ends[0]);
    close(ends[1]);
    Rf_error("fork: %s", strerror(error));
  }
  int own = pid == 0;
  close(ends[!own]);
  // Both are there before the clock starts.
  int failed = write_byte(ends[own]) < 0 || read_all(ends[own], 1) < 0;
  double began = now_s();
  failed = failed || exchange(ends[own], bytes) < 0;
  // And both have got all before it stops.
  failed = failed || write_byte(ends[own]) < 0 || read_all(ends[own], 1) < 0;
  double took = now_s() - began;
  if (pid == 0) {
    _exit(failed);
  }
  close(ends[own]);
  reap(pid);
  if (failed) {
    Rf_error("the exchange with a forked process failed");
  }
  return Rf_ScalarReal(took);
}

// A socket that listens at a free port of the loopback, or, if `closed`, only the address of
// one that did.
static int listen_somewhere(struct sockaddr_in *at, int closed) {
  socklen_t n = sizeof *at;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  memset(at, 0, sizeof *at);
  at->sin_family = AF_INET;
  at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof *at) < 0 ||
      listen(fd, 128) < 0 || getsockname(fd, (struct sockaddr *)at, &n) < 0) {
    Rf_error("a listener: %s", strerror(errno));
  }
  if (closed) {
    close(fd);
  }
  return fd;
}

// bench_connects gives the seconds of each of `count` connections over the loopback: socket,
// connect and accept, nothing else. Closing isn't counted.
SEXP bench_connects(SEXP count_arg) {
  int count = Rf_asInteger(count_arg);
  SEXP times = PROTECT(Rf_allocVector(REALSXP, count));
  struct sockaddr_in at;
  int listener = listen_somewhere(&at, 0);
  for (int i = 0; i < count; i++) {
    double began = now_s();
    int client = socket(AF_INET, SOCK_STREAM, 0);
    int connected = connect(client, (struct sockaddr *)&at, sizeof at);
    int server = accept(listener, NULL, NULL);
    REAL(times)[i] = now_s() - began;
    close(client);
    close(server);
    if (connected < 0 || server < 0) {
      close(listener);
      Rf_error("a connection: %s", strerror(errno));
    }
  }
  close(listener);
  UNPROTECT(1);
  return times;
}

// bench_refused does the same for connects to a port at which nobody listens.
SEXP bench_refused(SEXP count_arg) {
  int count = Rf_asInteger(count_arg);
  SEXP times = PROTECT(Rf_allocVector(REALSXP, count));
  struct sockaddr_in at;
  listen_somewhere(&at, 1);
  for (int i = 0; i < count; i++) {
    double began = now_s();
    int client = socket(AF_INET, SOCK_STREAM, 0);
    int connected = connect(client, (struct sockaddr *)&at, sizeof at);
    REAL(times)[i] = now_s() - began;
    close(client);
    if (connected == 0) {
      Rf_error("somebody listens at port %d", ntohs(at.sin_port));
    }
  }
  UNPROTECT(1);
  return times;
}

// round_trips gives the seconds of each of `count` round trips of one byte to a child, over a
// socket pair, blocking, without spinning. command: NULL for a forked child that does nothing else.
static SEXP round_trips(const char *command, int count) {
  SEXP times = PROTECT(Rf_allocVector(REALSXP, count));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) {
    Rf_error("socketpair: %s", strerror(errno));
  }
  pid_t pid = fork();
  if (pid < 0) {
    int error = errno;
    close(pair[0]);
    close(pair[1]);
    Rf_error("fork: %s", strerror(error));
  }
  if (pid == 0) {
    close(pair[0]);
    if (command != NULL) {
      dup2(pair[1], 0);
      dup2(pair[1], 1);
      close(pair[1]);
      execl("/bin/sh", "sh", "-c", command, (char *)NULL);
      _exit(127);
    }
    while (read_all(pair[1], 1) == 0 && write_byte(pair[1]) == 0) {
    }
    _exit(0);
  }
  close(pair[1]);

  // The first few aren't counted: a command has to start, and a login to be made.
  int failed = 0;
  for (int i = -10; i < count && !failed; i++) {
    double began = now_s();
    failed = write_byte(pair[0]) < 0 || read_all(pair[0], 1) < 0;
    if (i >= 0) REAL(times)[i] = now_s() - began;
  }
  close(pair[0]);
  reap(pid);
  UNPROTECT(1);
  if (failed) {
    Rf_error("the child ended too early");
  }
  return times;
}

// bench_round_trips gives the times of round trips to a forked child.
SEXP bench_round_trips(SEXP count) { return round_trips(NULL, Rf_asInteger(count)); }

// bench_echoes gives those to a shell command that gives back what it reads.
SEXP bench_echoes(SEXP command, SEXP count) {
  return round_trips(CHAR(STRING_ELT(command, 0)), Rf_asInteger(count));
}

// bench_probes gives the seconds of one non-blocking connect to each of `count` addresses
// of the loopback from `first` on (host order), one after the other: socket, connect, its
// error, close. *refused, the second value, counts those that nobody listened at.
SEXP bench_probes(SEXP first_arg, SEXP count_arg, SEXP port_arg) {
  unsigned first = (unsigned)Rf_asReal(first_arg);
  int count = Rf_asInteger(count_arg);
  struct sockaddr_in at;
  memset(&at, 0, sizeof at);
  at.sin_family = AF_INET;
  at.sin_port = htons((unsigned short)Rf_asInteger(port_arg));
  int refused = 0;
  double began = now_s();
  for (int i = 0; i < count; i++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) {
      Rf_error("socket: %s", strerror(errno));
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    at.sin_addr.s_addr = htonl(first + (unsigned)i);
    int error = 0;
    socklen_t n = sizeof error;
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0 && errno == EINPROGRESS) {
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n);
    } else {
      error = errno;
    }
    refused += error == ECONNREFUSED;
    close(fd);
  }
  SEXP value = PROTECT(Rf_allocVector(REALSXP, 2));
  REAL(value)[0] = now_s() - began;
  REAL(value)[1] = refused;
  UNPROTECT(1);
  return value;
}
