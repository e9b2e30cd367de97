// session: clusters, nodes, tasks and servers of this process, for R.
#ifndef MST_FFI_SESSION_H
#define MST_FFI_SESSION_H

#include "ffi/value/value.h"
#include "host/gate.h"
#include "host/remote.h"
#include "pool/look.h"
#include "pool/session.h"

// ---- session.c

// ffi_session gives the session of this process, opened on first use. Raises an R error if that
// fails. In a forked child it leaves the parent's alone.
struct mst_session *ffi_session(void);
// ffi_session_or_null gives the session only if this process has opened one.
struct mst_session *ffi_session_or_null(void);
// ffi_clusters gives the first of the session's clusters, ffi_cluster_with the one with this id;
// NULL if there is none.
struct mst_cluster *ffi_clusters(void);
struct mst_cluster *ffi_cluster_with(uint32_t id);
// ffi_session_close closes the session, whose clusters and servers have ended, once R has left
// muster's entry points, unless ffi_session is called before.
void ffi_session_close(void);
// ffi_session_failed: an assertion (`what`) has failed on the R thread. If an entry that has the
// session is active, or was left by a jump, the session's state may be wrong: the session is given
// up, with its clusters and servers, and the next cluster opens another. Then it returns 1, else 0.
// Runs no R code.
int ffi_session_failed(const char *what);
// ffi_session_failures gives the number of sessions that this process has given up. An object made
// when it was smaller belongs to one of these.
uint32_t ffi_session_failures(void);
// ffi_on_give_up has `then` called when a session is given up: servers.c, remotes.c and gates.c
// then give up what they own. At most three.
// Runs no R code.
void ffi_on_give_up(void (*then)(void));
// ffi_cluster_of gives the cluster behind an external pointer, or NULL and the outcome.
struct mst_cluster *ffi_cluster_of(SEXP pointer, enum ffi_outcome *outcome);
// ffi_peer_of does the same for a node.
struct mst_peer *ffi_peer_of(SEXP node, enum ffi_outcome *outcome);

SEXP ffi_cluster_tag(void);
SEXP ffi_node_tag(void);
// ffi_session_fd gives the pidfd of this process, or -1.
int ffi_session_fd(void);
// ffi_cluster_close closes a cluster. Its memory is freed once R has left muster's entry points:
// those that run the user's code may still have pointers to it.
void ffi_cluster_close(struct mst_cluster *cluster);
// ffi_run_slice serves the session for a while, and closes unreferenced clusters that have stopped.
// Raises nothing.
void ffi_run_slice(struct mst_session *session, int timeout_ms);

// ffi_fill_spawn fills in how to start R, in R's transient memory.
void ffi_fill_spawn(struct mst_spawn *spawn, SEXP file, SEXP argv, SEXP env);

// ---- servers.c

// ffi_server_of gives the server behind a pointer, NULL if it belongs to another process or was
// ended.
struct mst_server *ffi_server_of(SEXP pointer);

// ---- callers.c: a node's notes, which copies of the node don't have

enum ffi_note {
  FFI_NOTE_FRAME, // frames of the verbs to which it owes answers, or NULL
  FFI_NOTE_PID,   // the last one known
  FFI_NOTES
};
// ffi_noted gives NULL for a copy, but NA as its pid. Apart from that NA neither allocates.
void ffi_note(SEXP node, enum ffi_note which, SEXP value);
SEXP ffi_noted(SEXP node, enum ffi_note which);

// ffi_show_progress now and then has R code show the progress of a waiting verb of parallel's: 1 if
// R code ran.
int ffi_show_progress(void);

// ---- payload.c

// ---- context.c

// ffi_context_look finds out what tasks see of the session now. Runs R code. ffi_context_hold gives
// that as a job of the cluster, which keeps it until the next call; NULL if memory is short.
void ffi_context_look(void);
struct mst_job *ffi_context_hold(struct mst_cluster *cluster);

// ffi_payload serializes a call into a blob, with a segment if its arguments are large. It is held
// until the entry point ends: take a reference to keep it. may_share: 0 if ffi_is_refused has seen
// nothing that can be shared. Raises R errors; runs R code.
struct mst_blob *ffi_payload(SEXP fun, SEXP args, SEXP tag, int may_share);
// ffi_payload_of_verb does the same for a call of parallel's verbs: one clusterCall() serializes
// once. Runs R code.
struct mst_blob *ffi_payload_of_verb(SEXP fun, SEXP args, SEXP tag);
// ffi_payload_begin: a payload kept for the next worker is released when the entry point ends,
// however R leaves it, unless ffi_payload_sent is called.
void ffi_payload_begin(void);
void ffi_payload_sent(void);
// ffi_bound_log drops a cluster's journals if memory is too short for them. Runs no R code. Reads
// small files if the journals have grown much.
void ffi_bound_log(struct mst_cluster *cluster);
// ffi_payload_done frees large payloads that nobody keeps, since nobody will send them again.
// Called before each receive: fast if there is none.
void ffi_payload_done(void);

// ---- tasks.c

