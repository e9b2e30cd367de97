// A worker's reducers. Each wants its block of every map task and asks for them in an order of
// its own, `fetchers` at a time, each by a new connection. Without speculation a fetch waits for
// as long as the kernel makes it wait. With it, a fetch whose first byte is late gets another
// attempt by a new connection to another handler, and one more; the first that is whole wins.
//
// One thread and one epoll drive all fetches of a process: O(ready) for each wake, and with
// speculation a look at all open fetches every quarter of a second (as scaled).
#include "fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "wire/link_msg.h"
#include "wire/wire.h"

#define FRONT (MST_HEAD_BYTES + MST_WANT_BYTES)
#define EVENTS 256
#define BROKEN_MAX 10000 // connections; more is no experiment any more
// The original's times: a look, a late first byte, a very late one.
#define LOOK_MS 250
static const int late_ms[ATTEMPTS_MAX - 1] = {2500, 10000};

struct attempt {
  struct fetch *fetch;
  int fd; // -1: free
  size_t sent, got;
  uint8_t *bytes; // the answer: FRONT, then the block
};

struct fetch {
  struct reducer *reducer;
  int task; // -1: none any more
  int tries;
  int64_t began_ns;
  struct attempt attempts[ATTEMPTS_MAX];
};

struct reducer {
  int id;
  int *order; // map tasks, in the order in which they are asked for
  int next;
};

struct reader {
  struct process *process;
  struct tally *tally;
  int epoll;
  size_t left; // blocks that are still to come
  struct reducer *reducers;
  struct fetch *fetches;
  int reducer_count, fetch_count;
};

static void attempt_close(struct attempt *attempt) {
  if (attempt->fd >= 0) close(attempt->fd);
  free(attempt->bytes);
  attempt->fd = -1;
  attempt->bytes = NULL;
}

// Sends what is left of the WANT. 0 (also when it must wait) or -1.
static int attempt_ask(struct attempt *attempt) {
  uint8_t bytes[FRONT];
  struct mst_head head = {.kind = MST_KIND_WANT, .length = MST_WANT_BYTES};
  struct mst_want want = {.stage = (uint32_t)attempt->fetch->reducer->id,
                          .task = (uint32_t)attempt->fetch->task,
                          .attempt = 1};
  if (attempt->sent == FRONT) return 0;
  mst_head_encode(&head, bytes);
  mst_want_encode(&want, bytes + MST_HEAD_BYTES);
  ssize_t sent = send(attempt->fd, bytes + attempt->sent, FRONT - attempt->sent,
                      MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) attempt->sent += (size_t)sent;
  return sent > 0 || errno == EAGAIN || errno == EINTR ? 0 : -1;
}

// Begins an attempt by a new connection. Returns 0, or -1 if that isn't to be had.
static int attempt_open(struct reader *reader, struct fetch *fetch) {
  struct process *process = reader->process;
  const struct plan *plan = process->plan;
  struct attempt *attempt = NULL;
  for (int i = 0; i < ATTEMPTS_MAX && attempt == NULL; i++) {
    if (fetch->attempts[i].fd < 0) attempt = &fetch->attempts[i];
  }
  if (attempt == NULL) return 0;
  struct sockaddr_in from =
      plan_listener(plan, process->host, process->worker, 0);
  from.sin_port = 0;
  // Which handler is first differs between blocks, so that all have the same load.
  struct sockaddr_in to = plan_address(
      plan, fetch->task, fetch->task + fetch->reducer->id + fetch->tries);
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                              .data.ptr = attempt};
  int on = 1;
  attempt->fetch = fetch;
  attempt->sent = attempt->got = 0;
  attempt->bytes = malloc(FRONT + (size_t)plan->block);
  attempt->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (attempt->bytes == NULL || attempt->fd < 0) goto fail;
  setsockopt(attempt->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  if (bind(attempt->fd, (struct sockaddr *)&from, sizeof from) < 0) goto fail;
  if (connect(attempt->fd, (struct sockaddr *)&to, sizeof to) < 0 &&
      errno != EINPROGRESS) {
    goto fail;
  }
  // On the loopback it is mostly connected by now. Whatever is wrong shows at its event.
  (void)attempt_ask(attempt);
  if (epoll_ctl(reader->epoll, EPOLL_CTL_ADD, attempt->fd, &event) < 0) {
    goto fail;
  }
  fetch->tries++;
  return 0;
fail:
  attempt_close(attempt);
  return -1;
}

