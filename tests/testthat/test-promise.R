# Promises of tasks, in event loops of package later.

# later keeps a thread for descriptors, and muster a pipe, once there was a promise.
if (has_later()) {
  later::later_fd(function(ready) NULL, .Call(ffi_notify, FALSE), timeout = 0)
  later::run_now(1)
}

skip_without_promises <- function() {
  skip_if_not(has_later(), "later >= 1.4.0 or promises isn't here")
}

# Runs the event loop until a function has given something other than NULL, and gives that.
run_loop_until <- function(get, timeout_s = 60) {
  end <- now_seconds() + timeout_s
  while (is.null(got <- get()) && now_seconds() < end) later::run_now(0.1)
  got
}

# What promises become: a list with a value, or an error, for each.
outcomes <- function(promises) {
  got <- vector("list", length(promises))
  for (i in seq_along(promises)) {
    local({
      i <- i
      promises::then(promises[[i]],
        onFulfilled = function(value) got[[i]] <<- list(value = value),
        onRejected = function(error) got[[i]] <<- list(error = error)
      )
    })
  }
  run_loop_until(function() if (!any(vapply(got, is.null, NA))) got)
}

test_cluster("a task is a promise of its value, or of its error", {
  skip_without_promises()
  cl <- local_cluster(2)
  tasks <- list(
    task_submit(cl, function(x) x^2, 7), task_submit(cl, function() stop("it failed")),
    task_submit(cl, function() NULL)
  )
  got <- outcomes(tasks)
  expect_identical(got[[1L]], list(value = 49))
  expect_s3_class(got[[2L]]$error, "muster_error_remote")
  expect_match(conditionMessage(got[[2L]]$error), "it failed")
  expect_identical(got[[3L]], list(value = NULL))
  # One that was over before.
  expect_identical(outcomes(tasks[1L]), list(list(value = 49)))
  expect_true(task_done(tasks[[1L]]))
  both <- promises::promise_all(a = task_submit(cl, sum, 1, 2), b = task_submit(cl, sum, 3))
  expect_identical(outcomes(list(both)), list(list(value = list(a = 3, b = 3))))
})

test_cluster("the event loop runs other things until a task is over, and asks for nothing", {
  skip_without_promises()
  cl <- local_cluster(1)
  folder <- local_folder()
  go <- file.path(folder, "go")
  task <- task_submit(cl, function() {
    while (!file.exists(go)) Sys.sleep(0.01) # tidy: the session's word
    "done"
  })
  got <- NULL
  promises::then(task, function(value) got <<- value)
  ran <- 0L
  step <- function() {
    ran <<- ran + 1L
    if (ran == 20L) file.create(go) else later::later(step, 0.01)
  }
  step()
  expect_identical(run_loop_until(function() got), "done")
  expect_identical(ran, 20L)
  expect_length(the$promised, 0L)
  expect_length(the$listens, 0L)
  expect_true(run_loop_until(function() if (later::loop_empty()) TRUE))
})

test_cluster("many promises are settled, each once, in any loop", {
  skip_without_promises()
  cl <- local_cluster(2)
  got <- outcomes(lapply(1:500, function(i) task_submit(cl, function(x) x, i)))
  expect_identical(lapply(got, `[[`, "value"), as.list(1:500))
  value <- NULL
  later::with_temp_loop({
    promises::then(task_submit(cl, sum, 1, 1), function(x) value <<- x)
    for (k in 1:600) if (is.null(value)) later::run_now(0.1)
  })
  expect_identical(value, 2)
})

test_cluster("a handler that jumps ends one promise, and the others are settled", {
  skip_without_promises()
  cl <- local_cluster(1)
  go <- file.path(local_folder(), "go")
  tasks <- lapply(1:4, function(i) {
    task_submit(cl, function(i) {
      while (!file.exists(go)) Sys.sleep(0.01) # tidy: until all have promises
      if (i == 2) warning("careful")
      i
    }, i)
  })
  got <- vector("list", 4)
  for (i in 1:4) {
    local({
      i <- i
      put <- function(value) got[[i]] <<- value
      promises::then(tasks[[i]], put, function(e) put("left"))
    })
  }
  file.create(go)
  task_wait(tasks)
  jumps <- 0L
  run_loop_until(function() {
    tryCatch(later::run_now(0.1), warning = function(w) jumps <<- jumps + 1L)
    if (!any(vapply(got, is.null, NA))) got
  })
  expect_identical(got, list(1L, "left", 3L, 4L))
  expect_identical(jumps, 1L)
  expect_true(run_loop_until(function() if (later::loop_empty()) TRUE))
})

test_cluster("each event loop settles its own promises", {
  skip_without_promises()
  cl <- local_cluster(1)
  outside <- inside <- NULL
  task <- task_submit(cl, function() "outside")
  promises::then(task, function(value) outside <<- value)
  later::with_temp_loop({
    promises::then(task_submit(cl, function() "inside"), function(value) inside <<- value)
    for (k in 1:600) if (is.null(inside)) later::run_now(0.1)
  })
  expect_identical(inside, "inside")
  expect_null(outside)
  expect_identical(run_loop_until(function() outside), "outside")
})

test_cluster("a promise survives its worker; one that is cancelled or stopped is rejected", {
  skip_without_promises()
  cl <- local_cluster(1)
  folder <- local_folder()
  died <- file.path(folder, "died")
  task <- task_submit(cl, function() {
    if (!file.exists(died)) {
      file.create(died)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    "healed"
  })
  expect_identical(healed(outcomes(list(task)))$value, list(list(value = "healed")))
  long <- function() repeat Sys.sleep(0.1) # tidy: until it is ended
  tasks <- list(task_submit(cl, long), task_submit(cl, long))
  later::later(function() task_cancel(tasks[[1L]]), 0.05)
  expect_match(conditionMessage(outcomes(tasks[1L])[[1L]]$error), "cancelled")
  later::later(function() cluster_stop(cl), 0.05)
  expect_match(conditionMessage(outcomes(tasks[2L])[[1L]]$error), "stopped")
})

test_cluster("warnings and messages come before the promise is settled", {
  skip_without_promises()
  cl <- local_cluster(1)
  seen <- character()
  task <- task_submit(cl, function() {
    message("hello")
    warning("careful")
    1
  })
  got <- withCallingHandlers(outcomes(list(task)),
    warning = function(w) {
      seen <<- c(seen, conditionMessage(w))
      invokeRestart("muffleWarning")
    },
    message = function(m) {
      seen <<- c(seen, conditionMessage(m))
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(got, list(list(value = 1)))
  expect_identical(seen, c("hello\n", "careful"))
})
