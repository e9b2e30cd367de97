# Interrupts and limits of time: back at the prompt at once, what ran is ended, and the
# next call never gets an answer of the one before.

build_faults()

# Prelude of sessions that interrupt themselves: interrupted(code, after_s) runs code and
# gives how long it took from the signal to the prompt, NA if no interrupt came.
interrupts <- quote({
  options(muster.quiet = TRUE)
  library(parallel)
  stamp <- tempfile()
  signal_after <- function(after_s) {
    unlink(stamp)
    system(sprintf("(sleep %f; date +%%s.%%N >%s.new; mv %s.new %s; kill -INT %d) >/dev/null &",
      after_s, stamp, stamp, stamp, Sys.getpid()))
  }
  interrupted <- function(code, after_s) {
    signal_after(after_s)
    tryCatch(
      {
        force(code)
        Sys.sleep(200) # tidy: the signal comes later than the answer
        FALSE
      },
      interrupt = function(e) TRUE
    )
  }
  # A call that must get its own answers, and no others.
  check_call <- function(cl, k) {
    verb <- k %% 3 + 1
    value <- switch(verb,
      clusterCall(cl, function(k) k, k),
      parLapply(cl, 1:5, function(i, k) c(i, k), k),
      clusterApplyLB(cl, 1:5, function(i, k) c(i, k), k)
    )
    expected <- if (verb == 1) rep(list(k), length(cl)) else lapply(1:5, function(i) c(i, k))
    identical(lapply(value, as.numeric), lapply(expected, as.numeric))
  }
  busy <- function(i) {
    end <- Sys.time() + 0.05
    while (Sys.time() < end) sum(sqrt(1:1000))
    -i
  }
  verbs <- list(
    function(cl) clusterCall(cl, busy, 1),
    function(cl) parLapply(cl, 1:12, busy),
    function(cl) parLapplyLB(cl, 1:12, busy),
    function(cl) clusterApply(cl, 1:12, busy),
    function(cl) clusterApplyLB(cl, 1:12, busy),
    function(cl) clusterMap(cl, busy, 1:12),
    function(cl) clusterMap(cl, busy, 1:12, .scheduling = "dynamic"),
    function(cl) parSapply(cl, 1:12, function(i) Sys.sleep(0.05)),
    function(cl) clusterCall(cl, function(x) sum(x), numeric(5e6)),
    function(cl) clusterCall(cl, function() numeric(3e6)),
    function(cl) clusterExport(cl, "busy"),
    function(cl) clusterEvalQ(cl, Sys.sleep(0.2)),
    function(cl) clusterCall(cl, function() system("sleep 0.2"))
  )
})

test_that("an interrupt at any moment of any verb leaves it, and no old answer", {
  limit_time(280)
  run <- run_session(timeout_s = 270, bquote({
    .(interrupts)
    set.seed(1)
    cl <- cluster_start(3)
    kept <- 7
    clusterExport(cl, "kept")
    left <- logical()
    wrong <- numeric()
    for (k in 1:200) {
      verb <- verbs[[k %% length(verbs) + 1]]
      left[k] <- interrupted(verb(cl), runif(1, 0, 0.25))
      if (!check_call(cl, k)) wrong <- c(wrong, k)
      if (!identical(clusterCall(cl, function() kept), list(7, 7, 7))) wrong <- c(wrong, -k)
    }
    tell(left = left, wrong = wrong, pids = unlist(clusterCall(cl, Sys.getpid)),
      nodes = vapply(cl, function(node) node$pid, 0L))
    stopCluster(cl)
  }))
  expect_done(run)
  expect_identical(run$told$wrong, numeric())
  expect_identical(run$told$left, rep(TRUE, 200L))
  expect_identical(run$told$pids, run$told$nodes)
  expect_nothing_left(run$session)
})

test_that("a worker that doesn't hear an interrupt is killed after its grace, and is there again", {
  limit_time(120)
  library <- faults_library()
  run <- run_session(bquote({
    .(interrupts)
    cl <- cluster_start(2)
    kept <- 7
    clusterExport(cl, "kept")
    library <- .(library)
    before <- cluster_status(cl)$pid
    for (work in list(
      function(library) {
        dyn.load(library)
        .Call("faults_ignore", 2L)
        repeat sum(runif(1e4))
      },
      function(library) {
        dyn.load(library)
        .Call("faults_compute", 600)
      }
    )) {
      stopifnot(interrupted(clusterCall(cl, work, library), 0.3))
      stopifnot(identical(clusterCall(cl, function() kept), list(7, 7)))
    }
    tell(restarts = cluster_status(cl)$restarts)
    # One that hears it stays.
    pids <- cluster_status(cl)$pid
    interrupted(clusterCall(cl, function() repeat sum(runif(1e4))), 0.3)
    clusterCall(cl, function() 1)
    tell(same = identical(pids, cluster_status(cl)$pid))
  }))
  expect_done(run)
  expect_identical(run$told$restarts, c(2L, 2L))
  expect_true(run$told$same)
  expect_nothing_left(run$session)
})

