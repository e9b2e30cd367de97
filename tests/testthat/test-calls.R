# The core of calls, as users meet it: what is pinned holds up nobody else, errors leave nothing
# behind, verbs inside verbs get their own answers, and what the system lacks comes back.

# Waits without a call of muster's: only the I/O thread serves the session.
compute_until <- function(condition) {
  end <- Sys.time() + 120
  while (!condition() && Sys.time() < end) sum(sqrt(seq_len(1e4)))
  condition()
}

states_of <- function(tasks) {
  vapply(tasks, function(task) .Call(muster:::ffi_task_state, task)$state, "")
}

test_cluster("tasks go on while R computes, also after an error in an entry point", {
  cl <- local_cluster(2)
  goes_on <- function() {
    file <- tempfile()
    defer(function() unlink(file))
    task_submit(cl, function() NULL)
    last <- NULL
    # The second is sent by whoever serves the session: the worker has room for two.
    for (i in 1:8) last <- task_submit(cl, function() NULL)
    task_submit(cl, function(file) file.create(file), file)
    compute_until(function() file.exists(file))
  }
  expect_true(goes_on())
  # R raises an error in the middle of an entry point: what it reads as numbers are none.
  fails <- function() .Call(muster:::ffi_cluster_stop, cl[[1]]$cluster, "1")
  expect_match(tryCatch(fails(), error = conditionMessage), "INTEGER")
  expect_true(goes_on())
  # One inside of another that a handler leaves by a jump.
  inside <- function() withCallingHandlers(fails(), error = function(e) fails())
  expect_match(tryCatch(inside(), error = conditionMessage), "INTEGER")
  expect_true(goes_on())
})

test_cluster("tasks that are pinned to one worker hold up no others", {
  cl <- local_cluster(2)
  folder <- local_folder()
  gate <- file.path(folder, "gate")
  wait_at <- function(gate) while (!file.exists(gate)) Sys.sleep(0.01) # tidy: the worker's work
  pinned <- lapply(1:300, function(i) task_submit(cl[1], wait_at, gate))
  expect_identical(task_value(task_submit(cl, function() 1), timeout = 60), 1)
  expect_identical(task_value(task_submit(cl[2], function() 2), timeout = 60), 2)
  file.create(gate)
  expect_true(all(task_wait(pinned, timeout = 60)))
})

test_cluster("tasks of one set of workers run in the order in which they were submitted", {
  cl <- local_cluster(2)
  file <- tempfile()
  defer(function() unlink(file))
  append_to <- function(i, file) cat(i, "\n", file = file, append = TRUE)
  tasks <- lapply(1:50, function(i) task_submit(cl[2], append_to, i, file))
  expect_true(all(task_wait(tasks, timeout = 60)))
  expect_identical(as.integer(readLines(file)), 1:50)
})

# A call that kills its worker once.
dies_once <- function(i, file) {
  if (i == 2 && !file.exists(file)) {
    file.create(file)
    tools::pskill(Sys.getpid(), 9L)
    Sys.sleep(5) # tidy: until it is dead
  }
  -i
}

inner_verbs <- list(
  clusterCall = function(cl) unlist(clusterCall(cl, function() 7)),
  clusterApply = function(cl) unlist(clusterApply(cl, 1:4, function(i) i + 100)),
  clusterApplyLB = function(cl) unlist(clusterApplyLB(cl, 1:4, function(i) i + 200)),
  cluster_map = function(cl) unlist(cluster_map(cl, 1:4, function(i) i + 300)),
  task = function(cl) task_value(task_submit(cl, function() 5))
)
inner_values <- list(
  clusterCall = c(7, 7), clusterApply = 101:104 + 0, clusterApplyLB = 201:204 + 0,
  cluster_map = 301:304 + 0, task = 5
)
outer_verbs <- list(
  clusterApply = function(cl, file) clusterApply(cl, 1:6, dies_once, file),
  clusterApplyLB = function(cl, file) clusterApplyLB(cl, 1:6, dies_once, file),
  parLapply = function(cl, file) parLapply(cl, 1:6, dies_once, file),
  cluster_map = function(cl, file) cluster_map(cl, 1:6, dies_once, file)
)

test_cluster("a verb that a handler runs inside another gets its answers, and the other its own", {
  cl <- local_cluster(2)
  files <- character()
  defer(function() unlink(files))
  for (outer in names(outer_verbs)) {
    for (inner in names(inner_verbs)) {
      file <- tempfile()
      seen <- list()
      value <- withCallingHandlers(outer_verbs[[outer]](cl, file),
        muster_message = function(m) {
          seen <<- c(seen, list(inner_verbs[[inner]](cl)))
          invokeRestart("muffleMessage")
        }
      )
      files <- c(files, file) # calls that are replayed look for it
      where <- paste(inner, "in", outer)
      expect_identical(unlist(value), -(1:6), label = where)
      expect_identical(lapply(seen, as.numeric), list(inner_values[[inner]]), label = where)
    }
  }
})

