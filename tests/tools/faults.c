// What R code can't do to its own process: end it without R, crash it, write to
// any of its descriptors, at moments when no R code runs. Compiled by the tests (R CMD
// SHLIB) and loaded in workers.
#include <R.h>
#include <Rinternals.h>

#include <R_ext/Altrep.h>
#include <R_ext/Rdynload.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// The worker's descriptor for data.
#define DATA_FD 3

// Ends the process as the system does, past R and its finalizers.
SEXP faults_exit(SEXP status) {
  _exit(Rf_asInteger(status));
  return R_NilValue;
}

// Reads where nothing is.
SEXP faults_segv(void) {
  volatile int *nowhere = (volatile int *)(uintptr_t)8;
  return Rf_ScalarInteger(*nowhere);
}

// Writes bytes to a descriptor: how many were written.
SEXP faults_write(SEXP fd, SEXP bytes) {
  return Rf_ScalarInteger(
      (int)write(Rf_asInteger(fd), RAW(bytes), (size_t)XLENGTH(bytes)));
}

SEXP faults_close(SEXP fd) {
  return Rf_ScalarInteger(close(Rf_asInteger(fd)));
}

// Computes in C, with no look at interrupts, for that many seconds.
SEXP faults_compute(SEXP seconds) {
  const double end = (double)clock() / CLOCKS_PER_SEC + Rf_asReal(seconds);
  double x = 0.5;
  while ((double)clock() / CLOCKS_PER_SEC < end) {
    for (int i = 0; i < 100000; i++) x = 3.9 * x * (1.0 - x);
  }
  return Rf_ScalarReal(x);
}

// Makes this process the parent of what its children leave behind, as the first process of
// a container is.
SEXP faults_adopt(void) {
#ifdef __linux__
  return Rf_ScalarInteger(prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL));
#else
  return Rf_ScalarInteger(-1);
#endif
}

// Ignores a signal as a library might.
SEXP faults_ignore(SEXP sig) {
  (void)signal(Rf_asInteger(sig), SIG_IGN);
  return R_NilValue;
}

// Does by default what a signal asks for, though who started this process may have ignored it.
SEXP faults_heed(SEXP sig) {
  (void)signal(Rf_asInteger(sig), SIG_DFL);
  return R_NilValue;
}

// Memory that this process may have beside what it has, in bytes.
SEXP faults_limit_memory(SEXP more) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld", &pages) != 1) Rf_error("no statm");
  (void)fclose(file);
  const rlim_t bytes =
      (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (rlim_t)Rf_asReal(more);
  const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
  return Rf_ScalarInteger(setrlimit(RLIMIT_AS, &limit));
}

// ---- faults at a moment

// first_time: a fault with a file happens once, whichever process comes to it; one
// without happens each time.
static int first_time(const char *file) {
  if (file[0] == '\0') return 1;
  const int fd = open(file, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) (void)close(fd);
  return fd >= 0;
}

static void act(const char *what) {
  static const struct {
    const char *name;
    int signal;
  } signals[] = {{"SIGSEGV", SIGSEGV}, {"SIGKILL", SIGKILL},
                 {"SIGTERM", SIGTERM}, {"SIGSTOP", SIGSTOP}};
  if (strcmp(what, "exit") == 0) _exit(3);
  if (strcmp(what, "error") == 0) Rf_error("can't be read"); // R's thread only
  if (strcmp(what, "garbage") == 0) {
    char bytes[64];
    memset(bytes, 0xff, sizeof bytes);
    (void)!write(DATA_FD, bytes, sizeof bytes);
  }
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    if (strcmp(what, signals[i].name) == 0) (void)kill(getpid(), signals[i].signal);
  }
  if (strcmp(what, "quit") == 0) { // on R's thread only
    SEXP call = PROTECT(Rf_lang3(Rf_install("quit"), Rf_mkString("no"), Rf_ScalarInteger(4)));
    (void)Rf_eval(call, R_BaseEnv);
    UNPROTECT(1);
  }
}

static const char *text_of(SEXP x, int i) { return CHAR(STRING_ELT(x, i)); }

// order: c(what, file).
SEXP faults_act(SEXP order) {
  if (first_time(text_of(order, 1))) act(text_of(order, 0));
  return R_NilValue;
}

// An integer that is at fault when it is serialized or unserialized: a vector with
// c(what, file, moment) beside its value.
static R_altrep_class_t bomb_class;

static R_xlen_t bomb_length(SEXP x) {
  (void)x;
  return 1;
}

static void *bomb_data(SEXP x, Rboolean writable) {
  (void)writable;
  return INTEGER(R_altrep_data1(x));
}

static void go_off(SEXP order, const char *moment) {
  if (strcmp(text_of(order, 2), moment) == 0) (void)faults_act(order);
}

static SEXP bomb_state(SEXP x) {
  go_off(R_altrep_data2(x), "serialize");
  return Rf_cons(R_altrep_data1(x), R_altrep_data2(x));
}

static SEXP bomb_unserialize(SEXP class, SEXP state) {
  (void)class;
  go_off(CDR(state), "unserialize");
  return R_new_altrep(bomb_class, CAR(state), CDR(state));
}

SEXP faults_bomb(SEXP value, SEXP order) {
  return R_new_altrep(bomb_class, Rf_ScalarInteger(Rf_asInteger(value)), order);
}

// The watchman: a thread that is at fault when the worker's R thread is in the
// middle of receiving, or of sending, a large message, or after some time.
static struct {
  char what[16];
  char file[1024];
  char moment[16];
  double seconds;
} watchman;

