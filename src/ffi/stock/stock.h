// stock: R's own workers, for R: listeners, connections, processes.
//
// Three kinds of external pointers: a listener, a connection, a process. Each belongs to the
// process that made it; in a copy or a forked child it is of no use.
#ifndef MST_FFI_STOCK_H
#define MST_FFI_STOCK_H

#include "ffi/session/session.h"
#include "share/segment.h"

// ---- stock.c: listeners and links

SEXP ffi_stock_listen(SEXP host, SEXP ports);
SEXP ffi_stock_poll(SEXP listener, SEXP links, SEXP processes, SEXP timeout_s);
SEXP ffi_stock_send(SEXP conn, SEXP data, SEXP xdr, SEXP process);
SEXP ffi_stock_receive(SEXP conn, SEXP process);
SEXP ffi_stock_word(void);
SEXP ffi_stock_prove(SEXP conn, SEXP words);
SEXP ffi_stock_state(SEXP conn);
SEXP ffi_stock_nodelay(SEXP conn, SEXP on);
SEXP ffi_stock_close(SEXP pointer);

// ---- stock_process.c: processes that this session has launched

struct stock_process {
  struct stock_process *next;
  pid_t pid, owner;
  int output; // read end of the pipe for descriptors 1 and 2, -1 once it has ended
  int worker;   // its number, for what it prints
  uint32_t how; // enum mst_exit, NONE while it runs
  int32_t number;
  int forgotten; // no pointer refers to it
  int ended;     // its session has
  int told;      // its worker is there, so it hands its job to nobody
  struct mst_segment input; // what it reads, until ffi_stock_told()
  struct mst_tail tail;
  size_t line_length;
  char line[1024]; // what it printed of a line so far
};

// ffi_stock_process_of gives the process behind a pointer, NULL if it isn't this
// process's.
struct stock_process *ffi_stock_process_of(SEXP pointer);
// ffi_stock_attend reads what it printed, shows whole lines if asked to, and reaps it.
void ffi_stock_attend(struct stock_process *process, int to_show);
// ffi_stock_end_line shows what it printed of a line so far.
void ffi_stock_end_line(struct stock_process *process);

SEXP ffi_stock_spawn(SEXP file, SEXP argv, SEXP env, SEXP worker, SEXP input);
SEXP ffi_stock_told(SEXP process);
SEXP ffi_stock_hang_up(SEXP process);
SEXP ffi_stock_process(SEXP process);
SEXP ffi_stock_kill(SEXP process, SEXP signal);
SEXP ffi_stock_end(SEXP timeout_s);

#endif
