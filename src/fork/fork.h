// fork: how processes come and go. Three processes take part.
//
//   session      the user's R. Spawns fork servers and, without them, workers;
//                only it may wait for those. Never forks itself (vfork and exec
//                only) and installs no signal handler.
//   fork server  R booted for this, single-threaded, no threads ever. Child of
//                the session, parent of forked workers; only it may wait for
//                those. Ends when the session is gone, and takes its workers
//                and their temporary directories with it.
//   worker       R with one more thread, the watch (watch.c), which answers
//                pings and ends the process group when the session is gone.
//   standby      a copy of a worker, forked by it, that stands still until the worker
//                is lost and it takes its place (standby.c). Child of the worker, and
//                once that has ended of the server, which adopts orphans.
//
// Who closes what: the session makes a worker's three pairs of descriptors and
// closes its copies of the worker's ends once they were handed over; the server
// closes its copies after the fork; the worker closes everything but its own
// before any R code of the user runs. Nobody waits for the end of an output
// pipe, since what a worker started may hold it.
//
// When one of them dies: session gone: pidfd and end of file tell server and
// workers. Server gone: the session sees the end of its channel; workers go on,
// their ends are then known by their channels only, not how. But if the session
// is what the system gives orphans to (process 1 of a container), they are its
// children from then on, and it reaps those that the server told it of. Worker
// gone: the server (or, for spawned ones, the session) reaps it and says how.
#ifndef MST_FORK_H
#define MST_FORK_H

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/mst_err.h"
#include "loop/chan.h"
#include "loop/conduit.h"
#include "loop/loop.h"
#include "loop/output.h"
#include "pool/heal.h"
#include "wire/wire.h"

// What a process prints that can't get what a worker needs: mst_peer_lacks reads the errno.
#define MST_CANT_START "can't start a worker: "

// Descriptor numbers in workers and servers, from birth. What isn't there is /dev/null,
// so that no file that R or a package opens can have one of these numbers.
#define MST_FD_DATA 3    // worker: data channel; server: its channel
#define MST_FD_CONTROL 4 // worker: control channel; server: /dev/null
#define MST_FD_SESSION 5 // pidfd of the session; /dev/null where there are none

// ---- What the system can (proc_linux.c, proc_other.c). Any thread.

// mst_proc_pidfd gives a descriptor that becomes readable when the process
// ends, -1 where there is none.
int mst_proc_pidfd(pid_t pid);
// mst_proc_exits tells whether a process has begun to end, or has ended, without having been waited
// for: 1 or 0, -1 if that isn't known. Blocks: never.
int mst_proc_exits(pid_t pid);
// mst_proc_die_with_parent asks for `signal` whenever the parent thread ends, and
// for none after that was asked before. Does nothing where the system can't.
void mst_proc_die_with_parent(int signal);
// mst_proc_close_from closes every descriptor >= lowest. Async-signal-safe. mst_proc_close_each
// does it one by one, up to the limit on descriptors: for systems that have no other way.
void mst_proc_close_from(int lowest);
void mst_proc_close_each(int lowest);
// mst_proc_threads gives the number of threads of this process, -1 if unknown.
int mst_proc_threads(void);
// mst_proc_oom_kills gives how many processes the kernel has ended so far because memory
// ran out, of this process's cgroup and those below it, where workers are unless somebody
// moves them; of the whole system where the cgroup isn't known. -1 if unknown. Reads some
// files.
int64_t mst_proc_oom_kills(void);
// mst_proc_expendable has the kernel end this process rather than others when memory runs out, or
// (0) as any other again.
void mst_proc_expendable(int more);
// mst_proc_resident gives the bytes of memory that this process has, those it shares included; 0
// where that can't be known.
uint64_t mst_proc_resident(void);
// mst_proc_title has lists of processes (ps) show this process by a title, in front of what stays
// of its command line: the argument that ends with boot.R, and those behind it. Cut if it is longer
// than what was in front of that. Does nothing where the system can't.
void mst_proc_title(const char *title);
// mst_proc_can_fork tells whether forking an R process is safe on this system.
int mst_proc_can_fork(void);
// mst_proc_adopt has this process become the parent of those below it whose own parent ends. 0, or
// -MST_ESYS: then process 1 does.
int mst_proc_adopt(void);
// mst_proc_adopts tells whether this process becomes the parent of those below it whose own parent
// ends: it is the first of its container, or has asked for that. Any thread.
int mst_proc_adopts(void);