// Takes what there is. 1: the block is whole; 0: more is to come; -1: it will not come.
static int attempt_take(const struct reader *reader, struct attempt *attempt) {
  size_t whole = FRONT + (size_t)reader->process->plan->block;
  if (attempt_ask(attempt) < 0) return -1;
  while (attempt->got < whole) {
    ssize_t got = recv(attempt->fd, attempt->bytes + attempt->got,
                       whole - attempt->got, 0);
    if (got > 0) {
      attempt->got += (size_t)got;
    } else if (got < 0 && errno == EAGAIN) {
      return 0;
    } else if (got == 0 || errno != EINTR) {
      return -1;
    }
  }
  return 1;
}

// Adds a whole block to the tally. -1 if it isn't what was asked for.
static int count_block(struct reader *reader, const struct attempt *attempt) {
  struct tally *tally = reader->tally;
  const struct fetch *fetch = attempt->fetch;
  size_t block = (size_t)reader->process->plan->block;
  struct mst_head head;
  struct mst_want want;
  if (mst_head_decode(attempt->bytes, FRONT, MST_WANT_BYTES + block, &head) <=
          0 ||
      head.kind != MST_KIND_HAVE || head.length != MST_WANT_BYTES + block ||
      mst_want_decode(attempt->bytes + MST_HEAD_BYTES, MST_WANT_BYTES, &want) <
          0 ||
      want.task != (uint32_t)fetch->task ||
      want.stage != (uint32_t)fetch->reducer->id) {
    return -1;
  }
  int64_t took = mst_clock_now() - fetch->began_ns;
  if (took > tally->slowest_ns) tally->slowest_ns = took;
  tally->blocks++;
  tally->bytes += block;
  tally->sum += plan_check(attempt->bytes + FRONT, block, fetch->task,
                           fetch->reducer->id);
  return 0;
}

// Walks the worker's memory, as a collector of garbage does; its handlers wait meanwhile.
static void collect(struct reader *reader) {
  struct process *process = reader->process;
  pthread_rwlock_wrlock(&process->memory);
  for (size_t i = 0; i < process->heap_words; i += 8) {
    process->heap[i]++;
  }
  pthread_rwlock_unlock(&process->memory);
}

// Begins the reducer's next fetch, if there is one left.
static int fetch_next(struct reader *reader, struct fetch *fetch) {
  struct reducer *reducer = fetch->reducer;
  fetch->task = -1;
  if (reducer->next == plan_tasks(reader->process->plan)) return 0;
  fetch->task = reducer->order[reducer->next++];
  fetch->tries = 0;
  fetch->began_ns = mst_clock_now();
  return attempt_open(reader, fetch);
}

static int fetch_done(struct reader *reader, struct attempt *attempt) {
  struct fetch *fetch = attempt->fetch;
  if (count_block(reader, attempt) < 0) return -1;
  for (int i = 0; i < ATTEMPTS_MAX; i++) {
    attempt_close(&fetch->attempts[i]);
  }
  reader->left--;
  if (reader->tally->blocks % (uint64_t)reader->process->plan->collect == 0) {
    collect(reader);
  }
  return fetch_next(reader, fetch);
}

// An attempt that broke is made again at once, unless another one still runs.
static int attempt_broke(struct reader *reader, struct attempt *attempt) {
  struct fetch *fetch = attempt->fetch;
  attempt_close(attempt);
  if (++reader->tally->broken > BROKEN_MAX) return -1;
  for (int i = 0; i < ATTEMPTS_MAX; i++) {
    if (fetch->attempts[i].fd >= 0) return 0;
  }
  return attempt_open(reader, fetch);
}

// Gives a fetch of which no byte has come in time another attempt.
static int speculate(struct reader *reader, struct fetch *fetch, int64_t now) {
  int open = 0;
  for (int i = 0; i < ATTEMPTS_MAX; i++) {
    if (fetch->attempts[i].fd >= 0) {
      open++;
      if (fetch->attempts[i].got > 0) return 0;
    }
  }
  if (fetch->task < 0 || open == 0 || open == ATTEMPTS_MAX) return 0;
  int64_t late =
      late_ms[open - 1] * MST_NS_PER_MS / 100 * reader->process->plan->scale;
  if (now - fetch->began_ns < late) return 0;
  reader->tally->copies++;
  return attempt_open(reader, fetch);
}

