// diag: what the system knows about TCP: the queues of listeners, the state of one connection, the
// counters of the network namespace. Linux; elsewhere each function fails. Changes nothing. No R,
// no state; any thread; no privilege needed.
#ifndef MST_NET_DIAG_H
#define MST_NET_DIAG_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"

// ---- listeners

// The most listeners in a list: one for each port, and a list stays below 4 MB.
#define MST_DIAG_LISTENERS_MAX 65536u

// One listening TCP socket.
struct mst_diag_listener {
  uint8_t address[16]; // in network order; IPv4 uses the first four
  uint64_t inode;      // of the socket, as in fstat() and /proc/<pid>/fd
  // Packets that this socket has dropped since it began to listen, mostly overflows of its queue.
  // -1 if the kernel doesn't say (before Linux 4.7).
  int64_t drops;
  uint32_t uid;     // owner
  uint32_t depth;   // connections that wait for accept() now
  uint32_t backlog; // in force: the kernel holds one more, then drops
  // Handshakes in progress (SYN_RECV). Listeners that share an address (SO_REUSEPORT) can't be told
  // apart: all are counted for the first.
  uint32_t half_open;
  uint16_t port; // in host order
  uint8_t is_v6;
};

// A list that grows; {0} is an empty one. Freed by mst_diag_free.
struct mst_diag_list {
  struct mst_diag_listener *items;
  size_t count, cap;
};

// mst_diag_listeners fills an empty list with the listeners of this network namespace, IPv4 first,
// in the kernel's order. port and inode select some; 0 means all. Blocks while the kernel walks its
// table of connections: 1 ms for 10,000 of them. The caller frees the list, also after an error.
// -MST_ESYS if the kernel has no sock_diag (EPROTONOSUPPORT, ENOENT) or refuses, -MST_EMEM,
// -MST_ELIMIT past MST_DIAG_LISTENERS_MAX.
int mst_diag_listeners(uint16_t port, uint64_t inode,
                       struct mst_diag_list *list, struct mst_err *err);

// mst_diag_listener_of is the same for one descriptor of a listening TCP socket.
// -MST_EINPUT if the socket doesn't listen in this namespace; else as above.
int mst_diag_listener_of(int fd, struct mst_diag_listener *listener,
                         struct mst_err *err);

// mst_diag_free frees a list's items and empties it.
void mst_diag_free(struct mst_diag_list *list);

// mst_diag_dump_take reads one packet of the kernel's answer: listeners go into the list, half-open
// connections into half_open (a list whose items only have an address and a port; those past the
// limit aren't counted). Pure. 1: more packets follow, 0: this was the last one; -MST_ESYS with the
// kernel's errno, -MST_EPROTO for bytes that aren't an answer, -MST_EMEM, -MST_ELIMIT. For
// diag_linux.c and tests. -MST_ESYS on systems without it.
int mst_diag_dump_take(const uint8_t *bytes, size_t n,
                       struct mst_diag_list *list,
                       struct mst_diag_list *half_open, struct mst_err *err);

// ---- one connection

struct mst_diag_tcp {
  int32_t state;      // as in TCP_INFO: 1 established ... 10 listen, 11 closing
  uint32_t rtt_us;    // smoothed round trip; 0 if none was measured
  uint32_t rttvar_us; // its mean deviation
  uint32_t rto_us;    // time until the next retransmission
  uint32_t retransmits_total; // segments, since the connection began
  uint32_t lost;              // segments, by the kernel's estimate
  uint32_t depth;             // a listener's queue now, 0 for a connection
  uint32_t backlog;           // and its limit
};

// mst_diag_tcp_look gets the state of a TCP socket. Never blocks. -MST_ESYS: EBADF, ENOTSOCK,
// EOPNOTSUPP or ENOPROTOOPT if it isn't a TCP socket, ENOTSUP on systems without it.
int mst_diag_tcp_look(int fd, struct mst_diag_tcp *tcp, struct mst_err *err);

// mst_diag_state_name gives a word such as "established", "unknown" for other numbers.
const char *mst_diag_state_name(int32_t state);

// ---- counters

// Of a network namespace, since it began. Names: mst_diag_counter_name.
enum mst_diag_counter {
  MST_DIAG_LISTEN_OVERFLOWS, // a handshake met a full accept queue
  MST_DIAG_LISTEN_DROPS,  // a listener dropped one, for any reason
  MST_DIAG_REQ_FULL_DROP, // the queue of half-open connections was full: dropped
  MST_DIAG_REQ_FULL_COOKIES, // the same: answered by a cookie
  MST_DIAG_COOKIES_SENT,
  MST_DIAG_SYN_RETRANS,   // a SYN or its answer was sent again
  MST_DIAG_TIMEOUTS,      // retransmission timers that expired
  MST_DIAG_ACTIVE_OPENS,  // connect()
  MST_DIAG_PASSIVE_OPENS, // handshakes started by others
  MST_DIAG_ATTEMPT_FAILS, // failed attempts of both kinds
  MST_DIAG_ESTAB_RESETS,
  MST_DIAG_ESTABLISHED, // now
  MST_DIAG_OUT_SEGS,
  MST_DIAG_RETRANS_SEGS,
  MST_DIAG_COUNTERS
};

struct mst_diag_counters {
  int64_t value[MST_DIAG_COUNTERS]; // -1 if the kernel doesn't say
};

// mst_diag_counters_clear makes all of them unknown.
void mst_diag_counters_clear(struct mst_diag_counters *counters);

// mst_diag_counters_parse reads counters from the text of /proc/net/netstat or /proc/net/snmp;
// counters that it lacks keep their values. Pure; the text may be any bytes, without a NUL. Returns
// how many were found.
int mst_diag_counters_parse(const char *text, size_t n,
                            struct mst_diag_counters *counters);

// mst_diag_counters_read clears and reads them. proc: where procfs is mounted, "/proc".
// Reads two files of some kilobytes. -MST_ESYS if neither can be read.
int mst_diag_counters_read(const char *proc, struct mst_diag_counters *counters,
                           struct mst_err *err);

// mst_diag_counter_name gives the kernel's name, such as "ListenOverflows".
const char *mst_diag_counter_name(enum mst_diag_counter counter);

#endif
