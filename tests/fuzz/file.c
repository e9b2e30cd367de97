// Inputs in files.
#include <stdio.h>

#include "fuzz.h"

int fuzz_file_read(const char *path, struct fuzz_input *input) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return -1;
  input->n = fread(input->bytes, 1, sizeof input->bytes, file);
  const int bad = ferror(file);
  return fclose(file) != 0 || bad ? -1 : 0;
}

int fuzz_file_write(const char *path, const uint8_t *bytes, size_t n) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) return -1;
  const int bad = n > 0 && fwrite(bytes, 1, n, file) != n;
  return fclose(file) != 0 || bad ? -1 : 0;
}
