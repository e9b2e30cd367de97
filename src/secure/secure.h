// secure: a connection that both ends prove and nobody else reads: TLS 1.3 with a pre-shared
// key, by OpenSSL. No certificates, no names; the key is the proof, and each connection has keys of
// its own besides (psk_dhe_ke), so that a key that is lost later opens none of today's. No R.
//
// A build without OpenSSL has none of this: mst_secure_has() is 0 and mst_secure_open says so.
//
// One thread at a time. Nothing waits: what can't be read or written now is -MST_EAGAIN, and
// mst_secure_wants says what to wait for.
#ifndef MST_SECURE_SECURE_H
#define MST_SECURE_SECURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"

#define MST_SECURE_KEY_BYTES 32u
#define MST_SECURE_NAME_MAX 64u // characters of a key's name

struct mst_secure;

enum mst_secure_end { MST_SECURE_DIALS, MST_SECURE_ACCEPTS };

int mst_secure_has(void);
// mst_secure_must: 0; without OpenSSL -MST_ESYS, and err says so.
int mst_secure_must(struct mst_err *err);
// mst_secure_open begins on a connection without blocking, which stays the caller's. The key is
// copied. name: which key, for the other end; it isn't secret. 0, -MST_EMEM,
// -MST_ESYS (without OpenSSL: ENOTSUP).
int mst_secure_open(enum mst_secure_end end, int fd,
                    const uint8_t key[MST_SECURE_KEY_BYTES], const char *name,
                    struct mst_secure **out, struct mst_err *err);
// mst_secure_shake goes on with the handshake. 0: both ends have proved that they have the key;
// -MST_EAGAIN; -MST_EPROTO: the other end hasn't the key, or isn't one of these; -MST_ECLOSED,
// -MST_ESYS, -MST_EMEM. It reads nothing beyond the handshake for the caller.
int mst_secure_shake(struct mst_secure *secure, struct mst_err *err);
// After that: mst_secure_read and mst_secure_write, as mst_net_read and mst_net_write. A connection
// that ends without TLS's own end reads -MST_ECLOSED as well.
int64_t mst_secure_read(struct mst_secure *secure, void *bytes, size_t n,
                        struct mst_err *err);
int64_t mst_secure_write(struct mst_secure *secure, const void *bytes, size_t n,
                         struct mst_err *err);
// mst_secure_await: 1 once something can be read, which stays there; else as mst_secure_read.
int mst_secure_await(struct mst_secure *secure, struct mst_err *err);
// mst_secure_has_more: something can be read that no loop will report.
int mst_secure_has_more(const struct mst_secure *secure);
// mst_secure_wants gives the events of poll() to wait for after -MST_EAGAIN, and at the beginning.
short mst_secure_wants(const struct mst_secure *secure);
// mst_secure_free forgets it, and says nothing to the other end: a forked child may call it. NULL
// is allowed.
void mst_secure_free(struct mst_secure *secure);

#endif
