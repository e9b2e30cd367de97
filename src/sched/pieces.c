// How to hand out the elements of a map: see pieces.h.
#include "sched/pieces.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "base/mst_err.h"

// A piece should take about this long: much longer than handing it out, much shorter than anybody
// waits. Without retries, few elements should be lost with a worker.
#define PIECE_S 0.05
#define PIECE_ONCE_S 0.005
// Even at the end a piece should take longer than handing it out.
#define PIECE_LEAST_S 0.002
// Handing out takes a fifth of this: less isn't shared out. If its elements turn out slow the
// others wait for one: that should be little of what they have to do.
#define PIECE_WHOLE_S 0.0005
#define PIECE_WHOLE_LEAST 16
// If pieces take less, each worker gets a second one to go on with.
#define PIECE_QUICK_S 0.02
// The time before a piece's elements should be at most a twentieth of the piece.
#define SETUP_TIMES 20
// A piece of elements whose time is known may take this many times what it should.
#define BUDGET_TIMES 2
// While nothing is known, a worker gets this small a part of its share.
#define FIRST_PART 100
// With `ahead`, no piece is larger than this part of a worker's share; with a time limit, which may
// be near what a single element takes, than this part of all elements.
#define AHEAD_PARTS 64
#define AHEAD_LIMIT_PARTS 4096
// A lost piece is cut into this many.
#define CUTS 64
// A piece should take at most a quarter of an element's time limit.
#define LIMIT_PART 4

static const struct mst_late_rule rule = {.floor_ns = 100 * MST_NS_PER_MS,
                                          .least = 2};

void mst_pieces_init(struct mst_pieces *pieces,
                     const struct mst_pieces_terms *terms) {
  MST_ASSERT(terms->workers > 0);
  *pieces = (struct mst_pieces){.terms = *terms,
                                .left = terms->count,
                                .stop = terms->count,
                                .seconds = PIECE_S};
  if (terms->timeout_s > 0) {
    pieces->seconds = fmin(PIECE_S, terms->timeout_s / LIMIT_PART);
  } else if (terms->retries == 0) {
    pieces->seconds = PIECE_ONCE_S;
  }
}

void mst_pieces_free(struct mst_pieces *pieces) {
  free(pieces->pieces);
  free(pieces->again);
  memset(pieces, 0, sizeof *pieces);
}

// ---- rates and sizes

// rate gives seconds per element for the newest elements, negative if unknown.
static double rate(const struct mst_pieces *pieces) {
  if (pieces->rate_count == 0) return -1.0;
  return pieces
      ->rates[(pieces->rate_at + MST_PIECES_RATES - 1) % MST_PIECES_RATES];
}

static void note_rate(struct mst_pieces *pieces, double seconds_each) {
  pieces->rates[pieces->rate_at] = seconds_each;
  pieces->most_s = fmax(pieces->most_s, seconds_each);
  pieces->rate_at = (pieces->rate_at + 1) % MST_PIECES_RATES;
  if (pieces->rate_count < MST_PIECES_RATES) pieces->rate_count++;
}

static uint64_t fresh_left(const struct mst_pieces *pieces) {
  return pieces->terms.count - pieces->next;
}

// to_size counts the elements whose pieces have no size yet.
static uint64_t to_size(const struct mst_pieces *pieces) {
  uint64_t left = fresh_left(pieces);
  for (uint32_t i = 0; i < pieces->again_count; i++) {
    const struct mst_again *again = &pieces->again[i];
    if (again->chunk == 0) left += again->last - again->first + 1;
  }
  return left;
}

static double budget(const struct mst_pieces *pieces) {
  if (pieces->terms.ahead) return 0;
  return pieces->seconds * (pieces->rate_count > 0 ? BUDGET_TIMES : 1);
}

static double most_ahead(const struct mst_pieces_terms *terms) {
  const double parts = terms->timeout_s > 0
                           ? AHEAD_LIMIT_PARTS
                           : AHEAD_PARTS * (double)terms->workers;
  return ceil((double)terms->count / parts);
}

