#' Single workers: alive, killed, cloned, more or fewer
#'
#' `isNodeAlive()` checks whether workers respond. `killNode()` ends workers at once and for good.
#' `cloneNode()` starts another worker like a given one. `cluster_resize()` gives a cluster more
#' or fewer workers. The first three have the same names and meaning as in package parallelly,
#' whose own functions accept muster's nodes too.
#'
#' "Alive" means responding: the worker's second thread responds even while R computes, but not
#' when the process or its machine is gone or stopped. If a worker is being replaced, the call
#' waits for the new one. One of R's own workers (see [makeClusterPSOCK()]) is asked when it is
#' idle; while it computes, its process is checked if it runs on this machine, and the result is
#' `NA` if it runs on another host. Nodes from [parallel::makeCluster()] are always `NA`, since
#' nothing is known about them. A process that has ended but hasn't been reaped yet (a zombie)
#' counts as dead.
#'
#' A worker killed by `killNode()` isn't replaced, even in a cluster with healing: use the others
#' (`cl[-2]`) or put a new one in its place (`cl[2] <- cloneNode(cl[2])`).
#'
#' New workers are like those that the cluster began with: same packages, same `setup`. What changed
#' the others since is done in them too, if all of them were told it by one call: the variables of
#' [parallel::clusterExport()] and [cluster_share()], the packages that
#' `clusterEvalQ(cl, library(pkg))` attached, whatever else a `clusterEvalQ()` to all workers did,
#' and what a `clusterCall()` to all was seen to change (global variables, options, search path,
#' working directory). The calls run again, in order, as after a loss. What was done
#' in some of the workers only (`clusterCall(cl[1], ...)`, tasks, each worker's own arguments, as
#' those of `clusterApply()`) isn't, and random number streams aren't either: call
#' `clusterSetRNGStream()` again. Of a cluster that doesn't heal (`healing = FALSE`) no calls are
#' kept, and new workers have none of this.
#'
#' `cloneNode()` of a node whose cluster was stopped starts a cluster of one worker with that
#' cluster's settings. `cluster_resize()` adds workers on the host of the first node. When it
#' removes workers, it takes the last ones and lets them finish their tasks. It also tries again to
#' start workers that were given up since something was short, or their host couldn't be reached.
#'
#' @param x A node, or a cluster. Nodes and clusters of package parallelly are handed to its
#'   own functions.
#' @param cl A cluster from [cluster_start()].
#' @param workers Number of workers that the cluster should have, from 1 up.
#' @param timeout Seconds to wait for responses, by default 1.
#' @param signal Signal to send, by default SIGTERM. SIGTERM and SIGKILL end one of muster's
#'   workers by whatever means necessary; other signals are simply sent to its process.
#' @param ... Not used.
#' @param shutdown If `TRUE`, the default, the node that is cloned is stopped first.
#' @param merge Ignored: a worker has no options of its own that could be merged.
#' @returns `isNodeAlive()`: `TRUE`, `FALSE` or `NA` for each node. `killNode()`: invisibly,
#'   `TRUE` where the worker was ended or the signal sent, `FALSE` where the worker was already
#'   gone, `NA` where it can't be done. `cloneNode()`: a node, or a cluster if `x` is one.
#'   `cluster_resize()`: the new cluster; assign it (`cl <- cluster_resize(cl, 4)`).
#' @section Errors:
#' `muster_error_input`: a node belongs to another process, or `cluster_resize()` was given a
#' stopped cluster. `muster_error_limit`, `muster_error_launch`: new workers can't be started, or
#' one of the calls that the others were told fails in them.
#'
#' What the others were told may be more than muster keeps for new workers: 10,000 calls, 64 MB of
#' arguments and of values that were exported again after other calls, or a quarter of the memory
#' that is free. Then `cluster_resize()` raises `muster_error_limit`, since workers that have only
#' some of it could return other values; a node of `cloneNode()` has nothing of it, and a warning of
#' class `muster_warning_resize` says so.
#' @section Cost:
#' A response takes about 20 us. A new worker takes as long as one from [cluster_start()], and as
#' the calls that run again in it.
#' @section Source:
#' `isNodeAlive()`, `killNode()` and `cloneNode()` of package parallelly.
#' @examples
#' cl <- cluster_start(1)
#' isNodeAlive(cl)
#' cl <- cluster_resize(cl, 2)
#' killNode(cl[[1]])
#' isNodeAlive(cl)
#' cluster_stop(cl)
#' @export
isNodeAlive <- function(x, ...) UseMethod("isNodeAlive")

