// Registers the entry points. Loading starts nothing.
#include <stdio.h>

#include "base/mst_assert.h"
#include "ffi/data/data.h"
#include "ffi/discover/discover.h"
#include "ffi/host/host.h"
#include "ffi/machine/machine.h"
#include "ffi/session/callers.h"
#include "ffi/socket/socket.h"
#include "ffi/stock/stock.h"
#include "ffi/value/coded.h"
#include "ffi/worker/worker.h"

#include <R_ext/Rdynload.h>
#include <R_ext/Visibility.h>

#define ENTRY(name, arguments)                                                 \
  { #name, (DL_FUNC)(void *)&name, arguments }

// Entry points that use the session or hold something, see ffi_entry.
#define SESSION_ENTRIES(EACH)                                                  \
  EACH(ffi_session_tempdirs, 0)                                                \
  EACH(ffi_methods_own, 1)                                                     \
  EACH(ffi_session_end, 2)                                                     \
  EACH(ffi_remote_start, 4)                                                    \
  EACH(ffi_remote_await, 4)                                                    \
  EACH(ffi_gate_open, 2)                                                       \
  EACH(ffi_gate_end, 1)                                                        \
  EACH(ffi_remote_wait, 2)                                                     \
  EACH(ffi_remote_state, 1)                                                    \
  EACH(ffi_remote_is, 4)                                                       \
  EACH(ffi_remote_server, 3)                                                   \
  EACH(ffi_remote_end, 1)                                                      \
  EACH(ffi_site_new, 2)                                                        \
  EACH(ffi_site_tell, 3)                                                       \
  EACH(ffi_sites_next, 1)                                                      \
  EACH(ffi_sites_drop, 1)                                                      \
  EACH(ffi_site_same, 1)                                                       \
  EACH(ffi_sites_retry, 1)                                                     \
  EACH(ffi_remote_owner, 2)                                                    \
  EACH(ffi_server_start, 4)                                                    \
  EACH(ffi_server_wait, 2)                                                     \
  EACH(ffi_server_state, 1)                                                    \
  EACH(ffi_server_end, 1)                                                      \
  EACH(ffi_cluster_open, 4)                                                    \
  EACH(ffi_cluster_grow, 4)                                                    \
  EACH(ffi_nodes_ready, 1)                                                     \
  EACH(ffi_cluster_adopt, 4)                                                   \
  EACH(ffi_cluster_keep, 3)                                                    \
  EACH(ffi_cluster_scale, 2)                                                   \
  EACH(ffi_nodes_groups, 1)                                                    \
  EACH(ffi_cluster_wakes, 1)                                                   \
  EACH(ffi_cluster_revive, 1)                                                  \
  EACH(ffi_cluster_ids, 0)                                                     \
  EACH(ffi_nodes_share_host, 1)                                                \
  EACH(ffi_cluster_logs, 1)                                                    \
  EACH(ffi_events, 0)                                                          \
  EACH(ffi_round, 0)                                                           \
  EACH(ffi_node_host, 1)                                                       \
  EACH(ffi_node_notes, 1)                                                      \
  EACH(ffi_node_pid, 1)                                                        \
  EACH(ffi_node_heals, 1)                                                      \
  EACH(ffi_node_look, 1)                                                       \
  EACH(ffi_node_loss, 1)                                                       \
  EACH(ffi_node_kill, 1)                                                       \
  EACH(ffi_node_journal, 1)                                                    \
  EACH(ffi_cluster_workers, 1)                                                 \
  EACH(ffi_cluster_wait, 0)                                                    \
  EACH(ffi_job_freeze, 1)                                                      \
  EACH(ffi_job_hold, 2)                                                        \
  EACH(ffi_job_release, 1)                                                     \
  EACH(ffi_queue_full, 1)                                                      \
  EACH(ffi_group, 1)                                                           \
  EACH(ffi_task_question, 1)                                                   \
  EACH(ffi_task_submit, 6)                                                     \
  EACH(ffi_map_begin, 3)                                                       \
  EACH(ffi_piece_submit, 6)                                                    \
  EACH(ffi_task_try, 3)                                                        \
  EACH(ffi_task_look, 2)                                                       \
  EACH(ffi_task_wait, 3)                                                       \
  EACH(ffi_notify, 1)                                                          \
  EACH(ffi_task_value, 2)                                                      \
  EACH(ffi_task_loss, 1)                                                       \
  EACH(ffi_tasks_open, 1)                                                      \
  EACH(ffi_task_cause, 1)                                                      \
  EACH(ffi_task_cancel, 1)                                                     \
  EACH(ffi_task_state, 1)                                                      \
  EACH(ffi_task_log, 2)                                                        \
  EACH(ffi_cluster_stop, 2)                                                    \
  EACH(ffi_cluster_status, 1)                                                  \
  EACH(ffi_node_send, 3)                                                       \
  EACH(ffi_node_receive, 1)                                                    \
  EACH(ffi_nodes_receive_one, 1)                                               \
  EACH(ffi_nodes_wait, 2)                                                      \
  EACH(ffi_node_ping, 2)                                                       \
  EACH(ffi_node_outcome, 1)                                                    \
  EACH(ffi_node_status, 1)                                                     \
  EACH(ffi_session_assert, 0)                                                  \
  EACH(ffi_stock_send, 4)                                                      \
  EACH(ffi_stock_receive, 2)

// Each runs as an entry: call_NAME unpacks its arguments.
#define WITH_SESSION(name, parameters, packed, unpacked)                       \
  static SEXP call_##name(void *data) {                                        \
    SEXP *of = data;                                                           \
    (void)of;                                                                  \
    return name unpacked;                                                      \
  }                                                                            \
  static SEXP with_##name parameters {                                         \
    SEXP given[] = packed;                                                     \
    return ffi_entry(call_##name, given);                                      \
  }
