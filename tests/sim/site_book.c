// The monitor's book of a site: see site.h.
#include "site.h"

#include <stddef.h>

#define S MST_NS_PER_S

const char *site_fact_name(enum mst_site_fact fact) {
  static const char *const names[] = {
      "LINKED", "ENDED",   "SERVERLESS", "NEEDED", "LEAVES",
      "LEFT",   "PENDING", "RUNS",       "BOOTED", "SERVED",
      "FAILED", "SLEEP",   "WAKE",       "RETRY",  "UNDONE"};
  return names[fact];
}

const char *site_do_name(enum mst_site_do what) {
  static const char *const names[] = {"SAY_GONE",  "SAY_LEAVES", "WHY",
                                      "TAKE",      "ASK",        "LOOK",
                                      "LOOK_LEFT", "SERVE"};
  return names[what];
}

const char *site_state_name(enum mst_site_is is) {
  static const char *const names[] = {"UP",    "GONE",    "REPLACED", "PAUSED",
                                      "ASKED", "BOOTING", "ASLEEP",   "LOST"};
  return names[is];
}

// ---- what is due

// drop: nothing of the last state is due but what is to be said.
static void drop(struct site_book *book) {
  for (int what = MST_SITE_WHY; what < MST_SITE_DO_COUNT; what++)
    book->due_ns[what] = SITE_NEVER;
}

static int64_t clamp(int64_t ns, int64_t least_ns, int64_t most_ns) {
  if (ns < least_ns) return least_ns;
  return ns > most_ns ? most_ns : ns;
}

static int64_t look_after(const struct site_book *book, int64_t now_ns) {
  return now_ns + clamp((now_ns - book->asked_ns) / 10, S, 30 * S);
}

static void watch_limit(struct site_book *book, int64_t now_ns) {
  if (book->terms.limited && book->terms.heals)
    book->due_ns[MST_SITE_LOOK_LEFT] = now_ns + 2 * S;
}

static void need_host(struct site_book *book, int64_t now_ns) {
  drop(book);
  book->has = SITE_NOTHING;
  book->server = SITE_SERVERLESS;
  book->asleep = book->lost = 0;
  book->again = 1;
  book->pauses = 0;
  book->due_ns[MST_SITE_ASK] = now_ns;
}

static void need_server(struct site_book *book, int first, int64_t now_ns) {
  drop(book);
  book->server = SITE_BOOTS;
  book->first = (uint8_t)first;
  book->booted = 0;
  book->lost = 0;
  book->due_ns[MST_SITE_SERVE] = now_ns;
}

// need_another: there was a host. It is asked for at once, but for one that keeps going away.
static void need_another(struct site_book *book, int64_t now_ns) {
  static const int64_t pauses_s[] = {0, 1, 2, 4, 8, 16, 30};
  const uint32_t most = sizeof pauses_s / sizeof pauses_s[0] - 1;
  if (now_ns >= book->came_ns + 10 * S) book->shorts = 0;
  const int64_t pause_ns = pauses_s[book->shorts] * S;
  need_host(book, now_ns + pause_ns);
  if (now_ns < book->came_ns + 10 * S && book->shorts < most) book->shorts++;
}

static void lose_host(struct site_book *book, int64_t now_ns) {
  need_another(book, now_ns);
  book->due_ns[MST_SITE_SAY_GONE] = now_ns;
}

static void leave(struct site_book *book, int64_t left_ns, int64_t now_ns) {
  book->left = book->link;
  book->left_ns = left_ns;
  need_another(book, now_ns);
  book->due_ns[MST_SITE_SAY_LEAVES] = now_ns;
}

void site_book_init(struct site_book *book, const struct mst_site_terms *terms,
                    enum mst_site_is is, int64_t now_ns) {
  *book = (struct site_book){.terms = *terms, .runs_ns = SITE_NEVER};
  drop(book);
  book->due_ns[MST_SITE_SAY_GONE] = SITE_NEVER;
  book->due_ns[MST_SITE_SAY_LEAVES] = SITE_NEVER;
  book->asleep = is == MST_SITE_ASLEEP;
  if (is == MST_SITE_PAUSED) book->due_ns[MST_SITE_ASK] = now_ns;
  if (is != MST_SITE_UP) return;
  book->server = SITE_SERVES;
  if (!terms->far) return;
  book->has = SITE_LINK;
  book->came_ns = now_ns;
  book->link = 1;
  watch_limit(book, now_ns);
}

