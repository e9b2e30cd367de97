// The short form of small messages: most of the cost of R's own serialization is its start (a table
// of 1,099 references for each object written), 3 of the 5 us that a message of a few numbers
// takes, and garbage that makes R collect more often.
//
// Plain are NULL, vectors of numbers, strings and bytes, and lists of these, with no attributes but
// names: they hold no references, so they can be written without a table. A call's function
// precedes them in R's form. A function that can't change (see is_fixed) is written once and read
// once, as long as its bytes stay the same.
//
// Everything else, and messages larger than PLAIN_MAX, is left to R. PROTOCOL.md has the form, byte
// by byte; its first byte differs from those of R's forms.
#include <string.h>

#include "ffi/value/value.h"

#define MARK 'P'
#define NAMED 0x80u
#define NA_LENGTH (-1)

// Above this R's form costs no more.
#define PLAIN_MAX ((size_t)4096)
#define DEPTH_MAX 16
// Number of functions whose bytes are kept, and their maximum length.
#define KEPT_MAX 4
#define KEPT_BYTES_MAX ((size_t)65536)

enum node_type {
  NODE_NULL = 0,
  NODE_LOGICAL = 1,
  NODE_INTEGER = 2,
  NODE_REAL = 3,
  NODE_COMPLEX = 4,
  NODE_RAW = 5,
  NODE_STRINGS = 6,
  NODE_LIST = 7,
  NODE_FUNCTION = 8 // R bytes; only first in a call
};

static const struct {
  int type;
  size_t size; // bytes of an element
} vectors[] = {[NODE_LOGICAL] = {LGLSXP, sizeof(int)},
               [NODE_INTEGER] = {INTSXP, sizeof(int)},
               [NODE_REAL] = {REALSXP, sizeof(double)},
               [NODE_COMPLEX] = {CPLXSXP, sizeof(Rcomplex)},
               [NODE_RAW] = {RAWSXP, 1}};

// ---- functions written and read once

struct kept {
  SEXP fun;             // preserved
  struct mst_buf bytes; // empty if they are too many
};

// written: for calls of this process, found by the function; known: for received calls, found by
// the bytes.
static struct store {
  struct kept kept[KEPT_MAX];
  unsigned next; // the next to replace
} written, known;

// new_kept empties the oldest entry for a new function.
static struct kept *new_kept(struct store *store) {
  struct kept *kept = &store->kept[store->next];
  store->next = (store->next + 1) % KEPT_MAX;
  if (kept->fun != NULL) R_ReleaseObject(kept->fun);
  kept->fun = NULL;
  kept->bytes.len = 0;
  return kept;
}

static int is_fixed_code(SEXP x, int depth);

static int is_fixed_list(SEXP x, int depth) {
  for (; x != R_NilValue; x = CDR(x)) {
    if (!is_fixed_code(CAR(x), depth)) return 0;
  }
  return 1;
}

// is_fixed_code tells whether code holds nothing whose contents could change, like environments or
// functions. What it looks up when it runs doesn't matter.
static int is_fixed_code(SEXP x, int depth) {
  if (depth > 100) return 0;
  switch (TYPEOF(x)) {
  case NILSXP:
  case SYMSXP:
  case LGLSXP:
  case INTSXP: // source references, too, which are only read
  case REALSXP:
  case CPLXSXP:
  case STRSXP:
    return 1;
  case LANGSXP:
  case LISTSXP:
    return is_fixed_list(x, depth + 1);
  default:
    return 0;
  }
}

// only_source tells whether a function has no attributes but its source reference.
static int only_source(SEXP fun) {
  if (!ffi_has_attributes(fun)) return 1;
  SEXP attributes = PROTECT(ffi_attributes(fun));
  SEXP names = Rf_getAttrib(attributes, R_NamesSymbol);
  const int only = Rf_xlength(names) == 1 &&
                   strcmp(CHAR(STRING_ELT(names, 0)), "srcref") == 0;
  UNPROTECT(1);
  return only;
}

// is_fixed tells whether a function, and a copy of it, always stay the same: a closure of the
// global environment or of base, with constant code.
static int is_fixed(SEXP fun) {
  if (TYPEOF(fun) != CLOSXP) return 0;
  SEXP env = ffi_closure_env(fun);
  if (env != R_GlobalEnv && env != R_BaseEnv && env != R_BaseNamespace) {
    return 0;
  }
  return is_fixed_list(ffi_closure_formals(fun), 0) &&
         is_fixed_code(R_ClosureExpr(fun), 0) && only_source(fun);
}