// is_tail: all that is left takes the workers less than a piece should. Each gets its share.
static int is_tail(const struct mst_pieces *pieces) {
  const double seconds = (double)to_size(pieces) * rate(pieces);
  return pieces->rate_count > 0 && pieces->terms.retries > 0 &&
         !pieces->terms.ahead &&
         seconds < PIECE_LEAST_S * (double)pieces->terms.workers;
}

static int is_whole(const struct mst_pieces *pieces) {
  const uint64_t left = to_size(pieces);
  return is_tail(pieces) && (double)left * rate(pieces) < PIECE_WHOLE_S &&
         left >= (uint64_t)PIECE_WHOLE_LEAST * pieces->terms.workers;
}

// is_known: an earlier map took so little that one worker may have all of this one, where nobody
// loses much if it takes long.
static int is_known(const struct mst_pieces *pieces) {
  const struct mst_pieces_terms *terms = &pieces->terms;
  return pieces->rate_count == 0 && terms->each_s > 0 &&
         (double)terms->count * terms->each_s < PIECE_WHOLE_S &&
         terms->count >= (uint64_t)PIECE_WHOLE_LEAST * terms->workers &&
         terms->heals && terms->retries > 0 && terms->timeout_s <= 0 &&
         !terms->ahead && !terms->speculate;
}

static uint64_t size_of_next(const struct mst_pieces *pieces) {
  const double left = (double)to_size(pieces);
  // What took too long together would run again: without retries nothing may.
  if (pieces->terms.timeout_s > 0 && pieces->terms.retries == 0) return 1;
  const double workers = (double)pieces->terms.workers;
  const double each = fmax(rate(pieces), 1e-9);
  double size = ceil(left / (2 * workers)), most;
  if (pieces->terms.ahead) {
    most = most_ahead(&pieces->terms);
  } else if (is_known(pieces)) {
    size = most = left;
  } else if (pieces->rate_count == 0) {
    most = (double)pieces->terms.count / (workers * FIRST_PART);
  } else {
    most = pieces->seconds / each;
    if (is_whole(pieces)) {
      size = left;
    } else if (is_tail(pieces)) {
      size = fmax(size, ceil(left / (workers - pieces->tail)));
    } else if (pieces->terms.retries > 0) {
      size = fmax(size, PIECE_LEAST_S / each);
    }
  }
  size = floor(fmin(fmin(size, fmax(most, 1)), left));
  return size < 1 ? 1 : (uint64_t)size;
}

static uint64_t size_of(const struct mst_piece *piece) {
  return piece->last - piece->first + 1;
}

// places_for gives how many pieces may run at the same time.
static uint32_t places_for(const struct mst_pieces *pieces) {
  if (pieces->terms.ahead) return UINT32_MAX;
  const int quick = pieces->rate_count > 0 &&
                    rate(pieces) * (double)size_of_next(pieces) < PIECE_QUICK_S;
  return pieces->terms.workers * (quick ? 2 : 1);
}

// ---- pieces

// make_again makes room for `more` entries of `again`.
static int make_again(struct mst_pieces *pieces, uint32_t more) {
  if (pieces->again_capacity - pieces->again_count >= more) return 0;
  const uint32_t capacity = 2 * (pieces->again_count + more);
  struct mst_again *again = realloc(pieces->again, capacity * sizeof *again);
  if (again == NULL) return -MST_EMEM;
  pieces->again = again;
  pieces->again_capacity = capacity;
  return 0;
}

// make_room for one more piece, and for what any that runs may leave.
static int make_room(struct mst_pieces *pieces) {
  if (make_again(pieces, pieces->running + 1) != 0) return -MST_EMEM;
  if (pieces->running < pieces->capacity) return 0;
  const uint32_t capacity = pieces->capacity == 0 ? 16 : 2 * pieces->capacity;
  struct mst_piece *more = realloc(pieces->pieces, capacity * sizeof *more);
  if (more == NULL) return -MST_EMEM;
  memset(more + pieces->capacity, 0,
         (capacity - pieces->capacity) * sizeof *more);
  pieces->pieces = more;
  pieces->capacity = capacity;
  return 0;
}

