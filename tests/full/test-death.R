# Workers that die, stop or talk nonsense in a cluster that doesn't heal: what the session
# is told, and that the other workers go on. What isn't noticed is waited for without end:
# how soon it is told is for bench/bars.R.

build_faults()

kill_worker <- function(cl, i, signal = tools::SIGKILL) tools::pskill(cl[[i]]$pid, signal)

# The error of a call that finds worker `rank` lost.
expect_lost <- function(code, cl, rank, exit_code = NA_integer_, signal = NA_integer_,
                        output = NULL) {
  error <- expect_error(code, class = "muster_error_lost")
  expect_identical(error$worker, rank)
  expect_identical(error$pid, cl[[rank]]$pid)
  expect_identical(error$exit_code, exit_code)
  expect_identical(error$signal, signal)
  if (!is.null(output)) {
    expect_match(error$output, output)
    expect_match(conditionMessage(error), output)
  }
  where <- paste0("Worker ", rank, " (pid ", cl[[rank]]$pid, ") is lost.")
  expect_match(conditionMessage(error), where, fixed = TRUE)
  invisible(error)
}

# A session whose call was left, for this reason, and whose cluster was stopped then.
expect_left <- function(run, reason) {
  expect_done(run)
  expect_match(run$told$caught$message, reason)
  expect_true(run$told$stopped)
  expect_nothing_left(run$session)
}

# All workers but `lost` are as good as before, with all of parallel's verbs.
expect_others_usable <- function(cl, lost) {
  others <- cl[-lost]
  workers <- node_processes(others)
  expect_identical(unlist(clusterCall(others, Sys.getpid)), node_pids(others))
  expect_identical(unlist(parLapplyLB(others, 1:20, function(i) i^2)), (1:20)^2)
  expect_identical(unlist(clusterApply(others, 1:5, identity)), 1:5)
  # The lost one stays lost, and says so each time.
  expect_error(clusterCall(cl[lost], Sys.getpid), class = "muster_error_lost")
  stopCluster(cl)
  expect_false(any(still_exists(workers)))
}

