# A task that kills its worker the first time that it runs with this file.
kill_once <- function(file, signal = 9L) {
  if (!file.exists(file)) {
    file.create(file)
    tools::pskill(Sys.getpid(), signal)
    Sys.sleep(30) # tidy: the worker's work
  }
}

test_cluster("a task whose worker is killed runs again, and the answer is whole", {
  cl <- local_cluster(2)
  file <- tempfile()
  defer(function() unlink(file))
  before <- vapply(cl, function(node) node$pid, 0L)
  got <- healed(parLapply(cl, 1:6, function(i, file, kill_once) {
    if (i == 5) kill_once(file)
    i * 10
  }, file, kill_once))
  expect_identical(got$value, as.list(1:6 * 10))
  expect_identical(got$messages, "muster_message_restarted")
  after <- vapply(cl, function(node) node$pid, 0L)
  expect_identical(after[1L], before[1L])
  expect_false(after[2L] == before[2L])
  expect_identical(cluster_status(cl)$restarts, 0:1)
})

test_cluster("a new worker has what the lost one had", {
  cl <- local_cluster(2)
  x <- 41
  clusterExport(cl, "x", environment())
  clusterEvalQ(cl, {
    library(stats4)
    options(muster.test = "set")
    y <- x + 1
  })
  clusterCall(cl, function(dir) setwd(dir), tempdir())
  tools::pskill(cl[[1L]]$pid, 9L)
  got <- healed(clusterEvalQ(cl, list(
    y, getOption("muster.test"), "package:stats4" %in% search(), basename(getwd())
  )))
  expect_identical(got$value[[1L]], list(42, "set", TRUE, basename(tempdir())))
  expect_identical(got$value[[1L]], got$value[[2L]])
})

test_cluster("random numbers are the same with and without a loss", {
  local_seed(1)
  cl <- local_cluster(2)
  draws <- function(kills) {
    clusterSetRNGStream(cl, 42)
    file <- tempfile()
    defer(function() unlink(file))
    parLapply(cl, 1:6, function(i, file, kill_once, kills) {
      x <- rnorm(2)
      if (kills && i == 6) kill_once(file)
      x
    }, file, kill_once, kills)
  }
  expect_identical(healed(draws(TRUE))$value, draws(FALSE))
})

test_cluster("a generator that tasks drew from gets a new stream, and a warning", {
  cl <- local_cluster(1)
  task_value(task_submit(cl, function() runif(1), .seed = NULL))
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_warning(
    suppressMessages(clusterCall(cl, function() runif(1))),
    class = "muster_warning_rng"
  )
})

test_cluster("a task that kills its worker again and again is an error with the other results", {
  cl <- local_cluster(2, retries = 1)
  condition <- tryCatch(
    suppressMessages(parLapply(cl, 1:5, function(i) {
      if (i == 2) tools::pskill(Sys.getpid(), 9L)
      Sys.sleep(0.01)
      i
    })),
    muster_error_lost = identity
  )
  expect_s3_class(condition, "muster_error_lost")
  expect_identical(condition$range, 1:2)
  expect_identical(condition$signal, 9L)
  expect_identical(condition$results, list(NULL, NULL, 3L, 4L, 5L))
  expect_match(conditionMessage(condition), "lost with its worker 2 times")
  expect_identical(unlist(parLapply(cl, 1:4, identity)), 1:4)
})

test_cluster("C9: an error's results are its own call's, whatever R has collected since", {
  skip_if_limited()
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(3, retries = 0)
  third_dies <- function(i, id) {
    if (i == 3) {
      Sys.sleep(0.02) # tidy: the others have answered
      tools::pskill(Sys.getpid(), 9L)
      Sys.sleep(30) # tidy: until the signal has come
    }
    paste("call", id)
  }
  for (id in 1:20) {
    error <- tryCatch(clusterApply(cl, 1:3, third_dies, id), error = identity)
    expect_s3_class(error, "muster_error_lost")
    expect_identical(setdiff(unlist(error$results), paste("call", id)), character())
    rm(error)
    gc(FALSE)
  }
})

test_cluster("healing = \"fresh\" brings back a worker as it was started, and keeps nothing", {
  local_settings(muster.quiet = TRUE)
  local_seed(1)
  cl <- local_cluster(2, healing = "fresh", setup = quote(kept <- 5))
  clusterCall(cl, function() x <<- 1)
  clusterEvalQ(cl, library(splines))
  clusterSetRNGStream(cl, 1)
  first <- clusterCall(cl, stats::runif, 1)
  expect_identical(nrow(cluster_journal(cl)), 0L)
  expect_identical(cluster_status(cl)$healing, c("fresh", "fresh"))
  tools::pskill(cl[[1L]]$pid, tools::SIGKILL)
  look <- function() c(exists("x"), "package:splines" %in% search(), kept == 5)
  expect_identical(clusterCall(cl, look), list(c(FALSE, FALSE, TRUE), c(TRUE, TRUE, TRUE)))
  expect_identical(unlist(cluster_map(cl, 1:4, function(i) i^2)), (1:4)^2)
  # Streams are a cluster's, not a worker's.
  second <- clusterCall(cl, stats::runif, 1)
  clusterSetRNGStream(cl, 1)
  expect_identical(list(first, second), list(
    clusterCall(cl, stats::runif, 1), clusterCall(cl, stats::runif, 1)
  ))
})

