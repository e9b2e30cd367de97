# Each use of a cluster that can't be used must fail with this class.
expect_unusable <- function(cl, kind = "muster_error_input") {
  # clusterSetRNGStream() leaves its generator behind where there was no seed.
  local_seed(1)
  uses <- list(
    function() clusterCall(cl, identity, 1),
    function() clusterApply(cl, 1:3, identity),
    function() clusterApplyLB(cl, 1:3, identity),
    function() clusterEvalQ(cl, 1),
    function() clusterExport(cl, "expect_unusable", environment(expect_unusable)),
    function() clusterMap(cl, identity, 1:3),
    function() parLapply(cl, 1:3, identity),
    function() parSapplyLB(cl, 1:3, identity),
    function() clusterSetRNGStream(cl, 1),
    function() parallel:::sendCall(cl[[1L]], identity, list(1)),
    function() parallel:::recvResult(cl[[1L]]),
    function() parallel:::recvOneResult(cl)
  )
  for (use in uses) {
    expect_error(use(), class = kind)
  }
}

# Runs code in a forked child of this session, and gives its value.
in_child <- function(code) {
  job <- parallel::mcparallel(code, mc.set.seed = FALSE)
  # It warns of a child that ends without an answer.
  suppressWarnings(parallel::mccollect(job)[[1L]])
}

class_of_error <- function(code) {
  tryCatch({
    code
    "no error"
  }, error = function(e) class(e)[1L])
}

starts <- function() if (.Call(ffi_can_fork)) c("fork", "spawn") else "spawn"

test_cluster("both functions return when all workers are gone and reaped", {
  for (start in starts()) {
    for (stop in list(cluster_stop, stopCluster)) {
      cl <- cluster_start(2, start = start)
      pids <- node_pids(cl)
      workers <- processes(pids)
      expect_true(all(still_exists(workers)))
      expect_null(withVisible(stop(cl))$value)
      # A zombie would count as being there.
      expect_identical(still_exists(workers), c(FALSE, FALSE))
    }
  }
})

test_cluster("the result of stopping isn't shown", {
  cl <- cluster_start(1)
  expect_false(withVisible(cluster_stop(cl))$visible)
  expect_false(withVisible(cluster_stop(cl))$visible)
  expect_false(withVisible(stopCluster(cl))$visible)
})

test_cluster("stopping twice does no harm, nor to the cluster that came after", {
  one <- cluster_start(2)
  cluster_stop(one)
  two <- local_cluster(2)
  cluster_stop(one)
  stopCluster(one)
  cluster_stop(one[1])
  stopCluster(one[2:1])
  expect_identical(clusterCall(two, Sys.getpid), as.list(node_pids(two)))
})

test_cluster("a default cluster is none any more when it was stopped by either function", {
  defer(function() setDefaultCluster(NULL))
  for (stop in list(cluster_stop, stopCluster)) {
    cl <- cluster_start(1)
    setDefaultCluster(cl)
    expect_identical(clusterEvalQ(NULL, 1), list(1))
    stop(cl)
    expect_error(clusterEvalQ(NULL, 1), "none is registered")
  }
})

test_cluster("stopping some nodes ends these and leaves the others usable", {
  for (start in starts()) {
    cl <- local_cluster(2, start = start)
    pids <- node_pids(cl)
    workers <- processes(pids)
    stopCluster(cl[1])
    expect_identical(still_exists(workers), c(FALSE, TRUE))
    expect_unusable(cl[1])
    expect_error(clusterCall(cl, identity, 1), class = "muster_error_input")
    expect_identical(clusterCall(cl[2], Sys.getpid), list(pids[2L]))
    expect_identical(clusterApplyLB(cl[2], 1:3, function(i) i), list(1L, 2L, 3L))
    stopCluster(cl[1])
    expect_identical(clusterCall(cl[2], function() "still there"), list("still there"))
    cluster_stop(cl[2])
    expect_identical(still_exists(workers), c(FALSE, FALSE))
    cluster_stop(cl)
  }
})

test_cluster("nodes can be stopped in any order and one by one", {
  cl <- local_cluster(2)
  pids <- node_pids(cl)
  workers <- processes(pids)
  cluster_stop(cl[2])
  expect_identical(still_exists(workers), c(TRUE, FALSE))
  expect_identical(clusterCall(cl[1], Sys.getpid), list(pids[1L]))
  cluster_stop(cl[2:1])
  expect_identical(still_exists(workers), c(FALSE, FALSE))
})

test_cluster("what other nodes were asked is answered after one was stopped", {
  cl <- local_cluster(2)
  parallel:::sendCall(cl[[2L]], function() "second's answer", list())
  parallel:::sendCall(cl[[1L]], function() "first's answer", list())
  stopCluster(cl[1])
  expect_identical(parallel:::recvResult(cl[[2L]]), "second's answer")
})

test_cluster("clusters joined by c() are stopped together", {
  one <- local_cluster(1)
  two <- local_cluster(1)
  both <- c(one, two)
  pids <- node_pids(both)
  workers <- processes(pids)
  cluster_stop(both)
  expect_identical(still_exists(workers), c(FALSE, FALSE))
  expect_unusable(one)
})

