// Code coverage for the own engine. The core and the targets are compiled with
// -fsanitize-coverage=trace-pc, which gcc and clang both have: each basic block
// then calls the function below. What counts is the way from one block to the
// next: the blocks alone don't tell which part of a condition failed. This file
// must not be compiled so.
#include "fuzz.h"

#define SLOTS 65536u // many times the ways through all parsers

static uint8_t seen[SLOTS];
static int grew;
static uintptr_t before; // the last block, shifted so that A to B isn't B to A

void __sanitizer_cov_trace_pc(void);

void __sanitizer_cov_trace_pc(void) {
  const uintptr_t pc = (uintptr_t)__builtin_return_address(0);
  const uintptr_t way = pc ^ before;
  const size_t slot = (size_t)(way ^ way >> 16) % SLOTS;
  before = pc >> 1;
  grew |= !seen[slot];
  seen[slot] = 1;
}

int fuzz_cover_grew(void) {
  const int answer = grew;
  grew = 0;
  return answer;
}
