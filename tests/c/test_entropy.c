// mst_entropy: bytes that nobody can guess.
#include <string.h>

#include "base/mst_entropy.h"
#include "mst_test.h"

TEST("bytes differ from one time to the next, and none is left out") {
  uint8_t seen[256] = {0}, first[256], again[256];
  CHECK_INT(mst_entropy_take(first, sizeof first, NULL), 0);
  CHECK_INT(mst_entropy_take(again, sizeof again, NULL), 0);
  CHECK(memcmp(first, again, sizeof first) != 0);
  // Each byte must change eventually: the chance that one stays the same 64 times is 2^-512.
  for (int i = 0; i < 64; i++) {
    CHECK_INT(mst_entropy_take(again, sizeof again, NULL), 0);
    for (size_t k = 0; k < sizeof again; k++)
      seen[k] |= (uint8_t)(again[k] ^ first[k]);
  }
  CHECK(memchr(seen, 0, sizeof seen) == NULL);
}

TEST("bytes past those requested aren't written") {
  uint8_t bytes[18];
  memset(bytes, 7, sizeof bytes);
  CHECK_INT(mst_entropy_take(bytes + 1, 16, NULL), 0);
  CHECK_INT(bytes[0], 7);
  CHECK_INT(bytes[17], 7);
}
