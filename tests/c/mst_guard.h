// mst_guard: memory that ends at a page which must not be touched, so that one
// byte read past the end of an input is a crash, with or without a sanitizer.
#ifndef MST_GUARD_H
#define MST_GUARD_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct mst_guard {
  uint8_t *map;     // start of the mapping, NULL while closed
  size_t map_bytes; // all of it, with the guard page
  uint8_t *end;     // the guard page; inputs end here
  size_t room;      // bytes in front of it
};

// mst_guard_open maps room for inputs of at least `room` bytes. 0, or -1 with
// errno set.
static inline int mst_guard_open(struct mst_guard *guard, size_t room) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t pages = (room + page - 1) / page;
  const size_t map_bytes = (pages + 1) * page;
  uint8_t *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return -1;
  if (mprotect(map + pages * page, page, PROT_NONE) != 0) {
    (void)munmap(map, map_bytes);
    return -1;
  }
  *guard = (struct mst_guard){map, map_bytes, map + pages * page, pages * page};
  return 0;
}

// mst_guard_place copies n bytes to where their end is the guard page and gives
// their address, good until the next call. It is a mistake of the test, and
// ends it, if there is no room.
static inline uint8_t *mst_guard_place(struct mst_guard *guard,
                                       const void *bytes, size_t n) {
  if (n > guard->room) __builtin_trap();
  if (n > 0) memmove(guard->end - n, bytes, n);
  return guard->end - n;
}

static inline void mst_guard_close(struct mst_guard *guard) {
  if (guard->map != NULL) (void)munmap(guard->map, guard->map_bytes);
  *guard = (struct mst_guard){0};
}

#endif
