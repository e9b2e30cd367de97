// fork: how processes start and end. Four kinds take part.
//
//   session      the user's R. Spawns fork servers and, without them, workers;
//                only it may wait for those. Never forks itself (vfork and exec
//                only) and installs no signal handler.
//   fork server  a single-threaded R that only forks workers. Child of the session,
//                parent of forked workers; only it may wait for those. Ends when
//                the session is gone, after ending its workers and removing their
//                temporary directories.
//   worker       R with one more thread, the watch (watch.c), which answers
//                pings and ends the process group when the session is gone.
//   standby      a copy of a worker, forked by it, that waits to replace it when it
//                is lost (standby.c). Child of the worker; when the worker has
//                ended, of the server, which adopts orphans.
//
// Who closes what: the session makes a worker's three pairs of descriptors and closes its copies of
// the worker's ends after handing them over; the server closes its copies after the fork; the
// worker closes all but its own before it runs any of the user's R code. Nobody waits for the end
// of an output pipe, since a child of the worker may hold it open.
//
// When one of them dies. Session gone: server and workers learn it from the pidfd and the end of
// file. Server gone: the session sees the end of its channel; workers go on, and their ends show
// only on their channels, without a status. But if the session adopts orphans (process 1 of a
// container) they become its children, and it reaps those that the server reported. Worker gone:
// the server (or, for spawned ones, the session) reaps it and reports its status.
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
#include "sched/heal.h"
#include "wire/wire.h"

// Printed by a process that lacks a resource for a worker; mst_peer_lacks reads the errno after it.
#define MST_CANT_START "can't start a worker: "

// Descriptor numbers in workers and servers, from birth. Unused ones are /dev/null, so that no file
// of R or a package gets one of these numbers.
#define MST_FD_DATA 3    // worker: data channel; server: its channel
#define MST_FD_CONTROL 4 // worker: control channel; server: /dev/null
#define MST_FD_SESSION 5 // pidfd of the session; /dev/null without pidfds

// ---- What differs between systems (proc_linux.c, proc_other.c). Any thread.

// mst_proc_pidfd gives a descriptor that becomes readable when the process ends, -1 if the system
// has none.
int mst_proc_pidfd(pid_t pid);
// mst_proc_exits tells whether a process is exiting, or is a zombie: 1 or 0, -1 if unknown. Never
// blocks.
int mst_proc_exits(pid_t pid);
// mst_proc_thread gives the number of the calling thread, mst_proc_activity what a thread of this
// process does: 0, or -1 if that is unknown. Neither blocks.
struct mst_activity {
  int64_t cpu_ns; // its processor time until now
  int sleeps; // it waits for something other than the processor, a disk or a debugger
};
int mst_proc_thread(void);
int mst_proc_activity(int thread, struct mst_activity *activity);
// mst_proc_runs tells whether one of a process's threads computes, or waits for the processor, a
// disk or a debugger: then a late answer says nothing about it. 0 also if that is unknown. Reads a
// file for each thread.
int mst_proc_runs(pid_t pid);
// mst_proc_die_with_parent asks for `signal` when the parent thread ends; it replaces an earlier
// request. Does nothing if the system can't.
void mst_proc_die_with_parent(int signal);
// mst_proc_close_from closes every descriptor >= lowest. Async-signal-safe. mst_proc_close_each
// does it one by one, up to the limit on descriptors: for systems without a better way.
void mst_proc_close_from(int lowest);
void mst_proc_close_each(int lowest);
// mst_proc_threads gives the number of threads of this process, -1 if unknown.
int mst_proc_threads(void);
// mst_proc_oom_kills gives how many processes the kernel has killed so far for lack of memory, in
// this process's cgroup and those below it (where workers are, unless they are moved); in the whole
// system if the cgroup is unknown. -1 if unknown. Reads some files.
int64_t mst_proc_oom_kills(void);
// mst_proc_expendable: the kernel kills this process before others when memory runs out; with 0 its
// former priority is restored.
void mst_proc_expendable(int more);
// mst_proc_resident gives this process's resident bytes, shared memory included; 0 if unknown.
uint64_t mst_proc_resident(void);
// mst_proc_title makes lists of processes (ps) show a title for this process, followed by the end
// of its command line: the argument that ends with boot.R, and the later ones. The title is cut if
// it is longer than the part it replaces. Does nothing if the system can't.
void mst_proc_title(const char *title);
// mst_proc_can_fork tells whether forking an R process is safe on this system.
int mst_proc_can_fork(void);
// mst_proc_adopt makes this process the parent of descendants whose own parent ends. 0, or
// -MST_ESYS: then process 1 becomes that.
int mst_proc_adopt(void);
// mst_proc_adopts tells whether this process becomes the parent of descendants whose own parent
// ends: it is process 1 of its container, or has asked for it. Any thread.
int mst_proc_adopts(void);

