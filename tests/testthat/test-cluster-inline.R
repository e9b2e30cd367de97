# cluster_start(0): everything is evaluated in the session.

test_cluster("without workers, parallel's functions give the same", {
  cl <- cluster_start(0)
  expect_identical(length(cl), 1L)
  expect_output(print(cl), "^muster cluster without workers")
  one <- local_cluster(1)
  local_seed(1)
  for (verb in list(
    function(cl) parallel::clusterApply(cl, 1:3, sqrt),
    function(cl) parallel::clusterApplyLB(cl, 1:3, sqrt),
    function(cl) parallel::parLapply(cl, list(a = 1, b = NULL), is.null),
    function(cl) parallel::parSapplyLB(cl, 1:5, function(i, by) i * by, by = 2),
    function(cl) parallel::clusterMap(cl, function(x, y) x + y, 1:3, 4:6),
    function(cl) parallel::clusterCall(cl, function(...) list(...), quote(a + b), NULL),
    function(cl) parallel::clusterEvalQ(cl, 1 + 1), function(cl) parallel::clusterSplit(cl, 1:4),
    function(cl) parallel::parApply(cl, diag(2), 1, sum),
    function(cl) {
      parallel::clusterSetRNGStream(cl, 7)
      parallel::parSapply(cl, 1:3, rnorm)
    }
  )) {
    expect_identical(verb(cl), verb(one))
  }
  # Where it is raised, as itself.
  calls <- NULL
  error <- tryCatch(
    withCallingHandlers(
      parallel::parLapply(cl, 1:3, function(i) stop("mine")),
      error = function(error) calls <<- sys.calls()
    ),
    error = identity
  )
  expect_identical(conditionMessage(error), "mine")
  expect_true("stop(\"mine\")" %in% vapply(calls, function(call) deparse(call)[1L], ""))
  expect_identical(parallel::clusterCall(cl, sum, 1, 2), list(3)) # nothing is left of it
  expect_error(parallel:::recvResult(cl[[1L]]), class = "muster_error_input")
  expect_null(parallel::stopCluster(cl))
  expect_null(cluster_stop(cl))
})

test_cluster("without workers, maps and tasks give the same", {
  cl <- cluster_start(0)
  one <- local_cluster(1)
  f <- function(x) rnorm(1, x)
  for (run in list(
    function(cl) cluster_map(cl, c(a = 1, b = 2), f, .seed = 1),
    function(cl) cluster_pmap(cl, data.frame(n = 1:3, mean = 5), rnorm, .seed = 2),
    function(cl) cluster_map(cl, 1:9, sqrt, .value = 1, .reduce = `+`),
    function(cl) task_value(task_map(cl, 1:3, f, .seed = 1)),
    function(cl) task_value(task_submit(cl, f, 1, .seed = 3)),
    function(cl) task_value(task_submit(cl, "sum", 1, 2, .wait = FALSE, .priority = 3L)),
    function(cl) task_value(task_submit(cl, function(x) sum(unlist(x)), list(
      task_submit(cl, sqrt, 4), list(task_submit(cl, sqrt, 9), 1)
    ))),
    function(cl) {
      first <- task_submit(cl, sqrt, 4)
      task_value(task({ first * 2 }, cl))
    },
    function(cl) tasks_collect(list(a = task_submit(cl, sqrt, 4), b = task_map(cl, 1:2, sqrt))),
    function(cl) tasks_any(list(task_submit(cl, stop, "no"), task_submit(cl, identity, 5))),
    function(cl) task_wait(list(task_submit(cl, sqrt, 4), task_map(cl, 1:2, sqrt))),
    function(cl) task_value(task_submit(cl, function(x) class(x), quote(a + b)))
  )) {
    expect_identical(run(cl), run(one))
  }
  expect_identical(with_cluster(0, task_value(task(Sys.getpid()))), Sys.getpid())
  seen <- 0
  task_submit(cl, function() seen <<- seen + 1)
  expect_identical(seen, 1)
  before <- get0(".Random.seed", globalenv())
  task_submit(cl, rnorm, 1, .seed = 1)
  expect_identical(get0(".Random.seed", globalenv()), before)
  expect_identical(task_cancel(cl), logical())
  expect_identical(nrow(cluster_tasks(cl)), 0L)
})

