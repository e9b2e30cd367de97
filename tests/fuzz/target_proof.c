// Target: mst_proof_judge, for both greetings; the first byte chooses.
#include <string.h>

#include "discover/proof.h"
#include "fuzz.h"

static void run(const uint8_t *bytes, size_t n) {
  if (n == 0) return;
  const enum mst_service service =
      bytes[0] % 2 == 0 ? MST_SERVICE_PCP : MST_SERVICE_PSOCK;
  enum mst_proof before = MST_PROOF_MORE;
  for (size_t k = 0; k < n; k++) {
    const enum mst_proof now = mst_proof_judge(service, bytes + 1, k);
    FUZZ_CHECK(now == MST_PROOF_MORE || now == MST_PROOF_GOOD ||
               now == MST_PROOF_BAD);
    FUZZ_CHECK(before == MST_PROOF_MORE || now == before);
    FUZZ_CHECK(k < MST_PROOF_BYTES_MAX || now != MST_PROOF_MORE);
    before = now;
  }
}

static void seeds(struct fuzz_sink *sink) {
  const uint8_t pcp[] = {0, 0, 0, 0, 0x14, 0, 0, 0x70, 0,   0,   0,
                         0, 0, 0, 0, 0,    0, 2, 1,    0xe, 0x44};
  const uint8_t r[] = {1, 'X', '\n', 0, 0, 0, 3, 0, 4, 2, 2, 0, 3, 5, 0};
  const uint8_t native[] = {1, 'B', '\n', 3, 0, 0, 0, 2, 2, 4, 0, 0, 5, 3, 0};
  const uint8_t ssh[] = "\0SSH-2.0-OpenSSH_9.2p1 Debian\r\n";
  sink->take(sink, "pcp", pcp, sizeof pcp);
  sink->take(sink, "r", r, sizeof r);
  sink->take(sink, "r-native", native, sizeof native);
  sink->take(sink, "ssh", ssh, sizeof ssh - 1);
}

const struct fuzz_target fuzz_proof = {"proof", 0, run, seeds};