// ---- facts

static int is_asked(const struct site_book *book) {
  return book->has == SITE_COMMAND ||
         (book->server == SITE_BOOTS && book->first);
}

static int is_paused(const struct site_book *book) {
  return book->due_ns[MST_SITE_ASK] != SITE_NEVER;
}

static void ask_why(struct site_book *book, enum mst_site_why cause,
                    int64_t now_ns) {
  if (book->why) return;
  drop(book);
  book->why = 1;
  book->cause = (uint8_t)cause;
  book->due_ns[MST_SITE_WHY] = now_ns;
}

static void link_ended(struct site_book *book, int64_t now_ns) {
  if (is_asked(book)) {
    if (book->has == SITE_LINK) book->has = SITE_NOTHING;
    ask_why(book, MST_SITE_WHY_ENDED, now_ns);
    return;
  }
  if (book->has != SITE_LINK) return;
  book->has = SITE_NOTHING;
  if (book->server == SITE_SERVES) {
    drop(book);
    book->server = SITE_SERVERLESS;
  } else if (book->server == SITE_BOOTS) {
    lose_host(book, now_ns);
  }
}

static void looked(struct site_book *book, int waits, int since_began,
                   int64_t now_ns) {
  if (book->has != SITE_COMMAND || book->why) return;
  book->due_ns[MST_SITE_LOOK] = look_after(book, now_ns);
  if (waits) {
    book->waited = 1;
    book->runs_ns = SITE_NEVER;
    if (now_ns - book->asked_ns > book->terms.queue_ns)
      ask_why(book, MST_SITE_WHY_QUEUE, now_ns);
    return;
  }
  if (book->runs_ns == SITE_NEVER)
    book->runs_ns = !book->waited && since_began ? book->asked_ns : now_ns;
  if (now_ns - book->runs_ns > book->terms.start_ns)
    ask_why(book, MST_SITE_WHY_LATE, now_ns);
}

static void looked_left(struct site_book *book, int64_t left_ns,
                        int64_t now_ns) {
  if (book->server != SITE_SERVES || !book->terms.heals) return;
  if (left_ns != SITE_NEVER && book->margin_ns == 0)
    book->margin_ns = clamp(left_ns / 10, 10 * S, 60 * S);
  if (left_ns != SITE_NEVER && left_ns <= book->margin_ns) {
    leave(book, clamp(left_ns, 1, SITE_NEVER), now_ns);
    return;
  }
  int64_t wait_ns = 600 * S;
  if (left_ns != SITE_NEVER) {
    wait_ns = clamp(left_ns - book->margin_ns, 0, wait_ns);
  } else if (book->margin_ns != 0) {
    wait_ns = book->margin_ns / 2;
  }
  book->due_ns[MST_SITE_LOOK_LEFT] = now_ns + wait_ns;
}

static void served(struct site_book *book, int64_t now_ns) {
  if (book->server != SITE_BOOTS) return;
  if (book->terms.far && book->has != SITE_LINK) return;
  drop(book);
  book->server = SITE_SERVES;
  book->again = 0;
  if (book->told && book->terms.heals) {
    leave(book, 0, now_ns);
  } else {
    watch_limit(book, now_ns);
  }
}

static const char *expect(enum mst_site_end got, enum mst_site_end want) {
  if (got == want) return NULL;
  if (want == MST_SITE_GOES_ON) return "it is given up without a cause";
  if (want == MST_SITE_IS_LOST) return "it isn't lost, with a cause";
  return "nobody gets an error";
}

