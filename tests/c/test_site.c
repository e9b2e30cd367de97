// Tests of sched/site: when a host is asked for, is late and lost.
#include "mst_site_test.h"

// ---- the table

struct cell {
  enum mst_site_fact fact;
  int64_t value;
  enum mst_site_is from, to;
  uint32_t todo;
};

// All that isn't "-" or "noted".
static const struct cell cells[] = {
    {MST_SITE_LINKED, 0, MST_SITE_ASKED, MST_SITE_BOOTING, BIT(SERVE)},
    {MST_SITE_ENDED, 0, MST_SITE_UP, MST_SITE_GONE, 0},
    {MST_SITE_ENDED, 0, MST_SITE_REPLACED, MST_SITE_PAUSED, BIT(SAY_GONE)},
    {MST_SITE_ENDED, 0, MST_SITE_ASKED, MST_SITE_ASKED, BIT(WHY)},
    {MST_SITE_ENDED, 0, MST_SITE_BOOTING, MST_SITE_BOOTING, BIT(WHY)},
    {MST_SITE_SERVERLESS, 0, MST_SITE_UP, MST_SITE_GONE, 0},
    {MST_SITE_NEEDED, 0, MST_SITE_GONE, MST_SITE_REPLACED, BIT(SERVE)},
    {MST_SITE_LEAVES, 0, MST_SITE_UP, MST_SITE_PAUSED, BIT(SAY_LEAVES)},
    {MST_SITE_LEFT_NS, 5 * S, MST_SITE_UP, MST_SITE_PAUSED, BIT(SAY_LEAVES)},
    {MST_SITE_BOOTED, 0, MST_SITE_REPLACED, MST_SITE_REPLACED, BIT(TAKE)},
    {MST_SITE_BOOTED, 0, MST_SITE_BOOTING, MST_SITE_BOOTING, BIT(TAKE)},
    {MST_SITE_SERVED, 0, MST_SITE_REPLACED, MST_SITE_UP, 0},
    {MST_SITE_SERVED, 0, MST_SITE_BOOTING, MST_SITE_UP, 0},
    {MST_SITE_FAILED, 0, MST_SITE_REPLACED, MST_SITE_LOST, 0},
    {MST_SITE_FAILED, 0, MST_SITE_ASKED, MST_SITE_PAUSED, 0},
    {MST_SITE_FAILED, 0, MST_SITE_BOOTING, MST_SITE_PAUSED, 0},
    {MST_SITE_FAILED, 1, MST_SITE_REPLACED, MST_SITE_LOST, 0},
    {MST_SITE_FAILED, 1, MST_SITE_ASKED, MST_SITE_LOST, 0},
    {MST_SITE_FAILED, 1, MST_SITE_BOOTING, MST_SITE_LOST, 0},
    {MST_SITE_SLEEP, 0, MST_SITE_UP, MST_SITE_ASLEEP, 0},
    {MST_SITE_WAKE, 0, MST_SITE_ASLEEP, MST_SITE_PAUSED, 0},
    {MST_SITE_RETRY, 0, MST_SITE_LOST, MST_SITE_BOOTING, BIT(SERVE)}};

static void check_cell(enum mst_site_is from, enum mst_site_fact fact,
                       int64_t value) {
  struct cell want = {fact, value, from, from, 0};
  int changes = 0;
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
    const struct cell *one = &cells[i];
    if (one->from != from || one->fact != fact || one->value != value) continue;
    want = *one;
    changes = 1;
  }
  be(from);
  const int64_t due_ns = mst_site_due_ns(&site);
  const uint32_t link = site.link;
  const uint32_t left = site.left;
  const enum mst_site_end end = tell_of(fact, value);
  CHECK_INT(site.is, want.to);
  CHECK_INT(site.todo, want.todo);
  CHECK_INT(end, want.to == MST_SITE_LOST && from != MST_SITE_LOST
                     ? MST_SITE_IS_LOST
                     : MST_SITE_GOES_ON);
  CHECK_INT(site.link, link);
  if (!changes) CHECK_INT(site.left, left);
  // What a look answers says when the next one is.
  const int looks = from == MST_SITE_ASKED || from == MST_SITE_UP;
  if (!changes && !looks) CHECK_INT(mst_site_due_ns(&site), due_ns);
}

TEST("Each fact has its effect in each state, and an old one has none") {
  for (enum mst_site_fact fact = MST_SITE_LINKED; fact < MST_SITE_UNDONE;
       fact++) {
    for (enum mst_site_is is = MST_SITE_UP; is <= MST_SITE_LOST; is++) {
      const int is_time = fact == MST_SITE_LEFT_NS;
      check_cell(is, fact, is_time ? 5 * S : 0);
      if (is_time) check_cell(is, fact, NEVER);
      if (fact == MST_SITE_FAILED || fact == MST_SITE_RUNS)
        check_cell(is, fact, 1);
    }
  }
}

