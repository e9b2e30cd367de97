// Removes directories of ended workers, bit by bit. See session.h.
//
// Problem: a worker may leave thousands of files. Removing them all at once would take longer than
// a user who presses Ctrl-C, or other workers, should wait.
//
// Way chosen: a list, on which each turn of the session spends a few milliseconds.
#include <stdlib.h>

#include "fork/fork.h"
#include "pool/session.h"

// The pause after a failed turn: processes that the worker started may still be writing.
#define AGAIN_NS (50 * MST_NS_PER_MS)
// Time limit per directory, failures included. The rest goes with the session's own directory.
#define WHOLE_NS (5 * MST_NS_PER_S)

struct mst_trash {
  struct mst_trash *next;
  char *path;      // owned
  int64_t left_ns; // of WHOLE_NS
};

void mst_trash_put(struct mst_session *session, char *path) {
  if (path == NULL) return;
  struct mst_trash *trash = malloc(sizeof *trash);
  if (trash == NULL) {
    free(path);
    return;
  }
  *trash = (struct mst_trash){
      .next = session->trash, .path = path, .left_ns = WHOLE_NS};
  session->trash = trash;
  session->trash_ns = 0;
}

static void drop(struct mst_session *session) {
  struct mst_trash *trash = session->trash;
  session->trash = trash->next;
  free(trash->path);
  free(trash);
}

void mst_trash_work(struct mst_session *session, int64_t turn_ns) {
  const int64_t begin_ns = mst_clock_now();
  struct mst_trash *trash = session->trash;
  if (trash == NULL || begin_ns < session->trash_ns) return;
  const int rc = mst_tree_remove(trash->path, begin_ns + turn_ns);
  const int64_t end_ns = mst_clock_now();
  session->trash_ns =
      rc == 0 || rc == -MST_ETIMEOUT ? end_ns : end_ns + AGAIN_NS;
  trash->left_ns -= session->trash_ns - begin_ns;
  if (rc == 0 || trash->left_ns <= 0) drop(session);
}

void mst_trash_free(struct mst_session *session) {
  while (session->trash != NULL)
    drop(session);
}
