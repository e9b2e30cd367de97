// Bytes to frames and back. See wire.h.
//
// Problem: a stream socket cuts frames anywhere, and the bytes may come from a broken or hostile
// peer. No byte past n may be read, no length may be trusted before it is checked, and garbage must
// be reported early: a peer that speaks another protocol gets its answer after one byte, not after
// 40.
//
// Way: no state. The caller keeps what it has received and asks again from the start of the frame;
// fields are checked in the order in which they arrive, and a verdict never changes when more bytes
// come. Asking again reads 40 bytes at most, whatever the length of the payload.
//
// Not chosen: a struct laid over the bytes (byte order, alignment, padding), and a parser that
// takes byte by byte (each connection needs a state, and each state a test).
#include "wire/wire.h"

#include "base/mst_assert.h"
#include "base/mst_err.h"
#include "wire/wire_int.h"

// Where each field of the header starts.
enum {
  AT_MAGIC = 0,
  AT_VERSION = 2,
  AT_KIND = 3,
  AT_FLAGS = 4,
  AT_ATTEMPT = 6,
  AT_CLUSTER = 8,
  AT_WORKER = 12,
  AT_EPOCH = 16,
  AT_RESERVED = 20,
  AT_CALL = 24,
  AT_LENGTH = 32
};
_Static_assert(AT_LENGTH + 8 == MST_HEAD_BYTES, "length is the last field");

#define KIND_BIT(kind) (UINT64_C(1) << (kind))
_Static_assert(MST_KIND_MAX < 64, "each kind has a bit of kinds_known");

static const uint64_t kinds_known =
    KIND_BIT(MST_KIND_HELLO) | KIND_BIT(MST_KIND_SETUP) |
    KIND_BIT(MST_KIND_READY) | KIND_BIT(MST_KIND_FAILED) |
    KIND_BIT(MST_KIND_EXEC) | KIND_BIT(MST_KIND_VALUE) |
    KIND_BIT(MST_KIND_BYE) | KIND_BIT(MST_KIND_REFUSE) |
    KIND_BIT(MST_KIND_SEED) | KIND_BIT(MST_KIND_CHECKPOINT) |
    KIND_BIT(MST_KIND_CHECKPOINTED) | KIND_BIT(MST_KIND_JOB) |
    KIND_BIT(MST_KIND_DROP) | KIND_BIT(MST_KIND_TRIM) |
    KIND_BIT(MST_KIND_DIAL) | KIND_BIT(MST_KIND_ADMIT) |
    KIND_BIT(MST_KIND_CANCEL) | KIND_BIT(MST_KIND_PING) |
    KIND_BIT(MST_KIND_PONG) | KIND_BIT(MST_KIND_WITHDRAW) |
    KIND_BIT(MST_KIND_SERVER_READY) | KIND_BIT(MST_KIND_SERVER_REFUSE) |
    KIND_BIT(MST_KIND_FORK) | KIND_BIT(MST_KIND_FORKED) |
    KIND_BIT(MST_KIND_FORK_FAILED) | KIND_BIT(MST_KIND_EXITED) |
    KIND_BIT(MST_KIND_SIGNAL) | KIND_BIT(MST_KIND_STANDBY) |
    KIND_BIT(MST_KIND_ADOPT) | KIND_BIT(MST_KIND_HOST) |
    KIND_BIT(MST_KIND_SERVER) | KIND_BIT(MST_KIND_REMOVE) |
    KIND_BIT(MST_KIND_LEAVING) | KIND_BIT(MST_KIND_WANT) |
    KIND_BIT(MST_KIND_HAVE) | KIND_BIT(MST_KIND_NONE) |
    KIND_BIT(MST_KIND_MEET) | KIND_BIT(MST_KIND_MET);

static int kind_known(uint8_t kind) {
  return kind <= MST_KIND_MAX && (kinds_known & KIND_BIT(kind)) != 0;
}

static int flags_known(uint16_t flags) {
  return (flags & ~MST_FLAGS_KNOWN) == 0;
}

void mst_head_encode(const struct mst_head *head, uint8_t out[MST_HEAD_BYTES]) {
  MST_ASSERT(kind_known(head->kind));
  MST_ASSERT(flags_known(head->flags));
  MST_ASSERT(head->length <= MST_FRAME_MAX);
  put_u16(out + AT_MAGIC, MST_WIRE_MAGIC);
  out[AT_VERSION] = MST_WIRE_VERSION;
  out[AT_KIND] = head->kind;
  put_u16(out + AT_FLAGS, head->flags);
  put_u16(out + AT_ATTEMPT, head->attempt);
  put_u32(out + AT_CLUSTER, head->cluster);
  put_u32(out + AT_WORKER, head->worker);
  put_u32(out + AT_EPOCH, head->epoch);
  put_u32(out + AT_RESERVED, 0);
  put_u64(out + AT_CALL, head->call);
  put_u64(out + AT_LENGTH, head->length);
}

// Checks those of the first n bytes that have only one valid value.
static int head_possible(const uint8_t *bytes, size_t n) {
  if (n > AT_MAGIC && bytes[AT_MAGIC] != (MST_WIRE_MAGIC & 0xFFu)) return 0;
  if (n > AT_MAGIC + 1 && bytes[AT_MAGIC + 1] != MST_WIRE_MAGIC >> 8) return 0;
  if (n > AT_VERSION && bytes[AT_VERSION] != MST_WIRE_VERSION) return 0;
  if (n > AT_KIND && !kind_known(bytes[AT_KIND])) return 0;
  if (n >= AT_FLAGS + 2 && !flags_known(get_u16(bytes + AT_FLAGS))) return 0;
  if (n >= AT_RESERVED + 4 && get_u32(bytes + AT_RESERVED) != 0) return 0;
  return 1;
}

int mst_head_decode(const uint8_t *bytes, size_t n, uint64_t length_max,
                    struct mst_head *head) {
  if (!head_possible(bytes, n)) return -MST_EPROTO;
  if (n < MST_HEAD_BYTES) return 0;
  const uint64_t length = get_u64(bytes + AT_LENGTH);
  if (length > length_max || length > MST_FRAME_MAX) return -MST_ELIMIT;
  head->kind = bytes[AT_KIND];
  head->flags = get_u16(bytes + AT_FLAGS);
  head->attempt = get_u16(bytes + AT_ATTEMPT);
  head->cluster = get_u32(bytes + AT_CLUSTER);
  head->worker = get_u32(bytes + AT_WORKER);
  head->epoch = get_u32(bytes + AT_EPOCH);
  head->call = get_u64(bytes + AT_CALL);
  head->length = length;
  return (int)MST_HEAD_BYTES;
}

int mst_frame_parse(const uint8_t *bytes, size_t n, uint64_t length_max,
                    struct mst_frame *frame, uint64_t *used) {
  *used = 0;
  struct mst_head head;
  const int rc = mst_head_decode(bytes, n, length_max, &head);
  if (rc <= 0) return rc;
  // The decoder rejects lengths past MST_FRAME_MAX, so the sum fits 64 bits; n is widened because
  // size_t may be narrower.
  *used = MST_HEAD_BYTES + head.length;
  if ((uint64_t)n < *used) return 0;
  frame->head = head;
  frame->payload = bytes + MST_HEAD_BYTES;
  return 1;
}
