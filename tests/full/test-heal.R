# Healing: workers are killed, and nobody notices but by the messages.

# Tasks that take some time, so that kills find them at work.
task <- remote(function(i) {
  Sys.sleep(0.01) # tidy: the worker's work
  i^2
})

# The same, but they leave a mark of their worker.
task_marking <- function(marks) {
  remote(function(i) {
    file.create(file.path(marks, Sys.getpid()))
    Sys.sleep(0.01) # tidy: the worker's work
    i^2
  }, marks = marks)
}

verbs <- list(
  parLapply = function(cl, f) parLapply(cl, 1:24, f),
  parLapplyLB = function(cl, f) parLapplyLB(cl, 1:24, f),
  parSapply = function(cl, f) parSapply(cl, 1:24, f),
  clusterApply = function(cl, f) clusterApply(cl, 1:24, f),
  clusterApplyLB = function(cl, f) clusterApplyLB(cl, 1:24, f),
  clusterMap = function(cl, f) clusterMap(cl, f, 1:24),
  clusterMapLB = function(cl, f) clusterMap(cl, f, 1:24, .scheduling = "dynamic"),
  foreach = function(cl, f) {
    if (!requireNamespace("doParallel", quietly = TRUE)) {
      return(as.list((1:24)^2))
    }
    doParallel::registerDoParallel(cl)
    `%dopar%` <- foreach::`%dopar%`
    foreach::foreach(i = 1:24) %dopar% f(i)
  },
  loop = function(cl, f) {
    if (!requireNamespace("foreach", quietly = TRUE)) {
      return(as.list((1:24)^2))
    }
    registerDoMuster(cl)
    on.exit(foreach::registerDoSEQ())
    `%dopar%` <- foreach::`%dopar%`
    foreach::foreach(i = 1:24) %dopar% f(i)
  }
)

expected_of <- function(name) if (name == "parSapply") (1:24)^2 else as.list((1:24)^2)

test_cluster("every verb gives its whole answer while workers are killed at random", {
  local_seed(1) # loading doParallel draws numbers
  local_settings(muster.quiet = TRUE, foreachDoparLocal = NULL)
  local_globals()
  cl <- local_cluster(3, retries = 100)
  marks <- local_folder()
  marking <- task_marking(marks)
  killer <- local_killer(0.05, marks = marks)
  for (name in names(verbs)) {
    before <- restarts_of(cl)
    wait_until({
      expect_identical(verbs[[name]](cl, marking), expected_of(name), info = name)
      restarts_of(cl) - before >= 3L
    })
  }
  stop_killer(killer)
  for (name in names(verbs)) expect_identical(verbs[[name]](cl, task), expected_of(name))
})

test_cluster("every verb gives its whole answer when chosen tasks kill their workers", {
  local_seed(1)
  local_settings(muster.quiet = TRUE, foreachDoparLocal = NULL)
  local_globals()
  cl <- local_cluster(3, retries = 4)
  for (name in names(verbs)) {
    for (fatal in list(1L, 24L, c(2L, 10L, 23L), 9:12)) {
      folder <- local_folder()
      dies <- remote(function(i) {
        if (i %in% fatal && !file.exists(file.path(folder, i))) {
          file.create(file.path(folder, i))
          tools::pskill(Sys.getpid(), tools::SIGKILL)
        }
        i^2
      }, fatal = fatal, folder = folder)
      before <- restarts_of(cl)
      expect_identical(verbs[[name]](cl, dies), expected_of(name), info = name)
      if (name != "foreach" || requireNamespace("doParallel", quietly = TRUE)) {
        expect_identical(restarts_of(cl) - before, length(fatal), info = name)
      }
    }
  }
})

test_cluster("both workers of a cluster may be lost at once, and all of a larger one", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(8)
  clusterCall(cl, function() mine <<- Sys.getpid()) # what it was, not what it is
  before <- node_pids(cl)
  for (pid in before) tools::pskill(pid, tools::SIGKILL)
  expect_identical(parSapply(cl, 1:40, task), (1:40)^2)
  expect_false(any(node_pids(cl) %in% before))
  expect_identical(unlist(clusterCall(cl, function() mine)), node_pids(cl))
})

