// The host process. See host.h.
#include "ffi/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "dialin/caller.h"
#include "fork/fork.h"
#include "host/thread.h"
#include "net/net.h"

// Ends of fork servers are looked for this often.
#define REAP_MS 500
// A worker's directory may take so long to be removed. The rest goes with this process.
#define REMOVE_NS (5 * MST_NS_PER_S)

static volatile sig_atomic_t told_to_end; // by SIGTERM

static struct {
  struct mst_relay_thread *relay;
  int first;   // the first stream's end
  int session; // a pidfd of this process, for its servers
  struct mst_kid *servers;
  uint32_t count;           // of servers that were started, so far
  uint8_t leaves;           // it has said so
  uint8_t ends;             // SIGTERM is the session's end
  struct mst_caller caller; // of a session that listens
} host = {.first = -1, .session = -1};

// take_link moves the link away from descriptors 0 and 1: whatever prints must not reach it.
static int take_link(int link[2], struct mst_err *err) {
  link[1] = -1;
  int rc = mst_net_copy(STDIN_FILENO, &link[0], err);
  if (rc == 0) rc = mst_net_copy(STDOUT_FILENO, &link[1], err);
  const int null = open("/dev/null", O_RDONLY);
  if (rc == 0 && (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
                  dup2(STDERR_FILENO, STDOUT_FILENO) < 0)) {
    rc = mst_err_set(err, MST_ESYS, errno, "dup2", "%s", strerror(errno));
  }
  if (null > STDERR_FILENO) (void)close(null);
  if (rc == 0) return 0;
  mst_net_close(&link[0]);
  mst_net_close(&link[1]);
  return rc;
}

static void end_relay(void) {
  mst_net_close(&host.first);
  mst_relay_end(host.relay);
  host.relay = NULL;
}

// start_relay serves what a cable leads to, once that has answered: within times_s[0], and until it
// is silent for times_s[1]. Takes the cable over. After an error, end_relay ends what there is.
static int start_relay(const struct mst_cable *cable, const double *times_s,
                       int delays, struct mst_err *err) {
  int pair[2];
  int rc = mst_net_pair(pair, err);
  if (rc != 0) return rc; // this process ends
  mst_net_raise(&pair[0]);
  mst_net_raise(&pair[1]);
  const struct mst_link_config config = {.cable = *cable,
                                         .silence_ns = ffi_ns(times_s[1]),
                                         .delays = (uint8_t)delays};
  rc = mst_relay_start(&config, pair[1], mst_clock_now() + ffi_ns(times_s[0]),
                       &host.relay, err);
  if (rc != 0) return rc;
  host.first = pair[0];
  if (host.session < 0) host.session = mst_proc_pidfd(getpid());
  while (mst_relay_state(host.relay) == MST_RELAY_GREETS)
    (void)poll(NULL, 0, 1);
  return mst_relay_why(host.relay, err);
}

// ffi_host_open greets the session over standard input and output, and waits for its answer.
// times_s: how long that may take, and the silence after which the session counts as gone. delays:
// see mst_link_config. TRUE, or list(error, call, errno).
SEXP ffi_host_open(SEXP times_s, SEXP delays) {
  struct mst_err err;
  int link[2];
  mst_err_clear(&err);
  // From now on the end of the link tells that the session is gone: there is something to tidy up.
  mst_proc_die_with_parent(SIGCONT);
  int rc = take_link(link, &err);
  if (rc != 0) return ffi_error_list(&err);
  const struct mst_cable cable = {.in = link[0], .out = link[1]};
  rc = start_relay(&cable, REAL(times_s), Rf_asLogical(delays) == 1, &err);
  return rc == 0 ? Rf_ScalarLogical(1) : ffi_error_list(&err);
}

// say_failure tells why a connection failed, once for each reason in a row.
static void say_failure(struct mst_err *told) {
  const struct mst_err *last = &host.caller.last;
  if (last->text[0] == '\0' || strcmp(last->text, told->text) == 0) return;
  *told = *last;
  REprintf("muster host: no session yet: %s\n", last->text);
}

// call_up goes on until this host is admitted. R may jump.
static int call_up(struct mst_err *err) {
  static struct mst_err told;
  int rc;
  while ((rc = mst_caller_run(&host.caller,
                              mst_clock_now() + 50 * MST_NS_PER_MS, err)) ==
         -MST_EAGAIN) {
    R_CheckUserInterrupt();
    say_failure(&told);
  }
  return rc;
}

static int read_key(const char *path, struct mst_err *err) {
  struct mst_err why;
  mst_err_clear(&why);
  const int rc = mst_psk_read(path, &host.caller.key, &why);
  return rc == 0
             ? 0
             : mst_err_set(err, (enum mst_code) - rc, why.sys_errno, why.call,
                           "the key %s can't be used: %s", path, why.text);
}

