// When a host is asked for, and when it is left. The contract is in site.h.
#include "sched/site.h"

#include <stddef.h>

#define NEVER INT64_MAX
// The first pause after which a host is asked for again.
#define PAUSE_NS MST_NS_PER_S
// A host that stays for less than this is asked for again after a pause, from the second in a row
// on, up to that: each command may be a login, or a job.
#define STAYS_NS (10 * MST_NS_PER_S)
#define PAUSE_MOST_NS (30 * MST_NS_PER_S)
// The queue is looked at after a tenth of the time for which a command has waited, within these.
#define LOOK_LEAST_NS MST_NS_PER_S
#define LOOK_MOST_NS (30 * MST_NS_PER_S)
// When a host's time limit is first looked at, and how long that may be put off: an administrator
// may shorten it.
#define LIMIT_FIRST_NS (2 * MST_NS_PER_S)
#define LIMIT_MOST_NS (600 * MST_NS_PER_S)
#define MARGIN_LEAST_NS (10 * MST_NS_PER_S)
#define MARGIN_MOST_NS (60 * MST_NS_PER_S)

static int64_t within(int64_t ns, int64_t least_ns, int64_t most_ns) {
  return ns < least_ns ? least_ns : ns > most_ns ? most_ns : ns;
}

// after gives a time, or NEVER.
static int64_t after(int64_t from_ns, int64_t ns) {
  return from_ns > NEVER - ns ? NEVER : from_ns + ns;
}

static void add(struct mst_site *site, enum mst_site_do what) {
  site->todo |= 1u << what;
}

int mst_site_waits(const struct mst_site *site) {
  return site->is == MST_SITE_PAUSED || site->is == MST_SITE_ASKED ||
         site->is == MST_SITE_BOOTING || site->is == MST_SITE_ASLEEP;
}

int mst_site_is_gone(const struct mst_site *site) {
  return site->is == MST_SITE_GONE || site->is == MST_SITE_REPLACED;
}

// ---- asked for

// become enters a state, in which nothing of the last one is left to do but what is to be said.
static void become(struct mst_site *site, enum mst_site_is is) {
  site->is = is;
  site->todo &= 1u << MST_SITE_SAY_GONE | 1u << MST_SITE_SAY_LEAVES;
  site->ends = 0;
  site->ask_ns = site->look_ns = site->limit_ns = site->boots_ns = NEVER;
}

static void ask_at(struct mst_site *site, int64_t ns) {
  become(site, MST_SITE_PAUSED);
  site->ask_ns = ns;
}

static void try_anew(struct mst_site *site) {
  site->again = 1;
  site->pause_ns = PAUSE_NS;
  site->paused_ns = 0;
}

// ask_anew: work needs a host.
static void ask_anew(struct mst_site *site, int64_t now_ns) {
  try_anew(site);
  ask_at(site, now_ns);
}

// ask_again: there was a host.
static void ask_again(struct mst_site *site, int64_t now_ns) {
  const int stayed = now_ns - site->came_ns >= STAYS_NS;
  const int64_t pause_ns = stayed ? 0 : site->short_ns;
  const int64_t next_ns = pause_ns == 0 ? PAUSE_NS : 2 * pause_ns;
  site->short_ns = stayed ? 0 : within(next_ns, PAUSE_NS, PAUSE_MOST_NS);
  ask_anew(site, after(now_ns, pause_ns));
}

static void boot(struct mst_site *site, enum mst_site_is is) {
  become(site, is);
  add(site, MST_SITE_SERVE);
}

static void leave(struct mst_site *site, int64_t left_ns, int64_t now_ns) {
  site->left = site->link;
  site->left_ns = left_ns;
  ask_again(site, now_ns);
  add(site, MST_SITE_SAY_LEAVES);
}

static void asked(struct mst_site *site, int64_t now_ns) {
  become(site, MST_SITE_ASKED);
  site->link++;
  site->linked = site->leaves = site->waited = 0;
  site->margin_ns = 0;
  site->asked_ns = now_ns;
  site->runs_ns = NEVER;
  if (site->terms.queued) site->look_ns = now_ns + LOOK_LEAST_NS;
}

// watch_limit: workers that don't come back stay on a host until its end.
static void watch_limit(struct mst_site *site, int64_t now_ns) {
  if (site->terms.limited && site->terms.heals)
    site->limit_ns = now_ns + LIMIT_FIRST_NS;
}

