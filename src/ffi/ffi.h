// ffi: the only folder that knows R. Everything in it runs on the R thread.
//
// Rules: core functions never longjmp; this folder frees or hands over what it
// holds before it calls anything of R's that may. An outcome that R code turns
// into a condition comes back as a small integer (enum ffi_outcome), so that
// all conditions are made in R/conditions.R.
#ifndef MST_FFI_H
#define MST_FFI_H

#define R_NO_REMAP
#include <R_ext/Rdynload.h>
#include <Rinternals.h>

#include "base/mst_buf.h"
#include "base/mst_clock.h"
#include "pool/run.h"

// Longest time without a look at R's interrupts and time limits.
#define FFI_SLICE_MS 50

// ffi_ns: a duration that R gives in seconds, below 1e9.
static inline int64_t ffi_ns(double seconds) {
  return (int64_t)(seconds * (double)MST_NS_PER_S);
}

enum ffi_outcome {
  FFI_LOST = 1,     // the worker is lost
  FFI_STOPPED = 2,  // the cluster was stopped
  FFI_FOREIGN = 3,  // of another process: a copy, or used in a forked child
  FFI_TYPE = 4,     // a message of a type that muster doesn't know
  FFI_MEMORY = 5,   // no memory for a message
  FFI_SYSTEM = 6,   // a system call failed
  FFI_FAILED = 7,   // the call's answer will not come; ffi_node_loss says why
  FFI_REFERENCE = 8 // an argument that is of no use in another process
};

// ---- serialize.c

// ffi_serialize appends x to buf in R's native binary format. Raises R errors.
void ffi_serialize(SEXP x, struct mst_buf *buf);
// ffi_unserialize reads one object from n bytes, of either form. Raises R errors; what it
// reads must stay in place meanwhile.
SEXP ffi_unserialize(const uint8_t *bytes, size_t n);
// ffi_unserialize_message is ffi_unserialize for a message: of n bytes the first `skip` are
// no part of the object. If its flags say so it has a segment, whose size stands right
// before the object; map is that and stays the caller's, NULL if there is none or it
// couldn't be mapped (muster_error_memory).
SEXP ffi_unserialize_message(uint16_t flags, const uint8_t *bytes, size_t n,
                             size_t skip, struct mst_map *map);

// ---- node.c: what the session notes of a node, and no copy of it has

enum ffi_note {
  FFI_NOTE_FRAME, // of the verb that is owed an answer, or NULL
  FFI_NOTE_PID,   // the last one that was known
  FFI_NOTES
};
// ffi_noted gives NULL for a copy, but NA as its pid. Neither allocates anything else.
void ffi_note(SEXP node, enum ffi_note which, SEXP value);
SEXP ffi_noted(SEXP node, enum ffi_note which);

// ---- values.c: what isn't serialized

// ffi_hide gives a pointer with a reference to value that lives as long as key, a pointer or an
// environment, and is written as nothing when it is serialized. What changes of a node is behind
// one: some packages know a cluster by a digest of it (future 1.31), and what a verb's frame holds
// has no business in a message that the cluster is in. Not the reference itself: waldo, and so
// testthat, can't compare any. ffi_hidden gives value, or NULL for a copy.
SEXP ffi_hide(SEXP key, SEXP value);
SEXP ffi_hidden(SEXP pointer);

// ---- plain.c: the short form of small messages

// ffi_serialize_message appends a list, the content of a message, to a blob: in the short
// form if it has no segment and can be, else as ffi_serialize does. Raises R errors.
void ffi_serialize_message(SEXP list, struct mst_blob *blob);
// ffi_is_plain tells the short form by its first byte; ffi_read_plain reads it.
int ffi_is_plain(const uint8_t *bytes, size_t n);
SEXP ffi_read_plain(const uint8_t *bytes, size_t n);

// ---- share.c: large vectors in shared memory

