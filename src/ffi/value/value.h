// value: R objects to bytes and back, with large vectors in shared memory; texts and lists for R.
#ifndef MST_FFI_VALUE_H
#define MST_FFI_VALUE_H

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "base/mst_stream.h"
#include "base/mst_tail.h"
#include "ffi/entry/entry.h"
#include "share/blob.h"
#include "share/segment.h"

// ---- values.c

// ffi_error_list gives list(error, call, errno).
SEXP ffi_error_list(const struct mst_err *err);
// ffi_tail_text gives what a tail holds as a string.
SEXP ffi_tail_text(const struct mst_tail *tail);
// ffi_strings copies a character vector to a NULL-ended array of R's memory.
char **ffi_strings(SEXP strings);
// ffi_list makes a named list of n elements; names are C strings. The caller
// protects it and fills it.
SEXP ffi_list(int n, const char *const *names);
// ffi_text_at makes a string, as ffi_text does, of a text that code which R runs meanwhile may
// free or replace; "" where there is none.
SEXP ffi_text_at(char *const *text);
// ffi_text makes a string from n bytes of a locale or UTF-8 text; bytes that are
// valid in neither are shown as <xx>.
SEXP ffi_text(const char *bytes, size_t n);

// ffi_hide gives a pointer with a reference to value that lives as long as key, a pointer or an
// environment, and is written as nothing when it is serialized. What changes of a node is behind
// one: some packages know a cluster by a digest of it (future 1.31), and what a verb's frame holds
// has no business in a message that the cluster is in. Not the reference itself: waldo, and so
// testthat, can't compare any. ffi_hidden gives value, or NULL for a copy.
SEXP ffi_hide(SEXP key, SEXP value);
SEXP ffi_hidden(SEXP pointer);

// ---- serialize.c

// ffi_serialize appends x to buf in R's native binary format. Raises R errors.
void ffi_serialize(SEXP x, struct mst_buf *buf);
// ffi_serialize_whole appends x to an empty blob, and large vectors wherever they are in it, in
// frames and attributes too, to the blob's segment, sealed, with its size before the rest: what a
// message with MST_FLAG_SEGMENT has. As ffi_serialize if there are none; no segment either where
// the system has none. Raises R errors, muster_error_memory too; the blob's owner frees it.
void ffi_serialize_whole(SEXP x, struct mst_blob *blob);
// ffi_read_native reads one object that R has written; ffi_read_whole what ffi_serialize_whole has,
// known by its first byte, ffi_is_whole. Raise R errors.
SEXP ffi_read_native(const uint8_t *bytes, size_t n);
int ffi_is_whole(const uint8_t *bytes, size_t n);
SEXP ffi_read_whole(const uint8_t *bytes, size_t n);
// ffi_unserialize (plain.c) reads one object from n bytes, of either form. Raises R errors; what it
// reads must stay in place meanwhile.
SEXP ffi_unserialize(const uint8_t *bytes, size_t n);
// ffi_unserialize_message is ffi_unserialize for a message: of n bytes the first `skip` are
// no part of the object. If its flags say so it has a segment, whose size stands right
// before the object; map is that and stays the caller's, NULL if there is none or it
// couldn't be mapped (muster_error_memory); mst_map_lost(): muster_error_limit.
SEXP ffi_unserialize_message(uint16_t flags, const uint8_t *bytes, size_t n,
                             size_t skip, struct mst_map *map);

// ---- blob.c

// ffi_blob_of serializes x into a blob of its own: the caller's. Raises R errors.
struct mst_blob *ffi_blob_of(SEXP x);
// ffi_blob_whole does so by ffi_serialize_whole.
struct mst_blob *ffi_blob_whole(SEXP x);

// ---- plain.c: the short form of small messages

