// The session's end of a link. See link.h.
#include "host/link.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "host/link_int.h"
#include "net/net.h"

// The keeper takes what the session hasn't taken the second time that it sees it.
#define STRIKES 2
#define LOCK_TRIES 20

// ---- failed

int mst_link_why(struct mst_link *link, struct mst_err *err) {
  (void)pthread_mutex_lock(&link->lock);
  const int failed = link->trunk.failed;
  if (failed != 0 && err != NULL) *err = link->trunk.err;
  (void)pthread_mutex_unlock(&link->lock);
  return failed;
}

// ---- owners are called

// call_owners calls those of one list. Any of them may close lines, and add others to the list.
static void call_owners(struct mst_link *link, struct mst_lls *list) {
  (void)pthread_mutex_lock(&link->lock);
  struct mst_ll *line = list->first;
  *list = (struct mst_lls){0};
  while (line != NULL) {
    struct mst_ll *next = line->next_due;
    const uint32_t ready = mst_ll_ready(line);
    struct mst_io *io = line->line.io;
    line->due = 0;
    line->said_end |=
        (ready & MST_READABLE) != 0 && (line->ended || link->trunk.failed != 0);
    (void)pthread_mutex_unlock(&link->lock);
    line->line.refs++;
    if (ready != 0) io->ready(io, ready);
    (void)pthread_mutex_lock(&link->lock);
    mst_ll_due(line); // what it left is for the next time
    (void)pthread_mutex_unlock(&link->lock);
    line->line.ops->release(&line->line);
    (void)pthread_mutex_lock(&link->lock);
    line = next;
  }
  (void)pthread_mutex_unlock(&link->lock);
}

static void link_ready(struct mst_io *io, uint32_t ready) {
  struct mst_link *link = (struct mst_link *)io->owner; // its first member
  const int64_t now_ns = mst_clock_now();
  (void)pthread_mutex_lock(&link->lock);
  if ((ready & MST_WRITABLE) != 0) link->trunk.out_blocked = 0;
  mst_link_read(link, now_ns);
  mst_trunk_fill(&link->trunk, now_ns);
  mst_trunk_answer(&link->trunk, now_ns);
  (void)pthread_mutex_unlock(&link->lock);
  call_owners(link, &link->due_prints);
}

// ---- tidied up

static void free_parcels(struct mst_parcels *parcels) {
  while (parcels->first != NULL) {
    struct mst_parcel *parcel = parcels->first;
    parcels->first = parcel->next;
    for (size_t i = 0; i < parcel->count; i++) {
      struct mst_line *line = &parcel->lines[i]->line;
      line->ops->release(line);
    }
    mst_blob_release(parcel->blob);
    free(parcel);
  }
  parcels->last = NULL;
}

static void free_over(struct mst_link *link) {
  for (struct mst_ll *line = link->lines, *next; line != NULL; line = next) {
    next = line->next;
    (void)pthread_mutex_lock(&link->lock);
    if (line->stream != NULL && mst_mux_is_over(line->stream)) {
      mst_mux_close(&link->trunk.mux, line->stream);
      line->stream = NULL;
    }
    (void)pthread_mutex_unlock(&link->lock);
    mst_ll_free(line);
  }
}

static void tidy(struct mst_link *link, int64_t now_ns) {
  (void)pthread_mutex_lock(&link->lock);
  const int some_over = link->trunk.some_over || now_ns >= link->forget_ns;
  struct mst_parcels spent = link->spent;
  link->trunk.some_over = 0;
  link->spent = (struct mst_parcels){0};
  if (some_over) mst_cargo_tidy(link, now_ns);
  if (!link->closed) {
    mst_trunk_answer(&link->trunk,
                     now_ns); // what owners read themselves is owed, too
    mst_trunk_fill(&link->trunk, now_ns);
  }
  (void)pthread_mutex_unlock(&link->lock);
  free_parcels(&spent);
  if (some_over) free_over(link);
}

