// What a task leaves open or changed: sinks, graphics devices, connections, time limits, options,
// the working directory. See worker-left.R.
//
// Cost: below 1 us a task that leaves nothing.
#include <string.h>

#include "ffi/worker/worker.h"

#define DEVICES_MAX 64

struct open {
  int sinks, messages; // how many; the connection of messages
  uint64_t devices;    // bit k: device k + 1
};

static struct {
  int begun;
  struct open open;
  SEXP held; // a list of one, preserved: the numbers of connections
} left;

// internal evaluates one of R's own entry points without the R function around it.
static SEXP internal(SEXP *known, const char *name, SEXP args) {
  if (*known == NULL) {
    PROTECT(args);
    *known =
        Rf_lang2(Rf_install(".Internal"), Rf_lcons(Rf_install(name), args));
    R_PreserveObject(*known);
    UNPROTECT(1);
  }
  return Rf_eval(*known, R_BaseEnv);
}

static SEXP connections_now(void) {
  static SEXP call;
  return internal(&call, "getAllConnections", R_NilValue);
}

static void lift_time_limit(void) {
  static SEXP call;
  SEXP args = call != NULL
                  ? R_NilValue
                  : Rf_list3(Rf_ScalarReal(R_PosInf), Rf_ScalarReal(R_PosInf),
                             Rf_ScalarLogical(0));
  (void)internal(&call, "setTimeLimit", args);
}

static int is_device(SEXP name) {
  return TYPEOF(name) == STRSXP && Rf_xlength(name) == 1 &&
         CHAR(STRING_ELT(name, 0))[0] != '\0';
}

// The first is the null device.
static uint64_t devices_now(void) {
  static SEXP symbol;
  SEXP list = ffi_binding(R_BaseEnv, ffi_symbol(&symbol, ".Devices"));
  uint64_t devices = 0;
  int k = 0;
  if (TYPEOF(list) == LISTSXP) {
    for (; list != R_NilValue && k < DEVICES_MAX; list = CDR(list), k++)
      devices |= (uint64_t)(k > 0 && is_device(CAR(list))) << k;
  } else if (TYPEOF(list) == VECSXP) {
    for (; k < Rf_xlength(list) && k < DEVICES_MAX; k++)
      devices |= (uint64_t)(k > 0 && is_device(VECTOR_ELT(list, k))) << k;
  }
  return devices;
}

static struct open open_now(void) {
  static SEXP sinks, messages;
  struct open open = {.devices = devices_now()};
  SEXP yes = sinks != NULL ? R_NilValue : Rf_list1(Rf_ScalarLogical(1));
  open.sinks = Rf_asInteger(internal(&sinks, "sink.number", yes));
  SEXP no = messages != NULL ? R_NilValue : Rf_list1(Rf_ScalarLogical(0));
  open.messages = Rf_asInteger(internal(&messages, "sink.number", no));
  return open;
}

static int same_numbers(SEXP one, SEXP other) {
  return TYPEOF(one) == INTSXP && TYPEOF(other) == INTSXP &&
         Rf_xlength(one) == Rf_xlength(other) &&
         memcmp(INTEGER(one), INTEGER(other),
                (size_t)Rf_xlength(one) * sizeof(int)) == 0;
}

void ffi_left_begin(void) {
  if (left.held == NULL) {
    left.held = Rf_allocVector(VECSXP, 1);
    R_PreserveObject(left.held);
  }
  left.open = open_now();
  SET_VECTOR_ELT(left.held, 0, connections_now());
  if (!ffi_track_is_on() && ffi_settings_changed(&ffi_this_settings))
    ffi_settings_note(&ffi_this_settings);
  left.begun = 1;
}

static SEXP device_numbers(void) {
  SEXP numbers = PROTECT(Rf_allocVector(INTSXP, DEVICES_MAX));
  int n = 0;
  for (int k = 0; k < DEVICES_MAX; k++) {
    if ((left.open.devices >> k & 1) != 0) INTEGER(numbers)[n++] = k + 1;
  }
  SEXP some = Rf_lengthgets(numbers, n);
  UNPROTECT(1);
  return some;
}

static SEXP before(void) {
  const char *names[] = {"sinks",   "messages", "connections",
                         "devices", "options",  "directory"};
  SEXP list = PROTECT(ffi_list(6, names));
  SET_VECTOR_ELT(list, 0, Rf_ScalarInteger(left.open.sinks));
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger(left.open.messages));
  SET_VECTOR_ELT(list, 2, VECTOR_ELT(left.held, 0));
  SET_VECTOR_ELT(list, 3, device_numbers());
  SET_VECTOR_ELT(list, 4, ffi_settings_options(&ffi_this_settings));
  SET_VECTOR_ELT(list, 5, ffi_settings_directory(&ffi_this_settings));
  UNPROTECT(1);
  return list;
}

int ffi_left_end(void) {
  if (!left.begun) return 0;
  left.begun = 0;
  lift_time_limit(); // first: the rest takes time
  const struct open now = open_now();
  const int same = now.sinks == left.open.sinks &&
                   now.messages == left.open.messages &&
                   now.devices == left.open.devices &&
                   same_numbers(connections_now(), VECTOR_ELT(left.held, 0)) &&
                   !ffi_settings_changed(&ffi_this_settings);
  if (same) return 1;
  SEXP list = PROTECT(before());
  (void)ffi_call_ours(FFI_PUT_AWAY, list);
  UNPROTECT(1);
  return 0;
}
