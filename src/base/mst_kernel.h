// mst_kernel: what the kernel tells in small text files, of processes, memory and control groups.
// Nothing here allocates or knows R; any thread. Blocks no longer than reading such a file does.
#ifndef MST_KERNEL_H
#define MST_KERNEL_H

#include <stddef.h>
#include <stdint.h>

// mst_kernel_read gives the first cap - 1 bytes of a file at most, and ends them with NUL. How
// many, 0 if there is nothing to read.
size_t mst_kernel_read(const char *path, char *text, size_t cap);

// mst_kernel_number reads a whole number at the start of a text, mst_kernel_field the one behind
// "name " or "name:" at a line's start. -1 if there is none ("max", "-1") or it is larger than
// any memory: control groups of v1 say "no limit" by one close to 2^63.
int64_t mst_kernel_number(const char *text);
int64_t mst_kernel_field(const char *text, const char *name);

// mst_kernel_group finds the next control group of this process that may limit its memory in
// *rest, the text of /proc/self/cgroup at first: its version, 1 or 2, and its path in *path; 0 if
// there are no more. It writes into the text.
int mst_kernel_group(char **rest, const char **path);

#endif
