// What there is to do for sites, for the R code that runs commands and has fork servers boot, and
// what became of it. What follows is decided in sched/site.c.
//
// A site is named by c(number, cluster's id, group from 1, link, state): the last two are those
// that it had when something was to do for it. id 0: of a cluster that is about to start, see
// sites.c.
#include <string.h>

#include "base/mst_clock.h"
#include "ffi/session/session.h"

// site_at finds a site by its name; *cluster: whose it is, or NULL.
static struct mst_site *site_at(SEXP at, struct mst_cluster **cluster) {
  const int *name = INTEGER(at);
  *cluster = NULL;
  if (name[1] == 0) return ffi_site_begun((uint32_t)name[0]);
  *cluster = ffi_cluster_with((uint32_t)name[1]);
  const uint32_t g = (uint32_t)name[2] - 1u;
  return *cluster == NULL || g >= (*cluster)->calls.site_count
             ? NULL
             : &(*cluster)->calls.sites[g];
}

// ffi_site_tell tells the site `at` a fact, see mst_site_tell; value: a number, in seconds for
// LEFT_NS. What follows: enum mst_site_end; NA if there is no such site any more, or it has another
// link now.
SEXP ffi_site_tell(SEXP at, SEXP fact, SEXP value) {
  struct mst_cluster *cluster;
  (void)ffi_remotes_tell();
  struct mst_site *site = site_at(at, &cluster);
  if (site == NULL || site->link != (uint32_t)INTEGER(at)[3])
    return Rf_ScalarInteger(NA_INTEGER);
  const enum mst_site_fact is = (enum mst_site_fact)Rf_asInteger(fact);
  const double x = Rf_asReal(value);
  const int64_t number = is != MST_SITE_LEFT_NS ? (int64_t)x
                         : x < 1e9              ? ffi_ns(x)
                                                : INT64_MAX;
  const int64_t now_ns = mst_clock_now();
  const enum mst_site_end end = mst_site_tell(site, is, number, now_ns);
  if (cluster != NULL) mst_cluster_look_at_sites(cluster, now_ns);
  return Rf_ScalarInteger((int)end);
}

// ffi_site_same tells whether the site is as it was when a thing to do was taken.
SEXP ffi_site_same(SEXP at) {
  struct mst_cluster *cluster;
  (void)ffi_remotes_tell();
  const struct mst_site *site = site_at(at, &cluster);
  return Rf_ScalarLogical(site != NULL &&
                          site->link == (uint32_t)INTEGER(at)[3] &&
                          site->is == (enum mst_site_is)INTEGER(at)[4]);
}

// ffi_sites_retry has the sites of a cluster that were given up try again.
SEXP ffi_sites_retry(SEXP id) {
  struct mst_cluster *at = ffi_cluster_with((uint32_t)Rf_asInteger(id));
  for (uint32_t g = 0; at != NULL && g < at->calls.site_count; g++)
    (void)mst_site_tell(&at->calls.sites[g], MST_SITE_RETRY, 0,
                        mst_clock_now());
  return R_NilValue;
}

// ---- things to do

// A thing to do, for all sites for which it is due. Filled without allocation: a finalizer may stop
// a cluster.
struct due {
  enum mst_site_do what;
  int *at, *states;
  double *values;
  R_xlen_t n, most;
  int64_t now_ns;
};

static int lasts(const struct mst_cluster *cluster) {
  return cluster->calls.pool.phase == MST_POOL_RUNNING && !cluster->stop_begun;
}

// each calls visit for the sites that R code looks after: of all clusters, or of those that are
// about to start.
static void each(SEXP numbers, struct due *due,
                 void (*visit)(struct due *, struct mst_site *, int id,
                               int group)) {
  for (R_xlen_t i = 0; i < Rf_xlength(numbers); i++) {
    struct mst_site *site = ffi_site_begun((uint32_t)INTEGER(numbers)[i]);
    if (site != NULL) visit(due, site, 0, 0);
  }
  if (numbers != R_NilValue) return;
  for (const struct mst_cluster *at = ffi_clusters(); at != NULL;
       at = at->next) {
    for (uint32_t g = 0; lasts(at) && g < at->calls.site_count; g++)
      visit(due, &at->calls.sites[g], (int)at->id, (int)g + 1);
  }
}

static void find_first(struct due *due, struct mst_site *site, int id,
                       int group) {
  (void)id;
  (void)group;
  const enum mst_site_do what = mst_site_first(site, due->now_ns);
  if (what < due->what) due->what = what;
  due->n++;
}

static void take(struct due *due, struct mst_site *site, int id, int group) {
  if (due->what == MST_SITE_LOOK) mst_site_look_too(site, due->now_ns);
  enum mst_site_do what = mst_site_first(site, due->now_ns);
  if (what != due->what || due->n == due->most) return;
  const R_xlen_t n = due->n++;
  due->states[n] = (int)site->is;
  due->values[n] = what == MST_SITE_WHY ? site->why
                   : what == MST_SITE_SAY_LEAVES
                       ? (double)site->left_ns / MST_NS_PER_S
                       : 0;
  (void)mst_site_next(site, &what, due->now_ns);
  const int name[] = {(int)site->number, id, group, (int)site->link,
                      (int)site->is};
  memcpy(&due->at[5 * n], name, sizeof name);
}

// ffi_sites_next takes the first kind of thing to do, for all sites for which it is due: list(what,
// at, value, is), where `at` has five numbers for each; NULL if nothing is due. numbers: of sites
// that are about to start; NULL: of all clusters. value: of WHY enum mst_site_why; of SAY_LEAVES
// how long the host may still run, in seconds. is: enum mst_site_is.
SEXP ffi_sites_next(SEXP numbers) {
  static const char *const names[] = {"what", "at", "value", "is"};
  struct due due = {.what = MST_SITE_DO_COUNT};
  (void)ffi_remotes_tell();
  ffi_servers_tell();
  due.now_ns = mst_clock_now();
  each(numbers, &due, find_first);
  if (due.what == MST_SITE_DO_COUNT) return R_NilValue;
  due.most = due.n;
  SEXP list = PROTECT(ffi_list(4, names));
  SET_VECTOR_ELT(list, 0, Rf_ScalarInteger((int)due.what));
  SEXP at = SET_VECTOR_ELT(list, 1, Rf_allocVector(INTSXP, 5 * due.most));
  SEXP values = SET_VECTOR_ELT(list, 2, Rf_allocVector(REALSXP, due.most));
  SEXP states = SET_VECTOR_ELT(list, 3, Rf_allocVector(INTSXP, due.most));
  due.at = INTEGER(at);
  due.values = REAL(values);
  due.states = INTEGER(states);
  due.n = 0;
  each(numbers, &due, take);
  SET_VECTOR_ELT(list, 1, Rf_xlengthgets(at, 5 * due.n));
  SET_VECTOR_ELT(list, 2, Rf_xlengthgets(values, due.n));
  UNPROTECT(1);
  return list;
}

static void note_due(struct due *due, struct mst_site *site, int id,
                     int group) {
  (void)id;
  (void)group;
  const int64_t due_ns = mst_site_due_ns(site);
  due->n += due_ns != INT64_MAX && due_ns <= mst_clock_now();
}

int ffi_sites_have_news(const struct mst_session *session) {
  struct due due = {.n = 0};
  if (session->clusters == NULL) return 0;
  const int over = ffi_remotes_tell();
  ffi_servers_tell();
  each(R_NilValue, &due, note_due);
  return over || due.n > 0;
}