// run begins a piece and fills in the action. There must be room.
static int run(struct mst_pieces *pieces, const struct mst_piece *piece,
               int64_t now_ns, struct mst_piece_action *action) {
  uint32_t number = pieces->unused;
  while (pieces->pieces[number].runs)
    number++;
  pieces->unused = number + 1;
  MST_ASSERT(number < pieces->capacity);
  struct mst_piece *at = &pieces->pieces[number];
  *at = *piece;
  at->runs = 1;
  at->begin_ns = now_ns;
  pieces->running++;
  const uint32_t tried =
      at->lost < pieces->terms.retries ? pieces->terms.retries - at->lost : 0;
  *action = (struct mst_piece_action){
      .kind = MST_PIECE_RUN,
      .piece = number,
      .first = at->first,
      .last = at->last,
      // A lost piece of several elements is retried in smaller pieces, not by the pool.
      .tries = size_of(at) == 1 ? tried : 0,
      .worker = at->worker,
      .alone = at->alone,
      .budget_s = budget(pieces)};
  return 1;
}

static int one_is_alone(const struct mst_pieces *pieces) {
  if (pieces->running != 1) return 0;
  for (uint32_t i = 0; i < pieces->capacity; i++) {
    if (pieces->pieces[i].runs) return pieces->pieces[i].alone;
  }
  return 0;
}

// next_again: what was lost latest; else the first elements.
static uint32_t next_again(const struct mst_pieces *pieces) {
  uint32_t found = 0;
  for (uint32_t i = pieces->again_count; i > 0; i--) {
    const struct mst_again *again = &pieces->again[i - 1];
    if (again->chunk > 0) return i - 1;
    if (again->first < pieces->again[found].first) found = i - 1;
  }
  return found;
}

// cut takes the next elements to hand out again; 0 if they must wait.
static int cut(struct mst_pieces *pieces, struct mst_piece *piece) {
  const uint32_t at = next_again(pieces);
  struct mst_again *again = &pieces->again[at];
  if (again->alone && pieces->running > 0) return 0;
  const uint64_t size = again->chunk > 0 ? again->chunk : size_of_next(pieces);
  uint64_t last = again->last;
  if (again->last - again->first >= size) last = again->first + size - 1;
  *piece = (struct mst_piece){.first = again->first,
                              .last = last,
                              .lost = again->lost,
                              .alone = again->alone};
  if (last == again->last) {
    pieces->again_count--;
    memmove(again, again + 1, (pieces->again_count - at) * sizeof *again);
  } else {
    again->first = last + 1;
  }
  return 1;
}

static int next_run(struct mst_pieces *pieces, int64_t now_ns,
                    struct mst_piece_action *action) {
  struct mst_piece piece;
  if (pieces->again_count == 0 && fresh_left(pieces) == 0) return 0;
  if (pieces->running >= places_for(pieces) || one_is_alone(pieces)) return 0;
  if (make_room(pieces) != 0) return -MST_EMEM;
  const int was_tail = is_tail(pieces);
  if (pieces->again_count > 0) {
    if (!cut(pieces, &piece)) return 0;
  } else {
    piece = (struct mst_piece){.first = pieces->next};
    piece.last = pieces->next + size_of_next(pieces) - 1;
    pieces->next = piece.last + 1;
  }
  piece.group = ++pieces->groups;
  piece.worker = MST_PIECE_NONE;
  pieces->tail = was_tail && pieces->tail + 1 < pieces->terms.workers
                     ? pieces->tail + 1
                     : 0;
  return run(pieces, &piece, now_ns, action);
}

// ---- copies

static uint32_t copies_of(const struct mst_pieces *pieces, uint32_t group) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < pieces->capacity; i++) {
    const struct mst_piece *piece = &pieces->pieces[i];
    n += piece->runs && !piece->over && piece->group == group;
  }
  return n;
}