for (start in c("fork", "spawn")) local({
  start <- start
  say <- function(...) paste0(..., " (start = \"", start, "\")")
  if (start == "fork" && !.Call(ffi_can_fork)) {
    return()
  }

  test_cluster(say("an idle worker that is killed is lost at the next call"), {
    cl <- local_cluster(3, start = start, healing = FALSE)
    clusterCall(cl[2], function() cat("last words of two\n"))
    kill_worker(cl, 2)
    expect_lost(clusterCall(cl, Sys.getpid), cl, 2L, signal = 9L, output = "last words of two")
    expect_others_usable(cl, 2L)
  })

  test_cluster(say("a worker that is killed in a call is lost, whatever the call"), {
    verbs <- list(
      function(cl, f) clusterCall(cl, f),
      function(cl, f) clusterApply(cl, 1:6, f),
      function(cl, f) clusterApplyLB(cl, 1:6, f),
      function(cl, f) parLapply(cl, 1:6, f),
      function(cl, f) clusterMap(cl, f, 1:6),
      function(cl, f) parSapplyLB(cl, 1:6, f)
    )
    for (verb in verbs) {
      cl <- cluster_start(3, start = start, healing = FALSE)
      workers <- node_processes(cl)
      victim <- cl[[3]]$pid
      dies <- function(...) {
        if (Sys.getpid() == victim) {
          cat("dying\n")
          tools::pskill(Sys.getpid(), 9L)
        }
        sum(sqrt(runif(1e6)))
      }
      expect_lost(verb(cl, dies), cl, 3L, signal = 9L, output = "dying")
      stopCluster(cl)
      expect_false(any(still_exists(workers)))
    }
  })

  test_cluster(say("workers that are killed from outside while they compute are lost"), {
    cl <- local_cluster(3, start = start, healing = FALSE)
    for (i in 1:3) parallel:::sendCall(cl[[i]], function() repeat sum(runif(1e4)), list())
    kill_worker(cl, 1)
    expect_lost(parallel:::recvOneResult(cl), cl, 1L, signal = 9L)
    kill_worker(cl, 2)
    kill_worker(cl, 3, tools::SIGTERM)
    expect_lost(parallel:::recvResult(cl[[2]]), cl, 2L, signal = 9L)
    expect_lost(parallel:::recvResult(cl[[3]]), cl, 3L, signal = 15L)
  })

  test_cluster(say("a worker that crashes is lost with R's own report of it"), {
    library <- faults_library()
    cl <- local_cluster(4, start = start, healing = FALSE)
    crash <- function(library) {
      dyn.load(library)
      .Call("faults_segv")
    }
    error <- expect_lost(clusterCall(cl[2], crash, library), cl, 2L, signal = 11L,
      output = "caught segfault")
    expect_match(conditionMessage(error), "SIGSEGV")
    expect_match(conditionMessage(error), "faults_segv")
    # However deep the call was: what happened stands at the head of R's report.
    deep <- function(library, n) {
      if (n > 0L) return(identity(deep(library, n - 1L)))
      dyn.load(library)
      .Call("faults_segv")
    }
    expect_lost(clusterCall(cl[1], deep, library, 30L), cl, 1L, signal = 11L,
      output = "caught segfault")
    kill_worker(cl, 3, 11L)
    expect_lost(clusterCall(cl[3], identity, 1), cl, 3L, signal = 11L)
    expect_others_usable(cl, 1:3)
  })

  test_cluster(say("a worker that quits is lost with its status"), {
    cl <- local_cluster(4, start = start, healing = FALSE)
    expect_lost(clusterCall(cl[1], function() {
      message("enough")
      quit(status = 7)
    }), cl, 1L, exit_code = 7L, output = "enough")
    expect_lost(clusterApplyLB(cl[2], 1:3, function(i) q("no", 0)), cl, 2L, exit_code = 0L)
    library <- faults_library()
    expect_lost(clusterCall(cl[3], function(library) {
      dyn.load(library)
      cat("past R\n")
      flush(stdout())
      .Call("faults_exit", 9L)
    }, library), cl, 3L, exit_code = 9L, output = "past R")
    expect_others_usable(cl, 1:3)
  })

  test_cluster(say("a cluster whose workers have all died can be stopped"), {
    cl <- local_cluster(3, start = start, healing = FALSE)
    workers <- node_processes(cl)
    for (i in 1:3) kill_worker(cl, i)
    expect_error(clusterCall(cl, Sys.getpid), class = "muster_error_lost")
    stopCluster(cl)
    expect_false(any(still_exists(workers)))
  })

  test_cluster(say("a worker that was stopped by a signal is ended by stopCluster()"), {
    cl <- local_cluster(2, start = start, healing = FALSE)
    workers <- node_processes(cl)
    kill_worker(cl, 2, tools::SIGSTOP)
    stopCluster(cl)
    expect_false(any(still_exists(workers)))
  })

  test_cluster(say("a worker that prints without end doesn't hold up another"), {
    cl <- local_cluster(2, start = start, healing = FALSE)
    parallel:::sendCall(cl[[1]], function() repeat cat(strrep("x", 1e4), "\n"), list())
    for (i in 1:50) expect_identical(clusterCall(cl[2], function() i)[[1L]], i)
    kill_worker(cl, 1)
    expect_lost(parallel:::recvResult(cl[[1]]), cl, 1L, signal = 9L)
  })

  test_cluster(say("a worker's children end with it"), {
    cl <- local_cluster(2, start = start, healing = FALSE)
    child <- processes(clusterCall(cl[1], function() {
      as.integer(system("sleep 1000 >/dev/null & echo $!", intern = TRUE))
    })[[1L]])
    expect_true(still_runs(child))
    kill_worker(cl, 1)
    expect_lost(clusterCall(cl[1], Sys.getpid), cl, 1L, signal = 9L)
    wait_until(!still_runs(child))
  })

  test_cluster(say("bytes on the wire that are no message make a worker lost"), {
    library <- faults_library()
    nonsense <- list(
      as.raw(rep(0, 64)), as.raw(rep(255, 64)), charToRaw(strrep("GET / HTTP/1.0\r\n", 100)),
      as.raw(1), as.raw(seq_len(200) %% 256), as.raw(rep(0, 1e6))
    )
    cl <- local_cluster(length(nonsense) + 1, start = start, healing = FALSE)
    for (i in seq_along(nonsense)) {
      error <- expect_error(
        clusterCall(cl[i], function(library, bytes) {
          dyn.load(library)
          .Call("faults_write", 3L, bytes)
        }, library, nonsense[[i]]),
        class = "muster_error_lost"
      )
      expect_identical(error$worker, i)
    }
    expect_others_usable(cl, seq_along(nonsense))
  })

  test_cluster(say("a worker that closes its connections is lost"), {
    library <- faults_library()
    cl <- local_cluster(3, start = start, healing = FALSE)
    expect_error(clusterCall(cl[1], function(library) {
      dyn.load(library)
      .Call("faults_close", 3L)
      Sys.sleep(3600) # tidy: the worker computes
    }, library), class = "muster_error_lost")
    # The other one is only looked at when the worker is asked for a sign of life.
    expect_error(clusterCall(cl[2], function(library) {
      dyn.load(library)
      for (fd in 3:5) .Call("faults_close", fd)
      1L
    }, library), class = "muster_error_lost")
    expect_others_usable(cl, 1:2)
  })
})

