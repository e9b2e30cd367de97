#' Stop a cluster
#'
#' Tells the workers to exit and returns when all of them have exited and been reaped.
#' [parallel::stopCluster()] does the same. Idle workers exit at once. A worker that is still
#' computing (after an interrupt, say) has 0.2 seconds to finish; one that hasn't exited within 5
#' seconds is killed.
#'
#' @param cl A cluster from [cluster_start()], or some of its nodes (`cl[2:3]`): then only these
#'   are stopped, and the others remain usable.
#' @returns `NULL`, invisibly. Stopping a cluster that is already stopped does nothing.
#' @section Errors:
#' `muster_error_input`: `cl` isn't a muster cluster, or belongs to another process.
#' @section Cost:
#' About 10 ms for a few workers, about 1 ms for each of many; at most 5 s when a worker doesn't
#' end.
#' @section Source:
#' [parallel::stopCluster()], which, before R 4.5, doesn't wait for the processes.
#' @examples
#' cl <- cluster_start(2)
#' cluster_stop(cl)
#' @export
cluster_stop <- function(cl) {
  check_cluster(cl, sys.call(), some = FALSE, here = TRUE)
  stopCluster(cl)
}

# There is no such cluster any more.
is_ended <- function(outcome) outcome %in% outcomes[c("stopped", "broken")]

# Stops whole clusters where all their nodes are among `nodes`, else single workers.
stop_nodes <- function(nodes) {
  swept <- FALSE
  for (group in by_cluster(nodes)) {
    outcome <- .Call(ffi_node_outcome, group$node)
    if (outcome == outcomes[["foreign"]]) {
      abort_node(group$node, outcome, verb_call())
    }
    restarted <- .Call(ffi_cluster_stop, group$pointer, as.integer(group$ranks))
    swept <- swept || isTRUE(restarted)
  }
  plans_drop()
  drop_task_job()
  drop_shuffles()
  signals_drop()
  # A worker that was ended while it restarted left its directory.
  if (swept) sweep_temp_dirs() else drop_booted_dir()
  drop_gone_servers()
  if (has_hosts()) drop_hosts()
}

# The directory of booted workers goes with the last of them.
drop_booted_dir <- function() {
  dir <- file.path(temp_root(), "booted")
  if (dir.exists(dir) && !length(list.files(dir, all.files = TRUE, no.. = TRUE))) {
    unlink(dir, recursive = TRUE)
  }
}

# The nodes of each cluster: list(pointer, ranks, node). There are few clusters.
by_cluster <- function(nodes) {
  groups <- list()
  for (node in nodes) {
    pointer <- .subset2(node, "cluster")
    at <- 1L
    while (at <= length(groups) && !identical(groups[[at]]$pointer, pointer)) {
      at <- at + 1L
    }
    if (at > length(groups)) {
      groups[[at]] <- list(pointer = pointer, ranks = integer(), node = node)
    }
    groups[[at]]$ranks <- c(groups[[at]]$ranks, .subset2(node, "rank"))
  }
  groups
}