static int look_at_all(struct reader *reader, int64_t now) {
  for (int i = 0; i < reader->fetch_count; i++) {
    if (speculate(reader, &reader->fetches[i], now) < 0) return -1;
  }
  return 0;
}

static int attempt_event(struct reader *reader, struct attempt *attempt) {
  if (attempt->fd < 0) return 0; // another attempt won in the same wake
  int got = attempt_take(reader, attempt);
  if (got == 0) return 0;
  return got > 0 ? fetch_done(reader, attempt) : attempt_broke(reader, attempt);
}

static int reader_run(struct reader *reader) {
  const struct plan *plan = reader->process->plan;
  int64_t look_ns = LOOK_MS * MST_NS_PER_MS / 100 * plan->scale;
  int64_t look = mst_clock_now() + look_ns;
  struct epoll_event events[EVENTS];
  for (int i = 0; i < reader->fetch_count; i++) {
    if (fetch_next(reader, &reader->fetches[i]) < 0) return -1;
  }
  while (reader->left > 0) {
    int wait_ms = plan->speculate ? mst_clock_ms_until(look, LOOK_MS) : -1;
    int count = epoll_wait(reader->epoll, events, EVENTS, wait_ms);
    if (count < 0 && errno != EINTR) return -1;
    for (int i = 0; i < count; i++) {
      if (attempt_event(reader, events[i].data.ptr) < 0) return -1;
    }
    int64_t now = mst_clock_now();
    if (plan->speculate && now >= look) {
      if (look_at_all(reader, now) < 0) return -1;
      look = now + look_ns;
    }
  }
  return 0;
}

// The reducers of one worker are those of its host in turn.
static int reader_fill(struct reader *reader) {
  const struct process *process = reader->process;
  const struct plan *plan = process->plan;
  int tasks = plan_tasks(plan), at = 0;
  for (int i = process->worker; i < plan->reducers; i += plan->workers) {
    struct reducer *reducer = &reader->reducers[reader->reducer_count++];
    uint64_t state = (uint64_t)plan->seed << 32;
    reducer->id = i * plan->hosts + process->host;
    state += (uint64_t)reducer->id;
    reducer->order = malloc((size_t)tasks * sizeof *reducer->order);
    if (reducer->order == NULL) return -1;
    for (int task = 0; task < tasks; task++) {
      int other = (int)(plan_random(&state) % (uint64_t)(task + 1));
      reducer->order[task] = reducer->order[other];
      reducer->order[other] = task;
    }
    for (int k = 0; k < plan->fetchers; k++) {
      struct fetch *fetch = &reader->fetches[at++];
      fetch->reducer = reducer;
      fetch->task = -1;
      for (int j = 0; j < ATTEMPTS_MAX; j++)
        fetch->attempts[j].fd = -1;
    }
  }
  reader->fetch_count = at;
  reader->left = (size_t)reader->reducer_count * (size_t)tasks;
  return 0;
}

void reducers_run(struct process *process, struct tally *tally) {
  const struct plan *plan = process->plan;
  size_t reducers = (size_t)plan->reducers;
  struct reader reader = {.process = process, .tally = tally};
  reader.reducers = calloc(reducers, sizeof *reader.reducers);
  reader.fetches =
      calloc(reducers * (size_t)plan->fetchers, sizeof *reader.fetches);
  reader.epoll = epoll_create1(EPOLL_CLOEXEC);
  if (reader.reducers == NULL || reader.fetches == NULL || reader.epoll < 0 ||
      reader_fill(&reader) < 0 || reader_run(&reader) < 0) {
    tally->failed = errno != 0 ? errno : EPROTO;
  }
  for (int i = 0; i < reader.fetch_count; i++) {
    for (int j = 0; j < ATTEMPTS_MAX; j++) {
      attempt_close(&reader.fetches[i].attempts[j]);
    }
  }
  for (int i = 0; i < reader.reducer_count; i++) {
    free(reader.reducers[i].order);
  }
  free(reader.reducers);
  free(reader.fetches);
  if (reader.epoll >= 0) close(reader.epoll);
}