test_cluster("what a verb inside another leaves behind isn't taken for the other's", {
  cl <- local_cluster(2)
  file <- tempfile()
  defer(function() unlink(file))
  value <- withCallingHandlers(clusterApply(cl, 1:6, dies_once, file),
    muster_message = function(m) {
      tryCatch(
        {
          parallel:::sendCall(cl[[1]], function() "left", list())
          stop("left")
        },
        error = function(e) NULL
      )
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(unlist(value), -(1:6))
  expect_identical(unlist(clusterCall(cl, function() 3)), c(3, 3))
})

# Evaluates `code` while the session may open no more files. Gives its value, or its error.
without_files <- function(code) {
  before <- .Call(muster:::ffi_limits)
  set_soft <- function(n) {
    system2("prlimit", c(paste0("--nofile=", n, ":"), "--pid", Sys.getpid()))
  }
  sockets <- list()
  set_soft(1100)
  on.exit({
    for (one in sockets) socket_close(one)
    set_soft(before[1L])
  })
  repeat {
    one <- tryCatch(socket_listen(), error = identity)
    if (inherits(one, "error")) break
    sockets <- c(sockets, list(one))
  }
  tryCatch(suppressMessages(code), error = identity)
}

test_cluster("a worker that can't be replaced for want of descriptors is back with the next call", {
  skip_behind_link("workers there take no descriptors of the session")
  skip_without_proc()
  testthat::skip_if_not(nzchar(Sys.which("prlimit")), "there is no prlimit")
  cl <- local_cluster(2)
  clusterCall(cl, function() assign("k", 5, envir = globalenv()))
  cluster_stop(cluster_start(1)) # all that a start needs is loaded
  failed <- without_files(clusterApply(cl, 1:2, function(i) {
    if (i == 1) tools::pskill(Sys.getpid(), 9L)
    i * k
  }))
  expect_s3_class(failed, "muster_error_limit")
  expect_s3_class(failed, "muster_error_lost")
  expect_identical(failed$limit, 1100)
  expect_identical(failed$results[[2L]], 10)
  expect_identical(unlist(suppressMessages(clusterApply(cl, 1:2, function(i) i * k))), c(5, 10))
})

test_cluster("a task whose worker can't be replaced says what was lacking", {
  skip_behind_link("workers there take no descriptors of the session")
  skip_without_proc()
  testthat::skip_if_not(nzchar(Sys.which("prlimit")), "there is no prlimit")
  cl <- local_cluster(1)
  loadNamespace("tools")
  cluster_stop(cluster_start(1))
  failed <- without_files(task_value(task_submit(cl, function() tools::pskill(Sys.getpid(), 9L))))
  expect_s3_class(failed, "muster_error_limit")
  expect_s3_class(failed, "muster_error_lost")
  expect_identical(failed$limit, 1100)
  expect_match(conditionMessage(failed), "can't be replaced", fixed = TRUE)
  expect_identical(task_value(suppressMessages(task_submit(cl, identity, 6))), 6)
})

test_cluster("tasks that no worker is left for say so", {
  cl <- local_cluster(1, healing = FALSE)
  tasks <- c(
    list(task_submit(cl, function() tools::pskill(Sys.getpid(), 9L))),
    lapply(1:3, function(i) task_submit(cl, identity, i))
  )
  for (task in tasks) {
    error <- expect_error(task_value(task, timeout = 60), class = "muster_error_lost")
    expect_false(grepl("was stopped", conditionMessage(error), fixed = TRUE))
  }
  expect_match(conditionMessage(error), "no worker that could run it is left", fixed = TRUE)
})

test_cluster("each task has its own number", {
  cl <- local_cluster(2)
  tasks <- lapply(1:6, function(i) task_submit(cl, identity, i))
  task_wait(tasks)
  numbers <- vapply(tasks, function(task) .Call(muster:::ffi_task_state, task)$id, 0)
  expect_identical(diff(numbers), rep(1, 5))
})

test_cluster("a node of a stopped cluster can be cloned, with the cluster's plan", {
  cl <- cluster_start(1, setup = function() options(of.the.plan = 4))
  node <- cl[[1]]
  cluster_stop(cl)
  again <- structure(list(cloneNode(node)), class = class(cl))
  defer(function() cluster_stop(again))
  expect_identical(clusterCall(again, function() getOption("of.the.plan")), list(4))
})
