// wire: bytes to frames, frames to messages. Pure: no socket, no clock, no R,
// no allocation. docs/PROTOCOL.md says the same for writers of other clients.
//
// A frame is a header of 40 bytes and a payload. All integers are little-endian, whatever the
// machine. The kind says what the payload is; R objects in it ("R bytes") are in R's serialization
// format and opaque here.
#ifndef MST_WIRE_H
#define MST_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define MST_WIRE_VERSION 1
#define MST_WIRE_MAGIC 0x734Du // the bytes 'M' 's'
#define MST_HEAD_BYTES 40u

// A payload may hold an object of 10 GB and more; a length past 2^42 bytes (4 TiB) means a broken
// or hostile header, not data.
#define MST_FRAME_MAX (UINT64_C(1) << 42)
// The limit until a peer's hello is complete.
#define MST_FRAME_MAX_HELLO UINT64_C(4096)
// Control and fork server messages are small; their texts are cut to fit.
#define MST_FRAME_MAX_CONTROL UINT64_C(65536)
// Longest text in a fixed message (paths, reasons), bytes without the length.
#define MST_TEXT_MAX 4000u

enum mst_kind {
  // session and worker, data channel; a fork server is also sent SETUP and may
  // answer FAILED
  MST_KIND_HELLO = 1,         // worker first: who and what it is
  MST_KIND_SETUP = 2,         // session: R bytes, how to set up the worker
  MST_KIND_READY = 3,         // worker: set-up is done, gives its tempdir
  MST_KIND_FAILED = 4,        // worker: set-up failed, text; it ends after this
  MST_KIND_EXEC = 5,          // session: R bytes, a call to evaluate
  MST_KIND_VALUE = 6,         // worker: times and R bytes, its answer
  MST_KIND_BYE = 7,           // session: end when earlier calls are done
  MST_KIND_REFUSE = 8,        // either: text, why the peer is not accepted
  MST_KIND_SEED = 9,          // session: position of the random number stream
  MST_KIND_CHECKPOINT = 10,   // session: make a standby, see fork/standby.c
  MST_KIND_CHECKPOINTED = 11, // worker: whether there is one
  MST_KIND_JOB = 12,  // session: R bytes that calls need, numbered by head.call
  MST_KIND_DROP = 13, // session: job head.call is not needed any more
  MST_KIND_TRIM =
      19, // session: give back memory that R doesn't use; worker: it did
  // worker: wants to be this worker
  MST_KIND_DIAL = 14,  // session: accepted
  MST_KIND_ADMIT = 15, // session: it is
  // session and worker, control channel
  MST_KIND_PING = 16, // either: 8 bytes to be sent back
  MST_KIND_PONG = 17,
  // session: calls up to head.call aren't wanted; worker: it ends, since head.call went on then
  MST_KIND_CANCEL = 18,
  MST_KIND_STANDBY = 20, // session: the channel's end for the next standby
  // session: head.call isn't to begin, if it hasn't; worker: it won't
  MST_KIND_WITHDRAW = 21,
  // 22 to 31 are kept free for the control channel
  // session and fork server
  MST_KIND_SERVER_READY = 32,  // server: booted, may be asked to fork
  MST_KIND_SERVER_REFUSE = 33, // server: text, why it must not fork
  MST_KIND_FORK = 34,          // session: one worker, with its descriptors
  MST_KIND_FORKED = 35,        // server, standby: pid
  MST_KIND_FORK_FAILED = 36,   // server: errno
  MST_KIND_EXITED = 37,        // server: how a worker ended
  MST_KIND_SIGNAL = 38,        // session: signal to a worker's process group
  MST_KIND_ADOPT = 39,         // session: a child that is a worker from now on
  // session and host process
  MST_KIND_HOST = 40,   // host process: R bytes, what the host is
  MST_KIND_SERVER = 41, // session: R bytes, start a fork server with these ends
  MST_KIND_REMOVE =
      42, // session: text, the directory of a worker that has ended
  MST_KIND_LEAVING = 43, // host process: it was told to end
  // 44 to 47 are kept free for host processes
  // links between workers, see link_msg.h
  MST_KIND_WANT = 48, // either: asks for the blocks of a map task
  MST_KIND_HAVE = 49, // either: the blocks
  MST_KIND_NONE = 50, // either: the blocks aren't here
  MST_KIND_MEET = 51, // from the one that connects: who it is, whom it wants
  MST_KIND_MET = 52,  // the listener's answer: the same bytes, accepted
  // 53 to 63 are kept free for links between workers
  MST_KIND_MAX = 63
};