// failed gives what is wrong. A start may take as long as all pauses together.
static const char *failed(struct site_book *book, int lasts,
                          enum mst_site_end end, int64_t now_ns) {
  const enum mst_site_end given_up =
      book->terms.only ? MST_SITE_IS_ERROR : MST_SITE_IS_LOST;
  if (!is_asked(book) || !book->terms.far) {
    if (book->server != SITE_BOOTS) return expect(end, MST_SITE_GOES_ON);
    drop(book);
    book->server = SITE_SERVERLESS;
    book->lost = !book->terms.only;
    return expect(end, given_up);
  }
  const int64_t all_ns = ((INT64_C(2) << book->pauses) - 1) * S;
  const int spent = all_ns > book->terms.start_ns;
  const int over = !book->again || lasts || spent;
  drop(book);
  book->has = SITE_NOTHING;
  book->server = SITE_SERVERLESS;
  if (over) {
    book->again = 0;
    book->lost = !book->terms.only;
    if (book->terms.only) book->due_ns[MST_SITE_ASK] = now_ns;
    return expect(end, given_up);
  }
  book->due_ns[MST_SITE_ASK] = now_ns + (S << book->pauses);
  book->pauses++;
  return expect(end, MST_SITE_GOES_ON);
}

static void undone(struct site_book *book, enum mst_site_do what,
                   int64_t now_ns) {
  int again = 1;
  switch (what) {
  case MST_SITE_ASK:
    again = book->has == SITE_COMMAND && !book->why;
    if (again) drop(book);
    if (again) book->has = SITE_NOTHING;
    break;
  case MST_SITE_LOOK:
    again = book->has == SITE_COMMAND && !book->why;
    break;
  case MST_SITE_LOOK_LEFT:
    again = book->server == SITE_SERVES;
    break;
  case MST_SITE_WHY:
    again = is_asked(book) && book->why;
    break;
  case MST_SITE_SERVE:
    again = book->server == SITE_BOOTS && !(book->first && book->why);
    // A fork server that wasn't asked for isn't late.
    if (again && !book->booted) book->due_ns[MST_SITE_TAKE] = SITE_NEVER;
    break;
  case MST_SITE_TAKE:
    again = book->server == SITE_BOOTS && !(book->first && book->why);
    break;
  default:
    break;
  }
  if (again) book->due_ns[what] = now_ns;
}

static int is_idle(const struct site_book *book) {
  return book->server == SITE_SERVERLESS && book->has != SITE_COMMAND &&
         !is_paused(book) && !book->lost && !book->asleep && !is_asked(book);
}

static int has_host(const struct site_book *book) {
  return !book->terms.far || book->has == SITE_LINK;
}

static void come_back(struct site_book *book, int64_t now_ns) {
  if (has_host(book)) {
    need_server(book, 0, now_ns);
  } else {
    lose_host(book, now_ns);
  }
}

static void retry(struct site_book *book, int64_t now_ns) {
  const int there = has_host(book);
  need_host(book, now_ns);
  if (!there) return;
  book->has = book->terms.far ? SITE_LINK : SITE_NOTHING;
  need_server(book, 1, now_ns);
}

const char *site_book_tell(struct site_book *book, enum mst_site_fact fact,
                           int64_t value, enum mst_site_end end,
                           int64_t now_ns) {
  switch (fact) {
  case MST_SITE_LINKED:
    if (book->has != SITE_COMMAND || book->why) break;
    book->has = SITE_LINK;
    book->came_ns = now_ns;
    need_server(book, 1, now_ns);
    break;
  case MST_SITE_ENDED:
    link_ended(book, now_ns);
    break;
  case MST_SITE_SERVERLESS:
    if (book->server != SITE_SERVES) break;
    drop(book);
    book->server = SITE_SERVERLESS;
    break;
  case MST_SITE_NEEDED:
    if (is_idle(book)) come_back(book, now_ns);
    break;
  case MST_SITE_LEAVES:
    book->told = 1;
    if (book->server == SITE_SERVES && book->terms.heals)
      leave(book, 0, now_ns);
    break;
  case MST_SITE_LEFT_NS:
    looked_left(book, value, now_ns);
    break;
  case MST_SITE_PENDING:
  case MST_SITE_RUNS:
    looked(book, fact == MST_SITE_PENDING, value != 0, now_ns);
    break;
  case MST_SITE_BOOTED:
    if (book->server != SITE_BOOTS || (book->first && book->why)) break;
    book->booted = 1;
    book->due_ns[MST_SITE_TAKE] = now_ns;
    break;
  case MST_SITE_SERVED:
    served(book, now_ns);
    break;
  case MST_SITE_FAILED:
    return failed(book, value != 0, end, now_ns);
  case MST_SITE_SLEEP:
    if (book->server != SITE_SERVES) break;
    drop(book);
    book->server = SITE_SERVERLESS;
    book->asleep = 1;
    book->left = book->link;
    break;
  case MST_SITE_WAKE:
    if (book->asleep) need_host(book, now_ns);
    break;
  case MST_SITE_RETRY:
    if (book->lost) retry(book, now_ns);
    break;
  case MST_SITE_UNDONE:
    undone(book, (enum mst_site_do)value, now_ns);
    break;
  }
  return expect(end, MST_SITE_GOES_ON);
}

