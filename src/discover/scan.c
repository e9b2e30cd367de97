// A scan: the sweep, the loop, and the findings. See scan.h.
//
// Each round first checks all sockets and then asks the sweep, with the time when checking began:
// an answer that came in time counts, however late this process reads it.
#include "discover/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "discover/scan_int.h"
#include "net/net.h"

// Attempts started between two checks: 64 take a third of a millisecond.
#define STARTS_A_LOOK 64
#define LINKS_MAX 64u

// ---- addresses

struct mst_ip mst_scan_ip(const struct mst_scan *scan, uint64_t address) {
  return mst_ranges_at(scan->ranges, scan->before, scan->range_count, address);
}

static int copy_targets(struct mst_scan *scan,
                        const struct mst_scan_options *options) {
  const size_t n = options->range_count;
  scan->ranges = malloc(n * sizeof *scan->ranges);
  scan->before = malloc(n * sizeof *scan->before);
  scan->ports = malloc(options->port_count * sizeof *scan->ports);
  if (scan->ranges == NULL || scan->before == NULL || scan->ports == NULL) {
    return -MST_EMEM;
  }
  memcpy(scan->ranges, options->ranges, n * sizeof *scan->ranges);
  memcpy(scan->ports, options->ports,
         options->port_count * sizeof *scan->ports);
  scan->range_count = n;
  scan->port_count = options->port_count;
  uint64_t before = 0;
  for (size_t i = 0; i < n; i++) {
    scan->before[i] = before;
    before += scan->ranges[i].last - scan->ranges[i].first + 1;
  }
  return 0;
}

// mark_near finds the addresses on this machine's links.
static int mark_near(struct mst_scan *scan, uint64_t addresses) {
  struct mst_range links[LINKS_MAX];
  const size_t n = mst_scan_links(links, LINKS_MAX);
  for (size_t i = 0; i < scan->range_count; i++) {
    for (size_t k = 0; k < n; k++) {
      const struct mst_range *range = &scan->ranges[i], *link = &links[k];
      if (range->v6 != link->v6 || range->net != link->net) continue;
      const uint64_t first =
          range->first > link->first ? range->first : link->first;
      const uint64_t last = range->last < link->last ? range->last : link->last;
      if (first > last) continue;
      if (scan->near == NULL) scan->near = calloc(addresses, 1);
      if (scan->near == NULL) return -MST_EMEM;
      memset(scan->near + scan->before[i] + (first - range->first), 1,
             last - first + 1);
    }
  }
  return 0;
}

// ---- begin and end

static int make_slots(struct mst_scan *scan, uint32_t count) {
  scan->slots = calloc(count, sizeof *scan->slots);
  scan->findings = malloc(scan->probes * sizeof *scan->findings);
  if (scan->slots == NULL || scan->findings == NULL) return -MST_EMEM;
  scan->slot_count = count;
  for (uint32_t i = 0; i < count; i++) {
    scan->slots[i].scan = scan;
    scan->slots[i].io.fd = -1;
  }
  for (uint64_t i = 0; i < scan->probes; i++)
    scan->findings[i] = (struct mst_finding){.rtt_ms = -1};
  scan->counts[MST_FOUND_NOTHING] = scan->probes;
  return 0;
}

static int prepare(struct mst_scan *scan,
                   const struct mst_scan_options *options, uint64_t addresses,
                   struct mst_err *err) {
  struct mst_sweep_policy policy = {.addresses = addresses,
                                    .ports = options->port_count,
                                    .in_flight =
                                        mst_scan_slots(options->in_flight),
                                    .attempts = options->attempts,
                                    .timeout_ns = options->timeout_ns,
                                    .gap_ns = options->gap_ns,
                                    .near_max = mst_scan_near_max()};
  if (policy.in_flight > scan->probes) {
    policy.in_flight = (uint32_t)scan->probes;
  }
  if (copy_targets(scan, options) != 0 || mark_near(scan, addresses) != 0 ||
      make_slots(scan, policy.in_flight) != 0) {
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a scan");
  }
  policy.near = scan->near;
  const int rc = mst_sweep_open(&policy, &scan->sweep, err);
  return rc != 0 ? rc : mst_loop_open(MST_LOOP_BEST, &scan->loop, err);
}

int mst_scan_open(const struct mst_scan_options *options, struct mst_scan **out,
                  struct mst_err *err) {
  MST_ASSERT(options->range_count > 0 && options->port_count > 0);
  const uint64_t addresses =
      mst_ranges_total(options->ranges, options->range_count);
  if (addresses > MST_SCAN_PROBES_MAX / options->port_count) {
    return mst_err_set(err, MST_ELIMIT, 0, NULL,
                       "at most 2^24 pairs of address and port can be probed");
  }
  if (options->service == MST_SERVICE_TLS && !mst_tls_has()) {
    return mst_err_set(err, MST_EINPUT, 0, NULL,
                       "muster was built without TLS");
  }
  struct mst_scan *scan = calloc(1, sizeof *scan);
  if (scan == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a scan");
  }
  scan->service = options->service;
  scan->probes = addresses * options->port_count;
  scan->ask_first = scan->ask_last = UINT32_MAX;
  const int rc = prepare(scan, options, addresses, err);
  if (rc != 0) {
    mst_scan_close(scan);
    return rc;
  }
  *out = scan;
  return 0;
}