// ffi_task_of gives the task behind a pointer; NULL and the outcome for a copy, in another process,
// or after its session was given up.
struct mst_call *ffi_task_of(SEXP pointer, enum ffi_outcome *outcome);

// ---- answers.c

// ffi_label gives a task's label as R's string; NULL if it has none. Allocates.
SEXP ffi_label(const struct mst_call *task);

// ---- jobs.c

// ffi_job_of gives the job behind a pointer of ffi_job_hold, NULL if it isn't one of this cluster.
struct mst_job *ffi_job_of(SEXP pointer, const struct mst_cluster *cluster);

// ---- events.c: events of workers, for the user

// ffi_attend shows the workers' output and events, and has R code replace a fork server that is
// gone. Runs R code: may leave by longjmp.
void ffi_attend(struct mst_session *session);
// ffi_has_news tells whether ffi_attend has something to do.
int ffi_has_news(const struct mst_session *session);
// ffi_wait_slice is one round of a wait: it serves the session, shows output and events, and checks
// R's interrupts and time limits. May leave by longjmp.
void ffi_wait_slice(struct mst_session *session, int timeout_ms);
// ffi_loss_list describes a loss for R code.
SEXP ffi_loss_list(const struct mst_loss *loss);
// ffi_why gives NULL for NONE, the text for TOLD (NULL without one), else the number.
SEXP ffi_why(enum mst_why why, char *const *text);

// ---- remotes.c, servers.c: other hosts, and fork servers

// ffi_remote_of gives the host of a pointer, NULL if it is ended, or another process's.
struct mst_remote *ffi_remote_of(SEXP pointer);
// ffi_remote_number gives the number of the site that a link is for, *link which of its links it
// is; 0: it is for no site, or was ended.
uint32_t ffi_remote_number(SEXP pointer, uint32_t *link);
// ffi_gate_of gives a pointer's gate, NULL if it is ended, or another process's. ffi_gates_forget:
// a remote ends. ffi_gates_abandon: nobody needs its gate any more. ffi_gates_end ends all gates of
// this process.
struct mst_gate *ffi_gate_of(SEXP pointer);
void ffi_gates_forget(const struct mst_remote *remote);
void ffi_gates_abandon(const struct mst_remote *remote);
void ffi_gates_end(void);
// ffi_remotes_tell tells sites what has happened to their links; 1 if R code has to clean up after
// one that workers have left. ffi_servers_tell tells them which fork servers have booted.
int ffi_remotes_tell(void);
void ffi_servers_tell(void);
// ffi_remotes_abandon closes the links that are for a cluster, which nobody refers to any more.
// Doesn't wait. Others end when R code ends them.
void ffi_remotes_abandon(uint32_t cluster);
// ffi_remotes_end ends all hosts of this process, ffi_servers_end all fork servers. They wait for
// the processes, until the deadline.
void ffi_remotes_end(int64_t deadline_ns);
void ffi_servers_end(int64_t deadline_ns);

// ---- sites.c, tend.c: where groups are launched

// ffi_site_begun gives the site with this number, of a cluster that is about to start; NULL if
// there is none. ffi_site_of finds it also in clusters; *cluster, if not NULL: its id, or 0.
struct mst_site *ffi_site_begun(uint32_t number);
struct mst_site *ffi_site_of(uint32_t number, uint32_t *cluster);
// ffi_sites_have_news tells whether R code has something to do for a site of a cluster.
int ffi_sites_have_news(const struct mst_session *session);

// ---- line.c: the progress line

// ffi_line_is_up tells whether the terminal shows it now. Before writing to stderr call
// ffi_line_clear; afterwards you may call ffi_line_back. They run no R code.
int ffi_line_is_up(void);
void ffi_line_clear(void);
void ffi_line_back(void);

// ---- entry points

