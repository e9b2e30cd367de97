// The world of the simulation of sites: commands, queues, hosts and fork servers. See site.c.
#ifndef SIM_SITE_WORLD_H
#define SIM_SITE_WORLD_H

#include "site.h"

#define S MST_NS_PER_S
#define SITES_MAX 4u
#define FACTS_MAX 64u

// clang-format off
#define SITE_SIGHTS(SIGHT)                                                     \
  SIGHT(up) SIGHT(pending) SIGHT(requeued) SIGHT(queue_full)                   \
  SIGHT(late_start) SIGHT(ended_asked) SIGHT(ended_booting) SIGHT(ended_up)    \
  SIGHT(ended_gone) SIGHT(ended_replaced) SIGHT(late_server)                   \
  SIGHT(late_but_ready) SIGHT(paused) SIGHT(paused_often) SIGHT(lost_first)    \
  SIGHT(lost_lasts) SIGHT(lost_pauses) SIGHT(lost_server) SIGHT(error)         \
  SIGHT(error_server) SIGHT(replaced) SIGHT(replaced_here) SIGHT(told)         \
  SIGHT(told_early) SIGHT(left_at_limit) SIGHT(limit_unknown)                  \
  SIGHT(limit_shortened) SIGHT(slept) SIGHT(woken) SIGHT(retried)              \
  SIGHT(retried_link) SIGHT(noise) SIGHT(overtaken) SIGHT(late_driver)         \
  SIGHT(undone_say) SIGHT(undone_why) SIGHT(undone_take) SIGHT(undone_ask)     \
  SIGHT(undone_look) SIGHT(undone_limit) SIGHT(undone_serve)                   \
  SIGHT(served_late) SIGHT(calm_waited)
// clang-format on
#define SIGHT_NAME(name) SAW_##name,
enum sight { SITE_SIGHTS(SIGHT_NAME) SIGHT_COUNT };

extern uint64_t site_sights[SIGHT_COUNT];

// What happens to a site by itself, and what its user does.
enum happens {
  H_RUNS,   // its command comes out of the queue
  H_QUEUES, // and goes back
  H_LINKS,
  H_ENDS,
  H_BOOTS,
  H_SERVERLESS,
  H_TOLD,
  H_NEEDS,
  H_SLEEPS,
  H_WAKES,
  H_RETRIES,
  H_COUNT
};

enum command { NO_COMMAND, QUEUED, RUNS, HOST };

struct place {
  struct mst_site site;
  struct site_book book;
  enum command command;
  uint8_t ready;          // its fork server
  uint8_t boots;          // a fork server does, or is there
  uint8_t tells;          // RUNS: since its command began
  int64_t at_ns[H_COUNT]; // when that happens next
  int64_t ends_ns;        // its host's time limit
  int64_t idle_ns;        // nobody waits for it until then
};

struct fact {
  struct place *place;
  enum mst_site_fact fact;
};

struct site_sim {
  uint64_t seed, random, hash;
  int64_t now_ns, busy_ns; // the user computes until then
  int logging, failed, calm;
  uint32_t count, fact_count;
  struct place places[SITES_MAX];
  struct fact facts[FACTS_MAX]; // that nobody has told yet, in order
};

uint64_t site_below(struct site_sim *sim, uint64_t limit);
// site_one_in: never, once the world is calm.
int site_one_in(struct site_sim *sim, uint64_t n);
// site_in_s gives a time that is so far from now.
int64_t site_in_s(struct site_sim *sim, uint64_t least_s, uint64_t most_s);
void site_fail(struct site_sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void site_world_begin(struct site_sim *sim);
void site_world_calm(struct site_sim *sim);
// site_world_next gives when something happens next, where and what.
int64_t site_world_next(const struct site_sim *sim, uint32_t *at, int *what);
// site_world_pass lets time pass, and all happen that happens until then.
void site_world_pass(struct site_sim *sim, int64_t until_ns);
// site_world_state draws what comes in the state that a site has got into.
void site_world_state(struct site_sim *sim, struct place *place);
// site_world_run runs a command: 0 if that fails. site_world_end: nobody needs it any more.
int site_world_run(struct site_sim *sim, struct place *place);
void site_world_end(struct place *place);
// site_world_boot has a fork server boot: 0 if that fails.
int site_world_boot(struct site_sim *sim, struct place *place);

#endif
