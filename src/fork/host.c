// The host where a launcher's workers are. See fork.h.
#include "base/mst_clock.h"
#include "fork/fork.h"

// Workers that the kernel ends at once are heard to end within this time.
#define OOM_NS MST_NS_PER_S

void mst_host_here(struct mst_host *host) {
  *host = (struct mst_host){.name = "localhost",
                            .shares_files = 1,
                            .shares_processes = 1,
                            .oom_kills = mst_proc_oom_kills};
  host->kills = host->oom_kills();
}

int mst_host_lacked_memory(struct mst_host *host, int64_t now_ns) {
  if (now_ns - host->kill_ns > OOM_NS) host->kills_new = 0;
  if (host->oom_kills == NULL) return host->kills_new > 0;
  const int64_t before = host->kills;
  host->kills = host->oom_kills();
  if (before >= 0 && host->kills > before) {
    host->kills_new += host->kills - before;
    host->kill_ns = now_ns;
  }
  return host->kills_new > 0;
}

void mst_host_count_kill(struct mst_host *host) { host->kills_new--; }

void mst_host_note_kill(struct mst_host *host, int64_t now_ns) {
  if (host->oom_kills != NULL) return; // it counts them itself
  if (now_ns - host->kill_ns > OOM_NS) host->kills_new = 0;
  host->kills_new++;
  host->kill_ns = now_ns;
}
