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

static struct mst_cluster *cluster_of(SEXP id) {
  const struct mst_session *session = ffi_session_or_null();
  struct mst_cluster *at = session == NULL ? NULL : session->clusters;
  while (at != NULL && at->id != (uint32_t)Rf_asInteger(id))
    at = at->next;
  return at;
}

// group_of finds a group (from 1) of the cluster with this id; NULL if there is none any more.
static struct mst_group *group_of(SEXP id, SEXP group,
                                  struct mst_cluster **cluster) {
  struct mst_cluster *at = cluster_of(id);
  const uint32_t g = (uint32_t)Rf_asInteger(group) - 1u;
  *cluster = at;
  return at == NULL || g >= at->group_count ? NULL : &at->groups[g];
}

// ffi_cluster_await has a group wait for another host. FALSE if there is no such cluster any more.
SEXP ffi_cluster_await(SEXP id, SEXP group) {
  struct mst_cluster *cluster;
  struct mst_group *waits = group_of(id, group, &cluster);
  if (waits != NULL) mst_cluster_await(cluster, waits);
  return Rf_ScalarLogical(waits != NULL);
}

// ffi_cluster_move has a group's workers that are on a link's host move, and gives how many are
// left there; 0 if the cluster or the link is gone.
SEXP ffi_cluster_move(SEXP id, SEXP group, SEXP link) {
  struct mst_cluster *cluster;
  const struct mst_group *moves = group_of(id, group, &cluster);
  const struct mst_remote *remote = ffi_remote_of(link);
  const int there = moves != NULL && remote != NULL;
  return Rf_ScalarInteger(
      there ? (int)mst_cluster_move(cluster, moves, &remote->host) : 0);
}

// ffi_cluster_scale has a cluster let groups go after idle_s. scales: 1 for each group (a raw
// vector) that may be. FALSE if memory is short, or there is no such cluster any more.
SEXP ffi_cluster_scale(SEXP id, SEXP scales, SEXP idle_s) {
  struct mst_cluster *cluster = cluster_of(id);
  const double s = Rf_asReal(idle_s);
  const int done = cluster != NULL &&
                   Rf_xlength(scales) == cluster->group_count &&
                   mst_cluster_scale(cluster, RAW(scales),
                                     s < 1e9 ? ffi_ns(s) : INT64_MAX) == 0;
  return Rf_ScalarLogical(done);
}

// ffi_nodes_groups gives the number (from 1) of each node's group, NA of one that is stopped.
SEXP ffi_nodes_groups(SEXP nodes) {
  enum ffi_outcome outcome;
  SEXP groups = PROTECT(Rf_allocVector(INTSXP, Rf_xlength(nodes)));
  for (R_xlen_t i = 0; i < Rf_xlength(nodes); i++) {
    const struct mst_peer *peer = ffi_peer_of(VECTOR_ELT(nodes, i), &outcome);
    INTEGER(groups)
    [i] = peer == NULL ? NA_INTEGER
                       : (int)(peer->group - peer->cluster->groups) + 1;
  }
  UNPROTECT(1);
  return groups;
}

// ffi_cluster_keep counts for groups (from 1) what their hosts have to be there for: 1 more, or -1.
SEXP ffi_cluster_keep(SEXP id, SEXP groups, SEXP more) {
  struct mst_cluster *cluster = cluster_of(id);
  for (R_xlen_t i = 0; cluster != NULL && i < Rf_xlength(groups); i++)
    mst_cluster_keep(cluster, (uint32_t)INTEGER(groups)[i] - 1u,
                     Rf_asInteger(more));
  return R_NilValue;
}

// ffi_cluster_wakes looks now what a cluster needs: TRUE if R code is to ask for hosts.
SEXP ffi_cluster_wakes(SEXP id) {
  struct mst_cluster *cluster = cluster_of(id);
  return Rf_ScalarLogical(cluster != NULL && mst_cluster_wakes(cluster));
}

// ffi_cluster_woken gives the numbers (from 1) of the groups that a host is to be asked for, once.
SEXP ffi_cluster_woken(SEXP id) {
  struct mst_cluster *cluster = cluster_of(id);
  const uint32_t most = cluster == NULL ? 0 : cluster->group_count;
  SEXP groups = PROTECT(Rf_allocVector(INTSXP, most));
  R_xlen_t n = 0;
  cluster = cluster_of(id); // a finalizer may have stopped it
  for (uint32_t g; cluster != NULL && n < Rf_xlength(groups) &&
                   (g = mst_cluster_woken(cluster)) != MST_NO_GROUP;)
    INTEGER(groups)[n++] = (int)g + 1;
  groups = Rf_xlengthgets(groups, n);
  UNPROTECT(1);
  return groups;
}

// adopt takes *setup over if it is used.
static SEXP adopt(SEXP id, SEXP group, SEXP server, struct mst_blob **setup) {
  struct mst_server *other =
      server == R_NilValue ? NULL : ffi_server_of(server);
  struct mst_cluster *cluster;
  struct mst_group *adopts = group_of(id, group, &cluster);
  if (adopts == NULL || (other == NULL && server != R_NilValue)) {
    return R_NilValue;
  }
  const uint32_t waiting = mst_cluster_waiting(cluster, adopts);
  if (other != NULL) {
    struct mst_blob *before = adopts->setup;
    if (*setup != NULL) adopts->setup = *setup;
    if (*setup != NULL) *setup = before;
    mst_cluster_adopt(cluster, adopts, &other->launcher);
  } else {
    mst_cluster_give_up(cluster, adopts);
  }
  return Rf_ScalarInteger((int)waiting);
}

// ffi_cluster_adopt gives a group (from 1) of the cluster with this id another fork server; NULL:
// there won't be one. setup: for its workers from now on, NULL: as before. The number of workers
// that wait for it; NULL if there is no such cluster or server any more.
SEXP ffi_cluster_adopt(SEXP id, SEXP group, SEXP server, SEXP setup) {
  struct mst_blob *blob = setup == R_NilValue ? NULL : ffi_blob_of(setup);
  SEXP adopted = adopt(id, group, server, &blob);
  if (blob != NULL) mst_blob_release(blob);
  return adopted;
}
