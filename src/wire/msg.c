// The fixed messages: structs to payloads and back. See wire.h.
//
// Each message has one `_valid` function for the ranges of its fields: the encoder asserts it (a
// wrong value is our mistake), the decoder checks it (a wrong value is the peer's). So a decoded
// message encodes to the same bytes, which tests/fuzz relies on.
#include "wire/wire.h"

#include <math.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_err.h"
#include "wire/wire_int.h"

// Pids are passed to kill(), where 0 and negative numbers mean groups and "all".
#define PID_MAX ((uint32_t)INT32_MAX)

// HELLO: where each field starts; the build's bytes follow its length.
enum {
  HELLO_VERSION_MIN = 0,
  HELLO_VERSION_MAX = 2,
  HELLO_BIG_ENDIAN = 4,
  HELLO_FORKED = 5,
  HELLO_ZERO = 6,
  HELLO_PID = 8,
  HELLO_R_VERSION = 12,
  HELLO_BUILD_LENGTH = 16,
  HELLO_BUILD = 18
};
#define HELLO_BUILD_MAX (sizeof((struct mst_hello *)0)->build - 1)
_Static_assert(HELLO_BUILD + HELLO_BUILD_MAX == MST_HELLO_BYTES_MAX,
               "wire.h says how long a HELLO can be");
_Static_assert(MST_HELLO_BYTES_MAX <= MST_FRAME_MAX_HELLO &&
                   MST_TEXT_BYTES_MAX <= MST_FRAME_MAX_HELLO,
               "HELLO and REFUSE fit what is read before a hello");

static int hello_valid(const struct mst_hello *hello) {
  return hello->version_min >= 1 && hello->version_min <= hello->version_max &&
         hello->big_endian <= 1 && hello->forked <= 1 && hello->pid >= 1 &&
         hello->pid <= PID_MAX && hello->r_version >> 24 == 0;
}

int mst_hello_encode(const struct mst_hello *hello, uint8_t *out, size_t cap) {
  const size_t length = strnlen(hello->build, sizeof hello->build);
  MST_ASSERT(hello_valid(hello) && length <= HELLO_BUILD_MAX);
  if (cap < HELLO_BUILD + length) return -MST_ELIMIT;
  put_u16(out + HELLO_VERSION_MIN, hello->version_min);
  put_u16(out + HELLO_VERSION_MAX, hello->version_max);
  out[HELLO_BIG_ENDIAN] = hello->big_endian;
  out[HELLO_FORKED] = hello->forked;
  put_u16(out + HELLO_ZERO, 0);
  put_u32(out + HELLO_PID, hello->pid);
  put_u32(out + HELLO_R_VERSION, hello->r_version);
  put_u16(out + HELLO_BUILD_LENGTH, (uint16_t)length);
  memcpy(out + HELLO_BUILD, hello->build, length);
  return (int)(HELLO_BUILD + length);
}

// Copies a text of exactly n bytes and adds a NUL; out holds n + 1.
static int text_copy(const uint8_t *bytes, size_t n, char *out) {
  if (memchr(bytes, 0, n) != NULL) return -MST_EPROTO;
  memcpy(out, bytes, n);
  out[n] = '\0';
  return 0;
}

int mst_hello_decode(const uint8_t *bytes, size_t n, struct mst_hello *hello) {
  if (n < HELLO_BUILD) return -MST_EPROTO;
  const size_t length = get_u16(bytes + HELLO_BUILD_LENGTH);
  if (length > HELLO_BUILD_MAX || n != HELLO_BUILD + length) return -MST_EPROTO;
  if (get_u16(bytes + HELLO_ZERO) != 0) return -MST_EPROTO;
  hello->version_min = get_u16(bytes + HELLO_VERSION_MIN);
  hello->version_max = get_u16(bytes + HELLO_VERSION_MAX);
  hello->big_endian = bytes[HELLO_BIG_ENDIAN];
  hello->forked = bytes[HELLO_FORKED];
  hello->pid = get_u32(bytes + HELLO_PID);
  hello->r_version = get_u32(bytes + HELLO_R_VERSION);
  if (!hello_valid(hello)) return -MST_EPROTO;
  return text_copy(bytes + HELLO_BUILD, length, hello->build);
}

_Static_assert(sizeof(double) == 8, "a double is IEEE 754 binary64");

static void put_double(uint8_t *out, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_u64(out, bits);
}

