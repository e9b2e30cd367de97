// The last lines of a cluster's workers. See mst_log.h.
#include "base/mst_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "base/mst_fault.h"

static struct mst_log_line *slot(const struct mst_log *log, uint64_t number) {
  return &log->lines[number % MST_LOG_LINES];
}

// bytes_of gives the bytes of a label that are kept: whole characters of UTF-8.
static size_t bytes_of(const char *task) {
  size_t n = task == NULL ? 0 : strlen(task);
  if (n <= MST_LOG_TASK_MAX) return n;
  n = MST_LOG_TASK_MAX;
  while (n > 0 && ((unsigned char)task[n] & 0xc0) == 0x80)
    n--;
  return n;
}

static void drop_oldest(struct mst_log *log) {
  struct mst_log_line *line = slot(log, log->first++);
  log->bytes -= line->length + bytes_of(line->task);
  free(line->text);
  line->text = NULL;
}

static void add(struct mst_log *log, uint32_t worker, const char *task,
                const char *text, size_t n) {
  if (log->lines == NULL) {
    if (!mst_fault("log.alloc")) {
      log->lines = calloc(MST_LOG_LINES, sizeof *log->lines);
    }
    if (log->lines == NULL) return;
  }
  const size_t more = bytes_of(task);
  char *copy = mst_fault("log.alloc") ? NULL : malloc(n + more + 1);
  if (copy == NULL) return;
  memcpy(copy, text, n);
  if (task != NULL) memcpy(copy + n, task, more);
  copy[n + more] = '\0';
  while (log->next > log->first && (log->next - log->first == MST_LOG_LINES ||
                                    log->bytes + n + more > MST_LOG_BYTES)) {
    drop_oldest(log);
  }
  *slot(log, log->next++) =
      (struct mst_log_line){.worker = worker,
                            .length = (uint32_t)n,
                            .time = mst_clock_of_day(),
                            .text = copy,
                            .task = task == NULL ? NULL : copy + n};
  log->bytes += n + more;
}

static void forget_task(struct mst_log_part *part) {
  free(part->task);
  part->task = NULL;
}

static void remember_task(struct mst_log_part *part, const char *task) {
  if (part->task != NULL && task != NULL && strcmp(part->task, task) == 0)
    return;
  forget_task(part);
  if (task != NULL) part->task = strdup(task);
}

// R's report of a crash is " *** caught segfault ***", an address, "Traceback:" and the frames, the
// innermost first. The user's are followed by those of the worker, from the first of these on.
enum { NO_CRASH, CAUGHT, FRAMES, OWN_FRAMES };

static const char *const own_frames[] = {
    ".Call(ffi_", "do.call(\"fun\", args)", "call_user(fun, ", "allowInterrupts(.Call(ffi_",
    "(function (expr, envir = parent.frame(), enclos"};

static int starts(const char *text, size_t n, const char *with) {
  const size_t length = strlen(with);
  return n >= length && memcmp(text, with, length) == 0;
}

static int is_own_frame(const char *text, size_t n) {
  while (n > 0 && (*text == ' ' || *text == ':' ||
                   (*text >= '0' && *text <= '9'))) {
    text++;
    n--;
  }
  for (size_t k = 0; k < sizeof own_frames / sizeof *own_frames; k++) {
    if (starts(text, n, own_frames[k])) return 1;
  }
  return 0;
}

static int is_frame(const char *text, size_t n) {
  size_t at = 0;
  while (at < n && text[at] == ' ')
    at++;
  const size_t digits = at;
  while (at < n && text[at] >= '0' && text[at] <= '9')
    at++;
  return at > digits && at < n && text[at] == ':';
}

// is_hidden judges a worker's next line.
static int is_hidden(struct mst_log_part *part) {
  const char *text = part->text;
  const size_t n = part->length;
  if (starts(text, n, " *** caught ")) {
    part->crash = CAUGHT;
  } else if (part->crash == CAUGHT && starts(text, n, "Traceback:")) {
    part->crash = FRAMES;
  } else if (part->crash >= FRAMES) {
    if (!is_frame(text, n)) part->crash = NO_CRASH;
    if (part->crash == FRAMES && is_own_frame(text, n)) part->crash = OWN_FRAMES;
  }
  return part->crash == OWN_FRAMES;
}

void mst_log_end(struct mst_log *log, struct mst_log_part *part,
                 uint32_t worker) {
  if (part->length > 0 && !is_hidden(part))
    add(log, worker, part->task, part->text, part->length);
  part->length = 0;
  part->crash = NO_CRASH;
  forget_task(part);
}

void mst_log_write(struct mst_log *log, struct mst_log_part *part,
                   uint32_t worker, const char *task, const char *bytes,
                   size_t n) {
  while (n > 0) {
    const char *newline = memchr(bytes, '\n', n);
    const size_t line = newline == NULL ? n : (size_t)(newline - bytes);
    const size_t capacity = sizeof part->text - part->length;
    // The line is too long only if its end doesn't come next.
    if (capacity == 0 && line > 0) {
      add(log, worker, task, part->text, part->length);
      part->length = 0;
      continue;
    }
    const size_t take = line < capacity ? line : capacity;
    memcpy(part->text + part->length, bytes, take);
    part->length += take;
    bytes += take;
    n -= take;
    if (take == line && newline != NULL) {
      if (!is_hidden(part)) add(log, worker, task, part->text, part->length);
      part->length = 0;
      bytes++;
      n--;
    }
  }
  if (part->length > 0) remember_task(part, task);
}

const struct mst_log_line *mst_log_at(const struct mst_log *log,
                                      uint64_t number) {
  if (number < log->first || number >= log->next) return NULL;
  return slot(log, number);
}

void mst_log_free(struct mst_log *log) {
  while (log->lines != NULL && log->first < log->next)
    drop_oldest(log);
  free(log->lines);
  memset(log, 0, sizeof *log);
}
