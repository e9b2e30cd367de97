// Fields of csv: see csv.h.
#include "csv/csv.h"

#include <string.h>

static uint64_t word_at(const uint8_t *from) {
  uint64_t word;
  memcpy(&word, from, sizeof word);
  return word;
}

#define LOW_BITS 0x7F7F7F7F7F7F7F7FULL
#define EACH_BYTE 0x0101010101010101ULL

// marks has the highest bit of each byte of the word that is `byte`.
static inline uint64_t marks(uint64_t word, uint64_t bytes) {
  const uint64_t x = word ^ bytes;
  return ~(((x & LOW_BITS) + LOW_BITS) | x | LOW_BITS);
}

// The bits are added up in the highest byte.
static inline size_t count_marks(uint64_t bits) {
  return (size_t)(((bits >> 7) * EACH_BYTE) >> 56);
}

size_t mst_csv_count(const uint8_t *bytes, size_t n, uint8_t byte) {
  const uint64_t all = EACH_BYTE * byte;
  size_t count = 0, i = 0;
  for (; n - i >= 8; i += 8)
    count += count_marks(marks(word_at(bytes + i), all));
  for (; i < n; i++)
    count += bytes[i] == byte;
  return count;
}

static const uint8_t *find(const uint8_t *from, const uint8_t *to,
                           uint8_t byte) {
  return memchr(from, byte, (size_t)(to - from));
}

// lone_cr: is there a CR that isn't followed by a line feed?
static int lone_cr(const uint8_t *from, const uint8_t *to) {
  while ((from = find(from, to, '\r')) != NULL) {
    if (from + 1 == to || from[1] != '\n') return 1;
    from += 2;
  }
  return 0;
}

int mst_csv_open(struct mst_csv *csv, const uint8_t *text, size_t n) {
  const uint8_t *end = text + n;
  *csv = (struct mst_csv){.at = text, .end = end};
  if (find(text, end, 0) != NULL || find(text, end, 0xFF) != NULL) return 0;
  csv->has_cr = find(text, end, '\r') != NULL;
  return !csv->has_cr || !lone_cr(text, end);
}

// What ends a run of plain bytes in a field.
static const uint8_t stops[256] = {
    ['\n'] = 1, ['\r'] = 1, [','] = 1, ['"'] = 1};

// close_quote finds what is behind the quote that ends a quoted stretch; NULL if there is none.
static const uint8_t *close_quote(const uint8_t *at, const uint8_t *end,
                                  int *raw) {
  for (;;) {
    at = find(at, end, '"');
    if (at == NULL) return NULL;
    if (*++at != '"') return at;
    *raw = 1;
    at++;
  }
}

int mst_csv_field(struct mst_csv *csv, struct mst_csv_field *field) {
  const uint8_t *at = csv->at, *begin = at;
  if (at > csv->end) return 0;
  *field = (struct mst_csv_field){.bytes = begin};
  const uint8_t *behind = NULL; // what is behind a quoted stretch that began the field
  for (;;) {
    while (!stops[*at])
      at++;
    if (*at != '"') break;
    const int first = at == begin;
    const uint8_t *after = close_quote(at + 1, csv->end, &field->raw);
    if (after == NULL) return -1;
    if (first) {
      behind = after;
      if (csv->has_cr && find(at, after, '\r') != NULL) field->raw = 1;
    } else {
      field->raw = 1;
    }
    at = after;
  }
  if (behind != NULL && behind != at) field->raw = 1;
  if (behind != NULL && !field->raw) {
    field->bytes = begin + 1;
    field->n = (size_t)(at - begin) - 2;
  } else {
    field->n = (size_t)(at - begin);
  }
  if (*at == '\r') at++;
  field->last = *at == '\n';
  csv->at = at + 1;
  return 1;
}

size_t mst_csv_plain(const struct mst_csv_field *field, uint8_t *to) {
  const uint8_t *from = field->bytes, *end = from + field->n;
  uint8_t *const begin = to;
  int quoted = 0;
  while (from < end) {
    const uint8_t byte = *from++;
    if (byte == '"') {
      if (quoted && from < end && *from == '"') {
        *to++ = *from++;
      } else {
        quoted = !quoted;
      }
    } else if (byte != '\r') {
      *to++ = byte;
    }
  }
  return (size_t)(to - begin);
}

int mst_csv_skip_line(struct mst_csv *csv) {
  struct mst_csv_field field = {.last = 0};
  while (csv->at < csv->end && (*csv->at == '\n' || *csv->at == '\r'))
    csv->at++;
  while (!field.last) {
    const int rc = mst_csv_field(csv, &field);
    if (rc <= 0) return rc == 0;
  }
  return 1;
}

// take_byte notes a line feed, or a quote.
static void take_byte(struct mst_csv_cuts *cuts, uint8_t byte) {
  cuts->at++;
  cuts->quotes += byte == '"';
  if (byte != '\n') return;
  int64_t *first = cuts->quotes % 2 == 0 ? &cuts->even : &cuts->odd;
  if (*first < 0) *first = cuts->at;
}

void mst_csv_cut(struct mst_csv_cuts *cuts, const uint8_t *bytes, size_t n) {
  const uint8_t *at = bytes, *end = bytes + n;
  while (at < end && (cuts->even < 0 || cuts->odd < 0)) {
    const uint64_t word = end - at < 8 ? 0 : word_at(at);
    if (end - at < 8 || marks(word, EACH_BYTE * '\n') != 0) {
      for (int i = 0; i < 8 && at < end; i++)
        take_byte(cuts, *at++);
    } else {
      cuts->quotes += (int64_t)count_marks(marks(word, EACH_BYTE * '"'));
      cuts->at += 8;
      at += 8;
    }
  }
  cuts->quotes += (int64_t)mst_csv_count(at, (size_t)(end - at), '"');
  cuts->at += end - at;
}
