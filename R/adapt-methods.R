# Where other packages look for methods on muster's nodes and clusters: generics of snow and
# parallelly, and parallel's class SOCKcluster.

# snow's contract: its verbs, and so doSNOW, have generics of their own, equal to parallel's. They
# find these methods once snow is loaded. answer_in_place() handles recvOneData() of a cluster.

#' @rawNamespace
#' S3method(snow::sendData, muster_node)
#' S3method(snow::sendData, muster_stock_node)
#' S3method(snow::recvData, muster_node)
#' S3method(snow::recvData, muster_stock_node)
#' S3method(snow::recvOneData, muster_cluster)
#' S3method(snow::recvOneData, muster_joined)
#' S3method(snow::closeNode, muster_node)
#' S3method(snow::closeNode, muster_stock_node)
#' S3method(snow::stopCluster, muster_cluster)
#' S3method(snow::stopCluster, muster_joined)
NULL

# parallelly's functions on muster's nodes: its generics find these methods, once it is
# loaded.

#' @rawNamespace
#' S3method(parallelly::isNodeAlive, muster_node)
#' S3method(parallelly::isNodeAlive, muster_stock_node)
#' S3method(parallelly::killNode, muster_node)
#' S3method(parallelly::killNode, muster_stock_node)
#' S3method(parallelly::cloneNode, muster_node)
#' S3method(parallelly::cloneNode, muster_stock_node)
#' S3method(parallelly::isForkedNode, muster_node)
#' S3method(parallelly::isForkedNode, muster_stock_node)
#' S3method(parallelly::isLocalhostNode, muster_node)
#' S3method(parallelly::isLocalhostNode, muster_stock_node)
NULL

# ---- Class SOCKcluster

# Class SOCKcluster comes after muster's own in its clusters: from R 4.5 on, parallel has methods
# for it that users call, stopCluster() among them, and R takes the first that it finds. Packages
# that look at class(cl)[1] alone (rgenoud) are given `structure(cl, class = c("SOCKcluster",
# class(cl)))`: ?cluster_start says so.
#
# For such a cluster R finds parallel's recvOneData(), or snow's equal one, which wait on the nodes'
# connections and would read from one of them. muster's nodes have none, so the first look at `con`
# from there answers in the method's place.

cluster_class <- function(own) c(own, "SOCKcluster", "cluster")

# parallel's and snow's methods that wait for the first answer.
waits_for_one <- function(f) {
  name <- "recvOneData.SOCKcluster"
  identical(f, the$receive_one) ||
    (isNamespaceLoaded("snow") && identical(f, get0(name, asNamespace("snow"))))
}

# Called when a node's `con` is asked for. Where one of these methods asks, muster's own is
# called with the method's cluster, and the method returns what that gives.
answer_in_place <- function() {
  n <- sys.nframe()
  # The nearest frames: this function, con_of(), the binding, what lapply() calls, lapply().
  for (i in seq(n - 5L, length.out = min(4L, max(0L, n - 5L)), by = -1L)) {
    if (waits_for_one(sys.function(i))) {
      frame <- sys.frame(i)
      cl <- frame$cl
      one <- if (inherits(cl, "muster_joined")) {
        recvOneData.muster_joined(cl)
      } else {
        recvOneData.muster_cluster(cl)
      }
      do.call("return", list(one), envir = frame)
    }
  }
}
