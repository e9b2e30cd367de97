// Facts of the machine for doctor(). Each entry point gives a value, or a string that says why it
// is missing.
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>

#include "base/mst_features.h"
#include "base/mst_kernel.h"
#include "ffi/machine/machine.h"
#include "fork/fork.h"
#include "net/card.h"
#include "net/diag.h"
#include "net/net.h"
#include "share/memory.h"

static SEXP reason(const struct mst_err *err) {
  return ffi_text(err->text, strlen(err->text));
}

static const char *const listener_columns[] = {"address", "port",      "depth",
                                               "backlog", "half_open", "inode",
                                               "uid",     "drops",     NULL};
#define LISTENER_COLUMNS 8

// columns_of gives a list of columns. Raises R's errors for lack of memory.
static SEXP columns_of(void *data) {
  const struct mst_diag_list *list = data;
  const R_xlen_t n = (R_xlen_t)list->count;
  SEXP columns = PROTECT(ffi_list(LISTENER_COLUMNS, listener_columns));
  for (int i = 0; i < LISTENER_COLUMNS; i++) {
    SET_VECTOR_ELT(columns, i, Rf_allocVector(i == 0 ? STRSXP : REALSXP, n));
  }
  for (R_xlen_t k = 0; k < n; k++) {
    const struct mst_diag_listener *item = &list->items[k];
    char text[INET6_ADDRSTRLEN] = "";
    (void)inet_ntop(item->is_v6 ? AF_INET6 : AF_INET, item->address, text,
                    sizeof text);
    SET_STRING_ELT(VECTOR_ELT(columns, 0), k, Rf_mkChar(text));
    const double numbers[] = {item->port,
                              item->depth,
                              item->backlog,
                              item->half_open,
                              (double)item->inode,
                              item->uid,
                              item->drops < 0 ? NA_REAL : (double)item->drops};
    for (int i = 1; i < LISTENER_COLUMNS; i++) {
      REAL(VECTOR_ELT(columns, i))[k] = numbers[i - 1];
    }
  }
  UNPROTECT(1);
  return columns;
}

static void free_list(void *data, Rboolean jump) {
  (void)jump;
  mst_diag_free(data);
}

// ffi_diag_listeners gives all TCP listeners of this network namespace.
SEXP ffi_diag_listeners(void) {
  struct mst_diag_list list;
  struct mst_err err;
  mst_err_clear(&err);
  if (mst_diag_listeners(0, 0, &list, &err) != 0) {
    mst_diag_free(&list);
    return reason(&err);
  }
  return ffi_unwind(columns_of, &list, free_list, &list);
}

// ffi_diag_counters gives TCP's counters by name, NA for unknown ones.
SEXP ffi_diag_counters(SEXP proc) {
  struct mst_diag_counters counters;
  struct mst_err err;
  mst_err_clear(&err);
  const char *path = Rf_translateChar(STRING_ELT(proc, 0));
  if (mst_diag_counters_read(path, &counters, &err) != 0) return reason(&err);
  SEXP values = PROTECT(Rf_allocVector(REALSXP, MST_DIAG_COUNTERS));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, MST_DIAG_COUNTERS));
  for (int i = 0; i < MST_DIAG_COUNTERS; i++) {
    const int64_t value = counters.value[i];
    REAL(values)[i] = value < 0 ? NA_REAL : (double)value;
    SET_STRING_ELT(names, i,
                   Rf_mkChar(mst_diag_counter_name((enum mst_diag_counter)i)));
  }
  Rf_setAttrib(values, R_NamesSymbol, names);
  UNPROTECT(2);
  return values;
}

// ffi_card gives the features of a network card: logical, with ethtool's names, NA if the driver
// doesn't say.
SEXP ffi_card(SEXP name) {
  struct mst_card card;
  struct mst_err err;
  mst_err_clear(&err);
  if (mst_card_look(CHAR(STRING_ELT(name, 0)), &card, &err) != 0) {
    return reason(&err);
  }
  SEXP values = PROTECT(Rf_allocVector(LGLSXP, MST_CARD_FEATURES));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, MST_CARD_FEATURES));
  for (int i = 0; i < MST_CARD_FEATURES; i++) {
    const int value = card.feature[i];
    LOGICAL(values)[i] = value < 0 ? NA_LOGICAL : value;
    SET_STRING_ELT(names, i,
                   Rf_mkChar(mst_card_feature_name((enum mst_card_feature)i)));
  }
  Rf_setAttrib(values, R_NamesSymbol, names);
  UNPROTECT(2);
  return values;
}