// Bits of the header's flags.
// VALUE: the call raised an error.
#define MST_FLAG_ERROR 0x0001u
// VALUE: the call changed the worker's state.
#define MST_FLAG_STATE 0x0002u
// R bytes are in R's portable big-endian form.
#define MST_FLAG_XDR 0x0004u
// EXEC, VALUE: replay of a journal; only the effect counts.
#define MST_FLAG_REPLAY 0x0008u
// VALUE: the call used a generator other than L'Ecuyer's.
#define MST_FLAG_RNG 0x0010u
// VALUE: the stream's position follows the times.
#define MST_FLAG_SEED 0x0020u
// EXEC: the answer must report conditions and errors.
#define MST_FLAG_TASK 0x0040u
// EXEC, JOB, VALUE, HAVE: with a segment; its size precedes the R bytes, or comes first.
#define MST_FLAG_SEGMENT 0x0080u
// VALUE: sent before the call's answer, which follows.
#define MST_FLAG_EARLY 0x0100u
#define MST_FLAGS_KNOWN 0x01FFu

struct mst_head {
  uint8_t kind;     // enum mst_kind
  uint16_t flags;   // MST_FLAG_*
  uint16_t attempt; // which try of this call, from 0
  uint32_t cluster; // cluster of the session, from 1; 0 if there is none
  uint32_t worker;  // index in the cluster, from 0
  uint32_t epoch;   // incarnation of the worker, from 0
  uint64_t call;   // call id, from 1; the job's id in JOB and DROP; 0 in others
  uint64_t length; // payload bytes
};

// mst_head_encode writes the 40 bytes of head to out. Asserts that the kind and
// the flags are known and that length is at most MST_FRAME_MAX.
void mst_head_encode(const struct mst_head *head, uint8_t out[MST_HEAD_BYTES]);

// mst_head_decode reads a header from n bytes. Returns MST_HEAD_BYTES if head was filled, 0 if n is
// too small for a verdict, -MST_EPROTO for bytes that can't be a header (each field is checked as
// soon as it is there: a wrong first byte is reported at once), -MST_ELIMIT if the length exceeds
// length_max or MST_FRAME_MAX. Unknown flags, kinds and a nonzero reserved field are -MST_EPROTO.
// head is changed only when it is filled. bytes may be NULL if n is 0.
int mst_head_decode(const uint8_t *bytes, size_t n, uint64_t length_max,
                    struct mst_head *head);

// A whole frame inside a buffer: payload points into the bytes given.
struct mst_frame {
  struct mst_head head;
  const uint8_t *payload;
};

// mst_frame_parse looks for one whole frame at the start of n bytes. Returns 1 and fills frame and
// *used; 0 if more bytes are needed (*used is the size of the whole frame if its header is there,
// else 0); errors of mst_head_decode, with *used 0. Only 1 changes frame. The size never overflows.
int mst_frame_parse(const uint8_t *bytes, size_t n, uint64_t length_max,
                    struct mst_frame *frame, uint64_t *used);

// The fixed messages. Encoders write into out[cap] and return the number of bytes written, or
// -MST_ELIMIT; they cut texts longer than MST_TEXT_MAX between two characters, and assert the
// ranges that decoders check. Decoders check every length and range, reject unused bytes (except
// mst_value_head_decode, which the R bytes follow), and return 0, or -MST_EPROTO and leave their
// output unspecified. Decoded texts are copied and end with NUL; a NUL inside is -MST_EPROTO.

// The most that mst_hello_encode and mst_text_encode write.
#define MST_HELLO_BYTES_MAX 81u
#define MST_TEXT_BYTES_MAX (4u + MST_TEXT_MAX)

struct mst_hello {
  uint16_t version_min; // oldest protocol version the sender speaks, from 1
  uint16_t version_max; // newest, at least version_min
  uint8_t big_endian;   // 1 if the sender's R bytes would be big-endian
  uint8_t forked;       // 1 if forked by a fork server, 0 if booted alone
  uint32_t pid;         // 1 to INT32_MAX, so that (pid_t)pid is never negative
  uint32_t r_version;   // as 0x00MMmmpp
  char build[64];       // muster's version and build
};
int mst_hello_encode(const struct mst_hello *hello, uint8_t *out, size_t cap);
int mst_hello_decode(const uint8_t *bytes, size_t n, struct mst_hello *hello);

