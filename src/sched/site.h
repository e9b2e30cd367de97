// sched/site: where the workers of one group are launched: on this machine, or on a host that a
// command leads to. Decides when a host is asked for, for how long, what its end means, and when
// its workers leave it. Pure: facts and the time in, things to do out. No link, no process, no
// clock, no R. The same facts give the same decisions; tests/sim relies on that.
//
//   UP       workers are launched there
//   GONE     its fork server has ended, and no worker has needed it since
//   REPLACED its fork server has ended, and another one boots
//   PAUSED   its workers wait: a host is asked for at ask_ns
//   ASKED    its workers wait: a command runs that is to lead to a host
//   BOOTING  its workers wait: the host is there, and its fork server boots
//   ASLEEP   its workers wait: no host is asked for until somebody needs one
//   LOST     there won't be a host: its workers are given up
//
// Facts        UP       GONE       REPLACED   PAUSED  ASKED    BOOTING  ASLEEP  LOST
//  LINKED      -        -          -          -       BOOTING  -        -       -
//  ENDED       GONE     noted      PAUSED     -       WHY      WHY      -       noted
//  SERVERLESS  GONE     -          -          -       -        -        -       -
//  NEEDED      -        REPLACED*  -          -       -        -        -       -
//  LEAVES      PAUSED   noted      noted      -       noted    noted    -       noted
//  LEFT_NS     PAUSED+  -          -          -       -        -        -       -
//  BOOTED      -        -          TAKE       -       -        TAKE     -       -
//  SERVED      -        -          UP         -       -        UP       -       -
//  FAILED      -        -          LOST+      -       PAUSED+  PAUSED+  -       -
//  SLEEP       ASLEEP   -          -          -       -        -        -       -
//  WAKE        -        -          -          -       -        -        PAUSED  -
//  RETRY       -        -          -          -       -        -        -       BOOTING*
//
// *: PAUSED if it is on another host and the link is gone. +: or what follows.
// LEAVES that was noted counts once SERVED. If workers don't come back, neither it nor LEFT_NS
// counts.
//
// Whoever tells facts knows of which link they are: only those of `link` are told, in the order in
// which they happened, and before mst_site_next. So if a fork server ends with its host, ENDED
// comes before the FAILED of its TAKE. If LINKED comes during a LOOK, what that found is old and
// isn't told. A command that can't wait in a queue is ENDED if it is late. After the FAILED of a
// host that was to come, whoever told it ends its command and link.
//
// Workers leave a host that was told to end, or that reaches its time limit within a margin: a
// tenth of the time that it had when it was first asked, ten seconds at least and a minute at most.
//
// A host that was there is asked for again at once; if it stays for less than ten seconds, twice in
// a row or more, after pauses that double, from one second to thirty.
//
// If FAILED: a host is asked for again if there was one before, or work needs one: after pauses
// that double, together as long as a host may take to start; but not if it would fail the same way.
// A host that never came, and a fork server that can't be replaced, are LOST at once. If the
// cluster has no other site, whoever waits gets an error instead, and the next one asks again.
#ifndef MST_SCHED_SITE_H
#define MST_SCHED_SITE_H

#include <stdint.h>

#include "base/mst_clock.h"

enum mst_site_is {
  MST_SITE_UP,
  MST_SITE_GONE,
  MST_SITE_REPLACED,
  MST_SITE_PAUSED,
  MST_SITE_ASKED,
  MST_SITE_BOOTING,
  MST_SITE_ASLEEP,
  MST_SITE_LOST
};

enum mst_site_fact {
  MST_SITE_LINKED,     // the command has led to a host
  MST_SITE_ENDED,      // the link has ended, or never came
  MST_SITE_SERVERLESS, // its fork server has ended
  MST_SITE_NEEDED,     // a worker is to come back, and no fork server is there
  MST_SITE_LEAVES,     // the host was told to end
  MST_SITE_LEFT_NS, // value: how long the host may still run; INT64_MAX: unknown, or no limit
  MST_SITE_PENDING, // its command waits in a queue
  MST_SITE_RUNS, // it doesn't: since now (value 0), or since it began, if it never waited
  MST_SITE_BOOTED, // its fork server is ready, or has ended
  MST_SITE_SERVED, // it has a fork server
  MST_SITE_FAILED, // what was asked for failed; value 1: so it would the next time
  MST_SITE_SLEEP, // nothing is to do there
  MST_SITE_WAKE,  // something is
  MST_SITE_RETRY, // the user wants a LOST one back
  MST_SITE_UNDONE // value: a thing to do that wasn't carried out, as the user interrupted it
};

// What follows from FAILED.
enum mst_site_end { MST_SITE_GOES_ON, MST_SITE_IS_LOST, MST_SITE_IS_ERROR };

