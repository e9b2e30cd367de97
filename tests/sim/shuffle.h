// The world of the simulation of a shuffle's plan: see shuffle.c.
#ifndef SIM_SHUFFLE_H
#define SIM_SHUFFLE_H

#include "shuffle/plan.h"

#define WORKERS_MAX 6u
#define PARTS_MAX 6u
#define STAGES_MAX 6u
#define ATTEMPTS_MAX 64u
#define NEWS_MAX 512u
#define STEPS_MAX 20000u
#define MS INT64_C(1000000)

// An output of some incarnation: how often it has each source row.
struct output {
  uint8_t there;
  uint32_t worker, epoch;
  uint8_t rows[STAGES_MAX * PARTS_MAX];
};

enum news_kind { NEWS_DONE, NEWS_MISSED, NEWS_ENDED, NEWS_STATE, NEWS_FOUND };
struct news {
  enum news_kind kind;
  int64_t at_ns;
  uint64_t order;
  uint32_t worker, epoch;
  uint32_t stage, task, attempt;
  uint32_t in_stage, in_task, in_attempt;
};

struct process {
  uint8_t alive, gone;
  int64_t back_ns; // when the next incarnation is ready
  uint32_t epoch;
  uint32_t stage, task, attempt; // that it runs, 0: none
  uint32_t noted[STAGES_MAX]; // by stage: the attempt that it makes on its way
  int64_t end_ns;
};

struct sim {
  uint64_t seed, random, order;
  int64_t now_ns;
  int logging, failed;
  struct mst_plan plan;
  uint32_t workers, stages;
  struct process processes[WORKERS_MAX];
  struct output outputs[STAGES_MAX][PARTS_MAX][ATTEMPTS_MAX];
  struct news news[NEWS_MAX];
  uint32_t news_count;
  uint32_t kills_left;
};

#endif
