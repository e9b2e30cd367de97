// stock: R's own workers, for R: listeners, connections, processes.
//
// Three kinds of external pointers: a listener, a connection, a process. Each works only in the
// process that made it, not in a copy or a forked child.
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

// ---- process.c: processes launched by this session

struct stock_process {
  struct stock_process *next;
  pid_t pid, owner;
  int output; // read end of the pipe for descriptors 1 and 2, -1 once it has ended
  int worker;   // its number, to label its output
  uint32_t how; // enum mst_exit, NONE while it runs
  int32_t number;
  int forgotten;            // its pointer is gone
  int ended;                // its session has ended
  int told;                 // its worker has come, so it won't hand its job on
  struct mst_segment input; // its standard input, until ffi_stock_told()
  struct mst_tail tail;
  size_t line_length;
  char line[1024]; // the unfinished line of its output
};

// ffi_stock_process_of gives the process of a pointer, NULL if that belongs to another process.
struct stock_process *ffi_stock_process_of(SEXP pointer);
// ffi_stock_attend reads its output, shows whole lines if asked to, and reaps it.
void ffi_stock_attend(struct stock_process *process, int to_show);
// ffi_stock_end_line shows the unfinished line of its output.
void ffi_stock_end_line(struct stock_process *process);

SEXP ffi_stock_spawn(SEXP file, SEXP argv, SEXP env, SEXP worker, SEXP input);
SEXP ffi_stock_told(SEXP process);
SEXP ffi_stock_hang_up(SEXP process);
SEXP ffi_stock_process(SEXP process);
SEXP ffi_stock_kill(SEXP process, SEXP signal);
SEXP ffi_stock_end(SEXP timeout_s);

#endif