test_cluster("without workers, errors are the same", {
  fails <- function(x) stop(structure(class = c("my_error", "error", "condition"),
    list(message = "no", call = NULL)
  ))
  attempts <- 0
  for (cl in list(cluster_start(0), local_cluster(1))) {
    task <- task_submit(cl, fails, 1, .label = "fit")
    expect_match(format(task), "`fit`")
    error <- tryCatch(task_value(task), my_error = identity)
    expect_s3_class(error, c("muster_error_remote", "muster_error", "my_error"))
    expect_match(conditionMessage(error), "^Task `fit` raised an error: no")
    expect_identical(conditionCall(error)[[1L]], quote(task_value))
    expect_s3_class(error$condition, "my_error")
    error <- tryCatch(task_value(task_submit(cl, sqrt, task)), error = identity)
    expect_s3_class(error, c("muster_error_needs", "my_error"))
    expect_s3_class(error$cause, "my_error")
    error <- tryCatch(tasks_collect(list(1, task)[2L]), error = identity)
    expect_match(conditionMessage(error), "^Task 1 \\(`fit`\\) ")
    map <- task_map(cl, 1:3, function(i) if (i == 2) fails() else i)
    error <- tryCatch(task_value(map), error = identity)
    expect_identical(error$element, 2L)
    again <- suppressMessages(task_value(task_submit(cl, .error_retries = 2L, function() {
      attempts <<- attempts + 1
      if (attempts < 2) stop("early") else "late"
    })))
    expect_identical(again, "late")
    expect_error(task_submit(cl, 5), class = "muster_error_input")
    expect_error(task_submit(cl, sum, .typo = 1), class = "muster_error_input")
    expect_error(task_submit(cl, sum, .seed = "a"), class = "muster_error_input")
    expect_error(task_submit(cl, sum, .error_retries = -1), class = "muster_error_input")
    attempts <- 0
  }
})

test_cluster("without workers, a workspace isn't written over, and what needs workers says so", {
  cl <- cluster_start(0)
  global <- globalenv()
  defer(function() suppressWarnings(rm(list = c("here_a", "here_b"), envir = global)))
  assign("here_a", 1, global)
  parallel::clusterExport(cl, "here_a", global)
  other <- list2env(list(here_a = 2, here_b = 3))
  expect_error(clusterExport(cl, "here_a", other), "`here_a`", class = "muster_error_input")
  expect_identical(global$here_a, 1)
  expect_error(cluster_share(cl, here_a = 2), "`here_a`", class = "muster_error_input")
  parallel::clusterExport(cl, "here_b", other)
  cluster_share(cl, here_b = 4) # it is the cluster's own
  expect_identical(global$here_b, 4)
  assign("here_b", "mine", global) # it isn't any more
  expect_error(clusterExport(cl, "here_b", other), "`here_b`", class = "muster_error_input")
  expect_identical(global$here_b, "mine")
  for (f in list(
    cluster_status, cluster_logs, cluster_journal, function(cl) cluster_resize(cl, 2),
    function(cl) partition_scatter(cl, mtcars),
    function(cl) map_reduce(cl, 1:3, identity, sum)
  )) {
    expect_error(f(cl), "without workers", class = "muster_error_input")
  }
  expect_error(cluster_start(0, 1), class = "muster_error_input")
  expect_error(cluster_start(0, setup = 5), class = "muster_error_input")
  expect_error(cluster_start(0, packages = "no such"), class = "muster_error_input")
  expect_error(task_submit(local_cluster(1), sqrt, task_submit(cl, sqrt, 4)), "another cluster",
    class = "muster_error_input"
  )
  cluster_start(0, setup = quote(here_b <- 5))
  expect_identical(global$here_b, 5)
})

test_cluster("without workers, an error leaves nothing behind, and comes where it would", {
  cl <- cluster_start(0)
  expect_error(clusterApply(cl[c(1, 1)], 1:2, function(i) if (i == 2) stop("no") else i), "^no$")
  expect_identical(clusterApply(cl, 11:13, identity), as.list(11:13))
  map <- task_map(cl, 1:2, identity, .on_result = function(value, i) stop("of mine"))
  expect_error(task_value(map), "^of mine$")
  task <- task_submit(cl, "no such function")
  expect_error(task_value(task), "no such function")
})
