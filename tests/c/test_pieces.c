// Tests of sched/pieces and sched/late: one situation each, then random ones against a book of
// their own.
#include <stdlib.h>
#include <string.h>

#include "mst_random.h"
#include "mst_test.h"
#include "sched/pieces.h"

#define MS INT64_C(1000000)

static int next(struct mst_pieces *pieces, int64_t now_ns,
                struct mst_piece_action *action) {
  const int rc = mst_pieces_next(pieces, now_ns, action);
  const char *wrong = mst_pieces_check(pieces);
  CHECK_TEXT(wrong == NULL ? "" : wrong, "");
  return rc;
}

// done answers for a whole piece.
static enum mst_piece_end done(struct mst_pieces *pieces, uint32_t piece,
                               double seconds, double setup_s) {
  const struct mst_piece *at = &pieces->pieces[piece];
  return mst_pieces_done(pieces, piece, at->last - at->first + 1, seconds,
                         setup_s);
}

static struct mst_pieces_terms terms_of(uint64_t count, uint32_t workers) {
  return (struct mst_pieces_terms){
      .count = count, .workers = workers, .retries = 2, .heals = 1};
}

TEST("Elements are handed out in order, each once, in pieces that grow and end "
     "small") {
  struct mst_pieces pieces;
  struct mst_piece_action action;
  const struct mst_pieces_terms terms = terms_of(100000, 4);
  mst_pieces_init(&pieces, &terms);
  uint64_t expected = 0, largest = 0, last_size = 0, first_size = 0;
  int64_t now_ns = 0;
  uint32_t running[8], count = 0;
  uint64_t sizes[8];
  while (pieces.left > 0) {
    while (next(&pieces, now_ns, &action) == 1) {
      CHECK_INT(action.kind, MST_PIECE_RUN);
      CHECK_INT(action.first, expected);
      CHECK(count < 8);
      running[count] = action.piece;
      sizes[count++] = action.last - action.first + 1;
      expected = action.last + 1;
      last_size = action.last - action.first + 1;
      if (first_size == 0) first_size = last_size;
      if (last_size > largest) largest = last_size;
    }
    now_ns += MS;
    CHECK_INT(done(&pieces, running[0], 1e-5 * (double)sizes[0], 0),
              MST_PIECE_COUNTS);
    count--;
    memmove(running, running + 1, count * sizeof *running);
    memmove(sizes, sizes + 1, count * sizeof *sizes);
  }
  CHECK_INT(expected, 100000);
  CHECK_INT(first_size, 250);
  CHECK(largest >= 4000 && largest <= 5000); // 0.05 s of 10 us each
  CHECK(last_size <= 400);                   // 2 ms, and a little
  mst_pieces_free(&pieces);
}

TEST("Elements lost together run again in 64 parts, then one by one, then "
     "count as lost") {
  struct mst_pieces pieces;
  struct mst_piece_action action;
  struct mst_pieces_terms terms = terms_of(6400, 1);
  mst_pieces_init(&pieces, &terms);
  uint32_t total;
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(done(&pieces, action.piece, 1e-9, 0), MST_PIECE_COUNTS);
  CHECK_INT(next(&pieces, 0, &action), 1);
  const uint64_t first = action.first, size = action.last - action.first + 1;
  CHECK(size > 64);
  CHECK_INT(action.tries, 0);
  CHECK_INT(
      mst_pieces_lost(&pieces, action.piece, MST_PIECE_LOST, 1, 0, &total),
      MST_PIECE_AGAIN);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(action.first, first);
  CHECK_INT(action.last - action.first + 1, (size + 63) / 64);
  CHECK_INT(
      mst_pieces_lost(&pieces, action.piece, MST_PIECE_LOST, 1, 0, &total),
      MST_PIECE_AGAIN);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(action.first, first);
  CHECK_INT(action.last,
            first); // two losses of two: the last try is a single one
  CHECK_INT(action.tries, 0);
  const uint64_t left = pieces.left;
  CHECK_INT(
      mst_pieces_lost(&pieces, action.piece, MST_PIECE_LOST, 1, 0, &total),
      MST_PIECE_COUNTS);
  CHECK_INT(total, 3);
  CHECK_INT(pieces.left, left - 1);
  mst_pieces_free(&pieces);
}

