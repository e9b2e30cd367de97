// The entry of clang's libFuzzer. One program serves all targets: the variable
// FUZZ_TARGET names the one to run.
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  const char *name = getenv("FUZZ_TARGET");
  target = name != NULL ? fuzz_target_find(name) : NULL;
  if (target == NULL) {
    fprintf(stderr, "FUZZ_TARGET must name a target\n");
    exit(2);
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  fuzz_feed(target, bytes, n, NULL);
  return 0;
}