test_cluster("status says what a worker would come back with, printed if it is less than all", {
  healing_of <- function(...) {
    cl <- cluster_start(1, ...)
    on.exit(cluster_stop(cl))
    status <- cluster_status(cl)
    shown <- any(grepl("healing", utils::capture.output(status)))
    expect_identical(shown, status$healing != "state")
    status$healing
  }
  exact <- if (has_checkpoints()) "state" else "replay"
  expect_identical(healing_of(), exact)
  expect_identical(healing_of(healing = TRUE), exact)
  expect_identical(healing_of(healing = FALSE), "none")
  expect_identical(healing_of(healing = "fresh"), "fresh")
  local_settings(muster.checkpoints = FALSE)
  expect_identical(healing_of(), "replay")
  local_settings(muster.replay_max = 0.2)
  cl <- local_cluster(1)
  for (k in 1:2) clusterCall(cl, Sys.sleep, 0.15)
  expect_identical(cluster_status(cl)$healing, "none")
  local_settings(muster.replay_max = "long")
  error <- expect_error(cluster_start(1), class = "muster_error_input")
  expect_identical(error$argument, "options(muster.replay_max)")
  local_settings(muster.replay_max = NULL)
  for (bad in list("all", NA, c(TRUE, FALSE), 1, NULL)) {
    error <- expect_error(cluster_start(1, healing = bad), class = "muster_error_input")
    expect_identical(error$argument, "healing")
  }
  # Of makeClusterPSOCK() by an option.
  local_settings(muster.healing = "fresh")
  cl <- makeClusterPSOCK(1)
  defer(function() stopCluster(cl))
  expect_identical(cluster_status(cl)$healing, "fresh")
})

test_cluster("a worker that can't be copied repeats its calls, or its loss is an error", {
  local_settings(muster.quiet = TRUE, muster.replay_max = 2)
  cl <- local_cluster(2, start = "spawn")
  clusterCall(cl, function() { # of which nothing can be seen
    options(muster.test = list(new.env()))
    NULL
  })
  clusterCall(cl, function() {
    assign("n", 1, getOption("muster.test")[[1L]])
    NULL
  })
  clusterCall(cl[2L], Sys.sleep, 2.1)
  expect_identical(cluster_status(cl)$healing, c("replay", "none"))
  for (pid in node_pids(cl)) tools::pskill(pid, 9L)
  ask <- function(cl) clusterCall(cl, function() getOption("muster.test")[[1L]]$n)
  expect_identical(ask(cl[1L]), list(1))
  lost <- tryCatch(ask(cl[2L]), error = identity)
  expect_s3_class(lost, "muster_error_lost")
  expect_match(conditionMessage(lost), "muster.replay_max")
})

test_cluster("healing = FALSE makes a loss an error, and the other workers stay usable", {
  cl <- local_cluster(2, healing = FALSE)
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_error(clusterCall(cl, identity, 1), class = "muster_error_lost")
  expect_identical(clusterCall(cl[2L], identity, 2), list(2))
})

test_cluster("a task that takes too long is ended", {
  cl <- local_cluster(2, timeout = 2) # quick ones never take that long
  condition <- tryCatch(
    clusterApply(cl, 1:2, function(i) {
      if (i == 2L) Sys.sleep(60)
      i
    }),
    muster_error_timeout = identity
  )
  expect_s3_class(condition, "muster_error_timeout")
  expect_identical(condition$element, 2L)
  expect_identical(condition$results, list(1L, NULL))
  expect_identical(unlist(clusterApply(cl, 1:2, identity)), 1:2)
})

test_cluster("state in closures, environments and changed in place is kept", {
  cl <- local_cluster(1)
  clusterEvalQ(cl, {
    counter <- local({
      n <- 0
      function() n <<- n + 1
    })
    env <- new.env()
    env$n <- 0
    v <- c(0, 0)
    NULL
  })
  step <- function() {
    env$n <- env$n + 1
    v[2] <<- v[2] + 1
    c(counter(), env$n, v[2])
  }
  for (i in 1:3) clusterCall(cl, step)
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(healed(clusterCall(cl, step))$value, list(c(4, 4, 4)))
})

test_cluster("an interrupted call leaves no answer behind, and what ran is ended", {
  cl <- local_cluster(2)
  limited <- function(code) {
    tryCatch(
      {
        setTimeLimit(elapsed = 0.2, transient = TRUE)
        code
      },
      error = function(e) "left",
      finally = setTimeLimit()
    )
  }
  expect_identical(limited(clusterCall(cl, function() Sys.sleep(60))), "left")
  expect_identical(clusterCall(cl, identity, "next"), list("next", "next"))
  stubborn <- function() repeat tryCatch(Sys.sleep(60), interrupt = function(e) NULL) # tidy: the worker's work
  expect_identical(limited(clusterCall(cl, stubborn)), "left")
  got <- healed(clusterCall(cl, identity, "next"))
  expect_identical(got$value, list("next", "next"))
})

test_cluster("a stopped worker is found by its silence", {
  cl <- local_cluster(2, heartbeat = 1)
  tools::pskill(cl[[1L]]$pid, tools::SIGSTOP)
  got <- healed(clusterCall(cl, identity, 1))
  expect_identical(got$value, list(1, 1))
  expect_identical(got$messages, "muster_message_restarted")
})

test_that("what becomes of a lost worker's tasks is told as it is", {
  told <- function(...) muster:::again_text(list(...))
  expect_identical(told(again = 0L, attempts = 0L), "")
  expect_match(told(again = 1L, attempts = 1L), "its task runs again (attempt 2)", fixed = TRUE)
  expect_match(told(again = 1L, attempts = 0L), "its task, which hadn't begun, waits for")
  expect_match(told(again = 3L, attempts = 1L), "its 3 tasks run again", fixed = TRUE)
})