// ---- fds.c: the numbers above. Async-signal-safe, except mst_fds_keep.

// mst_proc_dup copies fd to floor or above; -1 and EMFILE if the limit on descriptors prevents it
// (if the limit is below floor the system says EINVAL).
int mst_proc_dup(int fd, int floor);
// mst_fds_reserve copies descriptor 0, /dev/null, to fd if that is free. 0, -1.
int mst_fds_reserve(int fd);
// mst_fds_session gives MST_FD_SESSION, -1 if it isn't a pidfd.
int mst_fds_session(void);
// mst_fds_keep records the other open descriptors of this process, such as R's script, whose
// numbers must stay taken. 0, -1 and errno. In the server, before it forks.
int mst_fds_keep(void);
// mst_fds_place sets up the descriptors of a forked worker: its two channels at their numbers,
// /dev/null at the recorded ones, all close-on-exec, and no others. -1 and errno; EBADF if a number
// now belongs to another file.
int mst_fds_place(int data, int control);

// mst_fds_leave, in a copy of a worker, replaces the worker's channels and output by /dev/null: at
// their numbers, at *output and at 1 and 2 if they lead to the output pipe; is_output records
// which. mst_fds_take puts new ones in their places. 0, -1 and errno. In a standby.
int mst_fds_leave(int output, int is_output[3]);
int mst_fds_take(const int fds[3], int output, const int is_output[3]);

// ---- threads.c

// mst_threads_set tells every loaded BLAS and OpenMP library how many threads it may use (threads >
// 0). Libraries loaded later follow the environment variables. R thread.
void mst_threads_set(int threads);
// mst_threads_get gives the largest number that any of them would use, 0 if none is loaded.
int mst_threads_get(void);

// ---- tree.c

// mst_tree_remove removes a directory tree, without following links, until deadline_ns. 0,
// -MST_ETIMEOUT, -MST_ESYS. Allocates; any thread.
int mst_tree_remove(const char *path, int64_t deadline_ns);

// mst_tree_probe writes a page to a new file at `path` and removes it: 0, or
// -MST_ESYS (no space, read-only, a limit). Any thread.
int mst_tree_probe(const char *path);

// ---- reap.c

// mst_reap waits for pid, without blocking. If it has ended, kills its process group first, while
// the pid can't be reused. Returns 1 and fills how and number, 0 if it still runs, -MST_ECLOSED if
// it isn't our child.
int mst_reap(pid_t pid, uint32_t *how, int32_t *number);
// mst_reap_alone spares the group if the process ended with exit code 0: it may have handed its job
// to another process, as `ssh -f` does, that isn't in a group of its own yet.
int mst_reap_alone(pid_t pid, uint32_t *how, int32_t *number);

// ---- spawn.c

struct mst_spawn {
  const char *file;  // program, absolute
  char *const *argv; // ends with NULL
  const char *const
      *env;       // "NAME=value", overrides the session's; ends with NULL
  int env_whole;  // env is the whole environment, without the session's
  int fds[3];     // become 3, 4, 5; -1: /dev/null, see MST_FD_DATA
  int output;     // becomes 1, and 2 unless errors has another
  int errors;     // becomes 2; -1: output
  int input;      // becomes 0; -1: /dev/null
  int end_signal; // that ends it with the calling thread; 0: SIGKILL
};
// mst_spawn_run starts a process in its own process group that ends with the calling thread (until
// it asks otherwise). Thread: R's main thread, which alone may read the session's variables; any
// with env_whole. Blocks until exec is done. The caller keeps its descriptors and reaps *pid.
// 0, -MST_ESYS with the failed call, -MST_EMEM.
int mst_spawn_run(const struct mst_spawn *spawn, pid_t *pid,
                  struct mst_err *err);
// mst_spawn_env gives the session's variables overridden by those of `env`; "NAME" without "="
// removes one. One block, which the caller frees by free(); NULL if memory is short. Thread: R's
// main thread.
char **mst_spawn_env(const char *const *env);