// written_of gives a function's bytes, NULL if it isn't fixed, or is long. R doesn't change it in
// place while it is kept, since that is one more reference.
static const struct mst_buf *written_of(SEXP fun) {
  for (unsigned i = 0; i < KEPT_MAX; i++) {
    const struct kept *kept = &written.kept[i];
    if (kept->fun == fun) return kept->bytes.len > 0 ? &kept->bytes : NULL;
  }
  if (!is_fixed(fun)) return NULL;
  // Both may run finalizers that send: store it afterwards.
  R_PreserveObject(fun);
  struct mst_blob *blob = ffi_blob_of(fun);
  struct kept *kept = new_kept(&written);
  kept->fun = fun;
  if (blob->buf.len <= KEPT_BYTES_MAX) {
    mst_buf_free(&kept->bytes);
    kept->bytes = blob->buf;
    blob->buf = (struct mst_buf){0};
  }
  mst_blob_release(blob);
  return kept->bytes.len > 0 ? &kept->bytes : NULL;
}

// read_function gives the function with these bytes, which must stay in place.
static SEXP read_function(const uint8_t *bytes, size_t n) {
  for (unsigned i = 0; i < KEPT_MAX; i++) {
    const struct kept *kept = &known.kept[i];
    if (kept->fun != NULL && kept->bytes.len == n &&
        memcmp(kept->bytes.data, bytes, n) == 0) {
      return kept->fun;
    }
  }
  SEXP fun = PROTECT(ffi_read_native(bytes, n));
  if (!Rf_isFunction(fun))
    Rf_error("corrupt message: no function where one is expected");
  R_PreserveObject(fun); // may run finalizers: store it afterwards
  struct kept *kept = new_kept(&known);
  if (mst_buf_append(&kept->bytes, bytes, n) == 0) {
    kept->fun = fun;
  } else {
    R_ReleaseObject(fun);
  }
  UNPROTECT(1);
  return fun;
}

// ---- writing. 0: not plain; discard what was written so far.

static int put(struct mst_buf *buf, const void *bytes, size_t n) {
  return n == 0 || mst_buf_append(buf, bytes, n) == 0;
}

static int put_head(struct mst_buf *buf, unsigned type, size_t n) {
  const uint8_t byte = (uint8_t)type;
  const uint32_t count = (uint32_t)n;
  return put(buf, &byte, 1) && put(buf, &count, sizeof count);
}

// plain_encoding gives the encoding of a string's bytes, -1 if that depends on the locale.
static int plain_encoding(SEXP string) {
  const cetype_t encoding = Rf_getCharCE(string);
  if (encoding != CE_NATIVE) return (int)encoding;
  const char *text = CHAR(string);
  const int n = (int)Rf_xlength(string);
  for (int i = 0; i < n; i++) {
    if ((unsigned char)text[i] >= 0x80) return -1;
  }
  return (int)CE_NATIVE;
}

static int write_string(struct mst_buf *buf, SEXP string) {
  int32_t n = NA_LENGTH;
  if (string == NA_STRING) return put(buf, &n, sizeof n);
  const int encoding = plain_encoding(string);
  if (encoding < 0 || (size_t)Rf_xlength(string) > PLAIN_MAX) return 0;
  n = (int32_t)Rf_xlength(string);
  const uint8_t byte = (uint8_t)encoding;
  return put(buf, &n, sizeof n) && put(buf, &byte, 1) &&
         put(buf, CHAR(string), (size_t)n);
}

static int write_strings(struct mst_buf *buf, SEXP x, unsigned named,
                         size_t most) {
  const R_xlen_t n = Rf_xlength(x);
  if (!put_head(buf, NODE_STRINGS | named, (size_t)n)) return 0;
  for (R_xlen_t i = 0; i < n; i++) {
    if (!write_string(buf, STRING_ELT(x, i)) || buf->len > most) return 0;
  }
  return 1;
}

static const void *elements_of(SEXP x, enum node_type type) {
  switch (type) {
  case NODE_LOGICAL:
    return LOGICAL_RO(x);
  case NODE_INTEGER:
    return INTEGER_RO(x);
  case NODE_REAL:
    return REAL_RO(x);
  case NODE_COMPLEX:
    return COMPLEX_RO(x);
  default:
    return RAW_RO(x);
  }
}

