// secure/psk: files that hold the key that both ends of a connection prove. No R; any thread.
//
// A key file is one line of ASCII, "muster-key-1 NAME HEX": the name (1 to 64 letters, digits, "-"
// and "_"; not secret) and 32 bytes as 64 hexadecimal digits. Only its owner may read it. A path
// may lead to a pipe ("/dev/fd/3"), which is read to its end.
#ifndef MST_SECURE_PSK_H
#define MST_SECURE_PSK_H

#include "base/mst_err.h"
#include "secure/secure.h"

struct mst_psk {
  uint8_t bytes[MST_SECURE_KEY_BYTES];
  char name[MST_SECURE_NAME_MAX + 1];
};

// mst_psk_read reads a file. 0; -MST_EINPUT: it isn't a key file, or others may read it; -MST_ESYS:
// it can't be read, err->sys_errno says why.
int mst_psk_read(const char *path, struct mst_psk *key, struct mst_err *err);
// mst_psk_make writes a new key into a new file, of mode 0600. -MST_ESYS: with EEXIST, there is
// one.
int mst_psk_make(const char *path, struct mst_err *err);
// mst_psk_wipe overwrites it.
void mst_psk_wipe(struct mst_psk *key);

#endif
