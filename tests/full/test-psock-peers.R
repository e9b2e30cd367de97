# makeClusterPSOCK() in sessions of their own, beside parallelly and future, and the rows of
# the sources that need whole processes.

test_that("S1: many of R's own workers start at once against one listener", {
  limit_time(60)
  folder <- local_folder()
  # None is a worker before all are there.
  cl <- makeClusterPSOCK(I(4), rscript_call = sprintf(paste(
    "f <- '%s'; file.create(file.path(f, Sys.getpid()));",
    "while (length(dir(f)) < 4) Sys.sleep(0.01); parallel:::.workRSOCK()"
  ), folder))
  withr::defer(stopCluster(cl))
  ports <- vapply(cl, function(node) {
    arguments <- clusterCall(as.cluster(node), commandArgs)[[1]]
    grep("^PORT=", arguments, value = TRUE)
  }, "")
  expect_identical(length(unique(ports)), 1L)
  began <- proc.time()[["elapsed"]]
  one <- makeClusterPSOCK(I(2),
    rscript_call = "Sys.sleep(1); parallel:::.workRSOCK()", setup_strategy = "sequential"
  )
  withr::defer(stopCluster(one))
  expect_gt(proc.time()[["elapsed"]] - began, 2)
})

test_that("S9: workers of every kind end when their session is killed, also while they compute", {
  limit_time(60)
  session <- start_session(quote({
    cl <- c(makeClusterPSOCK(1), makeClusterPSOCK(2, rscript_call = "parallel:::.workRSOCK()"))
    for (node in unclass(cl[1:2])) {
      # Two compute when the session ends.
      parallel:::sendCall(node, function() repeat sqrt(2), list())
    }
    tell(pids = vapply(cl, function(node) node$pid, 0L))
    Sys.sleep(600) # tidy: until it is killed
  }))
  wait_until(length(told_by(session)$pids) == 3L)
  workers <- processes(told_by(session)$pids)
  expect_true(all(still_runs(workers)))
  session$process$signal(tools::SIGKILL)
  # One that computes is R's own, and learns of it when it answers: its process is ended
  # by the system, as its parent is gone.
  wait_until(!any(still_runs(workers)))
})

test_that("L2: the source's example: one of three nodes is killed", {
  limit_time(60)
  for (healing in c(FALSE, TRUE)) {
    withr::local_options(muster.healing = healing)
    cl <- makeClusterPSOCK(I(3))
    expect_identical(isNodeAlive(cl), c(TRUE, TRUE, TRUE))
    tools::pskill(cl[[2]]$session_info$process$pid, tools::SIGKILL)
    expect_identical(suppressMessages(isNodeAlive(cl)), c(TRUE, healing, TRUE))
    stopCluster(cl)
  }
})

test_that("S10: parallel's verbs give what they give with makeCluster()", {
  limit_time(120)
  run <- run_session(quote({
    cases <- list(
      function(cl) clusterApply(cl, 1:5, get("+"), 3),
      function(cl) clusterCall(cl, function(x, y) x * y, 2, y = 3),
      function(cl) clusterMap(cl, function(x, y) x + y, 1:5, 6:10, SIMPLIFY = TRUE),
      function(cl) {
        xx <- 1
        clusterExport(cl, "xx", environment())
        clusterCall(cl, function(y) xx + y, 2)
      },
      function(cl) parApply(cl, matrix(1:6, 2), 1, sum),
      function(cl) parLapplyLB(cl, 1:7, sqrt), function(cl) clusterSplit(cl, 1:10),
      function(cl) {
        tryCatch(parSapply(cl, 1:3, function(i) stop("no ", i)), error = conditionMessage)
      },
      function(cl) {
        clusterSetRNGStream(cl, 123)
        parSapply(cl, 1:6, function(i) rnorm(1))
      }
    )
    all_of <- function(cl) {
      on.exit(stopCluster(cl))
      lapply(cases, function(case) case(cl))
    }
    expected <- all_of(parallel::makeCluster(2))
    stock <- makeClusterPSOCK(2, rscript_call = "parallel:::.workRSOCK()")
    tell(
      own = identical(all_of(makeClusterPSOCK(2)), expected),
      stock = identical(all_of(stock), expected)
    )
  }))
  expect_identical(run$told, list(own = TRUE, stock = TRUE))
})

test_that("S11: nothing is started until a user asks, and one cluster serves all that take one", {
  skip_if_not_installed("doParallel")
  limit_time(60)
  run <- run_session(quote({
    before <- length(children())
    cl <- makeClusterPSOCK(2)
    parallel::setDefaultCluster(cl)
    doParallel::registerDoParallel(cl)
    `%dopar%` <- foreach::`%dopar%`
    answers <- list(
      parallel::parSapply(NULL, 1:3, function(i) i),
      unlist(foreach::foreach(i = 1:3) %dopar% i)
    )
    if (requireNamespace("future", quietly = TRUE)) {
      future::plan(future::cluster, workers = cl)
      answers <- c(answers, list(vapply(1:3, function(i) future::value(future::future(i)), 0L)))
      future::plan(future::sequential)
    }
    pids <- unlist(clusterCall(cl, Sys.getpid))
    tell(before = before, answers = answers, more = setdiff(running(children()), pids))
    stopCluster(cl)
  }))
  expect_identical(run$told$before, 0L)
  for (answer in run$told$answers) expect_identical(answer, 1:3)
  expect_lte(length(run$told$more), 1L) # the fork server
})