TEST("Workers wait for a host in four states; in two nobody knows") {
  for (enum mst_site_is is = MST_SITE_UP; is <= MST_SITE_LOST; is++) {
    be(is);
    CHECK_INT(mst_site_waits(&site),
              is >= MST_SITE_PAUSED && is <= MST_SITE_ASLEEP);
    CHECK_INT(mst_site_is_gone(&site),
              is == MST_SITE_GONE || is == MST_SITE_REPLACED);
  }
}

TEST("A host whose link is gone too is asked for again, this machine isn't") {
  be(MST_SITE_GONE);
  tell(MST_SITE_ENDED);
  CHECK_INT(site.is, MST_SITE_GONE);
  tell(MST_SITE_NEEDED);
  gives(MST_SITE_SAY_GONE);
  ask();
  CHECK_INT(site.link, 2);

  be(MST_SITE_LOST);
  tell(MST_SITE_ENDED);
  tell(MST_SITE_RETRY);
  CHECK_INT(site.is, MST_SITE_PAUSED);
  ask();

  const struct mst_site_terms here = {.heals = 1, .start_ns = 60 * S};
  make(&here, MST_SITE_UP);
  tell(MST_SITE_ENDED);
  CHECK_INT(site.is, MST_SITE_UP);
  tell(MST_SITE_SERVERLESS);
  tell(MST_SITE_NEEDED);
  CHECK_INT(site.is, MST_SITE_REPLACED);
  serve();
  tell(MST_SITE_SERVERLESS);
  tell(MST_SITE_NEEDED);
  CHECK_INT(tell_of(MST_SITE_FAILED, 0), MST_SITE_IS_LOST);
  tell(MST_SITE_RETRY);
  CHECK_INT(site.is, MST_SITE_BOOTING);
  serve();
  CHECK_INT(site.link, 0);
}

TEST("A host that is up from the start has a link, which may end") {
  struct mst_site_terms terms = far_terms;
  terms.limited = 1;
  make(&terms, MST_SITE_UP);
  CHECK_INT(site.link, 1);
  gives_at(102 * S, MST_SITE_LOOK_LEFT);
  lose_host();
  ask();
  CHECK_INT(site.link, 2);
}

TEST("A host that goes away again and again is asked for after pauses") {
  static const int64_t pauses_s[] = {1, 2, 4, 8, 16, 30, 30};
  be_up(&far_terms);
  lose_host();
  ask(); // at once, the first time
  for (size_t i = 0; i < sizeof pauses_s / sizeof pauses_s[0]; i++) {
    come();
    now_ns += 10 * S - 1;
    if (i % 2 == 0) {
      lose_host();
    } else {
      tell(MST_SITE_LEAVES);
      gives(MST_SITE_SAY_LEAVES);
    }
    CHECK_INT(site.is, MST_SITE_PAUSED);
    gives_at(now_ns + pauses_s[i] * S, MST_SITE_ASK);
  }
  // One that stays for ten seconds is as good as any.
  for (int i = 0; i < 2; i++) {
    come();
    now_ns += i == 0 ? 10 * S : S;
    lose_host();
    ask();
  }
}

// ---- failures

TEST("Pauses double until they are as long together as a start may take") {
  be_up(&far_terms);
  lose_host();
  ask();
  for (int64_t pause_ns = S; pause_ns <= 16 * S; pause_ns *= 2) {
    now_ns += 7 * S;
    CHECK_INT(fail_asked(0), MST_SITE_GOES_ON);
    CHECK_INT(site.is, MST_SITE_PAUSED);
    gives_at(now_ns + pause_ns, MST_SITE_ASK);
  }
  CHECK_INT(fail_asked(0), MST_SITE_IS_LOST);
  CHECK_INT(site.is, MST_SITE_LOST);
  rests();
  // The user gives it as many pauses as before.
  tell(MST_SITE_RETRY);
  ask();
  CHECK_INT(fail_asked(0), MST_SITE_GOES_ON);
  gives_at(now_ns + S, MST_SITE_ASK);
}

TEST("A sum of pauses that is just as long as a start may take is allowed") {
  struct mst_site_terms terms = far_terms;
  for (int more = 0; more < 2; more++) {
    terms.start_ns = 3 * S - 1 + more;
    be_up(&terms);
    lose_host();
    ask();
    CHECK_INT(fail_asked(0), MST_SITE_GOES_ON);
    gives_at(now_ns + S, MST_SITE_ASK);
    CHECK_INT(fail_asked(0), more ? MST_SITE_GOES_ON : MST_SITE_IS_LOST);
  }
}

