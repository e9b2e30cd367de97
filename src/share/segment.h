// share: memory that processes of one machine have in common. No R; any thread.
//
// A segment is a memfd (memfd_create(2)): its writer fills it by write(2), which is
// more than twice as quick as through a mapping of its own, and seals it. From then on
// nobody can change or shrink it, so a reader's mapping can't be pulled away from under
// it (SIGBUS). Descriptors travel with a frame (chan.h). The kernel frees the memory with
// the last descriptor and the last mapping, however their processes end.
#ifndef MST_SHARE_SEGMENT_H
#define MST_SHARE_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"

// What a segment holds begins at multiples of this: a cache line, and more than any
// type of R's wants.
#define MST_SEGMENT_ALIGN 64u

#define MST_SEGMENTS_MAX 256

struct mst_segment {
  int fd;         // -1 if there is none
  uint64_t bytes; // written so far
};
#define MST_SEGMENT_NONE ((struct mst_segment){.fd = -1})

// mst_segment_open makes an empty segment of which `bytes` are to be written, its
// descriptor close-on-exec and above 1023. The caller closes it. -MST_ESYS where this
// can't be: the system has none (ENOSYS, EPERM: macOS, old kernels, seccomp), no more
// descriptors (EMFILE, ENFILE), or a limit on the size of files (EFBIG). EMFILE also if
// this process has MST_SEGMENTS_MAX open, or an eighth of the descriptors that it may
// have: calls that wait hold theirs, and must not take all.
int mst_segment_open(struct mst_segment *segment, uint64_t bytes,
                     struct mst_err *err);
// mst_segment_align moves the end to the next multiple of MST_SEGMENT_ALIGN.
void mst_segment_align(struct mst_segment *segment);
// mst_segment_append writes n bytes to the end. Blocks as long as copying takes.
// -MST_EMEM if the system has no memory for them, -MST_ESYS.
int mst_segment_append(struct mst_segment *segment, const void *bytes, size_t n,
                       struct mst_err *err);
// mst_segment_seal ends the writing; the size is rounded up to MST_SEGMENT_ALIGN.
int mst_segment_seal(struct mst_segment *segment, struct mst_err *err);
// mst_segment_open_file makes a new file at `path` in place of shared memory, to be filled by
// mst_segment_append and ended by mst_segment_end_file, which gives it its size and
// nothing more: it isn't sealed. -MST_ESYS.
int mst_segment_open_file(struct mst_segment *segment, const char *path,
                          struct mst_err *err);
int mst_segment_end_file(struct mst_segment *segment, struct mst_err *err);
// mst_segment_close closes the descriptor, again without harm.
void mst_segment_close(struct mst_segment *segment);

// A reader's view: private, so that what is written to it is seen by nobody else; the
// kernel copies a page when it is written to first.
struct mst_map {
  uint8_t *data;
  uint64_t bytes;
  int fd; // of its segment, -1 if it wasn't kept; closed with the map
  // A session's I/O thread lets go of one while R's finalizers do.
  _Atomic size_t refs;
};

// mst_map_open maps the segment behind fd, which stays the caller's, with one
// reference. -MST_EPROTO if it is no sealed segment or an empty one, -MST_EMEM if it can't
// be mapped.
int mst_map_open(int fd, struct mst_map **out, struct mst_err *err);
// mst_map_open_at maps the segment behind a descriptor of another process of this user, on systems
// with /proc. -MST_ECLOSED if that process or its descriptor is gone, or is no sealed segment;
// -MST_ESYS if this process can't look there (EACCES, ENOSYS, no descriptors); -MST_EMEM.
int mst_map_open_at(int32_t pid, int32_t fd, struct mst_map **out,
                    struct mst_err *err);
// mst_map_lost gives a reference to what stands for a segment whose descriptor this process had no
// room for: it has no data. mst_map_is_lost knows it.
struct mst_map *mst_map_lost(void);
int mst_map_is_lost(const struct mst_map *map);
// mst_map_read reads n bytes (n > 0) of a file to memory that is given back like a mapping.
// -MST_EPROTO if the file ends before, -MST_EMEM, -MST_ESYS.
int mst_map_read(int fd, uint64_t offset, uint64_t n, struct mst_map **out,
                 struct mst_err *err);
// mst_map_keep hands the map a descriptor of its segment, above 1023; mst_map_forget closes it.
// mst_map_again maps the segment once more: as it was written, whatever was done to the first map.
void mst_map_keep(struct mst_map *map, int fd);
void mst_map_forget(struct mst_map *map);
int mst_map_again(const struct mst_map *map, struct mst_map **out,
                  struct mst_err *err);
// mst_segment_equal tells whether two sealed segments hold the same. Maps both for a while; 0 also
// if that can't be done.
int mst_segment_equal(const struct mst_segment *a, const struct mst_segment *b);
struct mst_map *mst_map_hold(struct mst_map *map);
// mst_map_release unmaps at the last reference. NULL is allowed.
void mst_map_release(struct mst_map *map);
// mst_map_at gives n bytes at an offset, NULL if they aren't all inside or the offset
// isn't a multiple of MST_SEGMENT_ALIGN.
void *mst_map_at(const struct mst_map *map, uint64_t offset, uint64_t n);

#endif