// ffi_share_worth tells whether a message has vectors that should be shared. Quick for
// one that hasn't.
int ffi_share_worth(SEXP x);
// ffi_share_out writes these vectors to a segment, sealed, and gives a copy of x that
// refers to them when it is serialized, and that is good for nothing else. x itself and no
// segment where the system has none. Raises muster_error_memory if there is no room; then
// there is no segment.
SEXP ffi_share_out(SEXP x, struct mst_segment *segment);
// ffi_share_collect has R give back mappings that nobody uses any more, now and then. Runs
// finalizers: call it before what is to be read is looked for.
void ffi_share_collect(void);
// ffi_share_register makes the classes, once.
void ffi_share_register(DllInfo *dll);

// ---- room.c: memory for messages

// What is smaller than this is written without a look at the memory that is free.
#define FFI_ROOM_FROM ((size_t)64 << 20)
// ffi_room_check raises muster_error_memory if so many bytes aren't free, with some left.
void ffi_room_check(size_t bytes);
// ffi_no_memory raises muster_error_memory: so many bytes can't be written; ffi_no_map:
// can't be read.
void ffi_no_memory(size_t bytes);
void ffi_no_map(size_t bytes);
// ffi_room_look gives the bytes that are free now.
int64_t ffi_room_look(void);
// ffi_room_pretend is for tests: as if so many bytes were free; negative: look.
void ffi_room_pretend(double bytes);

// ---- hold.c: what an entry point has in hand while R may run

// ffi_hold keeps `what` until ffi_drop, or until the entry point that it is called in has ended
// or was left by a jump; then let_go(what) frees it, which must run no R code. Raises an R
// error without memory, and `what` is freed then. Returns `what`. Only in entries.
void *ffi_hold(void *what, void (*let_go)(void *));
// ffi_new_blob gives an empty blob that is held: ffi_unhold makes it the caller's. Raises an R
// error without memory.
struct mst_blob *ffi_new_blob(void);
// ffi_hold_blob holds a reference to a blob.
struct mst_blob *ffi_hold_blob(struct mst_blob *blob);
// ffi_drop frees what is held now; ffi_unhold leaves that to the caller. Without harm for what
// isn't held.
void ffi_drop(const void *what);
void ffi_unhold(const void *what);
// ffi_let_go_from frees what entries at this depth and deeper hold: they have ended.
void ffi_let_go_from(uint32_t depth);

// ---- session.c

// ffi_entry calls fun(data) as an entry (init.c): the outermost has the session from its
// beginning to its end, and lends it to the deputy then if there are tasks to be done. Entries
// may be inside of others, since most of R's API can run R code (finalizers, condition
// handlers). However R leaves one, it ends: R_UnwindProtect sees to that.
SEXP ffi_entry(SEXP (*fun)(void *), void *data);
// ffi_depth tells how many entries R is in.
uint32_t ffi_depth(void);
// ffi_do_later has run(item) called when R is in no entry, or an entry serves the session; now,
// if it is in none. For finalizers: allocates nothing, runs no R code, and run must not either.
struct ffi_later {
  struct ffi_later *next;
  void (*run)(struct ffi_later *item);
};
void ffi_do_later(struct ffi_later *item);
// ffi_guarded calls fun(data), which R may leave by a jump: then left(data) is called before the
// jump goes on (left may be NULL).
void ffi_guarded(SEXP (*fun)(void *), void (*left)(void *), void *data);
// ffi_check_interrupt is R_CheckUserInterrupt for entries; left as above, may be NULL.
void ffi_check_interrupt(void (*left)(void *), void *data);
// ffi_unwind is R_UnwindProtect() that allocates nothing, so `done` runs in any case; it must
// not run R. ffi_unwind_init makes what that needs, when the package is loaded.
SEXP ffi_unwind(SEXP (*fun)(void *), void *data,
                void (*done)(void *, Rboolean jump), void *done_data);
