// mst_err: one error record for the whole core.
//
// Core functions return 0 (or a count) on success and a negative MST_E* code on
// failure; the record says the rest. ffi/ turns it into an R condition. Nothing
// here allocates, blocks or knows R; any thread may use its own record.
#ifndef MST_ERR_H
#define MST_ERR_H

enum mst_code {
  MST_OK = 0,
  MST_EINPUT,   // the caller's argument is wrong
  MST_ESYS,     // a system call failed; sys_errno says why
  MST_EPROTO,   // the peer sent bytes that aren't a valid message
  MST_ELIMIT,   // a named limit would be exceeded
  MST_EMEM,     // no memory
  MST_ECLOSED,  // the peer is gone
  MST_ETIMEOUT, // the deadline passed
  MST_EAGAIN,   // would block: not an error, try when ready
  MST_ECONNECT  // couldn't connect; sys_errno says why
};

#define MST_ERR_TEXT_MAX 320

struct mst_err {
  int code;                    // enum mst_code, positive
  int sys_errno;               // errno of the failed call, 0 if none
  int worker;                  // index from 0, -1 if none
  char call[24];               // failed call, as in "sendmsg"
  char text[MST_ERR_TEXT_MAX]; // one sentence, UTF-8, cut if longer
};

// mst_err_clear makes the record say "no error". err may be NULL.
void mst_err_clear(struct mst_err *err);

// mst_err_set fills the record and returns -code, so that a function can say
// `return mst_err_set(...)`. err may be NULL: then only the code is returned.
// call may be NULL. errno is not changed.
int mst_err_set(struct mst_err *err, enum mst_code code, int sys_errno,
                const char *call, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

// mst_err_is_shortage tells whether an errno means that this process, its user or the system has
// run out of something for now: processes (EAGAIN of fork), memory, buffers, descriptors, also
// those in flight in sockets (ETOOMANYREFS). Not for calls whose EAGAIN means "would block": net
// turns that into -MST_EAGAIN.
int mst_err_is_shortage(int sys_errno);

#endif
