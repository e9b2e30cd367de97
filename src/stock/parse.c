// The parser of parse.h.
//
// A stack of what is still to come replaces R's recursion. Each step reads one unit (an integer or
// two) if all of it is there, and pushes what follows, so the parser can stop after any byte. The
// last of several items is popped before its parts are pushed: a list of a million elements, which
// is a chain of tails, needs one entry.
#include "stock/parse.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_err.h"

enum op {
  OP_ITEM,      // objects
  OP_LENGTH,    // of a vector with elements of `count` bytes; then its content
  OP_OBJECTS,   // length of a vector of objects; then the objects
  OP_STRINGS,   // 0 and a length; then that number of objects
  OP_BYTES,     // length; then the bytes
  OP_WORD,      // ignored integers
  OP_ENV,       // whether it is locked; then four objects
  OP_CODE,      // byte code: size of its table of references; then its body
  OP_CONSTANTS, // number of byte code's constants; then these
  OP_CONSTANT,  // constants, each after its type
  OP_LANG       // calls and lists inside byte code, each after its type
};

// Types, from R's Rinternals.h and serialize.c.
enum type {
  T_SYM = 1,
  T_LIST = 2,
  T_CLO = 3,
  T_ENV = 4,
  T_PROM = 5,
  T_LANG = 6,
  T_SPECIAL = 7,
  T_BUILTIN = 8,
  T_CHAR = 9,
  T_LGL = 10,
  T_INT = 13,
  T_REAL = 14,
  T_CPLX = 15,
  T_STR = 16,
  T_DOT = 17,
  T_VEC = 19,
  T_EXPR = 20,
  T_BCODE = 21,
  T_EXTPTR = 22,
  T_WEAKREF = 23,
  T_RAW = 24,
  T_S4 = 25,
  T_ALTREP = 238,
  T_ATTRLIST = 239,
  T_ATTRLANG = 240,
  T_BASEENV = 241,
  T_EMPTYENV = 242,
  T_BCREPREF = 243,
  T_BCREPDEF = 244,
  T_PERSIST = 247,
  T_PACKAGE = 248,
  T_NAMESPACE = 249,
  T_BASENAMESPACE = 250,
  T_MISSINGARG = 251,
  T_UNBOUND = 252,
  T_GLOBALENV = 253,
  T_NILVALUE = 254,
  T_REF = 255
};

#define HAS_ATTRIBUTES 0x200u
#define HAS_TAG 0x400u
// The longest vector in R.
#define LENGTH_MAX (UINT64_C(1) << 52)
#define NATIVE_NAME_MAX 64u

static int push(struct mst_stock_parse *scan, enum op kind, uint64_t count) {
  if (count == 0 && kind == OP_ITEM) return 0;
  if (scan->depth == scan->cap) {
    if (scan->cap >= MST_STOCK_PARSE_DEPTH_MAX) return -MST_ELIMIT;
    const size_t cap = scan->cap == 0 ? 64 : scan->cap * 2;
    struct mst_stock_parse_op *grown =
        realloc(scan->stack, cap * sizeof *grown);
    if (grown == NULL) return -MST_EMEM;
    scan->stack = grown;
    scan->cap = cap;
  }
  scan->stack[scan->depth++] =
      (struct mst_stock_parse_op){.kind = (uint32_t)kind, .count = count};
  return 0;
}

// push2 pushes `next` below `first`.
static int push2(struct mst_stock_parse *scan, enum op first,
                 uint64_t first_count, enum op next, uint64_t next_count) {
  const int rc = push(scan, next, next_count);
  return rc != 0 ? rc : push(scan, first, first_count);
}

