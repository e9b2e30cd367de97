// How much may be on its way. See flight.h.
#include "host/flight.h"

#include "base/mst_err.h"

// Marks are so far apart that they cover what may be in flight.
#define MARKS_IN_FLIGHT 16u

void mst_flight_init(struct mst_flight *flight, int64_t now_ns) {
  *flight = (struct mst_flight){.most = MST_FLIGHT_FIRST, .acked_ns = now_ns};
}

int mst_flight_has_room(struct mst_flight *flight) {
  if (flight->sent - flight->acked < flight->most) return 1;
  flight->full = 1;
  return 0;
}

void mst_flight_sent(struct mst_flight *flight, size_t n, int64_t now_ns) {
  const size_t last = (flight->mark_first + flight->mark_count - 1) % MST_MARKS;
  const uint64_t before = flight->mark_count > 0 ? flight->marks[last].at : 0;
  flight->sent += n;
  if (flight->mark_count == MST_MARKS ||
      (flight->mark_count > 0 &&
       flight->sent - before < flight->most / MARKS_IN_FLIGHT)) {
    return;
  }
  flight->marks[(flight->mark_first + flight->mark_count++) % MST_MARKS] =
      (struct mst_mark){.at = flight->sent,
                        .acked = flight->acked,
                        .sent_ns = now_ns,
                        .acked_ns = flight->acked_ns,
                        .full = flight->full};
  flight->full = 0;
}

static double top_rate(const struct mst_flight *flight) {
  double top = 0;
  for (size_t i = 0; i < MST_RATES; i++)
    top = flight->rates[i] > top ? flight->rates[i] : top;
  return top;
}

static void set_most(struct mst_flight *flight) {
  const double both = top_rate(flight) * (double)flight->round_trip_ns;
  const uint64_t most = both >= (double)MST_FLIGHT_MAX / 2
                            ? MST_FLIGHT_MAX
                            : (uint64_t)(2 * both);
  if (most == 0) return; // nothing is known
  flight->most = most < MST_FLIGHT_MIN ? MST_FLIGHT_MIN : most;
}

void mst_flight_round_trip(struct mst_flight *flight, int64_t took_ns) {
  if (took_ns <= 0) took_ns = 1;
  if (flight->round_trip_ns == 0 || took_ns < flight->round_trip_ns)
    flight->round_trip_ns = took_ns;
}

static void saw_rate(struct mst_flight *flight, const struct mst_mark *mark,
                     uint64_t acked, int64_t now_ns) {
  const int64_t took_ns = now_ns - mark->acked_ns;
  if (took_ns <= 0 || acked <= mark->acked) return;
  const double rate = (double)(acked - mark->acked) / (double)took_ns;
  if (!mark->full && rate <= top_rate(flight)) return;
  flight->rates[flight->rate_next] = rate;
  flight->rate_next = (flight->rate_next + 1) % MST_RATES;
}

int mst_flight_acked(struct mst_flight *flight, uint64_t acked,
                     int64_t now_ns) {
  struct mst_mark mark = {0};
  int found = 0;
  if (acked < flight->acked || acked > flight->sent) return -MST_EPROTO;
  while (flight->mark_count > 0 &&
         flight->marks[flight->mark_first].at <= acked) {
    mark = flight->marks[flight->mark_first];
    flight->mark_first = (flight->mark_first + 1) % MST_MARKS;
    flight->mark_count--;
    found = 1;
  }
  if (found) {
    mst_flight_round_trip(flight, now_ns - mark.sent_ns);
    saw_rate(flight, &mark, acked, now_ns);
    set_most(flight);
  }
  flight->acked = acked;
  flight->acked_ns = now_ns;
  return 0;
}
