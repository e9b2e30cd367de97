# Tasks as arguments of other tasks.

plain <- function(x) {
  environment(x) <- globalenv()
  x
}

slow <- function(value) {
  force(value)
  function() {
    Sys.sleep(0.05) # tidy: until the next is submitted
    value
  }
}

test_cluster("a task as an argument stands for its value, before and after it is done", {
  cl <- local_cluster(2)
  one <- task_submit(cl, slow(1:3))
  two <- task_submit(cl, function(x, y) x * y, one, y = 2)
  both <- task_submit(cl, function(x, y) list(x, y), y = one, x = two)
  expect_match(format(both), "^muster task [0-9]+, waiting$")
  expect_identical(task_value(both), list(c(2, 4, 6), 1:3))
  expect_identical(task_value(task_submit(cl, identity, one)), 1:3)
  expect_identical(task_value(task_submit(cl, "sum", two)), 12)
  expect_identical(task_value(task_submit(cl, ~ .x + 1L, one)), 2:4)
  expect_identical(task_value(one), 1:3)
})

test_cluster("tasks are found in plain lists, and any value may be one's argument", {
  cl <- local_cluster(2)
  values <- list(
    NULL, quote(a + b), as.name("a"), plain(function(x) x + 1), list(a = NULL, 2), factor("f"),
    data.frame(x = 1:3), c(one = 1), list(), plain(y ~ x), expression(a), NA,
    new.env(parent = globalenv())
  )
  tasks <- lapply(values, function(value) task_submit(cl, function() value))
  show <- function(x, more = list()) list(x = x, names(more), more)
  for (i in seq_along(values)) {
    value <- task_value(task_submit(cl, show, tasks[[i]], list(a = 1, b = list(2, tasks[[i]]))))
    expect_equal(value$x, values[[i]])
    expect_equal(value[[3L]]$b[[2L]], values[[i]])
    expect_identical(value[[2L]], c("a", "b"))
  }
  all <- task_value(task_submit(cl, function(...) ...length(), .args = tasks))
  expect_identical(all, length(tasks))
  summed <- task_submit(cl, function(x) Reduce(`+`, x), lapply(1:20, function(i) {
    task_submit(cl, identity, i)
  }))
  expect_identical(task_value(summed), 210L)
})

test_cluster("large values go on by shared memory, and nobody sees another's changes", {
  cl <- local_cluster(2)
  large <- function() {
    Sys.sleep(0.05) # tidy: until the next are submitted
    as.numeric(1:1e5) + 0
  }
  change <- function(x) {
    is_shared <- .Call(getFromNamespace("ffi_share_is", "muster"), x)
    x[1L] <- x[1L] + 100
    list(is_shared, x[1L], sum(x))
  }
  source <- task_submit(cl, large)
  early <- lapply(1:4, function(i) task_submit(cl, change, source))
  expected <- list(built_with("memfd"), 101, sum(as.numeric(1:1e5)) + 100)
  for (task in early) expect_identical(task_value(task), expected)
  for (i in 1:2) expect_identical(task_value(task_submit(cl, change, source)), expected)
  x <- task_value(source)
  x[1L] <- 0
  expect_identical(task_value(task_submit(cl, change, source)), expected)
  expect_identical(task_value(source)[1L], 1)
})

test_cluster("the value of a task that nobody refers to any more arrives", {
  cl <- local_cluster(2)
  last <- task_submit(cl, slow(0))
  for (i in 1:50) last <- task_submit(cl, function(x) x + 1, last)
  gc()
  expect_identical(task_value(last), 50)
  expect_identical(task_value(task_submit(cl, identity, task_submit(cl, slow("v")))), "v")
})

test_cluster("what a task needs is there again after a worker's end", {
  cl <- local_cluster(2)
  mark <- file.path(local_folder(), "mark")
  source <- task_submit(cl, slow(1:1e5))
  dies <- function(x) {
    if (file.create(mark, showWarnings = FALSE) && !file.exists(paste0(mark, "2"))) {
      file.create(paste0(mark, "2"))
      tools::pskill(Sys.getpid(), 9L)
    }
    length(x)
  }
  expect_identical(suppressMessages(task_value(task_submit(cl, dies, source))), 100000L)
})

