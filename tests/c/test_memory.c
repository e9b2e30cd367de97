// Tests of share/memory: the minimum over the system and the control groups.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mst_test.h"
#include "share/memory.h"

static char root[64];

// put writes a file below a fake root, with its parent folders.
static void put(const char *path, const char *text) {
  char full[512];
  (void)snprintf(full, sizeof full, "%s/%s", root, path);
  for (char *slash = full + strlen(root) + 1;
       (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = '\0';
    (void)mkdir(full, 0700);
    *slash = '/';
  }
  FILE *file = fopen(full, "w");
  CHECK(file != NULL);
  CHECK(fputs(text, file) >= 0);
  CHECK_INT(fclose(file), 0);
}

static void begin(const char *meminfo, const char *cgroup) {
  (void)snprintf(root, sizeof root, "/tmp/mst-memory-XXXXXX");
  CHECK(mkdtemp(root) != NULL);
  put("sys/none", "");
  if (meminfo != NULL) put("proc/meminfo", meminfo);
  if (cgroup != NULL) put("proc/self/cgroup", cgroup);
}

// end reads the memory, and removes the root.
static struct mst_memory end(void) {
  char proc[128], sys[128], command[128];
  struct mst_memory memory;
  (void)snprintf(proc, sizeof proc, "%s/proc", root);
  (void)snprintf(sys, sizeof sys, "%s/sys", root);
  mst_memory_look(proc, sys, &memory);
  (void)snprintf(command, sizeof command, "rm -r %s", root);
  CHECK_INT(system(command), 0);
  return memory;
}

#define MEMINFO "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable:    4000 kB\n"

TEST("Without control groups the system's available memory counts") {
  begin(MEMINFO, NULL);
  const struct mst_memory memory = end();
  CHECK_INT(memory.bytes, 4000 * 1024);
  CHECK_INT(memory.is_cgroup, 0);
}

TEST("An unreadable file sets no limit") {
  begin(NULL, NULL);
  CHECK(end().bytes == INT64_MAX);
  begin("MemAvailable: lots\n", "0:/nonsense\n:::\n\n1:memory\n");
  CHECK(end().bytes == INT64_MAX);
  begin("", "0::/a/../../b\n");
  put("sys/memory.max", "10\n");
  put("sys/memory.current", "1\n");
  CHECK(end().bytes == INT64_MAX);
}

TEST("The tightest group of v2 counts, including the pages it could drop") {
  begin(MEMINFO, "0::/user/one\n");
  put("sys/cgroup.controllers", "memory\n");
  put("sys/user/one/memory.max", "max\n");
  put("sys/user/one/memory.current", "5\n");
  put("sys/user/memory.max", "1000000\n");
  put("sys/user/memory.current", "700000\n");
  put("sys/user/memory.stat",
      "anon 1\nfile 9\ninactive_file 50000\nactive_file 20000\n");
  const struct mst_memory memory = end();
  CHECK_INT(memory.bytes, 370000);
  CHECK_INT(memory.is_cgroup, 1);
}

TEST("Shared segments count as used, although a group counts them as files") {
  begin(MEMINFO, "0::/user\n");
  put("sys/cgroup.controllers", "memory\n");
  put("sys/user/memory.max", "1000000\n");
  put("sys/user/memory.current", "900000\n");
  put("sys/user/memory.stat",
      "file 800000\nshmem 790000\ninactive_anon 790000\n"
      "inactive_file 6000\nactive_file 4000\n");
  CHECK_INT(end().bytes, 110000);
}

TEST("A group over its limit leaves nothing") {
  begin(MEMINFO, "0::/\n");
  put("sys/cgroup.controllers", "memory\n");
  put("sys/memory.max", "1000\n");
  put("sys/memory.current", "1200\n");
  CHECK_INT(end().bytes, 0);
}

TEST("v1 has a hierarchy for memory, and a number for no limit") {
  begin(MEMINFO, "3:cpu,memory:/job/7\n1:name=systemd:/x\n0::/\n");
  put("sys/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/memory/memory.usage_in_bytes", "77\n");
  put("sys/memory/job/memory.limit_in_bytes", "2000000\n");
  put("sys/memory/job/memory.usage_in_bytes", "1900000\n");
  put("sys/memory/job/memory.stat",
      "inactive_file 1\ntotal_inactive_file 300000\ntotal_active_file 0\n");
  put("sys/memory/job/7/memory.limit_in_bytes", "3000000\n");
  put("sys/memory/job/7/memory.usage_in_bytes", "0\n");
  CHECK_INT(end().bytes, 400000);
}

TEST("Hybrid systems have v2 next to v1") {
  begin(MEMINFO, "3:cpu,cpuacct:/\n0::/a\n");
  put("sys/unified/cgroup.controllers", "memory\n");
  put("sys/unified/a/memory.max", "5000\n");
  put("sys/unified/a/memory.current", "1000\n");
  CHECK_INT(end().bytes, 4000);
}

TEST("An invisible group leaves those above it, and the mount's root") {
  begin(MEMINFO, "0::/docker/0123456789/inner\n");
  put("sys/cgroup.controllers", "memory\n");
  put("sys/memory.max", "9000\n");
  put("sys/memory.current", "2000\n");
  CHECK_INT(end().bytes, 7000);
}

TEST("Mappings are counted as lines, and their limit is the kernel's") {
  char proc[128], command[128], line[64 * 200 + 1];
  struct mst_mappings now;
  begin(NULL, NULL);
  // More than is read at once.
  for (int i = 0; i < 200; i++) {
    (void)snprintf(line + 64 * i, 65, "%063d\n", i);
  }
  put("proc/self/maps", line);
  put("proc/sys/vm/max_map_count", "65530\n");
  (void)snprintf(proc, sizeof proc, "%s/proc", root);
  mst_room_mappings(proc, &now);
  CHECK_INT(now.count, 200);
  CHECK_INT(now.limit, 65530);
  mst_room_mappings("/no/such/tree", &now);
  CHECK_INT(now.count, -1);
  CHECK_INT(now.limit, -1);
  (void)snprintf(command, sizeof command, "rm -r %s", root);
  CHECK_INT(system(command), 0);
}
