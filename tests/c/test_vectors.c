// Golden vectors: tests/wire/*.hex are frames as version 1 of the protocol writes them, as text.
// Each is written from its fields to the same bytes, and read back to the same fields. A change
// here is a change of the protocol: docs/PROTOCOL.md, "Which versions speak together".
//
// Only the place, the size and the form of R bytes are checked here (tests/full/test-wire.R reads
// them).
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_err.h"
#include "dialin/dialin.h"
#include "mst_test.h"
#include "wire/link_msg.h"
#include "wire/wire.h"

#define FOLDER "../wire/"
#define BYTES_MAX 1024u

// A payload's fields, and how to write and read them. `write` gives all bytes except R bytes;
// `read` checks that the same bytes have the same fields.
struct vector {
  const char *file;
  struct mst_head head;
  const void *fields;
  size_t (*write)(const struct vector *vector, uint8_t *out);
  void (*read)(const struct vector *vector, const uint8_t *bytes, size_t n);
};

// ---- no payload, or bytes without meaning for muster

static size_t write_nothing(const struct vector *vector, uint8_t *out) {
  (void)vector, (void)out;
  return 0;
}

static void read_nothing(const struct vector *vector, const uint8_t *bytes,
                         size_t n) {
  (void)vector, (void)bytes;
  CHECK_INT(n, 0);
}