// ---- host.c: where a launcher's workers are. Used by the thread that has the session. A host
// outlives the clusters that have workers there.

struct mst_host {
  const char *name; // as nodes show it
  const char *job;  // the number of its job in a batch system, or NULL
  // What its workers must have in common with the session: its build, NULL: the session's own.
  const char *build;
  // A path there is the same file here: the session removes what workers leave.
  uint8_t shares_files;
  // A pid there is the same process here.
  uint8_t shares_processes;
  // remove has what a worker left there removed, where files aren't shared; NULL: it stays until
  // the host ends.
  void (*remove)(struct mst_host *self, const char *path);
  // release: no worker is on it any more, or nothing is heard from it (silent): it may end. NULL:
  // it stays.
  void (*release)(struct mst_host *self);
  uint8_t silent;
  struct mst_host *next_left; // in a list of those that workers leave
  // How many processes the kernel has killed for memory, -1 if unknown; NULL: its fork servers
  // tell.
  int64_t (*oom_kills)(void);
  int64_t kills;     // that, when last read
  int64_t kills_new; // of these, not attributed to a worker yet
  int64_t kill_ns;   // when they were seen
};
// mst_host_here fills in the session's own host.
void mst_host_here(struct mst_host *host);
// mst_host_lacked_memory tells whether the kernel has killed a process of the host for memory that
// isn't attributed to a worker yet: it may be the one whose end was just reported. Several workers
// may be killed at once and reported one after the other. mst_host_count_kill attributes one.
int mst_host_lacked_memory(struct mst_host *host, int64_t now_ns);
void mst_host_count_kill(struct mst_host *host);
// mst_host_note_kill: a fork server on another host says that one was killed for memory.
void mst_host_note_kill(struct mst_host *host, int64_t now_ns);

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
// Called on the R thread from the loop or from a launcher's functions, even from within launch().
typedef void (*mst_news_sink)(void *owner, const struct mst_news *news);

struct mst_launcher {
  struct mst_host *host; // where its workers are
  // launch starts one worker and opens the conduit to it, without waiting for the worker. The
  // outcome comes as news. 0, or an error: then no news will come, and the conduit isn't open.
  int (*launch)(struct mst_launcher *self, const struct mst_incarnation *of,
                struct mst_conduit *conduit, struct mst_err *err);
  // signal sends a signal to the worker's process group. pid is known.
  void (*signal)(struct mst_launcher *self, const struct mst_incarnation *of,
                 pid_t pid, int signal);
  // adopt: one of the launcher's children, or of the orphans it adopts, is a worker from now on;
  // the launcher must report its end. NULL: not supported.
  void (*adopt)(struct mst_launcher *self, const struct mst_incarnation *of,
                pid_t pid);
  // reap checks for ends that the system doesn't report. Cheap; call often.
  void (*reap)(struct mst_launcher *self);
  // tells: whether the launcher, although gone, will still report this worker's end. NULL: never.
  int (*tells)(struct mst_launcher *self, const struct mst_incarnation *of);
  // gone: the launcher can't launch any more; it only reports the ends that tells() promises.
  int gone;
  // How long it may be silent while it owes news of launches and kills, not counting time when the
  // session didn't listen; 0: MST_LAUNCHER_SILENCE_NS. Set by the callers of reap.
  int64_t silence_ns;
  int64_t due_ns; // call reap by then; 0: no hurry
};
#define MST_LAUNCHER_SILENCE_NS (10 * MST_NS_PER_S)
// Forks take milliseconds, but longer on a busy machine.
#define MST_LAUNCHER_SILENCE_LEAST_NS MST_NS_PER_S
// On another host, longer than a link may be silent: where the whole host hangs, its link ends, and
// nobody waits for another server there.
#define MST_LAUNCHER_SILENCE_FAR_NS (90 * MST_NS_PER_S)

// ---- kids.c: the workers that a process must wait for

struct mst_kid {
  struct mst_kid *next;
  pid_t pid;
  int killed; // its end must be reported soon
  struct mst_incarnation of;
};
// mst_kids_add adds one to a list; the caller fills in its pid before it uses the list again. NULL
// if memory is short. mst_kids_drop removes it, if it is there; mst_kids_free frees all.
struct mst_kid *mst_kids_add(struct mst_kid **kids,
                             const struct mst_incarnation *of);
