# What has failed, evaluated again in the session.

# In the session, and as an error whose calls are seen.
expect_again <- function(failed, message) {
  calls <- NULL
  error <- tryCatch(
    withCallingHandlers(
      task_debug(failed, step = FALSE),
      error = function(error) calls <<- sys.calls()
    ),
    error = identity
  )
  expect_identical(conditionMessage(error), message)
  expect_false(inherits(error, "muster_error"))
  expect_true(any(grepl("^stop\\(", vapply(calls, function(call) deparse(call)[1L], ""))))
}

fails <- function(x, y = "", ...) stop(paste(x, y, round(runif(1), 6)))

done <- function(task) {
  task_wait(task)
  task
}

test_cluster("an element that failed is evaluated again, with its data and seed", {
  local_seed(1)
  one <- local_cluster(1)
  other <- parallel::makePSOCKcluster(1)
  defer(function() parallel::stopCluster(other))
  for (cl in list(one, NULL, other, cluster_start(0))) {
    before <- {
      runif(1)
      get(".Random.seed", globalenv())
    }
    error <- tryCatch(cluster_map(cl, c("a", "b"), fails, y = "!", .seed = 1), error = identity)
    expect_again(error, conditionMessage(error$condition))
    expect_again(NULL, conditionMessage(error$condition))
    returned <- cluster_pmap(cl, list(x = 1:3, y = 4:6), fails, .seed = 2, .on_error = "return")
    for (error in returned) expect_again(error, conditionMessage(error$condition))
    expect_identical(get(".Random.seed", globalenv()), before)
  }
  map <- task_map(one, 1:3, function(x) if (x == 2) stop("two") else x)
  error <- tryCatch(task_value(map), error = identity)
  expect_again(error, "two")
  expect_again(map, "two")
})

test_cluster("a task that failed is evaluated again, with its data and seed", {
  cl <- local_cluster(1)
  local_seed(1)
  for (task in list(
    task_submit(cl, fails, 1, .seed = 3), task_submit(cl, fails, "x", y = list(1), .seed = 3),
    task_submit(cluster_start(0), fails, 1, .seed = 3)
  )) {
    error <- tryCatch(task_value(task), error = identity)
    expect_again(task, conditionMessage(error$condition))
    expect_again(error, conditionMessage(error$condition))
    expect_again(NULL, conditionMessage(error$condition))
  }
  # Data, the values of other tasks, code.
  big <- runif(1e4)
  at_fault <- function(x, y) stop(format(sum(x) + y, digits = 15))
  sum_of <- format(sum(big) + 5, digits = 15)
  expect_again(done(task_submit(cl, at_fault, big, 5)), sum_of)
  first <- task_submit(cl, function(x) x, big)
  second <- task_submit(cl, function() 5)
  expect_again(done(task_submit(cl, at_fault, first, second)), sum_of)
  expect_again(done(task({ stop(second * 2) }, cl)), "10")
  expect_error(task_debug(done(task_submit(cl, "stop", "named")), step = FALSE), "^named$")
  expect_again(done(task_submit(cl, function(x) stop(class(x)), quote(a + b))), "call")
  needs <- done(task_submit(cl, sqrt, done(task_submit(cl, at_fault, 1, 2))))
  expect_again(tryCatch(task_value(needs), error = identity), "3")
  large <- runif(1e6)
  for (task in list(
    task_submit(cl, at_fault, large, 5),
    task_submit(cl, at_fault, task_submit(cl, function() large), 5)
  )) {
    expect_error(task_debug(done(task), step = FALSE), "too large", class = "muster_error_input")
  }
  # Lost with its worker, but not because of what it does.
  flag <- file.path(local_folder(), "flag")
  lost <- task_submit(cl, .retries = 0, function(flag) {
    if (!file.exists(flag) && file.create(flag)) tools::pskill(Sys.getpid(), tools::SIGKILL)
    "here"
  }, flag)
  suppressMessages(task_wait(lost))
  expect_identical(task_debug(lost, step = FALSE), "here")
  expect_error(task_debug(lost, step = FALSE), NA)
})

test_cluster("globals are as they were sent, and as they are afterwards", {
  cl <- local_cluster(1)
  global <- globalenv()
  defer(function() rm(list = c("debug_k", "debug_f"), envir = global))
  assign("debug_k", 1, global)
  assign("debug_f", function(x) stop(x + debug_k), global)
  environment(global$debug_f) <- global
  task <- done(task_submit(cl, function(x) debug_f(x), 1))
  error <- tryCatch(cluster_map(cl, 1, function(x) debug_f(x)), error = identity)
  assign("debug_k", 100, global)
  expect_again(task, "2")
  expect_again(error, "2")
  expect_identical(global$debug_k, 100)
})

