// memory: how much memory is still available, according to the system. No R, no state; any thread.
// Reads a few small files; blocks no longer than that.
#ifndef MST_SHARE_MEMORY_H
#define MST_SHARE_MEMORY_H

#include <stdint.h>

// A result of mst_memory_look.
struct mst_memory {
  int64_t bytes;     // free, at least 0; INT64_MAX if unknown
  uint8_t is_cgroup; // the limit comes from a control group
};

// mst_memory_look takes the minimum of what is available in the whole system (MemAvailable) and
// below the limit of each control group from the process's own up to the root of its hierarchy, v1
// and v2. File pages that a group could drop count as free. proc and sys: where procfs and the
// control groups are mounted, "/proc" and "/sys/fs/cgroup". Never fails: a file that can't be read
// sets no limit.
void mst_memory_look(const char *proc, const char *sys,
                     struct mst_memory *memory);

// The number of memory mappings of this process, and the limit (Linux: vm.max_map_count). -1 if
// unknown.
struct mst_mappings {
  int64_t count, limit;
};

// mst_room_mappings counts the lines of /proc/self/maps and reads the limit. Takes 10 ms for 65,530
// mappings. Allocates nothing: it is called after mmap() has failed.
void mst_room_mappings(const char *proc, struct mst_mappings *now);

#endif
