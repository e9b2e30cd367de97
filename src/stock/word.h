// word: what a peer must say before anything else of it is read.
//
// Each worker gets a word of its own, by a way that other users can't see (its standard
// input), and says it in its answer to R's handshake, after a mark. This finds the mark in
// the bytes as they came: nothing of R's format is read of a peer that hasn't proved that
// it is a worker. Pure; any thread.
#ifndef MST_STOCK_WORD_H
#define MST_STOCK_WORD_H

#include <stddef.h>
#include <stdint.h>

// Stands before each word, and is no secret.
#define MST_STOCK_MARK "muster-word-"
// 128 random bits, in hexadecimal.
#define MST_STOCK_WORD_BYTES ((size_t)32)
// The word stands within the first bytes of a connection: an answer to the handshake has
// a few hundred, most of them times.
#define MST_STOCK_FIRST_MAX ((size_t)4096)

// mst_stock_word_find looks for the first mark with a word behind it in the first n bytes of
// a connection. 1: *at is where the word begins. 0: it may still come. -MST_EPROTO: there
// is none.
int mst_stock_word_find(const uint8_t *bytes, size_t n, size_t *at);

// mst_stock_word_same compares two words, in a time that doesn't depend on where they
// differ.
int mst_stock_word_same(const uint8_t *said, const uint8_t *word);

#endif