# ---- Interrupts and limits of time

# What happens when a session gets SIGINT half a second into a call.
interrupted_session <- function(before, call, after = NULL, ..., frame = parent.frame()) {
  run_session(frame = frame, bquote({
    .(before)
    system(sprintf("(sleep 0.5; kill -INT %d) &", Sys.getpid()))
    tell(caught = outcome_of(.(call)))
    .(after)
  }), ...)
}

test_that("an interrupt leaves a call, and the cluster can be stopped", {
  limit_time(90)
  for (start in c("fork", "spawn")) {
    run <- interrupted_session(
      bquote(cl <- cluster_start(3, start = .(start))),
      quote(clusterCall(cl, Sys.sleep, 3600)),
      quote({
        stopCluster(cl)
        tell(children = length(running(children())))
        tell(next_one = unlist(clusterCall(cluster_start(2), function() 1L)))
      })
    )
    expect_done(run)
    expect_identical(run$told$caught$message, "interrupted")
    expect_identical(run$told$next_one, c(1L, 1L))
    expect_nothing_left(run$session)
    expect_identical(tempdirs_left(run$session), character())
  }
})

test_that("an interrupt leaves waits of every kind", {
  limit_time(90)
  for (call in list(
    quote(clusterApplyLB(cl, 1:10, function(i) Sys.sleep(3600))),
    quote(parLapply(cl, 1:10, function(i) repeat sum(runif(1e4)))),
    quote(clusterMap(cl, function(i) Sys.sleep(3600), 1:4, .scheduling = "dynamic")),
    # A message larger than any buffer, to workers that don't read.
    quote({
      for (node in cl) parallel:::sendCall(node, Sys.sleep, list(3600))
      clusterCall(cl, length, raw(2e8))
    })
  )) {
    run <- interrupted_session(quote(cl <- cluster_start(2)), call, quote({
      stopCluster(cl)
      tell(stopped = TRUE)
    }))
    expect_left(run, "^interrupted$")
  }
})

test_that("a limit of time stops a call that waits", {
  limit_time(60)
  run <- run_session(quote({
    cl <- cluster_start(2)
    setTimeLimit(elapsed = 1, transient = TRUE)
    caught <- outcome_of(clusterCall(cl, Sys.sleep, 3600))
    setTimeLimit()
    stopCluster(cl)
    tell(caught = caught, stopped = TRUE)
  }))
  expect_left(run, "reached elapsed time limit")
})

test_that("an interrupt of a start that is slow leaves nothing", {
  limit_time(120)
  for (start in c("fork", "spawn")) {
    run <- interrupted_session(
      quote(stopCluster(cluster_start(1))), # the server is there
      bquote(cluster_start(3, start = .(start), setup = quote(Sys.sleep(3600)))),
      quote({
        tell(children = length(running(children())), files = list.files(tempdir(), "^Rtmp",
          recursive = TRUE, include.dirs = TRUE))
        tell(works = unlist(clusterCall(cluster_start(2), function() 1L)))
      })
    )
    expect_done(run)
    expect_identical(run$told$caught$message, "interrupted")
    expect_identical(run$told$children, 1L) # the fork server
    expect_identical(run$told$files, character())
    expect_identical(run$told$works, c(1L, 1L))
    expect_nothing_left(run$session)
    expect_identical(tempdirs_left(run$session), character())
  }
})

test_that("an interrupt while the fork server boots leaves nothing", {
  limit_time(60)
  profile <- withr::local_tempfile(fileext = ".R", lines = c(
    "if (nzchar(Sys.getenv(\"MUSTER_BOOT\"))) Sys.sleep(3600)"
  ))
  run <- interrupted_session(quote(NULL), quote(cluster_start(3)),
    quote(tell(children = length(running(children())))),
    env = c(R_PROFILE_USER = profile)
  )
  expect_done(run)
  expect_identical(run$told$caught$message, "interrupted")
  expect_identical(run$told$children, 0L)
  expect_nothing_left(run$session)
  expect_identical(tempdirs_left(run$session), character())
})

test_that("a start that its limit of time ends leaves nothing", {
  limit_time(60)
  run <- run_session(quote({
    stopCluster(cluster_start(1))
    setTimeLimit(elapsed = 1, transient = TRUE)
    caught <- outcome_of(cluster_start(2, setup = quote(Sys.sleep(3600))))
    setTimeLimit()
    tell(caught = caught, children = length(running(children())))
  }))
  expect_done(run)
  expect_match(run$told$caught$message, "reached elapsed time limit")
  expect_identical(run$told$children, 1L)
  expect_nothing_left(run$session)
})
