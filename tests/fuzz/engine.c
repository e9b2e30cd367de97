// The own engine: changes known inputs at random, keeps those that reach new
// code, until the time is over. For machines without libFuzzer; it finds what a
// small parser hides, and is no more than that.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../c/mst_random.h"
#include "base/mst_clock.h"
#include "fuzz.h"

// Past this the oldest input kept is forgotten; parsers this small keep tens.
#define POOL_MAX 512u

struct pool {
  struct fuzz_input *inputs; // POOL_MAX of them
  size_t count;              // in use
  size_t next;               // where the next one goes
};

static void pool_add(struct pool *pool, const struct fuzz_input *input) {
  pool->inputs[pool->next] = *input;
  pool->next = (pool->next + 1) % POOL_MAX;
  if (pool->count < POOL_MAX) pool->count++;
}

static void change_bit(struct fuzz_input *input, uint64_t *random) {
  if (input->n == 0) return;
  const size_t at = (size_t)mst_random_below(random, input->n);
  input->bytes[at] ^= (uint8_t)(1u << mst_random_below(random, 8));
}

static void change_byte(struct fuzz_input *input, uint64_t *random) {
  if (input->n == 0) return;
  const size_t at = (size_t)mst_random_below(random, input->n);
  input->bytes[at] = (uint8_t)mst_random(random);
}

// Puts a number that parsers stumble on, of 1, 2, 4 or 8 bytes, somewhere.
static void change_number(struct fuzz_input *input, uint64_t *random) {
  static const uint64_t numbers[] = {0,          1,
                                     UINT64_MAX, 0x7F,
                                     0x80,       0x7FFF,
                                     0x8000,     0x7FFFFFFF,
                                     0x80000000, UINT64_C(1) << 63,
                                     4000,       4096,
                                     65536,      UINT64_C(1) << 42};
  const size_t width = (size_t)1 << mst_random_below(random, 4);
  if (input->n < width) return;
  uint64_t number =
      numbers[mst_random_below(random, sizeof numbers / sizeof numbers[0])];
  // Half of the time the number of bytes there, or near to it: a true length.
  if (mst_random_below(random, 2) == 0) number = input->n;
  number += mst_random_below(random, 3) - 1;
  const size_t at = (size_t)mst_random_below(random, input->n - width + 1);
  for (size_t i = 0; i < width; i++) {
    input->bytes[at + i] = (uint8_t)(number >> (8 * i));
  }
}

// Takes up to 16 bytes out.
static void change_delete(struct fuzz_input *input, uint64_t *random) {
  if (input->n == 0) return;
  const size_t at = (size_t)mst_random_below(random, input->n);
  size_t count = 1 + (size_t)mst_random_below(random, 16);
  if (count > input->n - at) count = input->n - at;
  memmove(input->bytes + at, input->bytes + at + count, input->n - at - count);
  input->n -= count;
}

// Puts up to 16 random bytes in.
static void change_insert(struct fuzz_input *input, uint64_t *random) {
  const size_t at = (size_t)mst_random_below(random, input->n + 1);
  const size_t count = 1 + (size_t)mst_random_below(random, 16);
  if (input->n + count > FUZZ_INPUT_MAX) return;
  memmove(input->bytes + at + count, input->bytes + at, input->n - at);
  for (size_t i = 0; i < count; i++) {
    input->bytes[at + i] = (uint8_t)mst_random(random);
  }
  input->n += count;
}

// Replaces the end by the end of another input.
static void change_splice(struct fuzz_input *input, uint64_t *random,
                          const struct fuzz_input *other) {
  const size_t keep = (size_t)mst_random_below(random, input->n + 1);
  const size_t from = (size_t)mst_random_below(random, other->n + 1);
  const size_t count = other->n - from;
  if (keep + count > FUZZ_INPUT_MAX) return;
  memcpy(input->bytes + keep, other->bytes + from, count);
  input->n = keep + count;
}

static void change(struct fuzz_input *input, const struct pool *pool,
                   uint64_t *random) {
  static void (*const changes[])(struct fuzz_input *, uint64_t *) = {
      change_bit, change_byte, change_number, change_delete, change_insert};
  const size_t count = sizeof changes / sizeof changes[0];
  for (uint64_t left = 1 + mst_random_below(random, 4); left > 0; left--) {
    const size_t which = (size_t)mst_random_below(random, count + 1);
    if (which < count) {
      changes[which](input, random);
    } else {
      const uint64_t other = mst_random_below(random, pool->count);
      change_splice(input, random, &pool->inputs[other]);
    }
  }
}

static void feed(const struct fuzz_target *target, struct pool *pool,
                 const struct fuzz_input *input, struct fuzz_report *report) {
  fuzz_feed(target, input->bytes, input->n, &report->now);
  report->runs++;
  if (!fuzz_cover_grew()) return;
  pool_add(pool, input);
  report->kept++;
}

// Feeds the files of the corpus in the order of their names, so that a seed
// gives the same run. All of them stay in the pool.
static int feed_corpus(const struct fuzz_target *target, const char *dir,
                       struct pool *pool, struct fuzz_report *report) {
  struct dirent **names = NULL;
  const int count = scandir(dir, &names, NULL, alphasort);
  static struct fuzz_input input;
  for (int i = 0; i < count; i++) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
    if (names[i]->d_name[0] != '.' && fuzz_file_read(path, &input) == 0) {
      pool_add(pool, &input);
      feed(target, pool, &input, report);
    }
    free(names[i]);
  }
  free(names);
  if (pool->count > 0) return 0;
  fprintf(stderr, "no corpus in %s; 'make corpus' writes one\n", dir);
  return -1;
}

int fuzz_engine(const struct fuzz_target *target, const char *corpus_dir,
                int seconds, uint64_t seed, struct fuzz_report *report) {
  struct pool pool = {calloc(POOL_MAX, sizeof *pool.inputs), 0, 0};
  if (pool.inputs == NULL) {
    perror("calloc");
    return -1;
  }
  const int64_t end_ns = mst_clock_now() + seconds * MST_NS_PER_S;
  const int rc = feed_corpus(target, corpus_dir, &pool, report);
  uint64_t random = seed;
  static struct fuzz_input input;
  while (rc == 0 && mst_clock_now() < end_ns) {
    input = pool.inputs[mst_random_below(&random, pool.count)];
    change(&input, &pool, &random);
    feed(target, &pool, &input, report);
  }
  free(pool.inputs);
  return rc;
}
