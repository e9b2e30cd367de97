// Streams of L'Ecuyer's MRG32k3a: where the next ones begin, 2^127 numbers apart. Pure.
#ifndef MST_BASE_STREAM_H
#define MST_BASE_STREAM_H

#include <stdint.h>

// The start of a stream: three numbers below 4294967087, not all zero, and three below 4294944443,
// not all zero.
#define MST_STREAM_WORDS 6

// mst_stream_jump moves the start of a stream to that of the n-th stream after it. Takes O(log n)
// products of matrices; less than 50 ns for 1.
void mst_stream_jump(uint32_t stream[MST_STREAM_WORDS], uint64_t n);

#endif
