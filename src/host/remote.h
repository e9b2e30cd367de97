// host/remote: the session's end of another host. A command of the user's (ssh, srun, ...) leads to
// a host process there, and becomes the link to it. No R.
//
// A remote belongs to the thread that has its loops, but for its keeper, which has one of its own.
// Nothing here waits but mst_remote_free.
#ifndef MST_HOST_REMOTE_H
#define MST_HOST_REMOTE_H

#include "base/mst_buf.h"
#include "base/mst_clock.h"
#include "fork/fork.h"
#include "host/keeper.h"

#define MST_REMOTE_NAME_MAX 256u
#define MST_REMOTE_BUILD_MAX 64u
#define MST_REMOTE_JOB_MAX 64u

struct mst_remote {
  struct mst_host
      host; // first member: casts both ways; must outlive its workers
  char name[MST_REMOTE_NAME_MAX];
  char job[MST_REMOTE_JOB_MAX];
  char build[MST_REMOTE_BUILD_MAX];
  struct mst_loop *loop, *prints;
  struct mst_links *links;
  struct mst_link_config config; // its descriptors: until the link has them
  struct mst_keeper *keeper;
  struct mst_io greeted_io;
  struct mst_link *link; // NULL: not greeted yet, or gone
  int failed;            // why it is gone, and err, or 0: this end was closed
  struct mst_err err;
  pid_t pid;    // of the command
  pid_t owner;  // the process that may use it
  uint32_t how; // enum mst_exit, NONE while the command runs
  int32_t number;
  struct mst_output errors; // what the command prints to its standard error
  struct mst_chan chan;     // to the host process
  struct mst_io io;
  struct mst_buf facts; // HOST's payload
  uint8_t has_facts;
  uint8_t gone;   // the channel has ended, at gone_ns
  uint8_t leaves; // the host process was told to end
  uint8_t
      waits; // its command may wait in a queue: it doesn't see that the link ends
  int64_t gone_ns;
  int64_t end_ns; // when its end began, or 0
};

// mst_remote_start runs the command, whose standard input and output become the link. spawn's
// input, output and errors, and how's descriptors, are filled in here. The host process may take
// until until_ns to answer. 0 and *out; else an error, and nothing is left.
int mst_remote_start(const char *name, struct mst_loop *loop,
                     struct mst_loop *prints, struct mst_links *links,
                     struct mst_spawn *spawn, const struct mst_link_config *how,
                     int64_t until_ns, struct mst_remote **out,
                     struct mst_err *err);
// mst_remote_expect makes one that no command leads to: its host comes by itself, by a cable that
// mst_remote_arrive takes over. After an error of that it is gone.
int mst_remote_expect(const char *name, struct mst_loop *loop,
                      struct mst_loop *prints, struct mst_links *links,
                      const struct mst_link_config *how,
                      struct mst_remote **out, struct mst_err *err);
int mst_remote_arrive(struct mst_remote *remote, struct mst_cable *cable,
                      int64_t until_ns, struct mst_err *err);
// mst_remote_is asks for the outcome: 1 if the host has told its facts, 0 if it hasn't yet, or an
// error if it won't, or is gone.
int mst_remote_is(const struct mst_remote *remote, struct mst_err *err);
// mst_remote_server asks the host process for a fork server. order: for it; setup: for the server.
// As mst_server_start.
int mst_remote_server(struct mst_remote *remote, struct mst_blob *order,
                      struct mst_blob *setup, mst_news_sink sink,
                      void *sink_owner, struct mst_server **out,
                      struct mst_err *err);
// mst_remote_reap asks whether the command has ended; fills how.
int mst_remote_reap(struct mst_remote *remote);
// mst_remote_end closes the link, upon which the host process ends everything there. A command that
// hasn't led to muster yet gets SIGTERM, which lets it take back what it asked for. Doesn't wait.
// mst_remote_break does the same where the loops are given up, and doesn't touch them.
void mst_remote_end(struct mst_remote *remote);
void mst_remote_break(struct mst_remote *remote);
// mst_remote_free does that, waits for the command to end, and frees all. After two seconds the
// command gets SIGTERM, after six more SIGKILL.
void mst_remote_free(struct mst_remote *remote);

#endif