test_cluster("no nodes at all can be stopped", {
  cl <- local_cluster(1)
  cluster_stop(cl[0])
  stopCluster(cl[0])
  expect_identical(clusterCall(cl, function() 1), list(1))
})

test_cluster("parallel's way to stop one node works", {
  cl <- local_cluster(2)
  workers <- node_processes(cl)
  parallel:::stopNode(cl[[1L]])
  expect_identical(still_exists(workers), c(FALSE, TRUE))
  expect_identical(clusterCall(cl[2], Sys.getpid), list(cl[[2L]]$pid))
})

test_cluster("a worker that computes is ended after its time of grace", {
  tasks <- list(
    function() Sys.sleep(600),
    function() repeat NULL,
    function() system("sleep 600"),
    # One that heeds no interrupt and clears up without end.
    function() {
      on.exit(repeat NULL)
      repeat tryCatch(Sys.sleep(600), interrupt = identity)
    }
  )
  for (task in tasks) {
    cl <- cluster_start(2)
    pids <- node_pids(cl)
    workers <- processes(pids)
    parallel:::sendCall(cl[[2L]], task, list())
    cluster_stop(cl)
    expect_identical(still_exists(workers), c(FALSE, FALSE))
  }
})

test_cluster("a worker's children end with it", {
  skip_without_proc()
  for (start in starts()) {
    cl <- cluster_start(1, start = start)
    child <- processes(clusterCall(cl, function() {
      as.integer(system("sleep 600 >/dev/null & echo $!", intern = TRUE))
    })[[1L]])
    expect_true(still_runs(child))
    cluster_stop(cl)
    wait_until(!still_runs(child))
  }
})

test_cluster("a cluster can be stopped with answers waiting that nobody has read", {
  cl <- cluster_start(2)
  pids <- node_pids(cl)
  workers <- processes(pids)
  for (i in 1:3) {
    for (node in cl) parallel:::sendCall(node, raw, list(3e6))
  }
  cluster_stop(cl)
  expect_identical(still_exists(workers), c(FALSE, FALSE))
})

test_cluster("a cluster whose worker has died can be stopped", {
  for (start in starts()) {
    cl <- cluster_start(2, start = start)
    pids <- node_pids(cl)
    workers <- processes(pids)
    tools::pskill(pids[1L], 9L)
    cluster_stop(cl)
    expect_identical(still_exists(workers), c(FALSE, FALSE))
  }
})

test_cluster("a stopped process is ended too", {
  skip_on_cran()
  cl <- cluster_start(1)
  worker <- node_processes(cl)
  tools::pskill(cl[[1L]]$pid, tools::SIGSTOP)
  cluster_stop(cl)
  expect_false(still_exists(worker))
})

test_cluster("finalizers that a worker has registered for its end run", {
  file <- tempfile("ended-")
  defer(function() unlink(file))
  cl <- cluster_start(1)
  clusterCall(cl, function(file) {
    reg.finalizer(globalenv(), function(e) writeLines("ended", file), onexit = TRUE)
    NULL
  }, file)
  cluster_stop(cl)
  expect_identical(readLines(file), "ended")
})

test_cluster("using a stopped cluster is an input error that says so", {
  cl <- cluster_start(2)
  cluster_stop(cl)
  expect_unusable(cl)
  error <- tryCatch(clusterCall(cl, identity, 1), error = identity)
  expect_match(conditionMessage(error), "stopped")
  expect_identical(conditionCall(error), quote(clusterCall(cl, identity, 1)))
  expect_output(print(cl), "2 workers")
  expect_output(print(cl[[1L]]), "worker 1")
})

test_cluster("a cluster that was saved and read back is a copy that can't be used", {
  cl <- local_cluster(1)
  file <- tempfile("cluster-")
  defer(function() unlink(file))
  saveRDS(cl, file)
  copy <- readRDS(file)
  expect_unusable(copy)
  expect_output(print(copy), "1 worker")
  # It isn't the cluster, and its end isn't the cluster's end.
  try(cluster_stop(copy), silent = TRUE)
  rm(copy)
  gc()
  expect_identical(clusterCall(cl, function() 1), list(1))
})

test_cluster("stopping a copy from a file is an input error, as the help says", {
  cl <- local_cluster(1)
  copy <- unserialize(serialize(cl, NULL))
  expect_error(cluster_stop(copy), class = "muster_error_input")
  expect_error(stopCluster(copy), class = "muster_error_input")
})

test_cluster("a closure that captured a cluster travels to a worker and stops nothing there", {
  cl <- local_cluster(2)
  use <- function() {
    tryCatch(parallel::clusterCall(cl, identity, 1), error = function(e) class(e)[1L])
  }
  environment(use) <- list2env(list(cl = cl), parent = globalenv())
  expect_identical(clusterCall(cl, use), rep(list("muster_error_input"), 2))
  clusterExport(cl, "cl", environment(use))
  expect_identical(clusterEvalQ(cl, {
    library(muster)
    is_cluster <- inherits(cl, "muster_cluster")
    rm(cl)
    for (i in 1:3) gc()
    is_cluster
  }), list(TRUE, TRUE))
  expect_identical(clusterCall(cl, Sys.getpid), as.list(node_pids(cl)))
})

