// Records the frames that an R session sends and receives (docs/PROTOCOL.md): a library for
// LD_PRELOAD. Stands between muster and the C library's socket calls, in the process that
// runs R first; what that one starts has no part in it. MUSTER_WIRE names the file, which gets
// a line for each frame as it is complete:
//   channel direction kind flags attempt cluster worker epoch call length hash
// The hash is of the payload (FNV-1a), of a VALUE without its times. Channels are
// numbered as they are seen; streams that don't begin as frames do are left alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FDS = 4096, HEAD = 40, TIMES = 24, VALUE = 6 };

struct stream {
  uint8_t head[HEAD];
  uint64_t done; // bytes of this frame
  uint64_t hash;
  int foreign; // these are no frames
};

static struct {
  ino_t inode;
  int channel;
  struct stream streams[2];
} fds[FDS];
static int channels;
static int out = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Programs before R (a shell, Rscript) hand the variables on.
__attribute__((constructor)) static void begin(void) {
  char program[4096];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n < 7) return;
  program[n] = 0;
  const char *file = getenv("MUSTER_WIRE");
  if (file == NULL || strcmp(program + n - 7, "/exec/R") != 0) return;
  out = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  unsetenv("MUSTER_WIRE");
  unsetenv("LD_PRELOAD");
}

// A fork of the session has no part in it either.
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static uint64_t le(const uint8_t *bytes, int n) {
  uint64_t x = 0;
  while (n-- > 0)
    x = x << 8 | bytes[n];
  return x;
}

static void tell(int fd, int received, const struct stream *s) {
  char line[256];
  const uint8_t *h = s->head;
  const int n =
      snprintf(line, sizeof line, "%d %s %u %u %u %u %u %u %llu %llu %016llx\n",
               fds[fd].channel, received ? "received" : "sent", h[3],
               (unsigned)le(h + 4, 2), (unsigned)le(h + 6, 2),
               (unsigned)le(h + 8, 4), (unsigned)le(h + 12, 4),
               (unsigned)le(h + 16, 4), (unsigned long long)le(h + 24, 8),
               (unsigned long long)le(h + 32, 8), (unsigned long long)s->hash);
  if (write(out, line, (size_t)n) != n) abort();
}

static void take(int fd, int received, const uint8_t *bytes, size_t n) {
  struct stream *s = &fds[fd].streams[received];
  while (n > 0 && !s->foreign) {
    if (s->done < HEAD) {
      s->head[s->done++] = *bytes++;
      n--;
      if (s->done == 2 && le(s->head, 2) != 0x734d) s->foreign = 1;
      s->hash = 0xcbf29ce484222325u;
    } else {
      const uint64_t at = s->done - HEAD;
      uint64_t m = le(s->head + 32, 8) - at;
      if (m > n) m = n;
      for (uint64_t i = 0; i < m; i++) {
        if (s->head[3] == VALUE && at + i < TIMES) continue;
        s->hash = (s->hash ^ bytes[i]) * 0x100000001b3u;
      }
      s->done += m;
      bytes += m;
      n -= m;
    }
    if (s->done >= HEAD && s->done - HEAD == le(s->head + 32, 8)) {
      tell(fd, received, s);
      s->done = 0;
    }
  }
}

static void see(int fd, int received, const struct iovec *parts, size_t count,
                ssize_t done) {
  if (out < 0 || done <= 0 || fd < 0 || fd >= FDS) return;
  struct stat what;
  if (fstat(fd, &what) != 0 || !S_ISSOCK(what.st_mode)) return;
  pthread_mutex_lock(&lock);
  if (fds[fd].inode != what.st_ino) {
    memset(&fds[fd], 0, sizeof fds[fd]);
    fds[fd].inode = what.st_ino;
    fds[fd].channel = ++channels;
  }
  for (size_t i = 0; i < count && done > 0; i++) {
    const size_t n =
        (size_t)done < parts[i].iov_len ? (size_t)done : parts[i].iov_len;
    take(fd, received, parts[i].iov_base, n);
    done -= (ssize_t)n;
  }
  pthread_mutex_unlock(&lock);
}

static void see_bytes(int fd, int received, const void *bytes, ssize_t done) {
  const struct iovec part = {(void *)(uintptr_t)bytes,
                             done > 0 ? (size_t)done : 0};
  see(fd, received, &part, 1, done);
}

#define REAL(name, type, ...)                                                  \
  static type (*name##_real)(__VA_ARGS__);                                     \
  if (name##_real == NULL) *(void **)&name##_real = real(#name)

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags) {
  REAL(sendmsg, ssize_t, int, const struct msghdr *, int);
  const ssize_t done = sendmsg_real(fd, msg, flags);
  see(fd, 0, msg->msg_iov, msg->msg_iovlen, done);
  return done;
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags) {
  REAL(recvmsg, ssize_t, int, struct msghdr *, int);
  const ssize_t done = recvmsg_real(fd, msg, flags);
  if (!(flags & MSG_PEEK)) see(fd, 1, msg->msg_iov, msg->msg_iovlen, done);
  return done;
}

ssize_t send(int fd, const void *bytes, size_t n, int flags) {
  REAL(send, ssize_t, int, const void *, size_t, int);
  const ssize_t done = send_real(fd, bytes, n, flags);
  see_bytes(fd, 0, bytes, done);
  return done;
}

ssize_t recv(int fd, void *bytes, size_t n, int flags) {
  REAL(recv, ssize_t, int, void *, size_t, int);
  const ssize_t done = recv_real(fd, bytes, n, flags);
  if (!(flags & MSG_PEEK)) see_bytes(fd, 1, bytes, done);
  return done;
}

// What a C library's fortified headers make of recv().
ssize_t __recv_chk(int fd, void *bytes, size_t n, size_t room, int flags) {
  if (n > room) abort();
  return recv(fd, bytes, n, flags);
}
