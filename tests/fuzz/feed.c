// Feeds a target an input whole and cut at every byte, before a guard page.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../c/mst_guard.h"
#include "fuzz.h"

void fuzz_check_failed(const char *what, const char *file, int line) {
  fprintf(stderr, "%s:%d: must hold: %s\n", file, line, what);
  abort();
}

void fuzz_feed(const struct fuzz_target *target, const uint8_t *bytes, size_t n,
               struct fuzz_input *now) {
  static struct mst_guard guard; // open until the process ends
  if (guard.map == NULL && mst_guard_open(&guard, FUZZ_INPUT_MAX) != 0) {
    perror("mmap");
    exit(2);
  }
  if (n > FUZZ_INPUT_MAX) n = FUZZ_INPUT_MAX;
  if (now != NULL && n > 0) memcpy(now->bytes, bytes, n);
  for (size_t cut = n + 1; cut-- > 0;) {
    if (now != NULL) now->n = cut;
    target->run(mst_guard_place(&guard, bytes, cut), cut);
  }
}
