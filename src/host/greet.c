// The first bytes on a link. See greet.h.
#include "host/greet.h"

#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "net/net.h"

// ---- pure

int mst_greet_mark(struct mst_greet *greet, const uint8_t *bytes, size_t n,
                   size_t *used) {
  static const char mark[] = MST_GREET_MARK;
  for (size_t i = 0; i < n; i++) {
    // No character of the mark but the first begins it.
    greet->marked = bytes[i] == (uint8_t)mark[greet->marked] ? greet->marked + 1
                    : bytes[i] == (uint8_t)mark[0]           ? 1
                                                             : 0;
    *used = i + 1;
    if (greet->marked == sizeof mark - 1) return 1;
    if (++greet->skipped > MST_GREET_SKIP_MAX) return -MST_EPROTO;
  }
  *used = n;
  return 0;
}

int mst_greet_echo(struct mst_greet *greet, const uint8_t *bytes, size_t n,
                   size_t *used) {
  for (size_t i = 0; i < n; i++) {
    const int fits = bytes[i] == greet->echoed;
    // What follows the mark on its line is skipped; a byte that was changed isn't.
    if (!fits && (greet->echoed > 1 || ++greet->skipped > MST_GREET_SKIP_MAX)) {
      return -MST_EPROTO;
    }
    greet->echoed = fits ? greet->echoed + 1 : bytes[i] == 0;
    *used = i + 1;
    if (greet->echoed == MST_GREET_BYTES) return 1;
  }
  *used = n;
  return 0;
}

// ---- over a link

static int closed(struct mst_err *err) {
  return mst_err_set(err, MST_ECLOSED, 0, NULL, "the link was closed");
}

// await waits until the link can be read or written. 0, or an error.
static int await(const struct mst_greet_link *link, int fd, short events,
                 struct mst_err *err) {
  struct pollfd fds[2] = {{.fd = fd, .events = events}, {.fd = link->until}};
  const int ms = mst_clock_ms_until(link->until_ns, 60000);
  if (poll(fds, 2, ms) == 0 && mst_clock_now() >= link->until_ns) {
    return mst_err_set(err, MST_ETIMEOUT, 0, NULL,
                       "the other end of the link didn't answer in time");
  }
  return fds[1].revents != 0 ? closed(err) : 0;
}

static int read_some(const struct mst_greet_link *link, uint8_t *bytes,
                     size_t n, size_t *got, struct mst_err *err) {
  int64_t rc;
  while ((rc = mst_cable_read(link->cable, bytes, n, err)) == -MST_EAGAIN) {
    const int waited = await(link, link->cable->in, POLLIN, err);
    if (waited != 0) return waited;
  }
  *got = rc > 0 ? (size_t)rc : 0;
  return rc > 0 ? 0 : rc == -MST_ECLOSED ? closed(err) : (int)rc;
}

static int write_all(const struct mst_greet_link *link, const void *bytes,
                     size_t n, struct mst_err *err) {
  const uint8_t *from = bytes;
  while (n > 0) {
    const int64_t rc = mst_cable_write(link->cable, from, n, err);
    if (rc == -MST_EAGAIN) {
      const int waited = await(link, link->cable->out, POLLOUT, err);
      if (waited != 0) return waited;
    } else if (rc < 0) {
      return rc == -MST_ECLOSED ? closed(err) : (int)rc;
    } else {
      from += rc;
      n -= (size_t)rc;
    }
  }
  return 0;
}

static void all_values(uint8_t bytes[MST_GREET_BYTES]) {
  for (size_t i = 0; i < MST_GREET_BYTES; i++)
    bytes[i] = (uint8_t)i;
}

static int unclean(struct mst_err *err) {
  return mst_err_set(err, MST_EPROTO, 0, NULL,
                     "the link changes the bytes that it carries");
}

// make_raw has a terminal pass all bytes as they are.
static void make_raw(int fd) {
  struct termios mode;
  if (!isatty(fd) || tcgetattr(fd, &mode) != 0) return;
  mode.c_iflag = 0;
  mode.c_oflag = 0;
  mode.c_lflag = 0;
  mode.c_cflag = (mode.c_cflag & ~(tcflag_t)(CSIZE | PARENB)) | CS8;
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  (void)tcsetattr(fd, TCSANOW, &mode);
}

static void prepare(const struct mst_greet_link *link) {
  mst_net_unblock(link->cable->in);
  mst_net_unblock(link->cable->out);
}

int mst_greet_host(const struct mst_greet_link *link, struct mst_err *err) {
  struct mst_greet greet = {0};
  uint8_t bytes[MST_GREET_BYTES];
  size_t n = 0, got, used;
  prepare(link);
  make_raw(link->cable->in);
  make_raw(link->cable->out);
  int rc = write_all(link, MST_GREET_MARK "\n", sizeof MST_GREET_MARK, err);
  while (rc == 0 && n < sizeof bytes) {
    rc = read_some(link, bytes + n, sizeof bytes - n, &got, err);
    if (rc == 0) n += got;
  }
  if (rc != 0) return rc;
  if (mst_greet_echo(&greet, bytes, n, &used) != 1) return unclean(err);
  return write_all(link, bytes, n, err);
}

int mst_greet_session(const struct mst_greet_link *link,
                      struct mst_tail *skipped, struct mst_err *err) {
  struct mst_greet greet = {0};
  uint8_t bytes[MST_GREET_BYTES], values[MST_GREET_BYTES];
  size_t n = 0, used = 0;
  int found = 0;
  prepare(link);
  while (found == 0) {
    const int rc = read_some(link, bytes, sizeof bytes, &n, err);
    if (rc != 0) return rc;
    mst_tail_write(skipped, (const char *)bytes, n);
    found = mst_greet_mark(&greet, bytes, n, &used);
  }
  if (found < 0) {
    return mst_err_set(err, MST_EPROTO, 0, NULL,
                       "what the command prints isn't muster's");
  }
  memmove(bytes, bytes + used, n - used);
  n -= used;
  all_values(values);
  int rc = write_all(link, values, sizeof values, err);
  while (rc == 0) {
    found = mst_greet_echo(&greet, bytes, n, &used);
    if (found < 0) return unclean(err);
    if (found > 0) return 0; // the other end says nothing before its relay
    // Not a byte more than the echo.
    const size_t most = MST_GREET_BYTES - greet.echoed;
    rc = read_some(link, bytes, most, &n, err);
  }
  return rc;
}
