# Code of the user's that R runs in the middle of muster's: condition handlers and finalizers that
# stop the cluster at work, start others, or jump. It works or is an error; R doesn't crash.

# A task that kills its worker once, and when it runs again waits until the session's handler has
# made `file`.handled: no verb that waits for it is done before.
dies_once <- function(i, file) {
  if (i == 1 && !file.exists(file)) {
    file.create(file)
    tools::pskill(Sys.getpid(), 9L)
  }
  while (i == 1 && !file.exists(paste0(file, ".handled"))) Sys.sleep(0.01) # tidy: the worker's work
  i
}

# Calls of the verbs that wait. Each gets a cluster, a function for elements and its file.
waiting_verbs <- list(
  clusterApply = function(cl, f, file) clusterApply(cl, 1:2, f, file),
  clusterApplyLB = function(cl, f, file) clusterApplyLB(cl, 1:4, f, file),
  parLapply = function(cl, f, file) parLapply(cl, 1:2, f, file),
  clusterCall = function(cl, f, file) clusterCall(cl, f, 1, file),
  cluster_map = function(cl, f, file) cluster_map(cl, 1:4, f, file),
  task_value = function(cl, f, file) task_value(task_submit(cl, f, 1, file)),
  task_wait = function(cl, f, file) {
    tasks <- lapply(1:3, function(i) task_submit(cl, f, i, file))
    while (!all(task_wait(tasks, timeout = 10))) NULL
    lapply(tasks, task_value)
  },
  partition_map = function(cl, f, file) {
    p <- partition_scatter(cl, data.frame(i = 1:4), parts = 4L)
    partition_collect(partition_map(p, function(d, f, file) {
      f(d$i[1L], file)
      d
    }, f, file))
  }
)

# What comes of a verb whose message that a worker is replaced is handled so.
with_handler <- function(verb, deed) {
  # In this order: a task that runs again makes the file as long as there are workers.
  file <- tempfile()
  handled <- paste0(file, ".handled")
  defer(function() unlink(c(file, handled)))
  cl <- local_cluster(2)
  withCallingHandlers(
    tryCatch(verb(cl, dies_once, file), error = identity, left = function(e) "left"),
    muster_message = function(m) {
      deed(cl)
      file.create(handled)
      tryInvokeRestart("muffleMessage")
    }
  )
}

test_cluster("a handler may stop the cluster in the middle of each verb", {
  for (name in names(waiting_verbs)) {
    got <- with_handler(waiting_verbs[[name]], function(cl) cluster_stop(cl))
    expect_s3_class(got, "muster_error")
    expect_match(conditionMessage(got), "stopped|isn't on|lost", info = name)
  }
})

test_cluster("a handler may stop one of the workers in the middle of each verb", {
  for (name in names(waiting_verbs)) {
    got <- with_handler(waiting_verbs[[name]], function(cl) cluster_stop(cl[1]))
    # A task that waited for the one that was stopped goes to the other.
    expect_true(inherits(got, "muster_error") || is.list(got) || name == "task_value", info = name)
  }
})

test_cluster("a handler may stop the workers while one of them is lost", {
  skip_without_proc()
  deed <- function(cl) {
    # A fork server that is stopped tells nobody how its worker ended: that stays lost for a while.
    worker <- cluster_status(cl)$pid[1L]
    server <- parent_of(worker)
    tools::pskill(server, tools::SIGSTOP)
    tools::pskill(worker, 9L)
    wait_until(cluster_status(cl)$state[1L] == "lost")
    system(paste("(sleep 0.2; kill -CONT", server, ") >/dev/null 2>&1 &"))
    cluster_stop(cl)
  }
  # The first works on until the handler has ended it; the other dies of its call.
  call <- function(i) {
    if (i == 2) tools::pskill(Sys.getpid(), 9L)
    repeat Sys.sleep(0.01) # tidy: the worker's work
  }
  cl <- local_cluster(2)
  got <- tryCatch(
    withCallingHandlers(clusterApply(cl, 1:2, call), muster_message_restarted = function(m) {
      deed(cl)
      invokeRestart("muffleMessage")
    }),
    error = identity
  )
  expect_s3_class(got, "muster_error")
  expect_match(conditionMessage(got), "stopped|lost")
})

test_cluster("a handler may start and stop another cluster in the middle of each verb", {
  for (name in names(waiting_verbs)) {
    got <- with_handler(waiting_verbs[[name]], function(cl) {
      other <- cluster_start(1)
      expect_identical(clusterCall(other, function() 5), list(5))
      cluster_stop(other)
    })
    expect_false(inherits(got, "error"), info = name)
  }
})

test_cluster("a handler may leave each verb by a jump, and the cluster goes on", {
  for (name in names(waiting_verbs)) {
    file <- tempfile()
    cl <- local_cluster(2)
    got <- tryCatch(waiting_verbs[[name]](cl, dies_once, file),
      muster_message = function(m) "left"
    )
    file.create(paste0(file, ".handled"))
    expect_identical(got, "left", info = name)
    expect_identical(clusterApply(cl, 1:2, function(i) i + 1), list(2, 3), info = name)
    cluster_stop(cl)
    unlink(paste0(file, c("", ".handled")))
  }
})

