// store: files that somebody relies on: whole on the disk, or an error. No R, no state.
#ifndef MST_SHARE_STORE_H
#define MST_SHARE_STORE_H

#include <stddef.h>

#include "base/mst_err.h"

// mst_store_write makes a file at `path` that nobody has yet, with these n bytes, and returns once
// the disk has them. Any thread; blocks for the time of writing; no locks. Returns 0, or
// -MST_ESYS with err's call and sys_errno; what was written by then is removed, except that a file
// which was there before (EEXIST) is left alone.
int mst_store_write(const char *path, const void *bytes, size_t n,
                    struct mst_err *err);

// mst_store_sync returns once the disk has what a file, or a folder's list of names, is now. Any
// thread; blocks for the time of writing; no locks. Returns 0, or -MST_ESYS as above. A file
// system that can't do it for folders (EINVAL) is no error.
int mst_store_sync(const char *path, struct mst_err *err);

#endif
