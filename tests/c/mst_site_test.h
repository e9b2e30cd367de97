// What tests of sched/site do step by step: they tell facts, take what is to be done, and let time
// pass. Each step checks the invariants, and that what is due is neither late nor early.
#ifndef MST_SITE_TEST_H
#define MST_SITE_TEST_H

#include "mst_test.h"
#include "sched/site.h"

#define S MST_NS_PER_S
#define NEVER INT64_MAX
#define BIT(what) (1u << MST_SITE_##what)

static struct mst_site site;
static int64_t now_ns;

// A host that a command leads to, whose workers come back; others are there.
static const struct mst_site_terms far_terms = {
    .far = 1, .heals = 1, .start_ns = 60 * S, .queue_ns = NEVER};

// sound: no invariant is broken, and what is due is neither late nor early.
static inline void sound(void) {
  const int64_t due_ns = mst_site_due_ns(&site);
  enum mst_site_do what;
  struct mst_site copy = site;
  CHECK(mst_site_check(&site) == NULL);
  if (due_ns == NEVER) {
    CHECK_INT(mst_site_next(&copy, &what, NEVER - 1), 0);
    return;
  }
  const int64_t at_ns = due_ns > now_ns ? due_ns : now_ns;
  CHECK_INT(mst_site_next(&copy, &what, at_ns), 1);
  copy = site;
  if (due_ns > now_ns) CHECK_INT(mst_site_next(&copy, &what, due_ns - 1), 0);
}

static inline enum mst_site_end tell_of(enum mst_site_fact fact,
                                        int64_t value) {
  const enum mst_site_end end = mst_site_tell(&site, fact, value, now_ns);
  sound();
  return end;
}

static inline void tell(enum mst_site_fact fact) { (void)tell_of(fact, 0); }

static inline void undone(enum mst_site_do what) {
  (void)tell_of(MST_SITE_UNDONE, what);
}

// rests: nothing is to be done now.
static inline void rests(void) {
  enum mst_site_do what;
  CHECK_INT(mst_site_next(&site, &what, now_ns), 0);
  sound();
}

static inline void gives(enum mst_site_do want) {
  enum mst_site_do what = MST_SITE_DO_COUNT;
  CHECK_INT(mst_site_next(&site, &what, now_ns), 1);
  CHECK_INT(what, want);
  sound();
}

// gives_at: when time has passed until then, and not a moment earlier.
static inline void gives_at(int64_t at_ns, enum mst_site_do want) {
  now_ns = at_ns - 1;
  rests();
  now_ns = at_ns;
  gives(want);
}

static inline void make(const struct mst_site_terms *terms,
                        enum mst_site_is is) {
  now_ns = 100 * S;
  mst_site_init(&site, terms, is, now_ns);
  sound();
}

static inline void serve(void) {
  gives(MST_SITE_SERVE);
  rests();
  tell(MST_SITE_BOOTED);
  gives(MST_SITE_TAKE);
  tell(MST_SITE_SERVED);
  CHECK_INT(site.is, MST_SITE_UP);
}

// ask: the command runs; come: it leads to a host.
static inline void ask(void) {
  gives(MST_SITE_ASK);
  CHECK_INT(site.is, MST_SITE_ASKED);
}
static inline void come(void) {
  tell(MST_SITE_LINKED);
  serve();
}

static inline enum mst_site_end fail_asked(int lasts) {
  tell(MST_SITE_ENDED);
  gives(MST_SITE_WHY);
  CHECK_INT(site.why, MST_SITE_WHY_ENDED);
  return tell_of(MST_SITE_FAILED, lasts);
}

// wake: a host is asked for because work needs it.
static inline void wake(const struct mst_site_terms *terms) {
  make(terms, MST_SITE_ASLEEP);
  rests();
  tell(MST_SITE_WAKE);
  ask();
}

static inline void be_up(const struct mst_site_terms *terms) {
  wake(terms);
  come();
  rests();
}

static inline void lose_host(void) {
  tell(MST_SITE_ENDED);
  rests();
  tell(MST_SITE_NEEDED);
  gives(MST_SITE_SAY_GONE);
}

// be brings a host into a state in which nothing is left to do now.
static inline void be(enum mst_site_is is) {
  if (is == MST_SITE_ASKED || is == MST_SITE_BOOTING || is == MST_SITE_PAUSED) {
    wake(&far_terms);
  } else {
    be_up(&far_terms);
  }
  if (is == MST_SITE_GONE || is == MST_SITE_REPLACED || is == MST_SITE_LOST)
    tell(MST_SITE_SERVERLESS);
  if (is == MST_SITE_REPLACED || is == MST_SITE_LOST) {
    tell(MST_SITE_NEEDED);
    gives(MST_SITE_SERVE);
  }
  if (is == MST_SITE_BOOTING) {
    tell(MST_SITE_LINKED);
    gives(MST_SITE_SERVE);
  }
  if (is == MST_SITE_PAUSED)
    CHECK_INT(tell_of(MST_SITE_FAILED, 0), MST_SITE_GOES_ON);
  if (is == MST_SITE_LOST)
    CHECK_INT(tell_of(MST_SITE_FAILED, 0), MST_SITE_IS_LOST);
  if (is == MST_SITE_ASLEEP) tell(MST_SITE_SLEEP);
  rests();
  CHECK_INT(site.is, is);
}

static inline void be_queued(int64_t queue_ns) {
  struct mst_site_terms terms = far_terms;
  terms.queued = 1;
  terms.queue_ns = queue_ns;
  wake(&terms);
}

#endif