static int open_caller(SEXP where, SEXP numbers, struct mst_err *err) {
  struct mst_caller *caller = &host.caller;
  *caller = (struct mst_caller){.fd = -1};
  int rc = mst_secure_must(err);
  if (rc == 0) rc = read_key(Rf_translateChar(STRING_ELT(where, 1)), err);
  if (rc == 0)
    rc = mst_addr_lookup(Rf_translateCharUTF8(STRING_ELT(where, 0)),
                         (int)REAL(numbers)[0], caller->addrs, MST_ADDRS_MAX,
                         &caller->count, err);
  if (rc == 0)
    rc = mst_caller_open(caller, mst_clock_now() + ffi_ns(REAL(numbers)[1]),
                         err);
  return rc;
}

// ffi_host_dial calls a session that listens, proves a key, and greets it. where: c(the session's
// address, the path of the key). numbers: c(port, seconds until it gives up). times_s: as for
// ffi_host_open. TRUE, or list(error, call, errno).
SEXP ffi_host_dial(SEXP where, SEXP numbers, SEXP times_s) {
  struct mst_caller *caller = &host.caller;
  struct mst_err err;
  mst_err_clear(&err);
  int rc = open_caller(where, numbers, &err);
  while (rc == 0) {
    struct mst_cable cable = MST_CABLE_NONE;
    rc = call_up(&err);
    if (rc != 0) break;
    mst_caller_give(caller, &cable.in, &cable.secure);
    cable.out = cable.in;
    rc = start_relay(&cable, REAL(times_s), 0, &err);
    if (rc != 0) end_relay();
    if (rc != -MST_ECLOSED) break;
    mst_caller_again(caller); // the session hadn't heard of it
    rc = 0;
  }
  mst_caller_close(caller);
  return rc == 0 ? Rf_ScalarLogical(1) : ffi_error_list(&err);
}

// say sends a frame. The session may be gone: ffi_host_next sees that.
static void say(uint8_t kind, struct mst_blob *payload) {
  struct mst_chan chan;
  struct mst_head head = {.kind = kind};
  mst_chan_open(&chan, host.first, MST_FRAME_MAX_CONTROL);
  (void)mst_chan_send(&chan, &head, payload, NULL, 0, 1, NULL);
}

// ffi_host_say tells the session what this host is.
SEXP ffi_host_say(SEXP facts) {
  struct mst_blob *blob = ffi_blob_of(facts);
  say(MST_KIND_HOST, blob);
  mst_blob_release(blob);
  return R_NilValue;
}

static void on_term(int signal) {
  (void)signal;
  told_to_end = 1;
}

// ffi_host_heed has the first SIGTERM make this process say that it leaves, instead of ending it:
// in a container it alone is told, some time before all are killed. all: all processes are told, as
// in a job that is cancelled: then it is as if the session had ended, so that nothing is left here.
SEXP ffi_host_heed(SEXP all) {
  host.ends = Rf_asLogical(all) == 1;
  struct sigaction action = {.sa_handler = on_term,
                             .sa_flags = (int)SA_RESETHAND};
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(SIGTERM, &action, NULL);
  return R_NilValue;
}

static void say_that_it_leaves(void) {
  if (!told_to_end || host.leaves || host.ends) return;
  host.leaves = 1;
  say(MST_KIND_LEAVING, NULL);
}

static void reap_servers(void) { mst_kids_reap(&host.servers, NULL, NULL); }

// receive reads exactly n bytes, and keeps the descriptors that come along. 0, or -MST_ECLOSED.
static int receive(void *bytes, size_t n, int fds[2], size_t *count) {
  size_t have = 0;
  while (have < n) {
    struct pollfd polled = {.fd = host.first, .events = POLLIN};
    int more[MST_NET_FDS_MAX], lost;
    size_t more_count = 0;
    reap_servers();
    say_that_it_leaves();
    if (told_to_end && host.ends) return -MST_ECLOSED;
    if (poll(&polled, 1, REAP_MS) <= 0) continue;
    const int64_t got =
        mst_net_recv_fds(host.first, (uint8_t *)bytes + have, n - have, 0, more,
                         &more_count, &lost, NULL);
    if (got == -MST_EAGAIN) continue;
    if (got < 0) return -MST_ECLOSED;
    have += (size_t)got;
    for (size_t i = 0; i < more_count; i++) {
      if (*count < 2) {
        fds[(*count)++] = more[i];
      } else {
        mst_net_close(&more[i]);
      }
    }
  }
  return 0;
}

// next_frame reads one frame. 0, or a negative number if the session is gone.
static int next_frame(struct mst_head *head, struct mst_buf *payload,
                      int fds[2], size_t *count) {
  uint8_t bytes[MST_HEAD_BYTES];
  int rc = receive(bytes, sizeof bytes, fds, count);
  if (rc != 0) return rc;
  if (mst_head_decode(bytes, sizeof bytes, MST_FRAME_MAX_CONTROL, head) < 0)
    return -MST_EPROTO;
  const size_t n = (size_t)head->length;
  if (mst_buf_reserve(payload, n + 1) != 0) return -MST_EMEM;
  rc = receive(payload->data, n, fds, count);
  payload->len = n;
  return rc;
}

