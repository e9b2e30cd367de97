// proof: tells a service from a listener that merely accepts. Pure.
//
// "pcp" and "psock" are judged by the first bytes that the peer sends unasked; nothing is sent to
// it.
#ifndef MST_DISCOVER_PROOF_H
#define MST_DISCOVER_PROOF_H

#include <stddef.h>
#include <stdint.h>

// No proof needs more bytes.
#define MST_PROOF_BYTES_MAX 20u

enum mst_service {
  MST_SERVICE_TCP,   // accepts
  MST_SERVICE_PCP,   // a PCP server's first packet
  MST_SERVICE_PSOCK, // an R session that waits for workers
  MST_SERVICE_TLS,   // completes a TLS handshake; see tls.h
  MST_SERVICE_CALL   // the caller finds out
};

enum mst_proof { MST_PROOF_MORE, MST_PROOF_GOOD, MST_PROOF_BAD };

// mst_proof_judge judges the first n bytes, for PCP and PSOCK. After GOOD or BAD, more bytes don't
// change the verdict; with MST_PROOF_BYTES_MAX it never says MORE.
enum mst_proof mst_proof_judge(enum mst_service service, const uint8_t *bytes,
                               size_t n);

#endif