// ---- fds.c: the numbers above. Async-signal-safe, but for mst_fds_keep.

// mst_proc_dup copies fd to floor or above; -1 and EMFILE where the limit on
// descriptors doesn't allow that (the system says EINVAL if it is below floor).
int mst_proc_dup(int fd, int floor);
// mst_fds_reserve puts what is open as descriptor 0, /dev/null, at fd as well. 0, -1.
int mst_fds_reserve(int fd);
// mst_fds_session gives MST_FD_SESSION, -1 if there is no pidfd at it.
int mst_fds_session(void);
// mst_fds_keep remembers which other descriptors this process has now: R's script, and
// what else must not lose its number. 0, -1 and errno. In the server, before it forks.
int mst_fds_keep(void);
// mst_fds_place makes a forked worker's: its two channels at their numbers, /dev/null at
// those that were kept, all of them close-on-exec, and no others. -1 and errno; EBADF if
// a number has become somebody else's.
int mst_fds_place(int data, int control);

// mst_fds_leave puts /dev/null where a copy of a worker has the worker's channels and output: at
// their numbers, at *output and, in is_output, at those of 1 and 2 that lead there. mst_fds_take
// puts others into their places. 0, -1 and errno. In a standby.
int mst_fds_leave(int output, int is_output[3]);
int mst_fds_take(const int fds[3], int output, const int is_output[3]);

// ---- threads.c

// mst_threads_set tells every BLAS and OpenMP library that is loaded now how
// many threads it may use (threads > 0). Libraries loaded later follow the
// variables. R thread.
void mst_threads_set(int threads);
// mst_threads_get gives the largest number that any of them would use, 0 if
// none is loaded.
int mst_threads_get(void);

// ---- tree.c

// mst_tree_remove removes a directory with all in it, links not followed, until
// deadline_ns. 0, -MST_ETIMEOUT, -MST_ESYS. Allocates; any thread.
int mst_tree_remove(const char *path, int64_t deadline_ns);

// mst_tree_probe writes a page to a new file at `path` and removes it: 0, or
// -MST_ESYS (no space, read-only, a limit). Any thread.
int mst_tree_probe(const char *path);

// ---- reap.c

// mst_reap waits for pid, without blocking. When it has ended, its process
// group is killed first, while the pid can't be used again. Returns 1 and fills
// how and number, 0 if it still runs, -MST_ECLOSED if it is no child of ours.
int mst_reap(pid_t pid, uint32_t *how, int32_t *number);
// mst_reap_alone leaves the group alone if the process ended well by itself (exit code 0): it may
// have handed its job to another, as `ssh -f` does, that isn't in a group of its own yet.
int mst_reap_alone(pid_t pid, uint32_t *how, int32_t *number);

// ---- spawn.c

struct mst_spawn {
  const char *file;       // program, absolute
  char *const *argv;      // ends with NULL
  const char *const *env; // "NAME=value", over the session's; ends with NULL
  int env_whole;          // env is all of it: the session's isn't looked at
  int fds[3]; // become 3, 4, 5; -1 where there is none, see MST_FD_DATA
  int output; // becomes 1 and 2
  int input;  // becomes 0; -1: /dev/null
};
// mst_spawn_run starts a process in its own process group that dies with the
// calling thread (until it says otherwise). Thread: R's main thread, which alone
// may look at the session's variables; any with env_whole. Blocks until exec is
// done. The caller keeps its descriptors and reaps *pid.
// 0, -MST_ESYS with the failed call, -MST_EMEM.
int mst_spawn_run(const struct mst_spawn *spawn, pid_t *pid,
                  struct mst_err *err);
// mst_spawn_env gives the session's variables with those of `env` over them; "NAME" without "="
// takes one away. One block, the caller's to free(); NULL without memory. Thread: R's main thread.
char **mst_spawn_env(const char *const *env);

// ---- host.c: where a launcher's workers are. One thread: whoever has the session. It outlives the
// clusters that have workers there.

