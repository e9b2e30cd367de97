// Tests of sched/site: when workers leave a host, and what an interrupt changes.
#include "mst_site_test.h"

// ---- the end of a host

static void be_limited(void) {
  struct mst_site_terms terms = far_terms;
  terms.limited = 1;
  be_up(&terms);
}

TEST("A time limit is looked at 2 s after a fork server is there") {
  struct mst_site_terms terms = far_terms;
  be_limited();
  gives_at(now_ns + 2 * S, MST_SITE_LOOK_LEFT);
  rests();
  for (int i = 0; i < 2; i++) { // no limit, or no workers that come back
    terms.limited = i == 1;
    terms.heals = i == 0;
    be_up(&terms);
    CHECK_INT(mst_site_due_ns(&site), NEVER);
    make(&terms, MST_SITE_UP);
    CHECK_INT(mst_site_due_ns(&site), NEVER);
  }
  (void)tell_of(MST_SITE_LEFT_NS, 1);
  tell(MST_SITE_LEAVES);
  CHECK_INT(site.is, MST_SITE_UP);
}

TEST("Workers leave a tenth of the time before a limit, 10 s to 60 s") {
  static const struct {
    int64_t left_s, margin_s;
  } cases[] = {{30, 10}, {100, 10}, {200, 20}, {500, 50}, {640, 60}, {660, 60}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int64_t margin_ns = cases[i].margin_s * S;
    be_limited();
    now_ns += 2 * S;
    gives(MST_SITE_LOOK_LEFT);
    (void)tell_of(MST_SITE_LEFT_NS, cases[i].left_s * S);
    gives_at(now_ns + cases[i].left_s * S - margin_ns, MST_SITE_LOOK_LEFT);
    CHECK_INT(site.left, 0);
    (void)tell_of(MST_SITE_LEFT_NS, margin_ns);
    CHECK_INT(site.is, MST_SITE_PAUSED);
    CHECK_INT(site.left, 1);
    CHECK_INT(site.left_ns, margin_ns);
    gives(MST_SITE_SAY_LEAVES);
    ask();
    come();
    CHECK_INT(site.link, 2);
    // The next one has a margin of its own.
    now_ns += 2 * S;
    gives(MST_SITE_LOOK_LEFT);
    (void)tell_of(MST_SITE_LEFT_NS, 3000 * S);
    CHECK_INT(site.margin_ns, 60 * S);
  }
}

TEST("A limit that is far away is looked at every ten minutes") {
  be_limited();
  now_ns += 2 * S;
  gives(MST_SITE_LOOK_LEFT);
  (void)tell_of(MST_SITE_LEFT_NS, 3600 * S);
  gives_at(now_ns + 600 * S, MST_SITE_LOOK_LEFT);
  (void)tell_of(MST_SITE_LEFT_NS, 70 * S); // an administrator shortened it
  gives_at(now_ns + 10 * S, MST_SITE_LOOK_LEFT);
  (void)tell_of(MST_SITE_LEFT_NS, 3600 * S); // and prolonged it
  gives_at(now_ns + 600 * S, MST_SITE_LOOK_LEFT);
  (void)tell_of(MST_SITE_LEFT_NS, -5 * S);
  CHECK_INT(site.is, MST_SITE_PAUSED);
  CHECK_INT(site.left_ns, 1); // 0 is for those that were told to end
}

TEST("An unknown limit is looked at again, and sooner if it was known") {
  be_limited();
  now_ns += 2 * S;
  gives(MST_SITE_LOOK_LEFT);
  (void)tell_of(MST_SITE_LEFT_NS, NEVER);
  gives_at(now_ns + 600 * S, MST_SITE_LOOK_LEFT);
  (void)tell_of(MST_SITE_LEFT_NS, 200 * S);
  gives_at(now_ns + 180 * S, MST_SITE_LOOK_LEFT);
  (void)tell_of(MST_SITE_LEFT_NS, NEVER);
  gives_at(now_ns + 10 * S, MST_SITE_LOOK_LEFT);
  (void)tell_of(MST_SITE_LEFT_NS, 10 * S);
  gives(MST_SITE_SAY_LEAVES);
}

