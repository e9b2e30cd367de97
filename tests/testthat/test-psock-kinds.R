# What nodes and processes are, free ports, and what R can have open.

test_cluster("L1: isForkedChild() is true in children of mclapply() and nowhere else", {
  local_seed(1) # mclapply() draws
  expect_false(isForkedChild())
  cl <- local_cluster(1)
  expect_identical(clusterCall(cl, function() muster::isForkedChild()), list(FALSE))
  skip_without_fork()
  children <- parallel::mclapply(1:2, function(i) isForkedChild(), mc.cores = 2)
  expect_identical(children, list(TRUE, TRUE))
})

test_cluster("L2: a killed node is dead without healing, and is back with it", {
  for (healing in c(FALSE, TRUE)) {
    cl <- suppressMessages(cluster_start(2, healing = healing))
    expect_identical(isNodeAlive(cl), c(TRUE, TRUE))
    tools::pskill(cl[[2]]$pid, tools::SIGKILL)
    expect_identical(suppressMessages(isNodeAlive(cl)), c(TRUE, healing))
    cluster_stop(cl)
  }
})

test_cluster("L2: nodes of makeCluster() are NA, a zombie is dead", {
  skip_without_feature("proc") # what else tells a zombie from a process?
  expect_identical(isNodeAlive(local_psock(1)), NA)
  cl <- makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
  defer(function() stopCluster(cl))
  pid <- cl[[1]]$pid
  expect_true(process_runs(pid))
  tools::pskill(pid, tools::SIGKILL)
  # Nobody has reaped it: it is a child of this session, or of its shell.
  wait_until(!process_runs(pid))
  expect_identical(isNodeAlive(cl), FALSE)
})

test_cluster("nodes know where they run and how they were made", {
  cl <- local_cluster(1, start = "spawn")
  expect_identical(isForkedNode(cl), FALSE)
  expect_identical(isLocalhostNode(cl[[1]]), TRUE)
  parallels <- local_psock(1)
  expect_identical(isForkedNode(parallels[[1]]), NA)
  expect_identical(isLocalhostNode(parallels), TRUE)
  expect_identical(isLocalhostNode(1), NA)
  expect_identical(isNodeAlive(1), NA)
})

test_that("freePort() gives a port that can be listened on", {
  port <- freePort()
  taken <- .Call(ffi_stock_listen, "0.0.0.0", port)
  expect_null(taken$error)
  expect_identical(freePort(port, default = NA), NA_integer_)
  expect_identical(freePort(c(port, port), default = "first"), port)
  .Call(ffi_stock_close, taken$listener)
  expect_identical(freePort(integer()), NA_integer_)
  local_variables(R_PARALLELLY_RANDOM_PORTS = "20001:20100", R_PARALLEL_PORT = "random")
  expect_true(freePort("auto") %in% 20001:20100)
  for (bad in list("a", -1, 1.5, NA, 70000)) {
    expect_error(freePort(bad), class = "muster_error_input")
  }
  expect_error(freePort(1024, default = "last"), class = "muster_error_input")
})

test_that("R's connections are counted, and all given back", {
  before <- nrow(showConnections())
  expect_gte(availableConnections(), 128)
  expect_identical(nrow(showConnections()), before)
})

test_that("makeCluster() starts muster where R can register kinds of clusters", {
  if (is.null(cluster_type_register())) {
    expect_message(expect_false(muster_default()), class = "muster_message_default")
    expect_false(muster_default(FALSE))
  } else {
    on.exit(muster_default(FALSE))
    expect_no_warning({
      expect_true(muster_default())
      muster_default() # a second time, as when muster is loaded again
      register_cluster_type()
    })
    cl <- parallel::makeCluster(1)
    on.exit(parallel::stopCluster(cl), add = TRUE)
    expect_s3_class(cl, "muster_cluster")
  }
})

test_cluster("makeCluster()'s options that have no meaning to muster don't stop it", {
  words <- setdiff(ls(parallel:::defaultClusterOptions), c(names(formals(makeNodePSOCK)), "type"))
  expect_true("setup_timeout" %in% words)
  options <- mget(words, parallel:::defaultClusterOptions)
  cl <- do.call(start_cluster_type, c(list(1), options[names(options) != "setup_timeout"]))
  on.exit(stopCluster(cl))
  expect_s3_class(cl, "muster_cluster")
  local_settings(mc.cores = 1L)
  none_given <- function(spec, ...) start_cluster_type(spec, ...) # as makeCluster() calls it
  default <- none_given()
  on.exit(stopCluster(default), add = TRUE)
  expect_length(default, availableCores())
  timed <- start_cluster_type(1, setup_timeout = 60)
  on.exit(stopCluster(timed), add = TRUE)
  expect_identical(clusterCall(timed, sum, 1, 2), list(3))
  expect_error(start_cluster_type(1, nonsense = 1), class = "muster_error_input")
  # As snow's help has it: hosts, or lists of a host and options for it alone.
  both <- start_cluster_type(list("localhost", list(host = "localhost", quiet = TRUE)))
  expect_identical(unlist(clusterApply(both, 1:2, function(i) i * 2)), c(2, 4))
  stopCluster(both)
  plain <- start_cluster_type(list(list(host = "localhost"), "localhost"))
  expect_length(plain, 2L)
  stopCluster(plain)
  # Of one that can't start nothing is left, nor of those before.
  expect_error(
    start_cluster_type(list("localhost", list(host = "localhost", rscript = "/no/such/R"))),
    class = "muster_error"
  )
  expect_error(start_cluster_type(list(list(user = "me"))), "`spec`", class = "muster_error_input")
})
