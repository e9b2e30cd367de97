// One attempt: a connect, and the proof of the service. See scan.h.
//
// One socket and one deadline for connect and proof; the sweep keeps the deadline. A finding isn't
// taken back: a listener that was foreign in one attempt and silent in the next is foreign.
#include <arpa/inet.h>
#include <errno.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "discover/scan_int.h"
#include "net/stream.h"

void mst_probe_drop(struct mst_probe *probe) {
  mst_loop_remove(probe->scan->loop, &probe->io);
  mst_tls_end(probe->tls);
  probe->tls = NULL;
  if (probe->phase == MST_PROBE_PROVES) {
    mst_net_close_reset(&probe->io.fd); // nothing stays in TIME_WAIT
  } else {
    mst_net_close(&probe->io.fd);
  }
  probe->phase = MST_PROBE_NONE;
}

static struct mst_finding *finding_of(const struct mst_probe *probe) {
  return &probe->scan->findings[probe->number];
}

static uint32_t slot_of(const struct mst_probe *probe) {
  return (uint32_t)(probe - probe->scan->slots);
}

static void note(const struct mst_probe *probe, enum mst_found found,
                 enum mst_reason reason, int number) {
  struct mst_finding *finding = finding_of(probe);
  if (found == MST_FOUND_SILENT && finding->found == MST_FOUND_FOREIGN) return;
  probe->scan->counts[finding->found]--;
  probe->scan->counts[found]++;
  finding->found = (uint8_t)found;
  finding->reason = (uint8_t)reason;
  finding->number = (uint8_t)(number > 0 && number < 256 ? number : 0);
}

// decide ends a probe; retry ends an attempt that another may improve.
static void decide(struct mst_probe *probe, enum mst_found found,
                   enum mst_reason reason, int number) {
  note(probe, found, reason, number);
  mst_probe_drop(probe);
  mst_sweep_ended(probe->scan->sweep, slot_of(probe));
}

static void retry(struct mst_probe *probe, enum mst_found found,
                  enum mst_reason reason, int number) {
  note(probe, found, reason, number);
  mst_probe_drop(probe);
  mst_sweep_failed(probe->scan->sweep, slot_of(probe));
}

static void answered(struct mst_probe *probe) {
  const int64_t rtt_ns = mst_clock_now() - probe->start_ns;
  finding_of(probe)->rtt_ms = (float)((double)rtt_ns / (double)MST_NS_PER_MS);
  mst_sweep_answered(probe->scan->sweep, slot_of(probe), rtt_ns);
}

void mst_probe_judged(struct mst_scan *scan, uint32_t slot,
                      enum mst_proof verdict, enum mst_reason reason) {
  struct mst_probe *probe = &scan->slots[slot];
  if (verdict == MST_PROOF_GOOD) {
    decide(probe, MST_FOUND_OPEN, MST_REASON_NONE, 0);
  } else if (reason == MST_REASON_WRONG) {
    decide(probe, MST_FOUND_FOREIGN, reason, 0);
  } else {
    retry(probe, MST_FOUND_FOREIGN, reason, 0);
  }
}

// ---- proofs

// watch_for waits for one more event; if memory is short the attempt is lost.
static void watch_for(struct mst_probe *probe, uint32_t wanted) {
  int rc;
  if (probe->io.slot != 0) {
    rc = mst_loop_want(probe->scan->loop, &probe->io, wanted, NULL);
  } else {
    probe->io.wanted = wanted;
    rc = mst_loop_add(probe->scan->loop, &probe->io, NULL);
  }
  if (rc != 0) retry(probe, MST_FOUND_SILENT, MST_REASON_NONE, ENOMEM);
}

static void read_greeting(struct mst_probe *probe) {
  enum mst_proof verdict = MST_PROOF_MORE;
  while (verdict == MST_PROOF_MORE) {
    const int64_t got = mst_net_recv(probe->io.fd, probe->bytes + probe->n,
                                     sizeof probe->bytes - probe->n, 0, NULL);
    if (got == -MST_EAGAIN) {
      watch_for(probe, MST_READABLE);
      return;
    }
    if (got <= 0) {
      mst_probe_judged(probe->scan, slot_of(probe), MST_PROOF_BAD,
                       MST_REASON_ENDED);
      return;
    }
    probe->n += (size_t)got;
    verdict = mst_proof_judge(probe->scan->service, probe->bytes, probe->n);
  }
  mst_probe_judged(probe->scan, slot_of(probe), verdict, MST_REASON_WRONG);
}

static void shake_hands(struct mst_probe *probe) {
  int writes = 0;
  if (probe->tls == NULL) probe->tls = mst_tls_begin(probe->io.fd);
  const int rc =
      probe->tls == NULL ? -MST_EMEM : mst_tls_step(probe->tls, &writes);
  if (rc == -MST_EAGAIN) {
    watch_for(probe, writes ? MST_WRITABLE : MST_READABLE);
    return;
  }
  mst_probe_judged(probe->scan, slot_of(probe),
                   rc == 0 ? MST_PROOF_GOOD : MST_PROOF_BAD,
                   rc == -MST_EPROTO ? MST_REASON_WRONG : MST_REASON_ENDED);
}

