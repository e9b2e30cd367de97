// share: memory shared by processes of one machine. No R; any thread.
//
// A segment is a memfd (memfd_create(2)). Its writer fills it by write(2), more than twice as fast
// as through a mapping, and seals it. From then on nobody can change or shrink it, so a reader's
// mapping can't be cut off (SIGBUS). Descriptors travel with a frame (chan.h). The kernel frees the
// memory with the last descriptor and the last mapping, however their processes end.
#ifndef MST_SHARE_SEGMENT_H
#define MST_SHARE_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"

// Objects in a segment begin at multiples of this: a cache line, and more than any of R's types
// requires.
#define MST_SEGMENT_ALIGN 64u

#define MST_SEGMENTS_MAX 2048

struct mst_segment {
  int fd;         // -1 if there is none
  uint64_t bytes; // written so far
};
#define MST_SEGMENT_NONE ((struct mst_segment){.fd = -1})

// mst_segment_open makes an empty segment for `bytes` bytes; its descriptor is close-on-exec and
// above 1023. The caller closes it. -MST_ESYS if the system has no memfds (ENOSYS, EPERM: macOS,
// old kernels, seccomp), no more descriptors (EMFILE, ENFILE), or a limit on the size of files
// (EFBIG). EMFILE also if this process has MST_SEGMENTS_MAX open, or an eighth of its descriptor
// limit: waiting calls hold theirs, and must not use up all.
int mst_segment_open(struct mst_segment *segment, uint64_t bytes,
                     struct mst_err *err);
// mst_segment_open_must is the same without that last limit, for bytes that have no other way: they
// come over a link, and are a segment of the sender's.
int mst_segment_open_must(struct mst_segment *segment, uint64_t bytes,
                          struct mst_err *err);
// mst_segment_align moves the end to the next multiple of MST_SEGMENT_ALIGN.
void mst_segment_align(struct mst_segment *segment);
// mst_segment_append writes n bytes to the end. Blocks as long as copying takes.
// -MST_EMEM if the system has no memory for them, -MST_ESYS.
int mst_segment_append(struct mst_segment *segment, const void *bytes, size_t n,
                       struct mst_err *err);
// mst_segment_seal ends writing; the size is rounded up to MST_SEGMENT_ALIGN.
int mst_segment_seal(struct mst_segment *segment, struct mst_err *err);
// mst_segment_read reads n bytes (n > 0) at an offset. Bytes read (> 0), -MST_ECLOSED past the end,
// -MST_ESYS.
int64_t mst_segment_read(int fd, uint64_t offset, void *bytes, size_t n,
                         struct mst_err *err);
// mst_segment_open_file makes a new file at `path` instead of shared memory. Fill it by
// mst_segment_append and finish by mst_segment_end_file, which only sets its size: it isn't sealed.
// -MST_ESYS.
int mst_segment_open_file(struct mst_segment *segment, const char *path,
                          struct mst_err *err);
int mst_segment_end_file(struct mst_segment *segment, struct mst_err *err);
// mst_segment_adopt moves the descriptor that a map keeps into a segment; it never fails.
// mst_segment_copy makes a sealed segment with the bytes of a map as they are now. Errors as
// mst_segment_open and mst_segment_append. Blocks as long as copying takes.
struct mst_map;
void mst_segment_adopt(struct mst_segment *segment, struct mst_map *map);
int mst_segment_copy(const struct mst_map *map, struct mst_segment *segment,
                     struct mst_err *err);
// mst_segment_close closes the descriptor; may be called again.
void mst_segment_close(struct mst_segment *segment);

// A reader's private view: nobody else sees writes to it; the kernel copies a page at the first
// write.
struct mst_map {
  uint8_t *data;
  uint64_t bytes;
  int fd; // of its segment, -1 if not kept; closed with the map
  // A session's I/O thread may release one while R's finalizers do.
  _Atomic size_t refs;
};

// mst_map_open maps the segment of fd, which the caller keeps. The map has one reference.
// -MST_EPROTO if it isn't a sealed segment or is empty, -MST_EMEM if it can't be mapped.
int mst_map_open(int fd, struct mst_map **out, struct mst_err *err);
// mst_map_open_at maps the segment of another process's descriptor (same user), on systems with
// /proc. -MST_ECLOSED if that process or its descriptor is gone, or isn't a sealed segment;
// -MST_ESYS if this process has no access (EACCES, ENOSYS, no descriptors); -MST_EMEM.
int mst_map_open_at(int32_t pid, int32_t fd, struct mst_map **out,
                    struct mst_err *err);
// mst_map_lost returns a reference to a placeholder without data, for a segment whose descriptor
// this process couldn't receive. mst_map_is_lost recognizes it.
struct mst_map *mst_map_lost(void);
int mst_map_is_lost(const struct mst_map *map);
// mst_map_read reads n bytes (n > 0) of a file into memory that is released like a mapping.
// -MST_EPROTO if the file is too short, -MST_EMEM, -MST_ESYS.
int mst_map_read(int fd, uint64_t offset, uint64_t n, struct mst_map **out,
                 struct mst_err *err);
// mst_map_keep gives the map a descriptor of its segment, above 1023; mst_map_forget closes it.
// mst_map_again maps the segment anew: as it was written, without later changes to the first map.
void mst_map_keep(struct mst_map *map, int fd);
void mst_map_forget(struct mst_map *map);
int mst_map_again(const struct mst_map *map, struct mst_map **out,
                  struct mst_err *err);
// mst_segment_equal tells whether two sealed segments hold the same bytes. Maps both meanwhile; 0
// also if that fails.
int mst_segment_equal(const struct mst_segment *a, const struct mst_segment *b);
struct mst_map *mst_map_hold(struct mst_map *map);
// mst_map_release drops a reference and unmaps with the last. NULL is allowed.
void mst_map_release(struct mst_map *map);
// mst_map_at gives n bytes at an offset, NULL if they reach outside or the offset isn't a multiple
// of MST_SEGMENT_ALIGN.
void *mst_map_at(const struct mst_map *map, uint64_t offset, uint64_t n);

#endif