void ffi_unwind_init(void);
// ffi_self gives the pid of this process. Asking the system each time would cost more
// than all other checks of an entry.
pid_t ffi_self(void);
// ffi_session gives the session of this process, opened on first use. Raises an
// R error if that fails. In a forked child the parent's is left alone.
struct mst_session *ffi_session(void);
// ffi_build gives what session and worker must agree in, as configured by R.
const char *ffi_build(void);
// ffi_session_or_null gives it only if this process has opened one.
struct mst_session *ffi_session_or_null(void);
// ffi_cluster_of gives the cluster behind an external pointer, or NULL and the
// outcome.
struct mst_cluster *ffi_cluster_of(SEXP pointer, enum ffi_outcome *outcome);
// ffi_peer_of does the same for a node.
struct mst_peer *ffi_peer_of(SEXP node, enum ffi_outcome *outcome);

// ffi_address_of gives the address in an external pointer with this tag, else NULL.
void *ffi_address_of(SEXP pointer, SEXP tag);
SEXP ffi_cluster_tag(void);
SEXP ffi_node_tag(void);
// ffi_symbol gives the symbol, looked up once: that costs 50 ns.
SEXP ffi_symbol(SEXP *known, const char *name);
// ffi_session_fd gives the pidfd of this process, -1 if there is none.
int ffi_session_fd(void);
// ffi_cluster_close closes a cluster. Its memory is freed when R has left muster's entry
// points: those that run code of the user's may still have pointers to it.
void ffi_cluster_close(struct mst_cluster *cluster);
// ffi_run_slice serves the session for a while and closes clusters that nobody
// refers to once they are down. Raises nothing.
void ffi_run_slice(struct mst_session *session, int timeout_ms);
// ffi_deadline gives the time at which that many seconds will have passed.
int64_t ffi_deadline(SEXP timeout_s);

// ---- servers.c

// ffi_server_of gives the server behind a pointer, NULL if it isn't this
// process's or has been ended.
struct mst_server *ffi_server_of(SEXP pointer);
// ffi_servers_end ends all servers of this process and waits until deadline_ns.
void ffi_servers_end(int64_t deadline_ns);
// ffi_servers_free_ended frees those that have ended: no entry point has pointers to them.
void ffi_servers_free_ended(void);
// ffi_servers_forget makes a forked child forget its parent's.
void ffi_servers_forget(void);

// ---- values.c

// ffi_error_list gives list(error, call, errno).
SEXP ffi_error_list(const struct mst_err *err);
// ffi_tail_text gives what a tail holds as a string.
SEXP ffi_tail_text(const struct mst_tail *tail);
// ffi_strings copies a character vector to a NULL-ended array of R's memory.
char **ffi_strings(SEXP strings);
// ffi_fill_spawn says how to start R; R's memory.
void ffi_fill_spawn(struct mst_spawn *spawn, SEXP file, SEXP argv, SEXP env);
// ffi_blob_of serializes x into a blob of its own: the caller's. Raises R errors.
struct mst_blob *ffi_blob_of(SEXP x);
// ffi_blob_copy gives a blob of a raw vector's bytes. Raises muster_error_memory.
struct mst_blob *ffi_blob_copy(SEXP bytes);

// ffi_list makes a named list of n elements; names are C strings. The caller
// protects it and fills it.
SEXP ffi_list(int n, const char *const *names);
// ffi_text_at makes a string, as ffi_text does, of a text that code which R runs meanwhile may
// free or replace; "" where there is none.
SEXP ffi_text_at(char *const *text);
// ffi_text makes a string from n bytes of a locale or UTF-8 text; bytes that are
// valid in neither are shown as <xx>.
SEXP ffi_text(const char *bytes, size_t n);

// ffi_call_ours calls a function of muster's namespace with one argument, or with none
// if it is NULL. Raises what that raises.
SEXP ffi_call_ours(const char *name, SEXP argument);

// What R has other names for, or none in its API, from version to version.
// ffi_binding gives a binding of env itself, R_UnboundValue if there is none.
SEXP ffi_binding(SEXP env, SEXP symbol);
SEXP ffi_closure_env(SEXP fun);
SEXP ffi_parent_env(SEXP env);
int ffi_has_attributes(SEXP x);
// ffi_only_names tells whether what has attributes has names and nothing else. May allocate.
int ffi_only_names(SEXP x);
// ffi_value_in gives a function of a namespace by name; a package's functions are promises
// until they are used.
SEXP ffi_value_in(SEXP env, SEXP name);