static void tidy_all(struct mst_links *links, int64_t now_ns) {
  for (struct mst_link **at = &links->first; *at != NULL;) {
    struct mst_link *link = *at;
    tidy(link, now_ns);
    if (!link->closed || link->lines != NULL) {
      at = &link->next;
    } else {
      *at = link->next;
      link->is_listed = 0;
      mst_link_free(link);
    }
  }
}

// forget_due forgets whom to call.
static void forget_due(struct mst_lls *list) {
  while (list->first != NULL) {
    struct mst_ll *line = list->first;
    list->first = line->next_due;
    line->due = 0;
    mst_ll_free(line);
  }
  list->last = NULL;
}

void mst_links_end(struct mst_links *links) {
  while (links->first != NULL) {
    struct mst_link *link = links->first;
    links->first = link->next;
    mst_link_close(link);
    forget_due(&link->due_prints);
    forget_due(&link->due);
    tidy(link, mst_clock_now());
    link->is_listed = 0;
    mst_link_free(link);
  }
}

void mst_links_tidy(struct mst_links *links, int64_t now_ns) {
  for (struct mst_link *at = links->first; at != NULL; at = at->next)
    call_owners(at, &at->due_prints);
  tidy_all(links, now_ns);
}

void mst_links_deliver(struct mst_links *links, int64_t now_ns) {
  for (struct mst_link *at = links->first; at != NULL; at = at->next) {
    call_owners(at, &at->due_prints);
    call_owners(at, &at->due);
  }
  tidy_all(links, now_ns);
}

void mst_links_hold(struct mst_links *links) { links->held++; }

void mst_links_go_on(struct mst_links *links) {
  if (--links->held > 0) return;
  for (struct mst_link *at = links->first; at != NULL; at = at->next) {
    if (!at->holds) continue;
    at->holds = 0;
    (void)pthread_mutex_lock(&at->lock);
    if (!at->closed) mst_trunk_fill(&at->trunk, mst_clock_now());
    (void)pthread_mutex_unlock(&at->lock);
  }
}

int mst_links_have_news(const struct mst_links *links) {
  int news = 0;
  for (struct mst_link *at = links->first; at != NULL && !news; at = at->next) {
    (void)pthread_mutex_lock(&at->lock);
    news = at->due.first != NULL || at->due_prints.first != NULL;
    (void)pthread_mutex_unlock(&at->lock);
  }
  return news;
}

int64_t mst_links_due_ns(const struct mst_links *links) {
  int64_t due_ns = INT64_MAX;
  for (struct mst_link *at = links->first; at != NULL; at = at->next) {
    (void)pthread_mutex_lock(&at->lock);
    if (at->forget_ns < due_ns) due_ns = at->forget_ns;
    if (at->trunk.owes_ns < due_ns) due_ns = at->trunk.owes_ns;
    (void)pthread_mutex_unlock(&at->lock);
  }
  return due_ns;
}

// ---- the keeper's

static int waits_to_be_read(const struct mst_link *link) {
  struct pollfd polled = {.fd = link->trunk.in_io.fd, .events = POLLIN};
  return mst_cable_has_more(&link->trunk.cable) || poll(&polled, 1, 0) > 0;
}

// lock_soon doesn't wait for ever: after a failed assertion nobody unlocks it.
static int lock_soon(struct mst_link *link) {
  for (int i = 0; i < LOCK_TRIES; i++) {
    if (pthread_mutex_trylock(&link->lock) == 0) return 1;
    (void)poll(NULL, 0, 1);
  }
  return 0;
}

