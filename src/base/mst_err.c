// The error record: fill, clear. See mst_err.h.
#include "base/mst_err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void mst_err_clear(struct mst_err *err) {
  if (err == NULL) return;
  memset(err, 0, sizeof *err);
  err->worker = -1;
}

int mst_err_set(struct mst_err *err, enum mst_code code, int sys_errno,
                const char *call, const char *format, ...) {
  const int errno_kept = errno;
  if (err != NULL) {
    mst_err_clear(err);
    err->code = (int)code;
    err->sys_errno = sys_errno;
    if (call != NULL) {
      strncpy(err->call, call, sizeof err->call - 1);
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
  }
  errno = errno_kept;
  return -(int)code;
}

int mst_err_is_shortage(int sys_errno) {
  return sys_errno == EAGAIN || sys_errno == ENOMEM || sys_errno == ENOBUFS ||
         sys_errno == EMFILE || sys_errno == ENFILE ||
         sys_errno == ETOOMANYREFS;
}
