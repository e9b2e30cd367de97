// Tests of discover/proof: how services introduce themselves, whole and in pieces.
#include <string.h>

#include "discover/proof.h"
#include "mst_random.h"
#include "mst_test.h"

// As recorded from pmcd 6.0.3, and from R 4.2.2's serialize().
static const uint8_t pcp[20] = {0, 0, 0, 0x14, 0, 0, 0x70, 0, 0,   0,
                                0, 0, 0, 0,    0, 0, 2,    1, 0xe, 0x44};
static const uint8_t r_xdr[14] = {'X', '\n', 0, 0, 0, 3, 0,
                                  4,   2,    2, 0, 3, 5, 0};
static const uint8_t r_native[14] = {'B', '\n', 3, 0, 0, 0, 2,
                                     2,   4,    0, 0, 5, 3, 0};

static void check_pieces(enum mst_service service, const uint8_t *bytes,
                         size_t n) {
  for (size_t i = 0; i < n; i++)
    CHECK_INT(mst_proof_judge(service, bytes, i), MST_PROOF_MORE);
  CHECK_INT(mst_proof_judge(service, bytes, n), MST_PROOF_GOOD);
}

TEST("P1: a PCP server and an R session are recognized by their first bytes") {
  check_pieces(MST_SERVICE_PCP, pcp, sizeof pcp);
  check_pieces(MST_SERVICE_PSOCK, r_xdr, sizeof r_xdr);
  check_pieces(MST_SERVICE_PSOCK, r_native, sizeof r_native);
}

TEST("P1: others' greetings are foreign") {
  const char *const others[] = {
      "SSH-2.0-OpenSSH_9.2p1 Debian\r\n", "220 mail ESMTP Postfix (Debian)\r\n",
      "HTTP/1.1 400 Bad Request\r\n\r\n", "XML and other things that aren't R"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    const uint8_t *bytes = (const uint8_t *)others[i];
    CHECK_INT(mst_proof_judge(MST_SERVICE_PCP, bytes, MST_PROOF_BYTES_MAX),
              MST_PROOF_BAD);
    CHECK_INT(mst_proof_judge(MST_SERVICE_PSOCK, bytes, MST_PROOF_BYTES_MAX),
              MST_PROOF_BAD);
  }
  CHECK_INT(mst_proof_judge(MST_SERVICE_PCP, r_xdr, sizeof r_xdr),
            MST_PROOF_BAD);
  CHECK_INT(mst_proof_judge(MST_SERVICE_PSOCK, pcp, sizeof pcp), MST_PROOF_BAD);
}

TEST("A verdict never changes with more bytes, and one is always reached") {
  uint64_t seed = mst_test_seed();
  for (int i = 0; i < 20000; i++) {
    uint8_t bytes[MST_PROOF_BYTES_MAX] = {0};
    const int like = (int)mst_random_below(&seed, 3);
    if (like == 0) memcpy(bytes, pcp, sizeof pcp);
    if (like == 1) memcpy(bytes, r_xdr, sizeof r_xdr);
    for (int k = 0; k < 2; k++)
      bytes[mst_random_below(&seed, sizeof bytes)] = (uint8_t)mst_random(&seed);
    const enum mst_service service =
        mst_random_below(&seed, 2) == 0 ? MST_SERVICE_PCP : MST_SERVICE_PSOCK;
    enum mst_proof before = MST_PROOF_MORE;
    for (size_t n = 0; n <= sizeof bytes; n++) {
      const enum mst_proof now = mst_proof_judge(service, bytes, n);
      CHECK(before == MST_PROOF_MORE || now == before);
      before = now;
    }
    CHECK(before != MST_PROOF_MORE);
  }
}
