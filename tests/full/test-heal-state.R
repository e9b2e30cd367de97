# What a worker was before it was lost, it is again: variables, packages, options, random
# number streams, closures and environments with state.

kill_all <- function(cl) {
  for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGKILL)
}

# All that a worker is, as far as its session can tell.
state_of <- remote(function() {
  names <- setdiff(ls(globalenv()), "counter")
  list(
    values = mget(names, globalenv()), search = search(), digits = getOption("digits"),
    option = getOption("muster.test"), directory = getwd(),
    seed = get0(".Random.seed", globalenv())
  )
})

test_cluster("variables, packages, options, directory and streams are there again", {
  local_settings(muster.quiet = TRUE)
  local_seed(1)
  local_globals()
  cl <- local_cluster(2, packages = "stats4")
  folder <- local_folder()
  x <- 1:10
  f <- function(i) x[i]
  clusterExport(cl, c("x", "f"), environment())
  clusterEvalQ(cl, {
    library(splines)
    options(digits = 3L, muster.test = "set")
    y <- letters
  })
  clusterCall(cl, setwd, folder)
  clusterApply(cl, 1:2, function(i) mine <<- i)
  clusterCall(cl, function() rm(y, envir = globalenv()))
  clusterSetRNGStream(cl, 1)
  parSapply(cl, 1:4, rnorm)
  before <- clusterCall(cl, state_of)
  for (k in 1:3) {
    kill_all(cl)
    expect_equal(clusterCall(cl, state_of), before)
  }
  expect_identical(before[[2L]]$values$mine, 2L)
  expect_identical(before[[1L]]$option, "set")
  expect_identical(basename(before[[1L]]$directory), basename(folder))
  expect_true(all(c("package:splines", "package:stats4") %in% before[[1L]]$search))
  expect_false("y" %in% names(before[[1L]]$values))
  expect_identical(cluster_status(cl)$restarts, c(3L, 3L))
})

test_cluster("S4 classes, methods and unseen effects of clusterEvalQ() are there again", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  clusterEvalQ(cl, {
    setClass("Point", representation(x = "numeric"))
    setGeneric("area", function(shape) standardGeneric("area"))
    setMethod("area", "Point", function(shape) shape@x * 2)
    con <- textConnection("a line")
    Sys.setenv(MUSTER_TEST_UNSEEN = "there")
    NULL
  })
  kill_all(cl)
  expect_identical(clusterCall(cl, function() area(new("Point", x = 4))), list(8, 8))
  expect_identical(clusterCall(cl, function() readLines(con)), list("a line", "a line"))
  expect_identical(clusterCall(cl, Sys.getenv, "MUSTER_TEST_UNSEEN"), list("there", "there"))
})

test_cluster("foreach's tasks find what was exported last, also on another worker", {
  local_settings(muster.quiet = TRUE, foreachDoparLocal = NULL)
  testthat::skip_if_not_installed("doParallel")
  local_globals()
  cl <- local_cluster(2)
  doParallel::registerDoParallel(cl)
  `%dopar%` <- foreach::`%dopar%`
  for (k in 1:5) {
    f <- remote(function(i) i + k, k = k * 100)
    expect_identical(foreach::foreach(i = 1:4) %dopar% f(i), as.list(1:4 + k * 100))
    kill_all(cl)
    clusterCall(cl, function() 1)
    expect_identical(foreach::foreach(i = 1:4) %dopar% f(i), as.list(1:4 + k * 100))
    pid <- node_pids(cl)[1L]
    once <- remote(function(i) {
      if (Sys.getpid() == pid) tools::pskill(pid, tools::SIGKILL)
      i + k
    }, pid = pid, k = k)
    expect_identical(foreach::foreach(i = 1:4) %dopar% once(i), as.list(1:4 + k))
  }
})

# ---- random numbers

