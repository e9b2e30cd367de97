// Key files. See psk.h.
#include "secure/psk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_entropy.h"

#define NAME_BYTES 8u // of a new key's name, as hexadecimal digits
#define LINE_MAX_BYTES 256u

static const char *const mark = "muster-key-1 ";
static const char *const name_characters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

// wipe isn't left out by a compiler that sees that nobody reads the bytes again.
static void wipe(void *bytes, size_t n) {
  volatile uint8_t *at = bytes;
  while (n-- > 0)
    *at++ = 0;
}

void mst_psk_wipe(struct mst_psk *key) { wipe(key, sizeof *key); }

static int failed(struct mst_err *err, const char *call) {
  return mst_err_set(err, MST_ESYS, errno, call, "%s", strerror(errno));
}

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// parse reads a line without its end. 1, or 0.
static int parse(const char *line, struct mst_psk *key) {
  if (strncmp(line, mark, strlen(mark)) != 0) return 0;
  line += strlen(mark);
  const size_t n = strspn(line, name_characters);
  if (n == 0 || n > MST_SECURE_NAME_MAX || line[n] != ' ') return 0;
  memcpy(key->name, line, n);
  line += n + 1;
  if (strlen(line) != sizeof key->bytes * 2) return 0;
  for (size_t i = 0; i < sizeof key->bytes; i++) {
    const int high = digit(line[2 * i]), low = digit(line[2 * i + 1]);
    if (high < 0 || low < 0) return 0;
    key->bytes[i] = (uint8_t)(high << 4 | low);
  }
  return 1;
}

// read_line reads the whole file, which has one line. The number of bytes, too many if it has more.
static ssize_t read_line(int fd, char line[LINE_MAX_BYTES]) {
  size_t have = 0;
  while (have < LINE_MAX_BYTES - 1) {
    const ssize_t got = read(fd, line + have, LINE_MAX_BYTES - 1 - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    have += (size_t)got;
  }
  line[have] = '\0';
  return (ssize_t)have;
}

// check_owner: nobody else may have read the file.
static int check_owner(int fd, struct mst_err *err) {
  struct stat about;
  if (fstat(fd, &about) != 0) return failed(err, "fstat");
  if (S_ISDIR(about.st_mode))
    return mst_err_set(err, MST_EINPUT, EISDIR, NULL, "it is a directory");
  if (about.st_uid != geteuid() && about.st_uid != 0)
    return mst_err_set(err, MST_EINPUT, EPERM, NULL, "another user owns it");
  if (S_ISREG(about.st_mode) && (about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return mst_err_set(err, MST_EINPUT, EPERM, NULL,
                       "others may use it (its mode is %04o, not 0600)",
                       (unsigned)about.st_mode & 07777u);
  return 0;
}

int mst_psk_read(const char *path, struct mst_psk *key, struct mst_err *err) {
  char line[LINE_MAX_BYTES] = "";
  memset(key, 0, sizeof *key);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed(err, "open");
  int rc = check_owner(fd, err);
  const ssize_t n = rc == 0 ? read_line(fd, line) : 0;
  if (n < 0) rc = failed(err, "read");
  (void)close(fd);
  line[strcspn(line, "\r\n")] = '\0';
  if (rc == 0 && !parse(line, key))
    rc = mst_err_set(err, MST_EINPUT, 0, NULL,
                     "it isn't a key file (\"muster-key-1 NAME HEX\")");
  wipe(line, sizeof line);
  if (rc != 0) mst_psk_wipe(key);
  return rc;
}

static void put_hex(const uint8_t *bytes, size_t n, char *to) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    to[2 * i] = digits[bytes[i] >> 4];
    to[2 * i + 1] = digits[bytes[i] & 15];
  }
  to[2 * n] = '\0';
}

static int write_line(int fd, const char *line, struct mst_err *err) {
  const ssize_t n = (ssize_t)strlen(line);
  if (write(fd, line, (size_t)n) == n && fsync(fd) == 0) return 0;
  return failed(err, "write");
}

int mst_psk_make(const char *path, struct mst_err *err) {
  uint8_t random[NAME_BYTES + MST_SECURE_KEY_BYTES];
  char name[2 * NAME_BYTES + 1], hex[2 * MST_SECURE_KEY_BYTES + 1];
  char line[LINE_MAX_BYTES];
  int rc = mst_entropy_take(random, sizeof random, err);
  if (rc != 0) return rc;
  put_hex(random, NAME_BYTES, name);
  put_hex(random + NAME_BYTES, MST_SECURE_KEY_BYTES, hex);
  (void)snprintf(line, sizeof line, "%s%s %s\n", mark, name, hex);
  const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    rc = failed(err, "open");
  } else {
    rc = write_line(fd, line, err);
    (void)close(fd);
    if (rc != 0) (void)unlink(path);
  }
  wipe(random, sizeof random);
  wipe(hex, sizeof hex);
  wipe(line, sizeof line);
  return rc;
}
