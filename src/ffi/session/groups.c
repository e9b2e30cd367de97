// Groups of clusters, for the R code that gets them hosts and fork servers.
#include "ffi/session/session.h"

// group_of finds a group (from 1) of the cluster with this id; NULL if there is none any more.
static struct mst_group *group_of(SEXP id, SEXP group,
                                  struct mst_cluster **cluster) {
  struct mst_cluster *at = ffi_cluster_with((uint32_t)Rf_asInteger(id));
  const uint32_t g = (uint32_t)Rf_asInteger(group) - 1u;
  *cluster = at;
  return at == NULL || g >= at->group_count ? NULL : &at->groups[g];
}

// ffi_cluster_scale has a cluster let hosts go after idle_s. FALSE if memory is short, or there is
// no such cluster any more.
SEXP ffi_cluster_scale(SEXP id, SEXP idle_s) {
  struct mst_cluster *cluster = ffi_cluster_with((uint32_t)Rf_asInteger(id));
  const double s = Rf_asReal(idle_s);
  return Rf_ScalarLogical(
      cluster != NULL &&
      mst_cluster_scale(cluster, s < 1e9 ? ffi_ns(s) : INT64_MAX) == 0);
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
  struct mst_cluster *cluster = ffi_cluster_with((uint32_t)Rf_asInteger(id));
  for (R_xlen_t i = 0; cluster != NULL && i < Rf_xlength(groups); i++)
    mst_cluster_keep(cluster, (uint32_t)INTEGER(groups)[i] - 1u,
                     Rf_asInteger(more));
  return R_NilValue;
}

// ffi_cluster_wakes looks now what a cluster needs: TRUE if R code is to ask for hosts.
SEXP ffi_cluster_wakes(SEXP id) {
  struct mst_cluster *cluster = ffi_cluster_with((uint32_t)Rf_asInteger(id));
  return Rf_ScalarLogical(cluster != NULL && mst_cluster_wakes(cluster));
}

// adopt takes *setup over if it is used.
static SEXP adopt(SEXP id, SEXP group, SEXP server, struct mst_blob **setup) {
  struct mst_server *other = ffi_server_of(server);
  struct mst_cluster *cluster;
  struct mst_group *adopts = group_of(id, group, &cluster);
  if (adopts == NULL || other == NULL) return R_NilValue;
  const uint32_t waiting = mst_cluster_waiting(cluster, adopts);
  struct mst_blob *before = adopts->setup;
  if (*setup != NULL) adopts->setup = *setup;
  if (*setup != NULL) *setup = before;
  mst_cluster_adopt(cluster, adopts, &other->launcher);
  return Rf_ScalarInteger((int)waiting);
}

// ffi_cluster_adopt gives a group (from 1) of the cluster with this id another fork server. setup:
// for its workers from now on, NULL: as before. The number of workers that waited for it; NULL if
// there is no such cluster or server any more.
SEXP ffi_cluster_adopt(SEXP id, SEXP group, SEXP server, SEXP setup) {
  struct mst_blob *blob = setup == R_NilValue ? NULL : ffi_blob_of(setup);
  SEXP adopted = adopt(id, group, server, &blob);
  if (blob != NULL) mst_blob_release(blob);
  return adopted;
}