test_cluster("a forked child of the session can't use the cluster, nor end it", {
  skip_without_fork()
  cl <- local_cluster(1)
  pid <- node_pids(cl)
  expect_identical(
    in_child(class_of_error(clusterCall(cl, identity, 1))), "muster_error_input"
  )
  expect_identical(in_child(class_of_error(cluster_stop(cl))), "muster_error_input")
  expect_identical(in_child(class_of_error(stopCluster(cl))), "muster_error_input")
  answers <- parallel::mclapply(1:2, function(i) {
    class_of_error(clusterApplyLB(cl, 1:2, identity))
  }, mc.cores = 2)
  expect_identical(answers, rep(list("muster_error_input"), 2))
  # A child that forgets the cluster, and one that ends as a session does.
  in_child({
    rm(cl)
    gc()
  })
  in_child(quit(save = "no"))
  in_child(tools::pskill(Sys.getpid(), 15L))
  expect_identical(clusterCall(cl, Sys.getpid), list(pid))
})

test_cluster("a forked child can have a cluster of its own", {
  skip_without_fork()
  cl <- local_cluster(1)
  here <- in_child({
    own <- cluster_start(1)
    here <- processes(c(own[[1L]]$pid, unlist(clusterCall(own, Sys.getpid)), server_pids()))
    cluster_stop(own)
    here
  })
  expect_identical(here[1L], here[2L])
  expect_false(here[1L] %in% processes(c(node_pids(cl), Sys.getpid())))
  # The child's fork server ends with it. It may stay a zombie for as long as it pleases
  # the first process, which isn't the session's business.
  wait_until(!any(still_runs(here)))
  expect_identical(clusterCall(cl, function() 1), list(1))
})

test_cluster("what is no cluster of muster can't be stopped by cluster_stop()", {
  fake <- structure(list(), class = c("SOCKcluster", "cluster"))
  for (cl in list(1, NULL, "cl", list(), fake, globalenv(), mean)) {
    error <- expect_error(cluster_stop(cl), class = "muster_error_input")
    expect_identical(error$argument, "cl")
  }
  cl <- local_cluster(1)
  expect_error(cluster_stop(cl[[1L]]), class = "muster_error_input")
  expect_error(cluster_stop(unclass(cl)), class = "muster_error_input")
})

test_cluster("many clusters can be started and stopped one after the other", {
  skip_on_cran()
  for (i in 1:15) {
    cl <- cluster_start(2)
    expect_identical(clusterCall(cl, Sys.getpid), as.list(node_pids(cl)))
    cluster_stop(cl)
  }
})

test_cluster("what a cluster was set up with is let go when it is stopped", {
  gone <- FALSE
  start <- function() {
    marker <- new.env()
    reg.finalizer(marker, function(e) gone <<- TRUE)
    cluster_start(1, setup = local(function() NULL, marker))
  }
  cl <- start()
  gc()
  cluster_stop(cl)
  gc()
  expect_true(gone)
})

test_cluster("E1: at the end of R idle workers end in order: files are whole, finalizers run", {
  folder <- local_folder()
  run <- function(start, more = "") {
    code <- sprintf(
      'library(muster)
      cl <- cluster_start(2, start = "%s")
      clusterApply(cl, 1:2, function(k, folder) {
        file <- file.path(folder, paste0("%s", k))
        grDevices::pdf(paste0(file, ".pdf"))
        plot(1)
        kept_of_test <<- gzfile(paste0(file, ".gz"), "w")
        writeLines("x", kept_of_test)
        reg.finalizer(globalenv(), function(e) file.create(paste0(file, ".end")), onexit = TRUE)
        NULL
      }, "%s")
      %s', start, start, folder, more
    )
    file <- tempfile(fileext = ".R")
    writeLines(c(deparse(bquote(.libPaths(.(.libPaths())))), code), file)
    system2(file.path(R.home("bin"), "Rscript"), shQuote(file), stdout = FALSE, stderr = FALSE)
    unlink(file)
  }
  for (start in c("fork", "spawn")) {
    run(start)
    file <- file.path(folder, paste0(start, 1:2))
    expect_true(all(file.size(paste0(file, ".pdf")) > 1000), info = start)
    expect_true(all(file.exists(paste0(file, ".end"))), info = start)
    unlink(file.path(folder, "*"))
  }
  # One that computes is killed, as before; the others end in order.
  run("fork", paste(
    "t <- task_submit(cl[1], Sys.sleep, 1000)",
    "while (!any(cluster_status(cl)$state == 'busy')) Sys.sleep(0.01)",
    sep = "; "
  ))
  expect_true(file.exists(file.path(folder, "fork2.end")))
})
