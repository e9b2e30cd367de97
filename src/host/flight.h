// host/flight: how much of what was sent may be on its way. Pure.
//
// What the link holds delays whatever is sent after it, and ssh, srun and the kernel together take
// some megabytes before they stop a writer. So the writer itself keeps the link only as full as it
// must be. It measures how fast bytes are acknowledged, over one round trip or more, and the
// shortest round trip. Twice their product is enough to keep the link busy, and lets the rate found
// double each round trip until the link is full. (TCP's BBR works like that.) A sample that was
// taken while little was sent says little about the link, and counts only if it is the largest.
//
// Not chosen: a limit by the size of the link's buffers, which nobody knows, or by how long a ping
// takes, which says only afterwards that the link was too full.
#ifndef MST_HOST_FLIGHT_H
#define MST_HOST_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

// In flight: before anything was measured, at least, at most.
#define MST_FLIGHT_FIRST UINT64_C(65536)
#define MST_FLIGHT_MIN UINT64_C(32768)
#define MST_FLIGHT_MAX (UINT64_C(64) << 20)

// A point in what was sent: when, and what was acknowledged then.
struct mst_mark {
  uint64_t at, acked;
  int64_t sent_ns, acked_ns;
  uint8_t full; // more could have been sent than was allowed
};
#define MST_MARKS 64u
#define MST_RATES 16u

struct mst_flight {
  uint64_t sent, acked; // bytes, in all
  int64_t acked_ns;     // when `acked` last grew
  uint8_t full;         // it was at its limit since the last mark
  struct mst_mark marks[MST_MARKS];
  size_t mark_first, mark_count;
  double rates[MST_RATES]; // bytes per ns, the latest ones
  size_t rate_next;
  int64_t round_trip_ns; // the shortest seen, 0 if none
  uint64_t most;
};

void mst_flight_init(struct mst_flight *flight, int64_t now_ns);
// mst_flight_has_room tells whether more may be sent; asked because there is more.
int mst_flight_has_room(struct mst_flight *flight);
// mst_flight_sent: n bytes were sent. mst_flight_acked: so many have come, in all; -MST_EPROTO if
// that can't be. mst_flight_round_trip: a question was answered after this time.
void mst_flight_sent(struct mst_flight *flight, size_t n, int64_t now_ns);
int mst_flight_acked(struct mst_flight *flight, uint64_t acked, int64_t now_ns);
void mst_flight_round_trip(struct mst_flight *flight, int64_t took_ns);

#endif