void mst_site_init(struct mst_site *site, const struct mst_site_terms *terms,
                   enum mst_site_is is, int64_t now_ns) {
  *site = (struct mst_site){.terms = *terms, .pause_ns = PAUSE_NS};
  become(site, is);
  site->runs_ns = NEVER;
  if (is == MST_SITE_PAUSED) site->ask_ns = now_ns;
  if (is != MST_SITE_UP || !terms->far) return;
  site->link = site->linked = 1;
  site->came_ns = now_ns;
  watch_limit(site, now_ns);
}

// ---- facts

static void linked(struct mst_site *site, int64_t now_ns) {
  if (site->is != MST_SITE_ASKED || site->ends) return;
  site->linked = 1;
  site->came_ns = now_ns;
  boot(site, MST_SITE_BOOTING);
}

static void give_why(struct mst_site *site, enum mst_site_why why) {
  if (site->ends) return;
  site->ends = 1;
  site->why = (uint8_t)why;
  site->look_ns = site->boots_ns = NEVER;
  site->todo &=
      ~(1u << MST_SITE_LOOK | 1u << MST_SITE_SERVE | 1u << MST_SITE_TAKE);
  add(site, MST_SITE_WHY);
}

static void lose_host(struct mst_site *site, int64_t now_ns) {
  ask_again(site, now_ns);
  add(site, MST_SITE_SAY_GONE);
}

static void ended(struct mst_site *site, int64_t now_ns) {
  const int asked = site->is == MST_SITE_ASKED || site->is == MST_SITE_BOOTING;
  if (asked) {
    site->linked = 0;
    give_why(site, MST_SITE_WHY_ENDED);
    return;
  }
  if (!site->linked) return;
  site->linked = 0;
  if (site->is == MST_SITE_UP) become(site, MST_SITE_GONE);
  if (site->is == MST_SITE_REPLACED) lose_host(site, now_ns);
}

static void needed(struct mst_site *site, int64_t now_ns) {
  if (!site->terms.far || site->linked) {
    boot(site, MST_SITE_REPLACED);
  } else {
    lose_host(site, now_ns);
  }
}

// retry: workers that were given up wait for what comes.
static void retry(struct mst_site *site, int64_t now_ns) {
  if (site->terms.far && !site->linked) {
    ask_anew(site, now_ns);
  } else {
    try_anew(site);
    boot(site, MST_SITE_BOOTING);
  }
}

static void take_left(struct mst_site *site, int64_t left_ns, int64_t now_ns) {
  if (site->is != MST_SITE_UP || !site->terms.heals) return;
  if (left_ns == NEVER) {
    // If there was a limit, whoever knows it may just not answer.
    const int known = site->margin_ns > 0;
    site->limit_ns = now_ns + (known ? site->margin_ns / 2 : LIMIT_MOST_NS);
    return;
  }
  if (site->margin_ns == 0)
    site->margin_ns = within(left_ns / 10, MARGIN_LEAST_NS, MARGIN_MOST_NS);
  const int64_t spare_ns = left_ns - site->margin_ns;
  if (spare_ns <= 0) {
    leave(site, left_ns > 0 ? left_ns : 1, now_ns);
  } else {
    site->limit_ns = now_ns + within(spare_ns, 0, LIMIT_MOST_NS);
  }
}

static void pending(struct mst_site *site, int64_t now_ns) {
  if (site->is != MST_SITE_ASKED || site->ends) return;
  const int64_t waited_ns = now_ns - site->asked_ns;
  site->waited = 1;
  site->runs_ns = NEVER;
  if (waited_ns > site->terms.queue_ns) {
    give_why(site, MST_SITE_WHY_QUEUE);
  } else {
    site->look_ns =
        now_ns + within(waited_ns / 10, LOOK_LEAST_NS, LOOK_MOST_NS);
  }
}

static void runs(struct mst_site *site, int64_t since_began, int64_t now_ns) {
  if (site->is != MST_SITE_ASKED || site->ends) return;
  if (site->runs_ns == NEVER)
    site->runs_ns = since_began && !site->waited ? site->asked_ns : now_ns;
  if (now_ns - site->runs_ns > site->terms.start_ns) {
    give_why(site, MST_SITE_WHY_LATE);
  } else {
    site->look_ns = now_ns + within((now_ns - site->asked_ns) / 10,
                                    LOOK_LEAST_NS, LOOK_MOST_NS);
  }
}

