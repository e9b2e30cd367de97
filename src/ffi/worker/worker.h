// worker: what runs in workers and in fork servers.
#ifndef MST_FFI_WORKER_H
#define MST_FFI_WORKER_H

#include "ffi/value/value.h"
#include "wire/wire.h"

// ---- track.c: runs in workers

// ffi_track_begin notes what this worker is; later calls note it anew. Raises R
// errors.
void ffi_track_begin(void);
// ffi_track_changed tells what changed since it was last asked: MST_FLAG_STATE,
// RNG, SEED (then *seed is filled). 0 before ffi_track_begin. Raises R
// errors.
uint16_t ffi_track_changed(struct mst_seed *seed);
void ffi_track_set_seed(const struct mst_seed *seed);
// ffi_track_hold: from now on values that are large are held (all), so that changes of them are
// seen and can be undone; or not, so that R may change them in place. Between two calls.
// ffi_track_let_go tells whether there are some that aren't held.
void ffi_track_hold(int all);
int ffi_track_let_go(void);

// ---- entry points

SEXP ffi_worker_begin(SEXP forked, SEXP session);
SEXP ffi_worker_setup(void);
SEXP ffi_worker_ready(SEXP tempdir);
SEXP ffi_worker_failed(SEXP text);
SEXP ffi_worker_serve(SEXP enclosure);
SEXP ffi_worker_taken(void);
// jobs.c
// ffi_job_of_frame gives list(number, bytes, segment) of a JOB; map: its segment, NULL if it has
// none or that couldn't be mapped. The caller protects it.
SEXP ffi_job_of_frame(const struct mst_frame *frame, struct mst_map *map);
SEXP ffi_job_read(SEXP bytes, SEXP pointer);
SEXP ffi_job_forget(SEXP pointer);
SEXP ffi_worker_answer_error(SEXP value);
SEXP ffi_worker_track(void);
// ffi_worker_frames gives, for each environment that is looked at, what isn't what it was when the
// call began that is evaluated: NULL if nothing, else list(frame, had: names that were there,
// changed: those to be put back, values), the global one first. .Random.seed isn't looked at.
// NULL before ffi_worker_track.
SEXP ffi_worker_frames(void);
// ffi_worker_before gives list(options, search: environments, directory, seed) as they were then,
// and frames: a list of the environments that are looked at, and NULLs.
SEXP ffi_worker_before(void);
// interrupt.c. ffi_worker_open lets the call that is evaluated be interrupted from now on, or
// leaves it at once if it is cancelled; ffi_worker_shut ends that, and gives TRUE if an interrupt
// was sent, which may still come (R/worker-interrupt.R).
SEXP ffi_worker_open(void);
SEXP ffi_worker_shut(void);
// ffi_interrupt_end ends the call. If it was interrupted (*raised), what it changed is undone, as
// far as changes are seen: nobody reads its answer, and the session doesn't know how far it came.
// 0 if something of it stays, or may: then this worker must end, since it isn't what its journal
// says.
int ffi_interrupt_end(int *raised, uint16_t *changed, struct mst_seed *seed);
// promises.c. ffi_promises_left looks at an environment's promises whose evaluation was left in the
// middle. It makes them anew where R's API allows that (4.6), else it gives their names. Raises R
// errors.
SEXP ffi_promises_left(SEXP env);
// own.c. ffi_own_look lets go of hashes of variables that are bound to other values by now.
// ffi_worker_holds tells whether a global variable holds what has this hash (ffi_content).
void ffi_own_look(void);
SEXP ffi_worker_holds(SEXP name, SEXP hash);
// conditions.c. ffi_conditions_forget begins anew: nothing is kept. ffi_conditions_add makes the
// content of an answer: list(value, tag), then a list of the call's conditions if it has signalled
// some, then the environment of those past the bound if there were too many. The caller protects
// both, and the result.
void ffi_conditions_forget(void);
SEXP ffi_conditions_add(SEXP value, SEXP tag);
SEXP ffi_worker_condition(SEXP condition, SEXP bytes);
SEXP ffi_worker_is_task(void);
SEXP ffi_worker_say(SEXP value);
SEXP ffi_warm_pair(void);
SEXP ffi_warm_feed(SEXP fd, SEXP messages);
SEXP ffi_server_begin(void);
SEXP ffi_server_run(SEXP session, SEXP temp_dir);
SEXP ffi_server_say(SEXP kind, SEXP text);
SEXP ffi_map_elements(SEXP frame, SEXP values, SEXP at, SEXP seed);
SEXP ffi_rebind(SEXP env, SEXP name, SEXP value);
SEXP ffi_rand_seed(void);
// blocks.c, exchange.c
SEXP ffi_block_write(SEXP blocks, SEXP rows, SEXP want, SEXP memory, SEXP path);
SEXP ffi_block_fetch(SEXP sources);
SEXP ffi_block_read(SEXP want, SEXP index);
SEXP ffi_block_drop(SEXP want);
SEXP ffi_links_set(SEXP numbers, SEXP limits);
SEXP ffi_links_know(SEXP numbers, SEXP folder, SEXP token);
SEXP ffi_links_listen(SEXP folder, SEXP count);
SEXP ffi_links_count(void);
SEXP ffi_worker_self(void);

#endif
