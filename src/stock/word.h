// word: what a peer must send before anything else from it is parsed.
//
// Each worker gets a word of its own through a channel that other users can't see (its standard
// input), and sends it in its answer to R's handshake, after a mark. This finds the mark in the raw
// bytes: R's format is never parsed for a peer that hasn't proved to be a worker. Pure; any thread.
#ifndef MST_STOCK_WORD_H
#define MST_STOCK_WORD_H

#include <stddef.h>
#include <stdint.h>

// Precedes each word, and isn't secret.
#define MST_STOCK_MARK "muster-word-"
// 128 random bits, in hexadecimal.
#define MST_STOCK_WORD_BYTES ((size_t)32)
// The word comes within the first bytes of a connection: an answer to the handshake has a few
// hundred, most of them times.
#define MST_STOCK_FIRST_MAX ((size_t)4096)

// mst_stock_word_find looks for the first mark followed by a word in the first n bytes of a
// connection. 1: *at is where the word begins. 0: it may still come. -MST_EPROTO: it can't.
int mst_stock_word_find(const uint8_t *bytes, size_t n, size_t *at);

// mst_stock_word_same compares two words, in a time that doesn't depend on where they differ.
int mst_stock_word_same(const uint8_t *said, const uint8_t *word);

#endif
