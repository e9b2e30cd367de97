// The command line of the fuzz targets:
//
//   fuzz --list                                    the targets' names
//   fuzz --run TARGET SECONDS CORPUS FAILURES [SEED]  the own engine
//   fuzz --replay TARGET FILE                      one input, whole and cut
//   fuzz --seed-corpus DIR                         writes DIR/<target>/<seed>
//
// --run works in a child process and shares with it the input that runs; when
// the child dies, that input is written to FAILURES. The exit code is 0 if
// nothing failed, 1 if the target did, 2 if it could not be run.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "fuzz.h"

// A parser that hangs is ended this long after its time is over.
#define HANG_S 20u
#define RUN_MAX_S 604800 // a week

enum { EXIT_FINE = 0, EXIT_FAILS = 1, EXIT_CANT = 2 };
enum { CHILD_CANT = 9 }; // sanitizers end with 1

static int cant(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  return EXIT_CANT;
}

// A name that the same bytes always get (FNV-1a).
static uint64_t input_hash(const struct fuzz_input *input) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < input->n; i++) {
    hash = (hash ^ input->bytes[i]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

static int save_failure(const struct fuzz_target *target, const char *dir,
                        const struct fuzz_input *input) {
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s-%016" PRIx64, dir, target->name,
                 input_hash(input));
  if (fuzz_file_write(path, input->bytes, input->n) != 0) return cant(path);
  printf("%s: failed, input written to %s\n", target->name, path);
  return EXIT_FAILS;
}

static int run_target(const struct fuzz_target *target, char **args,
                      int args_count) {
  char *end;
  const long seconds = strtol(args[0], &end, 10);
  if (end == args[0] || *end != '\0' || seconds < 1 || seconds > RUN_MAX_S) {
    fprintf(stderr, "SECONDS must be a number from 1 to %d\n", RUN_MAX_S);
    return EXIT_CANT;
  }
  const uint64_t seed =
      args_count > 3 ? strtoull(args[3], NULL, 10) : (uint64_t)mst_clock_now();
  struct fuzz_report *report =
      mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (report == MAP_FAILED) return cant("mmap");
  const pid_t pid = fork();
  if (pid == -1) return cant("fork");
  if (pid == 0) {
    (void)alarm((unsigned)seconds + HANG_S);
    exit(fuzz_engine(target, args[1], (int)seconds, seed, report) == 0
             ? EXIT_FINE
             : CHILD_CANT);
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return cant("waitpid");
  printf("%s: %" PRIu64 " inputs, %" PRIu64 " kept, seed %" PRIu64 "\n",
         target->name, report->runs, report->kept, seed);
  if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_CANT) return EXIT_CANT;
  if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FINE) return EXIT_FINE;
  return save_failure(target, args[2], &report->now);
}

static int replay(const struct fuzz_target *target, const char *path) {
  static struct fuzz_input input;
  if (fuzz_file_read(path, &input) != 0) return cant(path);
  (void)alarm(HANG_S);
  fuzz_feed(target, input.bytes, input.n, NULL);
  printf("%s: %zu bytes, no failure\n", target->name, input.n);
  return EXIT_FINE;
}

struct corpus_sink {
  struct fuzz_sink sink;
  const char *dir;
  int rc;
};

static void write_seed(struct fuzz_sink *sink, const char *name,
                       const uint8_t *bytes, size_t n) {
  struct corpus_sink *corpus = (struct corpus_sink *)sink;
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s", corpus->dir, name);
  if (fuzz_file_write(path, bytes, n) != 0) corpus->rc = cant(path);
}

static int seed_corpus(const char *dir) {
  int rc = EXIT_FINE;
  for (size_t i = 0; fuzz_targets[i] != NULL; i++) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", dir, fuzz_targets[i]->name);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return cant(path);
    struct corpus_sink corpus = {{write_seed}, path, EXIT_FINE};
    fuzz_targets[i]->seeds(&corpus.sink);
    if (corpus.rc != EXIT_FINE) rc = corpus.rc;
  }
  return rc;
}

static int list_targets(void) {
  for (size_t i = 0; fuzz_targets[i] != NULL; i++) {
    printf("%s\n", fuzz_targets[i]->name);
  }
  return EXIT_FINE;
}

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  if (argc == 2 && strcmp(command, "--list") == 0) return list_targets();
  if (argc == 3 && strcmp(command, "--seed-corpus") == 0) {
    return seed_corpus(argv[2]);
  }
  const struct fuzz_target *target =
      argc > 2 ? fuzz_target_find(argv[2]) : NULL;
  if (target != NULL && argc == 4 && strcmp(command, "--replay") == 0) {
    return replay(target, argv[3]);
  }
  if (target != NULL && argc >= 6 && strcmp(command, "--run") == 0) {
    return run_target(target, argv + 3, argc - 3);
  }
  fprintf(stderr,
          "usage: fuzz --list | --seed-corpus DIR | --replay TARGET FILE"
          " | --run TARGET SECONDS CORPUS FAILURES [SEED]\n");
  return EXIT_CANT;
}
