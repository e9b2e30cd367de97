// dialin/intake: a thread that listens for hosts, has them prove the key, and admits those that are
// expected, whatever R does meanwhile: a queue that nobody serves is what connections are lost in.
// No R.
#ifndef MST_DIALIN_INTAKE_H
#define MST_DIALIN_INTAKE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "secure/psk.h"

struct mst_intake;

struct mst_intake_config {
  const int *listeners; // net/stream.h. Taken over
  size_t count;
  struct mst_psk key;
  uint32_t cluster; // which hosts have to name
  uint32_t places;  // how many hosts are expected
};

// mst_intake_open starts the thread. 0; -MST_EMEM, -MST_ESYS: then nothing is taken over.
int mst_intake_open(const struct mst_intake_config *config,
                    struct mst_intake **out, struct mst_err *err);
// mst_intake_fd gives a descriptor that can be read when mst_intake_take has something: 1, and the
// connection, which is the caller's from now on, and its place; 0: nobody has come.
int mst_intake_fd(const struct mst_intake *intake);
int mst_intake_take(struct mst_intake *intake, int *fd,
                    struct mst_secure **secure, uint32_t *place);
// mst_intake_expect: the host that took this place is gone, and another one may come.
void mst_intake_expect(struct mst_intake *intake, uint32_t place);
// mst_intake_close ends the thread, within milliseconds, and closes what it has. NULL is allowed.
// Only in the process that opened it.
void mst_intake_close(struct mst_intake *intake);

#endif
