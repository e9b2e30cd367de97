// Tests of discover/scan on the loopback: real sockets, and a system that runs out of them.
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/mst_fault.h"
#include "discover/scan.h"
#include "mst_net_test.h"

#define MS MST_NS_PER_MS

static struct mst_range one_range(const char *text) {
  struct mst_range range;
  CHECK_INT(mst_target_parse(text, strlen(text), 0, &range, NULL), 0);
  return range;
}

static struct mst_scan *open_scan(const struct mst_range *range, uint16_t port,
                                  uint32_t in_flight,
                                  enum mst_service service) {
  const struct mst_scan_options options = {.ranges = range,
                                           .range_count = 1,
                                           .ports = &port,
                                           .port_count = 1,
                                           .in_flight = in_flight,
                                           .attempts = 2,
                                           .timeout_ns = 50 * MS,
                                           .service = service};
  struct mst_scan *scan = NULL;
  CHECK_INT(mst_scan_open(&options, &scan, NULL), 0);
  return scan;
}

// Runs to the end in slices, as R does.
static int run(struct mst_scan *scan, struct mst_err *err) {
  const int64_t until_ns = in_ms(60000);
  int rc;
  do {
    rc = mst_scan_run(scan, in_ms(20), err);
  } while (rc == -MST_EAGAIN && mst_clock_now() < until_ns);
  return rc;
}

TEST(
    "P1: a listener is open, its neighbours refuse, a filtered one is silent") {
  struct mst_addr bound;
  int open_fd = listen_at("127.3.0.2", 8, &bound);
  const uint16_t port = (uint16_t)mst_addr_port(&bound);
  struct mst_addr addr;
  int silent_fd = -1;
  CHECK_INT(mst_addr_parse("127.3.0.3", port, &addr, NULL), 0);
  CHECK_INT(mst_net_listen(&addr, 8, &silent_fd, 1, &bound, NULL), 0);
  lose_packets(silent_fd, LOSE_ALL);
  const struct mst_range range = one_range("127.3.0.1-4");
  struct mst_scan *scan = open_scan(&range, port, 0, MST_SERVICE_TCP);
  CHECK_INT(run(scan, NULL), 0);
  const enum mst_found want[] = {MST_FOUND_REFUSED, MST_FOUND_OPEN,
                                 MST_FOUND_SILENT, MST_FOUND_REFUSED};
  for (uint64_t i = 0; i < 4; i++) {
    CHECK_INT(mst_scan_finding(scan, i)->found, want[i]);
    CHECK_INT(mst_scan_finding(scan, i)->attempts, i == 2 ? 2 : 1);
    CHECK((mst_scan_finding(scan, i)->rtt_ms >= 0) == (i != 2));
  }
  CHECK_INT(mst_scan_count(scan, MST_FOUND_REFUSED), 2);
  CHECK_INT(mst_scan_decided(scan), 4);
  mst_scan_close(scan);
  mst_net_close(&open_fd);
  mst_net_close(&silent_fd);
}

TEST("P3: a scan that is closed in the middle leaves no descriptor") {
  struct mst_addr bound;
  int fd = listen_at("127.3.0.2", 8, &bound);
  lose_packets(fd, LOSE_ALL);
  const struct mst_range range = one_range("127.3.0.1-250");
  struct mst_scan *scan =
      open_scan(&range, (uint16_t)mst_addr_port(&bound), 0, MST_SERVICE_PCP);
  while (mst_scan_decided(scan) == 0)
    CHECK_INT(mst_scan_run(scan, in_ms(5), NULL), -MST_EAGAIN);
  CHECK(mst_scan_decided(scan) < 250);
  mst_scan_close(scan);
  mst_net_close(&fd);
}

