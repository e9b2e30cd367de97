// scan: finds the end of an object in R's serialization format.
//
// R's own workers send their messages one after the other, without lengths: only parsing an object
// shows where it ends. If R itself read them it would wait inside R_Unserialize, where an interrupt
// leaves half a message behind and one slow worker holds up all others. So the bytes are kept until
// this parser says that a whole object is there. Pure: no socket, no clock, no R. Any thread, with
// a scan of its own.
//
// Formats: binary "X\n" (big-endian) and "B\n" (this machine's order), versions 2 and 3, with
// everything that serialize() writes in them, see R-ints, "Serialization Formats", and R's
// src/main/serialize.c.
#ifndef MST_STOCK_PARSE_H
#define MST_STOCK_PARSE_H

#include <stddef.h>
#include <stdint.h>

// Deeper nesting would overflow R's own stack.
#define MST_STOCK_PARSE_DEPTH_MAX 1000000u

struct mst_stock_parse_op {
  uint32_t kind;  // enum in parse.c
  uint64_t count; // how many are still to come
};

struct mst_stock_parse {
  struct mst_stock_parse_op *stack; // what is still to come, last first; owned
  size_t depth, cap;
  size_t at;     // bytes parsed so far
  uint64_t skip; // bytes of content still to skip
  uint8_t format;
  uint8_t begun; // the header was read
};

// mst_stock_parse_run parses a message's bytes, given from its start. If it returns 0, call it
// again with more bytes; those before must be unchanged. 1: the first *size bytes are a complete
// object.
// -MST_EPROTO: not a known format. -MST_ELIMIT: nested too deep, or longer than the address space.
// -MST_EMEM.
int mst_stock_parse_run(struct mst_stock_parse *scan, const uint8_t *bytes,
                        size_t n, size_t *size);

// mst_stock_parse_reset prepares it for another message; it keeps the memory.
void mst_stock_parse_reset(struct mst_stock_parse *scan);
void mst_stock_parse_free(struct mst_stock_parse *scan);

#endif
