// Tests of key files: what is one, and who may read it.
#include "secure/psk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mst_test.h"

#define PATH "/tmp/muster-test-psk"
static char path[64];

static void put_file(const char *text, unsigned mode) {
  (void)unlink(path);
  const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
  CHECK(fd >= 0);
  CHECK_INT(fchmod(fd, (mode_t)mode), 0);
  CHECK_INT(write(fd, text, strlen(text)), (int64_t)strlen(text));
  (void)close(fd);
}

#define DIGITS                                                                 \
  "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

TEST("A key file is made once, for its owner alone, and read again") {
  struct mst_psk made, read_again;
  struct mst_err err;
  struct stat about;
  (void)snprintf(path, sizeof path, PATH "-%d", (int)getpid());
  mst_err_clear(&err);
  CHECK_INT(mst_psk_make(path, &err), 0);
  CHECK_INT(stat(path, &about), 0);
  CHECK_INT(about.st_mode & 0777, 0600);
  CHECK_INT(mst_psk_make(path, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, EEXIST);
  CHECK_INT(mst_psk_read(path, &made, &err), 0);
  CHECK_INT(mst_psk_read(path, &read_again, &err), 0);
  CHECK(memcmp(&made, &read_again, sizeof made) == 0);
  CHECK_INT((int64_t)strlen(made.name), 16);
  (void)unlink(path);
  CHECK_INT(mst_psk_make(path, &err), 0);
  CHECK_INT(mst_psk_read(path, &read_again, &err), 0);
  CHECK(memcmp(made.bytes, read_again.bytes, sizeof made.bytes) != 0);
  mst_psk_wipe(&made);
  for (size_t i = 0; i < sizeof made; i++)
    CHECK_INT(((const uint8_t *)&made)[i], 0);
  (void)unlink(path);
  CHECK_INT(mst_psk_read(path, &made, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOENT);
}

TEST("What isn't a key file, or others may read, is refused") {
  static const char *const bad[] = {
      "",
      "muster-key-1",
      "muster-key-1  " DIGITS "\n",
      "muster-key-2 a " DIGITS "\n",
      "muster-key-1 a" DIGITS "\n",
      "muster-key-1 a/b " DIGITS "\n",
      "muster-key-1 a " DIGITS "0\n",
      "muster-key-1 a g0112233445566778899aabbccddeeff00112233445566778899AABBC"
      "CDDEEFF\n",
      "muster-key-1 a 0011\n",
      "muster-key-1 "
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      " " DIGITS "\n"};
  struct mst_psk key;
  struct mst_err err;
  (void)snprintf(path, sizeof path, PATH "-%d", (int)getpid());
  mst_err_clear(&err);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    put_file(bad[i], 0600);
    CHECK_INT(mst_psk_read(path, &key, &err), -MST_EINPUT);
  }
  put_file("muster-key-1 a_B-9 " DIGITS "\r\n", 0400);
  CHECK_INT(mst_psk_read(path, &key, &err), 0);
  CHECK_TEXT(key.name, "a_B-9");
  CHECK_INT(key.bytes[1], 0x11);
  CHECK_INT(key.bytes[31], 0xff);
  for (int mode = 1; mode < 0100; mode <<= 1) {
    put_file("muster-key-1 a " DIGITS "\n", 0600u | (unsigned)mode);
    CHECK_INT(mst_psk_read(path, &key, &err), -MST_EINPUT);
    CHECK_INT(key.name[0], 0);
  }
  CHECK_TEXT(err.text, "others may use it (its mode is 0640, not 0600)");
  (void)unlink(path);
  CHECK_INT(mst_psk_read("/tmp", &key, &err), -MST_EINPUT);
}

TEST("A key comes through a pipe, too") {
  struct mst_psk key;
  int pair[2];
  static const char line[] = "muster-key-1 a " DIGITS "\n";
  CHECK_INT(pipe(pair), 0);
  CHECK_INT(write(pair[1], line, sizeof line - 1), (int64_t)sizeof line - 1);
  (void)close(pair[1]);
  (void)snprintf(path, sizeof path, "/dev/fd/%d", pair[0]);
  CHECK_INT(mst_psk_read(path, &key, NULL), 0);
  CHECK_TEXT(key.name, "a");
  (void)close(pair[0]);
}
