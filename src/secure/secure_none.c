// Without OpenSSL. See secure.h.
#include <errno.h>

#include "base/mst_assert.h"
#include "secure/secure.h"

int mst_secure_has(void) { return 0; }

int mst_secure_must(struct mst_err *err) {
  return mst_err_set(err, MST_ESYS, ENOTSUP, NULL,
                     "muster was built without OpenSSL");
}

int mst_secure_open(enum mst_secure_end end, int fd,
                    const uint8_t key[MST_SECURE_KEY_BYTES], const char *name,
                    struct mst_secure **out, struct mst_err *err) {
  (void)end;
  (void)fd;
  (void)key;
  (void)name;
  *out = NULL;
  return mst_secure_must(err);
}

int mst_secure_shake(struct mst_secure *secure, struct mst_err *err) {
  (void)err;
  MST_ASSERT(secure != NULL);
  return -MST_EPROTO;
}

int64_t mst_secure_read(struct mst_secure *secure, void *bytes, size_t n,
                        struct mst_err *err) {
  (void)bytes;
  (void)n;
  return mst_secure_shake(secure, err);
}

int64_t mst_secure_write(struct mst_secure *secure, const void *bytes, size_t n,
                         struct mst_err *err) {
  (void)bytes;
  (void)n;
  return mst_secure_shake(secure, err);
}

int mst_secure_await(struct mst_secure *secure, struct mst_err *err) {
  return mst_secure_shake(secure, err);
}

int mst_secure_has_more(const struct mst_secure *secure) {
  (void)secure;
  return 0;
}

short mst_secure_wants(const struct mst_secure *secure) {
  (void)secure;
  return 0;
}

void mst_secure_free(struct mst_secure *secure) { MST_ASSERT(secure == NULL); }
