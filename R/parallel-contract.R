# parallel's contract: nodes and clusters as its functions expect them.
#
# parallel sends list(type, data, tag) to a node, and takes answers from a node, in
# order, or from whichever node of a cluster answers first. State lives in the nodes,
# since `[` on a cluster keeps its class only: a node is an environment, and its
# attribute `peer` is the pointer that C code wants (quicker to reach than a variable).

# What this session knows of other packages, and what they use of clusters.
the_parallel <- new.env(parent = emptyenv())
the_parallel$default <- FALSE # does makeCluster() start muster?
the_parallel$defined <- FALSE # does S4 know the classes of clusters?
the_parallel$signals <- NULL # connections of this session with itself, see node_con()
the_parallel$loop_cluster <- NULL # hides list(workers, cl), which registerDoMuster() has started
the_parallel$plans <- list() # of futures, with the clusters that they started: list(options, cl)
the_parallel$promises <- list() # of tasks: environments with task, resolve, reject, loop, settled
the_parallel$promises_pid <- NULL # the process that they belong to
the_parallel$listens <- list() # by id of an event loop that waits: a function that ends that
the_parallel$turns <- integer() # ids of event loops that will look for tasks in their next turn

#' @exportS3Method parallel::sendData
sendData.muster_node <- function(node, data) {
  # The caller of sendCall(), which calls postNode(), which calls the generic.
  outcome <- .Call(ffi_node_send, node, data, parent.frame(3L))
  if (!is.null(outcome)) not_sent(node, data, outcome)
}

# stopNode() of parallel says DONE and then closes the node: closing is enough.
not_sent <- function(node, data, outcome) {
  if (outcome != outcomes[["type"]] || !identical(data$type, "DONE")) {
    abort_node(node, outcome, verb_call())
  }
  invisible()
}

#' @exportS3Method parallel::recvData
recvData.muster_node <- function(node) {
  value <- .Call(ffi_node_receive, node)
  if (is.integer(value)) {
    abort_node(node, value, verb_call())
  }
  if (!.subset2(value, 3L)) {
    check_answer(.subset2(value, 2L), .subset2(node, "rank"))
  }
  value
}

#' @exportS3Method parallel::recvOneData
recvOneData.muster_cluster <- function(cl) {
  if (!length(cl)) {
    abort_muster("input", "Can't wait for an answer: the cluster has no workers.",
      hints = "An index selected no workers, as in cl[integer(0)].", call = verb_call()
    )
  }
  one <- .Call(ffi_nodes_receive_one, cl)
  if (is.integer(one)) {
    abort_node(cl[[if (length(one) == 2L) one[2L] else 1L]], one[1L], verb_call())
  }
  if (!.subset2(.subset2(one, 2L), 3L)) {
    node <- cl[[.subset2(one, 1L)]]
    check_answer(.subset2(.subset2(one, 2L), 2L), .subset2(node, "rank"))
  }
  one
}

#' @exportS3Method parallel::closeNode
closeNode.muster_node <- function(node) {
  stop_nodes(list(node))
  invisible()
}

#' @export
stopCluster.muster_cluster <- function(cl) {
  stop_nodes(cl)
  invisible()
}

# The call of the verb that the user called: the outermost of parallel's functions, or snow's,
# that led here. Looked up only when there is an error to report.
verb_call <- function() {
  for (i in seq_len(sys.nframe())) {
    if (.Call(ffi_has_verbs, environment(sys.function(i)))) {
      return(sys.call(i))
    }
  }
  NULL
}

# Called from C when a large message is about to be serialized: the frame of the
# clusterCall() that is sending, or NULL. clusterCall() sends the same objects to
# all nodes before anything else can run, so one serialization serves all.
# The frames: clusterCall, sendCall, postNode, sendData, its method, this one.
broadcast_frame <- function() {
  n <- sys.nframe() - 5L
  if (n >= 1L && identical(sys.function(n), parallel::clusterCall)) sys.frame(n)
}

# Called from C when a node owes several verbs answers: the frames that R is in, outermost first.
active_frames <- function() sys.frames()

# ---- Subsets

# Some of a cluster's workers: cl[2:3].

# parallel's method returns NULL for a worker that doesn't exist, which fails later and elsewhere.
#' @export
`[.muster_cluster` <- function(x, i) {
  if (missing(i)) {
    return(x)
  }
  part <- unclass(x)[i]
  if (any(vapply(part, is.null, NA))) {
    call <- sys.call()
    call[[1L]] <- quote(`[`)
    abort_muster("input", "Can't take workers that the cluster doesn't have.",
      details = paste0("It has ", number_of(length(x), "worker"), "."),
      argument = "i", call = call
    )
  }
  structure(part, class = class(x))
}

#' @export
`[.muster_joined` <- `[.muster_cluster`
