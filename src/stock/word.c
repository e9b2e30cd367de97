// See word.h.
#include "stock/word.h"

#include <string.h>

#include "base/mst_err.h"

#define MARK_BYTES (sizeof MST_STOCK_MARK - 1)

int mst_stock_word_find(const uint8_t *bytes, size_t n, size_t *at) {
  const size_t most = n < MST_STOCK_FIRST_MAX ? n : MST_STOCK_FIRST_MAX;
  const size_t whole = MARK_BYTES + MST_STOCK_WORD_BYTES;
  for (size_t i = 0; i + whole <= most; i++) {
    if (memcmp(bytes + i, MST_STOCK_MARK, MARK_BYTES) == 0) {
      *at = i + MARK_BYTES;
      return 1;
    }
  }
  return n < MST_STOCK_FIRST_MAX ? 0 : -MST_EPROTO;
}

int mst_stock_word_same(const uint8_t *said, const uint8_t *word) {
  uint8_t differ = 0;
  for (size_t i = 0; i < MST_STOCK_WORD_BYTES; i++)
    differ |= (uint8_t)(said[i] ^ word[i]);
  return differ == 0;
}