TEST("A host that was told to end is left, also if that was told too early") {
  static const enum mst_site_is states[] = {MST_SITE_GONE, MST_SITE_REPLACED,
                                            MST_SITE_ASKED, MST_SITE_BOOTING,
                                            MST_SITE_LOST};
  be(MST_SITE_UP);
  tell(MST_SITE_LEAVES);
  CHECK_INT(site.left, 1);
  CHECK_INT(site.left_ns, 0);
  gives(MST_SITE_SAY_LEAVES);
  ask();
  come();
  CHECK_INT(site.is, MST_SITE_UP);
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
    be(states[i]);
    tell(MST_SITE_LEAVES);
    if (site.is == MST_SITE_GONE) tell(MST_SITE_NEEDED);
    if (site.is == MST_SITE_LOST) tell(MST_SITE_RETRY);
    if (site.is == MST_SITE_ASKED) tell(MST_SITE_LINKED);
    tell(MST_SITE_SERVED);
    CHECK_INT(site.is, MST_SITE_PAUSED);
    CHECK_INT(site.left, 1);
    gives(MST_SITE_SAY_LEAVES);
    ask();
    come();
    CHECK_INT(site.left, 1);
  }
  // The host after it is another one.
  be(MST_SITE_GONE);
  tell(MST_SITE_LEAVES);
  tell(MST_SITE_ENDED);
  tell(MST_SITE_NEEDED);
  gives(MST_SITE_SAY_GONE);
  ask();
  come();
}

TEST("A host where nothing is to do is left, and another one asked for") {
  be(MST_SITE_UP);
  tell(MST_SITE_SLEEP);
  CHECK_INT(site.left, 1);
  CHECK_INT(mst_site_due_ns(&site), NEVER);
  tell(MST_SITE_ENDED);
  tell(MST_SITE_WAKE);
  ask();
  CHECK_INT(site.link, 2);
  CHECK_INT(fail_asked(0), MST_SITE_GOES_ON);
  gives_at(now_ns + S, MST_SITE_ASK);
  come();
}

// ---- interrupts

TEST("What wasn't carried out is given again, once") {
  be_queued(NEVER);
  undone(MST_SITE_ASK);
  CHECK_INT(site.is, MST_SITE_PAUSED);
  ask();
  rests();
  CHECK_INT(fail_asked(0), MST_SITE_GOES_ON); // as it would have before
  gives_at(now_ns + S, MST_SITE_ASK);
  gives_at(now_ns + S, MST_SITE_LOOK);
  undone(MST_SITE_LOOK);
  gives(MST_SITE_LOOK);
  rests();
  tell(MST_SITE_ENDED);
  gives(MST_SITE_WHY);
  undone(MST_SITE_WHY);
  gives(MST_SITE_WHY);
  rests();
  (void)tell_of(MST_SITE_FAILED, 0);
  gives_at(now_ns + 2 * S, MST_SITE_ASK);
  tell(MST_SITE_LINKED);
  gives(MST_SITE_SERVE);
  undone(MST_SITE_SERVE);
  gives(MST_SITE_SERVE);
  rests();
  tell(MST_SITE_BOOTED);
  gives(MST_SITE_TAKE);
  undone(MST_SITE_TAKE);
  gives(MST_SITE_TAKE);
  rests();
  tell(MST_SITE_SERVED);
  lose_host();
  undone(MST_SITE_SAY_GONE);
  gives(MST_SITE_SAY_GONE);
  ask();
  be_limited();
  gives_at(now_ns + 2 * S, MST_SITE_LOOK_LEFT);
  undone(MST_SITE_LOOK_LEFT);
  gives(MST_SITE_LOOK_LEFT);
  rests();
  (void)tell_of(MST_SITE_LEFT_NS, 5 * S);
  gives(MST_SITE_SAY_LEAVES);
  undone(MST_SITE_SAY_LEAVES);
  gives(MST_SITE_SAY_LEAVES);
  ask();
  rests();
}

TEST("A start that is interrupted costs no attempt") {
  make(&far_terms, MST_SITE_PAUSED);
  for (int i = 0; i < 10; i++) {
    ask();
    undone(MST_SITE_ASK);
  }
  ask();
  come();
}

TEST("What was overtaken isn't given again") {
  // What the user was told of can be said in any state, and nothing else.
  for (enum mst_site_do what = MST_SITE_WHY; what < MST_SITE_DO_COUNT; what++) {
    be(MST_SITE_PAUSED);
    undone(what);
    rests();
    be(MST_SITE_LOST);
    undone(what);
    rests();
    be(MST_SITE_GONE);
    undone(what);
    rests();
    be(MST_SITE_ASLEEP);
    undone(what);
    rests();
  }
  be_queued(NEVER);
  gives_at(now_ns + S, MST_SITE_LOOK);
  tell(MST_SITE_ENDED);
  undone(MST_SITE_LOOK);
  undone(MST_SITE_ASK);
  gives(MST_SITE_WHY);
  rests();
  be(MST_SITE_BOOTING);
  tell(MST_SITE_BOOTED);
  gives(MST_SITE_TAKE);
  tell(MST_SITE_ENDED);
  undone(MST_SITE_TAKE);
  undone(MST_SITE_SERVE);
  gives(MST_SITE_WHY);
  rests();
}
