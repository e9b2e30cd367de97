// scan: where an object of R's serialization ends.
//
// R's own workers put their messages on the wire one after the other, without lengths:
// only who reads an object knows where it ends. Reading them by R itself would mean to
// wait inside of R_Unserialize, where an interrupt leaves half a message behind and one
// slow worker holds up all others. So the bytes are kept until this parser says that a
// whole object is there. Pure: no socket, no clock, no R. Any thread, its own scan.
//
// Formats: binary "X\n" (big-endian) and "B\n" (this machine's order), versions 2 and 3,
// with everything that serialize() writes of them, see R-ints, "Serialization Formats",
// and R's src/main/serialize.c.
#ifndef MST_STOCK_PARSE_H
#define MST_STOCK_PARSE_H

#include <stddef.h>
#include <stdint.h>

// Deeper nesting than this would end R's own stack before.
#define MST_STOCK_PARSE_DEPTH_MAX 1000000u

struct mst_stock_parse_op {
  uint32_t kind;  // enum in parse.c
  uint64_t count; // how many are still to come
};

struct mst_stock_parse {
  struct mst_stock_parse_op *stack; // what is still to come, last first; owned
  size_t depth, cap;
  size_t at;     // bytes looked at so far
  uint64_t skip; // of the content that `at` is in
  uint8_t format;
  uint8_t begun; // the header was read
};

// mst_stock_parse_run looks at a message's bytes from its first on. Call it again with more bytes
// when it returns 0; what it has seen must stay the same. 1: the message's first *size
// bytes are an object. -MST_EPROTO: no such format. -MST_ELIMIT: nested too deep or
// longer than an address. -MST_EMEM.
int mst_stock_parse_run(struct mst_stock_parse *scan, const uint8_t *bytes,
                        size_t n, size_t *size);

// mst_stock_parse_reset makes it ready for another message; the memory is kept.
void mst_stock_parse_reset(struct mst_stock_parse *scan);
void mst_stock_parse_free(struct mst_stock_parse *scan);

#endif
