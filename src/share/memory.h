// memory: how much memory may still be taken, by what the system says. No R, no state;
// any thread. Reads a few small files; blocks no longer than that.
#ifndef MST_SHARE_MEMORY_H
#define MST_SHARE_MEMORY_H

#include <stdint.h>

// What a look at the memory gives.
struct mst_memory {
  int64_t bytes;     // free, at least 0; INT64_MAX where nothing tells
  uint8_t is_cgroup; // a control group's limit is what leaves so little
};

// mst_memory_look takes the least of what is available in the whole system
// (MemAvailable) and below the limit of each control group from the process's own up
// to the root of its hierarchy, v1 and v2. Pages of files that a group could drop count as
// free. proc and sys: where procfs and the control groups are mounted, "/proc" and
// "/sys/fs/cgroup". Never fails: what can't be read sets no limit.
void mst_memory_look(const char *proc, const char *sys,
                     struct mst_memory *memory);

// How many memory mappings this process has, and how many it may have (Linux:
// vm.max_map_count). -1 where the system doesn't tell.
struct mst_mappings {
  int64_t count, limit;
};

// mst_room_mappings counts the lines of /proc/self/maps and reads the limit. Takes
// 10 ms for 65,530 mappings. Allocates nothing: it is asked when mmap() has failed.
void mst_room_mappings(const char *proc, struct mst_mappings *now);

#endif
