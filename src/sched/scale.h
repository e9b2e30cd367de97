// sched/scale: which hosts of a cluster are asked for because tasks wait, and which are given back
// because nothing is to do there. Pure: facts and the time in, decisions out. No pool, no clock.
//
// A host that sleeps is woken at once for a call to one of its workers, or if no host is there.
// Else tasks have to wait for MST_SCALE_PATIENCE_NS: one that is started for tasks of a moment
// comes too late for them. As many hosts are woken as have room for the tasks that wait, in order:
// workers that come, by themselves or with a host, take a task each.
// A host sleeps after idle_ns in which none of its workers had anything to do.
#ifndef MST_SCHED_SCALE_H
#define MST_SCHED_SCALE_H

#include <stdint.h>

#include "base/mst_clock.h"

#define MST_SCALE_PATIENCE_NS MST_NS_PER_S

enum mst_scale_is {
  MST_SCALE_ASLEEP,
  MST_SCALE_AWAITED, // it was asked for
  MST_SCALE_UP
};

enum mst_scale_do { MST_SCALE_NOTHING, MST_SCALE_WAKE, MST_SCALE_SLEEP };

// One host.
struct mst_scale_host {
  // Facts.
  enum mst_scale_is is;
  uint32_t workers;
  uint32_t coming;       // of them, on a host that is up: those that start
  uint8_t called;        // a call waits for one of its workers
  uint8_t wanted;        // one of its workers might have a task that waits
  uint8_t busy;          // a worker has something to do, starts or ends
  uint8_t stays;         // it can't be given back now
  int64_t busy_ns;       // when it was last busy, or came: kept between looks
  enum mst_scale_do act; // the decision
};

struct mst_scale {
  int64_t idle_ns; // INT64_MAX: hosts aren't given back
  int64_t wait_ns; // since when tasks wait; 0: none does
};

// mst_scale_look sets each host's `act`. tasks: how many wait. Returns how many have one.
uint32_t mst_scale_look(struct mst_scale *scale, struct mst_scale_host *hosts,
                        uint32_t count, uint32_t tasks, int64_t now_ns);
// mst_scale_due_ns gives when, by the facts of the last look, a host is to be given back;
// INT64_MAX if none is.
int64_t mst_scale_due_ns(const struct mst_scale *scale,
                         const struct mst_scale_host *hosts, uint32_t count);

#endif
