// store: files that must be complete on the disk, or an error, and parts of files. No R, no state.
#ifndef MST_SHARE_STORE_H
#define MST_SHARE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"

// mst_store_write makes a new file at `path` with these n bytes, and returns once the disk has
// them. Any thread; blocks while writing; no locks. Returns 0, or -MST_ESYS with err's call and
// sys_errno. On failure it removes what it wrote, but never a file that existed before (EEXIST).
int mst_store_write(const char *path, const void *bytes, size_t n,
                    struct mst_err *err);

// mst_store_add puts n bytes at the end of a file that mst_store_write has made; call
// mst_store_sync after the last. As mst_store_write, but the disk may not have the bytes yet.
int mst_store_add(const char *path, const void *bytes, size_t n,
                  struct mst_err *err);

// mst_store_sync returns once the disk has the current contents of a file, or of a folder's list of
// names. Any thread; blocks while writing; no locks. Returns 0, or -MST_ESYS as above. A file
// system that can't sync folders (EINVAL) isn't an error.
int mst_store_sync(const char *path, struct mst_err *err);

// mst_store_read reads n bytes of a file from offset `from` on. Any thread; blocks while reading;
// no locks. Returns how many there were, or -MST_ESYS as above.
int64_t mst_store_read(const char *path, int64_t from, void *bytes, size_t n,
                       struct mst_err *err);

#endif