test_that("C1: an interrupt in the middle of a change undoes it", {
  limit_time(120)
  run <- run_session(bquote({
    .(interrupts)
    cl <- cluster_start(2, retries = 0)
    clusterEvalQ(cl, a <- b <- 0)
    interrupted(clusterCall(cl, function() {
      a <<- 1
      Sys.sleep(20)
      b <<- 1
    }), 0.5)
    tell(values = clusterCall(cl, function() c(a, b)), restarts = cluster_status(cl)$restarts)
  }))
  expect_done(run)
  expect_identical(run$told$values, list(c(0, 0), c(0, 0)))
  expect_identical(run$told$restarts, c(0L, 0L))
})

test_that("C1: ten thousand maps that are left cost no worker", {
  limit_time(600)
  run <- run_session(timeout_s = 590, bquote({
    .(interrupts)
    cl <- cluster_start(2)
    helper <- function(i) i * 2
    ways <- list(
      function(i) if (i == 3) warning("third") else helper(i),
      function(i) if (i == 3) stop("third") else helper(i),
      function(i) if (i == 3) system(paste("kill -INT", session)) else helper(i)
    )
    session <- Sys.getpid()
    left <- function(k) {
      # Most by conditions: a signal takes a process of its own.
      way <- if (k %% 20L == 0L) 3L else k %% 2L + 1L
      tryCatch(
        {
          cluster_map(cl, 1:4, ways[[way]])
          if (way == 3L) Sys.sleep(200) # tidy: the signal comes later than the answer
        },
        warning = function(w) 1, error = function(e) 2, interrupt = function(e) 3
      )
    }
    how <- vapply(1:10000, left, 0)
    tell(how = table(how), restarts = cluster_status(cl)$restarts)
  }))
  expect_done(run)
  expect_identical(as.vector(run$told$how), c(4500L, 5000L, 500L))
  expect_identical(run$told$restarts, c(0L, 0L))
})

test_that("interrupts while workers come back leave a cluster that works", {
  limit_time(200)
  run <- run_session(timeout_s = 190, bquote({
    .(interrupts)
    set.seed(2)
    cl <- cluster_start(3, retries = 100)
    kept <- 7
    clusterExport(cl, "kept")
    wrong <- NULL
    for (k in 1:60) {
      victims <- sample(cluster_status(cl)$pid, sample(3, 1))
      for (pid in victims) if (!is.na(pid)) tools::pskill(pid, 9L)
      interrupted(verbs[[k %% length(verbs) + 1]](cl), runif(1, 0, 0.05))
      if (!check_call(cl, k)) wrong <- c(wrong, k)
      if (!identical(clusterCall(cl, function() kept), list(7, 7, 7))) wrong <- c(wrong, -k)
    }
    tell(wrong = wrong, restarts = sum(cluster_status(cl)$restarts))
  }))
  expect_done(run)
  expect_null(run$told$wrong)
  expect_gt(run$told$restarts, 60L)
  expect_nothing_left(run$session)
})

test_cluster("an answer that can't be read is not taken for that of the next call", {
  library <- faults_library()
  dyn.load(library)
  cl <- local_cluster(3, setup = bquote(dyn.load(.(library))))
  unreadable <- remote(function(i) {
    if (i == 3) .Call("faults_bomb", 1L, c("error", "", "unserialize")) else i
  })
  for (k in 1:3) {
    expect_error(clusterApply(cl, 1:3, unreadable), "can't be read")
    # The third has answered before it is asked for its answer.
    answers <- clusterApply(cl, 1:3, remote(function(i, k) {
      if (i == 1) Sys.sleep(0.2) # tidy: the worker's work
      i * k
    }), k)
    expect_identical(answers, as.list(1:3 * k))
  }
})

# ---- time limits

test_cluster("a task that takes longer than the timeout is ended, and says so", {
  local_settings(muster.quiet = TRUE)
  library <- faults_library()
  cl <- local_cluster(3, timeout = 2)
  sleeps <- remote(function(i, bad, library) {
    if (i %in% bad) {
      if (i %% 2 == 0) {
        Sys.sleep(60) # tidy: the worker's work
      } else {
        dyn.load(library)
        .Call("faults_compute", 60)
      }
    }
    i * 10
  })
  tens <- function(n, without) lapply(seq_len(n), function(i) if (!i %in% without) i * 10)
  late <- function(code) {
    error <- expect_error(code, class = "muster_error_timeout")
    expect_match(conditionMessage(error), "longer than the cluster's `timeout`")
    expect_identical(unlist(parLapply(cl, 1:9, sleeps, 0, library)), 1:9 * 10)
    error
  }
  pids <- node_pids(cl)
  error <- late(clusterApply(cl, 1:6, sleeps, 4, library))
  expect_identical(error$element, 4L)
  expect_identical(error$worker, 1L)
  expect_identical(error$results, tens(6, 4))
  expect_identical(node_pids(cl), pids) # it heard the interrupt
  error <- late(parLapply(cl, 1:9, sleeps, 5, library))
  expect_identical(error$range, c(4L, 6L))
  expect_identical(error$results, tens(9, 4:6))
  expect_false(identical(node_pids(cl), pids)) # it computed in C and was killed
  error <- late(clusterApplyLB(cl, 1:6, sleeps, 6, library))
  expect_identical(error$element, 6L)
  expect_identical(error$results[1:5], tens(5, 0))
  # Many short ones take as long as they like together.
  expect_length(clusterApplyLB(cl, 1:24, remote(function(i) Sys.sleep(0.3))), 24L)
})
