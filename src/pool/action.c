// Workers with something to do. The contract is in action.h.
#include "pool/action.h"

#include <stddef.h>

#include "pool/worker.h"

void mst_due_add(struct mst_due *due, struct mst_worker *worker,
                 enum mst_do what) {
  worker->todo |= 1u << what;
  if (worker->due) return;
  worker->due = 1;
  worker->next_due = NULL;
  if (due->last != NULL) {
    due->last->next_due = worker;
  } else {
    due->first = worker;
  }
  due->last = worker;
}

static void drop_first(struct mst_due *due) {
  struct mst_worker *worker = due->first;
  due->first = worker->next_due;
  if (due->first == NULL) due->last = NULL;
  worker->due = 0;
  worker->next_due = NULL;
}

struct mst_worker *mst_due_next(struct mst_due *due, enum mst_do *what) {
  while (due->first != NULL && due->first->todo == 0)
    drop_first(due);
  struct mst_worker *worker = due->first;
  if (worker == NULL) return NULL;
  *what = (enum mst_do)__builtin_ctz(worker->todo); // the lowest bit
  worker->todo &= worker->todo - 1u;
  return worker;
}