static long resident_pages(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
  if (file != NULL) (void)fclose(file);
  return pages;
}

static void *watch_main(void *arg) {
  (void)arg;
  const struct timespec nap = {.tv_nsec = 20000};
  const long before = resident_pages();
  // The message is 80 MB; a worker that has just been forked grows by 10 with its first call.
  const long more = ((long)24 << 20) / sysconf(_SC_PAGESIZE);
  const int sends = strcmp(watchman.moment, "sending") == 0;
  const int receives = strcmp(watchman.moment, "receiving") == 0;
  double left_s = watchman.seconds;
  for (;;) {
    (void)nanosleep(&nap, NULL);
    int queued = 0;
    if (sends || receives) {
      (void)ioctl(DATA_FD, sends ? TIOCOUTQ : FIONREAD, &queued);
      // Of a small message there is never that much.
      if (queued < 65536) continue;
      if (receives && resident_pages() - before < more) continue;
    } else if ((left_s -= 20e-6) > 0) {
      continue;
    }
    if (first_time(watchman.file)) act(watchman.what);
    return NULL;
  }
}

// order: c(what, file, moment), moment "receiving", "sending" or seconds.
SEXP faults_arm(SEXP order) {
  pthread_t thread;
  sigset_t all, before;
  (void)snprintf(watchman.what, sizeof watchman.what, "%s", text_of(order, 0));
  (void)snprintf(watchman.file, sizeof watchman.file, "%s", text_of(order, 1));
  (void)snprintf(watchman.moment, sizeof watchman.moment, "%s", text_of(order, 2));
  watchman.seconds = strtod(text_of(order, 2), NULL);
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const int rc = pthread_create(&thread, NULL, watch_main, NULL);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (rc == 0) (void)pthread_detach(thread);
  return Rf_ScalarInteger(rc);
}

// ---- links of a shuffle

// is_link: a connected unix socket that is neither of the two channels.
static int is_link(int fd) {
  struct sockaddr_un peer;
  socklen_t n = sizeof peer;
  int listens = 0;
  socklen_t bytes = sizeof listens;
  if (getpeername(fd, (struct sockaddr *)&peer, &n) != 0) return 0;
  (void)getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes);
  return peer.sun_family == AF_UNIX && !listens;
}

// silence puts another socket, on which nothing ever comes, in a link's place; the link stays
// open, and nobody reads it.
static int silence(int fd) {
  int pair[2];
  const int kept = dup(fd);
  if (kept < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 0;
  (void)fcntl(kept, F_SETFD, FD_CLOEXEC);
  (void)fcntl(pair[1], F_SETFD, FD_CLOEXEC);
  (void)dup2(pair[0], fd);
  (void)close(pair[0]);
  return 1;
}

static int do_links(const char *what) {
  int found[1024], n = 0, done = 0;
  for (int fd = DATA_FD + 2; fd < 4096 && n < 1024; fd++) {
    if (is_link(fd)) found[n++] = fd;
  }
  for (int i = 0; i < n; i++) {
    if (strcmp(what, "silence") == 0) {
      done += silence(found[i]);
    } else {
      done += shutdown(found[i], SHUT_RDWR) == 0;
    }
  }
  return done;
}

// Cuts ("cut") or silences ("silence") all links of this worker: how many.
SEXP faults_links(SEXP what) { return Rf_ScalarInteger(do_links(text_of(what, 0))); }

// Nobody but root may look into this process any more, nor open its descriptors.
SEXP faults_hide(void) {
#ifdef __linux__
  (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
  return R_NilValue;
}

static struct {
  char what[16];
  double seconds;
} later;

static void *later_main(void *arg) {
  const time_t whole = (time_t)later.seconds;
  const struct timespec nap = {.tv_sec = whole,
                               .tv_nsec = (long)((later.seconds - (double)whole) * 1e9)};
  (void)arg;
  (void)nanosleep(&nap, NULL);
  if (strcmp(later.what, "cut") == 0) {
    (void)do_links("cut");
  } else {
    act(later.what);
  }
  return NULL;
}

// Does that, or what act() does, after some seconds, whatever R does meanwhile.
SEXP faults_later(SEXP what, SEXP seconds) {
  pthread_t thread;
  sigset_t all, before;
  (void)snprintf(later.what, sizeof later.what, "%s", text_of(what, 0));
  later.seconds = Rf_asReal(seconds);
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const int rc = pthread_create(&thread, NULL, later_main, NULL);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (rc == 0) (void)pthread_detach(thread);
  return Rf_ScalarInteger(rc);
}

// Forks a child that makes a session of its own, as daemons do, and waits for a signal.
// Gives its pid.
SEXP faults_daemon(void) {
  const pid_t pid = fork();
  if (pid == 0) {
    (void)setsid();
    for (int fd = 0; fd < 1024; fd++)
      (void)close(fd);
    for (;;)
      (void)pause();
  }
  return Rf_ScalarInteger((int)pid);
}

void R_init_faults(DllInfo *info) {
  bomb_class = R_make_altinteger_class("bomb", "faults", info);
  R_set_altrep_Length_method(bomb_class, bomb_length);
  R_set_altrep_Serialized_state_method(bomb_class, bomb_state);
  R_set_altrep_Unserialize_method(bomb_class, bomb_unserialize);
  R_set_altvec_Dataptr_method(bomb_class, bomb_data);
}
