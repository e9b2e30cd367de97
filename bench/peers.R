# How muster and its peers start, run something in each worker, and stop: with their
# defaults, as their help pages say; only parallelly's own limit, 3 workers a core,
# is lifted. Functions of one peer take what its start() gave.
#   start(n)          starts n workers
#   run(cl, n, fun)   calls fun() in each of the n workers, gives the list of values
#   stop(cl)          stops them

options(parallelly.maxWorkers.localhost = Inf)

in_each_node <- function(cl, n, fun) parallel::clusterCall(cl, fun)

peers <- list(
  muster = list(
    start = function(n) muster::cluster_start(n),
    run = in_each_node,
    stop = function(cl) parallel::stopCluster(cl)
  ),
  parallel = list(
    start = function(n) parallel::makeCluster(n),
    run = in_each_node,
    stop = function(cl) parallel::stopCluster(cl)
  ),
  parallelly = list(
    start = function(n) parallelly::makeClusterPSOCK(n),
    run = in_each_node,
    stop = function(cl) parallel::stopCluster(cl)
  ),
  # The value of daemons() is no handle: it is the session's one set of workers.
  mirai = list(
    start = function(n) mirai::daemons(n),
    run = function(cl, n, fun) {
      mirai::everywhere(f(), .args = list(f = in_global(fun)), .min = n)[]
    },
    stop = function(cl) mirai::daemons(0)
  ),
  # No handle either: the session's one plan. future.apply brings its map.
  future = list(
    start = function(n) future::plan(future::multisession, workers = n),
    run = function(cl, n, fun) {
      futures <- lapply(seq_len(n), function(i) future::future(fun(), globals = list(fun = fun)))
      future::value(futures)
    },
    stop = function(cl) future::plan(future::sequential)
  ),
  crew = list(
    start = function(n) {
      controller <- crew::crew_controller_local(workers = n)
      controller$start()
      controller
    },
    run = function(cl, n, fun) {
      lapply(seq_len(n), function(i) {
        cl$push(fun(), data = list(fun = fun))
        cl$wait(mode = "one")
        cl$pop()$result[[1L]]
      })
    },
    stop = function(cl) cl$terminate()
  )
)

# library(muster) and its like are no part of any time.
load_peer <- function(peer) loadNamespace(peer)

is_here <- function(peer) requireNamespace(peer, quietly = TRUE)

worker_pids <- function(peer, cl, n) {
  pids <- unlist(peers[[peer]]$run(cl, n, Sys.getpid))
  stopifnot(length(unique(pids)) == n)
  pids
}

# Stops a cluster and gives the seconds until its processes are gone.
time_stop <- function(peer, cl, pids) {
  time_of({
    peers[[peer]]$stop(cl)
    # stopCluster() of muster returns after the last is reaped: that is its promise.
    if (peer == "muster") stopifnot(!dir.exists(file.path("/proc", pids)))
    await_gone(pids)
  })
}

# The seconds until n workers of a peer have answered. Stopping them isn't counted.
time_start <- function(peer, n) {
  load_peer(peer)
  began <- now()
  cl <- peers[[peer]]$start(n)
  pids <- worker_pids(peer, cl, n)
  took <- now() - began
  time_stop(peer, cl, pids)
  took
}

# ---- What can be measured here -------------------------------------------------------

# The most workers that parallel's sockets allow; the rest of R's 128 connections is
# for files. From R 4.4 on R can be started with more.
psock_workers_max <- 120L

# Which of some peers can be measured with n workers, and notes about the others.
select_peers <- function(wanted, n) {
  reasons <- vapply(wanted, why_not, "", n = n)
  lost <- nzchar(reasons)
  list(
    here = wanted[!lost],
    notes = sprintf("%s with %d workers: %s.", wanted[lost], n, reasons[lost])
  )
}

# Why a peer can't be measured with n workers, or "".
why_not <- function(peer, n) {
  mb <- c(
    muster = 8, parallel = 45, parallelly = 45, mirai = 60, future = 60, crew = 80
  )[[peer]]
  files <- file_limit()
  here <- is_here(peer) && (peer != "future" || is_here("future.apply"))
  if (!here) {
    if (peer == "muster") stop("muster isn't installed", call. = FALSE)
    "not installed"
  } else if (peer %in% c("parallel", "parallelly", "future") && n > psock_workers_max) {
    "can't: 128 connections"
  } else if (peer == "muster" && files < 3 * n + 128) {
    paste("left out: ulimit -n is", files)
  } else if (n * mb > available_mb()) {
    sprintf("left out: %.0f MB of memory are free", available_mb())
  } else {
    ""
  }
}

file_limit <- function() {
  limit <- suppressWarnings(as.numeric(system("ulimit -n", intern = TRUE)))
  if (is.na(limit)) Inf else limit
}

available_mb <- function() {
  line <- grep("^MemAvailable:", readLines("/proc/meminfo"), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}

# ---- A node that does nothing --------------------------------------------------------

# Workers without a worker: what remains is the R code of parallel's own verbs, which
# every cluster pays. A node remembers its task's tag, for the verbs ask for it.
null_cluster <- function(n) {
  register_null_nodes()
  nodes <- lapply(seq_len(n), function(i) structure(new.env(), class = "null_node"))
  structure(nodes, class = c("null_cluster", "cluster"))
}

register_null_nodes <- function() {
  answer <- list(type = "VALUE", value = NULL, success = TRUE, time = numeric(5), tag = NULL)
  methods <- list(
    sendData = list("null_node", function(node, data) assign("tag", data$data$tag, node)),
    recvData = list("null_node", function(node) answer),
    recvOneData = list("null_cluster", function(cl) {
      i <- 1L
      while (is.null(cl[[i]]$tag)) i <- i + 1L
      answer$tag <- cl[[i]]$tag
      assign("tag", NULL, cl[[i]])
      list(node = i, value = answer)
    })
  )
  for (generic in names(methods)) {
    registerS3method(generic, methods[[generic]][[1L]], compiler::cmpfun(methods[[generic]][[2L]]),
      envir = asNamespace("parallel")
    )
  }
}