test_cluster("messages name the worker, how it ended, and what runs again", {
  cl <- local_cluster(3)
  first <- node_pids(cl)[2L]
  dies <- remote(function(i, first, signal) {
    if (Sys.getpid() == first) tools::pskill(first, signal)
    i
  })
  told <- with_messages(clusterApply(cl, 1:3, dies, first, 9L))
  expect_identical(told$value, as.list(1:3))
  expect_length(told$messages, 1L)
  message <- told$messages[[1L]]
  expect_s3_class(message,
    c("muster_message_restarted", "muster_message", "message", "condition"), exact = TRUE
  )
  expect_identical(message$worker, 2L)
  expect_identical(message$pid, first)
  for (text in c(
    paste0("Worker 2 (pid ", first, ")"), "killed by signal 9 (SIGKILL)", "replaced",
    "runs again (attempt 2)"
  )) {
    expect_match(conditionMessage(message), text, fixed = TRUE)
  }
  # An idle one owes nothing.
  tools::pskill(node_pids(cl)[3L], tools::SIGTERM)
  told <- with_messages(clusterCall(cl[3], function() 1))
  expect_match(conditionMessage(told$messages[[1L]]), "signal 15 (SIGTERM)", fixed = TRUE)
  expect_identical(told$messages[[1L]]$worker, 3L)
  local_settings(muster.quiet = TRUE)
  tools::pskill(node_pids(cl)[1L], tools::SIGKILL)
  expect_silent(clusterCall(cl, function() 1))
})

# ---- poison

always <- remote(function(i, bad) {
  if (i %in% bad) {
    cat("it is", i, "that kills\n")
    tools::pskill(Sys.getpid(), tools::SIGKILL)
  }
  i * 10
})

expect_poison_fields <- function(error, worker, range, element, results) {
  expect_identical(error$range, range)
  expect_identical(error$element, element)
  if (!is.null(worker)) expect_identical(error$worker, worker)
  expect_identical(error$signal, 9L)
  expect_identical(error$exit_code, NA_integer_)
  expect_identical(error$oom, FALSE)
  expect_match(error$output, "that kills")
  expect_match(conditionMessage(error), "SIGKILL", fixed = TRUE)
  expect_match(conditionMessage(error), "3 times", fixed = TRUE)
  expect_identical(error$results, results)
}

test_cluster("a task that kills its worker each time is an error with all that is known", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(3)
  lost <- function(code) expect_error(code, class = "muster_error_lost")
  tens <- function(n, without) lapply(seq_len(n), function(i) if (!i %in% without) i * 10)
  usable <- function() {
    expect_identical(unlist(parLapplyLB(cl, 1:9, always, 0)), 1:9 * 10)
    expect_identical(unlist(clusterApply(cl, 1:9, always, 0)), 1:9 * 10)
  }
  expect_poison_fields(lost(clusterApply(cl, 1:7, always, 5)), 2L, c(5L, 5L), 5L,
    c(tens(6, 5), list(NULL)))
  usable()
  expect_poison_fields(lost(clusterMap(cl, always, 1:3, 3)), 3L, c(3L, 3L), 3L, tens(3, 3))
  usable()
  expect_poison_fields(lost(parLapply(cl, 1:9, always, 5)), 2L, c(4L, 6L), NA_integer_,
    tens(9, 4:6))
  usable()
  error <- lost(clusterApplyLB(cl, 1:7, always, 5))
  expect_poison_fields(error, NULL, c(5L, 5L), 5L, error$results)
  expect_null(error$results[[5L]])
  expect_identical(error$results[1:4], tens(4, 0))
  usable()
  error <- lost(parLapplyLB(cl, 1:9, always, 9, chunk.size = 3))
  expect_poison_fields(error, NULL, c(7L, 9L), NA_integer_, tens(9, 7:9))
  usable()
  # The same call is sent to all.
  second <- node_pids(cl)[2L]
  error <- lost(clusterCall(cl, remote(function(rank) {
    if (identical(mine, rank)) tools::pskill(Sys.getpid(), tools::SIGKILL)
    1
  }, mine = 0), 0))
  expect_null(error$range)
  expect_identical(error$element, NA_integer_)
  expect_identical(error$worker, 1L)
  usable()
})