static double get_double(const uint8_t *bytes) {
  const uint64_t bits = get_u64(bytes);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int value_head_valid(const struct mst_value_head *value) {
  return isfinite(value->user_s) && isfinite(value->system_s) &&
         isfinite(value->elapsed_s);
}

void mst_value_head_encode(const struct mst_value_head *value,
                           uint8_t out[MST_VALUE_HEAD_BYTES]) {
  MST_ASSERT(value_head_valid(value));
  put_double(out, value->user_s);
  put_double(out + 8, value->system_s);
  put_double(out + 16, value->elapsed_s);
}

int mst_value_head_decode(const uint8_t *bytes, size_t n,
                          struct mst_value_head *value) {
  if (n < MST_VALUE_HEAD_BYTES) return -MST_EPROTO;
  value->user_s = get_double(bytes);
  value->system_s = get_double(bytes + 8);
  value->elapsed_s = get_double(bytes + 16);
  return value_head_valid(value) ? 0 : -MST_EPROTO;
}

// The bits of an int32_t, without C's implementation-defined narrowing.
static int32_t get_i32(const uint8_t *bytes) {
  const uint32_t bits = get_u32(bytes);
  int32_t value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int proc_msg_valid(const struct mst_proc_msg *msg) {
  if (msg->pid > PID_MAX || msg->how > MST_EXIT_MEMORY) return 0;
  // The ranges of WEXITSTATUS and WTERMSIG.
  if (msg->how == MST_EXIT_CODE) return msg->number >= 0 && msg->number <= 255;
  if (msg->how == MST_EXIT_SIGNAL || msg->how == MST_EXIT_MEMORY)
    return msg->number >= 1 && msg->number <= 127;
  return 1;
}

void mst_proc_msg_encode(const struct mst_proc_msg *msg,
                         uint8_t out[MST_PROC_MSG_BYTES]) {
  MST_ASSERT(proc_msg_valid(msg));
  put_u32(out, msg->pid);
  put_u32(out + 4, msg->how);
  put_u32(out + 8, (uint32_t)msg->number);
}

int mst_proc_msg_decode(const uint8_t *bytes, size_t n,
                        struct mst_proc_msg *msg) {
  if (n != MST_PROC_MSG_BYTES) return -MST_EPROTO;
  msg->pid = get_u32(bytes);
  msg->how = get_u32(bytes + 4);
  msg->number = get_i32(bytes + 8);
  return proc_msg_valid(msg) ? 0 : -MST_EPROTO;
}

void mst_checkpointed_encode(const struct mst_checkpointed *made,
                             uint8_t out[MST_CHECKPOINTED_BYTES]) {
  MST_ASSERT(made->sys_errno >= 0);
  put_u32(out, (uint32_t)made->sys_errno);
  put_u64(out + 4, made->cost_ns);
}

int mst_checkpointed_decode(const uint8_t *bytes, size_t n,
                            struct mst_checkpointed *made) {
  if (n != MST_CHECKPOINTED_BYTES) return -MST_EPROTO;
  made->sys_errno = get_i32(bytes);
  made->cost_ns = get_u64(bytes + 4);
  return made->sys_errno >= 0 ? 0 : -MST_EPROTO;
}

#define TEXT_BYTES 4u // where the text starts, after its length

// The number of bytes of text to send. A UTF-8 character has at most three continuation bytes
// (10xxxxxx), so a character starts within three bytes of the limit; otherwise the text is in
// another encoding and is cut at the limit.
static size_t text_length(const char *text) {
  const size_t length = strnlen(text, MST_TEXT_MAX + 1u);
  if (length <= MST_TEXT_MAX) return length;
  for (size_t at = MST_TEXT_MAX; at + 3 >= MST_TEXT_MAX; at--) {
    if (((unsigned char)text[at] & 0xC0u) != 0x80u) return at;
  }
  return MST_TEXT_MAX;
}

int mst_text_encode(const char *text, uint8_t *out, size_t cap) {
  const size_t length = text_length(text);
  if (cap < TEXT_BYTES + length) return -MST_ELIMIT;
  put_u32(out, (uint32_t)length);
  memcpy(out + TEXT_BYTES, text, length);
  return (int)(TEXT_BYTES + length);
}

int mst_text_decode(const uint8_t *bytes, size_t n,
                    char out[MST_TEXT_MAX + 1u]) {
  if (n < TEXT_BYTES) return -MST_EPROTO;
  const uint32_t length = get_u32(bytes);
  if (length > MST_TEXT_MAX || n != TEXT_BYTES + length) return -MST_EPROTO;
  return text_copy(bytes + TEXT_BYTES, length, out);
}

// R's kinds with L'Ecuyer's generator end in 07; the hundreds tell how normal
// variates and samples are made.
static int seed_valid(const struct mst_seed *seed) {
  return seed->words[0] >= 0 && seed->words[0] % 100 == 7;
}

size_t mst_value_skip(uint16_t flags) {
  return MST_VALUE_HEAD_BYTES +
         ((flags & MST_FLAG_SEED) != 0 ? MST_SEED_BYTES : 0) +
         ((flags & MST_FLAG_SEGMENT) != 0 ? MST_SEGMENT_BYTES : 0);
}

void mst_segment_encode(uint64_t size, uint8_t out[MST_SEGMENT_BYTES]) {
  MST_ASSERT(size > 0 && size <= MST_FRAME_MAX);
  put_u64(out, size);
}

int mst_segment_decode(const uint8_t *bytes, size_t n, uint64_t *size) {
  if (n < MST_SEGMENT_BYTES) return -MST_EPROTO;
  const uint64_t value = get_u64(bytes);
  if (value == 0 || value > MST_FRAME_MAX) return -MST_EPROTO;
  *size = value;
  return 0;
}

void mst_seed_encode(const struct mst_seed *seed, uint8_t out[MST_SEED_BYTES]) {
  MST_ASSERT(seed_valid(seed));
  for (size_t i = 0; i < MST_SEED_WORDS; i++) {
    put_u32(out + 4 * i, (uint32_t)seed->words[i]);
  }
}

int mst_seed_decode(const uint8_t *bytes, size_t n, struct mst_seed *seed) {
  if (n < MST_SEED_BYTES) return -MST_EPROTO;
  for (size_t i = 0; i < MST_SEED_WORDS; i++) {
    seed->words[i] = get_i32(bytes + 4 * i);
  }
  seed->known = 1;
  return seed_valid(seed) ? 0 : -MST_EPROTO;
}

void mst_cancel_encode(uint32_t grace_ms, uint8_t out[MST_CANCEL_BYTES]) {
  put_u32(out, grace_ms);
}

int mst_cancel_decode(const uint8_t *bytes, size_t n, uint32_t *grace_ms) {
  if (n != MST_CANCEL_BYTES) return -MST_EPROTO;
  *grace_ms = get_u32(bytes);
  return 0;
}
