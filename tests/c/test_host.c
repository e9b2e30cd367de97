// Tests of fork/host: which ends of workers are put down to a lack of memory.
#include <string.h>

#include "base/mst_clock.h"
#include "fork/fork.h"
#include "mst_test.h"

static int64_t kills;
static int64_t look(void) { return kills; }

TEST("As many ends are for lack of memory as the kernel has counted, for a "
     "second") {
  struct mst_host host = {.oom_kills = look};
  int64_t now_ns = 100 * MST_NS_PER_S;
  CHECK(!mst_host_lacked_memory(&host, now_ns));
  kills = 2;
  CHECK(mst_host_lacked_memory(&host, now_ns));
  mst_host_count_kill(&host);
  CHECK(mst_host_lacked_memory(&host, now_ns + MST_NS_PER_S));
  mst_host_count_kill(&host);
  CHECK(!mst_host_lacked_memory(&host, now_ns + MST_NS_PER_S));
  // One that is nobody's here is forgotten.
  now_ns += 10 * MST_NS_PER_S;
  kills = 3;
  CHECK(mst_host_lacked_memory(&host, now_ns));
  CHECK(!mst_host_lacked_memory(&host, now_ns + MST_NS_PER_S + 1));
}

TEST("Where the kernel's count isn't known, no end is for lack of memory") {
  struct mst_host host = {.oom_kills = look, .kills = -1};
  kills = -1;
  CHECK(!mst_host_lacked_memory(&host, MST_NS_PER_S));
  kills = 5; // it is known from now on: those were before
  CHECK(!mst_host_lacked_memory(&host, MST_NS_PER_S));
  kills = 6;
  CHECK(mst_host_lacked_memory(&host, MST_NS_PER_S));
}

TEST(
    "Another host's kills for memory are those that its fork servers tell of") {
  struct mst_host host = {.name = "far"};
  int64_t now_ns = 100 * MST_NS_PER_S;
  CHECK(!mst_host_lacked_memory(&host, now_ns));
  mst_host_note_kill(&host, now_ns);
  CHECK(mst_host_lacked_memory(&host, now_ns));
  mst_host_count_kill(&host);
  CHECK(!mst_host_lacked_memory(&host, now_ns));
  mst_host_note_kill(&host, now_ns);
  CHECK(!mst_host_lacked_memory(&host, now_ns + MST_NS_PER_S + 1));
  struct mst_host here = {.oom_kills = look}; // which counts them itself
  kills = 0;
  mst_host_note_kill(&here, now_ns);
  CHECK(!mst_host_lacked_memory(&here, now_ns));
}

TEST("This machine shares its files with the session") {
  struct mst_host host;
  mst_host_here(&host);
  CHECK_TEXT(host.name, "localhost");
  CHECK(host.shares_files);
  CHECK_INT(host.kills, mst_proc_oom_kills());
}