TEST("The pool may retry a single element; if its worker is given up that is "
     "reported") {
  struct mst_pieces pieces;
  struct mst_piece_action action;
  const struct mst_pieces_terms terms = terms_of(1, 2);
  uint32_t total;
  mst_pieces_init(&pieces, &terms);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(action.tries, 2);
  CHECK_INT(
      mst_pieces_lost(&pieces, action.piece, MST_PIECE_GIVEN_UP, 1, 0, &total),
      MST_PIECE_AGAIN);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(action.tries, 1);
  CHECK_INT(
      mst_pieces_lost(&pieces, action.piece, MST_PIECE_LOST, 2, 0, &total),
      MST_PIECE_COUNTS);
  CHECK_INT(total, 3);
  mst_pieces_free(&pieces);
}

TEST("Without healing, or without tries left, a loss counts at once") {
  struct mst_pieces pieces;
  struct mst_piece_action action;
  uint32_t total;
  for (int k = 0; k < 2; k++) {
    struct mst_pieces_terms terms = terms_of(500, 1);
    if (k == 0) terms.heals = 0;
    if (k == 1) terms.retries = 0;
    mst_pieces_init(&pieces, &terms);
    CHECK_INT(next(&pieces, 0, &action), 1);
    CHECK_INT(
        mst_pieces_lost(&pieces, action.piece, MST_PIECE_LOST, 1, 0, &total),
        MST_PIECE_COUNTS);
    CHECK_INT(pieces.left, 500 - (action.last - action.first + 1));
    mst_pieces_free(&pieces);
  }
}

TEST("Elements that took too long together run separately, without a loss; a "
     "single one counts") {
  struct mst_pieces pieces;
  struct mst_piece_action action;
  struct mst_pieces_terms terms = terms_of(400, 1);
  uint32_t total;
  terms.timeout_s = 1;
  mst_pieces_init(&pieces, &terms);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(action.last, 3);
  CHECK_INT(
      mst_pieces_lost(&pieces, action.piece, MST_PIECE_LATE, 1, 0, &total),
      MST_PIECE_AGAIN);
  CHECK_INT(total, 0);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(action.first, 0);
  CHECK_INT(action.last, 0);
  CHECK_INT(
      mst_pieces_lost(&pieces, action.piece, MST_PIECE_LATE, 1, 0, &total),
      MST_PIECE_COUNTS);
  mst_pieces_free(&pieces);
}

TEST("With a time limit and without retries no element runs twice: each is a "
     "piece") {
  struct mst_pieces pieces;
  struct mst_piece_action action;
  struct mst_pieces_terms terms = terms_of(10000, 2);
  terms.timeout_s = 1;
  terms.retries = 0;
  for (int ahead = 0; ahead < 2; ahead++) {
    terms.ahead = (uint8_t)ahead;
    mst_pieces_init(&pieces, &terms);
    for (uint64_t k = 0; k < 10000; k++) {
      CHECK_INT(mst_pieces_next(&pieces, 0, &action), 1);
      CHECK(action.first == k && action.last == k);
      if (ahead) continue;
      CHECK_INT(done(&pieces, action.piece, 1e-6, 0), MST_PIECE_COUNTS);
    }
    mst_pieces_free(&pieces);
  }
}

TEST("Elements that ran out of memory run again alone") {
  struct mst_pieces pieces;
  struct mst_piece_action action, other;
  const struct mst_pieces_terms terms = terms_of(2, 2);
  uint32_t total;
  mst_pieces_init(&pieces, &terms);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(next(&pieces, 0, &other), 1);
  CHECK_INT(
      mst_pieces_lost(&pieces, action.piece, MST_PIECE_GIVEN_UP, 1, 1, &total),
      MST_PIECE_AGAIN);
  CHECK_INT(next(&pieces, 0, &action), 0); // the other still runs
  CHECK(!other.alone);
  CHECK_INT(done(&pieces, other.piece, 1, 0), MST_PIECE_COUNTS);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK(
      action.alone); // its worker waits until the others have given back memory
  CHECK_INT(next(&pieces, 0, &other), 0);
  mst_pieces_free(&pieces);
}

