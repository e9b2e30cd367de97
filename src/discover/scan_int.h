// Shared by scan.c and probe.c.
#ifndef MST_DISCOVER_SCAN_INT_H
#define MST_DISCOVER_SCAN_INT_H

#include "discover/scan.h"
#include "discover/sweep.h"
#include "loop/loop.h"

enum mst_probe_phase { MST_PROBE_NONE, MST_PROBE_CONNECTS, MST_PROBE_PROVES };

// One attempt, in the sweep's slot of the same number.
struct mst_probe {
  struct mst_io io; // its fd is the socket, or -1
  struct mst_scan *scan;
  uint32_t number; // of the probe
  enum mst_probe_phase phase;
  int64_t start_ns;
  uint8_t bytes[MST_PROOF_BYTES_MAX]; // received
  size_t n;
  struct mst_tls *tls;
  uint32_t next; // next slot to judge, UINT32_MAX at the end
};

struct mst_scan {
  enum mst_service service;
  struct mst_range *ranges;
  uint64_t *before; // number of addresses before each range
  size_t range_count;
  uint16_t *ports;
  uint32_t port_count;
  uint64_t probes;
  uint8_t *near; // by address, NULL if none is on a link
  struct mst_sweep *sweep;
  struct mst_loop *loop;
  struct mst_probe *slots;
  uint32_t slot_count;
  struct mst_finding *findings;
  uint64_t counts[MST_FOUND_KINDS];
  uint32_t ask_first, ask_last; // slots to judge
};

// ---- probe.c

// mst_probe_start begins an attempt. 0, or -MST_ESYS if no socket can be made; then nothing has
// begun.
int mst_probe_start(struct mst_scan *scan, uint32_t slot, uint32_t number,
                    uint32_t attempt);
// mst_probe_expire ends an attempt whose time is over; the sweep knows already.
void mst_probe_expire(struct mst_scan *scan, uint32_t slot);
// mst_probe_judged ends a proof with the caller's verdict.
void mst_probe_judged(struct mst_scan *scan, uint32_t slot,
                      enum mst_proof verdict, enum mst_reason reason);
// mst_probe_drop closes a slot's socket and TLS state.
void mst_probe_drop(struct mst_probe *probe);

// mst_scan_sleep sleeps until something is ready or until until_ns (finer than milliseconds if the
// system can), or until a signal comes. sleep_linux.c, sleep_other.c.
void mst_scan_sleep(struct mst_loop *loop, int64_t until_ns);

#endif
