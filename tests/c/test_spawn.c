// Tests of fork/spawn: a new process's environment variables.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork/fork.h"
#include "mst_net_test.h"

static const char *value_in(char *const *env, const char *name) {
  const size_t n = strlen(name);
  for (; *env != NULL; env++) {
    if (strncmp(*env, name, n) == 0 && (*env)[n] == '=') return *env + n + 1;
  }
  return NULL;
}

TEST("Variables are the session's, with some replaced or removed") {
  const char *const over[] = {"MST_ONE=over", "MST_TWO", "MST_NEW=a=b", NULL};
  CHECK(setenv("MST_ONE", "session", 1) == 0);
  CHECK(setenv("MST_TWO", "session", 1) == 0);
  CHECK(setenv("MST_ONE_MORE", "", 1) == 0);
  char **env = mst_spawn_env(over);
  CHECK(env != NULL);
  CHECK_TEXT(value_in(env, "MST_ONE"), "over");
  CHECK_TEXT(value_in(env, "MST_ONE_MORE"), "");
  CHECK_TEXT(value_in(env, "MST_NEW"), "a=b");
  CHECK(value_in(env, "MST_TWO") == NULL);
  free(env);
}

// The I/O thread starts workers too, while R may change what environ points to.
TEST("A process with a complete environment gets no later variables") {
  const char *const none[] = {NULL};
  char shell[] = "/bin/sh", flag[] = "-c",
       ask[] = "test \"$MST_EARLY\" = 1 && test -z \"$MST_LATE\"";
  char *const argv[] = {shell, flag, ask, NULL};
  CHECK(setenv("MST_EARLY", "1", 1) == 0);
  char **env = mst_spawn_env(none);
  CHECK(env != NULL);
  CHECK(setenv("MST_LATE", "1", 1) == 0);
  CHECK(setenv("MST_EARLY", "2", 1) == 0);
  const struct mst_spawn spawn = {.file = shell,
                                  .argv = argv,
                                  .env = (const char *const *)env,
                                  .env_whole = 1,
                                  .fds = {-1, -1, -1},
                                  .output = STDERR_FILENO, .errors = -1,
                                  .input = -1};
  struct mst_err err = {0};
  pid_t pid = -1;
  CHECK_INT(mst_spawn_run(&spawn, &pid, &err), 0);
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  free(env);
}