# Answers of static verbs after clusterSetRNGStream(), with a hook between them. `dies`
# is run in each task.
static_draws <- function(cl, dies, between = function() NULL) {
  clusterSetRNGStream(cl, 42)
  draw <- remote(function(i) {
    dies(i)
    c(rnorm(2), runif(1), sample(100, 1))
  }, dies = dies)
  answers <- list()
  for (k in 1:3) {
    answers <- c(answers, list(
      parLapply(cl, 1:12, draw), clusterApply(cl, 1:7, draw),
      parSapply(cl, 1:5, draw), clusterMap(cl, draw, 1:6), clusterCall(cl, draw, 0)
    ))
    between()
  }
  answers
}

test_cluster("static verbs draw the same with and without kills", {
  local_settings(muster.quiet = TRUE)
  local_seed(1)
  expected <- static_draws(local_cluster(3), remote(function(i) NULL))
  # Between calls, all workers.
  cl <- local_cluster(3)
  expect_identical(static_draws(cl, remote(function(i) NULL), function() kill_all(cl)), expected)
  expect_identical(cluster_status(cl)$restarts[1:2] >= 2L, c(TRUE, TRUE))
  # In tasks: before and after they drew.
  folder <- local_folder()
  dies <- remote(function(i) {
    if (i %in% c(2, 5) && !file.exists(file.path(folder, i))) {
      runif(i)
      file.create(file.path(folder, i))
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
  }, folder = folder)
  cl <- local_cluster(3)
  expect_identical(static_draws(cl, dies), expected)
  expect_identical(restarts_of(cl), 2L)
  # At random moments.
  cl <- local_cluster(3, retries = 100)
  marks <- local_folder()
  killer <- local_killer(0.05, seed = 7, marks = marks)
  marking <- remote(function(i) file.create(file.path(marks, Sys.getpid())), marks = marks)
  wait_until({
    expect_identical(static_draws(cl, marking), expected)
    restarts_of(cl) >= 10L
  })
  stop_killer(killer)
})

test_cluster("a redone task of a load-balanced verb draws what its lost attempt drew", {
  local_settings(muster.quiet = TRUE)
  local_seed(1)
  for (verb in list(clusterApplyLB, parLapplyLB)) {
    folder <- local_folder()
    draws <- remote(function(i) {
      x <- runif(3)
      file <- file.path(folder, i)
      if (i %% 5 == 0 && !file.exists(file)) {
        saveRDS(x, file)
        tools::pskill(Sys.getpid(), tools::SIGKILL)
      }
      x
    }, folder = folder)
    cl <- local_cluster(3)
    clusterSetRNGStream(cl, 5)
    answers <- verb(cl, 1:20, draws)
    for (i in c(5, 10, 15, 20)) {
      expect_identical(answers[[i]], readRDS(file.path(folder, i)))
    }
    expect_length(unique(vapply(answers, `[`, 0, 1L)), 20L)
    expect_identical(restarts_of(cl), 4L)
  }
})

test_cluster("what tasks drew from another generator is never drawn again: a warning says so", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  draw <- function(n) vapply(1:2, function(k) {
    task_value(task_submit(cl[k], function() {
      if (n == 1) set.seed(1)
      runif(1)
    }, .seed = NULL))
  }, 0)
  first <- draw(1)
  kill_all(cl)
  warnings <- testthat::capture_warnings(second <- draw(2))
  expect_length(grep("new random number stream", warnings), 2L)
  expect_false(any(second %in% first))
  expect_false(second[[1L]] == second[[2L]])
})

# ---- state that grows

# A chain that lives in its worker: each call moves it, and tells where it is.
chain_of <- function(cl, dies = remote(function(k) NULL), between = function(k) NULL) {
  clusterSetRNGStream(cl, 9)
  clusterEvalQ(cl, {
    at <- 0
    trace <- numeric()
    NULL
  })
  move <- remote(function(k) {
    proposal <- at + rnorm(1)
    dies(k)
    if (log(runif(1)) < (at^2 - proposal^2) / 2) at <<- proposal
    trace[k] <<- at
    at
  }, dies = dies)
  for (k in 1:150) {
    clusterCall(cl, move, k)
    between(k)
  }
  clusterEvalQ(cl, trace)
}

