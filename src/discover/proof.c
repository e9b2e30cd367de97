// How services introduce themselves. See proof.h.
#include "discover/proof.h"

#include <string.h>

#include "base/mst_assert.h"

static uint32_t read_be32(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
         (uint32_t)bytes[2] << 8 | bytes[3];
}

static uint32_t read_le32(const uint8_t *bytes) {
  return (uint32_t)bytes[3] << 24 | (uint32_t)bytes[2] << 16 |
         (uint32_t)bytes[1] << 8 | bytes[0];
}

// A PCP server greets with an error packet whose error is its version: length (20), type 0x7000,
// sender, status, and a word whose first byte is the protocol's version (2 now), below a bit that
// is 0. As seen from pmcd 6.0.3.
#define PCP_HELLO_BYTES 20u
#define PCP_TYPE_ERROR UINT32_C(0x7000)

static enum mst_proof judge_pcp(const uint8_t *bytes, size_t n) {
  if (n >= 4 && read_be32(bytes) != PCP_HELLO_BYTES) return MST_PROOF_BAD;
  if (n >= 8 && read_be32(bytes + 4) != PCP_TYPE_ERROR) return MST_PROOF_BAD;
  if (n < PCP_HELLO_BYTES) return MST_PROOF_MORE;
  const uint32_t version = bytes[16] & 0x7fu;
  return version >= 1 && version <= 8 ? MST_PROOF_GOOD : MST_PROOF_BAD;
}

// An R session in parallel's parallel set-up sends its new worker a first command at once: a list
// as written by serialize(), "X\n" big-endian or "B\n" in the machine's order, then the format's
// version (2 or 3), R's version and the oldest version that can read it.
#define R_HELLO_BYTES 14u
#define R_MAJOR_MIN 2u
#define R_MAJOR_MAX 9u

static int is_r_version(uint32_t version) {
  const uint32_t major = version >> 16;
  return major >= R_MAJOR_MIN && major <= R_MAJOR_MAX;
}

static enum mst_proof judge_psock(const uint8_t *bytes, size_t n) {
  if (n >= 1 && bytes[0] != 'X' && bytes[0] != 'B') return MST_PROOF_BAD;
  if (n >= 2 && bytes[1] != '\n') return MST_PROOF_BAD;
  if (n < R_HELLO_BYTES) return MST_PROOF_MORE;
  const int swapped = bytes[0] == 'B' && bytes[2] != 0;
  uint32_t words[3];
  for (int i = 0; i < 3; i++)
    words[i] =
        swapped ? read_le32(bytes + 2 + 4 * i) : read_be32(bytes + 2 + 4 * i);
  return (words[0] == 2 || words[0] == 3) && is_r_version(words[1]) &&
                 is_r_version(words[2])
             ? MST_PROOF_GOOD
             : MST_PROOF_BAD;
}

enum mst_proof mst_proof_judge(enum mst_service service, const uint8_t *bytes,
                               size_t n) {
  MST_ASSERT(service == MST_SERVICE_PCP || service == MST_SERVICE_PSOCK);
  return service == MST_SERVICE_PCP ? judge_pcp(bytes, n)
                                    : judge_psock(bytes, n);
}
