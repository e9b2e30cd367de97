// Target: mst_diag_counters_parse: the kernel's text of counters.
#include <string.h>

#include "fuzz.h"
#include "net/diag.h"

static void run(const uint8_t *bytes, size_t n) {
  struct mst_diag_counters once, twice;
  mst_diag_counters_clear(&once);
  const char *text = (const char *)bytes;
  const int found = mst_diag_counters_parse(text, n, &once);
  int known = 0;
  for (int i = 0; i < MST_DIAG_COUNTERS; i++) {
    FUZZ_CHECK(once.value[i] >= -1);
    known += once.value[i] >= 0;
  }
  FUZZ_CHECK(found >=
             known); // a name may come twice, and lose its number again
  FUZZ_CHECK(found == 0 || n >= strlen("Tcp: OutSegs\nTcp: 0"));
  twice = once;
  FUZZ_CHECK(mst_diag_counters_parse(text, n, &twice) == found);
  FUZZ_CHECK(memcmp(&once, &twice, sizeof once) == 0);
}

static void give(struct fuzz_sink *sink, const char *name, const char *text) {
  sink->take(sink, name, (const uint8_t *)text, strlen(text));
}

static void seeds(struct fuzz_sink *sink) {
  give(sink, "netstat",
       "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts "
       "TCPReqQFullDoCookies TCPReqQFullDrop TCPSynRetrans TCPAbortOnMemory\n"
       "TcpExt: 0 4000 4011 7 0 0 19 0\n"
       "IpExt: InNoRoutes InOctets\nIpExt: 3 97436\n");
  give(sink, "snmp",
       "Ip: Forwarding DefaultTTL\nIp: 2 64\n"
       "Tcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens AttemptFails "
       "EstabResets CurrEstab InSegs OutSegs RetransSegs\n"
       "Tcp: 1 -1 215 117 12 4 6 4221 4220 13\n");
  give(sink, "numbers-short", "Tcp: OutSegs RetransSegs\nTcp: 5\n");
  give(sink, "largest", "Tcp: OutSegs\nTcp: 9223372036854775807\n");
  give(sink, "too-large", "Tcp: OutSegs\nTcp: 9223372036854775808\n");
  give(sink, "twice", "Tcp: OutSegs OutSegs\nTcp: 5 x\n");
  give(sink, "lines-of-others", "Tcp: OutSegs\nUdp: 5\nTcp: OutSegs\nTcp: 5");
}

const struct fuzz_target fuzz_diag_counters = {"diag_counters", 0, run, seeds};
