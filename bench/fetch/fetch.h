// fetch: what the files of bench/fetch share. One program plays a small cluster in a network
// namespace of its own: hosts are loopback addresses, workers are processes, and each reducer
// fetches its block of each map task by a TCP connection of its own. See main.c.
#ifndef FETCH_H
#define FETCH_H

#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define ATTEMPTS_MAX 3 // the first one and two copies
#define POOL_BYTES ((size_t)4 << 20)
#define BLOCK_MAX ((size_t)1 << 20)

// What is played. Counts are those of one host, but for hosts, and are the same in all
// settings; the first five fields are what the settings differ in.
struct plan {
  const char *setting;
  int workers;  // processes of a host, which share its reducers and map tasks
  int handlers; // listeners of each, every one with a thread of its own
  int service;  // 1: the listener is in a process without reducers
  int speculate;
  int hosts, maps, reducers;
  int fetchers;  // connections that one reducer has at a time
  int block;     // bytes
  int somaxconn; // of the namespace: what listen() can get
  int read_us;   // what a handler takes to read a block, whoever it is for
  int heap_kb;   // memory of all workers of a host
  int collect;   // blocks after which a worker walks its memory
  int scale;     // percent of the original's times before a copy
  int seed;      // order in which reducers fetch
  int limit_s;   // a run that takes longer has failed
};

// plan_read fills the plan from `SETTING NAME=NUMBER...`. Returns 0, or -1 after a line on
// standard error.
int plan_read(int argc, char **argv, struct plan *plan);

static inline int plan_tasks(const struct plan *plan) {
  return plan->hosts * plan->maps;
}
static inline int plan_reducers(const struct plan *plan) {
  return plan->hosts * plan->reducers;
}

// plan_address gives where the blocks of a map task are to be had: at one of the handlers of
// its worker, the same for the same `try`. Handler and worker count from 0 in a host.
struct sockaddr_in plan_address(const struct plan *plan, int task, int try);
struct sockaddr_in plan_listener(const struct plan *plan, int host, int worker,
                                 int handler);

// plan_pool fills POOL_BYTES with bytes that don't repeat. A block is a part of them, which
// plan_block finds; plan_sum gives the sum of the checks of all blocks, plan_check one block's.
void plan_pool(uint8_t *pool);
const uint8_t *plan_block(const uint8_t *pool, int task, int reducer);
uint64_t plan_check(const uint8_t *bytes, size_t n, int task, int reducer);
uint64_t plan_sum(const struct plan *plan, const uint8_t *pool);

// plan_random is a generator for orders: splitmix64.
uint64_t plan_random(uint64_t *state);

// What a worker's reducers have got.
struct tally {
  uint64_t bytes, sum, blocks;
  uint64_t copies;    // attempts that were made because no byte had come
  uint64_t broken;    // connections that ended before their block was whole
  int64_t slowest_ns; // the longest that one block took
  int32_t failed;     // 0, or the errno for which it gave up
};

// A worker's process: its handlers and its reducers stop for each other when the worker walks
// its memory (an exclusive lock), as threads of one interpreter or collector do.
struct process {
  const struct plan *plan;
  const uint8_t *pool;
  int host, worker;
  pthread_rwlock_t memory;
  uint64_t *heap; // its share of the host's, of which every page is there
  size_t heap_words;
};

// handlers_start listens and starts a thread for each listener, which ends with the process.
// Returns 0 or -1, errno set.
int handlers_start(struct process *process, int count);

// reducers_run fetches everything that this process' reducers want. Blocks until all is there
// or it can't be had. Call it once.
void reducers_run(struct process *process, struct tally *tally);

// Counters of the namespace's kernel that tell of full queues.
struct counters {
  uint64_t overflows; // ListenOverflows: packets that met a full queue
  uint64_t drops;     // ListenDrops
  uint64_t syn_again; // TCPSynRetrans
};

// world_enter moves this process to a network namespace of its own, with its loopback up and
// net.core.somaxconn as told. Returns 0, or -1 after a line on standard error.
int world_enter(int somaxconn);
// world_counters reads them; -1 if the system has none.
int world_counters(struct counters *counters);

#endif
