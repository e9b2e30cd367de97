// The world of the simulation of sites: see site_world.h.
#include "site_world.h"

#include <string.h>

#include "../c/mst_random.h"

uint64_t site_sights[SIGHT_COUNT];

uint64_t site_below(struct site_sim *sim, uint64_t limit) {
  return mst_random_below(&sim->random, limit);
}

int site_one_in(struct site_sim *sim, uint64_t n) {
  return !sim->calm && site_below(sim, n) == 0;
}

static int64_t within_s(struct site_sim *sim, uint64_t least_s,
                        uint64_t most_s) {
  return (int64_t)(least_s * 1000 +
                   site_below(sim, (most_s - least_s) * 1000 + 1)) *
         MST_NS_PER_MS;
}

int64_t site_in_s(struct site_sim *sim, uint64_t least_s, uint64_t most_s) {
  return sim->now_ns + within_s(sim, least_s, most_s);
}

// ---- the world

static void never(struct place *place, enum happens first, enum happens last) {
  for (int i = (int)first; i <= (int)last; i++)
    place->at_ns[i] = SITE_NEVER;
}

static void post(struct site_sim *sim, struct place *place,
                 enum mst_site_fact fact) {
  if (sim->fact_count == FACTS_MAX) {
    site_fail(sim, "facts without end");
    return;
  }
  sim->facts[sim->fact_count++] = (struct fact){place, fact};
}

// So nothing is heard of it either.
void site_world_end(struct place *place) {
  place->command = NO_COMMAND;
  place->boots = place->ready = 0;
  never(place, H_RUNS, H_TOLD);
}

static void begin_to_run(struct site_sim *sim, struct place *place) {
  const struct mst_site_terms *terms = &place->site.terms;
  place->command = RUNS;
  place->at_ns[H_RUNS] = SITE_NEVER;
  place->at_ns[H_LINKS] = site_in_s(sim, 0, 20);
  if (site_one_in(sim, 4)) place->at_ns[H_ENDS] = site_in_s(sim, 0, 20);
  if (site_one_in(sim, 12)) place->at_ns[H_LINKS] = SITE_NEVER;
  if (terms->queued && site_one_in(sim, 6))
    place->at_ns[H_QUEUES] = site_in_s(sim, 0, 5);
  // Such a command has the time limit of its link.
  if (!terms->queued && place->at_ns[H_LINKS] == SITE_NEVER)
    place->at_ns[H_ENDS] = sim->now_ns + terms->start_ns;
}

static void begin_to_wait(struct site_sim *sim, struct place *place) {
  place->command = QUEUED;
  never(place, H_QUEUES, H_ENDS);
  place->at_ns[H_RUNS] = site_in_s(sim, 0, site_one_in(sim, 4) ? 3000 : 60);
  if (sim->calm)
    place->at_ns[H_RUNS] = site_in_s(sim, 0, 1); // no queue is full
  if (site_one_in(sim, 20)) place->at_ns[H_ENDS] = site_in_s(sim, 0, 60);
}

static void come_up(struct site_sim *sim, struct place *place) {
  place->command = HOST;
  place->ends_ns = SITE_NEVER;
  never(place, H_QUEUES, H_ENDS);
  if (site_one_in(sim, 2)) place->at_ns[H_ENDS] = site_in_s(sim, 0, 3000);
  if (site_one_in(sim, 10))
    place->at_ns[H_ENDS] = site_in_s(sim, 0, 5); // it flaps
  if (site_one_in(sim, 3)) place->at_ns[H_TOLD] = site_in_s(sim, 0, 2000);
  if (site_one_in(sim, 10)) place->at_ns[H_TOLD] = site_in_s(sim, 0, 5);
  if (place->site.terms.limited && !sim->calm)
    place->ends_ns = place->at_ns[H_ENDS] = site_in_s(sim, 15, 4000);
  post(sim, place, MST_SITE_LINKED);
}

// end_host: with it, its fork server ends.
static void end_host(struct site_sim *sim, struct place *place) {
  const int first = site_one_in(sim, 2);
  if (place->boots && first)
    post(sim, place, place->ready ? MST_SITE_SERVERLESS : MST_SITE_BOOTED);
  post(sim, place, MST_SITE_ENDED);
  site_world_end(place);
}

int site_world_run(struct site_sim *sim, struct place *place) {
  if (site_one_in(sim, 15)) return 0;
  if (place->site.terms.queued && site_below(sim, 3) != 0) {
    begin_to_wait(sim, place);
  } else {
    begin_to_run(sim, place);
  }
  return 1;
}

int site_world_boot(struct site_sim *sim, struct place *place) {
  const int gone = place->site.terms.far && place->command != HOST;
  if (gone || site_one_in(sim, 15)) return 0;
  place->boots = 1;
  place->at_ns[H_BOOTS] = site_in_s(sim, 0, 10);
  if (site_one_in(sim, 10))
    place->at_ns[H_BOOTS] = site_in_s(sim, 0, 2) + place->site.terms.start_ns;
  return 1;
}

static void happen(struct site_sim *sim, struct place *place,
                   enum happens what) {
  static const enum mst_site_fact facts[] = {[H_TOLD] = MST_SITE_LEAVES,
                                             [H_NEEDS] = MST_SITE_NEEDED,
                                             [H_SLEEPS] = MST_SITE_SLEEP,
                                             [H_WAKES] = MST_SITE_WAKE,
                                             [H_RETRIES] = MST_SITE_RETRY};
  place->at_ns[what] = SITE_NEVER;
  switch (what) {
  case H_RUNS:
    begin_to_run(sim, place);
    break;
  case H_QUEUES:
    site_sights[SAW_requeued]++;
    begin_to_wait(sim, place);
    break;
  case H_LINKS:
    come_up(sim, place);
    break;
  case H_ENDS:
    end_host(sim, place);
    break;
  case H_BOOTS:
    place->ready = !site_one_in(sim, 6);
    place->boots = place->ready;
    post(sim, place, MST_SITE_BOOTED);
    break;
  case H_SERVERLESS:
    place->boots = place->ready = 0;
    post(sim, place, MST_SITE_SERVERLESS);
    break;
  default:
    post(sim, place, facts[what]);
  }
}

