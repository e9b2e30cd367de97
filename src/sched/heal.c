// Blame and silence. The contract is in heal.h.
#include "sched/heal.h"

#include "sched/late.h"

#define NEVER INT64_MAX
#define BEATS 3 // questions in one heartbeat

void mst_heal_begin(struct mst_heal *heal, int64_t now_ns) {
  *heal = (struct mst_heal){.heard_ns = now_ns, .asked_ns = now_ns};
}

void mst_heal_back(struct mst_heal *heal, int64_t now_ns) {
  heal->heard_ns = heal->asked_ns = now_ns;
}

enum mst_heal_verdict mst_heal_lost(struct mst_heal *heal,
                                    const struct mst_heal_policy *policy,
                                    enum mst_heal_at at, uint32_t *losses,
                                    int64_t now_ns) {
  if (!policy->on) return MST_HEAL_LEAVE;
  if (at == MST_HEAL_EVALUATING) {
    heal->deaths = heal->row = 0; // it got to work: it can be kept alive
    return mst_tries_left(++*losses, policy->retries) ? MST_HEAL_RESTART
                                                      : MST_HEAL_POISON;
  }
  const uint32_t most =
      policy->retries > MST_HEAL_ROW ? policy->retries : MST_HEAL_ROW;
  if (++heal->row > most) return MST_HEAL_GIVE_UP;
  if (at == MST_HEAL_REPLAYING) return MST_HEAL_RESTART;
  if (heal->deaths == 0 || now_ns - heal->first_ns > MST_HEAL_PERIOD_NS) {
    heal->deaths = 0;
    heal->first_ns = now_ns;
  }
  if (++heal->deaths > MST_HEAL_DEATHS) return MST_HEAL_GIVE_UP;
  return MST_HEAL_RESTART;
}

void mst_heal_idle(struct mst_heal *heal) { heal->deaths = 0; }

void mst_heal_answered(struct mst_heal *heal) { heal->deaths = heal->row = 0; }

enum mst_beat mst_heal_beat(struct mst_heal *heal,
                            const struct mst_heal_policy *policy,
                            int64_t slept_ns, int64_t now_ns) {
  if (policy->heartbeat_ns == NEVER) return MST_BEAT_FINE;
  const int64_t beat_ns = policy->heartbeat_ns / BEATS;
  if (slept_ns > beat_ns) heal->heard_ns = now_ns; // judge later
  const int64_t silent_ns = now_ns - heal->heard_ns;
  if (silent_ns >= policy->heartbeat_ns &&
      (now_ns - heal->runs_ns >= policy->heartbeat_ns ||
       silent_ns >= MST_HEAL_STUCK_NS)) {
    return MST_BEAT_SILENT;
  }
  if (now_ns - heal->asked_ns < beat_ns) return MST_BEAT_FINE;
  heal->asked_ns = now_ns;
  return MST_BEAT_ASK;
}

void mst_heal_heard(struct mst_heal *heal, int64_t now_ns) {
  heal->heard_ns = now_ns;
}

void mst_heal_runs(struct mst_heal *heal, int64_t now_ns) {
  heal->runs_ns = now_ns;
}

int mst_heal_is_suspect(const struct mst_heal *heal,
                        const struct mst_heal_policy *policy, int64_t now_ns) {
  if (policy->heartbeat_ns == NEVER) return 0;
  return heal->asked_ns > heal->heard_ns &&
         now_ns - heal->heard_ns >= policy->heartbeat_ns / 2;
}
