// fetch: one run of a shuffle as it is done naively, to see when its fetches stall.
//
//   fetch SETTING [NAME=NUMBER...]      see plan.c for the names
//
// A cluster of a few hosts is played by processes: a host is an address of the loopback of a
// network namespace that this run has for itself. All map tasks are done; all reducers
// begin at the same moment and fetch their blocks. Nothing here delays or drops a connection:
// what stalls does so because a listener's queue was full, the kernel dropped a packet, and its
// sender's kernel sent it again a second later, and so on.
//
// One line goes to standard output:
//   SECONDS OVERFLOWS DROPS SYN_AGAIN COPIES BROKEN SLOWEST_MS BYTES RIGHT
// seconds from the start to the last block; what the namespace's kernel counted (ListenOverflows,
// ListenDrops, TCPSynRetrans); second attempts; connections that broke; the longest that one
// block took; and 1 if all blocks had come, each once and with the right bytes.
// Status: 0, 1 if the run failed, 98 if no namespace can be had.
#include "fetch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_clock.h"

#define PROCESSES_MAX 1024

// What a process says to the first one: that it is ready, then what it got. Shorter than
// PIPE_BUF, so that they never mix.
struct report {
  struct tally tally;
};

struct run {
  struct plan plan;
  uint8_t *pool;
  int reports[2], go[2], end[2]; // pipes; the last two say it by ending
  pid_t pids[PROCESSES_MAX];
  int count, readers;
};

static void wait_for_end_of(int fd) {
  char byte;
  while (read(fd, &byte, 1) < 0 && errno == EINTR) {
  }
}

static void tell(const struct run *run, const struct tally *tally) {
  struct report report = {.tally = *tally};
  if (write(run->reports[1], &report, sizeof report) != sizeof report) {
    _exit(1);
  }
}

static int take_memory(struct process *process) {
  size_t kb = (size_t)(process->plan->heap_kb / process->plan->workers);
  process->heap_words = kb * 1024 / sizeof *process->heap;
  process->heap = malloc(kb * 1024 + 1);
  if (process->heap == NULL) return -1;
  memset(process->heap, 1, kb * 1024);
  return 0;
}

// The life of a process: handlers, reducers if it has any, and the end of the run.
static void process_run(struct run *run, int host, int worker, int handlers,
                        int reads) {
  struct process process = {
      .plan = &run->plan, .pool = run->pool, .host = host, .worker = worker};
  struct tally tally = {0};
  pthread_rwlockattr_t kind;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK,
        1000); // a handler's reading takes what it is told to
  close(run->reports[0]);
  close(run->go[1]);
  close(run->end[1]);
  // Else a worker with many handlers would never get to walk its memory.
  pthread_rwlockattr_init(&kind);
  pthread_rwlockattr_setkind_np(&kind,
                                PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&process.memory, &kind);
  if (take_memory(&process) < 0 || handlers_start(&process, handlers) < 0) {
    tally.failed = errno;
  }
  tell(run, &tally);
  wait_for_end_of(run->go[0]);
  if (reads) {
    reducers_run(&process, &tally);
    tell(run, &tally);
  }
  wait_for_end_of(run->end[0]);
  _exit(0);
}

static int start(struct run *run, int host, int worker, int handlers,
                 int reads) {
  if (run->count == PROCESSES_MAX) return -1;
  pid_t pid = fork();
  if (pid < 0) return -1;
  if (pid == 0) process_run(run, host, worker, handlers, reads);
  run->pids[run->count++] = pid;
  run->readers += reads;
  return 0;
}

static int start_all(struct run *run) {
  const struct plan *plan = &run->plan;
  for (int host = 0; host < plan->hosts; host++) {
    int own = plan->service ? 0 : plan->handlers;
    for (int worker = 0; worker < plan->workers; worker++) {
      if (start(run, host, worker, own, 1) < 0) return -1;
    }
    if (plan->service && start(run, host, 0, plan->handlers, 0) < 0) return -1;
  }
  return 0;
}

// Adds up `count` reports. -1 if they don't come in time or tell of failure, which is said.
static int gather(struct run *run, int count, int64_t deadline_ns,
                  struct tally *sum) {
  struct pollfd ready = {.fd = run->reports[0], .events = POLLIN};
  for (int i = 0; i < count; i++) {
    struct report report;
    int left_ms = mst_clock_ms_until(deadline_ns, 1 << 30);
    if (poll(&ready, 1, left_ms) != 1 ||
        read(run->reports[0], &report, sizeof report) != sizeof report) {
      fprintf(stderr, "fetch: %d of %d reports had come in time\n", i, count);
      return -1;
    }
    if (report.tally.failed) {
      fprintf(stderr, "fetch: a process failed: %s\n",
              strerror(report.tally.failed));
      return -1;
    }
    sum->bytes += report.tally.bytes;
    sum->sum += report.tally.sum;
    sum->blocks += report.tally.blocks;
    sum->copies += report.tally.copies;
    sum->broken += report.tally.broken;
    if (report.tally.slowest_ns > sum->slowest_ns) {
      sum->slowest_ns = report.tally.slowest_ns;
    }
  }
  return 0;
}

static void finish(struct run *run, int failed) {
  close(run->end[1]);
  for (int i = 0; i < run->count; i++) {
    if (failed) kill(run->pids[i], SIGKILL);
    while (waitpid(run->pids[i], NULL, 0) < 0 && errno == EINTR) {
    }
  }
}

static int prepare(struct run *run) {
  run->pool = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (run->pool == MAP_FAILED || pipe(run->reports) < 0 || pipe(run->go) < 0 ||
      pipe(run->end) < 0) {
    return -1;
  }
  plan_pool(run->pool);
  return 0;
}

// Plays the run. 0 if it came to its end, with what was counted and how long it took.
static int play(struct run *run, struct tally *got, struct counters *counted,
                int64_t *took_ns) {
  struct tally none = {0};
  struct counters before;
  int64_t limit_ns = run->plan.limit_s * MST_NS_PER_S;
  if (prepare(run) < 0 || start_all(run) < 0) {
    fprintf(stderr, "fetch: can't start: %s\n", strerror(errno));
    return -1;
  }
  if (gather(run, run->count, mst_clock_now() + limit_ns, &none) < 0 ||
      world_counters(&before) < 0) {
    return -1;
  }
  int64_t began = mst_clock_now();
  close(run->go[1]);
  int failed = gather(run, run->readers, began + limit_ns, got);
  *took_ns = mst_clock_now() - began;
  if (failed || world_counters(counted) < 0) return -1;
  counted->overflows -= before.overflows;
  counted->drops -= before.drops;
  counted->syn_again -= before.syn_again;
  return 0;
}

int main(int argc, char **argv) {
  static struct run run;
  struct tally got = {0};
  struct counters counted = {0};
  int64_t took_ns = 0;
  if (plan_read(argc, argv, &run.plan) < 0) return 1;
  if (world_enter(run.plan.somaxconn) < 0) return 98;
  int failed = play(&run, &got, &counted, &took_ns);
  finish(&run, failed);
  if (failed) return 1;
  uint64_t blocks =
      (uint64_t)plan_tasks(&run.plan) * (uint64_t)plan_reducers(&run.plan);
  int right = got.blocks == blocks && got.sum == plan_sum(&run.plan, run.pool);
  printf("%.6f %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
         " %.3f %" PRIu64 " %d\n",
         (double)took_ns * 1e-9, counted.overflows, counted.drops,
         counted.syn_again, got.copies, got.broken,
         (double)got.slowest_ns * 1e-6, got.bytes, right);
  return 0;
}
