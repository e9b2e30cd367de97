// Counters of TCP as the kernel writes them. See diag.h.
//
// Both files hold pairs of lines: "TcpExt: name name ..." and "TcpExt: number number ...". The
// counters and their order differ between kernel versions, so each number is found by the name at
// the same position.
#include "net/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Linux 6.18 writes 6 KB; numbers may grow to 20 digits each.
#define FILE_MAX 32768
#define PATH_BYTES 4608

struct known {
  const char *group, *name;
};

static const struct known known[MST_DIAG_COUNTERS] = {
    [MST_DIAG_LISTEN_OVERFLOWS] = {"TcpExt", "ListenOverflows"},
    [MST_DIAG_LISTEN_DROPS] = {"TcpExt", "ListenDrops"},
    [MST_DIAG_REQ_FULL_DROP] = {"TcpExt", "TCPReqQFullDrop"},
    [MST_DIAG_REQ_FULL_COOKIES] = {"TcpExt", "TCPReqQFullDoCookies"},
    [MST_DIAG_COOKIES_SENT] = {"TcpExt", "SyncookiesSent"},
    [MST_DIAG_SYN_RETRANS] = {"TcpExt", "TCPSynRetrans"},
    [MST_DIAG_TIMEOUTS] = {"TcpExt", "TCPTimeouts"},
    [MST_DIAG_ACTIVE_OPENS] = {"Tcp", "ActiveOpens"},
    [MST_DIAG_PASSIVE_OPENS] = {"Tcp", "PassiveOpens"},
    [MST_DIAG_ATTEMPT_FAILS] = {"Tcp", "AttemptFails"},
    [MST_DIAG_ESTAB_RESETS] = {"Tcp", "EstabResets"},
    [MST_DIAG_ESTABLISHED] = {"Tcp", "CurrEstab"},
    [MST_DIAG_OUT_SEGS] = {"Tcp", "OutSegs"},
    [MST_DIAG_RETRANS_SEGS] = {"Tcp", "RetransSegs"}};

const char *mst_diag_counter_name(enum mst_diag_counter counter) {
  return (unsigned)counter < MST_DIAG_COUNTERS ? known[counter].name : "";
}

void mst_diag_counters_clear(struct mst_diag_counters *counters) {
  for (size_t i = 0; i < MST_DIAG_COUNTERS; i++) {
    counters->value[i] = -1;
  }
}

// The unread part of a line.
struct rest {
  const char *at, *end;
};

// next_word takes a word off; returns 0 at the line's end.
static size_t next_word(struct rest *rest, const char **word) {
  while (rest->at < rest->end && *rest->at == ' ') {
    rest->at++;
  }
  *word = rest->at;
  while (rest->at < rest->end && *rest->at != ' ') {
    rest->at++;
  }
  return (size_t)(rest->at - *word);
}

static struct rest next_line(struct rest *text) {
  const size_t n = (size_t)(text->end - text->at);
  const char *newline = n == 0 ? NULL : memchr(text->at, '\n', n);
  const struct rest line = {text->at, newline == NULL ? text->end : newline};
  text->at = newline == NULL ? text->end : newline + 1;
  return line;
}

static int is_word(const char *word, size_t n, const char *wanted) {
  return n == strlen(wanted) && memcmp(word, wanted, n) == 0;
}

// number_of reads a whole number; -1 if there is none or it is negative or above 2^63: a counter
// that large is as good as unknown.
static int64_t number_of(const char *word, size_t n) {
  int64_t value = 0;
  if (n == 0) return -1;
  for (size_t i = 0; i < n; i++) {
    if (word[i] < '0' || word[i] > '9') return -1;
    const int64_t digit = word[i] - '0';
    if (value > (INT64_MAX - digit) / 10) return -1;
    value = 10 * value + digit;
  }
  return value;
}

// take_pair reads the numbers of one group. The first word of both lines is its name, with a colon.
static int take_pair(struct rest names, struct rest numbers,
                     struct mst_diag_counters *counters) {
  const char *group, *again, *name, *number;
  int found = 0;
  const size_t group_n = next_word(&names, &group);
  const size_t again_n = next_word(&numbers, &again);
  if (group_n < 2 || group_n != again_n || group[group_n - 1] != ':' ||
      memcmp(group, again, group_n) != 0) {
    return 0;
  }
  for (;;) {
    const size_t name_n = next_word(&names, &name);
    const size_t number_n = next_word(&numbers, &number);
    if (name_n == 0 || number_n == 0) return found;
    for (size_t i = 0; i < MST_DIAG_COUNTERS; i++) {
      if (is_word(name, name_n, known[i].name) &&
          is_word(group, group_n - 1, known[i].group)) {
        counters->value[i] = number_of(number, number_n);
        found += counters->value[i] >= 0;
      }
    }
  }
}

int mst_diag_counters_parse(const char *text, size_t n,
                            struct mst_diag_counters *counters) {
  struct rest rest = {text, text + n};
  int found = 0;
  while (rest.at < rest.end) {
    const struct rest names = next_line(&rest);
    const struct rest numbers = next_line(&rest);
    found += take_pair(names, numbers, counters);
  }
  return found;
}

// read_into parses a file; 0, or the errno of the call that failed.
static int read_into(const char *proc, const char *name,
                     struct mst_diag_counters *counters) {
  char path[PATH_BYTES], text[FILE_MAX];
  const int n = snprintf(path, sizeof path, "%s/net/%s", proc, name);
  if (n < 0 || (size_t)n >= sizeof path) return ENAMETOOLONG;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  size_t len = 0;
  ssize_t got = 0;
  while (len < sizeof text &&
         ((got = read(fd, text + len, sizeof text - len)) > 0 ||
          (got < 0 && errno == EINTR))) {
    if (got > 0) len += (size_t)got;
  }
  const int failed = got < 0 ? errno : 0;
  (void)close(fd);
  (void)mst_diag_counters_parse(text, len, counters);
  return failed;
}

int mst_diag_counters_read(const char *proc, struct mst_diag_counters *counters,
                           struct mst_err *err) {
  mst_diag_counters_clear(counters);
  const int first = read_into(proc, "netstat", counters);
  const int second = read_into(proc, "snmp", counters);
  if (first == 0 || second == 0) return 0;
  return mst_err_set(err, MST_ESYS, first, "open", "%s/net/netstat: %s", proc,
                     strerror(first));
}