static int write_vector(struct mst_buf *buf, SEXP x, enum node_type type,
                        unsigned named) {
  const size_t n = (size_t)Rf_xlength(x);
  return put_head(buf, (unsigned)type | named, n) &&
         put(buf, elements_of(x, type), n * vectors[type].size);
}

static enum node_type type_of(SEXP x) {
  switch (TYPEOF(x)) {
  case LGLSXP:
    return NODE_LOGICAL;
  case INTSXP:
    return NODE_INTEGER;
  case REALSXP:
    return NODE_REAL;
  case CPLXSXP:
    return NODE_COMPLEX;
  case RAWSXP:
    return NODE_RAW;
  case STRSXP:
    return NODE_STRINGS;
  case VECSXP:
    return NODE_LIST;
  default:
    return NODE_NULL;
  }
}

// names_of stores x's names in *names, R_NilValue without attributes; 0 if x has other attributes.
static int names_of(SEXP x, SEXP *names) {
  *names = R_NilValue;
  if (!ffi_has_attributes(x)) return 1;
  if (!ffi_only_names(x)) return 0;
  *names = Rf_getAttrib(x, R_NamesSymbol);
  return TYPEOF(*names) == STRSXP;
}

// write_node appends x, up to a length of `most`.
static int write_node(struct mst_buf *buf, SEXP x, size_t most, int depth) {
  SEXP names;
  if (x == R_NilValue) return put_head(buf, NODE_NULL, 0);
  if (ALTREP(x)) return 0; // its class may have its own serialized form
  const enum node_type type = type_of(x);
  // Every element takes at least a byte.
  if (type == NODE_NULL || depth > DEPTH_MAX ||
      (size_t)Rf_xlength(x) > PLAIN_MAX || !names_of(x, &names)) {
    return 0;
  }
  const unsigned named = names == R_NilValue ? 0 : NAMED;
  int ok;
  if (type == NODE_STRINGS) {
    ok = write_strings(buf, x, named, most);
  } else if (type != NODE_LIST) {
    ok = write_vector(buf, x, type, named);
  } else {
    ok = put_head(buf, NODE_LIST | named, (size_t)Rf_xlength(x));
    for (R_xlen_t i = 0; ok && i < Rf_xlength(x); i++) {
      ok = write_node(buf, VECTOR_ELT(x, i), most, depth + 1);
    }
  }
  if (ok && named) ok = write_strings(buf, names, 0, most);
  return ok && buf->len <= most;
}

static int write_function(struct mst_buf *buf, const struct mst_buf *bytes) {
  return put_head(buf, NODE_FUNCTION, bytes->len) &&
         put(buf, bytes->data, bytes->len);
}

static int write_list(struct mst_buf *buf, SEXP list, R_xlen_t from) {
  const size_t most = buf->len + PLAIN_MAX;
  for (R_xlen_t i = from; i < Rf_xlength(list); i++) {
    if (!write_node(buf, VECTOR_ELT(list, i), most, 1)) return 0;
  }
  return 1;
}

// write_plain appends the list in the short form. 0: not plain.
static int write_plain(struct mst_buf *buf, SEXP list) {
  const uint8_t mark = MARK;
  SEXP first = VECTOR_ELT(list, 0);
  const int has_fun = TYPEOF(first) == CLOSXP;
  const struct mst_buf *fun = has_fun ? written_of(first) : NULL;
  if (has_fun && fun == NULL) return 0;
  return put(buf, &mark, 1) &&
         put_head(buf, NODE_LIST, (size_t)Rf_xlength(list)) &&
         (!has_fun || write_function(buf, fun)) &&
         write_list(buf, list, has_fun);
}

void ffi_serialize_message(SEXP list, struct mst_blob *blob) {
  const size_t begin = blob->buf.len;
  // Only R's form can refer to a segment.
  if (blob->segment.fd < 0 && write_plain(&blob->buf, list)) return;
  blob->buf.len = begin;
  ffi_serialize(list, &blob->buf);
}

// ---- reading. Raises R errors for invalid bytes.

struct reader {
  const uint8_t *next;
  const uint8_t *end;
};

// get gives the next n bytes.
static const uint8_t *get(struct reader *reader, size_t n) {
  const uint8_t *bytes = reader->next;
  if ((size_t)(reader->end - bytes) < n) {
    Rf_error("a message ends in the middle of an object");
  }
  reader->next += n;
  return bytes;
}

static uint32_t get_count(struct reader *reader) {
  uint32_t n;
  memcpy(&n, get(reader, sizeof n), sizeof n);
  return n;
}