// Bits of `todo`, in this order.
enum mst_site_do {
  MST_SITE_SAY_GONE, // say that the host is gone, and that it is asked for again
  MST_SITE_SAY_LEAVES, // say that the host ends, and that another one is asked for
  MST_SITE_WHY,  // find out why the link ended or is late, and answer FAILED
  MST_SITE_TAKE, // answer SERVED if the fork server is ready, else FAILED
  MST_SITE_ASK,  // run the command. If that fails, answer FAILED
  MST_SITE_LOOK, // answer PENDING, RUNS, or FAILED
  MST_SITE_LOOK_LEFT, // answer LEFT_NS
  MST_SITE_SERVE,     // have a fork server boot. If that fails, answer FAILED
  MST_SITE_DO_COUNT
};

enum mst_site_why { MST_SITE_WHY_ENDED, MST_SITE_WHY_LATE, MST_SITE_WHY_QUEUE };

// What a site is told when it is made.
struct mst_site_terms {
  uint8_t far;      // on a host that a command leads to; 0: on this machine
  uint8_t queued;   // the command may wait in a queue, and is looked at
  uint8_t limited;  // its host may have a time limit
  uint8_t heals;    // its workers come back
  uint8_t scales;   // its host is given back when nothing is to do
  uint8_t only;     // the cluster has no other
  int64_t start_ns; // how long a host may take to start, once its command runs
  int64_t
      queue_ns; // how long its command may wait in a queue; INT64_MAX: for ever
};

struct mst_site {
  uint32_t number; // the caller's
  struct mst_site_terms terms;
  enum mst_site_is is;
  uint32_t todo; // bits, 1 << enum mst_site_do
  uint32_t
      link; // how often a host was asked for: workers there have its number
  uint32_t left;    // workers of this link, and those before it, leave
  uint32_t pending; // workers that wait there; their owner counts them
  uint32_t moved; // all workers of this link, and of those before it, have left
  uint8_t linked; // the link is there
  uint8_t leaves; // its host was told to end
  uint8_t again;  // a host that fails is asked for again
  uint8_t waited; // its command has waited in a queue
  uint8_t ends;   // WHY was given: nothing but FAILED can follow
  uint8_t why;    // enum mst_site_why, of WHY
  int64_t
      left_ns; // SAY_LEAVES: for so long its host may still run; 0: it was told to end
  int64_t ask_ns;    // PAUSED: when to ask
  int64_t pause_ns;  // the next pause
  int64_t paused_ns; // all pauses so far
  int64_t short_ns;  // the next pause if the host doesn't stay for long
  int64_t came_ns;   // when it came
  int64_t asked_ns;  // when its command began
  int64_t
      runs_ns; // since when it has run; INT64_MAX: it waits, or nobody knows
  int64_t look_ns; // when to look at the queue
  int64_t
      margin_ns; // how long before its time limit workers leave a host; 0: not known yet
  int64_t limit_ns; // when to look at its time limit
  int64_t boots_ns; // BOOTING, REPLACED: since when a fork server does
};

// mst_site_init makes one that is UP, ASLEEP, or PAUSED until now. One that is UP on another host
// is linked, as link 1.
void mst_site_init(struct mst_site *site, const struct mst_site_terms *terms,
                   enum mst_site_is is, int64_t now_ns);
// mst_site_tell takes a fact, and gives what follows from FAILED. A fact that doesn't fit the state
// is old, and ignored.
enum mst_site_end mst_site_tell(struct mst_site *site, enum mst_site_fact fact,
                                int64_t value, int64_t now_ns);
// mst_site_next lets time pass, and takes the next thing to do: 1, or 0 if there is none.
int mst_site_next(struct mst_site *site, enum mst_site_do *what,
                  int64_t now_ns);
// mst_site_first lets time pass, and gives the next thing to do, which stays; MST_SITE_DO_COUNT if
// there is none.
enum mst_site_do mst_site_first(struct mst_site *site, int64_t now_ns);
// mst_site_look_too has the queue looked at now, since it is for others.
void mst_site_look_too(struct mst_site *site, int64_t now_ns);
// mst_site_due_ns gives when mst_site_next has something to do, INT64_MAX if only facts lead to
// that.
int64_t mst_site_due_ns(const struct mst_site *site);
// mst_site_waits tells whether workers that are launched have to wait for a host.
// mst_site_is_gone tells whether it isn't known yet if they can be launched.
int mst_site_waits(const struct mst_site *site);
int mst_site_is_gone(const struct mst_site *site);
// mst_site_check returns the invariant that is broken, or NULL. For tests, after each step.
const char *mst_site_check(const struct mst_site *site);

#endif