// ---- verdicts

static const char *take_ask(struct site_book *book, const struct mst_site *site,
                            int64_t now_ns) {
  if (!book->terms.far) return "a command is run for this machine";
  if (book->has == SITE_COMMAND) return "two commands run for one host";
  if (book->server != SITE_SERVERLESS) return "a host is there already";
  drop(book);
  book->has = SITE_COMMAND;
  book->why = book->told = book->waited = 0;
  book->margin_ns = 0;
  book->asked_ns = now_ns;
  book->runs_ns = SITE_NEVER;
  book->link++;
  if (book->terms.queued) book->due_ns[MST_SITE_LOOK] = now_ns + S;
  return site->link == book->link ? NULL : "a link has another number";
}

static const char *take_serve(struct site_book *book, int64_t now_ns) {
  const int64_t start_ns = book->terms.start_ns;
  if (book->terms.far && book->has != SITE_LINK)
    return "a fork server boots where no link is";
  if (book->server != SITE_BOOTS) return "a fork server that nobody needs";
  if (!book->booted) book->due_ns[MST_SITE_TAKE] = now_ns + start_ns + 1;
  return NULL;
}

const char *site_book_take(struct site_book *book, const struct mst_site *site,
                           enum mst_site_do what, int64_t now_ns) {
  if (book->due_ns[what] > now_ns) return "what it gives isn't due";
  for (int first = 0; first < (int)what; first++) {
    if (book->due_ns[first] <= now_ns) return "it gives the second thing first";
  }
  book->due_ns[what] = SITE_NEVER;
  switch (what) {
  case MST_SITE_ASK:
    return take_ask(book, site, now_ns);
  case MST_SITE_SERVE:
    return take_serve(book, now_ns);
  case MST_SITE_WHY:
    return site->why == book->cause ? NULL : "it has another cause";
  case MST_SITE_SAY_LEAVES:
    return site->left_ns == book->left_ns ? NULL : "it has another time left";
  default:
    return NULL;
  }
}

static enum mst_site_is state_of(const struct site_book *book) {
  if (book->lost) return MST_SITE_LOST;
  if (book->asleep) return MST_SITE_ASLEEP;
  if (is_paused(book)) return MST_SITE_PAUSED;
  if (book->has == SITE_COMMAND) return MST_SITE_ASKED;
  if (book->server == SITE_SERVES) return MST_SITE_UP;
  if (book->server == SITE_SERVERLESS) return MST_SITE_GONE;
  return book->first ? MST_SITE_BOOTING : MST_SITE_REPLACED;
}

const char *site_book_settled(const struct site_book *book,
                              const struct mst_site *site, int64_t now_ns) {
  const char *wrong = mst_site_check(site);
  int64_t due_ns = SITE_NEVER;
  if (wrong != NULL) return wrong;
  for (int what = 0; what < MST_SITE_DO_COUNT; what++) {
    if (book->due_ns[what] <= now_ns) return "something due isn't given";
    if (book->due_ns[what] < due_ns) due_ns = book->due_ns[what];
  }
  if (mst_site_due_ns(site) != due_ns) return "it says another time";
  if (site->is != state_of(book)) return "it is in another state";
  if (site->left != book->left) return "workers leave other links";
  return NULL;
}
