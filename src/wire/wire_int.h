// wire_int: little-endian integers, only for the files of wire/.
//
// Written as shifts of single bytes, so that neither the machine's byte order nor alignment
// matters; gcc and clang make one move of each.
#ifndef MST_WIRE_INT_H
#define MST_WIRE_INT_H

#include <stdint.h>

static inline void put_u16(uint8_t *out, uint16_t value) {
  out[0] = (uint8_t)(value & 0xFFu);
  out[1] = (uint8_t)(value >> 8);
}

static inline void put_u32(uint8_t *out, uint32_t value) {
  put_u16(out, (uint16_t)(value & 0xFFFFu));
  put_u16(out + 2, (uint16_t)(value >> 16));
}

static inline void put_u64(uint8_t *out, uint64_t value) {
  put_u32(out, (uint32_t)(value & 0xFFFFFFFFu));
  put_u32(out + 4, (uint32_t)(value >> 32));
}

static inline uint16_t get_u16(const uint8_t *bytes) {
  return (uint16_t)(bytes[0] | (unsigned)bytes[1] << 8);
}

static inline uint32_t get_u32(const uint8_t *bytes) {
  return get_u16(bytes) | (uint32_t)get_u16(bytes + 2) << 16;
}

static inline uint64_t get_u64(const uint8_t *bytes) {
  return get_u32(bytes) | (uint64_t)get_u32(bytes + 4) << 32;
}

#endif
