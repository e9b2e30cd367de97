// The small worlds. See explore.h.
#include <stdlib.h>
#include <string.h>

#include "explore.h"

#define WAITS 1u

// clang-format off
const struct ex_plan ex_plans[] = {
    {.asks = "v0 v0 v0", .limits = "kill 2, forget 1", .size = EX_MEDIUM},
    {.asks = "v0! v0b t", .limits = "kill 1, forget 1, cancel 1"},
    {.asks = "t t t", .limits = "kill 2, cancel 1", .size = EX_MEDIUM},
    {.asks = "t0 t0! t", .limits = "kill 2, cancel 1", .size = EX_MEDIUM},
    {.asks = "t0! t0! v0!", .limits = "kill 2, forget 1", .size = EX_MEDIUM},
    {.asks = "tj tj! v0", .limits = "kill 1, cancel 1", .awaited = 1},
    {.asks = "t- t0- v0", .limits = "kill 1, cancel 1, no launch 1"},
    {.asks = "tl t t0l", .limits = "kill 1, cancel 1, overdue 1"},
    {.asks = "v0! t0 t1", .limits = "kill 2, bad launch 1", .size = EX_MEDIUM},
    {.asks = "v0! v0! v1", .limits = "kill 1, error 1, forget 1"},
    {.asks = "v0 t t1", .limits = "kill 1, end 1", .awaited = 1},
    {.asks = "v0 t0! t", .limits = "kill 1, retire 1"},
    {.asks = "v0 t0! t", .limits = "kill 1, drain 1, cancel 1"},
    {.asks = "v0 v0b t", .limits = "kill 1, stop 1, cancel 1"},
    {.asks = "v0! t0 t", .limits = "kill 2, no memory 1", .size = EX_MEDIUM},
    {.asks = "v0 t! t0", .limits = "kill 2", .held = 1},
    {.asks = "v0 t0 t", .limits = "kill 2, cancel 1", .tired = 1, .size = EX_MEDIUM},
    {.asks = "v0 t0 t1", .limits = "kill 2", .oom = 1},
    {.asks = "v0 t0 t", .limits = "kill 2, cancel 1", .no_healing = 1},
    {.asks = "t0 t1 v0", .limits = "kill 1, no launch 1", .short_of = 1},
    {.asks = "v0 t0! v0", .limits = "kill 2, standby 1", .dear = 1, .size = EX_MEDIUM},
    {.asks = "v0 v0 t0", .limits = "kill 1, standby 1, no memory 1", .dear = 1},
    {.asks = "v0 v0 v1", .limits = "kill 1, standby 1, no launch 1", .dear = 1},
    {.asks = "v0 t0! v0", .limits = "kill 2, standby 1", .dear = 1, .keeps = 1, .size = EX_MEDIUM},
    {.asks = "v0 v0 t0", .limits = "kill 1, standby 1, no memory 1", .dear = 1, .keeps = 1},
    {.asks = "v0 v0 v1", .limits = "kill 1, standby 1, no launch 1", .dear = 1, .keeps = 1},
    {.asks = "v0 t t0", .limits = "kill 2, queue 1, cancel 1", .awaited = 1, .size = EX_MEDIUM},
    {.asks = "v0! t0 t", .limits = "kill 1, move 1, cancel 1"},
    {.asks = "v0! v0 v0", .limits = "kill 1, move 1, forget 1"},
    {.asks = "v0 t0 t", .limits = "move 1, stop 1, retire 1"},
    {.asks = "v0 t0 t", .limits = "move 1, end 1"},
    {.asks = "v0 v0 t0", .limits = "kill 1, move 1", .dear = 1, .keeps = 1},
    {.asks = "v0! t0 t", .limits = "host 2, cancel 1", .size = EX_MEDIUM},
    {.asks = "v0 t t1", .limits = "host 1, kill 1, no host 1"},
    {.asks = "t0 tn v1", .limits = "host 1, move 1, forget 1"},
    {.asks = "v0 t0 t", .limits = "host 1, stop 1, end 1"},
    {.asks = "t tn tn", .limits = "kill 1, cancel 1"},
    {.asks = "t0 t1n tn", .limits = "kill 1, end 1, cancel 1"},
    {.asks = "t tn! t0nf", .limits = "kill 2, cancel 1", .awaited = 1, .size = EX_MEDIUM},
    {.asks = "tj tnj tf", .limits = "kill 1, stop 1, cancel 1"},
    {.asks = "t- tn v0", .limits = "kill 1, drain 1, no memory 1"},
    {.asks = "tl tn tnl", .limits = "kill 1, cancel 1, overdue 1"},
    {.asks = "t t1n tf", .limits = "kill 1, queue 1, move 1, cancel 1"},
    {.asks = "t0- t1n! tnf", .limits = "kill 2, retire 1, cancel 1", .size = EX_LARGE},
    {.asks = "v0! v0b t", .limits = "kill 2, forget 1, cancel 1", .size = EX_LARGE},
    {.asks = "t t t", .limits = "kill 2, cancel 2", .size = EX_LARGE},
    {.asks = "t0 t t", .limits = "kill 2, cancel 2", .size = EX_LARGE},
    {.asks = "t0 t0! t", .limits = "kill 2, cancel 2", .size = EX_LARGE},
    {.asks = "t0! t0! v0!", .limits = "kill 2, cancel 1, forget 1", .size = EX_LARGE},
    {.asks = "tj tj! v0", .limits = "kill 2, cancel 1", .size = EX_LARGE},
    {.asks = "t- v0 t0", .limits = "kill 2, cancel 1, no launch 1", .size = EX_LARGE},
    {.asks = "tl tl t", .limits = "kill 2, cancel 1, overdue 1", .size = EX_LARGE},
    {.asks = "v0! t0 t1", .limits = "kill 2, bad launch 2", .size = EX_LARGE},
    {.asks = "v0! v0! v1", .limits = "kill 2, error 1, forget 1", .size = EX_LARGE},
    {.asks = "v0 t t1", .limits = "kill 2, end 1, cancel 1", .size = EX_LARGE},
    {.asks = "v0 t0! t", .limits = "kill 2, retire 1, cancel 1", .size = EX_LARGE},
    {.asks = "v0 v0b t!", .limits = "kill 2, stop 1, cancel 1", .size = EX_LARGE},
    {.asks = "v0! t0 t", .limits = "kill 2, no memory 2", .size = EX_LARGE},
    {.asks = "v0 t! t0", .limits = "kill 2, forget 1, cancel 1", .held = 1, .size = EX_LARGE},
    {.asks = "v0 t0 t", .limits = "kill 2, cancel 2", .tired = 1, .size = EX_LARGE},
    {.asks = "v0! t0 t1", .limits = "kill 2, cancel 1", .oom = 1, .size = EX_LARGE},
    {.asks = "v0 v1 v0", .limits = "kill 2, standby 2, error 1", .dear = 1, .size = EX_LARGE},
    {.asks = "v0 v1 v0", .limits = "kill 2, standby 2", .dear = 1, .keeps = 1, .size = EX_LARGE},
    {.asks = "t0 t t", .limits = "kill 3, queue 2, end 1", .size = EX_LARGE},
    {.asks = "v0! t0 t", .limits = "kill 2, move 2, queue 1", .size = EX_LARGE},
    {.asks = "v0! t0 t", .limits = "host 2, move 2, no host 1", .size = EX_LARGE},
};
// clang-format on
const uint32_t ex_plan_count = sizeof ex_plans / sizeof ex_plans[0];

