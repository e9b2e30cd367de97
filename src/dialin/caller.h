// The host's side of a dial-in on a socket: dials, proves the key, asks, until it is admitted. One
// thread; waits. No R.
#ifndef MST_DIALIN_CALLER_H
#define MST_DIALIN_CALLER_H

#include "dialin/dialin.h"
#include "net/addr.h"
#include "secure/psk.h"

#define MST_CALLER_WHY_MAX 80

struct mst_caller {
  // filled in by whoever calls mst_caller_open
  struct mst_addr addrs[MST_ADDRS_MAX]; // taken in turn
  size_t count;
  struct mst_psk key;
  uint32_t cluster;
  // its own
  struct mst_dialer dialer;
  int fd; // -1: none
  struct mst_secure *secure;
  uint8_t asked; // DIAL was sent
  uint8_t bytes[MST_HEAD_BYTES + 4 + MST_CALLER_WHY_MAX];
  size_t got;
  char why[MST_TEXT_MAX + 1]; // it was refused
  struct mst_err last;        // why the last connection ended
};

// mst_caller_open begins; it gives up at give_up_ns. -MST_ESYS: no random numbers.
int mst_caller_open(struct mst_caller *caller, int64_t give_up_ns,
                    struct mst_err *err);
// mst_caller_run goes on until it is admitted: 0, and fd and secure are the connection. -MST_EAGAIN
// at until_ns, or after a signal: call it again. -MST_ETIMEOUT: given up, err tells the last
// failure; -MST_EPROTO: refused, err says why.
int mst_caller_run(struct mst_caller *caller, int64_t until_ns,
                   struct mst_err *err);
// mst_caller_again: what it was given, or has, has ended before the session said more, so nobody
// knows whether it was admitted: another connection is dialled.
void mst_caller_again(struct mst_caller *caller);
// mst_caller_give hands the connection over; mst_caller_close closes what there is, and
// overwrites the key.
void mst_caller_give(struct mst_caller *caller, int *fd,
                     struct mst_secure **secure);
void mst_caller_close(struct mst_caller *caller);

#endif