void mst_kids_drop(struct mst_kid **kids, const struct mst_incarnation *of);
void mst_kids_free(struct mst_kid **kids);
int mst_kids_have(struct mst_kid *kids, const struct mst_incarnation *of);
// mst_kids_mark notes that one is killed, mst_kids_killed tells whether any was.
void mst_kids_mark(struct mst_kid *kids, const struct mst_incarnation *of);
int mst_kids_killed(const struct mst_kid *kids);
// mst_kids_signal sends a signal to the process group of one, mst_kids_kill SIGKILL to those of
// all. They aren't reaped yet, so the pids are their own.
void mst_kids_signal(struct mst_kid *kids, const struct mst_incarnation *of,
                     int signal);
void mst_kids_kill(const struct mst_kid *kids);
// mst_kids_reap removes those that have ended, or aren't children of this process, and reports them
// to the sink (may be NULL), which may add kids but not drop any. mst_kids_wait repeats that until
// the list is empty or the deadline passes.
void mst_kids_reap(struct mst_kid **kids, mst_news_sink sink, void *owner);
void mst_kids_wait(struct mst_kid **kids, int64_t deadline_ns,
                   mst_news_sink sink, void *owner);

// ---- client.c: the session's end of a fork server

enum mst_server_state {
  MST_SERVER_BOOTING,
  MST_SERVER_READY,
  MST_SERVER_REFUSED, // text says why; it has ended or will soon
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
  pid_t owner; // the process that may use it
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
  // Its workers that haven't ended, as far as reported. After it is gone: those that this process
  // has adopted or will adopt.
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
// mst_server_over makes one for a server on another host, which somebody else starts: ours are the
// lines of its channel and its output, taken over but for -MST_EMEM. Its pid is 0. Otherwise as
// mst_server_start.
int mst_server_over(struct mst_host *host, struct mst_loop *loop,
                    struct mst_loop *prints, struct mst_ends *ours,
                    struct mst_blob *setup, mst_news_sink sink,
                    void *sink_owner, struct mst_server **out,
                    struct mst_err *err);
// mst_server_reap asks whether the server's process has ended; fills how.
int mst_server_reap(struct mst_server *server);
// mst_server_end closes the channel, upon which the server ends its workers and itself. Doesn't
// wait.
void mst_server_end(struct mst_server *server);
// mst_server_break does the same for a server whose loops are no longer usable; it doesn't touch
// them.
void mst_server_break(struct mst_server *server);
// mst_server_free kills the server and adopted workers if they still run, waits for them, and frees
// the server.
void mst_server_free(struct mst_server *server);

// ---- launch_spawn.c: workers booted one by one, children of the session

struct mst_spawner;
// mst_spawner_new makes a launcher that starts each worker by `spawn` (copied
// deep). NULL without memory. Free it when its workers are gone: it reaps them.
struct mst_spawner *mst_spawner_new(struct mst_host *host,
                                    const struct mst_spawn *spawn,
                                    mst_news_sink sink, void *sink_owner);
// mst_spawner_end waits a second for workers that were told to end, then kills and reaps them.
// Reports nothing.
void mst_spawner_end(struct mst_spawner *spawner);
struct mst_launcher *mst_spawner_launcher(struct mst_spawner *spawner);
void mst_spawner_free(struct mst_spawner *spawner);

// ---- server.c: runs in the fork server

struct mst_server_config {
  pid_t session;        // parent; the server ends with it
  const char *temp_dir; // parent of its workers' tempdirs, removed at its end
  int idle_ms;          // see MST_SERVER_IDLE; 0: never
};
// mst_server_run sends READY, when it is first called, and serves until the session is gone.
// Returns 0 in the server then, its workers gone; 1 in each forked worker, whose descriptors are in
// place and whose watch runs; MST_SERVER_IDLE in a server that has workers and heard nothing for
// idle_ms: call it again; < 0 in a worker whose set-up failed. Needs a single-threaded process of
// its own: refuses forks while the process has other threads.
#define MST_SERVER_IDLE 2
int mst_server_run(const struct mst_server_config *config, struct mst_err *err);
// mst_server_say sends one text message (SERVER_REFUSE, FAILED) and waits for it.
void mst_server_say(uint8_t kind, const char *text);

// ---- standby.c: runs in workers

// mst_standby_make forks a copy of this worker, which waits until the session tells it, over `end`,
// to replace the worker (by a FORK, as to a fork server); it leaves another copy in its own place.
// Closes `end`. output: the descriptor of the output pipe; title: for lists of processes. R thread,
// between two calls. Other threads than the watch are an error (MST_ESYS, EDEADLK), as are
// shortages of memory or processes. Returns 1 in the worker, and 0 in the copy once it becomes the
// worker: its descriptors are in place, its watch runs, all of the worker's links are closed.
int mst_standby_make(int end, int output, pid_t session, const char *title,
                     struct mst_err *err);

// ---- watch.c: a worker's second thread

// mst_watch_start starts the watch. session_fd may be -1: then it checks for the session twice a
// second. 0, -MST_ESYS, -MST_EMEM.
int mst_watch_start(int control_fd, int session_fd, pid_t session,
                    struct mst_err *err);
// mst_watch_call_begin says that the R thread takes this call, or one without a number (0). If it
// was withdrawn before, it is neither evaluated nor answered; if it was cancelled, it is answered
// with an error. Doesn't allow interrupts yet.
enum mst_take { MST_TAKE_EVALUATE, MST_TAKE_CANCELLED, MST_TAKE_WITHDRAWN };
enum mst_take mst_watch_call_begin(uint64_t call);
// mst_watch_call_open lets a CANCEL interrupt the call, at once if one has come already: one SIGINT
// per call to this process group, and SIGKILL if the call goes on past the grace, of which the time
// that it waits for the processor is no part.
void mst_watch_call_open(void);
// mst_watch_call_shut ends that: the following code runs to its end, however long that takes. 1 if
// a SIGINT was sent, which may still be on its way.
int mst_watch_call_shut(void);
// mst_watch_call_end says that the call is over. Returns as mst_watch_call_shut.
int mst_watch_call_end(void);
// mst_watch_crashes lets R's own handlers of SIGSEGV, SIGBUS and SIGILL report a crash, but not
// forever: they may hang if the signal interrupted R at a bad point. R thread, after R has
// installed them.
void mst_watch_crashes(void);
// ---- for a worker's standby (standby.c). R thread

// mst_watch_take_end gives the caller the descriptor that came with STANDBY: -1 if it was lost or
// doesn't come within timeout_ms. Blocks up to that.
int mst_watch_take_end(int timeout_ms);
// Between mst_watch_hold and mst_watch_release the watch thread is idle, so the process may fork.
void mst_watch_hold(void);
void mst_watch_release(void);
// mst_watch_leave, in a copy of the process, where no watch runs: closes its descriptors and resets
// its locks. mst_watch_start may follow.
void mst_watch_leave(void);
// mst_watch_stands: this worker now has a standby, which it must reap. Its temporary directory is
// left to the standby when the worker ends.
void mst_watch_stands(pid_t standby);
// mst_watch_is_orphan tells whether the session has ended; may wait if it is about to.
int mst_watch_is_orphan(void);
// mst_watch_end ends this process and its group, as the watch does.
void mst_watch_end(void);
// mst_watch_lost: the session's channel has ended. If the session has, too, exit() waits for the
// watch to remove what this worker leaves and to end it.
void mst_watch_lost(void);

// A guest of the watch thread, which serves the guest's descriptors.
struct mst_watch_guest {
  // fds fills in what to wait for, at most `most`, and returns the full count: if that is more, it
  // is called again with a larger array. It may shorten *timeout_ms (-1: no limit).
  size_t (*fds)(struct pollfd *fds, size_t most, int *timeout_ms);
  // ready is called after each wait that a descriptor ended, with the array waited for.
  void (*ready)(const struct pollfd *fds, size_t n);
  // hold, release and leave: the same for what the guest shares with the R thread.
  void (*hold)(void);
  void (*release)(void);
  void (*leave)(void);
};
// mst_watch_invite adds the guest; there can be one. R thread, before READY is sent.
void mst_watch_invite(const struct mst_watch_guest *guest);
// mst_watch_wake makes the watch ask the guest again what to wait for. Any thread; never blocks for
// long.
void mst_watch_wake(void);
// mst_watch_set_tempdir names the directory that the watch removes when the session is gone. R
// thread.
void mst_watch_set_tempdir(const char *path);
// mst_watch_tempdir gives that name.
const char *mst_watch_tempdir(void);

#endif