test_cluster("chains whose state is in their workers survive kills", {
  local_settings(muster.quiet = TRUE)
  local_seed(1)
  expected <- chain_of(local_cluster(2))
  expect_length(expected[[1L]], 150L)
  expect_false(identical(expected[[1L]], expected[[2L]]))
  cl <- local_cluster(2)
  expect_identical(chain_of(cl, between = function(k) if (k %% 20 == 0) kill_all(cl)), expected)
  expect_gte(restarts_of(cl), 14L)
  folder <- local_folder()
  dies <- remote(function(k) {
    if (k %% 13 == 0 && !file.exists(file.path(folder, k))) {
      file.create(file.path(folder, k))
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
  }, folder = folder)
  cl <- local_cluster(2)
  expect_identical(chain_of(cl, dies), expected)
  expect_gte(restarts_of(cl), 11L)
})

test_cluster("changes in place, closures and environments with state survive", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  clusterEvalQ(cl, {
    v <- numeric(10)
    l <- list(a = 1, b = list(c = 2))
    counter <- local({
      n <- 0
      function() {
        n <<- n + 1
        n
      }
    })
    store <- new.env()
    store$x <- 0
    store$inner <- new.env()
    NULL
  })
  clusterCall(cl, function() v[3] <<- 33)
  clusterCall(cl, function() l$b$c <<- 22)
  for (k in 1:5) clusterCall(cl, function() counter())
  clusterCall(cl, function() store$x <- store$x + 1)
  clusterCall(cl, function() assign("y", 7, envir = store$inner))
  look <- remote(function() {
    list(v, l, environment(counter)$n, store$x, get("y", store$inner))
  })
  before <- clusterCall(cl, look)
  expect_identical(before[[1L]][-1L], list(list(a = 1, b = list(c = 22)), 5, 1, 7))
  kill_all(cl)
  expect_identical(clusterCall(cl, look), before)
  expect_identical(clusterCall(cl, function() counter()), list(6, 6))
})

test_cluster("10,000 calls come back, whatever they change", {
  # A call counts as 20 us at least, beside its evaluation (pool/journal.h). So a checkpoint is due
  # after 5,000 calls at the latest, however fast they are.
  local_settings(muster.quiet = TRUE, muster.checkpoints = 0.1)
  cl <- local_cluster(2)
  skip_without_checkpoints(cl)
  computes <- remote(function() 1)
  changes <- remote(function() n <<- n + 1)
  for (k in 1:10000) clusterCall(cl, computes)
  made <- function() sum(cluster_journal(cl)$kind == "checkpoint")
  expect_identical(made(), 2L)
  clusterCall(cl, function() {
    pointer <<- methods::new("externalptr")
    n <<- 0
  })
  for (k in 1:10000) clusterCall(cl, changes)
  expect_identical(made(), 2L)
  expect_lt(nrow(cluster_journal(cl)), 2L * 5000L + 100L)
  for (k in 1:2) {
    kill_all(cl)
    expect_identical(clusterCall(cl, function() n), list(10000, 10000))
    expect_identical(clusterCall(cl, function() typeof(pointer)), rep(list("externalptr"), 2L))
  }
})

test_cluster("large values are there again, and errors after a change too", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  big <- as.numeric(1:2e6)
  clusterExport(cl, "big", environment())
  try(clusterCall(cl, function() {
    half <<- "done"
    stop("then it failed")
  }), silent = TRUE)
  kill_all(cl)
  expect_identical(clusterCall(cl, function() c(sum(big), length(big))),
    rep(list(c(sum(big), 2e6)), 2L))
  expect_identical(clusterCall(cl, function() half), list("done", "done"))
})
