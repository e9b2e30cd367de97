// Entry points of discover(), registered in init.c, and functions shared by their files.
#ifndef MST_FFI_DISCOVER_H
#define MST_FFI_DISCOVER_H

#include "discover/scan.h"
#include "ffi/value/value.h"

// ffi_scan_of gives the scan of a pointer; raises an R error if it is closed or belongs to another
// process.
struct mst_scan *ffi_scan_of(SEXP pointer);

// ---- target.c: targets and names

// ffi_targets_kind gives list(kind, why) of strings: 0 addresses, 1 a host's name, 2
// malformed, 3 too large.
SEXP ffi_targets_kind(SEXP targets, SEXP edges);
// ffi_targets_sum gives list(total, public) for targets that are all ranges: the number of their
// addresses without those of `exclude`, and the first public one, or NA.
SEXP ffi_targets_sum(SEXP targets, SEXP exclude, SEXP edges);
// ffi_name_lookup gives the addresses of a name, or a list with the resolver's error.
SEXP ffi_name_lookup(SEXP name);
// ffi_address_name gives the names of addresses, NA for those without.
SEXP ffi_address_name(SEXP addresses);
SEXP ffi_has_tls(void);
// ffi_errno_text gives the system's text for an errno.
SEXP ffi_errno_text(SEXP number);

// ---- find.c: scans

// ffi_scan_open begins a scan. policy: in_flight (0: any), attempts, timeout in seconds (0: auto),
// seconds between starts. On failure a list with the error.
SEXP ffi_scan_open(SEXP targets, SEXP exclude, SEXP edges, SEXP ports,
                   SEXP policy, SEXP service);
// ffi_scan_run goes on for `seconds`: "done", "more", "ask", or a list with the error. Checks R's
// interrupts.
SEXP ffi_scan_run(SEXP scan, SEXP seconds);
// ffi_scan_state gives probes, decided, open, the limit on simultaneous attempts.
SEXP ffi_scan_state(SEXP scan);
// ffi_scan_asked gives list(socket, address, port, seconds); the socket is R's from then on.
// ffi_scan_judge gives the verdict: TRUE good, FALSE wrong, NA no answer.
SEXP ffi_scan_asked(SEXP scan);
SEXP ffi_scan_judge(SEXP scan, SEXP good);
// ffi_scan_findings gives the columns of all probes in order.
SEXP ffi_scan_findings(SEXP scan);
SEXP ffi_scan_close(SEXP scan);
// ffi_ranges_of reads targets that are ranges into tidy ranges, in R's memory.
struct mst_range *ffi_ranges_of(SEXP targets, SEXP exclude, SEXP edges,
                                size_t *count);

#endif