static const uint8_t ping[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static size_t write_ping(const struct vector *vector, uint8_t *out) {
  (void)vector;
  memcpy(out, ping, sizeof ping);
  return sizeof ping;
}

static void read_ping(const struct vector *vector, const uint8_t *bytes,
                      size_t n) {
  (void)vector;
  CHECK_INT(n, sizeof ping);
  CHECK(memcmp(bytes, ping, n) == 0);
}

// ---- fixed messages of wire.h

static const struct mst_hello hello = {.version_min = 1,
                                       .version_max = 1,
                                       .forked = 1,
                                       .pid = 4711,
                                       .r_version = 0x00040202,
                                       .build = "muster 0.1.0"};
static const struct mst_hello hello_newer = {.version_min = 1,
                                             .version_max = 9,
                                             .big_endian = 1,
                                             .pid = INT32_MAX,
                                             .r_version = 0x00040600};

static size_t write_hello(const struct vector *vector, uint8_t *out) {
  return (size_t)mst_hello_encode(vector->fields, out, BYTES_MAX);
}

static void read_hello(const struct vector *vector, const uint8_t *bytes,
                       size_t n) {
  const struct mst_hello *want = vector->fields;
  struct mst_hello got;
  CHECK_INT(mst_hello_decode(bytes, n, &got), 0);
  CHECK_INT(got.version_min, want->version_min);
  CHECK_INT(got.version_max, want->version_max);
  CHECK_INT(got.big_endian, want->big_endian);
  CHECK_INT(got.forked, want->forked);
  CHECK_INT(got.pid, want->pid);
  CHECK_INT(got.r_version, want->r_version);
  CHECK_TEXT(got.build, want->build);
}

static size_t write_text(const struct vector *vector, uint8_t *out) {
  return (size_t)mst_text_encode(vector->fields, out, BYTES_MAX);
}

static void read_text(const struct vector *vector, const uint8_t *bytes,
                      size_t n) {
  char text[MST_TEXT_MAX + 1u];
  CHECK_INT(mst_text_decode(bytes, n, text), 0);
  CHECK_TEXT(text, (const char *)vector->fields);
}

static const uint32_t grace_ms = 5000;

static const struct mst_checkpointed made = {.sys_errno = 0,
                                             .cost_ns = 2100000};

static size_t write_made(const struct vector *vector, uint8_t *out) {
  mst_checkpointed_encode(vector->fields, out);
  return MST_CHECKPOINTED_BYTES;
}

static void read_made(const struct vector *vector, const uint8_t *bytes,
                      size_t n) {
  const struct mst_checkpointed *fields = vector->fields;
  struct mst_checkpointed got;
  CHECK_INT(mst_checkpointed_decode(bytes, n, &got), 0);
  CHECK_INT(got.sys_errno, fields->sys_errno);
  CHECK_INT(got.cost_ns, fields->cost_ns);
}

static size_t write_cancel(const struct vector *vector, uint8_t *out) {
  mst_cancel_encode(*(const uint32_t *)vector->fields, out);
  return MST_CANCEL_BYTES;
}

static void read_cancel(const struct vector *vector, const uint8_t *bytes,
                        size_t n) {
  uint32_t got;
  CHECK_INT(mst_cancel_decode(bytes, n, &got), 0);
  CHECK_INT(got, *(const uint32_t *)vector->fields);
}

static const struct mst_proc_msg server = {.pid = 4700, .number = 1};
static const struct mst_proc_msg forked = {.pid = 4711};
static const struct mst_proc_msg no_fork = {.number = 11};
static const struct mst_proc_msg by_code = {4711, MST_EXIT_CODE, 3};
static const struct mst_proc_msg by_signal = {4711, MST_EXIT_SIGNAL, 9};
static const struct mst_proc_msg unknown_end = {4711, MST_EXIT_UNKNOWN, 0};
static const struct mst_proc_msg for_memory = {4711, MST_EXIT_MEMORY, 9};
static const struct mst_proc_msg terminate = {.pid = 4711, .number = 15};

static size_t write_proc(const struct vector *vector, uint8_t *out) {
  mst_proc_msg_encode(vector->fields, out);
  return MST_PROC_MSG_BYTES;
}

static void read_proc(const struct vector *vector, const uint8_t *bytes,
                      size_t n) {
  const struct mst_proc_msg *want = vector->fields;
  struct mst_proc_msg got;
  CHECK_INT(mst_proc_msg_decode(bytes, n, &got), 0);
  CHECK_INT(got.pid, want->pid);
  CHECK_INT(got.how, want->how);
  CHECK_INT(got.number, want->number);
}

// ---- the part before R bytes

static const struct mst_seed seed = {
    .known = 1, .words = {10407, 1, -1, INT32_MAX, INT32_MIN, 5, 6}};
static const struct mst_value_head times = {.user_s = 0.25, .elapsed_s = -1.5};
static const uint64_t segment_call = 4194304, segment_value = 300000;

static size_t write_seed(const struct vector *vector, uint8_t *out) {
  mst_seed_encode(vector->fields, out);
  return MST_SEED_BYTES;
}

static void read_seed(const struct vector *vector, const uint8_t *bytes,
                      size_t n) {
  const struct mst_seed *want = vector->fields;
  struct mst_seed got;
  CHECK(n >= MST_SEED_BYTES);
  CHECK_INT(mst_seed_decode(bytes, n, &got), 0);
  CHECK(got.known);
  CHECK(memcmp(got.words, want->words, sizeof want->words) == 0);
}

// fields: the segment's size, with the flag.
static size_t write_r_bytes(const struct vector *vector, uint8_t *out) {
  size_t n = 0;
  if (vector->head.kind == MST_KIND_VALUE) {
    mst_value_head_encode(&times, out);
    n = MST_VALUE_HEAD_BYTES;
  }
  if ((vector->head.flags & MST_FLAG_SEED) != 0) {
    mst_seed_encode(&seed, out + n);
    n += MST_SEED_BYTES;
  }
  if ((vector->head.flags & MST_FLAG_SEGMENT) != 0) {
    mst_segment_encode(*(const uint64_t *)vector->fields, out + n);
    n += MST_SEGMENT_BYTES;
  }
  return n;
}

static void read_times(const uint8_t *bytes, size_t n) {
  struct mst_value_head got;
  CHECK_INT(mst_value_head_decode(bytes, n, &got), 0);
  CHECK(memcmp(&got, &times, sizeof got) == 0);
}

static void read_form(const struct vector *vector, const uint8_t *bytes,
                      size_t n) {
  CHECK(n > 2);
  if (bytes[0] == 'P') {
    CHECK_TEXT(vector->file, "exec-short");
  } else {
    CHECK_INT(bytes[0], (vector->head.flags & MST_FLAG_XDR) != 0 ? 'X' : 'B');
    CHECK_INT(bytes[1], '\n');
  }
}

static void read_r_bytes(const struct vector *vector, const uint8_t *bytes,
                         size_t n) {
  const uint16_t flags = vector->head.flags;
  const uint8_t *end = bytes + n;
  if (vector->head.kind == MST_KIND_VALUE) {
    const size_t skip = mst_value_skip(flags);
    CHECK(skip < n);
    read_times(bytes, n);
    bytes += MST_VALUE_HEAD_BYTES;
    if ((flags & MST_FLAG_SEED) != 0) {
      const struct vector inside = {.fields = &seed};
      read_seed(&inside, bytes, (size_t)(end - bytes));
      bytes += MST_SEED_BYTES;
    }
  }
  if ((flags & MST_FLAG_SEGMENT) != 0) {
    uint64_t size;
    CHECK_INT(mst_segment_decode(bytes, (size_t)(end - bytes), &size), 0);
    CHECK_INT(size, *(const uint64_t *)vector->fields);
    bytes += MST_SEGMENT_BYTES;
  }
  if (vector->head.kind == MST_KIND_VALUE)
    CHECK_INT(n - (size_t)(end - bytes), mst_value_skip(flags));
  read_form(vector, bytes, (size_t)(end - bytes));
}

// ---- dialling in: the nonce follows a header that the message writes itself

static const struct mst_dial dial = {
    .cluster = 1,
    .worker = 3,
    .epoch = 1,
    .attempt = 2,
    .nonce = {0xF0, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8, 0xF9, 0xFA,
              0xFB, 0xFC, 0xFD, 0xFE, 0xFF}};

static size_t write_dial(const struct vector *vector, uint8_t *out) {
  uint8_t whole[MST_DIAL_BYTES], head[MST_HEAD_BYTES];
  mst_dial_encode(vector->fields, vector->head.kind, whole);
  mst_head_encode(&vector->head, head);
  CHECK(memcmp(whole, head, sizeof head) == 0);
  memcpy(out, whole + MST_HEAD_BYTES, MST_NONCE_BYTES);
  return MST_NONCE_BYTES;
}

static void read_dial(const struct vector *vector, const uint8_t *bytes,
                      size_t n) {
  struct mst_dial got;
  CHECK_INT(n, MST_NONCE_BYTES);
  CHECK_INT(mst_dial_decode(bytes - MST_HEAD_BYTES, MST_DIAL_BYTES,
                            vector->head.kind, &got),
            1);
  CHECK(mst_dial_same(&got, vector->fields));
}

// ---- links between workers

static const struct mst_want want = {.stage = 2, .task = 5, .attempt = 1};
static const struct mst_meet meet = {
    .worker = 3,
    .epoch = 1,
    .other_worker = 2,
    .token = {0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA,
              0xAB, 0xAC, 0xAD, 0xAE, 0xAF}};

static void check_want(const struct mst_want *got,
                       const struct mst_want *fields) {
  CHECK_INT(got->stage, fields->stage);
  CHECK_INT(got->task, fields->task);
  CHECK_INT(got->attempt, fields->attempt);
}

static size_t write_want(const struct vector *vector, uint8_t *out) {
  mst_want_encode(vector->fields, out);
  return MST_WANT_BYTES;
}

static void read_want(const struct vector *vector, const uint8_t *bytes,
                      size_t n) {
  struct mst_want got;
  CHECK_INT(mst_want_decode(bytes, n, &got), 0);
  check_want(&got, vector->fields);
}

static size_t write_meet(const struct vector *vector, uint8_t *out) {
  mst_meet_encode(vector->fields, out);
  return MST_MEET_BYTES;
}

static void read_meet(const struct vector *vector, const uint8_t *bytes,
                      size_t n) {
  struct mst_meet got;
  CHECK_INT(mst_meet_decode(bytes, n, &got), 0);
  CHECK(mst_meet_same(&got, vector->fields));
}

struct have {
  struct mst_have have;
  struct mst_block blocks[2];
};
static const struct have have = {
    {.want = {2, 5, 1}, .size = 4096, .count = 2},
    {{.offset = 64, .bytes = 1000, .stream = 800, .rows = 100},
     {.offset = 1088}}};
static const struct have have_file = {{.want = {2, 5, 1},
                                       .size = 4096,
                                       .count = 1,
                                       .path_bytes = 10,
                                       .path = "/tmp/part7"},
                                      {{.bytes = 4096,
                                        .stream = 4000,
                                        .rows = 100,
                                        .check = 0x0123456789ABCDEF}}};
static const struct have have_empty = {{.want = {2, 5, 1}}, {{0}}};

static size_t write_have(const struct vector *vector, uint8_t *out) {
  const struct have *fields = vector->fields;
  mst_have_encode(&fields->have, fields->blocks, out);
  return mst_have_bytes(&fields->have);
}

static void read_have(const struct vector *vector, const uint8_t *bytes,
                      size_t n) {
  const struct have *fields = vector->fields;
  struct mst_have got;
  CHECK_INT(mst_have_decode(bytes, n, &got), 0);
  check_want(&got.want, &fields->have.want);
  CHECK_INT(got.size, fields->have.size);
  CHECK_INT(got.count, fields->have.count);
  CHECK_INT(got.path_bytes, fields->have.path_bytes);
  if (got.path_bytes > 0)
    CHECK(memcmp(got.path, fields->have.path, got.path_bytes) == 0);
  for (uint32_t i = 0; i < got.count; i++) {
    struct mst_block block;
    mst_have_block(&got, i, &block);
    CHECK(memcmp(&block, &fields->blocks[i], sizeof block) == 0);
  }
}

// ---- the vectors

#define AT .cluster = 1, .worker = 3, .epoch = 1
#define NOTHING NULL, write_nothing, read_nothing
#define TEXT(words) words, write_text, read_text
#define PROC(fields) &fields, write_proc, read_proc
#define R_BYTES(segment) segment, write_r_bytes, read_r_bytes

static const struct vector vectors[] = {
    {"hello", {MST_KIND_HELLO, .length = 30}, &hello, write_hello, read_hello},
    {"hello-newer",
     {MST_KIND_HELLO, .length = 18},
     &hello_newer,
     write_hello,
     read_hello},
    {"setup", {MST_KIND_SETUP, AT, .length = 27}, R_BYTES(NULL)},
    {"setup-xdr",
     {MST_KIND_SETUP, MST_FLAG_XDR, AT, .length = 27},
     R_BYTES(NULL)},
    {"ready", {MST_KIND_READY, AT, .length = 19}, TEXT("/tmp/RtmpA1b2C3")},
    {"failed",
     {MST_KIND_FAILED, AT, .length = 43},
     TEXT("there is no package called \u2018nosuch\u2019")},
    {"exec",
     {MST_KIND_EXEC, 0, 1, AT, .call = 258, .length = 86},
     R_BYTES(NULL)},
    {"exec-replay",
     {MST_KIND_EXEC, MST_FLAG_REPLAY, AT, .call = 7, .length = 86},
     R_BYTES(NULL)},
    {"exec-task-segment",
     {MST_KIND_EXEC, MST_FLAG_TASK | MST_FLAG_SEGMENT, AT, .call = 259,
      .length = 94},
     R_BYTES(&segment_call)},
    {"exec-short",
     {MST_KIND_EXEC, AT, .call = 260, .length = 47},
     R_BYTES(NULL)},
    {"value",
     {MST_KIND_VALUE, 0, 1, AT, .call = 258, .length = 71},
     R_BYTES(NULL)},
    {"value-seed",
     {MST_KIND_VALUE, MST_FLAG_STATE | MST_FLAG_SEED, AT, .call = 258,
      .length = 99},
     R_BYTES(NULL)},
    {"value-segment",
     {MST_KIND_VALUE, MST_FLAG_SEED | MST_FLAG_SEGMENT, AT, .call = 258,
      .length = 107},
     R_BYTES(&segment_value)},
    {"value-early",
     {MST_KIND_VALUE, MST_FLAG_EARLY, AT, .call = 258, .length = 71},
     R_BYTES(NULL)},
    {"value-error",
     {MST_KIND_VALUE, MST_FLAG_ERROR | MST_FLAG_RNG, AT, .call = 258,
      .length = 71},
     R_BYTES(NULL)},
    {"bye", {MST_KIND_BYE, AT}, NOTHING},
    {"refuse",
     {MST_KIND_REFUSE, .length = 32},
     TEXT("this cluster has no worker 7")},
    {"seed", {MST_KIND_SEED, AT, .length = 28}, &seed, write_seed, read_seed},
    {"seed-none", {MST_KIND_SEED, AT}, NOTHING},
    {"checkpoint", {MST_KIND_CHECKPOINT, AT}, NOTHING},
    {"checkpointed",
     {MST_KIND_CHECKPOINTED, AT, .length = 12},
     &made,
     write_made,
     read_made},
    {"job", {MST_KIND_JOB, AT, .call = 12, .length = 27}, R_BYTES(NULL)},
    {"drop", {MST_KIND_DROP, AT, .call = 12}, NOTHING},
    {"trim", {MST_KIND_TRIM, AT}, NOTHING},
    {"dial",
     {MST_KIND_DIAL, 0, 2, AT, .length = 16},
     &dial,
     write_dial,
     read_dial},
    {"admit",
     {MST_KIND_ADMIT, 0, 2, AT, .length = 16},
     &dial,
     write_dial,
     read_dial},
    {"ping", {MST_KIND_PING, AT, .length = 8}, NULL, write_ping, read_ping},
    {"pong", {MST_KIND_PONG, AT, .length = 8}, NULL, write_ping, read_ping},
    {"cancel",
     {MST_KIND_CANCEL, AT, .call = 258, .length = 4},
     &grace_ms,
     write_cancel,
     read_cancel},
    {"standby", {MST_KIND_STANDBY, AT}, NOTHING},
    {"withdraw", {MST_KIND_WITHDRAW, AT, .call = 258}, NOTHING},
    {"server_ready", {MST_KIND_SERVER_READY, .length = 12}, PROC(server)},
    {"server_refuse",
     {MST_KIND_SERVER_REFUSE, .length = 35},
     TEXT("package nosuch started a thread")},
    {"fork", {MST_KIND_FORK, AT}, NOTHING},
    {"forked", {MST_KIND_FORKED, AT, .length = 12}, PROC(forked)},
    {"fork_failed", {MST_KIND_FORK_FAILED, AT, .length = 12}, PROC(no_fork)},
    {"exited", {MST_KIND_EXITED, AT, .length = 12}, PROC(by_code)},
    {"exited-signal", {MST_KIND_EXITED, AT, .length = 12}, PROC(by_signal)},
    {"exited-unknown", {MST_KIND_EXITED, AT, .length = 12}, PROC(unknown_end)},
    {"exited-memory", {MST_KIND_EXITED, AT, .length = 12}, PROC(for_memory)},
    {"signal", {MST_KIND_SIGNAL, AT, .length = 12}, PROC(terminate)},
    {"adopt", {MST_KIND_ADOPT, AT, .length = 12}, PROC(forked)},
    {"host", {MST_KIND_HOST, .length = 27}, R_BYTES(NULL)},
    {"server", {MST_KIND_SERVER, .length = 27}, R_BYTES(NULL)},
    {"remove",
     {MST_KIND_REMOVE, .length = 32},
     TEXT("/tmp/muster-1/server-2/Rtmp3")},
    {"leaving", {MST_KIND_LEAVING, .length = 0}, NOTHING},
    {"want", {MST_KIND_WANT, .length = 12}, &want, write_want, read_want},
    {"have",
     {MST_KIND_HAVE, MST_FLAG_SEGMENT, .length = 112},
     &have,
     write_have,
     read_have},
    {"have-file",
     {MST_KIND_HAVE, .length = 82},
     &have_file,
     write_have,
     read_have},
    {"have-empty",
     {MST_KIND_HAVE, .length = 32},
     &have_empty,
     write_have,
     read_have},
    {"none", {MST_KIND_NONE, .length = 12}, &want, write_want, read_want},
    {"meet", {MST_KIND_MEET, .length = 32}, &meet, write_meet, read_meet},
    {"met", {MST_KIND_MET, .length = 32}, &meet, write_meet, read_meet},
};
#define COUNT (sizeof vectors / sizeof vectors[0])

// ---- files

static int digit(int c) { return isdigit(c) ? c - '0' : tolower(c) - 'a' + 10; }

// read_file reads a file's bytes: two hexadecimal digits each; # starts a comment.
static size_t read_file(const char *name, uint8_t *out) {
  char path[256];
  (void)snprintf(path, sizeof path, FOLDER "%s.hex", name);
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  size_t n = 0;
  int c, high = -1, remark = 0;
  while ((c = fgetc(file)) != EOF) {
    if (c == '#') remark = 1;
    if (c == '\n') remark = 0;
    if (remark || isspace(c)) continue;
    CHECK(isxdigit(c) && n < BYTES_MAX);
    if (high >= 0) out[n++] = (uint8_t)(16 * high + digit(c));
    high = high >= 0 ? -1 : digit(c);
  }
  CHECK_INT(high, -1);
  CHECK_INT(fclose(file), 0);
  return n;
}

static void check_head(const struct mst_head *got,
                       const struct mst_head *want_head) {
  CHECK_INT(got->kind, want_head->kind);
  CHECK_INT(got->flags, want_head->flags);
  CHECK_INT(got->attempt, want_head->attempt);
  CHECK_INT(got->cluster, want_head->cluster);
  CHECK_INT(got->worker, want_head->worker);
  CHECK_INT(got->epoch, want_head->epoch);
  CHECK_INT(got->call, want_head->call);
  CHECK_INT(got->length, want_head->length);
}

TEST("Each golden vector is read to its fields") {
  for (size_t i = 0; i < COUNT; i++) {
    uint8_t bytes[BYTES_MAX];
    struct mst_frame frame;
    uint64_t used;
    mst_test_note(vectors[i].file);
    const size_t n = read_file(vectors[i].file, bytes);
    CHECK_INT(mst_frame_parse(bytes, n, MST_FRAME_MAX, &frame, &used), 1);
    CHECK_INT(used, n);
    check_head(&frame.head, &vectors[i].head);
    vectors[i].read(&vectors[i], frame.payload, (size_t)frame.head.length);
  }
}

TEST("The fields of each golden vector are written to its bytes") {
  for (size_t i = 0; i < COUNT; i++) {
    uint8_t bytes[BYTES_MAX], written[BYTES_MAX];
    mst_test_note(vectors[i].file);
    const size_t n = read_file(vectors[i].file, bytes);
    mst_head_encode(&vectors[i].head, written);
    const size_t fixed =
        vectors[i].write(&vectors[i], written + MST_HEAD_BYTES);
    const int has_more = vectors[i].write == write_r_bytes;
    CHECK(MST_HEAD_BYTES + fixed <= n);
    CHECK_INT(MST_HEAD_BYTES + fixed < n, has_more);
    CHECK(memcmp(written, bytes, MST_HEAD_BYTES + fixed) == 0);
  }
}

TEST("Each kind of frame that is read has a golden vector") {
  uint8_t bytes[MST_HEAD_BYTES];
  (void)read_file("bye", bytes);
  for (int kind = 0; kind < 256; kind++) {
    struct mst_head head;
    size_t found = 0;
    bytes[3] = (uint8_t)kind;
    if (mst_head_decode(bytes, sizeof bytes, MST_FRAME_MAX, &head) < 0)
      continue;
    while (found < COUNT && vectors[found].head.kind != kind)
      found++;
    if (found == COUNT) printf("    kind %d has none\n", kind);
    CHECK(found < COUNT);
  }
}

TEST("Each known flag is in a golden vector") {
  unsigned flags = 0;
  for (size_t i = 0; i < COUNT; i++)
    flags |= vectors[i].head.flags;
  CHECK_INT(flags, MST_FLAGS_KNOWN);
}

TEST("Each file of golden vectors is checked") {
  DIR *folder = opendir(FOLDER);
  CHECK(folder != NULL);
  size_t files = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    const char *end = strstr(entry->d_name, ".hex");
    if (end == NULL) continue;
    size_t i = 0;
    const size_t n = (size_t)(end - entry->d_name);
    while (i < COUNT && (strlen(vectors[i].file) != n ||
                         memcmp(vectors[i].file, entry->d_name, n) != 0))
      i++;
    if (i == COUNT) printf("    %s isn't\n", entry->d_name);
    CHECK(i < COUNT);
    files++;
  }
  CHECK_INT(closedir(folder), 0);
  CHECK_INT(files, COUNT);
}
