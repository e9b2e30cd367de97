// A launcher that boots each worker as a separate R. See fork.h.
//
// The workers are children of the session, so only the session can wait for them, and it gets no
// notice when one ends: SIGCHLD belongs to the user. So reap() checks each one; the caller calls it
// while it waits.
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "fork/fork.h"

struct mst_spawner {
  struct mst_launcher launcher; // first member: casts both ways
  char *file;
  char **argv;
  char **
      env; // complete: the I/O thread launches too, while R may change the session's
  int session_fd;
  struct mst_kid *kids;
  mst_news_sink sink;
  void *sink_owner;
};

static void free_list(char **list) {
  for (size_t i = 0; list != NULL && list[i] != NULL; i++)
    free(list[i]);
  free(list);
}

static char **copy_list(const char *const *list) {
  size_t n = 0;
  while (list[n] != NULL)
    n++;
  char **copy = calloc(n + 1, sizeof(char *));
  for (size_t i = 0; copy != NULL && i < n; i++) {
    copy[i] = strdup(list[i]);
    if (copy[i] == NULL) {
      free_list(copy);
      return NULL;
    }
  }
  return copy;
}

// spawn boots a worker with these ends.
static int spawn(const struct mst_spawner *self, const int fds[3], pid_t *pid,
                 struct mst_err *err) {
  const struct mst_spawn spawn = {.file = self->file,
                                  .argv = self->argv,
                                  .env = (const char *const *)self->env,
                                  .env_whole = 1,
                                  .fds = {fds[0], fds[1], self->session_fd},
                                  .output = fds[2],
                                  .errors = -1,
                                  .input = -1};
  return mst_spawn_run(&spawn, pid, err);
}

static int spawner_launch(struct mst_launcher *launcher,
                          const struct mst_incarnation *of,
                          struct mst_conduit *conduit, struct mst_err *err) {
  struct mst_spawner *self = (struct mst_spawner *)(void *)launcher;
  struct mst_news news = {.kind = MST_NEWS_FORKED, .of = *of};
  struct mst_ends theirs;
  struct mst_kid *kid = mst_kids_add(&self->kids, of);
  if (kid == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a worker");
  }
  int rc = mst_conduit_open(conduit, NULL, &theirs, err);
  if (rc != 0) goto out_kid;
  rc = spawn(self, theirs.fds, &kid->pid, err);
  mst_ends_close(&theirs);
  if (rc != 0) goto out_conduit;
  news.number = (int32_t)kid->pid;
  self->sink(self->sink_owner, &news);
  return 0;
out_conduit:
  mst_conduit_close(conduit);
out_kid:
  mst_kids_drop(&self->kids, of);
  return rc;
}

static void spawner_signal(struct mst_launcher *launcher,
                           const struct mst_incarnation *of, pid_t pid,
                           int signal) {
  const struct mst_spawner *self = (struct mst_spawner *)(void *)launcher;
  (void)pid;
  mst_kids_signal(self->kids, of, signal);
}

static void spawner_reap(struct mst_launcher *launcher) {
  struct mst_spawner *self = (struct mst_spawner *)(void *)launcher;
  mst_kids_reap(&self->kids, self->sink, self->sink_owner);
}

void mst_spawner_end(struct mst_spawner *self) {
  for (int round = 0; round < 2; round++) {
    mst_kids_wait(&self->kids, mst_clock_now() + MST_NS_PER_S, NULL, NULL);
    mst_kids_kill(self->kids);
  }
}

struct mst_spawner *mst_spawner_new(struct mst_host *host,
                                    const struct mst_spawn *spawn,
                                    mst_news_sink sink, void *sink_owner) {
  struct mst_spawner *self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  self->launcher.host = host;
  self->launcher.launch = spawner_launch;
  self->launcher.signal = spawner_signal;
  self->launcher.reap = spawner_reap;
  self->session_fd = spawn->fds[2];
  self->sink = sink;
  self->sink_owner = sink_owner;
  self->file = strdup(spawn->file);
  self->argv = copy_list((const char *const *)spawn->argv);
  self->env = mst_spawn_env(spawn->env);
  if (self->file == NULL || self->argv == NULL || self->env == NULL) {
    mst_spawner_free(self);
    return NULL;
  }
  return self;
}

struct mst_launcher *mst_spawner_launcher(struct mst_spawner *self) {
  return &self->launcher;
}

void mst_spawner_free(struct mst_spawner *self) {
  if (self == NULL) return;
  mst_kids_free(&self->kids);
  free_list(self->argv);
  free(self->env);
  free(self->file);
  free(self);
}