static int is_newest(const struct mst_pieces *pieces,
                     const struct mst_piece *piece) {
  for (uint32_t i = 0; i < pieces->capacity; i++) {
    const struct mst_piece *other = &pieces->pieces[i];
    if (other->runs && !other->over && other->group == piece->group &&
        other->begin_ns > piece->begin_ns) {
      return 0;
    }
  }
  return 1;
}

// Counts live pieces, and their copies besides the first.
static void count_live(const struct mst_pieces *pieces, uint32_t *groups,
                       uint32_t *extra) {
  uint32_t live = 0;
  *groups = 0;
  for (uint32_t i = 0; i < pieces->capacity; i++) {
    const struct mst_piece *piece = &pieces->pieces[i];
    if (!piece->runs || piece->over) continue;
    live++;
    int seen = 0;
    for (uint32_t k = 0; k < i && !seen; k++) {
      const struct mst_piece *other = &pieces->pieces[k];
      seen = other->runs && !other->over && other->group == piece->group;
    }
    *groups += !seen;
  }
  *extra = live - *groups;
}

static uint32_t idle_worker(const struct mst_pieces *pieces) {
  for (uint32_t w = 0; w < pieces->terms.workers; w++) {
    int busy = 0;
    for (uint32_t i = 0; i < pieces->capacity && !busy; i++)
      busy = pieces->pieces[i].runs && pieces->pieces[i].worker == w;
    if (!busy) return w;
  }
  return MST_PIECE_NONE;
}

static double median_rate(const struct mst_pieces *pieces) {
  double rates[MST_PIECES_RATES];
  memcpy(rates, pieces->rates, pieces->rate_count * sizeof *rates);
  return mst_median(rates, pieces->rate_count);
}

// find_late gives the longest-running piece that should get a copy, or NULL.
static const struct mst_piece *find_late(const struct mst_pieces *pieces,
                                         int64_t now_ns) {
  const double each_ns = median_rate(pieces) * (double)MST_NS_PER_S;
  const double most_ns = budget(pieces) * (double)MST_NS_PER_S + each_ns;
  const struct mst_piece *found = NULL;
  for (uint32_t i = 0; i < pieces->capacity; i++) {
    const struct mst_piece *piece = &pieces->pieces[i];
    if (!piece->runs || piece->over) continue;
    // The first piece on a worker may load packages: that isn't late.
    const double expected_ns =
        fmin(fmin(each_ns * (double)size_of(piece), most_ns) +
                 pieces->setup_s * (double)MST_NS_PER_S,
             9e18);
    const int is_late =
        now_ns - piece->begin_ns > mst_late_after(&rule, (int64_t)expected_ns);
    if (is_late && (found == NULL || piece->begin_ns < found->begin_ns) &&
        copies_of(pieces, piece->group) < MST_LATE_COPIES &&
        is_newest(pieces, piece)) {
      found = piece;
    }
  }
  return found;
}

// next_copy gives a straggler's elements to an idle worker, too.
static int next_copy(struct mst_pieces *pieces, int64_t now_ns,
                     struct mst_piece_action *action) {
  uint32_t groups, extra;
  if (!pieces->terms.speculate || pieces->again_count > 0 ||
      fresh_left(pieces) > 0 || pieces->rate_count == 0) {
    return 0;
  }
  count_live(pieces, &groups, &extra);
  if (!mst_late_is_tail(groups, pieces->groups) ||
      extra >= mst_late_most(&rule, pieces->terms.workers)) {
    return 0;
  }
  const struct mst_piece *late = find_late(pieces, now_ns);
  if (late == NULL) return 0;
  if (!pieces->located) {
    pieces->located = 1;
    *action = (struct mst_piece_action){.kind = MST_PIECE_PLACES};
    return 1;
  }
  struct mst_piece copy = *late;
  copy.worker = idle_worker(pieces);
  if (copy.worker == MST_PIECE_NONE) return 0;
  if (make_room(pieces) != 0) return -MST_EMEM;
  return run(pieces, &copy, now_ns, action);
}