test_cluster("what wasn't kept is what it was, or that is an error", {
  cl <- local_cluster(1)
  global <- globalenv()
  defer(function() {
    if (bindingIsLocked("debug_big", global)) unlockBinding("debug_big", global)
    rm(list = "debug_big", envir = global)
  })
  assign("debug_big", sqrt(1:2e5), global)
  clusterExport(cl, "debug_big", global)
  f <- function(i) stop(format(sum(debug_big), digits = 15))
  environment(f) <- global
  sum_of <- format(sum(global$debug_big), digits = 15)
  error <- tryCatch(cluster_map(cl, 1, f), error = identity)
  task <- done(task_submit(cl, f, 1))
  expect_again(error, sum_of)
  expect_again(task, sum_of)
  assign("debug_big", 0, global)
  for (failed in list(error, task)) {
    expect_error(task_debug(failed, step = FALSE), "`debug_big`", class = "muster_error_input")
  }
  # One that was sent, and can't be lent now.
  error <- tryCatch(cluster_map(cl, 1, f), error = identity)
  assign("debug_big", 1, global)
  lockBinding("debug_big", global)
  expect_error(task_debug(error, step = FALSE), "locked", class = "muster_error_input")
  expect_identical(global$debug_big, 1)
})

test_cluster("packages of the call are attached meanwhile", {
  cl <- local_cluster(1)
  skip_if("package:stats4" %in% search(), "stats4 is attached")
  library(stats4) # tidy: the call uses it
  f <- function(i) {
    mle
    stop("own")
  }
  environment(f) <- globalenv()
  error <- tryCatch(cluster_map(cl, 1, f), error = identity)
  detach("package:stats4")
  expect_again(error, "own")
  expect_false("package:stats4" %in% search())
})

test_cluster("a task that needed one that failed, and tasks without workers", {
  cl <- local_cluster(1)
  bad <- done(task_submit(cl, function() stop("first")))
  expect_again(done(task_submit(cl, sqrt, bad)), "first")
  here <- cluster_start(0)
  one <- task_submit(here, function() 40)
  two <- task_submit(here, function(x) stop(x + 1), one)
  expect_again(two, "41")
  expect_again(tryCatch(task_value(two), error = identity), "41")
})

test_cluster("the browser opens at the function's first line", {
  # In another R: a browser reads its commands from where R reads code. R >= 4.5 has one only where
  # it is interactive.
  script <- file.path(local_folder(), "script.R")
  writeLines(c(
    "library(muster)",
    "f <- function(x) {", "  y <- x + 1", "  stop(y)", "}",
    "task <- task_submit(cluster_start(0), f, 1)",
    "try(task_debug(task, step = TRUE))", "n", "print(x)", "c",
    "cat(isdebugged(f))"
  ), script)
  shown <- system2(file.path(R.home("bin"), "R"), c("--vanilla", "--no-echo", "--interactive"),
    stdin = script, stdout = TRUE, stderr = TRUE,
    env = paste0("R_LIBS=", paste(.libPaths(), collapse = ":"))
  )
  shown <- paste(shown, collapse = "\n")
  expect_match(shown, "debugging in: fun\\(1\\)")
  expect_match(shown, "debug( at #2)?: y <- x \\+ 1.*\\[1\\] 1.*FALSE$")
})

test_cluster("what can't be evaluated again says why", {
  cl <- local_cluster(1)
  expect_error(task_debug(5), class = "muster_error_input")
  expect_error(task_debug(simpleError("no")), class = "muster_error_input")
  expect_error(task_debug(step = NA), class = "muster_error_input")
  expect_error(task_debug(done(task_submit(cl, sqrt, 4))), "hasn't failed",
    class = "muster_error_input"
  )
  running <- task_submit(cl, Sys.sleep, 60)
  expect_error(task_debug(running), "hasn't failed", class = "muster_error_input")
  task_cancel(running)
  expect_error(task_debug(running), "hasn't failed", class = "muster_error_input")
  error <- tryCatch(cluster_map(cl, 1:2, fails, .seed = NULL), error = identity)
  copy <- unserialize(serialize(error, NULL))
  expect_error(task_debug(copy), "nothing to evaluate", class = "muster_error_input")
  expect_lt(length(serialize(error$again, NULL)), 1000)
  expect_lt(as.numeric(object.size(error$again)), 1000)
  input <- tryCatch(cluster_map(cl, quote(a), sqrt), error = identity)
  expect_error(task_debug(input), "nothing to evaluate", class = "muster_error_input")
})

test_cluster("a task that has failed doesn't keep its cluster", {
  skip_if_not(file.exists("/proc/self"), "there is no /proc")
  cl <- cluster_start(1)
  pid <- cluster_status(cl)$pid
  try(task_value(task_submit(cl, stop, "no")), silent = TRUE)
  rm(cl)
  wait_until({
    gc()
    !file.exists(file.path("/proc", pid))
  })
  expect_error(task_debug(), "nothing to evaluate", class = "muster_error_input")
})
