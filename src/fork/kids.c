// The workers that a process must wait for. See fork.h.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "base/mst_clock.h"
#include "fork/fork.h"

struct mst_kid *mst_kids_add(struct mst_kid **kids,
                             const struct mst_incarnation *of) {
  struct mst_kid *kid = calloc(1, sizeof *kid);
  if (kid == NULL) return NULL;
  *kid = (struct mst_kid){.next = *kids, .of = *of};
  *kids = kid;
  return kid;
}

static struct mst_kid **find(struct mst_kid **kids,
                             const struct mst_incarnation *of) {
  while (*kids != NULL &&
         ((*kids)->of.cluster != of->cluster ||
          (*kids)->of.worker != of->worker || (*kids)->of.epoch != of->epoch)) {
    kids = &(*kids)->next;
  }
  return kids;
}

int mst_kids_have(struct mst_kid *kids, const struct mst_incarnation *of) {
  return *find(&kids, of) != NULL;
}

void mst_kids_mark(struct mst_kid *kids, const struct mst_incarnation *of) {
  struct mst_kid *kid = *find(&kids, of);
  if (kid != NULL) kid->killed = 1;
}

int mst_kids_killed(const struct mst_kid *kids) {
  while (kids != NULL && !kids->killed)
    kids = kids->next;
  return kids != NULL;
}

static void drop(struct mst_kid **at) {
  struct mst_kid *kid = *at;
  if (kid == NULL) return;
  *at = kid->next;
  free(kid);
}

void mst_kids_drop(struct mst_kid **kids, const struct mst_incarnation *of) {
  drop(find(kids, of));
}

void mst_kids_free(struct mst_kid **kids) {
  while (*kids != NULL)
    drop(kids);
}

void mst_kids_signal(struct mst_kid *kids, const struct mst_incarnation *of,
                     int signal) {
  const struct mst_kid *kid = *find(&kids, of);
  if (kid != NULL) (void)kill(-kid->pid, signal);
}

void mst_kids_reap(struct mst_kid **kids, mst_news_sink sink, void *owner) {
  while (*kids != NULL) {
    const struct mst_kid kid = **kids;
    struct mst_news news = {.kind = MST_NEWS_EXITED, .of = kid.of};
    if (mst_reap(kid.pid, &news.how, &news.number) == 0) {
      kids = &(*kids)->next;
      continue;
    }
    drop(kids);
    if (sink != NULL) sink(owner, &news);
  }
}

void mst_kids_wait(struct mst_kid **kids, int64_t deadline_ns,
                   mst_news_sink sink, void *owner) {
  for (mst_kids_reap(kids, sink, owner);
       *kids != NULL && mst_clock_now() < deadline_ns;
       mst_kids_reap(kids, sink, owner))
    (void)poll(NULL, 0, 1);
}

void mst_kids_kill(const struct mst_kid *kids) {
  for (; kids != NULL; kids = kids->next)
    (void)kill(-kids->pid, SIGKILL);
}
