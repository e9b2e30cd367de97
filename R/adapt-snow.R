# snow's contract: its verbs, and so doSNOW, have generics of their own, equal to parallel's. They
# find these methods once snow is loaded. adapt-sock.R handles recvOneData() of a cluster.

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
