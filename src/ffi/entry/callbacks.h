// ffi/entry/callbacks: the R functions of muster that C calls. Their contracts are here, their
// names in r.c; R/ has the functions.
//
// An error that one raises, or an interrupt, leaves the C code that called it by R's long jump:
// hold nothing that R doesn't know of, as for any call of R. Those that never raise catch their
// errors, not an interrupt.
#ifndef MST_FFI_CALLBACKS_H
#define MST_FFI_CALLBACKS_H

#include "ffi/ffi.h"

enum ffi_callback {
  // ---- Errors: they don't return

  // abort_memory(double(6)): muster_error_memory, for a message that doesn't fit. Bytes wanted;
  // free; 1 if a control group's limit leaves so few; 1 if the message came from another process;
  // memory mappings of this process; how many it may have, negative if unknown.
  FFI_ABORT_MEMORY,
  // abort_descriptors(bytes): muster_error_limit, for a message whose shared memory came without
  // its descriptor.
  FFI_ABORT_DESCRIPTORS,
  // abort_attached(name): muster_error_input, for a function of an attached environment that would
  // find another variable of this name in a worker.
  FFI_ABORT_ATTACHED,

  // ---- Sending

  // load_dev(name): loads a package that the session has by load_all(), unless it is loaded. Both.
  FFI_LOAD_DEV,
  // context_now(): the options, directory, variables and locale that travel, as a list.
  FFI_CONTEXT_NOW,
  // broadcast_frame(): the frame of the clusterCall() that is sending, or NULL. It counts frames,
  // so only a method of sendData() may be in between.
  FFI_BROADCAST_FRAME,
  // active_frames(): the frames that R is in, as a pairlist, outermost first; NULL at the prompt.
  FFI_ACTIVE_FRAMES,
  // note_stream(list(node, stream)): a worker was given a random stream by clusterSetRNGStream().
  FFI_NOTE_STREAM,
  // note_export(list(node, arguments, number of the message, is it large)): a worker was given
  // variables by clusterExport().
  FFI_NOTE_EXPORT,
  // note_frames(function): a message, once, if the frame that a task's function carries is large.
  FFI_NOTE_FRAMES,
  // copy_attached(environment): a copy below the global environment, with its own functions in it.
  FFI_COPY_ATTACHED,
  // bytes_in(list(x)): object.size(x), as a double.
  FFI_BYTES_IN,
  // values_of_dots(environment): the values of its `...`, as a list; NULL if one can't be
  // evaluated. Never raises.
  FFI_VALUES_OF_DOTS,
  // settle(list(symbol, environment)): evaluates a promise; FALSE if it fails. Never raises.
  FFI_SETTLE,

  // ---- While a call waits

  // announce_events(): tells the user what has happened to workers, and takes it off the list. A
  // handler of its messages may use clusters, or leave.
  FFI_ANNOUNCE_EVENTS,
  // tend_hosts(): does what sites need: asks for hosts, has fork servers boot. May be called again
  // while it is at work. May raise why a cluster has no workers.
  FFI_TEND_HOSTS,
  // output_is_sunk(): whether something catches what this session prints.
  FFI_OUTPUT_IS_SUNK,
  // verb_waits(): shows how far a verb of parallel's is. verb_is_over(): takes that away.
  FFI_VERB_WAITS,
  FFI_VERB_IS_OVER,
  // note_drawn(): a task without a seed has drawn random numbers.
  FFI_NOTE_DRAWN,

  // ---- In a worker

  // clear_globals(): empties the workspace that a worker begins with.
  FFI_CLEAR_GLOBALS,
  // job_keep(list(number, bytes, segment or nothing)): keeps a job for the tasks that name it.
  // job_drop(number): forgets it. Both outside of any call.
  FFI_JOB_KEEP,
  FFI_JOB_DROP,
  // context_enter(number): enters the context of this job; whether it differs from the worker's
  // own. context_again() enters the same again, context_leave() leaves it and never raises.
  // Undisturbed by interrupts.
  FFI_CONTEXT_ENTER,
  FFI_CONTEXT_AGAIN,
  FFI_CONTEXT_LEAVE,
  // put_away(list): closes what a task has left open, and puts back what it has changed. The list
  // tells what was there before. Never raises.
  FFI_PUT_AWAY,
  // packages_of_value(classes): the packages that these classes need. Never raises.
  FFI_PACKAGES_OF_VALUE,
  // eat_interrupt(): takes an interrupt that is still on its way to a call that has ended.
  FFI_EAT_INTERRUPT,
  // undo_call(): puts back what an interrupted call has changed; FALSE if it can't. Eats its
  // interrupt, too.
  FFI_UNDO_CALL,
  // say_torn(): prints that this worker restarts, since it can't.
  FFI_SAY_TORN,
  // pause_threads(): ends threads of packages before a fork; resume_threads() starts them again.
  // take_place(): the copy takes the worker's place: it starts them too, and forgets jobs and
  // parts.
  FFI_PAUSE_THREADS,
  FFI_RESUME_THREADS,
  FFI_TAKE_PLACE,

  FFI_CALLBACKS
};

// ffi_call_ours calls one with one argument, or none if it is NULL. Raises its errors.
SEXP ffi_call_ours(enum ffi_callback callback, SEXP argument);

#endif
