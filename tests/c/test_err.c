// Tests of base/mst_err: the error record.
#include <errno.h>
#include <string.h>

#include "base/mst_err.h"
#include "mst_test.h"

TEST("Setting an error returns its negative code and fills the record") {
  struct mst_err err;
  memset(&err, 0xFF, sizeof err);
  const int rc = mst_err_set(&err, MST_ESYS, ECONNREFUSED, "connect",
                             "can't reach %s:%d", "node07", 11562);
  CHECK_INT(rc, -MST_ESYS);
  CHECK_INT(err.code, MST_ESYS);
  CHECK_INT(err.sys_errno, ECONNREFUSED);
  CHECK_INT(err.worker, -1);
  CHECK_TEXT(err.call, "connect");
  CHECK_TEXT(err.text, "can't reach node07:11562");
}

TEST("A cleared record says that there is no error and no worker") {
  struct mst_err err;
  (void)mst_err_set(&err, MST_EPROTO, 0, "recv", "bytes of another protocol");
  err.worker = 5;
  mst_err_clear(&err);
  CHECK_INT(err.code, MST_OK);
  CHECK_INT(err.sys_errno, 0);
  CHECK_INT(err.worker, -1);
  CHECK_TEXT(err.call, "");
  CHECK_TEXT(err.text, "");
}

TEST("Without a record only the code is returned") {
  mst_err_clear(NULL);
  CHECK_INT(mst_err_set(NULL, MST_ETIMEOUT, 0, NULL, "%d", 1), -MST_ETIMEOUT);
}

TEST("Without a call the record's call is empty") {
  struct mst_err err;
  (void)mst_err_set(&err, MST_EINPUT, 0, NULL, "workers must be positive");
  CHECK_TEXT(err.call, "");
}

TEST("Setting an error leaves errno as it was") {
  struct mst_err err;
  errno = EPIPE;
  (void)mst_err_set(&err, MST_ECLOSED, EPIPE, "send", "%s", "gone");
  CHECK_INT(errno, EPIPE);
}

TEST("A text or call that is too long is cut and still ends with NUL") {
  char longer[2 * MST_ERR_TEXT_MAX];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  struct mst_err err;
  (void)mst_err_set(&err, MST_ELIMIT, 0, longer, "%s", longer);
  CHECK_INT(strlen(err.text), MST_ERR_TEXT_MAX - 1);
  CHECK_INT(strlen(err.call), sizeof err.call - 1);
}

TEST("A second error replaces all of the first") {
  struct mst_err err;
  (void)mst_err_set(&err, MST_ESYS, ENOENT, "open_by_handle_at", "%s",
                    "a long first sentence");
  (void)mst_err_set(&err, MST_EMEM, 0, "read", "%s", "short");
  CHECK_INT(err.code, MST_EMEM);
  CHECK_INT(err.sys_errno, 0);
  CHECK_TEXT(err.call, "read");
  CHECK_TEXT(err.text, "short");
}
