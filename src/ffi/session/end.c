// The end of R, or of muster in it.
#include "base/mst_clock.h"
#include "ffi/session/session.h"

// some_idle tells whether any worker that runs owes nothing.
static int some_idle(const struct mst_session *session) {
  for (const struct mst_cluster *c = session->clusters; c != NULL; c = c->next)
    for (uint32_t i = 0; c->started && i < c->calls.pool.count; i++)
      if (c->calls.pool.workers[i]->state == MST_WORKER_IDLE) return 1;
  return 0;
}

// leave stops idle workers in order, until a time: they close their files and run their finalizers,
// as R does at its own end.
static void leave(struct mst_session *session, int64_t end_ns) {
  if (!some_idle(session)) return;
  for (struct mst_cluster *c = session->clusters; c != NULL; c = c->next)
    if (c->started && !c->stop_begun) mst_cluster_stop(c);
  while (some_idle(session) && mst_clock_now() < end_ns)
    if (mst_session_run(session, FFI_SLICE_MS, NULL) < 0) return;
}

// ffi_session_end ends all clusters, sockets, servers and links of this process, and waits for the
// servers, which remove the files that their workers left. Idle workers have leave_s to end in
// order; all others are killed. R may be in other entries: memory is freed when it has left them.
SEXP ffi_session_end(SEXP timeout_s, SEXP leave_s) {
  struct mst_session *session = ffi_session_or_null();
  if (session != NULL && Rf_asReal(leave_s) > 0)
    leave(session, ffi_deadline(leave_s));
  const int64_t deadline_ns = ffi_deadline(timeout_s);
  while (session != NULL && session->clusters != NULL)
    ffi_cluster_close(session->clusters);
  ffi_payload_done();
  ffi_end_owned();
  if (session == NULL) return R_NilValue;
  ffi_servers_end(deadline_ns);
  ffi_gates_end();
  ffi_remotes_end(deadline_ns);
  ffi_session_close();
  return R_NilValue;
}