test_cluster("several tasks may be poison, and retries are as many as was asked for", {
  local_settings(muster.quiet = TRUE)
  for (retries in c(0, 1, 4)) {
    cl <- cluster_start(2, retries = retries)
    error <- expect_error(clusterApply(cl, 1:2, always, 1:2), class = "muster_error_lost")
    times <- if (retries == 0) "once" else retries + 1
    expect_match(conditionMessage(error), paste("lost with its worker", times))
    clusterCall(cl, identity, 1)
    expect_identical(cluster_status(cl)$restarts, rep(as.integer(retries) + 1L, 2L))
    cluster_stop(cl)
  }
})

# ---- budget

test_cluster("a worker whose journal kills it is given up, with a message, soon", {
  local_settings(muster.checkpoints = FALSE)
  folder <- local_folder()
  cl <- local_cluster(2)
  clusterCall(cl, function(flag) {
    if (file.exists(flag)) quit("no", 6)
    x <<- 1
  }, file.path(folder, "flag"))
  expect_identical(nrow(cluster_journal(cl)), 2L)
  file.create(file.path(folder, "flag"))
  tools::pskill(node_pids(cl)[1L], tools::SIGKILL)
  told <- with_messages(tryCatch(clusterCall(cl, function() x), error = identity))
  expect_s3_class(told$value, "muster_error_lost")
  expect_identical(told$value$worker, 1L)
  expect_identical(told$value$exit_code, 6L)
  last <- told$messages[[length(told$messages)]]
  expect_s3_class(last, "muster_message_given_up")
  expect_match(conditionMessage(last), "not replaced")
  expect_lte(length(told$messages), 12L)
  expect_identical(clusterCall(cl[2], function() x), list(1))
  expect_identical(cluster_status(cl)$state, c("lost", "idle"))
})

test_cluster("a worker whose journal fails is given up, with the reason", {
  folder <- local_folder()
  cl <- local_cluster(2)
  clusterCall(cl, function(flag) {
    x <<- 1
    if (file.exists(flag)) stop("not again")
  }, file.path(folder, "flag"))
  file.create(file.path(folder, "flag"))
  tools::pskill(node_pids(cl)[2L], tools::SIGKILL)
  told <- with_messages(tryCatch(clusterCall(cl, function() x), error = identity))
  expect_s3_class(told$value, "muster_error_lost")
  expect_identical(told$value$worker, 2L)
  expect_match(conditionMessage(told$value), "journal")
  expect_identical(clusterCall(cl[1], function() x), list(1))
})

# ---- the fork server, and single workers

test_that("a fork server that was killed is replaced when a worker is", {
  limit_time(120)
  run <- run_session(quote({
    cl <- cluster_start(3)
    x <- 42
    clusterExport(cl, "x")
    server <- parent_of(cl[[1]]$pid)
    tools::pskill(server, 9L)
    tools::pskill(cl[[2]]$pid, 9L)
    classes <- NULL
    value <- withCallingHandlers(parSapply(cl, 1:6, function(i) i * x), message = function(m) {
      classes <<- c(classes, class(m)[1L])
      invokeRestart("muffleMessage")
    })
    again <- unlist(clusterCall(cl, function() x))
    tell(value = value, classes = classes, again = again,
      other = parent_of(cl[[2]]$pid) != server)
    stopCluster(cl)
    cl <- cluster_start(2)
    tell(next_one = unlist(clusterCall(cl, function() 1)))
  }))
  expect_done(run)
  expect_identical(run$told$value, 1:6 * 42)
  expect_setequal(run$told$classes, c("muster_message_server", "muster_message_restarted"))
  expect_identical(run$told$again, c(42, 42, 42))
  expect_true(run$told$other)
  expect_identical(run$told$next_one, c(1, 1))
  expect_nothing_left(run$session)
})