TEST("P4: a scan waits when descriptors run out in the middle") {
  struct mst_addr bound;
  int fd = listen_at("127.3.0.2", 64, &bound);
  lose_packets(fd, LOSE_ALL);
  // Ten silent addresses, and six descriptors for them.
  const uint16_t port = (uint16_t)mst_addr_port(&bound);
  int others[9];
  for (int i = 0; i < 9; i++) {
    struct mst_addr addr;
    char host[32];
    (void)snprintf(host, sizeof host, "127.3.0.%d", i + 3);
    CHECK_INT(mst_addr_parse(host, port, &addr, NULL), 0);
    CHECK_INT(mst_net_listen(&addr, 8, &others[i], 1, &bound, NULL), 0);
    lose_packets(others[i], LOSE_ALL);
  }
  const struct mst_range range = one_range("127.3.0.2-11");
  struct mst_scan *scan = open_scan(&range, port, 10, MST_SERVICE_TCP);
  struct rlimit limit;
  CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = (rlim_t)others[8] + 7;
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const int64_t began_ns = mst_clock_now();
  CHECK_INT(run(scan, NULL), 0);
  CHECK(ms_since(began_ns) >= 100); // it waited at least once
  CHECK_INT(mst_scan_count(scan, MST_FOUND_SILENT), 10);
  for (uint64_t i = 0; i < 10; i++)
    CHECK_INT(mst_scan_finding(scan, i)->attempts, 2);
  mst_scan_close(scan);
  for (int i = 0; i < 9; i++)
    mst_net_close(&others[i]);
  mst_net_close(&fd);
}

TEST("P4: a single failure to make a socket costs a pause and no finding") {
  const struct mst_range range = one_range("127.3.0.1-20");
  for (int number = EMFILE; number != 0; number = number == EMFILE   ? ENFILE
                                                  : number == ENFILE ? ENOBUFS
                                                                     : 0) {
    struct mst_scan *scan = open_scan(&range, 1, 0, MST_SERVICE_TCP);
    mst_fault_arm("net.dial", 5, number);
    CHECK_INT(run(scan, NULL), 0);
    CHECK(mst_fault_arm("", 0, 0) >= 5);
    CHECK_INT(mst_scan_count(scan, MST_FOUND_REFUSED), 20);
    mst_scan_close(scan);
  }
}

TEST("A connection for the caller to judge is handed over, or closed") {
  struct mst_addr bound;
  int fd = listen_at("127.3.0.2", 8, &bound);
  const struct mst_range range = one_range("127.3.0.2");
  for (int taken = 0; taken < 2; taken++) {
    struct mst_scan *scan =
        open_scan(&range, (uint16_t)mst_addr_port(&bound), 0, MST_SERVICE_CALL);
    int rc;
    while ((rc = mst_scan_run(scan, in_ms(20), NULL)) == -MST_EAGAIN) {
    }
    CHECK_INT(rc, 1);
    CHECK_INT(mst_scan_run(scan, in_ms(20), NULL),
              1); // again until it is judged
    const struct mst_scan_ask ask = mst_scan_asked(scan);
    CHECK_INT(ask.port, mst_addr_port(&bound));
    CHECK(ask.deadline_ns > mst_clock_now());
    int mine = taken ? mst_scan_take(scan) : -1;
    mst_scan_judge(scan, taken ? MST_PROOF_GOOD : MST_PROOF_BAD,
                   MST_REASON_WRONG);
    CHECK_INT(mst_scan_run(scan, in_ms(20), NULL), 0);
    CHECK_INT(mst_scan_finding(scan, 0)->found,
              taken ? MST_FOUND_OPEN : MST_FOUND_FOREIGN);
    mst_scan_close(scan);
    mst_net_close(&mine);
  }
  mst_net_close(&fd);
}

TEST("Too many probes, and TLS in a build without it, are refused") {
  const struct mst_range range = one_range("127.0.0.0/8");
  const uint16_t ports[2] = {1, 2};
  struct mst_scan_options options = {.ranges = &range,
                                     .range_count = 1,
                                     .ports = ports,
                                     .port_count = 2,
                                     .attempts = 1,
                                     .timeout_ns = MS};
  struct mst_scan *scan = NULL;
  CHECK_INT(mst_scan_open(&options, &scan, NULL), -MST_ELIMIT);
  const struct mst_range few = one_range("127.0.0.1");
  options.ranges = &few;
  options.service = MST_SERVICE_TLS;
  CHECK_INT(mst_scan_open(&options, &scan, NULL), -MST_EINPUT);
}