// ---- payload.c

// ffi_payload serializes a call into a blob, with a segment if its arguments are large. It is
// held until the entry point ends: take a reference to keep it. Raises R errors; runs R code.
struct mst_blob *ffi_payload(SEXP fun, SEXP args, SEXP tag);
// ffi_payload_of_verb does the same for a call of parallel's verbs: what one clusterCall()
// sends is made once. Calls R code.
struct mst_blob *ffi_payload_of_verb(SEXP fun, SEXP args, SEXP tag);
// ffi_payload_begin: a payload that is kept for the next worker is let go of when the entry point
// ends, however R leaves it, unless ffi_payload_sent says that it went out.
void ffi_payload_begin(void);
void ffi_payload_sent(void);
// ffi_payload_done gives the memory of a large one back that nobody kept: nobody sends it
// again. Called before each receive, so it is quick when there is none.
void ffi_payload_done(void);

// ---- jobs.c

// ffi_job_of gives the job behind a pointer of ffi_job_hold, NULL if it is none of this
// cluster's.
struct mst_job *ffi_job_of(SEXP pointer, const struct mst_cluster *cluster);
// ffi_is_refused tells whether a list holds what must not leave this process: a
// connection, or by option an external pointer. See ffi_scan.
int ffi_is_refused(SEXP x);

// ---- events.c: what happens to workers, for the user

// ffi_attend shows what workers printed, tells what happened to them, and has R
// code replace a fork server that is gone. Runs R code: may leave by longjmp.
void ffi_attend(struct mst_session *session);
// ffi_has_news tells whether there is anything for ffi_attend.
int ffi_has_news(const struct mst_session *session);
// ffi_wait_slice is one round of a wait: serves the session, shows and tells what there
// is, and looks at R's interrupts and time limits. May leave by longjmp.
void ffi_wait_slice(struct mst_session *session, int timeout_ms);
// ffi_loss_list describes a loss as R code wants it.
SEXP ffi_loss_list(const struct mst_loss *loss);

// ---- line.c: the line of progress

// ffi_line_is_up tells whether the terminal shows it now. Whoever writes to stderr calls
// ffi_line_clear before, and may call ffi_line_back after. They run no R code.
int ffi_line_is_up(void);
void ffi_line_clear(void);
void ffi_line_back(void);

// ---- node.c

// ffi_show_progress has R code show how far a verb of parallel's is that waits, now and then: 1
// if R code ran.
int ffi_show_progress(void);

// ---- track.c: runs in workers

// ffi_track_begin notes what this worker is; later calls note it anew. Raises R
// errors.
void ffi_track_begin(void);
// ffi_track_changed tells what changed since it was last asked: MST_FLAG_STATE,
// RNG, SEED (then *seed is filled). 0 before ffi_track_begin. Raises R
// errors.
uint16_t ffi_track_changed(struct mst_seed *seed);
void ffi_track_set_seed(const struct mst_seed *seed);

// ---- entry points, registered in init.c

SEXP ffi_server_start(SEXP file, SEXP argv, SEXP env, SEXP setup);
SEXP ffi_server_wait(SEXP server, SEXP timeout_s);
SEXP ffi_server_state(SEXP server);
SEXP ffi_server_end(SEXP server);
SEXP ffi_session_end(SEXP timeout_s);
SEXP ffi_session_tempdirs(void);
SEXP ffi_session_configure(SEXP build);
SEXP ffi_cluster_open(SEXP workers, SEXP source, SEXP window, SEXP setup,
                      SEXP timeout_s, SEXP policy);
