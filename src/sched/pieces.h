// sched/pieces: how the elements of a map are handed out. Pure: events and the time go in, actions
// come out. No R, no clock, no pool. One thread at a time.
//
// A piece is a run of elements that one task evaluates. Its size follows from how long elements
// took: half of what each worker would still get (guided self-scheduling), but no more than takes
// `seconds`, and few at first, when nothing is known. What is lost with others, or takes too long
// with them, is handed out again in smaller pieces, at last one by one, so that the one that is to
// blame is known. Near the end late pieces get copies (late.h); the first answer counts.
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
  uint32_t retries;  // of an element that is lost
  uint8_t heals;     // 0: what is lost stays lost
  uint8_t speculate; // late pieces may get copies
  double timeout_s;  // of one element, 0: none
};

enum mst_piece_do {
  MST_PIECE_RUN, // submit these elements; the piece runs from now on
  MST_PIECE_CANCEL, // nobody wants its answer; it runs until it is told to have ended
  MST_PIECE_PLACES // tell where pieces are, by mst_pieces_at, and ask again
};

struct mst_piece_action {
  enum mst_piece_do kind;
  uint32_t piece;       // its number, which another may have once it has ended
  uint64_t first, last; // elements, from 0
  uint32_t tries;       // RUN: how often the pool may send it again
  uint32_t worker;      // RUN: only there, from 0; MST_PIECE_NONE: anywhere
};

enum mst_piece_end {
  MST_PIECE_COUNTS, // its answer, or its loss, is that of its elements
  MST_PIECE_DROP,   // another copy answers for them
  MST_PIECE_AGAIN   // its elements are handed out again, in smaller pieces
};

enum mst_piece_loss {
  MST_PIECE_LOST, // with its worker
  MST_PIECE_GIVEN_UP, // with a worker that doesn't come back, before it had all its tries
  MST_PIECE_LATE // it took longer than an element may
};

struct mst_piece {
  uint64_t first, last;
  uint32_t group;  // copies of one piece have the same
  uint32_t lost;   // how often its elements were lost
  uint32_t worker; // that evaluates it, as far as is known
  uint8_t runs;    // this number is in use
  uint8_t alone;   // not while others are evaluated
  uint8_t over;    // another copy answered, or answers
  uint8_t cancel;  // to be told
  int64_t begin_ns;
};

// Elements that are handed out again, `chunk` at a time, from the first on.
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
  struct mst_again
      *again; // owned: a stack of what is handed out before all others
  uint32_t again_count, again_capacity;
  uint64_t next; // first element that was never handed out
  uint64_t left; // elements without an answer or a loss that counts
  uint32_t groups;
  double rates
      [MST_PIECES_RATES]; // seconds an element, of the pieces that came back last
  uint32_t rate_count, rate_at;
  double seconds;  // that a piece should take
  double setup_s;  // the most that came before the elements of a piece
  uint8_t located; // told where pieces are, in this round of questions
};

// mst_pieces_init keeps a copy of the terms. It allocates nothing.
void mst_pieces_init(struct mst_pieces *pieces,
                     const struct mst_pieces_terms *terms);
void mst_pieces_free(struct mst_pieces *pieces);

// mst_pieces_next gives the next thing to be done: 1; 0 if only an event or time can tell;
// -MST_EMEM, and nothing has changed.
int mst_pieces_next(struct mst_pieces *pieces, int64_t now_ns,
                    struct mst_piece_action *action);
// mst_pieces_at tells at which worker a piece is, MST_PIECE_NONE: at none yet.
void mst_pieces_at(struct mst_pieces *pieces, uint32_t piece, uint32_t worker);

// Events. The piece has ended with them.
// mst_pieces_done: it has values. seconds: that its elements took; setup_s: what came before them.
enum mst_piece_end mst_pieces_done(struct mst_pieces *pieces, uint32_t piece,
                                   double seconds, double setup_s);
// mst_pieces_lost: it has none. attempts: how often it was lost, its last included; alone: try it
// again when nothing else runs. *total is how often its elements were lost, before and now. Without
// memory to note that they run again it counts.
enum mst_piece_end mst_pieces_lost(struct mst_pieces *pieces, uint32_t piece,
                                   enum mst_piece_loss loss, uint32_t attempts,
                                   int alone, uint32_t *total);
// mst_pieces_over tells whether nobody waits for it any more; mst_pieces_ended then tells its end.
int mst_pieces_over(const struct mst_pieces *pieces, uint32_t piece);
void mst_pieces_ended(struct mst_pieces *pieces, uint32_t piece);

// mst_pieces_check looks at all that must hold; NULL, or what doesn't.
const char *mst_pieces_check(const struct mst_pieces *pieces);

#endif