void mst_scan_close(struct mst_scan *scan) {
  if (scan == NULL) return;
  for (uint32_t i = 0; i < scan->slot_count; i++) {
    if (scan->slots[i].phase != MST_PROBE_NONE) mst_probe_drop(&scan->slots[i]);
  }
  mst_loop_close(scan->loop);
  mst_sweep_close(scan->sweep);
  free(scan->slots);
  free(scan->findings);
  free(scan->near);
  free(scan->ports);
  free(scan->before);
  free(scan->ranges);
  free(scan);
}

// ---- judging

struct mst_scan_ask mst_scan_asked(const struct mst_scan *scan) {
  const struct mst_probe *probe = &scan->slots[scan->ask_first];
  // Time that other sockets took to be judged doesn't count for this one.
  const double took_ms =
      (double)scan->findings[probe->number].rtt_ms * (double)MST_NS_PER_MS;
  const int64_t left_ns = mst_sweep_timeout(scan->sweep) - (int64_t)took_ms;
  return (struct mst_scan_ask){
      .ip = mst_scan_ip(scan, probe->number / scan->port_count),
      .port = scan->ports[probe->number % scan->port_count],
      .deadline_ns = mst_clock_now() + left_ns};
}

int mst_scan_take(struct mst_scan *scan) {
  struct mst_probe *probe = &scan->slots[scan->ask_first];
  const int fd = probe->io.fd;
  probe->io.fd = -1;
  return fd;
}

void mst_scan_judge(struct mst_scan *scan, enum mst_proof verdict,
                    enum mst_reason reason) {
  const uint32_t slot = scan->ask_first;
  MST_ASSERT(slot != UINT32_MAX);
  scan->ask_first = scan->slots[slot].next;
  mst_probe_judged(scan, slot, verdict, reason);
}

// ---- running

// look serves all ready sockets, in batches.
static int look(struct mst_scan *scan, int64_t *looked_ns,
                struct mst_err *err) {
  *looked_ns = mst_clock_now();
  int n;
  do {
    n = mst_loop_run(scan->loop, 0, err);
  } while (n > 0);
  return n;
}

// act carries out the sweep's actions until it waits or ends, or it is time to check sockets again.
// Returns the last action.
static struct mst_sweep_action act(struct mst_scan *scan, int64_t looked_ns) {
  struct mst_sweep_action action = {0};
  for (int starts = 0; starts < STARTS_A_LOOK;) {
    mst_sweep_next(scan->sweep, mst_clock_now(), looked_ns, &action);
    if (action.kind == MST_SWEEP_START) {
      if (mst_probe_start(scan, action.slot, action.probe, action.attempt)) {
        mst_sweep_no_socket(scan->sweep, action.slot, mst_clock_now());
      }
      starts++;
    } else if (action.kind == MST_SWEEP_EXPIRE) {
      mst_probe_expire(scan, action.slot);
    } else {
      break;
    }
  }
  return action;
}

int mst_scan_run(struct mst_scan *scan, int64_t until_ns, struct mst_err *err) {
  for (;;) {
    int64_t looked_ns;
    if (scan->ask_first != UINT32_MAX) return 1;
    const int rc = look(scan, &looked_ns, err);
    if (rc < 0) return rc;
    if (scan->ask_first != UINT32_MAX) return 1;
    const struct mst_sweep_action action = act(scan, looked_ns);
    if (scan->ask_first != UINT32_MAX) return 1;
    if (action.kind == MST_SWEEP_DONE) return 0;
    if (action.kind == MST_SWEEP_STUCK) {
      return mst_err_set(err, MST_ELIMIT, 0, "socket",
                         "the system provides no more sockets");
    }
    if (mst_clock_now() >= until_ns) return -MST_EAGAIN;
    if (action.kind != MST_SWEEP_WAIT) continue;
    mst_scan_sleep(scan->loop,
                   action.until_ns < until_ns ? action.until_ns : until_ns);
  }
}

// ---- results

uint64_t mst_scan_probes(const struct mst_scan *scan) { return scan->probes; }
uint64_t mst_scan_decided(const struct mst_scan *scan) {
  return mst_sweep_decided(scan->sweep);
}
uint64_t mst_scan_count(const struct mst_scan *scan, enum mst_found found) {
  return scan->counts[found];
}
uint32_t mst_scan_in_flight_max(const struct mst_scan *scan) {
  return scan->slot_count;
}
uint32_t mst_scan_port_count(const struct mst_scan *scan) {
  return scan->port_count;
}
uint16_t mst_scan_port(const struct mst_scan *scan, uint32_t i) {
  return scan->ports[i];
}
const struct mst_finding *mst_scan_finding(const struct mst_scan *scan,
                                           uint64_t probe) {
  return &scan->findings[probe];
}