test_cluster("waiting for nobody is an error", {
  cl <- local_cluster(2)
  nobody <- cl[integer(0)]
  expect_error(parallel:::recvOneData(nobody), class = "muster_error_input")
  expect_error(task_submit(nobody, identity, 1), class = "muster_error_input")
  expect_error(cluster_map(nobody, 1:2, identity), class = "muster_error_input")
  # As with parallel's own.
  expect_length(clusterApply(nobody, 1:2, identity), 0L)
  expect_identical(clusterCall(cl, identity, 3), list(3, 3))
})

# ---- finalizers, at one allocation after the other

# Verbs, and what describes a cluster: all that allocates while it has something in hand.
allocating <- list(
  clusterCall = function(cl) clusterCall(cl, function(x) list(x, "a"), 1),
  `clusterCall, large` = function(cl) clusterCall(cl, function(x) x, numeric(1e5)),
  `clusterCall, long` = function(cl) clusterCall(cl, function(x) as.list(x), 1:2000 + 0),
  clusterApplyLB = function(cl) clusterApplyLB(cl, 1:3, function(i) i),
  clusterExport = function(cl) clusterExport(cl, "x", list2env(list(x = numeric(1e5)))),
  cluster_map = function(cl) cluster_map(cl, 1:3, function(i) i),
  tasks = function(cl) lapply(1:2, function(i) task_value(task_submit(cl, identity, i))),
  cluster_status = function(cl) cluster_status(cl),
  cluster_logs = function(cl) cluster_logs(cl),
  cluster_journal = function(cl) cluster_journal(cl),
  cluster_resize = function(cl) cluster_resize(cl, 2L),
  cluster_stop = function(cl) cluster_stop(cl[1L]),
  partitions = function(cl) {
    partition_collect(partition_scatter(cl, data.frame(i = 1:4), parts = 2L))
  },
  print = function(cl) utils::capture.output(print(cl))
)

# Has R collect at the n-th allocation from here on, and then runs `deed` in a finalizer.
# TRUE if it ran before `call` ended.
with_finalizer <- function(n, deed, call) {
  ran <- FALSE
  local({
    garbage <- new.env()
    reg.finalizer(garbage, function(e) {
      gctorture2(0L)
      ran <<- TRUE
      deed()
    })
  })
  gctorture2(.Machine$integer.max, wait = n)
  tryCatch(call(), error = function(e) expect_s3_class(e, "muster_error"))
  gctorture2(0L)
  before <- ran
  gc()
  before
}

# Allocations from the first to one that the call doesn't come to, some of them.
# Their output isn't shown.
sweep <- function(name, deed, positions = c(10, 40, 120, 350)) {
  local_settings(muster.quiet = TRUE)
  for (n in positions) {
    cl <- cluster_start(2)
    workers <- node_processes(cl)
    clusterCall(cl, function() cat("a line\n"))
    inside <- with_finalizer(n, function() deed(cl), function() allocating[[name]](cl))
    suppressWarnings(try(cluster_stop(cl), silent = TRUE))
    expect_false(any(still_exists(workers)), info = paste(name, n))
    if (!inside) break
  }
}

test_cluster("a finalizer may stop the cluster at any allocation of each verb", {
  skip_on_cran()
  for (name in names(allocating)) sweep(name, function(cl) cluster_stop(cl))
})

test_cluster("a finalizer may start and use another cluster at any allocation", {
  skip_on_cran()
  for (name in names(allocating)) {
    sweep(name, function(cl) {
      other <- cluster_start(1)
      clusterCall(other, function(x) list(x, "b"), 2)
      clusterExport(other, "y", list2env(list(y = numeric(1e5))))
      cluster_stop(other)
    }, c(20, 150))
  }
})

test_cluster("a finalizer may stop another cluster at any allocation of a start on a host", {
  skip_on_cran()
  skip_without_fork()
  for (n in c(100, 2500, 5500, 8000, 15000)) { # most while the host is reached
    other <- cluster_start(here_by_link(1L))
    cl <- NULL
    begin <- function() cl <<- cluster_start(here_by_link(1L))
    with_finalizer(n, function() cluster_stop(other), begin)
    expect_identical(clusterCall(cl, function() 5), list(5))
    cluster_stop(cl)
    cluster_stop(other)
  }
})

# ---- R's own workers

test_cluster("a finalizer may stop R's own workers at any allocation of a call", {
  skip_on_cran()
  local_settings(muster.quiet = TRUE)
  verbs <- list(
    small = function(cl) clusterCall(cl, function(x) x, 1),
    long = function(cl) clusterCall(cl, function(x) as.list(x), 1:2000 + 0),
    balanced = function(cl) clusterApplyLB(cl, 1:3, function(i) i)
  )
  for (verb in verbs) {
    cl <- makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
    expect_identical(verb(cl), verb(cl))
    # The other positions cost a start of R each.
    with_finalizer(60, function() stopCluster(cl), function() verb(cl))
    suppressWarnings(try(stopCluster(cl), silent = TRUE))
  }
})