test_cluster("single workers are killed for good, cloned, and a cluster grows and shrinks", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(3, setup = quote(from_setup <- TRUE))
  expect_identical(isNodeAlive(cl), c(TRUE, TRUE, TRUE))
  expect_true(killNode(cl[[2]]))
  expect_identical(isNodeAlive(cl), c(TRUE, FALSE, TRUE))
  expect_false(killNode(cl[[2]]))
  error <- expect_error(clusterCall(cl, identity, 1), class = "muster_error_lost")
  expect_identical(error$worker, 2L)
  expect_identical(clusterCall(cl[-2], identity, 1), list(1, 1))
  cl[[2]] <- cloneNode(cl[[2]])
  expect_identical(clusterCall(cl, function() from_setup), list(TRUE, TRUE, TRUE))
  expect_length(unique(node_pids(cl)), 3L)
  cl <- cluster_resize(cl, 6)
  expect_identical(clusterCall(cl, function() from_setup), rep(list(TRUE), 6L))
  # New ones heal as well.
  for (i in c(2, 6)) tools::pskill(cl[[i]]$pid, tools::SIGKILL)
  expect_identical(parSapply(cl, 1:12, task), (1:12)^2)
  gone <- node_processes(cl[2:6])
  cl <- cluster_resize(cl, 1)
  expect_length(cl, 1L)
  wait_until(!any(still_exists(gone)))
  expect_identical(clusterCall(cl, function() from_setup), list(TRUE))
})

# ---- signs of life

test_cluster("a worker that was stopped is found by its heartbeat", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(3, heartbeat = 1)
  pid <- node_pids(cl)[2L]
  tools::pskill(pid, tools::SIGSTOP)
  wait_until(process_stat(pid)[1L] == "T")
  expect_false(isNodeAlive(cl[[2]], timeout = 0.2))
  begin <- proc.time()[["elapsed"]]
  expect_identical(parSapply(cl, 1:6, task), (1:6)^2)
  expect_gt(proc.time()[["elapsed"]] - begin, 0.3)
  expect_identical(cluster_status(cl)$restarts, c(0L, 1L, 0L))
})

test_cluster("a session that was away itself takes no worker for silent", {
  cl <- local_cluster(2, heartbeat = 1)
  for (k in 1:3) {
    pass_time(1.2) # as if computing
    expect_identical(clusterCall(cl, function(k) k, k), list(k, k))
  }
  expect_identical(cluster_status(cl)$restarts, c(0L, 0L))
})

# ---- output

test_cluster("what workers print is shown with their number, and kept", {
  cl <- local_cluster(2)
  shown <- capture.output(type = "message", {
    clusterCall(cl[2], function() {
      cat("from R\n")
      message("from message")
      system("echo from system")
      system("echo to stderr >&2")
    })
    # What is printed last may come after the answer.
    wait_until("to stderr" %in% cluster_logs(cl)$line)
    invisible(clusterCall(cl, identity, 1))
  })
  lines <- c("from R", "from message", "from system", "to stderr")
  logs <- cluster_logs(cl)
  expect_setequal(logs$line, lines)
  expect_true(all(logs$worker == 2L))
  expect_true(all(paste("worker 2:", lines[1:3]) %in% shown))
})

test_that("output reaches the session's console with the worker's number", {
  limit_time(60)
  run <- run_session(quote({
    cl <- cluster_start(2)
    clusterCall(cl[2], function() system("echo from system; echo and more >&2"))
    clusterCall(cl[1], function() cat("no end of line"))
    clusterCall(cl[1], function() tools::pskill(Sys.getpid(), 9L))
  }))
  expect_match(run$stderr, "worker 2: from system")
  expect_match(run$stderr, "worker 2: and more")
  expect_match(run$stderr, "worker 1: no end of line")
  expect_match(run$stderr, "lost with its worker 3 times")
})

test_cluster("a worker that prints without end is bounded, and others are served", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  parallel:::sendCall(cl[[1]], function() repeat cat(strrep("x", 100), "\n"), list())
  for (i in 1:50) expect_identical(clusterCall(cl[2], function(i) i, i), list(i))
  expect_lte(nrow(cluster_logs(cl)), 4096L)
  expect_lte(sum(nchar(cluster_logs(cl)$line)), 2^20)
  expect_true(killNode(cl[[1]]))
})

test_cluster("U4: past what is kept of calls to all, none joins, or a warning says what it lacks", {
  cl <- local_cluster(1)
  clusterExport(cl, "n", list2env(list(n = 0)))
  bump <- function() n <<- n + 1
  environment(bump) <- globalenv()
  for (i in 1:10001) clusterCall(cl, bump)
  expect_error(cluster_resize(cl, 2), class = "muster_error_limit")
  expect_warning(node <- cloneNode(cl[[1L]], shutdown = FALSE), class = "muster_warning_resize")
  more <- c(cl, as.cluster(node))
  expect_identical(clusterEvalQ(more, get0("n")), list(10001, NULL))
  cluster_stop(more)
})
