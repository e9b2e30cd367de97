// Groups of clusters that wait for a launcher, for the R code that gets them one.
#include "ffi/session/session.h"

// ffi_cluster_orphan gives c(cluster's id, group's number from 1) of a group that waits for another
// fork server; NULL if none does.
SEXP ffi_cluster_orphan(void) {
  const struct mst_session *session = ffi_session_or_null();
  SEXP which = PROTECT(Rf_allocVector(INTSXP, 2));
  for (const struct mst_cluster *at = session == NULL ? NULL
                                                      : session->clusters;
       at != NULL; at = at->next) {
    for (uint32_t g = 0; g < at->group_count; g++) {
      if (!at->groups[g].orphaned) continue;
      INTEGER(which)[0] = (int)at->id;
      INTEGER(which)[1] = (int)g + 1;
      UNPROTECT(1);
      return which;
    }
  }
  UNPROTECT(1);
  return R_NilValue;
}

// adopt takes *setup over if it is used.
static SEXP adopt(SEXP id, SEXP group, SEXP server, struct mst_blob **setup) {
  const struct mst_session *session = ffi_session_or_null();
  struct mst_server *other =
      server == R_NilValue ? NULL : ffi_server_of(server);
  struct mst_cluster *cluster = session == NULL ? NULL : session->clusters;
  while (cluster != NULL && cluster->id != (uint32_t)Rf_asInteger(id))
    cluster = cluster->next;
  const uint32_t g = (uint32_t)Rf_asInteger(group) - 1u;
  if (cluster == NULL || g >= cluster->group_count) {
    return Rf_ScalarLogical(0);
  }
  if (other != NULL) {
    struct mst_blob *before = cluster->groups[g].setup;
    if (*setup != NULL) cluster->groups[g].setup = *setup;
    if (*setup != NULL) *setup = before;
    mst_cluster_adopt(cluster, &cluster->groups[g], &other->launcher);
  } else if (server == R_NilValue) {
    mst_cluster_give_up(cluster, &cluster->groups[g]);
  }
  return Rf_ScalarLogical(other != NULL || server == R_NilValue);
}

// ffi_cluster_adopt gives a group (from 1) of the cluster with this id another fork server; NULL:
// there won't be one. setup: for its workers from now on, NULL: as before. FALSE if there is no
// such cluster or server any more.
SEXP ffi_cluster_adopt(SEXP id, SEXP group, SEXP server, SEXP setup) {
  struct mst_blob *blob = setup == R_NilValue ? NULL : ffi_blob_of(setup);
  SEXP adopted = adopt(id, group, server, &blob);
  if (blob != NULL) mst_blob_release(blob);
  return adopted;
}
