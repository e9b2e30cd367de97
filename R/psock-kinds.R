# Where a node runs, and how it was made.

#' How a process or a node was created, and where it runs
#'
#' `isForkedChild()` tells whether this R process is a child of [parallel::mclapply()] or
#' [parallel::mcparallel()] and the like, where some operations aren't allowed. `isForkedNode()`
#' tells whether a node's worker was forked, `isLocalhostNode()` whether it runs on this machine.
#'
#' A worker of muster's fork server comes from a clean R process without threads, open files or
#' windows, and may do everything that a fresh R process may. In that sense it isn't a forked
#' child, and package parallelly's function of the same name agrees. `isForkedNode()` tells that
#' it was forked.
#'
#' @param node A node, or a cluster: then one answer for each node.
#' @param ... Not used.
#' @returns `TRUE` or `FALSE`; `NA` where it can't be known.
#' @section Source:
#' `isForkedChild()`, `isForkedNode()` and `isLocalhostNode()` of package parallelly.
#' @examples
#' isForkedChild()
#' unlist(parallel::mclapply(1, function(i) isForkedChild()))
#' cl <- cluster_start(1)
#' isForkedNode(cl[[1]])
#' isLocalhostNode(cl[[1]])
#' cluster_stop(cl)
#' @export
isForkedChild <- function() {
  # Not exported by parallel; there is no other way to ask R.
  is_child <- get0("isChild", asNamespace("parallel"), mode = "function", inherits = FALSE)
  if (is.null(is_child)) NA else is_child()
}

#' @rdname isForkedChild
#' @export
isForkedNode <- function(node, ...) UseMethod("isForkedNode")

#' @rdname isForkedChild
#' @export
isForkedNode.muster_node <- function(node, ...) .subset2(node, "start") == "fork"

#' @export
isForkedNode.muster_stock_node <- function(node, ...) FALSE

#' @rdname isForkedChild
#' @export
isForkedNode.cluster <- function(node, ...) vapply(unclass(node), isForkedNode, NA, ...)

#' @rdname isForkedChild
#' @export
isForkedNode.default <- function(node, ...) if (inherits(node, "forknode")) TRUE else NA

#' @rdname isForkedChild
#' @export
isLocalhostNode <- function(node, ...) UseMethod("isLocalhostNode")

#' @rdname isForkedChild
#' @export
isLocalhostNode.muster_node <- function(node, ...) {
  status <- .Call(ffi_node_look, node)
  if (is.list(status)) status$here else identical(.subset2(node, "host"), "localhost")
}

#' @export
isLocalhostNode.muster_stock_node <- function(node, ...) node$options$local

#' @rdname isForkedChild
#' @export
isLocalhostNode.cluster <- function(node, ...) vapply(unclass(node), isLocalhostNode, NA, ...)

#' @rdname isForkedChild
#' @export
isLocalhostNode.default <- function(node, ...) {
  if (inherits(node, "forknode")) {
    return(TRUE)
  }
  host <- if (is.list(node) && any(grepl("node$", class(node)))) node$host
  if (!is.character(host) || length(host) != 1L || is.na(host)) {
    return(NA)
  }
  known <- attr(host, "localhost", exact = TRUE)
  if (is.null(known)) is_local_host(host) else known
}
