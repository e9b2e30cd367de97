// The sites of clusters, by their numbers. A number is R's: of a host that a command leads to, 0
// for this machine. While a cluster is about to start its sites are here; then it has copies.
#include <stdlib.h>

#include "base/mst_clock.h"
#include "ffi/session/session.h"

struct begun_site {
  struct begun_site *next;
  struct mst_site site;
};

static struct begun_site *begun;
static pid_t owner; // a forked child leaves its parent's sites alone

static void forget_parents(void) {
  if (owner == ffi_self()) return;
  owner = ffi_self();
  begun = NULL;
}

struct mst_site *ffi_site_begun(uint32_t number) {
  forget_parents();
  struct begun_site *at = begun;
  while (at != NULL && at->site.number != number)
    at = at->next;
  return at == NULL || number == 0 ? NULL : &at->site;
}

// found keeps where each number was found last: cluster's id and place. With many hosts, a search
// for each would cost more than an answer.
#define FOUND 1024u
static struct found { uint32_t number, id, at; } found[FOUND];

static struct mst_site *look_up(const struct found *last, uint32_t number) {
  if (last->number != number) return NULL;
  const struct mst_cluster *at = ffi_cluster_with(last->id);
  return at == NULL || last->at >= at->calls.site_count ||
                 at->calls.sites[last->at].number != number
             ? NULL
             : &at->calls.sites[last->at];
}

struct mst_site *ffi_site_of(uint32_t number, uint32_t *id) {
  struct found *last = &found[number % FOUND];
  struct mst_site *known = number == 0 ? NULL : look_up(last, number);
  if (id != NULL) *id = known == NULL ? 0 : last->id;
  if (known != NULL) return known;
  for (const struct mst_cluster *at = ffi_clusters(); number != 0 && at != NULL;
       at = at->next) {
    for (uint32_t g = 0; g < at->calls.site_count; g++) {
      if (at->calls.sites[g].number != number) continue;
      if (id != NULL) *id = at->id;
      *last = (struct found){.number = number, .id = at->id, .at = g};
      return &at->calls.sites[g];
    }
  }
  return ffi_site_begun(number);
}

static int64_t ns_or_never(double s) { return s < 1e9 ? ffi_ns(s) : INT64_MAX; }

// ffi_site_new makes a site of a cluster that is about to start, on another host, or begins it
// again. terms: whether its command may wait in a queue, its host has a time limit, its workers
// come back, and its host is given back; how long a host may take to start, and its command may
// wait, in seconds; whether no host is asked for yet. FALSE if memory is short.
SEXP ffi_site_new(SEXP number, SEXP terms) {
  const double *is = REAL(terms);
  const struct mst_site_terms how = {.far = 1,
                                     .queued = is[0] > 0,
                                     .limited = is[1] > 0,
                                     .heals = is[2] > 0,
                                     .scales = is[3] > 0,
                                     .start_ns = ns_or_never(is[4]),
                                     .queue_ns = ns_or_never(is[5])};
  const uint32_t name = (uint32_t)Rf_asInteger(number);
  struct mst_site *site = ffi_site_begun(name);
  const uint32_t link = site == NULL ? 0 : site->link;
  if (site == NULL) {
    struct begun_site *made = malloc(sizeof *made);
    if (made == NULL) return Rf_ScalarLogical(0);
    made->next = begun;
    begun = made;
    site = &made->site;
  }
  mst_site_init(site, &how, is[6] > 0 ? MST_SITE_ASLEEP : MST_SITE_PAUSED,
                mst_clock_now());
  site->number = name;
  site->link = link; // what is known of its former link is old
  return Rf_ScalarLogical(1);
}

// ffi_sites_drop forgets sites of a cluster that has started, or won't.
SEXP ffi_sites_drop(SEXP numbers) {
  forget_parents();
  for (R_xlen_t i = 0; i < Rf_xlength(numbers); i++) {
    struct begun_site **at = &begun;
    while (*at != NULL && (*at)->site.number != (uint32_t)INTEGER(numbers)[i])
      at = &(*at)->next;
    if (*at == NULL) continue;
    struct begun_site *gone = *at;
    *at = gone->next;
    free(gone);
  }
  return R_NilValue;
}