struct mst_host {
  const char *name; // as nodes have it
  uint8_t
      shares_files; // a path there is the same file here: what workers leave is removed here
  int64_t (*oom_kills)(
      void); // how many processes the kernel has ended for memory, -1 if unknown
  int64_t kills;     // that, when last looked at
  int64_t kills_new; // of these, not counted as a worker's yet
  int64_t kill_ns;   // when they were seen
};
// mst_host_here fills in the session's own host.
void mst_host_here(struct mst_host *host);
// mst_host_lacked_memory tells whether the kernel has ended a process of the host for memory that
// isn't counted as a worker's yet: it may be the one whose end was just heard. Several workers may
// be ended at once, and heard one after the other. mst_host_count_kill counts one.
int mst_host_lacked_memory(struct mst_host *host, int64_t now_ns);
void mst_host_count_kill(struct mst_host *host);

// ---- Launchers: where a cluster's workers come from (client.c, launch_spawn.c)

// One process of a worker's.
struct mst_incarnation {
  uint32_t cluster, worker, epoch;
};

enum mst_news_kind { MST_NEWS_FORKED, MST_NEWS_FORK_FAILED, MST_NEWS_EXITED };
struct mst_news {
  enum mst_news_kind kind;
  struct mst_incarnation of;
  uint32_t how;   // enum mst_exit, for EXITED
  int32_t number; // pid, errno, exit code or signal
};
// Called on the R thread from the loop or from a launcher's functions, also
// from inside launch().
typedef void (*mst_news_sink)(void *owner, const struct mst_news *news);

struct mst_launcher {
  struct mst_host *host; // where its workers are
  // launch asks for one worker, and opens the conduit to it. Doesn't wait for the worker. The
  // outcome comes as news. 0, or an error: then no news will come, and the conduit isn't open.
  int (*launch)(struct mst_launcher *self, const struct mst_incarnation *of,
                struct mst_conduit *conduit, struct mst_err *err);
  // signal sends a signal to the worker's process group. pid is known.
  void (*signal)(struct mst_launcher *self, const struct mst_incarnation *of,
                 pid_t pid, int signal);
  // adopt tells it that one of its children, or of those that it adopts, is a worker from now on,
  // whose end it is to tell. NULL: it has none such.
  void (*adopt)(struct mst_launcher *self, const struct mst_incarnation *of,
                pid_t pid);
  // reap looks for ends that the system tells nobody about. Cheap; call often.
  void (*reap)(struct mst_launcher *self);
  // tells: whether the launcher, which is gone, will still say how this worker ends. NULL: never.
  int (*tells)(struct mst_launcher *self, const struct mst_incarnation *of);
  // gone: the launcher can launch nothing more, and say of its workers what tells() promises.
  int gone;
  // How long it may say nothing while launches are asked of it, provided that the session was
  // there to listen; 0: MST_LAUNCHER_SILENCE_NS. Whoever calls reap sets it.
  int64_t silence_ns;
  int64_t due_ns; // reap is to be called by then; 0: when there is time
};
#define MST_LAUNCHER_SILENCE_NS (10 * MST_NS_PER_S)
// Forks take milliseconds, but on a machine that is busy with others' work.
#define MST_LAUNCHER_SILENCE_LEAST_NS MST_NS_PER_S

// ---- kids.c: the workers that a process is to wait for

struct mst_kid {
  struct mst_kid *next;
  pid_t pid;
  struct mst_incarnation of;
};
// mst_kids_add puts one on a list, whose pid the caller fills in before anything else is done
// with the list. NULL without memory. mst_kids_drop takes it off, without harm if it isn't there;
// mst_kids_free all.
struct mst_kid *mst_kids_add(struct mst_kid **kids,
                             const struct mst_incarnation *of);
void mst_kids_drop(struct mst_kid **kids, const struct mst_incarnation *of);
void mst_kids_free(struct mst_kid **kids);
int mst_kids_have(struct mst_kid *kids, const struct mst_incarnation *of);
// mst_kids_signal sends a signal to the process group of one, mst_kids_kill SIGKILL to those of
// all. As they aren't reaped yet, the pids are their own.
void mst_kids_signal(struct mst_kid *kids, const struct mst_incarnation *of,
                     int signal);