TEST("F4 A late piece gets a copy on an idle worker, the first answer counts") {
  struct mst_pieces pieces;
  struct mst_piece_action action;
  struct mst_pieces_terms terms = terms_of(8, 4);
  uint32_t piece[8], slow;
  terms.speculate = 1;
  mst_pieces_init(&pieces, &terms);
  for (int k = 0; k < 4; k++) {
    CHECK_INT(next(&pieces, 0, &action), 1);
    piece[k] = action.piece;
  }
  slow = piece[0];
  int64_t now_ns = 50 * MS;
  for (int k = 1; k < 4; k++)
    CHECK_INT(done(&pieces, piece[k], 0.05, 0), MST_PIECE_COUNTS);
  for (int k = 1; k < 4; k++) {
    CHECK_INT(next(&pieces, now_ns, &action), 1);
    piece[k] = action.piece;
  }
  for (int k = 1; k < 4; k++)
    CHECK_INT(done(&pieces, piece[k], 0.05, 0), MST_PIECE_COUNTS);
  CHECK_INT(next(&pieces, now_ns, &action), 1); // the eighth
  piece[1] = action.piece;
  now_ns = 90 * MS;
  CHECK_INT(done(&pieces, piece[1], 0.05, 0), MST_PIECE_COUNTS);
  CHECK_INT(next(&pieces, now_ns, &action), 0); // 0.1 s at least
  now_ns = 101 * MS;
  CHECK_INT(next(&pieces, now_ns, &action), 1);
  CHECK_INT(action.kind, MST_PIECE_PLACES);
  mst_pieces_at(&pieces, slow, 0);
  CHECK_INT(next(&pieces, now_ns, &action), 1);
  CHECK_INT(action.kind, MST_PIECE_RUN);
  CHECK_INT(action.worker, 1);
  CHECK_INT(action.first, 0);
  CHECK_INT(next(&pieces, now_ns, &action), 0); // the copy isn't late
  CHECK_INT(done(&pieces, action.piece, 0.05, 0), MST_PIECE_COUNTS);
  CHECK_INT(pieces.left, 0);
  CHECK(mst_pieces_over(&pieces, slow));
  CHECK_INT(next(&pieces, now_ns, &action), 1);
  CHECK_INT(action.kind, MST_PIECE_CANCEL);
  CHECK_INT(action.piece, slow);
  CHECK_INT(next(&pieces, now_ns, &action), 0);
  CHECK_INT(done(&pieces, slow, 9, 0), MST_PIECE_DROP);
  CHECK_INT(pieces.left, 0);
  mst_pieces_free(&pieces);
}

TEST("C2: loading packages first doesn't make a piece late") {
  struct mst_pieces pieces;
  struct mst_piece_action action, other;
  struct mst_pieces_terms terms = terms_of(2, 2);
  terms.speculate = 1;
  mst_pieces_init(&pieces, &terms);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(next(&pieces, 0, &other), 1);
  CHECK_INT(done(&pieces, other.piece, 0.05, 2), MST_PIECE_COUNTS);
  CHECK_INT(next(&pieces, 4000 * MS, &other), 0);
  CHECK_INT(next(&pieces, 4200 * MS, &other), 1);
  CHECK_INT(other.kind, MST_PIECE_PLACES);
  mst_pieces_free(&pieces);
}

TEST("F4 The loss of a copy doesn't count for its piece, the last one's does") {
  struct mst_pieces pieces;
  struct mst_piece_action action;
  struct mst_pieces_terms terms = terms_of(2, 2);
  uint32_t total;
  terms.speculate = 1;
  mst_pieces_init(&pieces, &terms);
  CHECK_INT(next(&pieces, 0, &action), 1);
  const uint32_t slow = action.piece;
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(done(&pieces, action.piece, 0.01, 0), MST_PIECE_COUNTS);
  CHECK_INT(next(&pieces, 200 * MS, &action), 1);
  CHECK_INT(action.kind, MST_PIECE_PLACES);
  mst_pieces_at(&pieces, slow, 1);
  CHECK_INT(next(&pieces, 200 * MS, &action), 1);
  CHECK_INT(action.worker, 0);
  CHECK_INT(mst_pieces_lost(&pieces, slow, MST_PIECE_LOST, 3, 0, &total),
            MST_PIECE_DROP);
  CHECK_INT(pieces.left, 1);
  CHECK_INT(
      mst_pieces_lost(&pieces, action.piece, MST_PIECE_LOST, 3, 0, &total),
      MST_PIECE_COUNTS);
  CHECK_INT(pieces.left, 0);
  mst_pieces_free(&pieces);
}

