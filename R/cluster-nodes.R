#' Single workers: alive, killed, cloned, more or fewer
#'
#' `isNodeAlive()` asks workers for a sign of life. `killNode()` ends workers at once and for
#' good. `cloneNode()` starts another worker like a given one. `cluster_resize()` gives a
#' cluster more or fewer workers. The first three have the names and the meaning of package
#' parallelly's.
#'
#' "Alive" means answering: the worker's second thread answers while R computes, and doesn't
#' when the process is gone, stopped, or its machine is.
#'
#' A worker that was killed by `killNode()` isn't replaced, also in a cluster that heals: use
#' the others (`cl[-2]`) or put another in its place (`cl[2] <- cl2` with
#' `cl2 <- cluster_resize(cl, ...)`, or `cl[[2]] <- cloneNode(cl[[2]])`).
#'
#' New workers are like those that the cluster began with: same packages, same `setup`. What
#' was sent to the others since (`clusterExport()` and so on) they don't have.
#' `cluster_resize()` to fewer lets the last workers finish what they do.
#'
#' @param x A node of a cluster of [cluster_start()], or a cluster.
#' @param cl A cluster of [cluster_start()].
#' @param workers Number of workers that it is to have, from 1.
#' @param timeout Seconds to wait for signs of life, by default 1.
#' @param ... Not used.
#' @param shutdown If `TRUE`, the default, the node that is cloned is stopped first.
#' @param merge Ignored: a worker has no options of its own that could be merged.
#' @returns `isNodeAlive()`: `TRUE` or `FALSE` for each node. `killNode()`: `TRUE` where the
#'   worker was ended, `FALSE` where it was gone already, invisibly. `cloneNode()`: a node.
#'   `cluster_resize()`: the cluster, to be assigned (`cl <- cluster_resize(cl, 4)`).
#' @section Errors:
#' `muster_error_input`: not a node or cluster of muster, or stopped. `muster_error_limit`,
#' `muster_error_launch`: new workers can't be started.
#' @section Cost:
#' A sign of life takes some 20 us. A new worker takes as long as one of [cluster_start()].
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
  seconds <- .Call(ffi_node_ping, x, timeout)
  if (identical(seconds, outcome_foreign)) {
    abort_node(x, seconds, sys.call())
  }
  is.double(seconds) && !is.na(seconds)
}

#' @rdname isNodeAlive
#' @export
isNodeAlive.muster_cluster <- function(x, timeout = 1, ...) {
  vapply(x, isNodeAlive, NA, timeout = timeout)
}

#' @rdname isNodeAlive
#' @export
killNode <- function(x, ...) UseMethod("killNode")

#' @rdname isNodeAlive
#' @export
killNode.muster_node <- function(x, ...) {
  killed <- .Call(ffi_node_kill, x)
  if (identical(killed, outcome_foreign)) {
    abort_node(x, killed, sys.call())
  }
  invisible(isTRUE(killed))
}

#' @rdname isNodeAlive
#' @export
killNode.muster_cluster <- function(x, ...) {
  invisible(vapply(x, killNode, NA))
}

#' @rdname isNodeAlive
#' @export
cloneNode <- function(x, ..., merge = FALSE, shutdown = TRUE) UseMethod("cloneNode")

#' @rdname isNodeAlive
#' @export
cloneNode.muster_node <- function(x, ..., merge = FALSE, shutdown = TRUE) {
  call <- sys.call()
  check_flag(shutdown, "shutdown", call = call)
  node <- more_nodes(x, 1L, call)[[1L]]
  if (shutdown) {
    stop_nodes(list(x))
  }
  node
}

#' @rdname isNodeAlive
#' @export
cluster_resize <- function(cl, workers) {
  call <- sys.call()
  check_cluster(cl, call)
  workers <- check_workers(workers, FALSE, call)
  have <- length(cl)
  if (workers < have) {
    stop_nodes(cl[(workers + 1L):have])
    cl <- cl[seq_len(workers)]
  } else if (workers > have) {
    check_limits(workers - have, call)
    cl <- new_cluster(c(unclass(cl), more_nodes(cl[[1L]], workers - have, call)))
  }
  cl
}

# `count` new nodes of the cluster that a node belongs to.
more_nodes <- function(node, count, call) {
  pointer <- .subset2(node, "cluster")
  from <- length(.Call(ffi_cluster_status, pointer)) + 1L
  pointers <- .Call(ffi_cluster_grow, pointer, count)
  if (is.integer(pointers)) {
    abort_node(node, pointers, call)
  }
  if (!is.null(pointers$error)) {
    abort_muster("limit", "Can't start more workers.", details = pointers$error, call = call)
  }
  nodes <- new_nodes(pointers, pointer, .subset2(node, "id"), .subset2(node, "start"), from)
  dead <- vapply(nodes, function(one) .Call(ffi_node_look, one)$state == "lost", NA)
  if (any(dead)) {
    failed <- nodes[dead][[1L]]
    status <- .Call(ffi_node_status, failed)
    stop_nodes(nodes)
    abort_muster("launch", "Can't start more workers.",
      details = c(status$failure, output_lines(status$output)), call = call
    )
  }
  nodes
}