int64_t site_world_next(const struct site_sim *sim, uint32_t *at, int *what) {
  int64_t first_ns = SITE_NEVER;
  for (uint32_t i = 0; i < sim->count; i++) {
    for (int k = 0; k < H_COUNT; k++) {
      if (sim->places[i].at_ns[k] >= first_ns) continue;
      first_ns = sim->places[i].at_ns[k];
      *at = i;
      *what = k;
    }
  }
  return first_ns;
}

void site_world_pass(struct site_sim *sim, int64_t until_ns) {
  uint32_t at = 0;
  int what = 0;
  for (int64_t ns; (ns = site_world_next(sim, &at, &what)) <= until_ns;) {
    if (ns > sim->now_ns) sim->now_ns = ns;
    happen(sim, &sim->places[at], (enum happens)what);
  }
  if (until_ns > sim->now_ns) sim->now_ns = until_ns;
}

void site_world_state(struct site_sim *sim, struct place *place) {
  const struct mst_site_terms *terms = &place->site.terms;
  const enum mst_site_is is = place->site.is;
  never(place, H_NEEDS, H_RETRIES);
  if (is == MST_SITE_GONE && (terms->heals || site_one_in(sim, 4)))
    place->at_ns[H_NEEDS] = site_in_s(sim, 0, site_one_in(sim, 3) ? 600 : 2);
  if (is == MST_SITE_UP && site_one_in(sim, 3))
    place->at_ns[H_SERVERLESS] = site_in_s(sim, 0, 2000);
  if (is == MST_SITE_UP && terms->scales && site_one_in(sim, 2))
    place->at_ns[H_SLEEPS] = site_in_s(sim, 5, 900);
  if (is == MST_SITE_ASLEEP && site_one_in(sim, 2))
    place->at_ns[H_WAKES] = site_in_s(sim, 0, 900);
  if (is == MST_SITE_LOST && !site_one_in(sim, 3) && !sim->calm)
    place->at_ns[H_RETRIES] = site_in_s(sim, 0, 900);
}

void site_world_calm(struct site_sim *sim) {
  sim->calm = 1;
  sim->busy_ns = sim->now_ns;
  for (uint32_t i = 0; i < sim->count; i++) {
    struct place *place = &sim->places[i];
    place->idle_ns = sim->now_ns;
    place->ends_ns = SITE_NEVER;
    place->at_ns[H_ENDS] = place->at_ns[H_TOLD] = SITE_NEVER;
    place->at_ns[H_QUEUES] = place->at_ns[H_SERVERLESS] = SITE_NEVER;
    place->at_ns[H_SLEEPS] = place->at_ns[H_RETRIES] = SITE_NEVER;
    if (place->at_ns[H_WAKES] != SITE_NEVER)
      place->at_ns[H_WAKES] = site_in_s(sim, 0, 20);
    if (place->command == QUEUED) place->at_ns[H_RUNS] = site_in_s(sim, 0, 60);
    if (place->command == RUNS) place->at_ns[H_LINKS] = site_in_s(sim, 0, 20);
    if (place->boots && !place->ready)
      place->at_ns[H_BOOTS] = site_in_s(sim, 0, 10);
    if (mst_site_waits(&place->site)) site_sights[SAW_calm_waited]++;
  }
}

static void make_place(struct site_sim *sim, struct place *place) {
  static const enum mst_site_is begins[] = {MST_SITE_UP, MST_SITE_PAUSED,
                                            MST_SITE_ASLEEP};
  static const int64_t starts_s[] = {5, 30, 60, 300};
  struct mst_site_terms terms = {
      .far = site_below(sim, 4) != 0,
      .heals = site_below(sim, 4) != 0,
      .only = sim->count == 1,
      .start_ns = starts_s[site_below(sim, 4)] * S,
      .queue_ns = site_below(sim, 2) == 0 ? SITE_NEVER : within_s(sim, 1, 600)};
  terms.queued = terms.far && site_below(sim, 2) == 0;
  terms.limited = terms.far && site_below(sim, 2) == 0;
  terms.scales = terms.far && site_below(sim, 2) == 0;
  const enum mst_site_is is =
      terms.far ? begins[site_below(sim, terms.scales ? 3 : 2)] : MST_SITE_UP;
  mst_site_init(&place->site, &terms, is, sim->now_ns);
  site_book_init(&place->book, &terms, is, sim->now_ns);
  site_world_end(place);
  place->ends_ns = SITE_NEVER;
  place->tells = site_below(sim, 2) == 0;
  if (is == MST_SITE_UP) place->boots = place->ready = 1;
  if (is == MST_SITE_UP && terms.far) place->command = HOST;
  if (place->command == HOST) place->at_ns[H_ENDS] = site_in_s(sim, 0, 3000);
  site_world_state(sim, place);
}

void site_world_begin(struct site_sim *sim) {
  sim->count = 1 + (uint32_t)site_below(sim, SITES_MAX);
  for (uint32_t i = 0; i < sim->count; i++)
    make_place(sim, &sim->places[i]);
}