// remove_left removes what a worker left, in the directory of this process alone.
static void remove_left(const struct mst_buf *payload, const char *root) {
  char path[MST_TEXT_MAX + 1u];
  const size_t n = strlen(root);
  if (mst_text_decode(payload->data, payload->len, path) != 0) return;
  if (strncmp(path, root, n) != 0 || path[n] != '/' ||
      strstr(path, "/..") != NULL) {
    return;
  }
  (void)mst_tree_remove(path, mst_clock_now() + REMOVE_NS);
}

struct order {
  struct mst_buf payload;
  int fds[2];
  size_t count;
};

static SEXP read_order(void *data) {
  static const char *const names[] = {"order", "fds"};
  const struct order *order = data;
  SEXP list = PROTECT(ffi_list(2, names));
  SET_VECTOR_ELT(list, 1, Rf_allocVector(INTSXP, 2));
  INTEGER(VECTOR_ELT(list, 1))[0] = order->fds[0];
  INTEGER(VECTOR_ELT(list, 1))[1] = order->fds[1];
  SET_VECTOR_ELT(list, 0,
                 ffi_unserialize(order->payload.data, order->payload.len));
  UNPROTECT(1);
  return list;
}

static void order_read(void *data, Rboolean jump) {
  struct order *order = data;
  mst_buf_free(&order->payload);
  if (jump) {
    mst_net_close(&order->fds[0]);
    mst_net_close(&order->fds[1]);
  }
}

// ffi_host_next waits for the session's next order, for a fork server: list(order, fds). Meanwhile
// it removes what workers left in root. fds must go to ffi_host_spawn or ffi_host_refuse. NULL: the
// session is gone, or this process is told to end.
SEXP ffi_host_next(SEXP root) {
  int rc = 0;
  while (rc == 0) {
    struct mst_head head = {0};
    struct order order = {.fds = {-1, -1}};
    rc = next_frame(&head, &order.payload, order.fds, &order.count);
    if (rc == 0 && head.kind == MST_KIND_SERVER && order.count == 2)
      return ffi_unwind(read_order, &order, order_read, &order);
    if (rc == 0 && head.kind == MST_KIND_REMOVE)
      remove_left(&order.payload, Rf_translateChar(STRING_ELT(root, 0)));
    // A newer session may say more; and for lack of room the descriptors may be lost, which the
    // session sees by their end.
    mst_buf_free(&order.payload);
    mst_net_close(&order.fds[0]);
    mst_net_close(&order.fds[1]);
  }
  return R_NilValue;
}

static void take_fds(SEXP fds, int out[2]) {
  out[0] = INTEGER(fds)[0];
  out[1] = INTEGER(fds)[1];
}

// ffi_host_spawn starts a fork server, whose channel and output are fds. Its pid, or list(error,
// call, errno): then fds are still open.
SEXP ffi_host_spawn(SEXP file, SEXP argv, SEXP env, SEXP fds) {
  int ends[2];
  struct mst_err err;
  mst_err_clear(&err);
  take_fds(fds, ends);
  const struct mst_spawn spawn = {.file = Rf_translateChar(STRING_ELT(file, 0)),
                                  .argv = ffi_strings(argv),
                                  .env = (const char *const *)ffi_strings(env),
                                  .fds = {ends[0], -1, host.session},
                                  .output = ends[1],
                                  .errors = -1,
                                  .input = -1};
  const struct mst_incarnation of = {.worker = ++host.count};
  struct mst_kid *kid = mst_kids_add(&host.servers, &of);
  int rc = kid == NULL ? mst_err_set(&err, MST_EMEM, 0, "calloc",
                                     "no memory for a server")
                       : mst_spawn_run(&spawn, &kid->pid, &err);
  if (rc != 0) {
    mst_kids_drop(&host.servers, &of);
    return ffi_error_list(&err);
  }
  mst_net_close(&ends[0]);
  mst_net_close(&ends[1]);
  return Rf_ScalarInteger((int)kid->pid);
}

// ffi_host_refuse says why there is no fork server, as its last words.
SEXP ffi_host_refuse(SEXP fds, SEXP text) {
  int ends[2];
  take_fds(fds, ends);
  const char *words = Rf_translateCharUTF8(STRING_ELT(text, 0));
  const ssize_t n = write(ends[1], words, strlen(words));
  (void)n; // nobody may read it
  mst_net_close(&ends[0]);
  mst_net_close(&ends[1]);
  return R_NilValue;
}

// ffi_host_end ends the link and waits until the fork servers have ended their workers and
// themselves; those that haven't after timeout_s are killed, and their workers' watches end these.
SEXP ffi_host_end(SEXP timeout_s) {
  end_relay();
  mst_kids_wait(&host.servers, ffi_deadline(timeout_s), NULL, NULL);
  mst_kids_kill(host.servers);
  mst_kids_wait(&host.servers, mst_clock_now() + MST_NS_PER_S, NULL, NULL);
  return R_NilValue;
}