// ffi_disk gives c(bytes, free bytes, files, free files) of a path's file system; 0 files if it
// doesn't count them. Free means for a process without privilege. May block as long as a network
// file system does.
SEXP ffi_disk(SEXP path) {
  struct statvfs about;
  if (statvfs(Rf_translateChar(STRING_ELT(path, 0)), &about) != 0) {
    struct mst_err err;
    mst_err_clear(&err);
    (void)mst_err_set(&err, MST_ESYS, errno, "statvfs", "%s", strerror(errno));
    return reason(&err);
  }
  SEXP values = Rf_allocVector(REALSXP, 4);
  REAL(values)[0] = (double)about.f_blocks * (double)about.f_frsize;
  REAL(values)[1] = (double)about.f_bavail * (double)about.f_frsize;
  REAL(values)[2] = (double)about.f_files;
  REAL(values)[3] = (double)about.f_favail;
  return values;
}

// ffi_features tells which kernel features muster may use, by trying them: a container's filter may
// refuse what the version has.
SEXP ffi_features(void) {
  static const char *const names[] = {"pidfd", "memfd", NULL};
  struct mst_segment segment = MST_SEGMENT_NONE;
  struct mst_err err;
  mst_err_clear(&err);
  SEXP values = PROTECT(Rf_allocVector(LGLSXP, 2));
  SEXP texts = PROTECT(Rf_allocVector(STRSXP, 2));
  int pidfd = mst_proc_pidfd(ffi_self());
  LOGICAL(values)[0] = pidfd >= 0;
  mst_net_close(&pidfd);
  LOGICAL(values)[1] = mst_segment_open(&segment, 64, &err) == 0;
  mst_segment_close(&segment);
  for (int i = 0; i < 2; i++) {
    SET_STRING_ELT(texts, i, Rf_mkChar(names[i]));
  }
  Rf_setAttrib(values, R_NamesSymbol, texts);
  UNPROTECT(2);
  return values;
}

// ffi_built_with tells what muster was compiled with, see mst_features.h.
SEXP ffi_built_with(void) {
  size_t n;
  const struct mst_feature *features = mst_features(&n);
  SEXP values = PROTECT(Rf_allocVector(LGLSXP, (R_xlen_t)n));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)n));
  for (size_t i = 0; i < n; i++) {
    LOGICAL(values)[i] = features[i].is_here;
    SET_STRING_ELT(names, (R_xlen_t)i, Rf_mkChar(features[i].name));
  }
  Rf_setAttrib(values, R_NamesSymbol, names);
  UNPROTECT(2);
  return values;
}

// ffi_mappings gives c(memory mappings of this process, limit); NA if unknown.
SEXP ffi_mappings(SEXP proc) {
  const void *before = vmaxget();
  struct mst_mappings now;
  mst_room_mappings(Rf_translateChar(STRING_ELT(proc, 0)), &now);
  vmaxset(before);
  SEXP values = Rf_allocVector(REALSXP, 2);
  REAL(values)[0] = now.count < 0 ? NA_REAL : (double)now.count;
  REAL(values)[1] = now.limit < 0 ? NA_REAL : (double)now.limit;
  return values;
}

// A worker's mark is in the first words of its command line.
#define COMMAND_MAX 16384

// has_mark finds a mark in n bytes.
static int has_mark(const char *bytes, size_t n, SEXP marks) {
  for (R_xlen_t i = 0; i < Rf_xlength(marks); i++) {
    SEXP mark = STRING_ELT(marks, i);
    if (memmem(bytes, n, CHAR(mark), (size_t)Rf_xlength(mark)) != NULL) {
      return 1;
    }
  }
  return 0;
}

// read_command reads a file's first bytes and replaces each NUL by a newline; 0 if there are none:
// the process is gone, a zombie, or hidden.
static size_t read_command(const char *path, char bytes[COMMAND_MAX + 1]) {
  const size_t n = mst_kernel_read(path, bytes, COMMAND_MAX + 1);
  for (size_t i = 0; i < n; i++) {
    if (bytes[i] == '\0') bytes[i] = '\n';
  }
  return n;
}

// ffi_command_lines reads /proc/<pid>/cmdline of many processes: the words, each with a newline, if
// they contain one of the marks, else NA. R's own readLines() takes 0.1 ms for each process.
SEXP ffi_command_lines(SEXP paths, SEXP marks) {
  char bytes[COMMAND_MAX + 1];
  const R_xlen_t n = Rf_xlength(paths);
  SEXP lines = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    const void *before = vmaxget();
    const size_t got =
        read_command(Rf_translateChar(STRING_ELT(paths, i)), bytes);
    vmaxset(before);
    SEXP line = NA_STRING;
    if (has_mark(bytes, got, marks)) line = Rf_asChar(ffi_text(bytes, got));
    SET_STRING_ELT(lines, i, line);
  }
  UNPROTECT(1);
  return lines;
}
