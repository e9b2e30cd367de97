// Starts a process: vfork and exec. See fork.h.
//
// vfork, because fork() copies the page tables of the user's session (7.6 ms with 1 GB resident)
// and because posix_spawn() can't set a parent-death signal. Between vfork and exec the child
// shares the session's memory: it calls only async-signal-safe functions and writes only to its own
// stack. Signals are blocked meanwhile and reset to their defaults in the child (its handlers are a
// copy), so that no handler of R's runs in the child.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fork/fork.h"

extern char **environ;

// Descriptors are first moved above their targets.
#define FD_FLOOR 16

static int name_length(const char *entry) {
  const char *equals = strchr(entry, '=');
  return equals == NULL ? (int)strlen(entry) : (int)(equals - entry);
}

static int is_overridden(const char *entry, const char *const *env) {
  const int n = name_length(entry);
  for (size_t i = 0; env[i] != NULL; i++) {
    if (name_length(env[i]) == n && strncmp(entry, env[i], (size_t)n) == 0) {
      return 1;
    }
  }
  return 0;
}

char **mst_spawn_env(const char *const *env) {
  size_t entries = 1, bytes = 0;
  for (char **at = environ; at != NULL && *at != NULL; at++, entries++)
    bytes += strlen(*at) + 1;
  for (size_t i = 0; env[i] != NULL; i++, entries++)
    bytes += strlen(env[i]) + 1;
  char **merged = calloc(1, entries * sizeof *merged + bytes);
  if (merged == NULL) return NULL;
  char *text = (char *)(merged + entries);
  size_t n = 0;
  for (char **at = environ; at != NULL && *at != NULL; at++) {
    if (is_overridden(*at, env)) continue;
    merged[n++] = text;
    text = stpcpy(text, *at) + 1;
  }
  for (size_t i = 0; env[i] != NULL; i++) {
    if (strchr(env[i], '=') == NULL) continue;
    merged[n++] = text;
    text = stpcpy(text, env[i]) + 1;
  }
  return merged;
}

static void default_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  for (int sig = 1; sig < NSIG; sig++)
    (void)sigaction(sig, &action, NULL);
}

// place_fds moves the descriptors to 3, 4, 5 and 0, 1, 2, and closes all others except the report
// pipe, which it moves as well. A program without any of the first three isn't muster's, and gets
// nothing at their numbers.
static int place_fds(const struct mst_spawn *spawn, int *report) {
  int from[5];
  for (int i = 0; i < 5; i++) {
    const int fd = i < 3    ? spawn->fds[i]
                   : i == 3 ? spawn->output
                            : spawn->errors;
    from[i] = fd < 0 ? -1 : mst_proc_dup(fd, FD_FLOOR);
    if (fd >= 0 && from[i] < 0) return -1;
  }
  const int report_from = mst_proc_dup(*report, FD_FLOOR);
  const int in = spawn->input < 0 ? open("/dev/null", O_RDONLY)
                                  : mst_proc_dup(spawn->input, FD_FLOOR);
  if (report_from < 0 || in < 0) return -1;
  if (in != STDIN_FILENO && dup2(in, STDIN_FILENO) < 0) return -1;
  if (dup2(from[3], STDOUT_FILENO) < 0) return -1;
  if (dup2(from[from[4] < 0 ? 3 : 4], STDERR_FILENO) < 0) return -1;
  for (int i = 0; i < 3; i++) {
    const int fd = MST_FD_DATA + i;
    if (from[i] >= 0) {
      if (dup2(from[i], fd) < 0) return -1;
    } else if (from[0] < 0) {
      (void)close(fd);
    } else if (mst_fds_reserve(fd) != 0) {
      return -1;
    }
  }
  *report = MST_FD_SESSION + 1;
  if (dup2(report_from, *report) < 0) return -1;
  (void)fcntl(*report, F_SETFD, FD_CLOEXEC);
  mst_proc_close_from(*report + 1);
  return 0;
}

// run_child never returns. It reports errno through the pipe if exec fails.
__attribute__((noinline, noreturn)) static void
run_child(const struct mst_spawn *spawn, char *const *env, int report,
          pid_t parent) {
  (void)setpgid(0, 0);
  default_signals();
  mst_proc_die_with_parent(spawn->end_signal == 0 ? SIGKILL
                                                  : spawn->end_signal);
  if (getppid() == parent && place_fds(spawn, &report) == 0) {
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execve(spawn->file, spawn->argv, env);
  }
  const int failed = errno;
  const ssize_t written = write(report, &failed, sizeof failed);
  (void)written;
  for (;;)
    (void)kill(getpid(), SIGKILL); // ends here without cleanup
}

// exec_outcome reads the child's report: 0 if exec closed the pipe, else errno.
static int exec_outcome(int report) {
  int failed = 0;
  ssize_t got;
  do {
    got = read(report, &failed, sizeof failed);
  } while (got < 0 && errno == EINTR);
  return got == (ssize_t)sizeof failed ? failed : 0;
}

// vfork_child makes the child. Signals stay blocked until it has called exec or ended, which is
// when vfork returns.
static pid_t vfork_child(const struct mst_spawn *spawn, char *const *env,
                         int report) {
  sigset_t all, before;
  (void)sigfillset(&all);
  (void)sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t parent = getpid();
  const pid_t pid = vfork();
  if (pid == 0) run_child(spawn, env, report, parent);
  const int failed = errno;
  (void)sigprocmask(SIG_SETMASK, &before, NULL);
  errno = failed;
  return pid;
}

int mst_spawn_run(const struct mst_spawn *spawn, pid_t *pid,
                  struct mst_err *err) {
  char **own = spawn->env_whole ? NULL : mst_spawn_env(spawn->env);
  char *const *env = own;
  // execve's type predates const.
  if (spawn->env_whole) memcpy(&env, &spawn->env, sizeof env);
  if (env == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory to start R");
  }
  int report[2];
  int rc = mst_net_pipe(report, err);
  if (rc != 0) goto out;
  (void)fcntl(report[0], F_SETFL, 0);
  const pid_t child = vfork_child(spawn, env, report[1]);
  const int fork_errno = errno;
  mst_net_close(&report[1]);
  if (child < 0) {
    rc = mst_err_set(err, MST_ESYS, fork_errno, "fork", "%s",
                     strerror(fork_errno));
    goto out_pipe;
  }
  (void)setpgid(child, child); // both sides set it; either may be first
  const int failed = exec_outcome(report[0]);
  if (failed != 0) {
    uint32_t how;
    int32_t number;
    while (mst_reap(child, &how, &number) == 0)
      continue; // it is ending
    rc = mst_err_set(err, MST_ESYS, failed, "exec", "%s: %s", spawn->file,
                     strerror(failed));
    goto out_pipe;
  }
  *pid = child;
out_pipe:
  mst_net_close(&report[0]);
out:
  free(own);
  return rc;
}
