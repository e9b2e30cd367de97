// A hash of bytes: quick, and good enough to tell contents apart before they are compared, but
// collisions are easy to construct. The same bytes give other numbers on a machine of the other
// byte order; nothing stores them. Any thread.
#ifndef MST_BASE_HASH_H
#define MST_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

// mst_hash gives the hash of n bytes, which may be NULL if n is 0.
uint64_t mst_hash(const void *bytes, size_t n);

#endif
