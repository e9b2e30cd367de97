// worker: code that runs in workers and in fork servers.
#ifndef MST_FFI_WORKER_H
#define MST_FFI_WORKER_H

#include "ffi/value/value.h"
#include "wire/wire.h"

// ---- track.c: runs in workers

// ffi_track_begin records this worker's state; calling it again records it anew. Raises R errors.
void ffi_track_begin(void);
// ffi_track_changed tells what has changed since the last call: MST_FLAG_STATE, RNG, SEED (then
// *seed is filled). 0 before ffi_track_begin. same_settings: options and directory haven't, which
// needn't be looked for again. Raises R errors.
uint16_t ffi_track_changed(struct mst_seed *seed, int same_settings);
int ffi_track_is_on(void);
void ffi_track_set_seed(const struct mst_seed *seed);
// ffi_track_hold: from now on large values are held (all), so that their changes are seen and can
// be undone; or not, so that R may change them in place. Between two calls. ffi_track_let_go tells
// whether some aren't held.
void ffi_track_hold(int all);
int ffi_track_let_go(void);
// ffi_track_rewrites tells whether any call has changed a large value so far.
int ffi_track_rewrites(void);
// ffi_track_stream gives .Random.seed, R_UnboundValue if there is none. ffi_track_note_stream:
// muster has set it, no call.
SEXP ffi_track_stream(void);
void ffi_track_note_stream(void);

// What this worker's options and working directory were when that was last noted; track.c.
extern struct ffi_settings ffi_this_settings;

// ---- context.c

// ffi_context_enter lets the call that follows see the context with this number, or the worker's
// own (0). Runs R code, and may raise errors.
void ffi_context_enter(double number);

// ---- left.c: what a task leaves open or changed

// ffi_left_begin notes what is open before a task, ffi_left_end closes what was opened since, and
// puts options and the directory back: 1 if nothing was to be done, 0 also without a ffi_left_begin
// before. Both may run R code.
void ffi_left_begin(void);
int ffi_left_end(void);

// ---- stream.c: the worker's own random number stream

// ffi_stream_begin seeds it, by a word of the session's. ffi_stream_renew gives it another one,
// that no worker had. ffi_stream_look seeds it again if it was removed; call it before each call of
// the user's. Not on: nothing is done. R errors of a user's generator are ignored.
SEXP ffi_stream_begin(SEXP word);
void ffi_stream_renew(void);
void ffi_stream_look(void);

// ---- entry points

SEXP ffi_worker_begin(SEXP forked, SEXP session);
SEXP ffi_worker_setup(void);
SEXP ffi_worker_ready(SEXP tempdir);
SEXP ffi_worker_failed(SEXP text);
SEXP ffi_worker_serve(SEXP enclosure);
SEXP ffi_worker_taken(void);
// jobs.c
// ffi_job_of_frame gives list(number, bytes, segment) of a JOB; map: its segment, NULL if it has
// none or couldn't be mapped. The caller protects the list.
SEXP ffi_job_of_frame(const struct mst_frame *frame, struct mst_map *map);
SEXP ffi_job_read(SEXP bytes, SEXP pointer);
SEXP ffi_job_key(SEXP number);
SEXP ffi_job_forget(SEXP pointer);
SEXP ffi_worker_answer_error(SEXP value);
SEXP ffi_worker_track(void);
// ffi_worker_frames gives, for each tracked environment, the changes since the present call began:
// NULL if there are none, else list(frame, had: names that existed, changed: those to restore,
// values), the global one first. Not for .Random.seed. NULL before ffi_worker_track.
SEXP ffi_worker_frames(void);
// ffi_worker_before gives list(options, search: environments, directory, seed) as they were then,
// and frames: a list of the tracked environments, and NULLs.
SEXP ffi_worker_before(void);
// interrupt.c. ffi_worker_open lets the present call be interrupted from now on, or leaves it at
// once if it is cancelled; ffi_worker_shut ends that, and gives TRUE if an interrupt was sent,
// which may still come (R/worker-interrupt.R).
SEXP ffi_worker_open(void);
SEXP ffi_worker_shut(void);
// ffi_interrupt_end ends the call. If it was interrupted (*raised), its tracked changes are undone:
// nobody reads its answer, and the session doesn't know how far it got. 0 if some change stays, or
// may stay: then this worker must end, since its state no longer matches its journal.
int ffi_interrupt_end(int *raised, uint16_t *changed, struct mst_seed *seed);
// promises.c. ffi_promises_left finds an environment's promises whose evaluation was interrupted.
// It makes them anew if R's API can (4.6), else it gives their names. Raises R errors.
SEXP ffi_promises_left(SEXP stay, SEXP others);
// own.c. ffi_own_look drops hashes of variables that have other values now. ffi_worker_holds tells
// whether a global variable's value has this hash (ffi_content).
void ffi_own_look(void);
SEXP ffi_worker_holds(SEXP name, SEXP hash);
// conditions.c. ffi_conditions_forget drops all. ffi_conditions_add makes the content of an answer:
// list(value, tag), then a list of the call's conditions if it has signalled any, then, if there
// were too many, the environment that describes the dropped ones. The caller protects both, and the
// result. ffi_conditions_packages: the first in that list is this character vector, of packages
// that the value needs.
void ffi_conditions_forget(void);
void ffi_conditions_packages(SEXP packages);
SEXP ffi_conditions_add(SEXP value, SEXP tag);
// classes.c. ffi_classes_of gives the classes in a value other than R's own, as
// ffi_class_packages() does. Allocates.
SEXP ffi_classes_of(SEXP value);
SEXP ffi_worker_condition(SEXP condition, SEXP bytes);
SEXP ffi_worker_is_task(void);
SEXP ffi_worker_say(SEXP value);
SEXP ffi_warm_pair(void);
SEXP ffi_warm_feed(SEXP fd, SEXP messages);
SEXP ffi_server_begin(void);
SEXP ffi_server_run(SEXP session, SEXP temp_dir, SEXP idle_ms);
SEXP ffi_server_say(SEXP kind, SEXP text);
SEXP ffi_map_elements(SEXP frame, SEXP values, SEXP at, SEXP last, SEXP seed,
                      SEXP call, SEXP clock);
SEXP ffi_rebind(SEXP env, SEXP name, SEXP value);
SEXP ffi_rand_seed(void);
// blocks.c
SEXP ffi_block_write(SEXP blocks, SEXP rows, SEXP want, SEXP memory, SEXP path);
SEXP ffi_block_split(SEXP x, SEXP order, SEXP begin, SEXP runs, SEXP want,
                     SEXP memory, SEXP path);
SEXP ffi_block_fetch(SEXP sources);
SEXP ffi_blocks_bind(SEXP sources, SEXP index);
SEXP ffi_block_read(SEXP want, SEXP index);
SEXP ffi_levels_number(SEXP levels);
SEXP ffi_block_levels(SEXP want, SEXP number);
SEXP ffi_block_drop(SEXP want);
SEXP ffi_block_held(void);
SEXP ffi_part_read(SEXP want);
// parts.c
SEXP ffi_part_weight(SEXP x);
SEXP ffi_memory_return(void);
SEXP ffi_heap_widen(SEXP bytes);
// exchange.c
SEXP ffi_links_set(SEXP numbers, SEXP limits);
SEXP ffi_links_know(SEXP numbers, SEXP folder, SEXP token);
SEXP ffi_links_listen(SEXP folder, SEXP count);
SEXP ffi_links_count(void);
SEXP ffi_worker_self(void);

#endif