#' @rdname isNodeAlive
#' @export
isNodeAlive.muster_node <- function(x, timeout = 1, ...) {
  timeout <- check_seconds(timeout, "timeout", call = sys.call())
  end <- proc.time()[["elapsed"]] + timeout
  repeat {
    left <- max(0.001, end - proc.time()[["elapsed"]])
    seconds <- .Call(ffi_node_ping, x, left)
    if (identical(seconds, outcomes[["foreign"]])) {
      abort_node(x, seconds, sys.call())
    }
    alive <- is.double(seconds) && !is.na(seconds)
    # A worker that is being replaced has no process for some milliseconds.
    if (alive || left <= 0.001 || !.Call(ffi_node_heals, x)) {
      return(alive)
    }
  }
}

#' @rdname isNodeAlive
#' @export
isNodeAlive.cluster <- function(x, ...) {
  vapply(unclass(x), function(node) isNodeAlive(node, ...), NA)
}

#' @rdname isNodeAlive
#' @export
isNodeAlive.default <- function(x, ...) {
  alive <- of_parallelly("isNodeAlive", x, ..., otherwise = NA)
  pid <- if (isTRUE(alive) && isTRUE(isLocalhostNode(x))) x$session_info$process$pid
  if (is.null(pid)) alive else process_runs(pid)
}

#' @rdname isNodeAlive
#' @export
killNode <- function(x, signal = tools::SIGTERM, ...) UseMethod("killNode")

#' @rdname isNodeAlive
#' @export
killNode.muster_node <- function(x, signal = tools::SIGTERM, ...) {
  signal <- check_count(signal, "signal", min = 0L, max = 64L, call = sys.call())
  if (!signal %in% c(tools::SIGTERM, tools::SIGKILL)) {
    pid <- .subset2(x, "pid")
    return(invisible(!is.na(pid) && tools::pskill(pid, signal)))
  }
  killed <- .Call(ffi_node_kill, x)
  if (identical(killed, outcomes[["foreign"]])) {
    abort_node(x, killed, sys.call())
  }
  invisible(isTRUE(killed))
}

#' @rdname isNodeAlive
#' @export
killNode.cluster <- function(x, signal = tools::SIGTERM, ...) {
  invisible(vapply(unclass(x), function(node) killNode(node, signal = signal, ...), NA))
}

#' @rdname isNodeAlive
#' @export
killNode.default <- function(x, signal = tools::SIGTERM, ...) {
  invisible(of_parallelly("killNode", x, signal = signal, ..., otherwise = NA))
}

#' @rdname isNodeAlive
#' @export
cloneNode <- function(x, ...) UseMethod("cloneNode")

#' @rdname isNodeAlive
#' @export
cloneNode.muster_node <- function(x, ..., merge = FALSE, shutdown = TRUE) {
  call <- sys.call()
  check_flag(shutdown, "shutdown", call = call)
  if (is_ended(.Call(ffi_node_outcome, x))) {
    return(node_again(x, call))
  }
  node <- more_nodes(x, 1L, call, bare = TRUE)[[1L]]
  if (shutdown && !is_ended(.Call(ffi_node_outcome, x))) {
    stop_nodes(list(x))
  }
  node
}

#' @rdname isNodeAlive
#' @export
cloneNode.cluster <- function(x, ...) {
  for (i in seq_along(x)) {
    x[[i]] <- cloneNode(x[[i]], ...)
  }
  x
}

#' @rdname isNodeAlive
#' @export
cloneNode.default <- function(x, ...) {
  of_parallelly("cloneNode", x, ..., otherwise = abort_input("x", "a node", x, sys.call(-1)))
}

# The result of parallelly's function of this name for its own nodes; `otherwise` for others.
of_parallelly <- function(name, x, ..., otherwise) {
  if (inherits(x, "RichSOCKnode") && isNamespaceLoaded("parallelly")) {
    getExportedValue("parallelly", name)(x, ...)
  } else {
    otherwise
  }
}

#' @rdname isNodeAlive
#' @export
cluster_resize <- function(cl, workers) {
  call <- sys.call()
  check_cluster(cl, call)
  workers <- check_workers(workers, FALSE, call)
  have <- length(cl)
  # Workers that were given up while the system lacked resources may be back by now.
  .Call(ffi_sites_retry, .subset2(cl[[1L]], "id"))
  tend_hosts()
  .Call(ffi_cluster_revive, .subset2(cl[[1L]], "cluster"))
  if (workers < have) {
    stop_nodes(cl[(workers + 1L):have])
    cl <- cl[seq_len(workers)]
  } else if (workers > have) {
    check_limits(workers - have, call)
    cl <- new_cluster(c(unclass(cl), more_nodes(cl[[1L]], workers - have, call)))
  }
  cl
}

