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
