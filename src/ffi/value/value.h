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
// ffi_tail_text gives a tail's contents as a string.
SEXP ffi_tail_text(const struct mst_tail *tail);
// ffi_strings copies a character vector to a NULL-terminated array in R's memory.
char **ffi_strings(SEXP strings);
// ffi_list makes a named list of n elements; names are C strings. The caller protects and fills it.
SEXP ffi_list(int n, const char *const *names);
// ffi_text_at makes a string, as ffi_text does, from a text that R code run meanwhile may free or
// replace; "" if it is NULL.
SEXP ffi_text_at(char *const *text);
// ffi_text makes a string from n bytes of locale or UTF-8 text; bytes that are valid in neither are
// shown as <xx>.
SEXP ffi_text(const char *bytes, size_t n);

// ffi_hide gives a pointer that refers to value, lives as long as key (a pointer or an
// environment), and serializes as nothing. A node's changing state is behind one: some packages
// identify a cluster by its digest (future 1.31), and the contents of a verb's frame don't belong
// in a message that contains the cluster. Not a weak reference itself: waldo, and so testthat,
// can't compare those. ffi_hidden gives value, or NULL for a copy.
SEXP ffi_hide(SEXP key, SEXP value);
SEXP ffi_hidden(SEXP pointer);
// ffi_opaque makes an object that has no elements, only the attributes that it is given. They stay
// in copies from serialization.
SEXP ffi_opaque(void);

// ---- settings.c

struct ffi_option {
  SEXP cell;
  SEXP value;
};
// If there are more, they always count as changed.
#define FFI_OPTIONS_MAX 1000
struct ffi_settings {
  SEXP held; // a list of one, preserved: a pairlist of the options' cells and values
  struct ffi_option options[FFI_OPTIONS_MAX];
  int count;
  char directory[4096];
};
// ffi_settings_note notes the options and the working directory. ffi_settings_changed tells whether
// they have changed since, ffi_settings_options and ffi_settings_directory what they were. All but
// the second allocate; that may run R code.
void ffi_settings_note(struct ffi_settings *settings);
int ffi_settings_changed(struct ffi_settings *settings);
SEXP ffi_settings_options(const struct ffi_settings *settings);
SEXP ffi_settings_directory(const struct ffi_settings *settings);

// ---- surroundings.c

#define FFI_LOCALES 4
struct ffi_surroundings {
  struct ffi_settings settings;
  char **at;        // environ
  char **variables; // what it had
  size_t variable_count;
  char locales[FFI_LOCALES][128];
};
// ffi_surroundings_note and ffi_surroundings_changed do the same for these, environment variables
// and the locale.
void ffi_surroundings_note(struct ffi_surroundings *around);
int ffi_surroundings_changed(struct ffi_surroundings *around);

// ---- serialize.c: as R writes and reads objects

#define FFI_SERIALIZE_VERSION 3
// ffi_serialize appends x to buf in R's native binary format. Raises R errors.
void ffi_serialize(SEXP x, struct mst_buf *buf);
// ffi_serialized_bytes gives the bytes of x in this format: an error if they are more than `most`,
// before it has looked at the rest.
SEXP ffi_serialized_bytes(SEXP x, SEXP most);
// ffi_read_native reads one object. Raises R errors.
SEXP ffi_read_native(const uint8_t *bytes, size_t n);
// ffi_grow reserves more bytes, or raises an R error. The bytes so far stay: the buffer's owner
// frees them.
void ffi_grow(struct mst_buf *buf, size_t more);

// ---- whole.c: with large vectors out of line

// ffi_serialize_whole appends x to an empty blob. Large vectors anywhere in it, in frames and
// attributes too, go to the blob's segment, which is sealed; its size comes first: the form of a
// message with MST_FLAG_SEGMENT. As ffi_serialize if there are none or the system has no segments.
// Raises R errors, also muster_error_memory; the blob's owner frees it.
void ffi_serialize_whole(SEXP x, struct mst_blob *blob);
// ffi_is_whole recognizes this form by its first byte; ffi_read_whole reads it. Raises R errors.
int ffi_is_whole(const uint8_t *bytes, size_t n);
SEXP ffi_read_whole(const uint8_t *bytes, size_t n);

// ---- blob.c

// ffi_blob_of serializes x into a new blob of the caller's. Raises R errors.
struct mst_blob *ffi_blob_of(SEXP x);
// ffi_blob_whole does the same by ffi_serialize_whole.
struct mst_blob *ffi_blob_whole(SEXP x);

// ---- plain.c: the short form of small messages

// ffi_serialize_message appends a list, the content of a message, to a blob: in the short form if
// it is plain and has no segment, else as ffi_serialize does. Raises R errors.
void ffi_serialize_message(SEXP list, struct mst_blob *blob);
// ffi_is_plain recognizes the short form by its first byte; ffi_read_plain reads it.
int ffi_is_plain(const uint8_t *bytes, size_t n);
SEXP ffi_read_plain(const uint8_t *bytes, size_t n);

