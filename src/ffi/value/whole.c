// R objects to bytes with their large vectors out of line, wherever these are.
//
// R's serialize() passes the bytes of a vector on in long runs, right after its header: two
// integers, or four for a long vector. So a large vector is recognized as it is written: its bytes
// go to the segment, and its header is replaced by that of a vector over the segment, in the way R
// writes any ALTREP object: class, state, attributes. Symbols name the class, and R numbers symbols
// in the order in which they are first written; so these are written before everything else and
// have known numbers. Anything unexpected stays in line.
#include <string.h>

#include "base/mst_assert.h"
#include "ffi/value/share_int.h"
#include "ffi/value/value.h"
#include "wire/wire.h"

#define WHOLE 'S' // first byte; R's own form begins with 'B'

#define ALTREP_TYPE 238
#define REFERENCE_TYPE 255
#define NULL_BYTES 254
#define OBJECT_FLAG 0x100
#define ATTRIBUTES_FLAG 0x200
// R writes at most this many elements at once.
#define RUN 8096

struct whole {
  struct mst_blob *blob;
  double min;
  int look;      // only check for a large vector
  int found;     // there is one: stop writing
  uint64_t left; // bytes of the present vector still to go to the segment
  int bare;      // it has no attributes
};

static void put_int(struct mst_buf *buf, int value) {
  if (mst_buf_append(buf, &value, sizeof value) != 0) ffi_no_memory(buf->len);
}

// int_before reads the integer that ends `back` bytes before the end.
static int int_before(const struct mst_buf *buf, size_t back) {
  int value;
  memcpy(&value, buf->data + buf->len - back - sizeof value, sizeof value);
  return value;
}

// A vector's header, at the end of the bytes written so far.
struct header {
  int flags, kind;
  uint64_t length, bytes;
  size_t size;
};

// fits: could n bytes be the first run of a vector with this header?
static int fits(struct header *header, size_t n) {
  header->kind = ffi_share_kind_of_type(header->flags & 0xFF);
  if (header->kind < 0 || header->kind == FFI_SHARE_STRING) return 0;
  const uint64_t size = ffi_share_size[header->kind];
  header->bytes = header->length * size;
  return n == header->bytes || (n == RUN * size && n < header->bytes);
}

// is_header finds the header; 0 if it isn't one, or could be both a short and a long one.
static int is_header(const struct mst_buf *buf, size_t n,
                     struct header *header) {
  const size_t step = sizeof(int);
  if (buf->len < 4 * step) return 0;
  const uint32_t lower = (uint32_t)int_before(buf, 0);
  const uint64_t upper = (uint32_t)int_before(buf, step);
  struct header wide = {.flags = int_before(buf, 3 * step),
                        .length = upper << 32 | lower,
                        .size = 4 * step};
  *header = (struct header){
      .flags = int_before(buf, step), .length = lower, .size = 2 * step};
  const int is_short = fits(header, n);
  const int is_wide = int_before(buf, 2 * step) == -1 && fits(&wide, n);
  if (is_wide) *header = wide;
  return is_short != is_wide;
}

// open_segment opens one and inserts space for its size at the front. 0 if the system has none.
static int open_segment(struct mst_blob *blob, uint64_t bytes) {
  if (mst_segment_open(&blob->segment, bytes, NULL) != 0) return 0;
  if (mst_buf_reserve(&blob->buf, MST_SEGMENT_BYTES) != 0) {
    ffi_no_memory(blob->buf.len + MST_SEGMENT_BYTES);
  }
  memmove(blob->buf.data + MST_SEGMENT_BYTES, blob->buf.data, blob->buf.len);
  blob->buf.len += MST_SEGMENT_BYTES;
  return 1;
}

// put_reference replaces the header by a vector over the segment's end.
static void put_reference(struct mst_blob *blob, const struct header *header) {
  struct mst_buf *buf = &blob->buf;
  mst_segment_align(&blob->segment);
  const double state[3] = {(double)blob->segment.bytes, (double)header->length,
                           (double)header->bytes};
  buf->len -= header->size;
  put_int(buf, ALTREP_TYPE | (header->flags & OBJECT_FLAG) |
                   (header->flags & ~0xFFF));
  const int refs[] = {1 + header->kind + 1, 1}; // the class, the package
  for (int i = 0; i < 2; i++) {
    put_int(buf, LISTSXP);
    put_int(buf, refs[i] << 8 | REFERENCE_TYPE);
  }
  put_int(buf, LISTSXP);
  put_int(buf, INTSXP);
  put_int(buf, 1);
  put_int(buf, header->flags & 0xFF);
  put_int(buf, NULL_BYTES);
  put_int(buf, REALSXP);
  put_int(buf, 3);
  if (mst_buf_append(buf, state, sizeof state) != 0) ffi_no_memory(buf->len);
}

