// sched/pieces: how to hand out the elements of a map. Pure: events and the time go in, actions
// come out. No R, no clock, no pool. One thread at a time.
//
// A piece is a run of elements that one task evaluates. Its size follows from the time that
// elements took: half of what each worker would still get (guided self-scheduling), but no more
// than takes `seconds`, and few at first, while nothing is known. A piece has a budget: its worker
// begins no element after that, and what it hasn't evaluated is handed out again. A piece that is
// lost or takes too long is handed out again in smaller pieces, finally one by one, which shows the
// element to blame. Near the end late pieces get copies (late.h); the first answer counts.
//
// Where the caller may be away for long nobody measures: with `ahead`, a worker's share is cut into
// some 70 pieces, small ones at the end, and all of them run from the start.
//
// Each element's answer counts exactly once: mst_pieces_done and mst_pieces_lost tell whether this
// one does.
#ifndef MST_SCHED_PIECES_H
#define MST_SCHED_PIECES_H

#include <stdint.h>

#include "sched/late.h"

#define MST_PIECE_NONE UINT32_MAX

struct mst_pieces_terms {
  uint64_t count;    // elements
  uint32_t workers;  // at least 1
  uint32_t retries;  // of a lost element
  uint8_t heals;     // 0: lost elements aren't retried
  uint8_t speculate; // late pieces may get copies
  uint8_t ahead; // the caller may be away: all elements are handed out at once
  double timeout_s; // of one element, 0: none
  double each_s; // what elements took in an earlier map of the same function, 0: unknown
};

enum mst_piece_do {
  MST_PIECE_RUN,    // submit these elements; the piece runs from now on
  MST_PIECE_CANCEL, // the answer isn't wanted; the piece runs until it has ended
  MST_PIECE_PLACES  // give the pieces' workers by mst_pieces_at, and ask again
};

struct mst_piece_action {
  enum mst_piece_do kind;
  uint32_t piece;       // number, reused after the piece has ended
  uint64_t first, last; // elements, from 0
  uint32_t tries;       // RUN: how often the pool may send it again
  uint32_t worker;      // RUN: on this worker only, from 0; MST_PIECE_NONE: any
  uint8_t alone;        // RUN: no other worker may compute meanwhile
  double budget_s; // RUN: no element but the first begins after it; 0: none
};

enum mst_piece_end {
  MST_PIECE_COUNTS, // its answer, or loss, counts for its elements
  MST_PIECE_DROP,   // another copy answers for them
  MST_PIECE_AGAIN   // its elements are handed out again, in smaller pieces
};

enum mst_piece_loss {
  MST_PIECE_LOST,     // with its worker
  MST_PIECE_GIVEN_UP, // with a worker that doesn't come back, before its last try
  MST_PIECE_LATE      // it took longer than the elements' time limit
};

struct mst_piece {
  uint64_t first, last;
  uint32_t group;  // the same for copies of one piece
  uint32_t lost;   // how often its elements were lost
  uint32_t worker; // where it runs, as far as known
  uint8_t runs;    // this number is in use
  uint8_t alone;   // nothing else may run meanwhile
  uint8_t over;    // another copy has answered
  uint8_t cancel;  // CANCEL is due
  int64_t begin_ns;
};

// Elements to hand out again, `chunk` at a time, starting with the first. chunk 0: pieces of them
// are as large as of elements that were never handed out.
struct mst_again {
  uint64_t first, last, chunk;
  uint32_t lost;
  uint8_t alone;
};

#define MST_PIECES_RATES 21u

struct mst_pieces {
  struct mst_pieces_terms terms;
  struct mst_piece *pieces; // owned, by number
  uint32_t capacity, running;
  uint32_t unused;         // the numbers before this one are in use
  uint32_t cancels;        // pieces for which CANCEL is due
  struct mst_again *again; // owned; handed out before all others
  uint32_t again_count, again_capacity;
  uint64_t next; // first element that was never handed out
  uint64_t stop; // elements from here on aren't handed out again
  uint64_t left; // elements without an answer or loss that counts
  uint32_t groups;
  uint32_t tail; // workers that have their share of what is quickly done
  double rates[MST_PIECES_RATES]; // seconds per element of the latest pieces
  uint32_t rate_count, rate_at;
  double most_s;   // of the rates of all pieces, the highest
  double seconds;  // the target duration of a piece
  double setup_s;  // the longest time before a piece's elements
  uint8_t located; // workers of pieces are known in this round
};

// mst_pieces_init keeps a copy of the terms. Allocates nothing.
void mst_pieces_init(struct mst_pieces *pieces,
                     const struct mst_pieces_terms *terms);
void mst_pieces_free(struct mst_pieces *pieces);

// mst_pieces_next gives the next action: 1; 0 if it needs an event or more time; -MST_EMEM, and
// nothing has changed.
int mst_pieces_next(struct mst_pieces *pieces, int64_t now_ns,
                    struct mst_piece_action *action);
// mst_pieces_at reports a piece's worker; MST_PIECE_NONE: not sent yet.
void mst_pieces_at(struct mst_pieces *pieces, uint32_t piece, uint32_t worker);

// Events that end a piece.
// mst_pieces_done: it has values of its first `count` elements, at least one. seconds: for these;
// setup_s: before them. If they count, the others are handed out again.
enum mst_piece_end mst_pieces_done(struct mst_pieces *pieces, uint32_t piece,
                                   uint64_t count, double seconds,
                                   double setup_s);
// mst_pieces_lost: it has no values. attempts: how often it was lost this time; alone: retry it
// when nothing else runs. *total: how often its elements were lost, before and now. If there is no
// memory for a retry the loss counts.
enum mst_piece_end mst_pieces_lost(struct mst_pieces *pieces, uint32_t piece,
                                   enum mst_piece_loss loss, uint32_t attempts,
                                   int alone, uint32_t *total);
// mst_pieces_over tells whether its answer is no longer wanted; then report its end by
// mst_pieces_ended. That also takes the end of a piece that the caller gives up: its elements
// aren't handed out again.
int mst_pieces_over(const struct mst_pieces *pieces, uint32_t piece);
void mst_pieces_ended(struct mst_pieces *pieces, uint32_t piece);
// mst_pieces_stop: no element from `at` on is handed out any more. What runs goes on.
void mst_pieces_stop(struct mst_pieces *pieces, uint64_t at);

// mst_pieces_each gives what to take for each_s in the next map of the same function, 0 if that is
// unknown.
double mst_pieces_each(const struct mst_pieces *pieces);

// mst_pieces_check checks the invariants: NULL, or the one that fails.
const char *mst_pieces_check(const struct mst_pieces *pieces);

#endif