SEXP ffi_cluster_grow(SEXP cluster, SEXP more);
SEXP ffi_nodes_ready(SEXP nodes);
SEXP ffi_cluster_adopt(SEXP id, SEXP server);
SEXP ffi_cluster_revive(SEXP cluster);
SEXP ffi_cluster_ids(void);
SEXP ffi_cluster_logs(SEXP cluster);
SEXP ffi_events(void);
SEXP ffi_line_put(SEXP text, SEXP cells, SEXP plain);
SEXP ffi_line_away(SEXP for_good);
SEXP ffi_line_shown(void);
SEXP ffi_progress_show(void);
SEXP ffi_line_width(void);
SEXP ffi_round(void);
SEXP ffi_process_stat(SEXP pid);
SEXP ffi_cluster_stop(SEXP cluster, SEXP ranks);
SEXP ffi_cluster_status(SEXP cluster);
SEXP ffi_node_notes(SEXP pointer);
SEXP ffi_node_send(SEXP node, SEXP data, SEXP frame);
SEXP ffi_node_receive(SEXP node);
SEXP ffi_nodes_receive_one(SEXP nodes);
SEXP ffi_nodes_wait(SEXP nodes, SEXP timeout_s);
SEXP ffi_node_ping(SEXP node, SEXP timeout_s);
SEXP ffi_node_outcome(SEXP node);
SEXP ffi_node_status(SEXP node);
SEXP ffi_node_pid(SEXP node);
SEXP ffi_node_look(SEXP node);
SEXP ffi_node_heals(SEXP node);
SEXP ffi_node_loss(SEXP node);
SEXP ffi_node_kill(SEXP node);
SEXP ffi_node_journal(SEXP node);

SEXP ffi_share_min(SEXP min);
SEXP ffi_share_always(SEXP always);
SEXP ffi_share_pretend(SEXP off, SEXP room);
SEXP ffi_share_is(SEXP x);

SEXP ffi_task_submit(SEXP nodes, SEXP fun, SEXP args, SEXP job, SEXP limits);
SEXP ffi_job_hold(SEXP nodes, SEXP content);
SEXP ffi_job_release(SEXP job);
SEXP ffi_stream_after(SEXP seed, SEXP n);
SEXP ffi_object_read(SEXP bytes);
SEXP ffi_scan(SEXP x);
SEXP ffi_map_elements(SEXP frame, SEXP values, SEXP at, SEXP seed);
SEXP ffi_map_put(SEXP results, SEXP first, SEXP values);
SEXP ffi_task_wait(SEXP tasks, SEXP any, SEXP timeout_s);
SEXP ffi_task_value(SEXP task, SEXP timeout_s);
SEXP ffi_task_loss(SEXP task);

// ---- needs.c

SEXP ffi_code_names(SEXP fun);
SEXP ffi_code_keep(SEXP fun, SEXP names);
SEXP ffi_task_needs(SEXP fun, SEXP args);
SEXP ffi_task_cancel(SEXP task);
SEXP ffi_task_state(SEXP task);

SEXP ffi_server_begin(void);
SEXP ffi_server_run(SEXP session, SEXP temp_dir);
SEXP ffi_server_say(SEXP kind, SEXP text);
SEXP ffi_worker_begin(SEXP forked, SEXP session);
SEXP ffi_worker_setup(void);
SEXP ffi_worker_ready(SEXP tempdir);
SEXP ffi_worker_failed(SEXP text);
SEXP ffi_worker_serve(SEXP enclosure);
SEXP ffi_worker_taken(void);
SEXP ffi_worker_answer_error(SEXP value);
SEXP ffi_worker_track(void);
SEXP ffi_worker_condition(SEXP condition);
SEXP ffi_worker_is_task(void);
SEXP ffi_worker_say(SEXP value);
SEXP ffi_warm_pair(void);
SEXP ffi_warm_feed(SEXP fd, SEXP messages);

SEXP ffi_pack(SEXP list);
SEXP ffi_limits(void);
SEXP ffi_limits_raise(SEXP want);
SEXP ffi_can_write(SEXP path);
SEXP ffi_environment(void);
SEXP ffi_errno_name(SEXP number);
SEXP ffi_threads_set(SEXP threads);
SEXP ffi_oom_kills(void);
SEXP ffi_threads_count(void);
SEXP ffi_rebind(SEXP env, SEXP name, SEXP value);
SEXP ffi_rand_seed(void);
SEXP ffi_can_fork(void);
SEXP ffi_fault_arm(SEXP point, SEXP nth, SEXP sys_errno);
SEXP ffi_assert_fail(void);
SEXP ffi_build_flags(void);

#endif