static const char *read_ask(const char *at, uint32_t index,
                            struct ex_ask *ask) {
  *ask = (struct ex_ask){.is_task = *at++ == 't', .retries = -1};
  for (; *at != ' ' && *at != '\0'; at++) {
    if (*at == '0') ask->workers |= 1;
    if (*at == '1') ask->workers |= 2;
    ask->caller |= *at == 'b';
    ask->changes |= *at == '!';
    ask->has_job |= *at == 'j';
    ask->has_limit |= *at == 'l';
    if (*at == 'n') ask->needs = (uint8_t)(ask->needs | 1u << (index - 1));
    if (*at == 'f') ask->needs |= 1;
    if (*at == '-') ask->retries = 0;
  }
  return *at == ' ' ? at + 1 : at;
}

void ex_plan_asks(const struct ex_plan *plan, struct ex_ask asks[EX_CALLS]) {
  const char *at = plan->asks;
  for (uint32_t i = 0; i < EX_CALLS; i++)
    at = read_ask(at, i, &asks[i]);
}

static uint8_t number_of(const char *limits, const char *word) {
  const char *at = strstr(limits, word);
  return at == NULL ? 0 : (uint8_t)strtoul(at + strlen(word), NULL, 10);
}

struct ex_budget ex_plan_budget(const struct ex_plan *plan) {
  const char *limits = plan->limits;
  return (struct ex_budget){.waits = WAITS,
                            .kills = number_of(limits, "kill "),
                            .cancels = number_of(limits, "cancel "),
                            .forgets = number_of(limits, "forget "),
                            .no_launch = number_of(limits, "no launch "),
                            .bad_launch = number_of(limits, "bad launch "),
                            .overdue = number_of(limits, "overdue "),
                            .errors = number_of(limits, "error "),
                            .ends = number_of(limits, "end "),
                            .retires = number_of(limits, "retire "),
                            .drains = number_of(limits, "drain "),
                            .stops = number_of(limits, "stop "),
                            .standbys = number_of(limits, "standby "),
                            .queues = number_of(limits, "queue "),
                            .moves = number_of(limits, "move "),
                            .hosts = number_of(limits, "host "),
                            .no_hosts = number_of(limits, "no host "),
                            .no_memory = number_of(limits, "no memory ")};
}
