// The end of R, or of muster in it.
#include "ffi/session/session.h"

// ffi_session_end ends all clusters, sockets, servers and links of this process, and waits for the
// servers, which remove the files that their workers left. R may be in other entries: memory is
// freed when it has left them.
SEXP ffi_session_end(SEXP timeout_s) {
  struct mst_session *session = ffi_session_or_null();
  const int64_t deadline_ns = ffi_deadline(timeout_s);
  while (session != NULL && session->clusters != NULL)
    ffi_cluster_close(session->clusters);
  ffi_payload_done();
  ffi_end_owned();
  if (session == NULL) return R_NilValue;
  ffi_servers_end(deadline_ns);
  ffi_remotes_end(deadline_ns);
  ffi_session_close();
  return R_NilValue;
}