// begin_vector checks whether these are the first bytes of a large vector.
static int begin_vector(struct whole *out, size_t n) {
  struct mst_blob *blob = out->blob;
  struct header header;
  if (!is_header(&blob->buf, n, &header)) return 0;
  if ((double)header.bytes < out->min) return 0;
  if (out->look) {
    out->found = 1;
    return 1;
  }
  if (header.bytes >= FFI_MEMORY_FROM) ffi_memory_check((size_t)header.bytes);
  if (blob->segment.fd < 0 && !open_segment(blob, header.bytes)) {
    out->min = R_PosInf;
    return 0;
  }
  put_reference(blob, &header);
  out->left = header.bytes;
  out->bare = (header.flags & ATTRIBUTES_FLAG) == 0;
  return 1;
}

static void out_whole(R_outpstream_t stream, void *bytes, int n) {
  struct whole *out = (struct whole *)stream->data;
  struct mst_buf *buf = &out->blob->buf;
  const size_t size = (size_t)n;
  if (out->found) return;
  if (out->left == 0 && (size < RUN || !begin_vector(out, size))) {
    if (buf->cap - buf->len < size) ffi_grow(buf, size);
    memcpy(buf->data + buf->len, bytes, size);
    buf->len += size;
    return;
  }
  if (out->found) return;
  MST_ASSERT(size <= out->left);
  const int rc = mst_segment_append(&out->blob->segment, bytes, size, NULL);
  if (rc != 0) ffi_no_memory((size_t)out->left);
  out->left -= size;
  if (out->left == 0 && out->bare) put_int(buf, NULL_BYTES);
}

static void out_whole_char(R_outpstream_t stream, int c) {
  unsigned char byte = (unsigned char)c;
  out_whole(stream, &byte, 1);
}

// with_symbols gives list(symbols, x).
static SEXP with_symbols(SEXP x) {
  SEXP both = PROTECT(Rf_allocVector(VECSXP, 2));
  SEXP symbols =
      SET_VECTOR_ELT(both, 0, Rf_allocVector(VECSXP, FFI_SHARE_KINDS + 1));
  SET_VECTOR_ELT(symbols, 0, Rf_install("muster"));
  for (int kind = 0; kind < FFI_SHARE_KINDS; kind++)
    SET_VECTOR_ELT(symbols, kind + 1, Rf_install(ffi_share_name[kind]));
  SET_VECTOR_ELT(both, 1, x);
  UNPROTECT(1);
  return both;
}

static void write_whole(SEXP x, struct whole *out) {
  struct R_outpstream_st stream;
  R_InitOutPStream(&stream, (R_pstream_data_t)out, R_pstream_binary_format,
                   FFI_SERIALIZE_VERSION, out_whole_char, out_whole, NULL,
                   R_NilValue);
  R_Serialize(x, &stream);
}

void ffi_serialize_whole(SEXP x, struct mst_blob *blob) {
  struct whole out = {.blob = blob, .min = ffi_share_from(), .look = 1};
  static const uint8_t mark = WHOLE;
  MST_ASSERT(blob->buf.len == 0 && blob->segment.fd < 0);
  write_whole(x, &out);
  if (!out.found) return; // R's form will do
  out = (struct whole){.blob = blob, .min = out.min};
  blob->buf.len = 0;
  if (mst_buf_append(&blob->buf, &mark, 1) != 0) ffi_no_memory(1);
  write_whole(PROTECT(with_symbols(x)), &out);
  UNPROTECT(1);
  if (blob->segment.fd < 0) return;
  if (mst_segment_seal(&blob->segment, NULL) != 0) {
    ffi_no_memory((size_t)blob->segment.bytes);
  }
  mst_segment_encode(blob->segment.bytes, blob->buf.data);
}

int ffi_is_whole(const uint8_t *bytes, size_t n) {
  return n > 0 && bytes[0] == WHOLE;
}

SEXP ffi_read_whole(const uint8_t *bytes, size_t n) {
  SEXP both = PROTECT(ffi_read_native(bytes + 1, n - 1));
  if (TYPEOF(both) != VECSXP || Rf_xlength(both) != 2) {
    Rf_error("corrupt message");
  }
  SEXP x = VECTOR_ELT(both, 1);
  UNPROTECT(1);
  return x;
}