test_cluster("the error of a task is that of all that need it", {
  cl <- local_cluster(2)
  bad <- function() {
    Sys.sleep(0.05) # tidy: until the next are submitted
    stop(structure(class = c("my_error", "error", "condition"), list(message = "bad", call = NULL)))
  }
  source <- task_submit(cl, bad, .label = "load")
  first <- task_submit(cl, identity, source)
  second <- task_submit(cl, identity, list(1, first), .label = "plot")
  check <- function(task) {
    error <- tryCatch(task_value(task), my_error = identity)
    expect_s3_class(error, c("muster_error_needs", "muster_error", "my_error"))
    expect_match(conditionMessage(error), "was not evaluated: it needs the value of another")
    expect_match(conditionMessage(error), "Task `load` raised an error: bad")
    expect_s3_class(error$cause, "muster_error_remote")
    expect_s3_class(error$task, "muster_task")
    expect_identical(format(error$task), format(source))
  }
  check(second)
  check(first)
  check(task_submit(cl, identity, source)) # too late for the source's end
  check(task_submit(cl, identity, second))
  expect_error(task_value(second), "^Task `plot` was not")
  expect_error(tasks_collect(list(a = first)), "^Task 1 \\(`a`\\) was not", class = "my_error")
  expect_identical(task_value(task_submit(cl, function() 1)), 1)
})

test_cluster("so is its end: cancelled, lost, or with the cluster", {
  cl <- local_cluster(2)
  source <- task_submit(cl, function() Sys.sleep(60)) # tidy: it is cancelled
  needs <- task_submit(cl, identity, source)
  waits <- task_submit(cl, identity, source)
  expect_true(task_cancel(waits))
  expect_error(task_value(waits), class = "muster_error_cancelled")
  expect_identical(task_done(list(source, needs, waits)), c(FALSE, FALSE, TRUE))
  task_cancel(source)
  expect_error(task_value(needs), "was cancelled", class = "muster_error_needs")
  killer <- task_submit(cl, function() tools::pskill(Sys.getpid(), 9L), .retries = 0)
  needs <- task_submit(cl, identity, killer)
  suppressMessages(expect_error(task_value(needs), class = "muster_error_needs"))
  late <- task_submit(cl, function() Sys.sleep(60), .timeout = 0.1) # tidy: it is ended
  error <- tryCatch(task_value(task_submit(cl, identity, late)), error = identity)
  expect_s3_class(error, c("muster_error_needs", "muster_error"))
  expect_s3_class(error$cause, "muster_error_timeout")
  source <- task_submit(cl, function() Sys.sleep(60)) # tidy: the cluster is stopped
  needs <- task_submit(cl, identity, source)
  cluster_stop(cl)
  expect_error(task_value(needs), class = "muster_error_lost")
})

test_cluster("options of tasks are those of tasks that need others", {
  cl <- local_cluster(2)
  source <- task_submit(cl, slow(2))
  draws <- function(n) rnorm(n)
  expect_identical(
    task_value(task_submit(cl, draws, source, .seed = 7)),
    task_value(task_submit(cl, draws, 2, .seed = 7))
  )
  k <- 10
  plus <- function(x) x + k + task_offset
  assign("task_offset", 5, globalenv())
  defer(function() rm("task_offset", envir = globalenv()))
  expect_identical(task_value(task_submit(cl, plus, source)), 17)
  tries <- file.path(local_folder(), "tries")
  fails <- function(x) {
    cat(".", file = tries, append = TRUE)
    if (file.size(tries) < 3) stop("again") else x
  }
  value <- suppressMessages(task_value(task_submit(cl, fails, source, .error_retries = 2)))
  expect_identical(value, 2)
  slow_two <- function(x) Sys.sleep(60) # tidy: it is ended
  expect_error(task_value(task_submit(cl, slow_two, source, .timeout = 0.1)),
    class = "muster_error_timeout"
  )
})

