// mst_entropy: bytes that nobody can guess. No R: its random numbers are the user's.
#ifndef MST_ENTROPY_H
#define MST_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"

// mst_entropy_take fills in n bytes, at most 256. Any thread; doesn't block once the system is up.
// 0, -MST_ESYS.
int mst_entropy_take(uint8_t *bytes, size_t n, struct mst_err *err);

#endif
