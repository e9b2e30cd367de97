// When hosts are asked for and given back. The contract is in scale.h.
#include "sched/scale.h"

static int is_any_up(const struct mst_scale_host *hosts, uint32_t count) {
  uint32_t i = 0;
  while (i < count && hosts[i].is != MST_SCALE_UP)
    i++;
  return i < count;
}

// wait_enough tells whether tasks have waited long enough for another host.
static int wait_enough(const struct mst_scale *scale, int any_up,
                       int64_t now_ns) {
  return scale->wait_ns != 0 &&
         (!any_up || now_ns - scale->wait_ns >= MST_SCALE_PATIENCE_NS);
}

static void wake_for_calls(struct mst_scale_host *hosts, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (hosts[i].is == MST_SCALE_ASLEEP && hosts[i].called)
      hosts[i].act = MST_SCALE_WAKE;
  }
}

static void wake_for_tasks(struct mst_scale_host *hosts, uint32_t count,
                           uint32_t tasks) {
  uint64_t room = 0;
  for (uint32_t i = 0; i < count; i++) {
    const int whole =
        hosts[i].is == MST_SCALE_AWAITED || hosts[i].act == MST_SCALE_WAKE;
    room += whole ? hosts[i].workers : hosts[i].coming;
  }
  for (uint32_t i = 0; i < count && room < tasks; i++) {
    struct mst_scale_host *host = &hosts[i];
    if (host->is != MST_SCALE_ASLEEP || !host->wanted ||
        host->act != MST_SCALE_NOTHING) {
      continue;
    }
    host->act = MST_SCALE_WAKE;
    room += host->workers;
  }
}

static int is_over(const struct mst_scale *scale,
                   const struct mst_scale_host *host, int64_t now_ns) {
  return host->is == MST_SCALE_UP && !host->busy && !host->stays &&
         scale->idle_ns != INT64_MAX &&
         now_ns - host->busy_ns >= scale->idle_ns;
}

uint32_t mst_scale_look(struct mst_scale *scale, struct mst_scale_host *hosts,
                        uint32_t count, uint32_t tasks, int64_t now_ns) {
  uint32_t acts = 0;
  if (tasks == 0) {
    scale->wait_ns = 0;
  } else if (scale->wait_ns == 0) {
    scale->wait_ns = now_ns;
  }
  for (uint32_t i = 0; i < count; i++) {
    struct mst_scale_host *host = &hosts[i];
    host->act = MST_SCALE_NOTHING;
    if (host->is != MST_SCALE_UP || host->busy || tasks > 0)
      host->busy_ns = now_ns;
    if (is_over(scale, host, now_ns)) host->act = MST_SCALE_SLEEP;
  }
  wake_for_calls(hosts, count);
  if (wait_enough(scale, is_any_up(hosts, count), now_ns))
    wake_for_tasks(hosts, count, tasks);
  for (uint32_t i = 0; i < count; i++)
    acts += hosts[i].act != MST_SCALE_NOTHING;
  return acts;
}

int64_t mst_scale_due_ns(const struct mst_scale *scale,
                         const struct mst_scale_host *hosts, uint32_t count) {
  int64_t due_ns = INT64_MAX;
  for (uint32_t i = 0; i < count; i++) {
    const struct mst_scale_host *host = &hosts[i];
    if (host->is != MST_SCALE_UP || host->busy || host->stays ||
        scale->idle_ns == INT64_MAX) {
      continue;
    }
    const int64_t over_ns = host->busy_ns + scale->idle_ns;
    if (over_ns < due_ns) due_ns = over_ns;
  }
  return due_ns;
}
