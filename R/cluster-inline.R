# A cluster without workers: cluster_start(0). What it is given is evaluated in the session, at
# once.

is_here <- function(cl) inherits(cl, "muster_here")

start_here <- function(packages, setup, call) {
  for (package in check_packages(packages, call)) {
    library(package, character.only = TRUE) # tidy: as in a worker
  }
  setup <- check_setup(setup, call)
  if (is.function(setup)) setup() else eval(setup, globalenv())
  the_cluster$plain <- FALSE
  node <- list2env(list(answers = list(), exported = list(), rank = 1L), parent = emptyenv())
  class(node) <- "muster_here_node"
  structure(list(node), class = c("muster_here", "cluster"))
}

#' @export
format.muster_here <- function(x, ...) "muster cluster without workers: all is evaluated here"

#' @export
print.muster_here <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

# ---- parallel's contract

# Errors are raised where they are, so that traceback() and recover() show the user's calls.
#' @exportS3Method parallel::sendData
sendData.muster_here_node <- function(node, data) {
  if (!identical(data$type, "EXEC")) {
    return(invisible())
  }
  call <- data$data
  begin <- proc.time()
  whole <- FALSE
  on.exit(if (!whole) node$answers <- list()) # of calls before this one, which nobody takes
  value <- if (identical(call$fun, environment(parallel::clusterExport)$gets)) {
    export_here(node, call$args[[1L]], call$args[[2L]], verb_call())
  } else {
    do.call(call$fun, call$args, quote = TRUE)
  }
  answer <- list(
    type = "VALUE", value = value, success = TRUE, time = proc.time() - begin, tag = call$tag
  )
  if (!call$return) answer["value"] <- list(NULL)
  node$answers <- c(node$answers, list(answer))
  whole <- TRUE
  invisible()
}

#' @exportS3Method parallel::recvData
recvData.muster_here_node <- function(node) {
  if (!length(node$answers)) {
    abort_muster("input", "There is no call whose answer could be taken.", call = verb_call())
  }
  answer <- node$answers[[1L]]
  node$answers <- node$answers[-1L]
  answer
}

#' @exportS3Method parallel::recvOneData
recvOneData.muster_here <- function(cl) list(node = 1L, value = recvData.muster_here_node(cl[[1L]]))

#' @exportS3Method parallel::closeNode
closeNode.muster_here_node <- function(node) invisible()

#' @export
stopCluster.muster_here <- function(cl) invisible()

# ---- What would be in a worker's workspace

# clusterExport() would write over a variable of the user's, who has only one workspace here.
export_here <- function(node, name, value, call) {
  is_there <- exists(name, envir = globalenv(), inherits = FALSE)
  now <- if (is_there) get(name, globalenv())
  exported <- name %in% names(node$exported) && identical(now, node$exported[[name]])
  if (is_there && !exported && !identical(now, value)) {
    abort_muster("input",
      paste0("`", name, "` is also a variable of your global environment, with another value."),
      details = "A cluster without workers has no other place for it.",
      hints = "Rename one of the two, or use a worker: cluster_start(1).",
      argument = name, call = call
    )
  }
  if (!is_there || exported) node$exported[name] <- list(value)
  list2env(structure(list(value), names = name), globalenv())
}

abort_no_workers <- function(name, call) {
  abort_muster("input", paste0("`", name, "` is a cluster without workers, and this needs some."),
    hints = "cluster_start(1) has one.", argument = name, call = call
  )
}

# ---- Tasks

# A task that has finished: it was evaluated by evaluate(), which gives its value or raises an
# error. It is a map of one element for whoever waits for it or takes its value.
task_here <- function(evaluate, label = NULL, n = 1L) {
  done <- list2env(list(
    pid = Sys.getpid(), over = TRUE, stepping = FALSE, cancelled = FALSE, asked = FALSE,
    label = label, n = n, left = 0L, tasks = list(), pieces = list()
  ), parent = emptyenv())
  class(done) <- c("muster_task_here", "muster_map", "muster_task")
  done$error <- tryCatch(
    {
      done$value <- evaluate()
      NULL
    },
    error = identity
  )
  done
}

#' @export
format.muster_task_here <- function(x, ...) {
  label <- if (!is.null(x$label)) paste0(" (`", x$label, "`)")
  paste0("muster task", label, ", ", if (is.null(x$error)) "done" else "failed", " here")
}

# As task_submit(). more: list(seed, again), see task_run().
submit_here <- function(fun, args, more, label, call) {
  raise <- task <- NULL
  fails <- function(how) {
    raise <<- how
    how(call, "The task")
  }
  task <- task_here(function() {
    args <<- args_here(args, fails, call)
    if (is.character(fun)) fun <- match.fun(fun)
    if (!is.null(more$seed)) {
      kept <- keep_stream()
      on.exit(kept())
    }
    value <- NULL
    again <- max(0L, more$again)
    failure <- piece_error(value <- task_attempts(fun, args, more$seed, again, identity))
    if (!is.null(failure)) {
      fails(function(call, what) abort_remote(failure, NULL, call, what = what, again = task))
    }
    value
  }, label)
  task$raise <- raise
  if (inherits(task$error, "muster_error_remote")) {
    task$question <- list(fun = fun, args = args, seed = more$seed)
  }
  task
}

# The arguments, with the values of those that are tasks.
args_here <- function(args, fails, call) {
  needs <- take_needs(args, call)
  if (is.null(needs)) {
    return(args)
  }
  results <- lapply(needs$tasks, function(task) {
    tryCatch(task_value(task), muster_error = function(error) {
      fails(function(call, what) abort_needs(task, error, what, call))
    })
  })
  with_results(needs$args, needs$at, results)
}