// Times of one evaluation, before the R bytes of VALUE: three finite doubles. They may be negative:
// the wall clock may be set while a call runs.
#define MST_VALUE_HEAD_BYTES 24u
struct mst_value_head {
  double user_s;
  double system_s;
  double elapsed_s;
};
// mst_value_skip gives the number of bytes before the R bytes of a VALUE with these flags.
size_t mst_value_skip(uint16_t flags);
void mst_value_head_encode(const struct mst_value_head *value,
                           uint8_t out[MST_VALUE_HEAD_BYTES]);
int mst_value_head_decode(const uint8_t *bytes, size_t n,
                          struct mst_value_head *value);

// Position of L'Ecuyer's random number stream: R's .Random.seed, 7 integers. The payload of SEED;
// in a VALUE with MST_FLAG_SEED it follows the times.
#define MST_SEED_WORDS 7
#define MST_SEED_BYTES 28u
struct mst_seed {
  uint8_t known; // 0: the rest is meaningless; not on the wire
  int32_t words[MST_SEED_WORDS];
};
void mst_seed_encode(const struct mst_seed *seed, uint8_t out[MST_SEED_BYTES]);
// mst_seed_decode reads n bytes and ignores those past MST_SEED_BYTES; the first word must be one
// of R's kinds with L'Ecuyer's generator.
int mst_seed_decode(const uint8_t *bytes, size_t n, struct mst_seed *seed);

// The size of the segment of an EXEC, a JOB or a VALUE: before its R bytes, which refer to the
// segment. From 1 to MST_FRAME_MAX.
#define MST_SEGMENT_BYTES 8u
void mst_segment_encode(uint64_t size, uint8_t out[MST_SEGMENT_BYTES]);
// mst_segment_decode reads n bytes and ignores those past MST_SEGMENT_BYTES.
int mst_segment_decode(const uint8_t *bytes, size_t n, uint64_t *size);

// CANCEL: how long the call may go on after its interrupt, in milliseconds.
#define MST_CANCEL_BYTES 4u
void mst_cancel_encode(uint32_t grace_ms, uint8_t out[MST_CANCEL_BYTES]);
int mst_cancel_decode(const uint8_t *bytes, size_t n, uint32_t *grace_ms);

// CHECKPOINTED: whether a standby was made (0, or the errno that prevented it), and how long it
// took.
struct mst_checkpointed {
  int32_t sys_errno; // from 0
  uint64_t cost_ns;
};
#define MST_CHECKPOINTED_BYTES 12u
void mst_checkpointed_encode(const struct mst_checkpointed *made,
                             uint8_t out[MST_CHECKPOINTED_BYTES]);
int mst_checkpointed_decode(const uint8_t *bytes, size_t n,
                            struct mst_checkpointed *made);

// SERVER_READY: pid and number of threads seen; FORKED, ADOPT: pid in `pid`; FORK_FAILED: errno in
// `number`; EXITED: pid, and wait status in two parts; SIGNAL: signal number. The header has
// worker, epoch and cluster.
struct mst_proc_msg {
  uint32_t pid;   // at most INT32_MAX, 0 if unused
  uint32_t how;   // enum mst_exit
  int32_t number; // exit code, signal, errno or thread count, by kind and how
};
enum mst_exit {
  MST_EXIT_NONE = 0,
  MST_EXIT_CODE = 1,    // ended by itself; number is the exit code, 0 to 255
  MST_EXIT_SIGNAL = 2,  // killed by a signal; number is the signal, 1 to 127
  MST_EXIT_UNKNOWN = 3, // gone, its status is unknown
  MST_EXIT_MEMORY =
      4 // EXITED alone: killed by SIGKILL, it seems by the system for memory
};
#define MST_PROC_MSG_BYTES 12u
void mst_proc_msg_encode(const struct mst_proc_msg *msg,
                         uint8_t out[MST_PROC_MSG_BYTES]);
int mst_proc_msg_decode(const uint8_t *bytes, size_t n,
                        struct mst_proc_msg *msg);

// One text: READY (tempdir), FAILED, REFUSE, SERVER_REFUSE. Length as u32, then
// the bytes (UTF-8 or the worker's locale, without NUL).
int mst_text_encode(const char *text, uint8_t *out, size_t cap);
int mst_text_decode(const uint8_t *bytes, size_t n,
                    char out[MST_TEXT_MAX + 1u]);

#endif