TEST("Late, tail and copies: the rule that maps and stages share") {
  const struct mst_late_rule rule = {.floor_ns = 500 * MS, .least = 1};
  CHECK_INT(mst_late_after(&rule, 100 * MS), 500 * MS);
  CHECK_INT(mst_late_after(&rule, 400 * MS), 800 * MS);
  CHECK_INT(mst_late_after(&rule, -1), INT64_MAX);
  CHECK_INT(mst_late_after(&rule, INT64_MAX - 1), INT64_MAX);
  CHECK(mst_late_is_tail(1, 1) && mst_late_is_tail(1, 3));
  CHECK(mst_late_is_tail(25, 100) && !mst_late_is_tail(26, 100));
  CHECK_INT(mst_late_most(&rule, 4), 1);
  CHECK_INT(mst_late_most(&rule, 64), 6);
  CHECK(mst_tries_left(2, 2) && !mst_tries_left(3, 2) && !mst_tries_left(1, 0));
  double odd[] = {3, 1, 2}, even[] = {4, 1, 2, 3};
  CHECK(mst_median(odd, 3) == 2.0 && mst_median(even, 4) == 2.5);
}

TEST("Ahead: all elements are handed out at once, small pieces last; with a "
     "time limit in smaller ones") {
  static const struct {
    uint64_t count;
    uint32_t workers;
    double timeout_s;
    uint32_t pieces; // at most
  } cases[] = {{100, 2, 0, 100}, {100000, 2, 0, 160},
               {1, 3, 0, 1},     {1000000, 64, 0, 5000},
               {100, 2, 5, 100}, {100000, 2, 5, 4200}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct mst_pieces pieces;
    struct mst_piece_action action;
    struct mst_pieces_terms terms = terms_of(cases[i].count, cases[i].workers);
    terms.ahead = 1;
    terms.timeout_s = cases[i].timeout_s;
    mst_pieces_init(&pieces, &terms);
    uint64_t expected = 0, before = UINT64_MAX;
    uint32_t count = 0;
    while (mst_pieces_next(&pieces, 0, &action) == 1) {
      CHECK_INT(action.kind, MST_PIECE_RUN);
      CHECK_INT(action.first, expected);
      CHECK(action.last - action.first + 1 <= before);
      before = action.last - action.first + 1;
      expected = action.last + 1;
      count++;
    }
    CHECK_INT(expected, cases[i].count);
    CHECK(count <= cases[i].pieces);
    CHECK_INT(before, 1);
    // One that is lost is cut up, and the numbers of others are used again.
    uint32_t total;
    const enum mst_piece_end end =
        mst_pieces_lost(&pieces, 0, MST_PIECE_LOST, 1, 0, &total);
    CHECK_INT(end, pieces.pieces[0].first == pieces.pieces[0].last
                       ? MST_PIECE_COUNTS
                       : MST_PIECE_AGAIN);
    if (end == MST_PIECE_AGAIN) {
      CHECK_INT(mst_pieces_next(&pieces, 0, &action), 1);
      CHECK_INT(action.piece, 0);
      CHECK_INT(action.first, 0);
    }
    mst_pieces_free(&pieces);
  }
}

TEST("What a piece's budget doesn't reach is handed out again, in order, in "
     "pieces of "
     "the size that its elements suggest") {
  struct mst_pieces pieces;
  struct mst_piece_action action, other;
  const struct mst_pieces_terms terms = terms_of(100, 2);
  mst_pieces_init(&pieces, &terms);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK(action.last == 0 && action.budget_s == 0.05);
  CHECK_INT(next(&pieces, 0, &other), 1);
  CHECK_INT(next(&pieces, 0, &(struct mst_piece_action){0}), 0);
  CHECK_INT(done(&pieces, action.piece, 1e-4, 0), MST_PIECE_COUNTS);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK(action.first == 2 && action.last > 20 && action.budget_s == 0.1);
  const uint64_t last = action.last;
  // Its second element took a second.
  CHECK_INT(mst_pieces_done(&pieces, action.piece, 2, 1.0, 0),
            MST_PIECE_COUNTS);
  CHECK_INT(pieces.left, 97);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK(action.first == 4 && action.last == 4);
  CHECK_INT(done(&pieces, other.piece, 1.0, 0), MST_PIECE_COUNTS);
  for (uint64_t k = 5; k < last + 5; k++) {
    CHECK_INT(next(&pieces, 0, &other), 1);
    CHECK(other.first == k && other.last == k);
    CHECK_INT(next(&pieces, 0, &(struct mst_piece_action){0}), 0);
    CHECK_INT(done(&pieces, other.piece, 1.0, 0), MST_PIECE_COUNTS);
  }
  mst_pieces_free(&pieces);
}

