// TLS 1.3 with a pre-shared key, by OpenSSL. See secure.h.
//
// OpenSSL reads and writes by this file's functions: its own writes would raise SIGPIPE in the
// user's session when the peer is gone.
#include "secure/secure.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "net/net.h"

// The one cipher: its hash is the one that binds the key.
static const char *const cipher = "TLS_AES_128_GCM_SHA256";
static const unsigned char cipher_id[] = {0x13, 0x01};

struct mst_secure {
  SSL *ssl;
  int fd;
  uint8_t key[MST_SECURE_KEY_BYTES];
  char name[MST_SECURE_NAME_MAX + 1];
  short wants;
  int64_t failed; // what the connection said last, if that was an error
  struct mst_err err;
};

int mst_secure_has(void) { return 1; }

int mst_secure_must(struct mst_err *err) {
  (void)err;
  return 0;
}

// ---- OpenSSL's reads and writes

static int moved(BIO *bio, struct mst_secure *secure, int64_t n) {
  if (n > 0) return (int)n;
  if (n == -MST_EAGAIN) return -1;
  secure->failed = n;
  BIO_clear_retry_flags(bio);
  return n == -MST_ECLOSED ? 0 : -1;
}

static int bio_write(BIO *bio, const char *bytes, int n) {
  struct mst_secure *secure = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  BIO_set_retry_write(bio);
  return moved(bio, secure,
               mst_net_write(secure->fd, bytes, (size_t)n, &secure->err));
}

static int bio_read(BIO *bio, char *bytes, int n) {
  struct mst_secure *secure = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  BIO_set_retry_read(bio);
  return moved(bio, secure,
               mst_net_read(secure->fd, bytes, (size_t)n, &secure->err));
}

static long bio_ctrl(BIO *bio, int what, long number, void *pointer) {
  (void)bio;
  (void)number;
  (void)pointer;
  return what == BIO_CTRL_FLUSH; // nothing is buffered here
}

// ---- the key

static struct mst_secure *of(SSL *ssl) { return SSL_get_app_data(ssl); }

// session_of makes what OpenSSL calls a session, of the key.
static SSL_SESSION *session_of(SSL *ssl, const struct mst_secure *secure) {
  SSL_SESSION *session = SSL_SESSION_new();
  const SSL_CIPHER *with = SSL_CIPHER_find(ssl, cipher_id);
  if (session != NULL && with != NULL &&
      SSL_SESSION_set1_master_key(session, secure->key, sizeof secure->key) &&
      SSL_SESSION_set_cipher(session, with) &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION)) {
    return session;
  }
  SSL_SESSION_free(session);
  return NULL;
}

static int offer_key(SSL *ssl, const EVP_MD *hash, const unsigned char **name,
                     size_t *n, SSL_SESSION **session) {
  const struct mst_secure *secure = of(ssl);
  (void)hash; // of the one cipher
  *session = session_of(ssl, secure);
  *name = (const unsigned char *)secure->name;
  *n = strlen(secure->name);
  return *session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *name, size_t n,
                    SSL_SESSION **session) {
  const struct mst_secure *secure = of(ssl);
  *session = NULL; // with it the handshake fails: there are no certificates
  if (n == strlen(secure->name) && memcmp(name, secure->name, n) == 0)
    *session = session_of(ssl, secure);
  return 1;
}

// ---- what all connections share

// A context costs a millisecond and 13 kB, which whoever comes would have us spend: so there is one
// for each end. They are kept: the threads that use them end in any order.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of these
static SSL_CTX *contexts[2];
static BIO_METHOD *methods;

static int set_up(SSL_CTX *context, enum mst_secure_end end) {
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL); // no certificate will do
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  if (end == MST_SECURE_DIALS) {
    SSL_CTX_set_psk_use_session_callback(context, offer_key);
  } else {
    SSL_CTX_set_psk_find_session_callback(context, find_key);
  }
  static const unsigned char use[] = "muster"; // whoever accepts must have one
  return (end == MST_SECURE_DIALS ||
          SSL_CTX_set_session_id_context(context, use, sizeof use)) &&
         SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) &&
         SSL_CTX_set_ciphersuites(context, cipher) &&
         SSL_CTX_set_num_tickets(context, 0) &&
         SSL_CTX_set_max_early_data(context, 0);
}

static void make_context(enum mst_secure_end end) {
  SSL_CTX *context = SSL_CTX_new(end == MST_SECURE_DIALS ? TLS_client_method()
                                                         : TLS_server_method());
  if (context != NULL && set_up(context, end)) {
    contexts[end] = context;
  } else {
    SSL_CTX_free(context);
  }
}

static void make_methods(void) {
  methods = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "muster");
  if (methods == NULL) return;
  (void)BIO_meth_set_write(methods, bio_write);
  (void)BIO_meth_set_read(methods, bio_read);
  (void)BIO_meth_set_ctrl(methods, bio_ctrl);
}

