// A TLS client's handshake, by OpenSSL. See scan.h.
//
// OpenSSL reads and writes memory, and the socket is read and written here: its own writes would
// raise SIGPIPE in the user's session when the peer is gone.
//
// One context for all, made on first use and kept: it costs a millisecond. Certificates aren't
// checked and nothing is sent after the handshake, so there is no secret to protect.
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>

#include "discover/scan.h"
#include "net/net.h"

#define READ_BYTES 4096

struct mst_tls {
  SSL *ssl;
  int fd;
  BIO *in, *out; // the connection's, which frees them
};

static SSL_CTX *context(void) {
  static SSL_CTX *made;
  if (made == NULL) {
    made = SSL_CTX_new(TLS_client_method());
    if (made != NULL) SSL_CTX_set_verify(made, SSL_VERIFY_NONE, NULL);
  }
  return made;
}

int mst_tls_has(void) { return 1; }

static int attach(struct mst_tls *tls) {
  tls->in = BIO_new(BIO_s_mem());
  tls->out = BIO_new(BIO_s_mem());
  if (tls->in == NULL || tls->out == NULL) {
    BIO_free(tls->in);
    BIO_free(tls->out);
    return -MST_EMEM;
  }
  BIO_set_mem_eof_return(tls->in, -1); // empty means "later", not "at its end"
  SSL_set_bio(tls->ssl, tls->in, tls->out);
  SSL_set_connect_state(tls->ssl);
  return 0;
}

struct mst_tls *mst_tls_begin(int fd) {
  SSL_CTX *of = context();
  struct mst_tls *tls = of == NULL ? NULL : calloc(1, sizeof *tls);
  if (tls == NULL) return NULL;
  tls->fd = fd;
  tls->ssl = SSL_new(of);
  if (tls->ssl == NULL || attach(tls) != 0) {
    mst_tls_end(tls);
    return NULL;
  }
  return tls;
}

// flush sends OpenSSL's output. 0, -MST_EAGAIN, -MST_ECLOSED.
static int flush(struct mst_tls *tls) {
  char *bytes;
  for (;;) {
    const long n = BIO_get_mem_data(tls->out, &bytes);
    if (n <= 0) return 0;
    const struct iovec part = {.iov_base = bytes, .iov_len = (size_t)n};
    const int64_t sent = mst_net_sendv(tls->fd, &part, 1, NULL, 0, 0, NULL);
    if (sent < 0) return sent == -MST_EAGAIN ? -MST_EAGAIN : -MST_ECLOSED;
    // Reading removes sent bytes from the memory BIO; unsent ones stay.
    for (int64_t left = sent; left > 0;) {
      char gone[READ_BYTES];
      const int want = left < READ_BYTES ? (int)left : READ_BYTES;
      const int got = BIO_read(tls->out, gone, want);
      if (got <= 0) return -MST_ECLOSED;
      left -= got;
    }
  }
}

static int fill(struct mst_tls *tls) {
  char bytes[READ_BYTES];
  const int64_t got = mst_net_recv(tls->fd, bytes, sizeof bytes, 0, NULL);
  if (got < 0) return got == -MST_EAGAIN ? -MST_EAGAIN : -MST_ECLOSED;
  return BIO_write(tls->in, bytes, (int)got) == got ? 0 : -MST_ECLOSED;
}

int mst_tls_step(struct mst_tls *tls, int *writes) {
  for (;;) {
    ERR_clear_error(); // the thread's queue may hold others' errors
    const int done = SSL_do_handshake(tls->ssl);
    const int why = done == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, done);
    ERR_clear_error();
    int rc = flush(tls);
    *writes = rc == -MST_EAGAIN;
    if (rc != 0) return rc;
    if (why == SSL_ERROR_NONE) return 0;
    if (why != SSL_ERROR_WANT_READ) return -MST_EPROTO;
    rc = fill(tls);
    if (rc != 0) return rc;
  }
}

void mst_tls_end(struct mst_tls *tls) {
  if (tls == NULL) return;
  SSL_free(tls->ssl);
  free(tls);
}
