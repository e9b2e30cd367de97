// Small text files of the kernel's. See mst_kernel.h.
#include "base/mst_kernel.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t mst_kernel_read(const char *path, char *text, size_t cap) {
  size_t len = 0;
  ssize_t got;
  text[0] = '\0';
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  while (len + 1 < cap && (got = read(fd, text + len, cap - 1 - len)) > 0)
    len += (size_t)got;
  (void)close(fd);
  text[len] = '\0';
  return len;
}

int64_t mst_kernel_number(const char *text) {
  while (*text == ' ' || *text == '\t')
    text++;
  if (*text < '0' || *text > '9') return -1;
  const unsigned long long value = strtoull(text, NULL, 10);
  return value >= (1ULL << 60) ? -1 : (int64_t)value;
}

int64_t mst_kernel_field(const char *text, const char *name) {
  const size_t n = strlen(name);
  for (const char *line = text; line != NULL && *line != '\0';) {
    if (strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == ':')) {
      return mst_kernel_number(line + n + 1);
    }
    line = strchr(line, '\n');
    if (line != NULL) line++;
  }
  return -1;
}

// has_word finds a name in a comma-separated list.
static int has_word(const char *list, size_t n, const char *word) {
  const size_t length = strlen(word);
  for (size_t i = 0; i + length <= n; i++) {
    const int begins = i == 0 || list[i - 1] == ',';
    const int ends = i + length == n || list[i + length] == ',';
    if (begins && ends && memcmp(list + i, word, length) == 0) return 1;
  }
  return 0;
}

// A line is "number:controllers:path"; v2 has no controllers there.
int mst_kernel_group(char **rest, const char **path) {
  while (*rest != NULL) {
    char *line = *rest, *end = strchr(line, '\n');
    if (end != NULL) *end++ = '\0';
    *rest = end;
    const char *names = strchr(line, ':');
    const char *colon = names == NULL ? NULL : strchr(names + 1, ':');
    if (colon == NULL || colon[1] != '/') continue;
    const size_t n = (size_t)(colon - names) - 1;
    *path = colon + 1;
    if (n == 0) return 2;
    if (has_word(names + 1, n, "memory")) return 1;
  }
  return 0;
}
