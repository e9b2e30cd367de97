// Prints a HELLO and the header of an EXEC as bytes with their meaning, for
// docs/PROTOCOL.md; `make check` compares the output with the page.
#include <stdio.h>

#include "wire/wire.h"

struct field {
  size_t bytes;
  const char *meaning;
};

static const struct field head_fields[] = {{2, "magic"},
                                           {1, "version"},
                                           {1, "kind"},
                                           {2, "flags"},
                                           {2, "attempt"},
                                           {4, "cluster"},
                                           {4, "worker"},
                                           {4, "epoch"},
                                           {4, "reserved"},
                                           {8, "call"},
                                           {8, "length of the payload"},
                                           {0, NULL}};

static const struct field hello_fields[] = {
    {2, "version_min"}, {2, "version_max"},
    {1, "big_endian"},  {1, "forked"},
    {2, "zero"},        {4, "pid"},
    {4, "r_version"},   {2, "length of build"},
    {12, "build"},      {0, NULL}};

static void print_fields(const uint8_t *bytes, size_t at,
                         const struct field *fields) {
  for (; fields->meaning != NULL; fields++) {
    printf("%04zx ", at);
    for (size_t i = 0; i < fields->bytes; i++)
      printf(" %02x", bytes[i]);
    printf("%*s  %s\n", 3 * (12 - (int)fields->bytes), "", fields->meaning);
    bytes += fields->bytes;
    at += fields->bytes;
  }
}

static int print_hello(void) {
  const struct mst_hello hello = {.version_min = 1,
                                  .version_max = 1,
                                  .forked = 1,
                                  .pid = 4711,
                                  .r_version = 0x00040202,
                                  .build = "muster 0.1.0"};
  uint8_t bytes[MST_HEAD_BYTES + MST_HELLO_BYTES_MAX];
  const int n =
      mst_hello_encode(&hello, bytes + MST_HEAD_BYTES, MST_HELLO_BYTES_MAX);
  if (n != 30) return 1; // hello_fields says 18 and 12
  const struct mst_head head = {.kind = MST_KIND_HELLO, .length = (uint64_t)n};
  mst_head_encode(&head, bytes);
  printf("HELLO of a forked worker, process 4711, R 4.2.2:\n");
  print_fields(bytes, 0, head_fields);
  print_fields(bytes + MST_HEAD_BYTES, MST_HEAD_BYTES, hello_fields);
  return 0;
}

static void print_exec(void) {
  const struct mst_head head = {.kind = MST_KIND_EXEC,
                                .attempt = 1,
                                .cluster = 1,
                                .worker = 3,
                                .epoch = 1,
                                .call = 258,
                                .length = 86};
  uint8_t bytes[MST_HEAD_BYTES];
  mst_head_encode(&head, bytes);
  printf("\nHeader of an EXEC for worker 3, call 258 tried again, 86 bytes:\n");
  print_fields(bytes, 0, head_fields);
}

int main(void) {
  const int rc = print_hello();
  print_exec();
  return rc;
}