static SEXP read_string(struct reader *reader) {
  int32_t n;
  memcpy(&n, get(reader, sizeof n), sizeof n);
  if (n == NA_LENGTH) return NA_STRING;
  const uint8_t encoding = *get(reader, 1);
  if (n < 0 || (encoding != CE_NATIVE && encoding != CE_UTF8 &&
                encoding != CE_LATIN1 && encoding != CE_BYTES)) {
    Rf_error("a message has an invalid string");
  }
  const char *text = (const char *)get(reader, (size_t)n);
  return Rf_mkCharLenCE(text, (int)n, (cetype_t)encoding);
}

// check_count rejects a count of elements that the remaining bytes can't hold.
static void check_count(const struct reader *reader, uint32_t n, size_t size) {
  if (n > (size_t)(reader->end - reader->next) / size) {
    Rf_error("a message ends in the middle of an object");
  }
}

static SEXP read_strings(struct reader *reader, uint32_t n) {
  check_count(reader, n, sizeof(int32_t));
  SEXP strings = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)n));
  for (uint32_t i = 0; i < n; i++) {
    SET_STRING_ELT(strings, (R_xlen_t)i, read_string(reader));
  }
  UNPROTECT(1);
  return strings;
}

static SEXP read_vector(struct reader *reader, enum node_type type,
                        uint32_t n) {
  check_count(reader, n, vectors[type].size);
  const size_t size = n * vectors[type].size;
  SEXP x = Rf_allocVector((SEXPTYPE)vectors[type].type, (R_xlen_t)n);
  void *to = type == NODE_LOGICAL   ? (void *)LOGICAL(x)
             : type == NODE_INTEGER ? (void *)INTEGER(x)
             : type == NODE_REAL    ? (void *)REAL(x)
             : type == NODE_COMPLEX ? (void *)COMPLEX(x)
                                    : (void *)RAW(x);
  if (size > 0) memcpy(to, get(reader, size), size);
  return x;
}

static SEXP read_node(struct reader *reader, int depth);

static SEXP read_list(struct reader *reader, uint32_t n, int depth) {
  check_count(reader, n, 1 + sizeof(uint32_t));
  if (depth > DEPTH_MAX) Rf_error("a message has too many lists in lists");
  SEXP list = PROTECT(Rf_allocVector(VECSXP, (R_xlen_t)n));
  for (uint32_t i = 0; i < n; i++) {
    SET_VECTOR_ELT(list, (R_xlen_t)i, read_node(reader, depth + 1));
  }
  UNPROTECT(1);
  return list;
}

static SEXP read_names(struct reader *reader, SEXP x) {
  PROTECT(x);
  const uint8_t type = *get(reader, 1);
  const uint32_t n = get_count(reader);
  if (type != NODE_STRINGS || n != (size_t)Rf_xlength(x)) {
    Rf_error("corrupt message: invalid names");
  }
  SEXP names = PROTECT(read_strings(reader, n));
  Rf_setAttrib(x, R_NamesSymbol, names);
  UNPROTECT(2);
  return x;
}

static SEXP read_node(struct reader *reader, int depth) {
  const uint8_t byte = *get(reader, 1);
  const enum node_type type = (enum node_type)(byte & ~NAMED);
  const uint32_t n = get_count(reader);
  SEXP x = R_NilValue;
  switch (type) {
  case NODE_NULL:
    return R_NilValue;
  case NODE_FUNCTION:
    return read_function(get(reader, n), n);
  case NODE_STRINGS:
    x = read_strings(reader, n);
    break;
  case NODE_LIST:
    x = read_list(reader, n, depth);
    break;
  case NODE_LOGICAL:
  case NODE_INTEGER:
  case NODE_REAL:
  case NODE_COMPLEX:
  case NODE_RAW:
    x = read_vector(reader, type, n);
    break;
  default:
    Rf_error("a message has an object of an unknown type");
  }
  return (byte & NAMED) != 0 ? read_names(reader, x) : x;
}

int ffi_is_plain(const uint8_t *bytes, size_t n) {
  return n > 0 && bytes[0] == MARK;
}

SEXP ffi_read_plain(const uint8_t *bytes, size_t n) {
  struct reader reader = {.next = bytes + 1, .end = bytes + n};
  SEXP x = PROTECT(read_node(&reader, 0));
  if (reader.next != reader.end)
    Rf_error("corrupt message: bytes after its object");
  UNPROTECT(1);
  return x;
}
