// A worker's shuffle handlers, as naive servers are: one thread accepts a connection, reads what
// is wanted, reads the block, sends it and closes, and only then accepts the next. What comes
// meanwhile waits in the listener's queue, and what finds that full is dropped by the kernel.
#include "fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire/link_msg.h"
#include "wire/wire.h"

#define WANT_FRAME (MST_HEAD_BYTES + MST_WANT_BYTES)

struct handler {
  struct process *process;
  int fd;
  uint8_t *answer; // WANT_FRAME and a block
};

// Reads a WANT, which names the reducer as its stage. Returns 0, or -1 for a client that is gone
// or says something else.
static int read_want(int fd, struct mst_want *want) {
  uint8_t bytes[WANT_FRAME];
  struct mst_head head;
  ssize_t got;
  do {
    got = recv(fd, bytes, sizeof bytes, MSG_WAITALL);
  } while (got < 0 && errno == EINTR);
  if (got != (ssize_t)sizeof bytes ||
      mst_head_decode(bytes, sizeof bytes, MST_WANT_BYTES, &head) <= 0 ||
      head.kind != MST_KIND_WANT || head.length != MST_WANT_BYTES) {
    return -1;
  }
  return mst_want_decode(bytes + MST_HEAD_BYTES, MST_WANT_BYTES, want);
}

static void send_all(int fd, const uint8_t *bytes, size_t n) {
  while (n > 0) {
    ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return;
    if (sent > 0) {
      bytes += sent;
      n -= (size_t)sent;
    }
  }
}

// Answers with HAVE, whose payload is the block itself after what was wanted.
static void answer(struct handler *handler, int fd,
                   const struct mst_want *want) {
  struct process *process = handler->process;
  const struct plan *plan = process->plan;
  size_t bytes = (size_t)plan->block;
  struct mst_head head = {.kind = MST_KIND_HAVE,
                          .length = MST_WANT_BYTES + bytes};
  struct timespec reading = {.tv_nsec = plan->read_us * 1000L};
  nanosleep(&reading, NULL);

  // Nobody's memory is touched while the worker walks it. Sending isn't part of that: two
  // workers that walk would wait for each other.
  pthread_rwlock_rdlock(&process->memory);
  mst_head_encode(&head, handler->answer);
  mst_want_encode(want, handler->answer + MST_HEAD_BYTES);
  memcpy(handler->answer + WANT_FRAME,
         plan_block(process->pool, (int)want->task, (int)want->stage), bytes);
  pthread_rwlock_unlock(&process->memory);
  send_all(fd, handler->answer, WANT_FRAME + bytes);
}

static void *handler_run(void *data) {
  struct handler *handler = data;
  const struct plan *plan = handler->process->plan;
  for (;;) {
    int fd = accept4(handler->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) continue;
    struct mst_want want;
    if (read_want(fd, &want) == 0 && want.task < (uint32_t)plan_tasks(plan) &&
        want.stage < (uint32_t)plan_reducers(plan)) {
      answer(handler, fd, &want);
    }
    close(fd);
  }
  return NULL;
}

static int listen_at(const struct sockaddr_in *at) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1, room = 1 << 20;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // Room for a whole block, so that a slow reader doesn't hold the handler.
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  if (bind(fd, (const struct sockaddr *)at, sizeof *at) < 0 ||
      listen(fd, 65535) < 0) { // the system makes it net.core.somaxconn
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

static int handler_start(struct process *process, int index) {
  struct sockaddr_in at =
      plan_listener(process->plan, process->host, process->worker, index);
  struct handler *handler = calloc(1, sizeof *handler);
  pthread_t thread;
  if (handler == NULL) return -1;
  handler->process = process;
  handler->answer = malloc(WANT_FRAME + (size_t)process->plan->block);
  handler->fd = handler->answer == NULL ? -1 : listen_at(&at);
  int error = handler->fd < 0
                  ? errno
                  : pthread_create(&thread, NULL, handler_run, handler);
  if (error == 0) {
    pthread_detach(thread);
    return 0;
  }
  if (handler->fd >= 0) close(handler->fd);
  free(handler->answer);
  free(handler);
  errno = error;
  return -1;
}

int handlers_start(struct process *process, int count) {
  for (int i = 0; i < count; i++) {
    if (handler_start(process, i) < 0) return -1;
  }
  return 0;
}