void mst_link_keep(struct mst_link *link, int64_t now_ns) {
  if (!lock_soon(link)) return;
  const int64_t before_ns = link->kept_ns;
  link->kept_ns = now_ns;
  if (link->trunk.failed == 0) {
    const int left = link->reads == link->reads_kept && waits_to_be_read(link);
    link->strikes = left ? (uint8_t)(link->strikes + 1) : 0;
    if (link->strikes >= STRIKES) {
      link->strikes = 0;
      mst_link_read(link, now_ns);
    }
    link->reads_kept = link->reads;
    if (left) link->trunk.mux.heard_ns = now_ns;
    mst_trunk_beat(&link->trunk, before_ns, now_ns);
    link->trunk.out_blocked = 0; // the loop can't be told
    mst_trunk_push(&link->trunk, now_ns);
  }
  (void)pthread_mutex_unlock(&link->lock);
}

void mst_link_give_up(struct mst_link *link) {
  if (link->trunk.failed == 0) link->trunk.failed = -MST_EPROTO;
  (void)pthread_mutex_unlock(&link->lock);
}

// ---- opened and closed

static int open_first(struct mst_link *link) {
  struct mst_stream *stream = mst_mux_first(&link->trunk.mux);
  if (stream != NULL)
    link->first = mst_ll_new(link, MST_STREAM_CONTROL, stream);
  return link->first != NULL ? 0 : -MST_EMEM;
}

static const struct mst_trunk_ops ops = {.is_session = 1,
                                         .ready = link_ready,
                                         .came = mst_pump_came,
                                         .turn = mst_pump_turn,
                                         .fails = mst_pump_fails};

int mst_link_open(const struct mst_link_config *config, struct mst_links *links,
                  struct mst_loop *prints, struct mst_link **out,
                  struct mst_line **first, struct mst_err *err) {
  struct mst_link *link = calloc(1, sizeof *link);
  const int64_t now_ns = mst_clock_now();
  if (link == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a link");
  int rc = mst_trunk_open(&link->trunk, config, &ops, prints, now_ns, err);
  if (rc == 0 && (rc = open_first(link)) != 0) {
    (void)mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a link");
    mst_trunk_free(&link->trunk);
  }
  if (rc != 0) {
    free(link);
    return rc;
  }
  (void)pthread_mutex_init(&link->lock, NULL);
  link->forget_ns = INT64_MAX;
  link->kept_ns = now_ns;
  link->links = links;
  link->is_listed = 1;
  link->next = links->first;
  links->first = link;
  mst_trunk_fill(&link->trunk, now_ns);
  *out = link;
  *first = &link->first->line;
  return 0;
}

// close_fds says that nothing more comes of the first stream, too: a child of this process may
// still have the link.
static void close_fds(struct mst_link *link) {
  if (link->trunk.failed == 0 && link->first != NULL &&
      link->first->stream != NULL) {
    const int64_t now_ns = mst_clock_now();
    mst_trunk_push(&link->trunk, now_ns); // small writes may wait until now
    mst_mux_end(&link->trunk.mux, link->first->stream);
    mst_trunk_push(&link->trunk, now_ns);
  }
  mst_trunk_fail(&link->trunk, -MST_ECLOSED, "this end was closed");
  link->closed = 1;
  mst_trunk_close(&link->trunk);
}

void mst_link_close(struct mst_link *link) {
  if (link == NULL || link->closed) return;
  (void)pthread_mutex_lock(&link->lock);
  close_fds(link);
  for (struct mst_ll *line = link->lines; line != NULL; line = line->next)
    mst_ll_abandon(line);
  mst_cargo_abandon(link);
  mst_mux_free(&link->trunk.mux);
  link->trunk.some_over = 1;
  (void)pthread_mutex_unlock(&link->lock);
}

void mst_link_break(struct mst_link *link) {
  if (link == NULL || link->closed) return;
  // The assertion that failed may have left it locked: then it can't say that it ends.
  const int locked = pthread_mutex_trylock(&link->lock) == 0;
  mst_trunk_break(&link->trunk);
  if (!locked && link->trunk.failed == 0) link->trunk.failed = -MST_ECLOSED;
  close_fds(link);
  if (locked) (void)pthread_mutex_unlock(&link->lock);
}
