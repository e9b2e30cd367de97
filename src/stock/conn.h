// conn: a connection to one of R's own workers. Sends and receives whole messages.
//
// Nothing here waits: the caller polls `fd` and calls again. Anything an interrupt leaves half
// done, received or sent, goes on with the next call. R thread.
#ifndef MST_STOCK_CONN_H
#define MST_STOCK_CONN_H

#include <poll.h>
#include <sys/types.h>

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "stock/parse.h"

struct mst_stock_conn {
  int fd;            // -1 once closed; owned
  pid_t owner;       // the process that may use it
  struct mst_buf in; // received, not yet taken
  int proved;        // it has given its word (stock/word.h)
  size_t word;       // offset of its word in `in`, 0 until it has come
  struct mst_stock_parse scan;
  size_t whole;       // size of the first message in `in`, 0 if incomplete
  struct mst_buf out; // to be sent
  size_t sent;        // bytes of `out` already sent
  int ended;          // -MST_E* once nothing more can come
};

// mst_stock_conn_init takes over a connected descriptor. Its peer isn't proved yet.
void mst_stock_conn_init(struct mst_stock_conn *conn, int fd, pid_t owner);

// mst_stock_conn_fill reads what is there, until a message is complete. 1: it is; 0: not yet.
// -MST_ECLOSED, -MST_ESYS, -MST_EPROTO, -MST_ELIMIT, -MST_EMEM: nothing more will come.
// From a peer that isn't proved it reads at most a few kilobytes, only looks for a word in them,
// and returns 1 once it has found one, right or wrong.
int mst_stock_conn_fill(struct mst_stock_conn *conn);

// mst_stock_conn_prove compares the peer's word with the right one, of MST_STOCK_WORD_BYTES. 1: it
// is proved, from now on messages are read. 0: it isn't.
int mst_stock_conn_prove(struct mst_stock_conn *conn, const char *word);

// mst_stock_conn_flush sends `out`. 1: all; 0: the rest doesn't fit now; errors as above.
int mst_stock_conn_flush(struct mst_stock_conn *conn);

// mst_stock_conn_take drops the first message, which must be complete. mst_stock_conn_detach gives
// its bytes to the caller, who frees them. 1, or -MST_EMEM, and it stays.
void mst_stock_conn_take(struct mst_stock_conn *conn);
int mst_stock_conn_detach(struct mst_stock_conn *conn, struct mst_buf *bytes);

// mst_stock_conn_events gives the events for poll().
short mst_stock_conn_events(const struct mst_stock_conn *conn);

void mst_stock_conn_close(struct mst_stock_conn *conn);

#endif
