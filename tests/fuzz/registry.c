// The list of all targets.
#include <string.h>

#include "fuzz.h"

extern const struct fuzz_target fuzz_frame, fuzz_hello, fuzz_text,
    fuzz_proc_msg, fuzz_value_head, fuzz_seed, fuzz_cancel, fuzz_log,
    fuzz_segment, fuzz_diag_counters, fuzz_diag_dump, fuzz_addr, fuzz_inbox,
    fuzz_dial, fuzz_scan, fuzz_target_text, fuzz_proof, fuzz_have, fuzz_meet,
    fuzz_word, fuzz_mux, fuzz_csv, fuzz_canary;

const struct fuzz_target *const fuzz_targets[] = {&fuzz_frame,
                                                  &fuzz_hello,
                                                  &fuzz_text,
                                                  &fuzz_proc_msg,
                                                  &fuzz_value_head,
                                                  &fuzz_seed,
                                                  &fuzz_cancel,
                                                  &fuzz_log,
                                                  &fuzz_segment,
                                                  &fuzz_diag_counters,
                                                  &fuzz_diag_dump,
                                                  &fuzz_addr,
                                                  &fuzz_inbox,
                                                  &fuzz_dial,
                                                  &fuzz_scan,
                                                  &fuzz_target_text,
                                                  &fuzz_proof,
                                                  &fuzz_have,
                                                  &fuzz_meet,
                                                  &fuzz_word,
                                                  &fuzz_mux,
                                                  &fuzz_csv,
                                                  &fuzz_canary,
                                                  NULL};

const struct fuzz_target *fuzz_target_find(const char *name) {
  for (size_t i = 0; fuzz_targets[i] != NULL; i++) {
    if (strcmp(fuzz_targets[i]->name, name) == 0) return fuzz_targets[i];
  }
  return NULL;
}