void mst_kids_kill(const struct mst_kid *kids);
// mst_kids_reap takes those off that have ended, or are no children of this process, and tells
// the sink, which may add others but drop none; NULL tells nobody. mst_kids_wait does so until
// none is left or it is time.
void mst_kids_reap(struct mst_kid **kids, mst_news_sink sink, void *owner);
void mst_kids_wait(struct mst_kid **kids, int64_t deadline_ns,
                   mst_news_sink sink, void *owner);

// ---- client.c: the session's end of a fork server

enum mst_server_state {
  MST_SERVER_BOOTING,
  MST_SERVER_READY,
  MST_SERVER_REFUSED, // text says why; it has ended or is about to
  MST_SERVER_FAILED,  // its set-up failed, text says why
  MST_SERVER_GONE     // its channel ended; how and number once it is reaped
};

struct mst_server_launch; // a FORK that can't be sent yet

struct mst_server {
  struct mst_launcher launcher; // first member: casts both ways
  struct mst_loop *loop;
  struct mst_chan chan;
  struct mst_io io;
  struct mst_output output;
  pid_t pid;
  pid_t owner; // process that may use it
  enum mst_server_state state;
  uint32_t how; // enum mst_exit, NONE while it runs
  int32_t number;
  int threads;    // seen by the server when it became ready
  uint32_t asked; // launches of which it has said nothing yet
  struct mst_server_launch *waiting; // of these, not sent yet, the oldest first
  uint8_t lacks; // they wait for the system to have room, not for the server
  struct mst_heal life; // when it was heard, as for a worker
  int64_t looked_ns;    // when that was last looked at
  uint8_t silent;       // it was ended for its silence
  char text[MST_TEXT_MAX + 1u];
  mst_news_sink sink;
  void *sink_owner;
  // Its workers that haven't ended, as far as it has told. Of a server that is gone: those that
  // this process has adopted, or is about to.
  struct mst_kid *kids;
};

// mst_server_start spawns a server and sends it its set-up (R bytes). prints: the
// loop for its output pipe, may be the same. spawn's fds[0] and output are filled
// in here. The server boots while the caller goes on; run the loop until the state
// changes. 0 and *out, owned by the caller until mst_server_free; else an error,
// nothing is left.
int mst_server_start(struct mst_host *host, struct mst_loop *loop,
                     struct mst_loop *prints, struct mst_spawn *spawn,
                     struct mst_blob *setup, mst_news_sink sink,
                     void *sink_owner, struct mst_server **out,
                     struct mst_err *err);
// mst_server_reap asks whether the server's process has ended; fills how.
int mst_server_reap(struct mst_server *server);
// mst_server_end closes the channel, which makes the server end its workers
// and itself. Doesn't wait.
void mst_server_end(struct mst_server *server);
// mst_server_break does the same for a server whose loops are given up: it doesn't look at them.
void mst_server_break(struct mst_server *server);
// mst_server_free ends what still runs of it, by SIGKILL, also workers that were adopted, waits
// for it and frees.
void mst_server_free(struct mst_server *server);

// ---- launch_spawn.c: workers that are booted alone, children of the session

struct mst_spawner;
// mst_spawner_new makes a launcher that starts each worker by `spawn` (copied
// deep). NULL without memory. Free it when its workers are gone: it reaps them.
struct mst_spawner *mst_spawner_new(struct mst_host *host,
                                    const struct mst_spawn *spawn,
                                    mst_news_sink sink, void *sink_owner);
// mst_spawner_end waits for workers that were told to end, for a second, then kills them and
// waits for that. Tells nobody.
void mst_spawner_end(struct mst_spawner *spawner);
struct mst_launcher *mst_spawner_launcher(struct mst_spawner *spawner);
void mst_spawner_free(struct mst_spawner *spawner);

// ---- server.c: runs in the fork server

struct mst_server_config {
  pid_t session; // parent that it must not outlive
  const char
      *temp_dir; // directory of its workers' tempdirs, removed at its end
};
// mst_server_run says READY and serves until the session is gone. Returns 0 in
// the server then, its workers gone; 1 in each forked worker, whose descriptors
// are in place and whose watch runs; < 0 in a worker whose set-up failed.
// Process of its own, single-threaded: refuses each fork if that is no longer so.
int mst_server_run(const struct mst_server_config *config, struct mst_err *err);
// mst_server_say sends one text message (SERVER_REFUSE, FAILED) and waits for it.
void mst_server_say(uint8_t kind, const char *text);