TEST("What takes less than handing it out isn't shared out, unless there are "
     "few "
     "elements; what is quickly done is shared out once") {
  struct mst_pieces pieces;
  struct mst_piece_action action, other;
  struct mst_pieces_terms terms = terms_of(100, 2);
  for (int few = 0; few < 2; few++) {
    if (few) terms.count = 30;
    mst_pieces_init(&pieces, &terms);
    CHECK_INT(next(&pieces, 0, &action), 1);
    CHECK_INT(next(&pieces, 0, &other), 1);
    CHECK(action.last == 0 && other.last == 1);
    CHECK_INT(done(&pieces, action.piece, 3e-6, 0), MST_PIECE_COUNTS);
    CHECK_INT(next(&pieces, 0, &action), 1);
    CHECK_INT(action.first, 2);
    CHECK_INT(action.last, few ? 15 : 99);
    CHECK_INT(next(&pieces, 0, &action), few);
    if (few) CHECK(action.first == 16 && action.last == 29);
    mst_pieces_free(&pieces);
  }
}

TEST("What took less than handing it out before isn't shared out, unless there "
     "are few elements, "
     "or much would be lost with it") {
  for (int k = 0; k < 8; k++) {
    struct mst_pieces pieces;
    struct mst_piece_action action;
    struct mst_pieces_terms terms = terms_of(100, 2);
    terms.each_s = 3e-6;
    if (k == 1) terms.each_s = 6e-6;
    if (k == 2) terms.count = 30;
    if (k == 3) terms.heals = 0;
    if (k == 4) terms.retries = 0;
    if (k == 5) terms.timeout_s = 10;
    if (k == 6) terms.ahead = 1;
    if (k == 7) terms.speculate = 1;
    mst_pieces_init(&pieces, &terms);
    CHECK_INT(next(&pieces, 0, &action), 1);
    CHECK_INT(action.last, k == 0 ? 99 : 0);
    if (k == 0) {
      CHECK(action.budget_s == 0.05);
      CHECK_INT(next(&pieces, 0, &action), 0);
      // They are slow this time.
      CHECK_INT(mst_pieces_done(&pieces, 0, 1, 2.0, 0), MST_PIECE_COUNTS);
      CHECK(mst_pieces_each(&pieces) == 2.0);
      CHECK_INT(next(&pieces, 0, &action), 1);
      CHECK(action.first == 1 && action.last == 1);
    }
    mst_pieces_free(&pieces);
  }
}

TEST(
    "From where a map stops nothing is handed out: new, handed back, or lost") {
  struct mst_pieces pieces;
  struct mst_piece_action action, other;
  struct mst_pieces_terms terms = terms_of(8000, 2);
  uint32_t total;
  mst_pieces_init(&pieces, &terms);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(next(&pieces, 0, &other), 1);
  CHECK(action.last == 39 && other.first == 40 && other.last == 79);
  CHECK_INT(mst_pieces_done(&pieces, action.piece, 1, 0.1, 0),
            MST_PIECE_COUNTS);
  mst_pieces_stop(&pieces, 30); // 1 to 39 wait to be handed out, 80 on too
  CHECK_INT(pieces.left, 29 + 40);
  CHECK(mst_pieces_check(&pieces) == NULL);
  CHECK_INT(mst_pieces_lost(&pieces, other.piece, MST_PIECE_LOST, 1, 0, &total),
            MST_PIECE_AGAIN);
  CHECK_INT(pieces.left, 29);
  mst_pieces_stop(&pieces, 60); // it stays where it was
  for (uint64_t k = 1; k < 30; k++) {
    CHECK_INT(next(&pieces, 0, &action), 1);
    CHECK_INT(action.first, k);
    CHECK_INT(done(&pieces, action.piece, 0.1, 0), MST_PIECE_COUNTS);
  }
  CHECK_INT(next(&pieces, 0, &action), 0);
  CHECK_INT(pieces.left, 0);
  mst_pieces_free(&pieces);
  // A piece that the caller gives up isn't handed out again.
  terms.count = 100;
  mst_pieces_init(&pieces, &terms);
  CHECK_INT(next(&pieces, 0, &action), 1);
  mst_pieces_ended(&pieces, action.piece);
  CHECK_INT(pieces.left, 99);
  CHECK_INT(next(&pieces, 0, &action), 1);
  CHECK_INT(action.first, 1);
  mst_pieces_free(&pieces);
}

// ---- random worlds: pieces run, end, are lost, are late, in any order