// ask queues it for the caller's judgement, in the order of connecting.
static void ask(struct mst_probe *probe) {
  struct mst_scan *scan = probe->scan;
  const uint32_t slot = slot_of(probe);
  mst_loop_remove(scan->loop, &probe->io);
  probe->next = UINT32_MAX;
  if (scan->ask_first == UINT32_MAX) {
    scan->ask_first = slot;
  } else {
    scan->slots[scan->ask_last].next = slot;
  }
  scan->ask_last = slot;
}

static void prove(struct mst_probe *probe) {
  switch (probe->scan->service) {
  case MST_SERVICE_TCP:
    decide(probe, MST_FOUND_OPEN, MST_REASON_NONE, 0);
    break;
  case MST_SERVICE_PCP:
  case MST_SERVICE_PSOCK:
    read_greeting(probe);
    break;
  case MST_SERVICE_TLS:
    shake_hands(probe);
    break;
  case MST_SERVICE_CALL:
    ask(probe);
    break;
  }
}

// ---- connects

static void connected(struct mst_probe *probe) {
  answered(probe);
  probe->phase = MST_PROBE_PROVES;
  prove(probe);
}

// failed interprets an error of connect(). A reset can only come after the connect was accepted:
// before, it would be a refusal.
static void failed(struct mst_probe *probe, int number) {
  switch (number) {
  case ECONNREFUSED:
    answered(probe);
    decide(probe, MST_FOUND_REFUSED, MST_REASON_NONE, number);
    break;
  case ECONNRESET:
    answered(probe);
    if (probe->scan->service == MST_SERVICE_TCP) {
      decide(probe, MST_FOUND_OPEN, MST_REASON_NONE, 0);
    } else {
      retry(probe, MST_FOUND_FOREIGN, MST_REASON_ENDED, 0);
    }
    break;
  case ETIMEDOUT:
    retry(probe, MST_FOUND_SILENT, MST_REASON_NONE, number);
    break;
  default:
    decide(probe, MST_FOUND_UNREACHABLE, MST_REASON_NONE, number);
  }
}

static void look(struct mst_probe *probe) {
  struct mst_err err;
  mst_err_clear(&err);
  const int rc = mst_net_dial_done(probe->io.fd, &err);
  if (rc == 0) {
    connected(probe);
  } else if (rc == -MST_EAGAIN) {
    watch_for(probe, MST_WRITABLE);
  } else {
    failed(probe, err.sys_errno);
  }
}

static void ready(struct mst_io *io, uint32_t what) {
  struct mst_probe *probe = io->owner;
  (void)what; // a hint only
  if (probe->phase == MST_PROBE_CONNECTS) {
    look(probe);
  } else {
    prove(probe);
  }
}

static struct mst_addr address_of(const struct mst_scan *scan,
                                  uint32_t number) {
  const struct mst_ip ip = mst_ranges_at(
      scan->ranges, scan->before, scan->range_count, number / scan->port_count);
  const int port = scan->ports[number % scan->port_count];
  if (!ip.v6) return mst_addr_ip4(htonl((uint32_t)ip.low), port);
  uint8_t bytes[16];
  (void)mst_ip_bytes(&ip, bytes);
  return mst_addr_ip6(bytes, port);
}

int mst_probe_start(struct mst_scan *scan, uint32_t slot, uint32_t number,
                    uint32_t attempt) {
  struct mst_probe *probe = &scan->slots[slot];
  const struct mst_addr addr = address_of(scan, number);
  struct mst_err err;
  MST_ASSERT(probe->phase == MST_PROBE_NONE && probe->io.slot == 0);
  *probe = (struct mst_probe){
      .io = {.fd = -1, .ready = ready, .owner = probe},
      .scan = scan,
      .number = number,
      .phase = MST_PROBE_CONNECTS,
      .start_ns = mst_clock_now(),
  };
  mst_err_clear(&err);
  const int rc = mst_net_dial(&addr, &probe->io.fd, &err);
  if (rc == -MST_ESYS || (rc == -MST_ECONNECT && err.sys_errno == EAGAIN)) {
    probe->phase = MST_PROBE_NONE;
    return -MST_ESYS;
  }
  finding_of(probe)->attempts = (uint8_t)attempt;
  if (rc == 0) {
    connected(probe);
  } else if (rc == -MST_EAGAIN) {
    look(probe); // the local machine has answered by now
  } else {
    failed(probe, err.sys_errno);
  }
  return 0;
}

void mst_probe_expire(struct mst_scan *scan, uint32_t slot) {
  struct mst_probe *probe = &scan->slots[slot];
  if (probe->phase == MST_PROBE_PROVES) {
    note(probe, MST_FOUND_FOREIGN, MST_REASON_MUTE, 0);
  } else {
    note(probe, MST_FOUND_SILENT, MST_REASON_NONE, 0);
  }
  mst_probe_drop(probe);
}