SEXP ffi_server_start(SEXP file, SEXP argv, SEXP env, SEXP setup);
SEXP ffi_server_wait(SEXP server, SEXP timeout_s);
SEXP ffi_server_state(SEXP server);
SEXP ffi_server_end(SEXP server);
SEXP ffi_remote_start(SEXP name, SEXP command, SEXP how, SEXP site);
SEXP ffi_remote_await(SEXP name, SEXP gate, SEXP how, SEXP site);
SEXP ffi_gate_open(SEXP where, SEXP numbers);
SEXP ffi_key_check(SEXP path);
SEXP ffi_gate_end(SEXP gate);
SEXP ffi_remote_wait(SEXP remote, SEXP timeout_s);
SEXP ffi_remote_state(SEXP remote);
SEXP ffi_remote_is(SEXP remote, SEXP build, SEXP names, SEXP here);
SEXP ffi_remote_server(SEXP remote, SEXP order, SEXP setup);
SEXP ffi_remote_owner(SEXP remote, SEXP id);
SEXP ffi_remote_end(SEXP remote);
SEXP ffi_site_new(SEXP number, SEXP terms);
SEXP ffi_site_tell(SEXP at, SEXP fact, SEXP value);
SEXP ffi_sites_next(SEXP numbers);
SEXP ffi_sites_drop(SEXP numbers);
SEXP ffi_sites_retry(SEXP id);
SEXP ffi_site_same(SEXP at);
SEXP ffi_session_end(SEXP timeout_s, SEXP leave_s);
SEXP ffi_session_failure(void);
SEXP ffi_session_assert(void);
SEXP ffi_session_tempdirs(void);
SEXP ffi_cluster_open(SEXP groups, SEXP window, SEXP timeout_s, SEXP policy);
SEXP ffi_cluster_grow(SEXP cluster, SEXP more, SEXP like, SEXP bare);
SEXP ffi_nodes_ready(SEXP nodes);
SEXP ffi_cluster_scale(SEXP id, SEXP idle_s);
SEXP ffi_cluster_keep(SEXP id, SEXP groups, SEXP more);
SEXP ffi_nodes_groups(SEXP nodes);
SEXP ffi_cluster_wakes(SEXP id);
SEXP ffi_cluster_adopt(SEXP id, SEXP group, SEXP server, SEXP setup);
SEXP ffi_cluster_revive(SEXP cluster);
SEXP ffi_nodes_share_host(SEXP nodes);
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
SEXP ffi_node_host(SEXP pointer);
SEXP ffi_node_pid(SEXP node);
SEXP ffi_node_look(SEXP node);
SEXP ffi_node_heals(SEXP node);
SEXP ffi_node_loss(SEXP node);
SEXP ffi_node_kill(SEXP node);
SEXP ffi_node_journal(SEXP node);
SEXP ffi_queue_full(SEXP nodes);
SEXP ffi_group(SEXP name);
SEXP ffi_task_question(SEXP task);
SEXP ffi_task_submit(SEXP nodes, SEXP fun, SEXP args, SEXP jobs, SEXP limits,
                     SEXP label);
SEXP ffi_task_try(SEXP nodes, SEXP fun, SEXP args);
SEXP ffi_job_freeze(SEXP content);
SEXP ffi_job_hold(SEXP nodes, SEXP content);
SEXP ffi_job_release(SEXP job);
SEXP ffi_map_put(SEXP results, SEXP first, SEXP values);
SEXP ffi_notify(SEXP on);
SEXP ffi_notified(void);
SEXP ffi_task_wait(SEXP tasks, SEXP any, SEXP timeout_s);
SEXP ffi_task_look(SEXP tasks, SEXP said);
SEXP ffi_task_value(SEXP task, SEXP timeout_s);
SEXP ffi_task_loss(SEXP task);
SEXP ffi_needs(SEXP roots);
SEXP ffi_methods_own(SEXP table);
SEXP ffi_is_unknown(SEXP env, SEXP names);
SEXP ffi_task_cause(SEXP task);
SEXP ffi_tasks_open(SEXP nodes);
SEXP ffi_task_cancel(SEXP task);
SEXP ffi_task_state(SEXP task);
SEXP ffi_task_log(SEXP task, SEXP text);
// pieces.c
SEXP ffi_map_begin(SEXP nodes, SEXP content, SEXP numbers);
SEXP ffi_piece_submit(SEXP nodes, SEXP args, SEXP needs, SEXP limits,
                      SEXP label, SEXP pieces);
SEXP ffi_pieces_next(SEXP pieces);
SEXP ffi_pieces_at(SEXP pieces, SEXP numbers, SEXP workers);
SEXP ffi_pieces_over(SEXP pieces, SEXP piece);
SEXP ffi_pieces_ended(SEXP pieces, SEXP piece);
SEXP ffi_pieces_done(SEXP pieces, SEXP piece, SEXP about);
SEXP ffi_pieces_each(SEXP pieces);
SEXP ffi_pieces_stop(SEXP pieces, SEXP at);
SEXP ffi_pieces_lost(SEXP pieces, SEXP piece, SEXP about);

// plan.c
SEXP ffi_plan_new(SEXP workers);
SEXP ffi_plan_add(SEXP plan, SEXP count, SEXP near, SEXP far, SEXP speculate);
SEXP ffi_plan_order(SEXP plan, SEXP stage, SEXP order);
SEXP ffi_plan_see(SEXP plan, SEXP workers);
SEXP ffi_plan_next(SEXP plan);
SEXP ffi_plan_base(SEXP plan, SEXP stage, SEXP task, SEXP worker);
SEXP ffi_plan_where(SEXP plan, SEXP stage);
SEXP ffi_plan_counts(SEXP plan);
SEXP ffi_plan_want(SEXP plan, SEXP stage);
SEXP ffi_plan_unwant(SEXP plan);
SEXP ffi_plan_forget(SEXP plan, SEXP stage);
SEXP ffi_plan_retire(SEXP plan, SEXP stage);
SEXP ffi_plan_done(SEXP plan, SEXP attempt);
SEXP ffi_plan_note(SEXP plan, SEXP attempt);
SEXP ffi_plan_found(SEXP plan, SEXP attempt);
SEXP ffi_plan_ended(SEXP plan, SEXP attempt);
SEXP ffi_plan_missed(SEXP plan, SEXP attempt);
SEXP ffi_cluster_workers(SEXP nodes);
SEXP ffi_cluster_wait(void);

#endif