test_cluster("what can't stand for a value is refused by name", {
  cl <- local_cluster(1)
  other <- local_cluster(1)
  input <- function(...) expect_error(..., class = "muster_error_input")
  task <- task_submit(cl, function() 1)
  input(task_submit(other, identity, task), "another cluster")
  input(task_submit(cl, identity, task_map(cl, 1:2, identity)), "map")
  input(task_submit(cl, identity, structure(list(a = task), class = "box")), "`..1\\$a`")
  input(task_submit(cl, identity, x = structure(list(a = task), class = "box")), "`x\\$a`")
  input(task_submit(cl, identity, unserialize(serialize(task, NULL))), "outside the process")
  input(cluster_map(cl, list(1, task), identity), "is a task")
  input(cluster_map(cl, 1:2, function(x, y) y, task), "is a task")
  input(task_map(cl, list(1, task), identity), "is a task")
  opened <- task_submit(cl, function() file(tempfile(), "w"))
  error <- tryCatch(task_value(task_submit(cl, identity, opened)), error = identity)
  expect_s3_class(error, "muster_error_input")
  expect_match(conditionMessage(error), "contains a connection")
  stopped <- task_submit(other, function() 1)
  task_value(stopped)
  cluster_stop(other)
  input(task_submit(cl, identity, stopped), "another cluster")
})

test_cluster("globals may have tasks in them, and errors of tasks", {
  cl <- local_cluster(1)
  task <- task_submit(cl, function() 1)
  failed <- task_submit(cl, identity, task_submit(cl, function() stop("boo")))
  globals <- list(
    needs_g = list(task, new.env()), needs_m = task_map(cl, 1:2, identity),
    needs_e = tryCatch(task_value(failed), error = identity)
  )
  list2env(globals, globalenv())
  defer(function() rm(list = names(globals), envir = globalenv()))
  in_global <- function(f) plain(f)
  expect_identical(task_value(task_submit(cl, in_global(function() length(needs_g)))), 2L)
  expect_identical(task_value(task_submit(cl, in_global(function(x) length(needs_g) + x), task)), 3)
  expect_true(task_value(task_submit(cl, in_global(function() is.environment(needs_m)))))
  expect_true(task_value(task_submit(cl, in_global(function() inherits(needs_e, "error")))))
  expect_identical(unlist(cluster_map(cl, 1:2, in_global(function(x) length(needs_g)))), c(2L, 2L))
})

test_cluster("references are refused as the session's option says", {
  cl <- local_cluster(1)
  task <- task_submit(cl, function() 1)
  con <- file(file.path(local_folder(), "open"), "w")
  defer(function() close(con))
  expect_error(task_submit(cl, function(x, y) 1, task, con), "`..2` is a connection",
    class = "muster_error_input"
  )
  old <- options(muster.references = "ignore")
  defer(function() options(old))
  opened <- task_submit(cl, function() file()) # an anonymous one
  expect_identical(task_value(task_submit(cl, function(x) class(x)[1L], opened)), "file")
})

test_cluster("without descriptors for copies, values that are there go by the session", {
  cl <- local_cluster(1)
  n <- 270L # more than a session keeps segments open
  tasks <- lapply(1:n, function(i) task_submit(cl, function(i) numeric(4e4) + i, i))
  task_wait(tasks)
  last <- task_submit(cl, slow(1))
  sum_of <- function(x, y) sum(vapply(x, `[`, 0, 1L)) + y
  expect_identical(task_value(task_submit(cl, sum_of, tasks, last)), sum(1:n) + 1)
})

test_cluster("what a worker's state needs is replayed, and costs workers nothing", {
  cl <- local_cluster(1)
  jobs <- function() length(ls(getFromNamespace("the_worker", "muster")$jobs))
  descriptors <- function() length(list.files("/proc/self/fd"))
  before <- clusterCall(cl, descriptors)[[1L]]
  for (i in 1:20) {
    source <- task_submit(cl, function(i) numeric(4e4) + i, i)
    changes <- task_submit(cl, function(x, i) {
      assign("task_needs", x[i], globalenv())
      i
    }, source, i)
    task_value(changes)
  }
  expect_lte(clusterCall(cl, jobs)[[1L]], 3L)
  expect_lte(clusterCall(cl, descriptors)[[1L]], before + 3L)
  tools::pskill(clusterCall(cl, Sys.getpid)[[1L]], 9L)
  value <- suppressMessages(clusterEvalQ(cl, task_needs))
  expect_identical(value, list(20))
})

test_cluster("workers forget results that nobody needs", {
  cl <- local_cluster(1)
  jobs <- function() length(ls(getFromNamespace("the_worker", "muster")$jobs))
  last <- task_submit(cl, slow(0))
  for (i in 1:30) last <- task_submit(cl, function(x) x + 1, last)
  fails <- task_submit(cl, function(x) stop("no"), last)
  expect_error(task_value(fails), class = "muster_error_remote")
  expect_lte(clusterCall(cl, jobs)[[1L]], 2L) # the functions
})
