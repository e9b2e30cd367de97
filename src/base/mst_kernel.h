// mst_kernel: the kernel's small text files on processes, memory and control groups. Nothing here
// allocates or knows R; any thread. Blocks only while it reads such a file.
#ifndef MST_KERNEL_H
#define MST_KERNEL_H

#include <stddef.h>
#include <stdint.h>

// mst_kernel_read reads at most the first cap - 1 bytes of a file and adds a NUL. Returns the
// number of bytes, 0 if there is nothing to read.
size_t mst_kernel_read(const char *path, char *text, size_t cap);

// mst_kernel_number reads a whole number at the start of a text, mst_kernel_field the one after
// "name " or "name:" at a line's start. -1 if there is no number ("max", "-1") or if it exceeds any
// memory: control groups of v1 write "no limit" as a number close to 2^63.
int64_t mst_kernel_number(const char *text);
int64_t mst_kernel_field(const char *text, const char *name);

// mst_kernel_group finds the next control group of this process that may limit its memory. *rest is
// the text of /proc/self/cgroup at first; the call writes into the text and moves *rest on. Returns
// the group's version, 1 or 2, with its path in *path; 0 if there are no more.
int mst_kernel_group(char **rest, const char **path);

#endif