// ---- actions and events

int mst_pieces_next(struct mst_pieces *pieces, int64_t now_ns,
                    struct mst_piece_action *action) {
  for (uint32_t i = 0; pieces->cancels > 0 && i < pieces->capacity; i++) {
    if (!pieces->pieces[i].runs || !pieces->pieces[i].cancel) continue;
    pieces->pieces[i].cancel = 0;
    pieces->cancels--;
    *action = (struct mst_piece_action){.kind = MST_PIECE_CANCEL, .piece = i};
    return 1;
  }
  int rc = next_run(pieces, now_ns, action);
  if (rc == 0) rc = next_copy(pieces, now_ns, action);
  if (rc == 0)
    pieces->located = 0; // places are valid only for this round of questions
  return rc;
}

static struct mst_piece *running(struct mst_pieces *pieces, uint32_t piece) {
  MST_ASSERT(piece < pieces->capacity && pieces->pieces[piece].runs);
  return &pieces->pieces[piece];
}

void mst_pieces_at(struct mst_pieces *pieces, uint32_t piece, uint32_t worker) {
  running(pieces, piece)->worker = worker;
}

int mst_pieces_over(const struct mst_pieces *pieces, uint32_t piece) {
  return piece < pieces->capacity && pieces->pieces[piece].runs &&
         pieces->pieces[piece].over;
}

static void end_piece(struct mst_pieces *pieces, struct mst_piece *at) {
  const uint32_t piece = (uint32_t)(at - pieces->pieces);
  pieces->cancels -= at->cancel;
  at->runs = at->cancel = 0;
  if (piece < pieces->unused) pieces->unused = piece;
  pieces->running--;
}

void mst_pieces_ended(struct mst_pieces *pieces, uint32_t piece) {
  struct mst_piece *at = running(pieces, piece);
  if (!at->over && copies_of(pieces, at->group) == 1)
    pieces->left -= size_of(at);
  end_piece(pieces, at);
}

// hand_back puts elements before all that were never handed out, but for those that aren't wanted
// any more. There is room.
static void hand_back(struct mst_pieces *pieces, struct mst_again again) {
  const uint64_t end = again.last + 1;
  const uint64_t from = again.first < pieces->stop ? pieces->stop : again.first;
  if (end > from) pieces->left -= end - from;
  if (again.first >= pieces->stop) return;
  if (end > from) again.last = from - 1;
  MST_ASSERT(pieces->again_count < pieces->again_capacity);
  pieces->again[pieces->again_count++] = again;
}

void mst_pieces_stop(struct mst_pieces *pieces, uint64_t at) {
  if (at >= pieces->stop) return;
  pieces->stop = at;
  const uint64_t fresh = at > pieces->next ? at : pieces->next;
  pieces->left -= pieces->terms.count - fresh;
  pieces->terms.count = fresh;
  const uint32_t count = pieces->again_count;
  pieces->again_count = 0;
  for (uint32_t i = 0; i < count; i++)
    hand_back(pieces, pieces->again[i]);
}

enum mst_piece_end mst_pieces_done(struct mst_pieces *pieces, uint32_t piece,
                                   uint64_t count, double seconds,
                                   double setup_s) {
  const struct mst_piece done = *running(pieces, piece);
  MST_ASSERT(count > 0 && count <= size_of(&done));
  end_piece(pieces, &pieces->pieces[piece]);
  if (done.over) return MST_PIECE_DROP;
  for (uint32_t i = 0; i < pieces->capacity; i++) {
    struct mst_piece *other = &pieces->pieces[i];
    if (!other->runs || other->over || other->group != done.group) continue;
    other->over = other->cancel = 1;
    pieces->cancels++;
  }
  pieces->left -= count;
  note_rate(pieces, seconds / (double)count);
  pieces->setup_s = fmax(pieces->setup_s, setup_s);
  if (pieces->terms.timeout_s <= 0 && pieces->terms.retries > 0)
    pieces->seconds = fmax(PIECE_S, SETUP_TIMES * setup_s);
  if (count < size_of(&done)) {
    hand_back(pieces,
              (struct mst_again){.first = done.first + count,
                                 .last = done.last,
                                 .chunk = done.lost > 0 ? size_of(&done) : 0,
                                 .lost = done.lost,
                                 .alone = done.alone});
  }
  return MST_PIECE_COUNTS;
}