// word_at reads the integer at `offset` bytes from the parser's position.
static uint32_t word_at(const struct mst_stock_parse *scan,
                        const uint8_t *bytes, size_t offset) {
  const uint8_t *at = bytes + scan->at + offset;
  if (scan->format == 'X') {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
           (uint32_t)at[2] << 8 | (uint32_t)at[3];
  }
  uint32_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

// Skips `count` elements of `size` bytes.
static int skip(struct mst_stock_parse *scan, uint64_t count, uint64_t size) {
  if (count > LENGTH_MAX) return -MST_EPROTO;
  scan->skip = count * size;
  return 0;
}

// length_of reads a vector's length: one integer, or three for a long one. 1, or 0 if it isn't
// complete yet.
static int length_of(struct mst_stock_parse *scan, const uint8_t *bytes,
                     size_t n, uint64_t *length) {
  if (n - scan->at < 4) return 0;
  const int32_t plain = (int32_t)word_at(scan, bytes, 0);
  if (plain >= 0) {
    *length = (uint64_t)plain;
    scan->at += 4;
    return 1;
  }
  if (plain != -1) return -MST_EPROTO;
  if (n - scan->at < 12) return 0;
  *length = (uint64_t)word_at(scan, bytes, 4) << 32 | word_at(scan, bytes, 8);
  scan->at += 12;
  return *length > LENGTH_MAX ? -MST_EPROTO : 1;
}

// begin_item pushes the parts of an object with these flags.
static int begin_item(struct mst_stock_parse *scan, uint32_t flags) {
  const uint64_t attributes = (flags & HAS_ATTRIBUTES) != 0;
  const uint64_t tag = (flags & HAS_TAG) != 0;
  switch ((enum type)(flags & 0xffu)) {
  case T_NILVALUE:
  case T_EMPTYENV:
  case T_BASEENV:
  case T_GLOBALENV:
  case T_UNBOUND:
  case T_MISSINGARG:
  case T_BASENAMESPACE:
    return 0;
  case T_REF:
    return flags >> 8 != 0 ? 0 : push(scan, OP_WORD, 1);
  case T_PERSIST:
  case T_PACKAGE:
  case T_NAMESPACE:
    return push(scan, OP_STRINGS, 1);
  case T_ENV:
    return push(scan, OP_ENV, 1);
  case T_SYM:
    return push(scan, OP_ITEM, 1);
  case T_LIST:
  case T_LANG:
  case T_CLO:
  case T_PROM:
  case T_DOT:
    return push(scan, OP_ITEM, 2 + attributes + tag);
  case T_ALTREP:
    return push(scan, OP_ITEM, 3);
  case T_EXTPTR:
    return push(scan, OP_ITEM, 2 + attributes);
  case T_WEAKREF:
  case T_S4:
    return push(scan, OP_ITEM, attributes);
  case T_SPECIAL:
  case T_BUILTIN:
  case T_CHAR:
    return push2(scan, OP_BYTES, 1, OP_ITEM, attributes);
  case T_LGL:
  case T_INT:
    return push2(scan, OP_LENGTH, 4, OP_ITEM, attributes);
  case T_REAL:
    return push2(scan, OP_LENGTH, 8, OP_ITEM, attributes);
  case T_CPLX:
    return push2(scan, OP_LENGTH, 16, OP_ITEM, attributes);
  case T_RAW:
    return push2(scan, OP_LENGTH, 1, OP_ITEM, attributes);
  case T_STR:
  case T_VEC:
  case T_EXPR:
    return push2(scan, OP_OBJECTS, 1, OP_ITEM, attributes);
  case T_BCODE:
    return push2(scan, OP_CODE, 1, OP_ITEM, attributes);
  default:
    return -MST_EPROTO;
  }
}

// begin_body pushes byte code: its instructions, then its constants.
static int begin_body(struct mst_stock_parse *scan) {
  return push2(scan, OP_ITEM, 1, OP_CONSTANTS, 1);
}

// begin_lang pushes the parts of a call or list inside byte code. Its parts are of the same kind,
// and each begins with its type.
static int begin_lang(struct mst_stock_parse *scan, uint32_t type) {
  switch ((enum type)type) {
  case T_BCREPREF:
    return push(scan, OP_WORD, 1);
  case T_LANG:
  case T_LIST:
    return push2(scan, OP_ITEM, 1, OP_LANG, 2);
  case T_ATTRLANG:
  case T_ATTRLIST:
    return push2(scan, OP_ITEM, 2, OP_LANG, 2);
  default:
    return push(scan, OP_ITEM, 1);
  }
}

// A constant follows its type; most are ordinary objects.
static int begin_constant(struct mst_stock_parse *scan, uint32_t type) {
  switch ((enum type)type) {
  case T_BCODE:
    return begin_body(scan);
  case T_LANG:
  case T_LIST:
  case T_BCREPREF:
  case T_ATTRLANG:
  case T_ATTRLIST:
    return begin_lang(scan, type);
  default:
    return push(scan, OP_ITEM, 1);
  }
}

// typed_step takes one part of byte code and the type before it. A definition that is referred to
// later has its number and the real type in between. 1, or 0 if these are incomplete.
static int typed_step(struct mst_stock_parse *scan, const uint8_t *bytes,
                      size_t n, struct mst_stock_parse_op *top) {
  if (n - scan->at < 4) return 0;
  uint32_t type = word_at(scan, bytes, 0);
  size_t used = 4;
  if (type == T_BCREPDEF) {
    if (n - scan->at < 12) return 0;
    type = word_at(scan, bytes, 8);
    used = 12;
    if (type != T_LANG && type != T_LIST && type != T_ATTRLANG &&
        type != T_ATTRLIST) {
      return -MST_EPROTO;
    }
  }
  scan->at += used;
  const int is_constant = top->kind == OP_CONSTANT;
  if (--top->count == 0) scan->depth--;
  const int rc =
      is_constant ? begin_constant(scan, type) : begin_lang(scan, type);
  return rc != 0 ? rc : 1;
}

// counted_step takes a length and pushes what it counts. 1, or 0 if it is incomplete.
static int counted_step(struct mst_stock_parse *scan, const uint8_t *bytes,
                        size_t n, const struct mst_stock_parse_op *top) {
  const enum op kind = (enum op)top->kind;
  const uint64_t size = top->count;
  uint64_t length;
  int rc = length_of(scan, bytes, n, &length);
  if (rc <= 0) return rc;
  scan->depth--;
  rc = kind == OP_LENGTH ? skip(scan, length, size)
                         : push(scan, OP_ITEM, length);
  return rc != 0 ? rc : 1;
}

// word_step takes an integer and what follows from it.
static int word_step(struct mst_stock_parse *scan, const uint8_t *bytes,
                     size_t n, const struct mst_stock_parse_op *top) {
  const enum op kind = (enum op)top->kind;
  const size_t size = kind == OP_STRINGS ? 8 : 4;
  if (n - scan->at < size) return 0;
  const int32_t word = (int32_t)word_at(scan, bytes, size - 4);
  if (kind == OP_STRINGS && word_at(scan, bytes, 0) != 0) return -MST_EPROTO;
  scan->at += size;
  scan->depth--;
  int rc = 0;
  switch (kind) {
  case OP_ENV:
    rc = push(scan, OP_ITEM, 4);
    break;
  case OP_BYTES: // -1: NA
    rc = word < -1 ? -MST_EPROTO : skip(scan, word < 0 ? 0 : (uint64_t)word, 1);
    break;
  case OP_STRINGS:
    rc = word < 0 ? -MST_EPROTO : push(scan, OP_ITEM, (uint64_t)word);
    break;
  case OP_CODE:
    rc = word < 0 ? -MST_EPROTO : begin_body(scan);
    break;
  case OP_CONSTANTS:
    if (word < 0) return -MST_EPROTO;
    if (word > 0) rc = push(scan, OP_CONSTANT, (uint64_t)word);
    break;
  default:
    break;
  }
  return rc != 0 ? rc : 1;
}

static int item_step(struct mst_stock_parse *scan, const uint8_t *bytes,
                     size_t n, struct mst_stock_parse_op *top) {
  if (n - scan->at < 4) return 0;
  const uint32_t flags = word_at(scan, bytes, 0);
  scan->at += 4;
  if (--top->count == 0) scan->depth--;
  const int rc = begin_item(scan, flags);
  return rc != 0 ? rc : 1;
}

static int step(struct mst_stock_parse *scan, const uint8_t *bytes, size_t n) {
  struct mst_stock_parse_op *top = &scan->stack[scan->depth - 1];
  switch ((enum op)top->kind) {
  case OP_ITEM:
    return item_step(scan, bytes, n, top);
  case OP_LENGTH:
  case OP_OBJECTS:
    return counted_step(scan, bytes, n, top);
  case OP_CONSTANT:
  case OP_LANG:
    return typed_step(scan, bytes, n, top);
  default:
    return word_step(scan, bytes, n, top);
  }
}

// begin reads the header. 1, or 0 if it is incomplete.
static int begin(struct mst_stock_parse *scan, const uint8_t *bytes, size_t n) {
  if (n >= 1 && bytes[0] != 'X' && bytes[0] != 'B') return -MST_EPROTO;
  if (n >= 2 && bytes[1] != '\n') return -MST_EPROTO;
  if (n < 14) return 0;
  scan->format = bytes[0];
  scan->at = 2;
  const uint32_t version = word_at(scan, bytes, 0);
  if (version != 2 && version != 3) return -MST_EPROTO;
  if (version == 3) {
    if (n < 18) return 0;
    const uint32_t name = word_at(scan, bytes, 12);
    if (name > NATIVE_NAME_MAX) return -MST_EPROTO;
    scan->skip = name;
    scan->at += 4;
  }
  scan->at += 12;
  scan->begun = 1;
  const int rc = push(scan, OP_ITEM, 1);
  return rc != 0 ? rc : 1;
}

int mst_stock_parse_run(struct mst_stock_parse *scan, const uint8_t *bytes,
                        size_t n, size_t *size) {
  if (!scan->begun) {
    const int rc = begin(scan, bytes, n);
    if (rc <= 0) return rc;
  }
  for (;;) {
    if (scan->skip > 0) {
      const size_t there = n - scan->at;
      const size_t now = scan->skip < there ? (size_t)scan->skip : there;
      scan->at += now;
      scan->skip -= now;
      if (scan->skip > 0) return 0;
    }
    if (scan->depth == 0) {
      *size = scan->at;
      return 1;
    }
    const int rc = step(scan, bytes, n);
    if (rc <= 0) return rc;
  }
}

void mst_stock_parse_reset(struct mst_stock_parse *scan) {
  scan->depth = 0;
  scan->at = 0;
  scan->skip = 0;
  scan->begun = 0;
}

void mst_stock_parse_free(struct mst_stock_parse *scan) {
  free(scan->stack);
  memset(scan, 0, sizeof *scan);
}
