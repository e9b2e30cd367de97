// fuzz: what a target is, and what drives it.
//
// A target is one parser with the properties that its answers must have. Two
// engines feed it: clang's libFuzzer where it is installed (libfuzzer.c), else
// the engine here (engine.c), which any compiler builds. Both feed an input
// whole and cut at every byte, each time so that it ends at a guard page
// (feed.c). An input that fails is written to a file that the driver replays.
//
// A new target is a file target_<name>.c and a line in registry.c; then
// `make corpus` writes its seeds to corpus/<name>/.
#ifndef MST_FUZZ_H
#define MST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

// The longest fixed message is a text of 4004 bytes; the rest is for what comes
// behind it.
#define FUZZ_INPUT_MAX 4200u

struct fuzz_input {
  size_t n;
  uint8_t bytes[FUZZ_INPUT_MAX];
};

// Takes a target's seeds; name becomes the file's name in the corpus.
struct fuzz_sink {
  void (*take)(struct fuzz_sink *sink, const char *name, const uint8_t *bytes,
               size_t n);
};

struct fuzz_target {
  const char *name;
  int must_fail; // 1 for the canary, which proves that failures are found
  // Runs the parser on n bytes, and ends the process if a property is broken.
  // May read nothing outside of the bytes; keeps no state.
  void (*run)(const uint8_t *bytes, size_t n);
  // Gives inputs to start from: valid messages and near misses.
  void (*seeds)(struct fuzz_sink *sink);
};

// All targets, ended by NULL; fuzz_target_find gives NULL for an unknown name.
extern const struct fuzz_target *const fuzz_targets[];
const struct fuzz_target *fuzz_target_find(const char *name);

// FUZZ_CHECK ends the process, with one line, if a property doesn't hold.
#define FUZZ_CHECK(cond)                                                       \
  ((cond) ? (void)0 : fuzz_check_failed(#cond, __FILE__, __LINE__))
_Noreturn void fuzz_check_failed(const char *what, const char *file, int line);

// fuzz_feed runs the target on the whole input and on each shorter start of it.
// now, if not NULL, always holds what is being run, so that another process
// that shares it can tell what was fatal.
void fuzz_feed(const struct fuzz_target *target, const uint8_t *bytes, size_t n,
               struct fuzz_input *now);

// fuzz_cover_grew tells whether code that was never reached before was reached
// since the last call. The own engine keeps such inputs.
int fuzz_cover_grew(void);

// What the own engine did, shared with the process that waits for it.
struct fuzz_report {
  struct fuzz_input now; // what runs
  uint64_t runs;         // inputs fed
  uint64_t kept;         // of which reached something new
};

// fuzz_engine feeds the target's corpus (the files in corpus_dir) and then
// changes of it for `seconds`. 0, or -1 with a line on stderr if there is no
// corpus. A failure of the target ends the process.
int fuzz_engine(const struct fuzz_target *target, const char *corpus_dir,
                int seconds, uint64_t seed, struct fuzz_report *report);

// fuzz_file_read fills the input, cut if the file is longer; fuzz_file_write
// makes or replaces a file. Both give 0, or -1 with errno.
int fuzz_file_read(const char *path, struct fuzz_input *input);
int fuzz_file_write(const char *path, const uint8_t *bytes, size_t n);

#endif