static void served(struct mst_site *site, int64_t now_ns) {
  const int boots =
      site->is == MST_SITE_BOOTING || site->is == MST_SITE_REPLACED;
  if (!boots || (site->terms.far && !site->linked)) return;
  become(site, MST_SITE_UP);
  if (site->leaves && site->terms.heals) {
    leave(site, 0, now_ns);
  } else {
    watch_limit(site, now_ns);
  }
}

static enum mst_site_end give_up(struct mst_site *site, enum mst_site_is next,
                                 int64_t now_ns) {
  if (!site->terms.only) {
    become(site, MST_SITE_LOST);
    return MST_SITE_IS_LOST;
  }
  become(site, next);
  if (next == MST_SITE_PAUSED) site->ask_ns = now_ns;
  return MST_SITE_IS_ERROR;
}

static enum mst_site_end failed(struct mst_site *site, int lasts,
                                int64_t now_ns) {
  if (site->is == MST_SITE_REPLACED ||
      (site->is == MST_SITE_BOOTING && !site->terms.far))
    return give_up(site, MST_SITE_GONE, now_ns);
  if (site->is != MST_SITE_ASKED && site->is != MST_SITE_BOOTING)
    return MST_SITE_GOES_ON;
  site->linked = 0;
  const int64_t paused_ns = site->paused_ns + site->pause_ns;
  if (!site->again || lasts || paused_ns > site->terms.start_ns) {
    site->again = 0;
    return give_up(site, MST_SITE_PAUSED, now_ns);
  }
  ask_at(site, after(now_ns, site->pause_ns));
  site->paused_ns = paused_ns;
  site->pause_ns *= 2;
  return MST_SITE_GOES_ON;
}

// undone: what was taken is given again.
static void undone(struct mst_site *site, enum mst_site_do what,
                   int64_t now_ns) {
  const int asked = site->is == MST_SITE_ASKED || site->is == MST_SITE_BOOTING;
  const int boots =
      site->is == MST_SITE_BOOTING || site->is == MST_SITE_REPLACED;
  switch (what) {
  case MST_SITE_ASK:
    if (site->is == MST_SITE_ASKED && !site->ends) ask_at(site, now_ns);
    break;
  case MST_SITE_LOOK:
    if (site->is == MST_SITE_ASKED && !site->ends) site->look_ns = now_ns;
    break;
  case MST_SITE_LOOK_LEFT:
    if (site->is == MST_SITE_UP) site->limit_ns = now_ns;
    break;
  case MST_SITE_WHY:
    if (asked && site->ends) add(site, what);
    break;
  case MST_SITE_SERVE:
    if (!boots || site->ends) break;
    add(site, what);
    site->boots_ns = NEVER;
    break;
  case MST_SITE_TAKE:
    if (boots && !site->ends) add(site, what);
    break;
  default:
    add(site, what);
  }
}

enum mst_site_end mst_site_tell(struct mst_site *site, enum mst_site_fact fact,
                                int64_t value, int64_t now_ns) {
  switch (fact) {
  case MST_SITE_LINKED:
    linked(site, now_ns);
    break;
  case MST_SITE_ENDED:
    ended(site, now_ns);
    break;
  case MST_SITE_SERVERLESS:
    if (site->is == MST_SITE_UP) become(site, MST_SITE_GONE);
    break;
  case MST_SITE_NEEDED:
    if (site->is == MST_SITE_GONE) needed(site, now_ns);
    break;
  case MST_SITE_LEAVES:
    site->leaves = 1;
    if (site->is == MST_SITE_UP && site->terms.heals) leave(site, 0, now_ns);
    break;
  case MST_SITE_LEFT_NS:
    take_left(site, value, now_ns);
    break;
  case MST_SITE_PENDING:
    pending(site, now_ns);
    break;
  case MST_SITE_RUNS:
    runs(site, value, now_ns);
    break;
  case MST_SITE_BOOTED:
    if ((site->is == MST_SITE_BOOTING || site->is == MST_SITE_REPLACED) &&
        !site->ends)
      add(site, MST_SITE_TAKE);
    break;
  case MST_SITE_SERVED:
    served(site, now_ns);
    break;
  case MST_SITE_FAILED:
    return failed(site, value != 0, now_ns);
  case MST_SITE_SLEEP:
    if (site->is != MST_SITE_UP) break;
    site->left = site->link;
    become(site, MST_SITE_ASLEEP);
    break;
  case MST_SITE_WAKE:
    if (site->is == MST_SITE_ASLEEP) ask_anew(site, now_ns);
    break;
  case MST_SITE_RETRY:
    if (site->is == MST_SITE_LOST) retry(site, now_ns);
    break;
  case MST_SITE_UNDONE:
    undone(site, (enum mst_site_do)value, now_ns);
    break;
  }
  return MST_SITE_GOES_ON;
}