struct world {
  struct mst_pieces pieces;
  uint8_t *answers;             // how many counted, by element
  uint64_t first[64], last[64]; // of pieces that run, by number
  uint8_t runs[64];
};

static void settle(struct world *world, uint32_t piece, uint64_t count) {
  for (uint64_t k = 0; k < count; k++)
    CHECK_INT(++world->answers[world->first[piece] + k], 1);
}

static void play(uint64_t seed) {
  uint64_t random = seed;
  struct world world = {0};
  const uint8_t ahead = mst_random_below(&random, 4) == 0;
  const struct mst_pieces_terms terms = {
      // As many may run at once as there is room for here.
      .count = mst_random_below(&random, ahead ? 60 : 400),
      .ahead = ahead,
      .workers = 1 + (uint32_t)mst_random_below(&random, 5),
      .retries = (uint32_t)mst_random_below(&random, 4),
      .heals = mst_random_below(&random, 8) > 0,
      .speculate = mst_random_below(&random, 2) == 0,
      .timeout_s = mst_random_below(&random, 3) == 0 ? 2 : 0};
  mst_pieces_init(&world.pieces, &terms);
  world.answers = calloc(terms.count + 1, 1);
  int64_t now_ns = 0;
  uint32_t steps = 0;
  for (; world.pieces.left > 0; steps++) {
    CHECK(steps < 200000); // it comes to an end
    struct mst_piece_action action;
    int rc;
    while ((rc = next(&world.pieces, now_ns, &action)) == 1) {
      if (action.kind == MST_PIECE_PLACES) {
        for (uint32_t k = 0; k < 64; k++) {
          if (world.runs[k])
            mst_pieces_at(&world.pieces, k,
                          k % (terms.workers + 1) < terms.workers
                              ? k % (terms.workers + 1)
                              : MST_PIECE_NONE);
        }
      } else if (action.kind == MST_PIECE_CANCEL) {
        CHECK(world.runs[action.piece]);
        CHECK(mst_pieces_over(&world.pieces, action.piece));
      } else {
        CHECK(action.piece < 64 && !world.runs[action.piece]);
        CHECK(action.last < terms.count);
        CHECK(action.tries <= terms.retries);
        CHECK(action.worker == MST_PIECE_NONE || action.worker < terms.workers);
        CHECK(ahead == (action.budget_s == 0));
        world.runs[action.piece] = 1;
        world.first[action.piece] = action.first;
        world.last[action.piece] = action.last;
      }
    }
    CHECK_INT(rc, 0);
    uint32_t at = (uint32_t)mst_random_below(&random, 64);
    for (uint32_t k = 0; k < 64 && !world.runs[at]; k++)
      at = (at + 1) % 64;
    CHECK(world.runs[at]); // something runs while something is left
    now_ns += (int64_t)mst_random_below(&random, 200) * MS;
    if (mst_random_below(&random, 3) == 0) continue; // only time has passed
    world.runs[at] = 0;
    enum mst_piece_end end;
    uint64_t count = world.last[at] - world.first[at] + 1;
    if (mst_pieces_over(&world.pieces, at)) {
      mst_pieces_ended(&world.pieces, at);
      continue;
    }
    if (mst_random_below(&random, 4) > 0) {
      if (!ahead && mst_random_below(&random, 3) == 0)
        count = 1 + mst_random_below(&random, count);
      end =
          mst_pieces_done(&world.pieces, at, count,
                          (double)mst_random_below(&random, 300) / 1000, 0.001);
      CHECK_INT(end, MST_PIECE_COUNTS);
    } else {
      static const enum mst_piece_loss losses[] = {
          MST_PIECE_LOST, MST_PIECE_GIVEN_UP, MST_PIECE_LATE};
      uint32_t total;
      end = mst_pieces_lost(&world.pieces, at,
                            losses[mst_random_below(&random, 3)],
                            1 + (uint32_t)mst_random_below(&random, 2),
                            mst_random_below(&random, 4) == 0, &total);
    }
    if (end == MST_PIECE_COUNTS) settle(&world, at, count);
  }
  for (uint64_t k = 0; k < terms.count; k++)
    CHECK_INT(world.answers[k], 1);
  free(world.answers);
  mst_pieces_free(&world.pieces);
}

TEST("Each element is answered for exactly once, whatever happens to pieces") {
  const uint64_t seed = mst_test_seed();
  for (uint64_t k = 0; k < 2000; k++)
    play(seed + k);
}
