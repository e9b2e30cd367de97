// R objects to bytes and back, straight from and to our buffers.
//
// Native binary format: both ends run on machines of the same kind (checked at hello), and swapping
// bytes would triple the cost. Version 3 keeps compact sequences compact.
#include <string.h>

#include "ffi/value/value.h"

void ffi_grow(struct mst_buf *buf, size_t more) {
  if (buf->cap >= FFI_MEMORY_FROM / 2)
    ffi_memory_check(buf->cap); // it will be doubled
  if (mst_buf_reserve(buf, more) != 0) ffi_no_memory(buf->len + more);
}

static void out_bytes(R_outpstream_t stream, void *bytes, int n) {
  struct mst_buf *buf = (struct mst_buf *)stream->data;
  const size_t size = (size_t)n;
  if (buf->cap - buf->len < size) ffi_grow(buf, size);
  memcpy(buf->data + buf->len, bytes, size);
  buf->len += size;
}

static void out_char(R_outpstream_t stream, int c) {
  unsigned char byte = (unsigned char)c;
  out_bytes(stream, &byte, 1);
}

void ffi_serialize(SEXP x, struct mst_buf *buf) {
  struct R_outpstream_st stream;
  R_InitOutPStream(&stream, (R_pstream_data_t)buf, R_pstream_binary_format,
                   FFI_SERIALIZE_VERSION, out_char, out_bytes, NULL,
                   R_NilValue);
  R_Serialize(x, &stream);
}

// ---- counting

struct count {
  double bytes, most;
};

static void count_bytes(R_outpstream_t stream, void *bytes, int n) {
  struct count *count = (struct count *)stream->data;
  (void)bytes;
  count->bytes += n;
  if (count->bytes > count->most) Rf_error("more bytes than were asked for");
}

static void count_char(R_outpstream_t stream, int c) {
  (void)c;
  count_bytes(stream, NULL, 1);
}

SEXP ffi_serialized_bytes(SEXP x, SEXP most) {
  struct count count = {.most = Rf_asReal(most)};
  struct R_outpstream_st stream;
  R_InitOutPStream(&stream, (R_pstream_data_t)&count, R_pstream_binary_format,
                   FFI_SERIALIZE_VERSION, count_char, count_bytes, NULL,
                   R_NilValue);
  R_Serialize(x, &stream);
  return Rf_ScalarReal(count.bytes);
}

// ---- reading

struct reader {
  const uint8_t *next;
  const uint8_t *end;
};

static void in_bytes(R_inpstream_t stream, void *bytes, int n) {
  struct reader *reader = (struct reader *)stream->data;
  const size_t size = (size_t)n;
  if ((size_t)(reader->end - reader->next) < size) {
    Rf_error("a message ends in the middle of an object");
  }
  memcpy(bytes, reader->next, size);
  reader->next += size;
}

static int in_char(R_inpstream_t stream) {
  unsigned char byte;
  in_bytes(stream, &byte, 1);
  return (int)byte;
}

SEXP ffi_read_native(const uint8_t *bytes, size_t n) {
  struct reader reader = {.next = bytes, .end = bytes + n};
  struct R_inpstream_st stream;
  R_InitInPStream(&stream, (R_pstream_data_t)&reader, R_pstream_any_format,
                  in_char, in_bytes, NULL, R_NilValue);
  return R_Unserialize(&stream);
}
