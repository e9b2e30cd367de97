// Reading: an object in whichever form it was written, and the segment that came with it.
#include "base/mst_assert.h"
#include "ffi/value/share_int.h"
#include "ffi/value/value.h"
#include "wire/wire.h"

SEXP ffi_unserialize(const uint8_t *bytes, size_t n) {
  ffi_named_load(bytes, n);
  return ffi_is_plain(bytes, n)   ? ffi_read_plain(bytes, n)
         : ffi_is_whole(bytes, n) ? ffi_read_whole(bytes, n)
                                  : ffi_read_native(bytes, n);
}

struct reading {
  const uint8_t *bytes;
  size_t n;
  struct ffi_share_source before; // put back at the end
  struct mst_map *release;        // released at the end, or NULL
};

static SEXP read_it(void *data) {
  const struct reading *reading = data;
  return ffi_unserialize(reading->bytes, reading->n);
}

static void read_done(void *data, Rboolean jump) {
  (void)jump;
  const struct reading *reading = data;
  (void)ffi_share_read_from(reading->before);
  mst_map_release(reading->release);
}

static SEXP read_shared(struct reading *reading, struct mst_map *map,
                        uint64_t base) {
  reading->before =
      ffi_share_read_from((struct ffi_share_source){.map = map, .base = base});
  return ffi_unwind(read_it, reading, read_done, reading);
}

SEXP ffi_unserialize_message(uint16_t flags, const uint8_t *bytes, size_t n,
                             size_t skip, struct mst_map *map) {
  struct reading reading = {.bytes = bytes + skip, .n = n - skip};
  if ((flags & MST_FLAG_SEGMENT) == 0) {
    return ffi_unserialize(reading.bytes, reading.n);
  }
  if (map == NULL || mst_map_is_lost(map)) {
    uint64_t size = 0;
    (void)mst_segment_decode(reading.bytes - MST_SEGMENT_BYTES,
                             MST_SEGMENT_BYTES, &size);
    ffi_no_map((size_t)size, map != NULL);
  }
  return read_shared(&reading, map, 0);
}

SEXP ffi_unserialize_block(struct mst_map *map, uint64_t base,
                           const struct mst_block *block) {
  const uint8_t *bytes = mst_map_at(map, base, block->bytes);
  MST_ASSERT(bytes != NULL && block->stream < block->bytes);
  struct reading reading = {.bytes = bytes + block->stream,
                            .n = (size_t)(block->bytes - block->stream),
                            .release = map};
  return read_shared(&reading, map, base);
}

// ffi_object_read reads a raw vector in any form of a message without a segment.
SEXP ffi_object_read(SEXP bytes) {
  return ffi_unserialize(RAW(bytes), (size_t)Rf_xlength(bytes));
}
