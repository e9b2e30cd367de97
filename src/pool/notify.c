// Tells event loops that tasks are over. The contract is in session.h.
#include <unistd.h>

#include "pool/session_int.h"

void mst_session_notify(struct mst_session *session, int fd) {
  session->notify_fd = fd;
  session->notified = session->counts.tasks_done;
}

void mst_session_tell_over(struct mst_session *session) {
  if (session->notify_fd < 0 ||
      session->notified == session->counts.tasks_done) {
    return;
  }
  session->notified = session->counts.tasks_done;
  const ssize_t written = write(session->notify_fd, "", 1);
  (void)written; // full: it is readable anyway
}
