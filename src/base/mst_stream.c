// The state of the generator is two vectors of three numbers. A step, or any number of steps,
// multiplies each by a matrix modulo a prime. The matrices for 2^127 steps are those of L'Ecuyer,
// Simard, Chen and Kelton (Operations Research 50(6), 2002); powers of them jump over many streams
// at once.
#include "base/mst_stream.h"

#include <string.h>

typedef uint32_t matrix[3][3];

static const struct part {
  uint64_t modulus;
  matrix next; // 2^127 steps
} parts[2] = {{4294967087u,
               {{2427906178u, 3580155704u, 949770784u},
                {226153695u, 1230515664u, 3580155704u},
                {1988835001u, 986791581u, 1230515664u}}},
              {4294944443u,
               {{1464411153u, 277697599u, 1610723613u},
                {32183930u, 1464411153u, 1022607788u},
                {2824425944u, 32183930u, 2093834863u}}}};

// Each product is below 2^64, each remainder below 2^32.
static uint32_t dot(const uint32_t a[3], uint32_t x, uint32_t y, uint32_t z,
                    uint64_t modulus) {
  const uint64_t sum = (uint64_t)a[0] * x % modulus +
                       (uint64_t)a[1] * y % modulus +
                       (uint64_t)a[2] * z % modulus;
  return (uint32_t)(sum % modulus);
}

static void multiply(matrix a, uint32_t v[3], uint64_t modulus) {
  uint32_t product[3];
  for (int i = 0; i < 3; i++)
    product[i] = dot(a[i], v[0], v[1], v[2], modulus);
  memcpy(v, product, sizeof product);
}

static void square(matrix a, uint64_t modulus) {
  matrix product;
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++)
      product[i][j] = dot(a[i], a[0][j], a[1][j], a[2][j], modulus);
  }
  memcpy(a, product, sizeof product);
}

void mst_stream_jump(uint32_t stream[MST_STREAM_WORDS], uint64_t n) {
  for (int i = 0; i < 2; i++) {
    const uint64_t modulus = parts[i].modulus;
    matrix power;
    memcpy(power, parts[i].next, sizeof power);
    for (uint64_t left = n; left > 0; left >>= 1) {
      if ((left & 1) != 0) multiply(power, stream + 3 * i, modulus);
      if (left > 1) square(power, modulus);
    }
  }
}
