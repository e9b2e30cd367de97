// run: carries a sweep out: connects, waits, proves, keeps the findings. No R.
//
// A scan belongs to one thread and one process, and has a loop of its own: it works while the
// session's clusters do.
#ifndef MST_DISCOVER_SCAN_H
#define MST_DISCOVER_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "discover/proof.h"
#include "discover/target.h"

// Default for simultaneous attempts: as many as select() would have allowed. More gain little and
// are a burst that routers and firewalls notice.
#define MST_SCAN_IN_FLIGHT 1024u
// The most probes of one scan: each takes 8 bytes here and 50 more as a row in R.
#define MST_SCAN_PROBES_MAX (UINT64_C(1) << 24)

enum mst_found {
  MST_FOUND_NOTHING, // not decided yet
  MST_FOUND_OPEN,
  MST_FOUND_REFUSED,
  MST_FOUND_UNREACHABLE,
  MST_FOUND_SILENT,
  MST_FOUND_FOREIGN,
  MST_FOUND_KINDS
};

// Why a listener is foreign (`reason`).
enum mst_reason {
  MST_REASON_NONE,
  MST_REASON_MUTE,  // accepted, but sent nothing in time
  MST_REASON_ENDED, // accepted, then closed or reset
  MST_REASON_WRONG  // sent something else
};

struct mst_finding {
  uint8_t found;    // enum mst_found
  uint8_t attempts; // started
  uint8_t reason;   // enum mst_reason
  uint8_t number;   // errno of the connect; all possible ones are below 256
  float rtt_ms;     // until the connect was answered; negative: no answer
};

struct mst_scan_options {
  const struct mst_range *ranges; // tidy, at least one; copied
  size_t range_count;
  const uint16_t *ports; // in the order to probe; copied
  uint32_t port_count;
  uint32_t
      in_flight; // 0: as many as descriptors allow, up to MST_SCAN_IN_FLIGHT
  uint32_t attempts;
  int64_t timeout_ns; // 0: follows the round trips
  int64_t gap_ns;
  enum mst_service service;
};

// A connected socket that the caller judges (MST_SERVICE_CALL).
struct mst_scan_ask {
  struct mst_ip ip;
  uint16_t port;
  int64_t deadline_ns; // the attempt's
};

struct mst_scan;

// mst_scan_open makes a scan; sends nothing yet. -MST_ELIMIT (too many probes), -MST_ESYS,
// -MST_EMEM,
// -MST_EINPUT for TLS if it isn't built in.
int mst_scan_open(const struct mst_scan_options *options, struct mst_scan **out,
                  struct mst_err *err);
// mst_scan_close ends the scan and its attempts in flight.
void mst_scan_close(struct mst_scan *scan);

// mst_scan_run goes on until until_ns, or a signal. 0: all is decided. -MST_EAGAIN: call again. 1:
// the caller must judge a socket, see mst_scan_asked. -MST_ELIMIT: the system has provided no
// sockets for seconds. -MST_ESYS. The findings so far are always valid.
int mst_scan_run(struct mst_scan *scan, int64_t until_ns, struct mst_err *err);

// mst_scan_asked describes the socket to judge after mst_scan_run has returned 1; mst_scan_take
// gives its descriptor to the caller, who closes it. mst_scan_judge gives the verdict:
// MST_PROOF_GOOD, or MST_PROOF_BAD with the reason; it closes the socket unless it was taken.
struct mst_scan_ask mst_scan_asked(const struct mst_scan *scan);
int mst_scan_take(struct mst_scan *scan);
void mst_scan_judge(struct mst_scan *scan, enum mst_proof verdict,
                    enum mst_reason reason);

// Results, at any time.
uint64_t mst_scan_probes(const struct mst_scan *scan);
uint64_t mst_scan_decided(const struct mst_scan *scan);
uint64_t mst_scan_count(const struct mst_scan *scan, enum mst_found found);
uint32_t mst_scan_in_flight_max(const struct mst_scan *scan);
const struct mst_finding *mst_scan_finding(const struct mst_scan *scan,
                                           uint64_t probe);
uint32_t mst_scan_port_count(const struct mst_scan *scan);
uint16_t mst_scan_port(const struct mst_scan *scan, uint32_t i);
struct mst_ip mst_scan_ip(const struct mst_scan *scan, uint64_t address);

// ---- slots.c: the system's limits

// mst_scan_slots limits simultaneous attempts by the free descriptors, leaving some for others;
// wanted 0: MST_SCAN_IN_FLIGHT. At least 1.
uint32_t mst_scan_slots(uint32_t wanted);
// mst_scan_near_max gives how many addresses on the link may be unanswered at once: half of the
// kernel's table of neighbours, which the whole machine shares.
uint32_t mst_scan_near_max(void);
// mst_scan_links writes at most `max` ranges of the addresses on the links of this machine's
// interfaces, except loopback and point-to-point ones. Returns their number; tidy.
size_t mst_scan_links(struct mst_range *ranges, size_t max);

// ---- name.c

// mst_ip_name looks up the name of an address. Blocks while the resolver does. 0 and the name, or
// -MST_ECONNECT if there is none.
#define MST_NAME_MAX 256u
int mst_ip_name(const struct mst_ip *ip, char name[MST_NAME_MAX]);

// ---- tls_openssl.c or tls_none.c

struct mst_tls;
// mst_tls_has tells whether TLS is built in.
int mst_tls_has(void);
// mst_tls_begin prepares a client's handshake on a connected socket, which stays the caller's. NULL
// if memory is short. Certificates aren't checked: the question is whether the peer speaks TLS, not
// who it is.
struct mst_tls *mst_tls_begin(int fd);
// mst_tls_step goes on without blocking. 0: the handshake is done. -MST_EAGAIN: *writes is 1 if it
// waits for the socket to become writable, 0 if for bytes. -MST_EPROTO: not TLS. -MST_ECLOSED.
int mst_tls_step(struct mst_tls *tls, int *writes);
void mst_tls_end(struct mst_tls *tls);

#endif