#define PACK(...)                                                              \
  { __VA_ARGS__ }
#define WITH_0(name) WITH_SESSION(name, (void), PACK(R_NilValue), ())
#define WITH_1(name) WITH_SESSION(name, (SEXP a), PACK(a), (of[0]))
#define WITH_2(name)                                                           \
  WITH_SESSION(name, (SEXP a, SEXP b), PACK(a, b), (of[0], of[1]))
#define WITH_3(name)                                                           \
  WITH_SESSION(name, (SEXP a, SEXP b, SEXP c), PACK(a, b, c),                  \
               (of[0], of[1], of[2]))
#define WITH_4(name)                                                           \
  WITH_SESSION(name, (SEXP a, SEXP b, SEXP c, SEXP d), PACK(a, b, c, d),       \
               (of[0], of[1], of[2], of[3]))
#define WITH_6(name)                                                           \
  WITH_SESSION(name, (SEXP a, SEXP b, SEXP c, SEXP d, SEXP e, SEXP f),         \
               PACK(a, b, c, d, e, f),                                         \
               (of[0], of[1], of[2], of[3], of[4], of[5]))
#define WITH(name, arguments) WITH_##arguments(name)
SESSION_ENTRIES(WITH)

#define SESSION_ENTRY(name, arguments)                                         \
  {#name, (DL_FUNC)(void *)&with_##name, arguments},

static const R_CallMethodDef entries[] = {
    SESSION_ENTRIES(SESSION_ENTRY) // each with its comma
    FFI_SOCKET_ENTRIES,
    ENTRY(ffi_build_set, 2),
    ENTRY(ffi_enums, 0),
    ENTRY(ffi_host_open, 2),
    ENTRY(ffi_host_dial, 3),
    ENTRY(ffi_key_check, 1),
    ENTRY(ffi_host_say, 1),
    ENTRY(ffi_host_heed, 1),
    ENTRY(ffi_host_next, 1),
    ENTRY(ffi_host_spawn, 4),
    ENTRY(ffi_host_refuse, 2),
    ENTRY(ffi_host_end, 1),
    ENTRY(ffi_process_stat, 1),
    ENTRY(ffi_line_put, 3),
    ENTRY(ffi_line_away, 1),
    ENTRY(ffi_line_shown, 0),
    ENTRY(ffi_progress_show, 0),
    ENTRY(ffi_line_width, 0),
    ENTRY(ffi_worker_track, 0),
    ENTRY(ffi_worker_frames, 0),
    ENTRY(ffi_worker_before, 0),
    ENTRY(ffi_promises_left, 2),
    ENTRY(ffi_worker_open, 0),
    ENTRY(ffi_worker_shut, 0),
    ENTRY(ffi_worker_holds, 2),
    ENTRY(ffi_content, 1),
    ENTRY(ffi_serialized_bytes, 2),
    ENTRY(ffi_named_set, 1),
    ENTRY(ffi_worker_condition, 2),
    ENTRY(ffi_worker_is_task, 0),
    ENTRY(ffi_worker_say, 1),
    ENTRY(ffi_pack, 1),
    ENTRY(ffi_misfit, 2),
    ENTRY(ffi_job_key, 1),
    ENTRY(ffi_job_forget, 1),
    ENTRY(ffi_job_read, 2),
    ENTRY(ffi_object_read, 1),
    ENTRY(ffi_stream_after, 2),
    ENTRY(ffi_scan, 1),
    ENTRY(ffi_map_elements, 7),
    ENTRY(ffi_map_put, 3),
    ENTRY(ffi_environment, 0),
    ENTRY(ffi_server_begin, 0),
    ENTRY(ffi_server_run, 3),
    ENTRY(ffi_server_say, 2),
    ENTRY(ffi_worker_begin, 2),
    ENTRY(ffi_worker_setup, 0),
    ENTRY(ffi_worker_ready, 1),
    ENTRY(ffi_worker_failed, 1),
    ENTRY(ffi_worker_serve, 1),
    ENTRY(ffi_worker_taken, 0),
    ENTRY(ffi_heap_widen, 1),
    ENTRY(ffi_stream_begin, 1),
    ENTRY(ffi_worker_answer_error, 1),
    ENTRY(ffi_warm_pair, 0),
    ENTRY(ffi_warm_feed, 2),
    ENTRY(ffi_has_verbs, 1),
    ENTRY(ffi_caller_of, 1),
    ENTRY(ffi_errno_name, 1),
    ENTRY(ffi_limits, 0),
    ENTRY(ffi_limits_raise, 1),
    ENTRY(ffi_threads_set, 1),
    ENTRY(ffi_oom_kills, 0),
    ENTRY(ffi_threads_count, 0),
    ENTRY(ffi_rebind, 3),
    ENTRY(ffi_rand_seed, 0),
    ENTRY(ffi_can_fork, 0),
    ENTRY(ffi_fault_arm, 3),
    ENTRY(ffi_assert_fail, 0),
    ENTRY(ffi_session_failure, 0),
    ENTRY(ffi_build_flags, 0),
    ENTRY(ffi_can_write, 1),
    ENTRY(ffi_share_min, 1),
    ENTRY(ffi_share_always, 1),
    ENTRY(ffi_share_pretend, 2),
    ENTRY(ffi_share_is, 1),
    ENTRY(ffi_diag_listeners, 0),
    ENTRY(ffi_diag_counters, 1),
    ENTRY(ffi_card, 1),
    ENTRY(ffi_disk, 1),
    ENTRY(ffi_features, 0),
    ENTRY(ffi_built_with, 0),
    ENTRY(ffi_mappings, 1),
    ENTRY(ffi_command_lines, 2),
    ENTRY(ffi_hide, 2),
    ENTRY(ffi_hidden, 1),
    ENTRY(ffi_opaque, 0),
    ENTRY(ffi_notified, 0),
    ENTRY(ffi_needs, 1),
    ENTRY(ffi_is_unknown, 2),
    ENTRY(ffi_stock_listen, 2),
    ENTRY(ffi_stock_poll, 4),
    ENTRY(ffi_stock_word, 0),
    ENTRY(ffi_stock_prove, 2),
    ENTRY(ffi_stock_state, 1),
    ENTRY(ffi_stock_nodelay, 2),
    ENTRY(ffi_stock_close, 1),
    ENTRY(ffi_stock_spawn, 5),
    ENTRY(ffi_stock_told, 1),
    ENTRY(ffi_stock_hang_up, 1),
    ENTRY(ffi_stock_process, 1),
    ENTRY(ffi_stock_kill, 2),
    ENTRY(ffi_stock_end, 1),
    ENTRY(ffi_targets_kind, 2),
    ENTRY(ffi_targets_sum, 3),
    ENTRY(ffi_name_lookup, 1),
    ENTRY(ffi_address_name, 1),
    ENTRY(ffi_has_tls, 0),
    ENTRY(ffi_errno_text, 1),
    ENTRY(ffi_scan_open, 6),
    ENTRY(ffi_scan_run, 2),
    ENTRY(ffi_scan_state, 1),
    ENTRY(ffi_scan_asked, 1),
    ENTRY(ffi_scan_judge, 2),
    ENTRY(ffi_scan_findings, 1),
    ENTRY(ffi_scan_close, 1),
    ENTRY(ffi_key_split, 3),
    ENTRY(ffi_key_split_runs, 3),
    ENTRY(ffi_key_groups, 2),
    ENTRY(ffi_key_join, 6),
    ENTRY(ffi_rows_take, 2),
    ENTRY(ffi_rows_range, 3),
    ENTRY(ffi_rows_split, 3),
    ENTRY(ffi_rows_bind, 1),
    ENTRY(ffi_levels_number, 1),
    ENTRY(ffi_block_levels, 2),
    ENTRY(ffi_coded, 1),
    ENTRY(ffi_coded_all, 1),
    ENTRY(ffi_coded_head, 2),
    ENTRY(ffi_coded_lend, 2),
    ENTRY(ffi_coded_parts, 1),
    ENTRY(ffi_coded_join, 2),
    ENTRY(ffi_coded_expand, 1),
    ENTRY(ffi_coded_compact, 1),
    ENTRY(ffi_rows_sort, 2),
    ENTRY(ffi_rows_leading, 5),
    ENTRY(ffi_runs_sort, 3),
    ENTRY(ffi_group_columns, 4),
    ENTRY(ffi_group_frame, 5),
    ENTRY(ffi_group_mask, 5),
    ENTRY(ffi_group_values, 2),
    ENTRY(ffi_group_alike, 1),
    ENTRY(ffi_file_add, 2),
    ENTRY(ffi_csv_read, 6),
    ENTRY(ffi_csv_quotes, 2),
    ENTRY(ffi_file_write, 2),
    ENTRY(ffi_file_sync, 1),
    ENTRY(ffi_fold_sum, 4),
    ENTRY(ffi_fold_square, 4),
    ENTRY(ffi_fold_total, 5),
    ENTRY(ffi_fold_var, 5),
    ENTRY(ffi_fold_least, 6),
    ENTRY(ffi_fold_count, 3),
    ENTRY(ffi_block_write, 5),
    ENTRY(ffi_block_split, 7),
    ENTRY(ffi_block_fetch, 1),
    ENTRY(ffi_blocks_bind, 2),
    ENTRY(ffi_block_read, 2),
    ENTRY(ffi_block_drop, 1),
    ENTRY(ffi_block_held, 0),
    ENTRY(ffi_part_read, 1),
    ENTRY(ffi_part_weight, 1),
    ENTRY(ffi_memory_return, 0),
    ENTRY(ffi_worker_self, 0),
    ENTRY(ffi_links_set, 2),
    ENTRY(ffi_links_know, 3),
    ENTRY(ffi_links_listen, 2),
    ENTRY(ffi_links_count, 0),
    ENTRY(ffi_share_free, 0),
    ENTRY(ffi_plan_new, 1),
    ENTRY(ffi_plan_add, 5),
    ENTRY(ffi_plan_order, 3),
    ENTRY(ffi_pieces_next, 1),
    ENTRY(ffi_pieces_at, 3),
    ENTRY(ffi_pieces_over, 2),
    ENTRY(ffi_pieces_ended, 2),
    ENTRY(ffi_pieces_done, 3),
    ENTRY(ffi_pieces_each, 1),
    ENTRY(ffi_pieces_stop, 2),
    ENTRY(ffi_pieces_lost, 3),
    ENTRY(ffi_plan_want, 2),
    ENTRY(ffi_plan_unwant, 1),
    ENTRY(ffi_plan_forget, 2),
    ENTRY(ffi_plan_retire, 2),
    ENTRY(ffi_plan_see, 2),
    ENTRY(ffi_plan_done, 2),
    ENTRY(ffi_plan_note, 2),
    ENTRY(ffi_plan_found, 2),
    ENTRY(ffi_plan_ended, 2),
    ENTRY(ffi_plan_missed, 2),
    ENTRY(ffi_plan_next, 1),
    ENTRY(ffi_plan_base, 4),
    ENTRY(ffi_plan_where, 2),
    ENTRY(ffi_plan_counts, 1),
    {NULL, NULL, 0}};

// A failed assertion in the user's session becomes an R error of our class, after the session that
// it may have damaged is given up.
static void assertion_failed(const char *what, const char *file, int line) {
  char text[MST_ASSERT_TEXT_MAX];
  (void)snprintf(text, sizeof text, "%s (%s:%d)", what, file, line);
  const int ends = ffi_session_failed(text);
  SEXP ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("muster"))));
  SEXP call =
      PROTECT(Rf_lang3(Rf_install("abort_internal"), PROTECT(Rf_mkString(text)),
                       PROTECT(Rf_ScalarLogical(ends))));
  (void)Rf_eval(call, ns);
  UNPROTECT(5);
}

void R_init_muster(DllInfo *dll);

attribute_visible void R_init_muster(DllInfo *dll) {
  mst_thread_mark_r();
  mst_assert_on_failure(assertion_failed);
  R_registerRoutines(dll, NULL, entries, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
  ffi_build_clear();
  ffi_unwind_init();
  ffi_share_register(dll);
  ffi_coded_register(dll);
}
