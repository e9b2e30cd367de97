# What a task's function uses of the session goes along, by the rule of cluster_map().

local_globals <- function(..., frame = parent.frame()) {
  values <- list(...)
  list2env(values, globalenv())
  undo <- substitute(rm(list = names, envir = globalenv()), list(names = names(values)))
  do.call(on.exit, list(undo, add = TRUE), envir = frame)
}

global_function <- function(code) {
  environment(code) <- globalenv()
  code
}

test_cluster("A4 a task finds functions and values of the global environment", {
  cl <- local_cluster(2)
  local_globals(
    task_fib = global_function(function(n) if (n < 2) n else task_fib(n - 1) + task_fib(n - 2)),
    task_k = 5
  )
  expect_identical(task_value(task_submit(cl, task_fib, 10)), 55)
  times <- global_function(function(i) i * task_k)
  expect_identical(task_value(task_submit(cl, times, 2)), 10)
  assign("task_k", 6, globalenv())
  expect_identical(task_value(task_submit(cl, times, 2)), 12)
  # Functions around the function, and among its arguments.
  around <- local(
    {
      inner <- function() task_k + 1
      function(i) i * inner()
    },
    new.env(parent = globalenv())
  )
  expect_identical(task_value(task_submit(cl, around, 2)), 14)
  expect_identical(task_value(task_submit(cl, function(f, x) f(x), times, 3)), 18)
  expect_identical(task_value(task_submit(cl, function(fs) fs$g(1), list(g = times))), 6)
  # Nothing stays.
  there <- clusterCall(cl, function() exists("task_k", globalenv()))
  expect_identical(there, list(FALSE, FALSE))
})

test_cluster("A4 what goes along with tasks is sent once while it stays the same", {
  cl <- local_cluster(1)
  local_globals(task_big = as.numeric(1:200000))
  use <- global_function(function(i) task_big[i])
  values <- lapply(lapply(1:20, function(i) task_submit(cl, use, i)), task_value)
  expect_identical(values, lapply(1:20, as.numeric))
  held <- muster:::the_task$task_job$held[[2L]]
  expect_identical(task_value(task_submit(cl, use, 3)), 3)
  expect_identical(muster:::the_task$task_job$held[[2L]], held)
  assign("task_big", task_big * 2, globalenv())
  expect_identical(task_value(task_submit(cl, use, 3)), 6)
  expect_false(identical(muster:::the_task$task_job$held[[2L]], held))
})

test_cluster("A4 an environment that changes goes along as it is", {
  cl <- local_cluster(1)
  local_globals(task_env = new.env())
  task_env$n <- 1
  use <- global_function(function() task_env$n)
  expect_identical(task_value(task_submit(cl, use)), 1)
  task_env$n <- 2
  expect_identical(task_value(task_submit(cl, use)), 2)
})

test_cluster("A4 a task's packages are attached, and globals that are too large refused", {
  cl <- local_cluster(1)
  local_globals(task_large = numeric(1e5))
  local_settings(muster.globals_max = 1e5)
  error <- expect_error(
    task_submit(cl, global_function(function() task_large[1])), class = "muster_error_limit"
  )
  expect_identical(names(error$sizes), "task_large")
  attached <- global_function(function() splitIndices(4, 2))
  expect_identical(task_value(task_submit(cl, attached)), parallel::splitIndices(4, 2))
})

test_cluster("A4 a failed task prints as one, and its error names the stack of the user's calls", {
  cl <- local_cluster(1)
  local_globals(
    task_outer = global_function(function(x) task_inner(x)),
    task_inner = global_function(function(x) stop("here"))
  )
  task <- task_submit(cl, task_outer, 1)
  error <- expect_error(task_value(task), class = "muster_error_remote")
  expect_match(format(task), "failed (worker 1)", fixed = TRUE)
  expect_match(conditionMessage(error), "In: task_inner(x)", fixed = TRUE)
  calls <- sub("[(].*", "", error$stack)
  expect_identical(calls[1L], "task_inner")
  expect_false(any(grepl("task_run|do.call|muster", error$stack)))
})