// ffi_serialize_message appends a list, the content of a message, to a blob: in the short
// form if it has no segment and can be, else as ffi_serialize does. Raises R errors.
void ffi_serialize_message(SEXP list, struct mst_blob *blob);
// ffi_is_plain tells the short form by its first byte; ffi_read_plain reads it.
int ffi_is_plain(const uint8_t *bytes, size_t n);
SEXP ffi_read_plain(const uint8_t *bytes, size_t n);

// ---- share.c: large vectors in shared memory

// ffi_share_worth tells whether a message has vectors that should be shared. Quick for
// one that hasn't.
int ffi_share_worth(SEXP x);
// ffi_share_from gives the bytes from which on a vector is shared; infinity if none is.
double ffi_share_from(void);
// ffi_share_may_be tells whether a vector is so large that options decide.
int ffi_share_may_be(SEXP x);
// ffi_share_out writes these vectors to a segment, sealed, and gives a copy of x that
// refers to them when it is serialized, and that is good for nothing else. x itself and no
// segment where the system has none. Raises muster_error_memory if there is no room; then
// there is no segment.
SEXP ffi_share_out(SEXP x, struct mst_segment *segment);
// ffi_share_collect has R give back mappings that nobody uses any more, now and then. Runs
// finalizers: call it before what is to be read is looked for.
void ffi_share_collect(void);
// ffi_share_count adds bytes that a pointer of R's keeps to those that R is asked to collect for.
void ffi_share_count(int64_t bytes);
// ffi_share_register makes the classes, once.
void ffi_share_register(DllInfo *dll);

// ---- memory.c: memory for messages

// What is smaller than this is written without a look at the memory that is free.
#define FFI_MEMORY_FROM ((size_t)64 << 20)
// ffi_memory_check raises muster_error_memory if so many bytes aren't free, with some left.
void ffi_memory_check(size_t bytes);
// ffi_no_memory raises muster_error_memory: so many bytes can't be written; ffi_no_map:
// can't be read, or, for want of a descriptor, muster_error_limit.
void ffi_no_memory(size_t bytes);
void ffi_no_map(size_t bytes, int wants_fd);
// ffi_memory_look gives the bytes that are free now.
int64_t ffi_memory_look(void);
// ffi_memory_pretend is for tests: as if so many bytes were free; negative: look.
void ffi_memory_pretend(double bytes);

// ---- scan.c

// ffi_is_refused tells whether a list holds what must not leave this process: a
// connection, or by option an external pointer. See ffi_scan. may_share (or NULL): 0 if nothing in
// it is so large that ffi_share_worth need be asked.
int ffi_is_refused(SEXP x, int *may_share);
// ffi_has_frame tells whether x is or holds, in lists, an environment of its own or a function with
// one.
int ffi_has_frame(SEXP x);

// ---- named.c

// ffi_named_load has packages loaded that bytes name, of those that ffi_named_set set. Runs R code.
void ffi_named_load(const uint8_t *bytes, size_t n);
SEXP ffi_named_set(SEXP names);

// ---- stream.c

// A stream as R has it: its kinds of generators, and the six numbers.
struct ffi_stream {
  int kinds;
  uint32_t words[MST_STREAM_WORDS];
};
// ffi_stream_of raises an R error for what is no L'Ecuyer seed.
struct ffi_stream ffi_stream_of(SEXP seed);
SEXP ffi_seed_of(const struct ffi_stream *stream);

// ---- entry points

// ffi_content gives a hash of what a value holds, as a string: NA for what is no plain data.
SEXP ffi_content(SEXP x);
SEXP ffi_pack(SEXP list);
SEXP ffi_object_read(SEXP bytes);
SEXP ffi_scan(SEXP x);
SEXP ffi_stream_after(SEXP seed, SEXP n);
SEXP ffi_share_min(SEXP min);
SEXP ffi_share_always(SEXP always);
SEXP ffi_share_pretend(SEXP off, SEXP memory);
SEXP ffi_share_is(SEXP x);
SEXP ffi_share_free(void);

#endif