// ---- message.c: any of these forms

// ffi_unserialize reads one object of any form from n bytes, which must stay in place meanwhile.
// Raises R errors.
SEXP ffi_unserialize(const uint8_t *bytes, size_t n);
// ffi_unserialize_message is ffi_unserialize for a message of n bytes, whose first `skip` bytes
// aren't part of the object. If its flags say so it has a segment, whose size precedes the object;
// map is that segment and stays the caller's. NULL: none, or it couldn't be mapped
// (muster_error_memory); mst_map_lost(): muster_error_limit.
SEXP ffi_unserialize_message(uint16_t flags, const uint8_t *bytes, size_t n,
                             size_t skip, struct mst_map *map);

// ---- share.c: large vectors in shared memory

// ffi_share_worth tells whether a message has vectors that should be shared. Fast for messages
// without any.
int ffi_share_worth(SEXP x);
// ffi_share_from gives the size in bytes from which vectors are shared; infinity if none are.
double ffi_share_from(void);
// ffi_share_may_be tells whether a vector is so large that options decide.
int ffi_share_may_be(SEXP x);
// ffi_share_out writes these vectors to a segment, sealed, and gives a copy of x that refers to
// them and is only good for serialization. If the system has no segments, x itself and no segment.
// Raises muster_error_memory if there is no room, and leaves no segment.
SEXP ffi_share_out(SEXP x, struct mst_segment *segment);
// ffi_share_collect runs R's garbage collector now and then, to release unused mappings. Runs
// finalizers: call it before looking up what to read.
void ffi_share_collect(void);
// ffi_share_count adds bytes that an R pointer keeps alive to those counted for the next
// collection.
void ffi_share_count(int64_t bytes);
// ffi_share_register makes the classes, once.
void ffi_share_register(DllInfo *dll);

// ---- memory.c: memory for messages

// Smaller messages are written without checking the free memory.
#define FFI_MEMORY_FROM ((size_t)64 << 20)
// ffi_memory_check raises muster_error_memory unless `bytes` and a reserve are free.
void ffi_memory_check(size_t bytes);
// ffi_no_memory raises muster_error_memory: `bytes` bytes can't be written; ffi_no_map: can't be
// read, or, if a descriptor is missing, muster_error_limit.
void ffi_no_memory(size_t bytes);
void ffi_no_map(size_t bytes, int wants_fd);
// ffi_memory_look gives the bytes that are free now.
int64_t ffi_memory_look(void);
// ffi_memory_pretend is for tests: as if `bytes` were free; negative: the real ones.
void ffi_memory_pretend(double bytes);

// ---- scan.c

// ffi_is_refused tells whether a list contains something that must not leave this process: a
// connection, or by option an external pointer. seen (or NULL): what is in it, see ffi_scan;
// without FFI_SCAN_LARGE nothing is large enough to call ffi_share_worth.
int ffi_is_refused(SEXP x, int *seen);
// ffi_has_frame tells whether x is or contains, in lists, an environment of its own or a function
// with one.
int ffi_has_frame(SEXP x);
// ffi_class_package gives the package of an S4 class, a symbol; NULL if the class isn't S4.
// ffi_class_packages makes a character vector of a pairlist of classes, newest first and tagged by
// these: the packages, "" for other classes, named by class. Allocates.
SEXP ffi_class_package(SEXP class);
SEXP ffi_class_packages(SEXP classes);

// ---- named.c

// ffi_named_load loads the packages of ffi_named_set that the bytes mention. Runs R code.
void ffi_named_load(const uint8_t *bytes, size_t n);
SEXP ffi_named_set(SEXP names);

// ---- stream.c

// A stream in R's form: the kinds of generators, and the six numbers.
struct ffi_stream {
  int kinds;
  uint32_t words[MST_STREAM_WORDS];
};
// ffi_stream_of raises an R error if it isn't a seed of L'Ecuyer's generator.
struct ffi_stream ffi_stream_of(SEXP seed);
SEXP ffi_seed_of(const struct ffi_stream *stream);

// ---- entry points

// ffi_content gives a hash of a value's contents, as a string: NA if it isn't plain data.
SEXP ffi_content(SEXP x);
SEXP ffi_pack(SEXP list);
SEXP ffi_misfit(SEXP values, SEXP like);
SEXP ffi_object_read(SEXP bytes);
SEXP ffi_scan(SEXP x);
SEXP ffi_stream_after(SEXP seed, SEXP n);
SEXP ffi_share_min(SEXP min);
SEXP ffi_share_always(SEXP always);
SEXP ffi_share_pretend(SEXP off, SEXP memory);
SEXP ffi_share_is(SEXP x);
SEXP ffi_share_free(void);

#endif
