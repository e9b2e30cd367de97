// Tests of base/mst_stream: the same streams as R's nextRNGStream(), in any number of jumps.
#include "base/mst_stream.h"
#include "mst_test.h"

// nextRNGStream() of c(10407L, 1:6), once and 1,000 times.
static const uint32_t once[6] = {3847595764u, 542750874u, 3358998068u,
                                 4025640956u, 701604884u, 2546910389u};
static const uint32_t thousand[6] = {98022451u,  27015954u,   46214352u,
                                     275560269u, 3349299313u, 2565149465u};

static void check_same(const uint32_t a[6], const uint32_t b[6]) {
  for (int i = 0; i < 6; i++)
    CHECK_INT(a[i], b[i]);
}

TEST("One jump is the next stream") {
  uint32_t stream[6] = {1, 2, 3, 4, 5, 6};
  mst_stream_jump(stream, 1);
  check_same(stream, once);
}

TEST("A long jump equals that number of short ones") {
  uint32_t stream[6] = {1, 2, 3, 4, 5, 6};
  uint32_t other[6] = {1, 2, 3, 4, 5, 6};
  mst_stream_jump(stream, 1000);
  check_same(stream, thousand);
  for (int k = 0; k < 1000; k++)
    mst_stream_jump(other, 1);
  check_same(other, thousand);
  mst_stream_jump(stream, UINT64_MAX);
  mst_stream_jump(stream, 1); // 2^64 in all
  mst_stream_jump(other, UINT64_C(1) << 63);
  mst_stream_jump(other, UINT64_C(1) << 63);
  check_same(stream, other);
}

TEST("A jump by 0 changes nothing") {
  uint32_t stream[6] = {1, 2, 3, 4, 5, 4294944442u};
  mst_stream_jump(stream, 0);
  CHECK_INT(stream[5], 4294944442u);
}