# node_again() starts a cluster of one worker with the settings of a stopped node's cluster. If
# only the node was stopped, its running cluster gets another worker instead.
node_again <- function(node, call) {
  if (is.list(.Call(ffi_cluster_status, .subset2(node, "cluster")))) {
    return(more_nodes(node, 1L, call, bare = TRUE)[[1L]])
  }
  plan <- .Call(ffi_hidden, .subset2(node, "plan"))
  if (is.null(plan)) {
    abort_node(node, outcomes[["foreign"]], call)
  }
  plan$setup <- if (is.raw(plan$setup)) unserialize(plan$setup)
  plan$call <- call
  # Another node's cluster may have the link.
  plan$groups <- lapply(plan$groups, function(group) {
    if (is.null(group$host)) group else with_key(group)
  })
  opened <- start_cluster(plan, may_fall_back = TRUE)
  new_nodes(opened$nodes, opened, opened$groups, opened$of, plan$threads)[[1L]]
}

# What cloneNode() needs to start another node like one of this group. `setup` is kept as bytes: a
# stopped cluster must not keep alive what its setup refers to.
plan_to_keep <- function(plan) {
  plan$groups[[1L]]$workers <- 1L
  if (!is.null(plan$setup)) {
    plan$setup <- serialize(plan$setup, NULL, xdr = FALSE)
  }
  plan
}

not_kept <- paste(
  "It exceeds what muster keeps: 10,000 calls, 64 MB of arguments and of values that were",
  "exported again after other calls, or a quarter of the free memory."
)

# `count` new nodes of the cluster that a node belongs to. bare: also if they can't have what the
# others were told, with a warning; else that is an error.
more_nodes <- function(node, count, call, bare = FALSE) {
  pointer <- .subset2(node, "cluster")
  before <- .Call(ffi_node_outcome, node)
  grown <- NULL
  # Without this, an interrupt, or a jump from a handler that is told of another worker's end,
  # would leave workers that nothing refers to until the cluster ends.
  on.exit(if (is.list(grown) && is.integer(grown$from)) {
    .Call(ffi_cluster_stop, pointer, seq(grown$from, length.out = count))
  })
  grown <- .Call(ffi_cluster_grow, pointer, count, .subset2(node, "rank"), bare)
  if (is.integer(grown)) {
    abort_node(node, grown, call)
  }
  if (isFALSE(grown)) {
    abort_muster("limit", "New workers can't have what the others were told.", details = not_kept,
      hints = c(
        "cl <- c(cl, cluster_start(n)) adds workers that have nothing yet: export to them again.",
        "Or stop this cluster, start a larger one, and repeat its clusterExport() and other calls."
      ), call = call
    )
  }
  if (!is.null(grown$error)) {
    abort_muster("limit", "Can't start more workers.", details = grown$error, call = call)
  }
  group <- list(
    start = .subset2(node, "start"), plan = .Call(ffi_hidden, .subset2(node, "plan"))
  )
  nodes <- new_nodes(
    grown$nodes, list(pointer = pointer, id = .subset2(node, "id")), list(group), rep(1L, count),
    .subset2(node, "threads"), grown$from
  )
  outcome <- .Call(ffi_nodes_ready, nodes)
  now <- .Call(ffi_node_outcome, node)
  if (is.integer(outcome) || now != before) { # a handler has stopped them
    abort_node(node, if (now != before) now else outcome, call)
  }
  dead <- vapply(nodes, function(one) identical(.Call(ffi_node_look, one)$state, "lost"), NA)
  if (any(dead)) {
    failed <- nodes[dead][[1L]]
    status <- .Call(ffi_node_status, failed)
    abort_muster("launch", "Can't start more workers.",
      details = c(why_text(status$failure), output_lines(status$output)), call = call
    )
  }
  if (isFALSE(grown$lacking) && length(the_map$exports)) {
    note_joined(pointer, as.character(.subset2(node, "id")), seq(grown$from, length.out = count))
  }
  if (isTRUE(grown$lacking)) {
    warn_muster("resize", "The new worker lacks what the others have been told since they started.",
      details = not_kept,
      hints = "Send it to the new worker: clusterExport(), clusterEvalQ(), cluster_share().",
      call = call
    )
  }
  grown <- NULL
  nodes
}