// ---- standby.c: runs in workers

// mst_standby_make forks a copy of this worker that stands by until the session asks it, over
// `end`, to take the worker's place (a FORK, as of a fork server), which leaves another copy in
// its own. Closes `end`. output: the descriptor of the output pipe; title: for lists of
// processes. R thread, between two calls; forks, so other threads than the watch are an error
// (MST_ESYS, EDEADLK), as is want of memory or processes. Returns 1 in the worker, and 0 in the
// copy once it is to be one: its descriptors are in place, its watch runs, all links of the
// worker's are gone.
int mst_standby_make(int end, int output, pid_t session, const char *title,
                     struct mst_err *err);

// ---- watch.c: a worker's second thread

// mst_watch_start starts it. session_fd may be -1: then the session is looked
// for twice a second. 0, -MST_ESYS, -MST_EMEM.
int mst_watch_start(int control_fd, int session_fd, pid_t session,
                    struct mst_err *err);
// mst_watch_call_begin says that the R thread has a call from now on: 0, or 1 if it was
// cancelled before: then it isn't to be evaluated. Nothing interrupts it yet.
int mst_watch_call_begin(uint64_t call);
// mst_watch_call_open lets a CANCEL interrupt the call, one that has come meanwhile at once:
// a SIGINT to this process group, once for each call, and an end if it goes on for the grace.
void mst_watch_call_open(void);
// mst_watch_call_shut ends that: what comes now runs to its end. 1 if a SIGINT was sent,
// which may still be on its way.
int mst_watch_call_shut(void);
// mst_watch_call_end says that the call is over: 1 as mst_watch_call_shut.
int mst_watch_call_end(void);
// mst_watch_crashes lets R's own handlers of SIGSEGV, SIGBUS and SIGILL report a crash,
// but not for ever: they may stand still where the signal found R in the middle of
// something. R thread, once R has installed them.
void mst_watch_crashes(void);
// ---- what a worker's standby needs (standby.c). R thread

// mst_watch_take_end gives the descriptor that came with STANDBY, the caller's: -1 if it was lost,
// or doesn't come within timeout_ms. Blocks for as long.
int mst_watch_take_end(int timeout_ms);
// Between mst_watch_hold and mst_watch_release the watch thread is in the middle of nothing, so
// the process may fork.
void mst_watch_hold(void);
void mst_watch_release(void);
// mst_watch_leave, in a copy of the process, where no watch runs: closes its descriptors, and makes
// its locks anew. mst_watch_start may follow.
void mst_watch_leave(void);
// mst_watch_stands: this worker has a standby now, which is waited for when it ends. The directory
// stays for it when the worker ends.
void mst_watch_stands(pid_t standby);
// mst_watch_is_orphan tells whether the session has ended; may wait for that if it is about to.
int mst_watch_is_orphan(void);
// mst_watch_end ends this process and its group, as the watch does.
void mst_watch_end(void);

// A guest of the watch thread: descriptors of its own that are served there.
struct mst_watch_guest {
  // fds fills in what to wait for, at most `most`, and gives how many there are: if that is
  // more, it is called again with more room. *timeout_ms (-1: for ever) may be made shorter.
  size_t (*fds)(struct pollfd *fds, size_t most, int *timeout_ms);
  // ready is called after each wait that was ended by a descriptor, with those that were waited
  // for.
  void (*ready)(const struct pollfd *fds, size_t n);
  // hold and release: as those of the watch, for what it shares with the R thread. leave: likewise.
  void (*hold)(void);
  void (*release)(void);
  void (*leave)(void);
};
// mst_watch_invite adds the one guest. R thread, before READY is said.
void mst_watch_invite(const struct mst_watch_guest *guest);
// mst_watch_wake has the guest asked again what to wait for. Any thread; never blocks for long.
void mst_watch_wake(void);
// mst_watch_set_tempdir names the directory that it removes when the session
// is gone. R thread.
void mst_watch_set_tempdir(const char *path);
// mst_watch_tempdir gives what was named last.
const char *mst_watch_tempdir(void);

#endif