TEST("A host that came ends the row of pauses") {
  be_up(&far_terms);
  for (int i = 0; i < 10; i++) {
    now_ns += 10 * S;
    lose_host();
    ask();
    CHECK_INT(fail_asked(0), MST_SITE_GOES_ON);
    gives_at(now_ns + S, MST_SITE_ASK);
    come();
  }
}

TEST("What would fail the same way isn't tried again") {
  be_up(&far_terms);
  lose_host();
  ask();
  CHECK_INT(fail_asked(1), MST_SITE_IS_LOST);
  rests();
}

TEST("A host that never came and that no work needs isn't asked for again") {
  make(&far_terms, MST_SITE_PAUSED);
  ask();
  CHECK_INT(fail_asked(0), MST_SITE_IS_LOST);
  make(&far_terms, MST_SITE_PAUSED);
  ask();
  tell(MST_SITE_LINKED);
  gives(MST_SITE_SERVE);
  CHECK_INT(tell_of(MST_SITE_FAILED, 0), MST_SITE_IS_LOST);
  rests();
  // Once it was there, or work needs it, it is.
  make(&far_terms, MST_SITE_PAUSED);
  ask();
  come();
  lose_host();
  ask();
  CHECK_INT(fail_asked(0), MST_SITE_GOES_ON);
  wake(&far_terms);
  CHECK_INT(fail_asked(0), MST_SITE_GOES_ON);
}

TEST("A cluster's only host is an error, and whoever comes next asks again") {
  struct mst_site_terms terms = far_terms;
  terms.only = 1;
  make(&terms, MST_SITE_PAUSED);
  for (int i = 0; i < 3; i++) {
    ask();
    CHECK_INT(fail_asked(i % 2), MST_SITE_IS_ERROR);
    CHECK_INT(site.is, MST_SITE_PAUSED);
  }
  ask();
  come();
  lose_host();
  ask();
  CHECK_INT(fail_asked(0), MST_SITE_GOES_ON);
  gives_at(now_ns + S, MST_SITE_ASK);
  CHECK_INT(fail_asked(1), MST_SITE_IS_ERROR);
  ask();
  come();
  tell(MST_SITE_SERVERLESS);
  tell(MST_SITE_NEEDED);
  gives(MST_SITE_SERVE);
  CHECK_INT(tell_of(MST_SITE_FAILED, 0), MST_SITE_IS_ERROR);
  CHECK_INT(site.is, MST_SITE_GONE);
  rests();
  tell(MST_SITE_NEEDED);
  serve();
}

TEST("A command that can't be run and a queue that refuses are failures") {
  struct mst_site_terms terms = far_terms;
  terms.queued = 1;
  wake(&terms);
  CHECK_INT(tell_of(MST_SITE_FAILED, 0), MST_SITE_GOES_ON);
  gives_at(now_ns + S, MST_SITE_ASK);
  gives_at(now_ns + S, MST_SITE_LOOK);
  CHECK_INT(tell_of(MST_SITE_FAILED, 1), MST_SITE_IS_LOST);
  rests();
}

TEST("A fork server that is late is taken once, ready or not") {
  static const enum mst_site_is states[] = {MST_SITE_BOOTING,
                                            MST_SITE_REPLACED};
  for (int i = 0; i < 4; i++) {
    be(states[i % 2]);
    gives_at(now_ns + 60 * S + 1, MST_SITE_TAKE);
    rests();
    if (i < 2) {
      tell(MST_SITE_SERVED);
      CHECK_INT(site.is, MST_SITE_UP);
    } else {
      (void)tell_of(MST_SITE_FAILED, 0);
      CHECK_INT(site.is, i % 2 ? MST_SITE_LOST : MST_SITE_PAUSED);
    }
    now_ns += S / 2;
    rests();
  }
  be(MST_SITE_BOOTING);
  tell(MST_SITE_BOOTED);
  gives(MST_SITE_TAKE);
  now_ns += 100 * S; // while it is being taken
  rests();
}

TEST("A host that ends while its late fork server is looked at is gone") {
  be(MST_SITE_BOOTING);
  gives_at(now_ns + 60 * S + 1, MST_SITE_TAKE);
  tell(MST_SITE_ENDED);
  tell(MST_SITE_SERVED);
  CHECK_INT(site.is, MST_SITE_BOOTING);
  gives(MST_SITE_WHY);
  CHECK_INT(tell_of(MST_SITE_FAILED, 0), MST_SITE_GOES_ON);
  be(MST_SITE_REPLACED);
  gives_at(now_ns + 60 * S + 1, MST_SITE_TAKE);
  tell(MST_SITE_ENDED);
  CHECK_INT(tell_of(MST_SITE_FAILED, 0), MST_SITE_GOES_ON);
  gives(MST_SITE_SAY_GONE);
  ask();
}