// ---- things to do

static void let_time_pass(struct mst_site *site, int64_t now_ns) {
  if (site->ask_ns <= now_ns) add(site, MST_SITE_ASK);
  if (site->look_ns <= now_ns) add(site, MST_SITE_LOOK);
  if (site->limit_ns <= now_ns) add(site, MST_SITE_LOOK_LEFT);
  if (after(site->boots_ns, site->terms.start_ns) < now_ns) {
    site->boots_ns = NEVER;
    add(site, MST_SITE_TAKE);
  }
}

enum mst_site_do mst_site_first(struct mst_site *site, int64_t now_ns) {
  let_time_pass(site, now_ns);
  return site->todo == 0
             ? MST_SITE_DO_COUNT
             : (enum mst_site_do)__builtin_ctz(site->todo); // the lowest bit
}

void mst_site_look_too(struct mst_site *site, int64_t now_ns) {
  if (site->look_ns != NEVER) site->look_ns = now_ns;
}

int mst_site_next(struct mst_site *site, enum mst_site_do *what,
                  int64_t now_ns) {
  *what = mst_site_first(site, now_ns);
  if (*what == MST_SITE_DO_COUNT) return 0;
  site->todo &= site->todo - 1u;
  if (*what == MST_SITE_ASK) asked(site, now_ns);
  if (*what == MST_SITE_LOOK) site->look_ns = NEVER;       // until the answer
  if (*what == MST_SITE_LOOK_LEFT) site->limit_ns = NEVER; // the same
  if (*what == MST_SITE_TAKE) site->boots_ns = NEVER;
  if (*what == MST_SITE_SERVE) site->boots_ns = now_ns;
  return 1;
}

int64_t mst_site_due_ns(const struct mst_site *site) {
  const int64_t boots_ns = after(site->boots_ns, site->terms.start_ns);
  int64_t due_ns = site->ask_ns;
  if (site->todo != 0) return INT64_MIN;
  if (site->look_ns < due_ns) due_ns = site->look_ns;
  if (site->limit_ns < due_ns) due_ns = site->limit_ns;
  if (boots_ns != NEVER && boots_ns < due_ns) due_ns = boots_ns + 1;
  return due_ns;
}

const char *mst_site_check(const struct mst_site *site) {
  const int asks = (site->todo >> MST_SITE_ASK & 1u) != 0;
  const int boots =
      site->is == MST_SITE_BOOTING || site->is == MST_SITE_REPLACED;
  const int serves = (site->todo >> MST_SITE_SERVE & 1u) != 0 ||
                     (site->todo >> MST_SITE_TAKE & 1u) != 0;
  if ((site->ask_ns != NEVER) != (site->is == MST_SITE_PAUSED))
    return "a host is asked for in a pause, and only then";
  if (asks && site->is != MST_SITE_PAUSED) return "it is asked for twice";
  if (site->look_ns != NEVER && site->is != MST_SITE_ASKED)
    return "the queue of a command that doesn't run";
  if (site->limit_ns != NEVER && site->is != MST_SITE_UP)
    return "the limit of a host that isn't used";
  if (serves && !boots) return "a fork server that nobody wants";
  if (site->boots_ns != NEVER && !boots) return "the limit of no fork server";
  if (site->ends && site->is != MST_SITE_ASKED && site->is != MST_SITE_BOOTING)
    return "the end of what wasn't asked for";
  if (site->linked && !site->terms.far) return "a link to this machine";
  if (site->left > site->link) return "a link that wasn't there is left";
  if (site->is == MST_SITE_UP && site->left == site->link && site->link > 0)
    return "it is up on a host that is left";
  if (site->paused_ns > site->terms.start_ns) return "it paused for too long";
  return NULL;
}
