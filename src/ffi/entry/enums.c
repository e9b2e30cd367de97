// Numbers that R code knows by their names: the enums' own, so that neither side can have another.
// Those that R code asks for only; .onLoad binds each set in R's namespace under its name here.
#include "discover/proof.h"
#include "discover/scan.h"
#include "ffi/entry/entry.h"
#include "pool/loss.h"
#include "sched/pieces.h"
#include "sched/site.h"
#include "shuffle/exchange.h"
#include "shuffle/plan.h"
#include "wire/wire.h"

struct number {
  const char *name;
  int value;
};

// In R: the name in lower case.
#define ONE(prefix, name)                                                      \
  { #name, prefix##name }

static const struct number outcomes[] = {
    ONE(FFI_, FINE),    ONE(FFI_, LOST),   ONE(FFI_, STOPPED),
    ONE(FFI_, FOREIGN), ONE(FFI_, TYPE),   ONE(FFI_, MEMORY),
    ONE(FFI_, SYSTEM),  ONE(FFI_, FAILED), ONE(FFI_, REFERENCE),
    ONE(FFI_, BROKEN)};
static const struct number exits[] = {
    ONE(MST_EXIT_, NONE), ONE(MST_EXIT_, CODE), ONE(MST_EXIT_, SIGNAL),
    ONE(MST_EXIT_, UNKNOWN)};
static const struct number whys[] = {
    ONE(MST_WHY_, INTERRUPT), ONE(MST_WHY_, CANCEL),
    ONE(MST_WHY_, HEARTBEAT), ONE(MST_WHY_, KILLED),
    ONE(MST_WHY_, HELLO),     ONE(MST_WHY_, VERSION),
    ONE(MST_WHY_, BUILD),     ONE(MST_WHY_, READY),
    ONE(MST_WHY_, MESSAGE),   ONE(MST_WHY_, FRAME),
    ONE(MST_WHY_, NO_MEMORY), ONE(MST_WHY_, ANSWER),
    ONE(MST_WHY_, REPLAY),    ONE(MST_WHY_, THREADS),
    ONE(MST_WHY_, SHORT),     ONE(MST_WHY_, SERVER),
    ONE(MST_WHY_, MANY),      ONE(MST_WHY_, LONG),
    ONE(MST_WHY_, MEMORY),    ONE(MST_WHY_, ENDED)};
static const struct number frame_kinds[] = {ONE(MST_KIND_, FAILED),
                                            ONE(MST_KIND_, SERVER_REFUSE)};
static const struct number piece_do[] = {
    ONE(MST_PIECE_, RUN), ONE(MST_PIECE_, CANCEL), ONE(MST_PIECE_, PLACES)};
static const struct number piece_end[] = {
    ONE(MST_PIECE_, COUNTS), ONE(MST_PIECE_, DROP), ONE(MST_PIECE_, AGAIN)};
static const struct number piece_losses[] = {
    ONE(MST_PIECE_, LOST), ONE(MST_PIECE_, GIVEN_UP), ONE(MST_PIECE_, LATE)};
static const struct number plan_do[] = {
    ONE(MST_PLAN_, RUN), ONE(MST_PLAN_, CANCEL), ONE(MST_PLAN_, FAIL),
    ONE(MST_PLAN_, FINISHED)};
static const struct number plan_told[] = {
    ONE(MST_PLAN_, KNOWN), ONE(MST_PLAN_, LATE), ONE(MST_PLAN_, COMMITTED)};
static const struct number worker_is[] = {ONE(FFI_IS_, AWAY), ONE(FFI_IS_, UP),
                                          ONE(FFI_IS_, GONE)};
static const struct number fetched[] = {
    ONE(MST_FETCHED_, HERE), ONE(MST_FETCHED_, NOT), ONE(MST_FETCHED_, BARRED),
    ONE(MST_FETCHED_, SILENT)};
static const struct number stock_links[] = {
    ONE(FFI_LINK_, ENDED), ONE(FFI_LINK_, NOTHING), ONE(FFI_LINK_, WHOLE)};
static const struct number scan_bits[] = {
    ONE(FFI_SCAN_, CONNECTION),  ONE(FFI_SCAN_, POINTER),
    ONE(FFI_SCAN_, ENVIRONMENT), ONE(FFI_SCAN_, S4),
    ONE(FFI_SCAN_, CODE),        ONE(FFI_SCAN_, TASK)};
static const struct number target_kinds[] = {
    ONE(FFI_TARGET_, RANGE), ONE(FFI_TARGET_, NAME), ONE(FFI_TARGET_, BAD),
    ONE(FFI_TARGET_, LARGE)};
static const struct number services[] = {
    ONE(MST_SERVICE_, TCP), ONE(MST_SERVICE_, PCP), ONE(MST_SERVICE_, PSOCK),
    ONE(MST_SERVICE_, TLS), ONE(MST_SERVICE_, CALL)};
static const struct number found_is[] = {
    ONE(MST_FOUND_, OPEN), ONE(MST_FOUND_, REFUSED),
    ONE(MST_FOUND_, UNREACHABLE), ONE(MST_FOUND_, SILENT),
    ONE(MST_FOUND_, FOREIGN)};
static const struct number found_reasons[] = {
    ONE(MST_REASON_, MUTE), ONE(MST_REASON_, ENDED), ONE(MST_REASON_, WRONG)};
static const struct number site_is[] = {ONE(MST_SITE_, REPLACED)};
static const struct number site_facts[] = {
    ONE(MST_SITE_, LEFT_NS), ONE(MST_SITE_, PENDING), ONE(MST_SITE_, RUNS),
    ONE(MST_SITE_, FAILED), ONE(MST_SITE_, UNDONE)};
static const struct number site_do[] = {
    ONE(MST_SITE_, SAY_GONE),  ONE(MST_SITE_, SAY_LEAVES), ONE(MST_SITE_, WHY),
    ONE(MST_SITE_, TAKE),      ONE(MST_SITE_, ASK),        ONE(MST_SITE_, LOOK),
    ONE(MST_SITE_, LOOK_LEFT), ONE(MST_SITE_, SERVE)};
static const struct number site_whys[] = {ONE(MST_SITE_WHY_, QUEUE)};
static const struct number site_ends[] = {
    ONE(MST_SITE_, GOES_ON), ONE(MST_SITE_, IS_LOST), ONE(MST_SITE_, IS_ERROR)};
static const struct number worker_least[] = {ONE(FFI_LEAST_, EXPRESSIONS)};

// The name in R, too.
#define SET(set)                                                               \
  { #set, set, sizeof set / sizeof set[0] }
static const struct {
  const char *name;
  const struct number *numbers;
  size_t count;
} sets[] = {
    SET(outcomes),    SET(exits),         SET(frame_kinds),  SET(whys),
    SET(piece_do),    SET(piece_end),     SET(piece_losses), SET(plan_do),
    SET(plan_told),   SET(worker_is),     SET(worker_least), SET(fetched),
    SET(stock_links), SET(scan_bits),     SET(target_kinds), SET(services),
    SET(found_is),    SET(found_reasons), SET(site_is),      SET(site_facts),
    SET(site_do),     SET(site_whys),     SET(site_ends)};
#define SETS (sizeof sets / sizeof sets[0])
#define NAME_MAX_BYTES 32

static SEXP name_of(const char *name) {
  char lower[NAME_MAX_BYTES] = {0};
  for (size_t i = 0; name[i] != '\0' && i + 1 < sizeof lower; i++)
    lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a')
                                                : name[i];
  return Rf_mkChar(lower);
}

static SEXP vector_of(const struct number *numbers, size_t count) {
  SEXP vector = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)count));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)count));
  for (size_t i = 0; i < count; i++) {
    INTEGER(vector)[i] = numbers[i].value;
    SET_STRING_ELT(names, (R_xlen_t)i, name_of(numbers[i].name));
  }
  Rf_setAttrib(vector, R_NamesSymbol, names);
  UNPROTECT(2);
  return vector;
}

SEXP ffi_enums(void) {
  SEXP list = PROTECT(Rf_allocVector(VECSXP, SETS));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, SETS));
  for (size_t i = 0; i < SETS; i++) {
    SET_VECTOR_ELT(list, (R_xlen_t)i,
                   vector_of(sets[i].numbers, sets[i].count));
    SET_STRING_ELT(names, (R_xlen_t)i, Rf_mkChar(sets[i].name));
  }
  Rf_setAttrib(list, R_NamesSymbol, names);
  UNPROTECT(2);
  return list;
}
