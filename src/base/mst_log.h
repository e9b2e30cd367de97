// mst_log: the last lines that a cluster's workers printed. One owner, no R.
//
// Bytes go in as they come, cut anywhere; lines come out, whole, with the worker
// and the task that printed them. Bounded: the oldest lines go first, a long line is cut into
// several. Lines have numbers from 0 on, so that a reader knows what it has missed. Of the
// traceback that R prints when it crashes, the frames of the worker's own code aren't kept.
#ifndef MST_LOG_H
#define MST_LOG_H

#include <stddef.h>
#include <stdint.h>

#define MST_LOG_LINES 4096u
#define MST_LOG_BYTES ((size_t)1 << 20)
#define MST_LOG_LINE_MAX ((size_t)4096)
#define MST_LOG_TASK_MAX ((size_t)256) // longer labels are cut

struct mst_log_line {
  uint32_t worker;
  uint32_t length;
  double time;      // of day, when its end came
  char *text;       // not ended by NUL
  const char *task; // the label of the task that printed it, or NULL
};

struct mst_log {
  struct mst_log_line *lines; // ring of MST_LOG_LINES, NULL before the first
  uint64_t first;             // number of the oldest kept
  uint64_t next;              // number that the next line gets
  size_t bytes;
};

// The beginning of a worker's line whose end hasn't come yet.
struct mst_log_part {
  size_t length;
  char *task; // the label of the task that printed it last, owned; or NULL
  unsigned char crash; // how far R's report of a crash has come, see mst_log.c
  char text[MST_LOG_LINE_MAX];
};

// mst_log_write takes output of a worker, and drops it if memory is short. task: the label of the
// task that lines that end here are from, copied; or NULL.
void mst_log_write(struct mst_log *log, struct mst_log_part *part,
                   uint32_t worker, const char *task, const char *bytes,
                   size_t n);
// mst_log_end makes a line of a worker's unfinished output, and leaves the part empty.
void mst_log_end(struct mst_log *log, struct mst_log_part *part,
                 uint32_t worker);
// mst_log_at returns line `number`, NULL if it is no longer kept or doesn't exist yet.
const struct mst_log_line *mst_log_at(const struct mst_log *log,
                                      uint64_t number);
void mst_log_free(struct mst_log *log);

#endif
