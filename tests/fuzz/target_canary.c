// Target: a parser with a bug on purpose, which is in no other program. The
// smoke run passes only if the engine finds it, writes the input to a file, and
// the file fails again when it is replayed: a broken engine can't look green.
#include "fuzz.h"

// A message is a mark, a length and as many bytes. The bug: the length is
// believed, so that a cut message is read past its end.
static void run(const uint8_t *bytes, size_t n) {
  if (n < 3 || bytes[0] != 'C' || bytes[1] != 'y') return;
  const volatile uint8_t *payload = bytes + 3;
  unsigned sum = 0;
  for (unsigned i = 0; i < bytes[2]; i++)
    sum += payload[i];
  (void)sum;
}

// Neither the seed nor a start of it fails: the engine must change the length.
static void seeds(struct fuzz_sink *sink) {
  const uint8_t bytes[] = {'C', 'y', 0, 'a', 'n'};
  sink->take(sink, "no-payload", bytes, sizeof bytes);
}

const struct fuzz_target fuzz_canary = {"canary", 1, run, seeds};
