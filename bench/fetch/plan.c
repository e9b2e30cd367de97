// The plan of a run: settings, sizes, addresses, and what the blocks hold.
#include "fetch.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_hash.h"

#define PORT_FIRST 7000
#define PORTS_OF_WORKER 100

static const struct {
  const char *name;
  int workers, handlers, service, speculate;
} settings[] = {{"one-handler", 1, 1, 0, 0},
                {"shuffle-service", 1, 1, 1, 0},
                {"small-workers", 5, 1, 0, 0},
                {"ten-handlers", 1, 10, 0, 1},
                {"twenty-handlers", 1, 20, 0, 1}};

static int set_setting(struct plan *plan, const char *name) {
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    if (strcmp(settings[i].name, name) == 0) {
      plan->setting = settings[i].name;
      plan->workers = settings[i].workers;
      plan->handlers = settings[i].handlers;
      plan->service = settings[i].service;
      plan->speculate = settings[i].speculate;
      return 0;
    }
  }
  fprintf(stderr, "fetch: there is no setting %s\n", name);
  return -1;
}

// Reads NAME=NUMBER into the field of that name, if the number is from 0 or 1 to a limit.
static int set_number(struct plan *plan, const char *text) {
  const struct {
    const char *name;
    int *field, least, most;
  } fields[] = {
      {"workers", &plan->workers, 1, 50},
      {"handlers", &plan->handlers, 1, PORTS_OF_WORKER},
      {"service", &plan->service, 0, 1},
      {"speculate", &plan->speculate, 0, 1},
      {"hosts", &plan->hosts, 1, 64},
      {"maps", &plan->maps, 1, 1000},
      {"reducers", &plan->reducers, 1, 1000},
      {"fetchers", &plan->fetchers, 1, 100},
      {"block", &plan->block, 1, (int)BLOCK_MAX},
      {"somaxconn", &plan->somaxconn, 1, 65535},
      {"read_us", &plan->read_us, 0, 100000},
      {"heap_kb", &plan->heap_kb, 0, 1 << 20},
      {"collect", &plan->collect, 1, 1 << 20},
      {"scale", &plan->scale, 1, 100},
      {"seed", &plan->seed, 0, 1 << 30},
      {"limit_s", &plan->limit_s, 1, 3600},
  };
  const char *equal = strchr(text, '=');
  size_t n = equal == NULL ? 0 : (size_t)(equal - text);
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    if (n == strlen(fields[i].name) && memcmp(text, fields[i].name, n) == 0) {
      char *end = NULL;
      long value = strtol(equal + 1, &end, 10);
      if (end != equal + 1 && *end == 0 && value >= fields[i].least &&
          value <= fields[i].most) {
        *fields[i].field = (int)value;
        return 0;
      }
    }
  }
  fprintf(stderr, "fetch: %s can't be set\n", text);
  return -1;
}

int plan_read(int argc, char **argv, struct plan *plan) {
  *plan = (struct plan){.hosts = 4,
                        .maps = 20,
                        .reducers = 10,
                        .fetchers = 6,
                        .block = 1024,
                        .somaxconn = 128,
                        .read_us = 100,
                        .heap_kb = 32768,
                        .collect = 100,
                        .scale = 20,
                        .seed = 1,
                        .limit_s = 60};
  if (argc < 2) {
    fprintf(stderr, "usage: fetch SETTING NAME=NUMBER...\n");
    return -1;
  }
  int failed = set_setting(plan, argv[1]);
  for (int i = 2; i < argc && failed == 0; i++) {
    failed = set_number(plan, argv[i]);
  }
  return failed;
}

struct sockaddr_in plan_listener(const struct plan *plan, int host, int worker,
                                 int handler) {
  int of_host = plan->service ? 0 : worker;
  struct sockaddr_in at = {.sin_family = AF_INET};
  at.sin_addr.s_addr = htonl(0x7F010001u + (uint32_t)host);
  at.sin_port =
      htons((uint16_t)(PORT_FIRST + of_host * PORTS_OF_WORKER + handler));
  return at;
}

struct sockaddr_in plan_address(const struct plan *plan, int task, int try) {
  int worker = task / plan->hosts % plan->workers;
  return plan_listener(plan, task % plan->hosts, worker, try % plan->handlers);
}

uint64_t plan_random(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

static uint64_t name_of(int task, int reducer) {
  uint64_t state = (uint64_t)task << 32 | (uint32_t)reducer;
  return plan_random(&state);
}

void plan_pool(uint8_t *pool) {
  uint64_t state = 1;
  for (size_t i = 0; i < POOL_BYTES; i += sizeof state) {
    uint64_t word = plan_random(&state);
    memcpy(pool + i, &word, sizeof word);
  }
}

const uint8_t *plan_block(const uint8_t *pool, int task, int reducer) {
  return pool + name_of(task, reducer) % (POOL_BYTES - BLOCK_MAX);
}

uint64_t plan_check(const uint8_t *bytes, size_t n, int task, int reducer) {
  return mst_hash(bytes, n) * (name_of(task, reducer) | 1u);
}

uint64_t plan_sum(const struct plan *plan, const uint8_t *pool) {
  uint64_t sum = 0;
  for (int task = 0; task < plan_tasks(plan); task++) {
    for (int reducer = 0; reducer < plan_reducers(plan); reducer++) {
      sum += plan_check(plan_block(pool, task, reducer), (size_t)plan->block,
                        task, reducer);
    }
  }
  return sum;
}