// share has what all connections share made. 0: there is no memory for it.
static int share(enum mst_secure_end end) {
  (void)pthread_mutex_lock(&lock);
  if (contexts[end] == NULL) make_context(end);
  if (methods == NULL) make_methods();
  const int made = contexts[end] != NULL && methods != NULL;
  (void)pthread_mutex_unlock(&lock);
  return made;
}

// ---- opened

static int begin(struct mst_secure *secure, enum mst_secure_end end) {
  if (!share(end)) return -MST_EMEM;
  secure->ssl = SSL_new(contexts[end]);
  BIO *bio = secure->ssl == NULL ? NULL : BIO_new(methods);
  if (bio == NULL) return -MST_EMEM;
  BIO_set_data(bio, secure);
  BIO_set_init(bio, 1);
  SSL_set_bio(secure->ssl, bio, bio);
  (void)SSL_set_app_data(secure->ssl, secure);
  if (end == MST_SECURE_DIALS) {
    SSL_set_connect_state(secure->ssl);
  } else {
    SSL_set_accept_state(secure->ssl);
  }
  return 0;
}

int mst_secure_open(enum mst_secure_end end, int fd,
                    const uint8_t key[MST_SECURE_KEY_BYTES], const char *name,
                    struct mst_secure **out, struct mst_err *err) {
  struct mst_secure *secure = calloc(1, sizeof *secure);
  *out = NULL;
  if (secure == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for TLS");
  secure->fd = fd;
  secure->wants = end == MST_SECURE_DIALS ? POLLOUT : POLLIN;
  memcpy(secure->key, key, sizeof secure->key);
  strncpy(secure->name, name, MST_SECURE_NAME_MAX);
  if (begin(secure, end) != 0) {
    mst_secure_free(secure);
    ERR_clear_error();
    return mst_err_set(err, MST_EMEM, 0, "SSL_new", "no memory for TLS");
  }
  *out = secure;
  return 0;
}

void mst_secure_free(struct mst_secure *secure) {
  if (secure == NULL) return;
  SSL_free(secure->ssl);
  OPENSSL_cleanse(secure->key, sizeof secure->key);
  free(secure);
}

// ---- used

static int64_t closed(struct mst_err *err) {
  return mst_err_set(err, MST_ECLOSED, 0, NULL, "the other end is closed");
}

// outcome says what an SSL_...() that returned no bytes means.
static int64_t outcome(struct mst_secure *secure, int rc, struct mst_err *err) {
  const int why = SSL_get_error(secure->ssl, rc);
  secure->wants = why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
    return -MST_EAGAIN;
  const unsigned long said = ERR_peek_error();
  ERR_clear_error();
  if (why == SSL_ERROR_ZERO_RETURN || secure->failed == -MST_ECLOSED)
    return closed(err);
  if (secure->failed != 0) {
    if (err != NULL) *err = secure->err;
    return secure->failed;
  }
  const char *text = said == 0 ? NULL : ERR_reason_error_string(said);
  return mst_err_set(err, MST_EPROTO, 0, "TLS", "%s",
                     text != NULL ? text : "the other end broke a rule");
}

int mst_secure_shake(struct mst_secure *secure, struct mst_err *err) {
  ERR_clear_error();
  const int rc = SSL_do_handshake(secure->ssl);
  if (rc != 1) return (int)outcome(secure, rc, err);
  // An end that has another proof than the key hasn't proved anything.
  if (SSL_session_reused(secure->ssl) != 1)
    return mst_err_set(err, MST_EPROTO, 0, "TLS", "the key wasn't used");
  return 0;
}

int64_t mst_secure_read(struct mst_secure *secure, void *bytes, size_t n,
                        struct mst_err *err) {
  size_t got = 0;
  ERR_clear_error();
  const int rc = SSL_read_ex(secure->ssl, bytes, n, &got);
  return rc == 1 ? (int64_t)got : outcome(secure, rc, err);
}

int mst_secure_await(struct mst_secure *secure, struct mst_err *err) {
  uint8_t byte;
  size_t got;
  ERR_clear_error();
  const int rc = SSL_peek_ex(secure->ssl, &byte, 1, &got);
  return rc == 1 ? 1 : (int)outcome(secure, rc, err);
}

int64_t mst_secure_write(struct mst_secure *secure, const void *bytes, size_t n,
                         struct mst_err *err) {
  size_t sent = 0;
  ERR_clear_error();
  const int rc = SSL_write_ex(secure->ssl, bytes, n, &sent);
  return rc == 1 ? (int64_t)sent : outcome(secure, rc, err);
}

int mst_secure_has_more(const struct mst_secure *secure) {
  return SSL_pending(secure->ssl) > 0;
}

short mst_secure_wants(const struct mst_secure *secure) {
  return secure->wants;
}
