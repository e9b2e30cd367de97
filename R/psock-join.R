# Clusters of several kinds of nodes: muster's own, R's own workers driven by muster, and those
# made by parallel's makeCluster().

#' Join clusters
#'
#' `c()` combines several clusters into one: muster's, and also those of [parallel::makeCluster()]
#' and of package parallelly. `as.cluster()` makes a cluster from a node or from a list of nodes
#' and clusters. Every function of package parallel that takes a cluster accepts the result.
#'
#' A joined cluster is a list of the same nodes: stopping it stops them all.
#'
#' @param x A cluster, a node, or a list of clusters and nodes.
#' @param ... Not used.
#' @returns A cluster, of class `c("muster_cluster", "SOCKcluster", "cluster")` if all nodes are
#'   muster's own; otherwise with `"muster_joined"` in place of the second class. A cluster
#'   without any of muster's nodes is returned unchanged.
#' @section Errors:
#' `muster_error_input`: an argument is neither a node nor a cluster.
#' @section Cost:
#' None for functions that take answers in order. Functions that take whichever answer comes first
#' (`clusterApplyLB()`, `parLapplyLB()`, foreach) look at each kind of node in turn for a
#' millisecond, so with more than one kind of node an answer may be seen up to 1 ms later for each
#' other kind.
#' @section Source:
#' `as.cluster()` of package parallelly.
#' @examples
#' cl <- c(cluster_start(1), makeClusterPSOCK(1))
#' parSapply(cl, 1:4, function(i) i^2)
#' parallel::stopCluster(cl)
#' @export
as.cluster <- function(x, ...) UseMethod("as.cluster")

#' @rdname as.cluster
#' @export
as.cluster.default <- function(x, ...) {
  if (is_node(x)) {
    return(join_nodes(list(x)))
  }
  abort_input("x", "a cluster, a node, or a list of these", x, sys.call(-1))
}

#' @rdname as.cluster
#' @export
as.cluster.cluster <- function(x, ...) x

#' @rdname as.cluster
#' @export
as.cluster.list <- function(x, ...) {
  if (is_node(x)) {
    return(join_nodes(list(x)))
  }
  join_parts(x, sys.call(-1))
}

# A node from parallel is a list whose class ends in "node".
is_node <- function(x) {
  inherits(x, c("muster_node", "muster_stock_node")) || any(grepl("node$", class(x)))
}

# Other packages' clusters also have class SOCKcluster and may come first in c(). If none of the
# arguments is muster's, c() works as it did without muster.
#' @export
c.SOCKcluster <- function(..., recursive = FALSE) {
  parts <- list(...)
  own <- vapply(parts, inherits, NA, c("muster_cluster", "muster_joined", "muster_psock"))
  if (!any(own)) {
    return(NextMethod())
  }
  join_parts(parts, sys.call())
}

join_parts <- function(parts, call) {
  nodes <- lapply(parts, function(part) {
    if (inherits(part, "cluster")) {
      unclass(part)
    } else if (is_node(part)) {
      list(part)
    } else {
      abort_muster("input", "Can't join a cluster with something else.",
        details = paste0("There is ", describe(part), "."),
        hints = "All arguments must be clusters, or nodes of clusters.", call = call
      )
    }
  })
  nodes <- unlist(lapply(nodes, function(one) unname(one)), recursive = FALSE)
  if (anyDuplicated(nodes)) {
    warn_muster("input", "A node is in the joined cluster more than once.", call = call)
  }
  psock <- vapply(parts, inherits, NA, c("muster_psock", "muster_stock_node"))
  join_nodes(nodes, psock = all(psock))
}

# psock: does it print as a cluster of makeClusterPSOCK()?
join_nodes <- function(nodes, psock = TRUE) {
  own <- all(vapply(nodes, inherits, NA, "muster_node"))
  muster <- any(vapply(nodes, inherits, NA, c("muster_node", "muster_stock_node")))
  structure(nodes, class = cluster_class(c(
    if (psock && muster) "muster_psock",
    if (own) "muster_cluster" else if (muster) "muster_joined"
  )))
}

# ---- The kinds of nodes, and the operations on all kinds

node_kinds <- function(nodes) {
  kind <- function(node) {
    if (inherits(node, "muster_node")) {
      "muster"
    } else if (inherits(node, "muster_stock_node")) {
      "stock"
    } else if (is.list(node) && inherits(node$con, "connection")) {
      "connection"
    } else {
      "other"
    }
  }
  vapply(nodes, kind, "")
}

# Stops nodes of all kinds.
stop_any <- function(nodes) {
  kinds <- node_kinds(nodes)
  if (any(kinds == "muster")) stop_nodes(nodes[kinds == "muster"])
  if (any(kinds == "stock")) stock_stop(nodes[kinds == "stock"])
  rest <- nodes[!kinds %in% c("muster", "stock")]
  for (node in rest) {
    # parallel writes to the connection and closes it by number, even if the number now belongs to
    # another connection.
    if (is_closed(node)) next
    get("stopNode", asNamespace("parallel"))(node)
  }
  invisible()
}

#' @export
stopCluster.muster_joined <- function(cl) {
  stop_any(unclass(cl))
  invisible()
}

# Each kind in turn; the length of a slice is how long an answer may go unnoticed.
#' @exportS3Method parallel::recvOneData
recvOneData.muster_joined <- function(cl) {
  kinds <- node_kinds(cl)
  if (any(kinds == "other")) {
    abort_muster("input", "Can't wait for whichever node answers first in this cluster.",
      details = paste0("It has a node of class ", class(cl[[match("other", kinds)]])[1L], "."),
      call = verb_call()
    )
  }
  at <- split(seq_along(kinds), kinds)
  slice_s <- if (length(at) > 1L) 0.001 else 0.05
  repeat {
    .Call(ffi_progress_show)
    for (kind in names(at)) {
      one <- switch(kind,
        muster = one_of_muster(cl, at[[kind]], slice_s),
        stock = one_of_stock(cl, at[[kind]], slice_s),
        connection = one_of_connections(cl, at[[kind]], slice_s)
      )
      if (!is.null(one)) {
        return(one)
      }
    }
  }
}

one_of_muster <- function(cl, at, slice_s) {
  nodes <- .subset(cl, at)
  if (!.Call(ffi_nodes_wait, nodes, slice_s)) {
    return(NULL)
  }
  one <- recvOneData.muster_cluster(structure(nodes, class = "muster_cluster"))
  one$node <- at[one$node]
  one
}

# A node from parallel whose connection was closed, for example by closeAllConnections().
is_closed <- function(node) {
  is.list(node) && inherits(node$con, "connection") && !connection_lives(node$con)
}

one_of_connections <- function(cl, at, slice_s) {
  cons <- lapply(.subset(cl, at), `[[`, "con")
  closed <- at[vapply(.subset(cl, at), is_closed, NA)]
  if (length(closed)) {
    abort_muster("lost", paste0("Worker ", closed[1L], " is lost: its connection was closed."),
      details = "It is a worker of package parallel: closeAllConnections() closes its connection.",
      hints = "The other workers remain usable, as in cl[-n].",
      worker = closed[1L], call = verb_call()
    )
  }
  ready <- which(socketSelect(cons, FALSE, timeout = slice_s))
  if (length(ready)) {
    first <- at[ready[1L]]
    list(node = first, value = get("recvData", asNamespace("parallel"))(.subset2(cl, first)))
  }
}
