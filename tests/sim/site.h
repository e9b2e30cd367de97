// The simulation of src/sched/site: the monitor's book, the simulation with seeds (site.c), and the
// search through small worlds (site_explore.c).
//
// The book is a second reading of the contract in sched/site.h: from facts and the time it says
// when each thing is due. What a site gives must be due, and what is due must be given; what
// follows from a failure must have its cause.
#ifndef SIM_SITE_H
#define SIM_SITE_H

#include "sched/site.h"

#define SITE_NEVER INT64_MAX

// What a site has of its host: a command that runs, or a link.
enum site_has { SITE_NOTHING, SITE_COMMAND, SITE_LINK };
enum site_server { SITE_SERVERLESS, SITE_BOOTS, SITE_SERVES };

struct site_book {
  struct mst_site_terms terms;
  enum site_has has;
  enum site_server server;
  uint8_t first;     // the fork server that boots is the first one there
  uint8_t booted;    // it was told to be ready, or to have ended
  uint8_t asleep;    // nobody needs a host
  uint8_t lost;      // it was given up
  uint8_t why;       // WHY was given for this command
  uint8_t cause;     // enum mst_site_why, that it must have
  uint8_t again;     // a host that fails is asked for again
  uint8_t told;      // the host was told to end
  uint8_t waited;    // its command has waited
  uint32_t pauses;   // since work began to need a host
  uint32_t shorts;   // hosts in a row that stayed for less than ten seconds
  int64_t came_ns;   // when the last one came
  uint32_t link, left;
  int64_t asked_ns, runs_ns, margin_ns, left_ns;
  int64_t due_ns[MST_SITE_DO_COUNT]; // when each thing is due
};

void site_book_init(struct site_book *book, const struct mst_site_terms *terms,
                    enum mst_site_is is, int64_t now_ns);
// These give what is wrong, or NULL. site_book_tell books a fact that the site has been told, with
// what it said then; site_book_take judges what it gives. site_book_settled judges it when it has
// nothing more to give: nothing may be due, and its state must be that of the book.
const char *site_book_tell(struct site_book *book, enum mst_site_fact fact,
                           int64_t value, enum mst_site_end end,
                           int64_t now_ns);
const char *site_book_take(struct site_book *book, const struct mst_site *site,
                           enum mst_site_do what, int64_t now_ns);
const char *site_book_settled(const struct site_book *book,
                              const struct mst_site *site, int64_t now_ns);

const char *site_fact_name(enum mst_site_fact fact);
const char *site_do_name(enum mst_site_do what);
const char *site_state_name(enum mst_site_is is);

// site_explore searches the small worlds; the number of failures.
int site_explore(void);
// site_explore_way replays one history in a world: see its failure.
int site_explore_way(unsigned world, const char *way);

#endif
