// Tells event loops that tasks are over or have said something. The contract is in session.h.
#include <unistd.h>

#include "pool/session_int.h"

static uint64_t news(const struct mst_session *session) {
  return session->counts.tasks_done + session->counts.said;
}

void mst_session_notify(struct mst_session *session, int fd) {
  session->notify_fd = fd;
  session->notified = news(session);
}

void mst_session_tell_over(struct mst_session *session) {
  if (session->notify_fd < 0 || session->notified == news(session)) return;
  session->notified = news(session);
  const ssize_t written = write(session->notify_fd, "", 1);
  (void)written; // full: it is readable anyway
}