test_that("muster and parallelly work on each other's clusters, whichever comes first", {
  skip_if_not_installed("parallelly", "1.36.0") # cloneNode()
  limit_time(120)
  code <- function(order) {
    bquote({
      for (package in .(order)) suppressMessages(library(package, character.only = TRUE))
      ours <- muster::makeClusterPSOCK(2)
      stock <- muster::makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
      theirs <- parallelly::makeClusterPSOCK(1)
      both <- function(name, cl) {
        list(getExportedValue("muster", name)(cl), getExportedValue("parallelly", name)(cl))
      }
      each <- function(name) {
        list(both(name, ours), both(name, stock), both(name, theirs))
      }
      tell(
        alive = each("isNodeAlive"), near = each("isLocalhostNode"),
        joined = lapply(list(c(ours, theirs), c(theirs, ours), c(theirs, stock)), function(cl) {
          pids <- unlist(clusterCall(cl, Sys.getpid))
          c(unlist(clusterApplyLB(cl, 1:6, identity)), length(unique(pids)))
        })
      )
      parallelly::killNode(ours[2])
      cloned <- parallelly::cloneNode(ours[1])
      tell(
        killed = both("isNodeAlive", ours[2]), cloned = both("isNodeAlive", cloned),
        same = identical(class(parallelly::as.cluster(ours)), class(ours))
      )
      muster::killNode(theirs)
      end <- Sys.time() + 60
      while (muster::isNodeAlive(theirs) && Sys.time() < end) Sys.sleep(0.05) # tidy: a wait
      tell(theirs = muster::isNodeAlive(theirs))
      stopCluster(cloned)
      stopCluster(ours)
      stopCluster(stock)
    })
  }
  for (order in list(c("muster", "parallelly"), c("parallelly", "muster"))) {
    told <- run_session(code(order), prelude = session_prelude[-3])$told
    expect_identical(told$alive, list(
      list(c(TRUE, TRUE), c(TRUE, TRUE)), list(TRUE, TRUE), list(TRUE, TRUE)
    ))
    expect_identical(told$near, told$alive)
    expect_identical(told$joined, list(c(1:6, 3L), c(1:6, 3L), c(1:6, 2L)))
    expect_identical(told$killed, list(FALSE, FALSE))
    expect_identical(told$cloned, list(TRUE, TRUE))
    expect_true(told$same)
    expect_false(told$theirs)
  }
})

test_that("L4: future works on muster's clusters, whichever comes first, and hands on rscript", {
  skip_if_not_installed("future")
  limit_time(120)
  code <- function(order) {
    bquote({
      for (package in .(order)) suppressMessages(library(package, character.only = TRUE))
      warned <- character()
      own <- muster::makeClusterPSOCK(2)
      stock <- muster::makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
      of <- function(cl) {
        future::plan(future::cluster, workers = cl)
        on.exit(future::plan(future::sequential))
        a <- 2
        all <- lapply(1:5, function(i) future::future(i * a))
        list(
          values = unlist(future::value(all)), resolved = future::resolved(all[[1]]),
          error = tryCatch(future::value(future::future(stop("no"))), error = conditionMessage),
          late = late(length(cl))
        )
      }
      # More futures than workers, the first of them slow: the others needn't wait for it.
      late <- function(n) {
        mark <- tempfile("mark-")
        slow <- future::future({
          while (!file.exists(mark)) Sys.sleep(0.02) # tidy: a slow task
          1
        })
        some <- if (n > 1L) seq_len(n)
        quick <- lapply(some, function(i) future::future(i))
        others <- vapply(quick, future::value, 0L)
        done <- future::resolved(slow)
        file.create(mark)
        c(done, !identical(others, as.integer(some)), future::value(slow) != 1)
      }
      answers <- withCallingHandlers(list(of(own), of(stock), of(c(own, stock))),
        warning = function(w) warned <<- c(warned, conditionMessage(w))
      )
      future::plan(future::cluster, workers = 1, rscript = c("nice", "*"))
      nice <- future::value(future::future(tools::psnice()))
      tell(answers = answers, warned = warned, nice = nice)
      future::plan(future::sequential)
      stopCluster(own)
      stopCluster(stock)
    })
  }
  for (order in list(c("muster", "future"), c("future", "muster"))) {
    told <- run_session(code(order))$told
    for (answer in told$answers) {
      expect_identical(answer, list(
        values = 1:5 * 2, resolved = TRUE, error = "no", late = logical(3)
      ))
    }
    expect_identical(told$warned, character())
    expect_identical(told$nice, min(tools::psnice() + 10L, 19L))
  }
})

test_that("R's own workers are started and used without any of R's connections", {
  limit_time(60)
  cl <- NULL
  open <- list()
  withr::defer({
    for (one in open) close(one)
    stopCluster(cl)
  })
  repeat {
    one <- tryCatch(rawConnection(raw()), error = function(e) NULL)
    if (is.null(one)) break
    open <- c(open, list(one))
  }
  cl <- makeClusterPSOCK(2, rscript_call = "parallel:::.workRSOCK()")
  expect_identical(parSapply(cl, 1:4, function(i) i), 1:4)
})

test_that("a worker that prints without end doesn't hold up its call", {
  limit_time(60)
  cl <- makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()", outfile = NULL)
  withr::defer(stopCluster(cl))
  lines <- utils::capture.output(type = "message", {
    answer <- clusterCall(cl, function() {
      for (i in 1:20000) cat("line", i, "\n")
      "done"
    })
  })
  expect_identical(answer, list("done"))
  expect_true("worker 1: line 9999 " %in% lines)
})