TEST("A fork server's time begins when it is asked for") {
  wake(&far_terms);
  tell(MST_SITE_LINKED);
  now_ns += 1000 * S;
  gives(MST_SITE_SERVE);
  undone(MST_SITE_SERVE);
  now_ns += 1000 * S;
  gives(MST_SITE_SERVE);
  gives_at(now_ns + 60 * S + 1, MST_SITE_TAKE);
}

// ---- queues

TEST("A queue is looked at after a tenth of the wait, within 1 s and 30 s") {
  for (int runs = 0; runs < 2; runs++) {
    be_queued(NEVER);
    if (runs) site.terms.start_ns = 10000 * S;
    const int64_t asked_ns = now_ns;
    gives_at(now_ns + S, MST_SITE_LOOK);
    for (int i = 0; i < 100; i++) {
      const int64_t tenth_ns = (now_ns - asked_ns) / 10;
      rests();
      tell(runs ? MST_SITE_RUNS : MST_SITE_PENDING);
      gives_at(now_ns + (tenth_ns < S        ? S
                         : tenth_ns > 30 * S ? 30 * S
                                             : tenth_ns),
               MST_SITE_LOOK);
    }
    CHECK(now_ns > asked_ns + 1000 * S);
    tell(MST_SITE_LINKED);
    serve();
  }
}

TEST("A command that can't wait in a queue is never looked at") {
  wake(&far_terms);
  CHECK_INT(mst_site_due_ns(&site), NEVER);
}

static void late_at(int64_t late_ns, int64_t since_began) {
  now_ns = late_ns;
  gives(MST_SITE_LOOK);
  (void)tell_of(MST_SITE_RUNS, since_began);
  rests();
  now_ns = late_ns + S;
  (void)tell_of(MST_SITE_RUNS, since_began);
}

TEST("A start has its time from when the command is seen to run") {
  be_queued(NEVER);
  now_ns += 40 * S;
  gives(MST_SITE_LOOK);
  tell(MST_SITE_RUNS);
  late_at(now_ns + 60 * S, 0);
  gives(MST_SITE_WHY);
  CHECK_INT(site.why, MST_SITE_WHY_LATE);
  tell(MST_SITE_LINKED); // too late
  CHECK_INT(tell_of(MST_SITE_FAILED, 0), MST_SITE_GOES_ON);
}

TEST("A start has its time from the beginning if the command never waited") {
  be_queued(NEVER);
  const int64_t asked_ns = now_ns;
  now_ns += 40 * S;
  gives(MST_SITE_LOOK);
  (void)tell_of(MST_SITE_RUNS, 1);
  late_at(asked_ns + 60 * S, 1);
  gives(MST_SITE_WHY);
  CHECK_INT(site.why, MST_SITE_WHY_LATE);
}

TEST("A command that waits again has its time anew once it runs") {
  for (int since_began = 0; since_began < 2; since_began++) {
    be_queued(NEVER);
    now_ns += 40 * S;
    gives(MST_SITE_LOOK);
    (void)tell_of(MST_SITE_RUNS, since_began);
    now_ns += 50 * S;
    gives(MST_SITE_LOOK);
    tell(MST_SITE_PENDING);
    now_ns += 100 * S;
    gives(MST_SITE_LOOK);
    (void)tell_of(MST_SITE_RUNS, since_began);
    late_at(now_ns + 60 * S, since_began);
    gives(MST_SITE_WHY);
  }
}

TEST("A command may wait in its queue for so long, and no longer") {
  be_queued(300 * S);
  const int64_t asked_ns = now_ns;
  now_ns += 300 * S;
  gives(MST_SITE_LOOK);
  tell(MST_SITE_PENDING);
  rests();
  now_ns = asked_ns + 301 * S;
  tell(MST_SITE_PENDING);
  gives(MST_SITE_WHY);
  CHECK_INT(site.why, MST_SITE_WHY_QUEUE);
  tell(MST_SITE_PENDING);
  tell(MST_SITE_RUNS);
  tell(MST_SITE_ENDED); // it is taken back
  rests();
  CHECK_INT(site.why, MST_SITE_WHY_QUEUE);
  CHECK_INT(tell_of(MST_SITE_FAILED, 1), MST_SITE_IS_LOST);
}