// hand_out_again puts elements before all others. An element's last try must be a piece of its own.
static int hand_out_again(struct mst_pieces *pieces,
                          const struct mst_piece *piece, uint32_t lost,
                          int was_late, int alone) {
  if (make_again(pieces, pieces->running + 1) != 0) return -MST_EMEM;
  const uint64_t count = size_of(piece);
  const int single =
      count <= CUTS || (!was_late && lost >= pieces->terms.retries);
  hand_back(pieces,
            (struct mst_again){.first = piece->first,
                               .last = piece->last,
                               .chunk = single ? 1 : (count + CUTS - 1) / CUTS,
                               .lost = lost,
                               .alone = alone != 0});
  return 0;
}

enum mst_piece_end mst_pieces_lost(struct mst_pieces *pieces, uint32_t piece,
                                   enum mst_piece_loss loss, uint32_t attempts,
                                   int alone, uint32_t *total) {
  const struct mst_piece gone = *running(pieces, piece);
  *total = gone.lost + (loss == MST_PIECE_LATE ? 0 : attempts);
  end_piece(pieces, &pieces->pieces[piece]);
  // Another copy has the same elements.
  if (gone.over || copies_of(pieces, gone.group) > 0) return MST_PIECE_DROP;
  const int is_late = loss == MST_PIECE_LATE, is_one = gone.first == gone.last;
  const uint32_t lost = *total;
  // A single element has had all its tries, unless its worker was given up.
  const int again = is_late ? !is_one
                            : pieces->terms.heals &&
                                  mst_tries_left(lost, pieces->terms.retries) &&
                                  (!is_one || loss == MST_PIECE_GIVEN_UP);
  if (again && hand_out_again(pieces, &gone, lost, is_late, alone) == 0) {
    return MST_PIECE_AGAIN;
  }
  pieces->left -= size_of(&gone);
  return MST_PIECE_COUNTS;
}

double mst_pieces_each(const struct mst_pieces *pieces) {
  return pieces->most_s;
}

const char *mst_pieces_check(const struct mst_pieces *pieces) {
  uint64_t open = fresh_left(pieces);
  uint32_t running_now = 0, cancels = 0;
  for (uint32_t i = 0; i < pieces->capacity; i++) {
    const struct mst_piece *piece = &pieces->pieces[i];
    if (!piece->runs && i < pieces->unused) return "an unused number is missed";
    if (!piece->runs) continue;
    running_now++;
    cancels += piece->cancel;
    if (piece->first > piece->last || piece->last >= pieces->next)
      return "a piece has elements that weren't handed out";
    if (piece->cancel && !piece->over) return "what is wanted is cancelled";
    if (piece->over) continue;
    if (copies_of(pieces, piece->group) > MST_LATE_COPIES)
      return "a piece has too many copies";
    int is_first = 1;
    for (uint32_t k = 0; k < i; k++) {
      const struct mst_piece *other = &pieces->pieces[k];
      if (!other->runs || other->over || other->group != piece->group) continue;
      if (other->first != piece->first || other->last != piece->last)
        return "copies of a piece have other elements";
      is_first = 0;
    }
    if (is_first) open += size_of(piece);
    if (piece->alone && pieces->running > 1 && !pieces->terms.speculate)
      return "what must be alone isn't";
  }
  for (uint32_t i = 0; i < pieces->again_count; i++)
    open += pieces->again[i].last - pieces->again[i].first + 1;
  if (running_now != pieces->running || cancels != pieces->cancels)
    return "what runs, or is to be cancelled, is counted wrong";
  if (open != pieces->left) return "an element is lost, or there twice";
  return NULL;
}
