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
  # One that needs another.
  slow <- task_submit(cl, function() {
    Sys.sleep(0.1) # tidy: so that the other waits
    20
  })
  expect_identical(outcomes(list(task_submit(cl, sum, 1, slow))), list(list(value = 21)))
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
  expect_length(the_parallel$promises, 0L)
  expect_length(the_parallel$listens, 0L)
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
  wait_until({ # not run_loop_until(), which also runs the loop outside of the handler
    tryCatch(later::run_now(0.1), warning = function(w) jumps <<- jumps + 1L)
    !any(vapply(got, is.null, NA))
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

test_cluster("a map is a promise of its list, or of its first error", {
  skip_without_promises()
  cl <- local_cluster(2)
  folder <- local_folder()
  maps <- list(
    task_map(cl, c(a = 1, b = 2), function(x) x^2),
    task_map(cl, 1:50, function(i) if (i == 30) stop("thirty") else i),
    task_map(cl, 1:200, function(i) {
      died <- file.path(folder, "died")
      if (i == 150 && !file.exists(died)) {
        file.create(died)
        tools::pskill(Sys.getpid(), tools::SIGKILL)
      }
      i
    }),
    task_map(cl, integer(), sqrt)
  )
  got <- healed(outcomes(maps))$value
  expect_identical(got[[1L]]$value, list(a = 1, b = 4))
  expect_identical(got[[2L]]$error$element, 30L)
  expect_identical(got[[3L]]$value, as.list(1:200))
  expect_identical(got[[4L]]$value, list())
  expect_length(the_parallel$promises, 0L)
})

test_cluster("a handler of a map's warnings may run the event loop, or leave it", {
  skip_without_promises()
  cl <- local_cluster(1)
  folder <- local_folder()
  # The map goes on when there is a promise of it.
  warning_map <- function(word) {
    word <- file.path(folder, word)
    map <- task_map(cl, 1:3, function(i) {
      while (!file.exists(word)) Sys.sleep(0.01) # tidy: the test's word
      if (i == 2) warning("careful")
      i
    })
    promise <- promises::as.promise(map)
    file.create(word)
    promise
  }
  got <- withCallingHandlers(outcomes(list(warning_map("one"), task_submit(cl, sum, 1, 2))),
    warning = function(w) {
      later::run_now(0)
      invokeRestart("muffleWarning")
    }
  )
  expect_identical(got, list(list(value = as.list(1:3)), list(value = 3)))
  got <- NULL
  put <- function(value) got <<- value
  promises::then(warning_map("two"), put, put)
  left <- tryCatch(run_loop_until(function() got), warning = function(w) "left")
  expect_identical(left, "left")
  expect_s3_class(run_loop_until(function() got), "muster_error_cancelled")
  expect_true(run_loop_until(function() if (later::loop_empty()) TRUE))
})

test_cluster("promises of an event loop that is gone don't keep others from being settled", {
  skip_without_promises()
  cl <- local_cluster(2)
  word <- file.path(local_folder(), "word")
  waits <- function() {
    while (!file.exists(word)) Sys.sleep(0.01) # tidy: the test's word
    "done"
  }
  later::with_temp_loop(promises::then(task_submit(cl, waits), print))
  got <- NULL
  promises::then(task_submit(cl, waits), function(value) got <<- value)
  file.create(word)
  expect_identical(run_loop_until(function() got), "done")
  expect_true(run_loop_until(function() if (later::loop_empty()) TRUE))
  expect_length(the_parallel$promises, 0L)
})

test_cluster("a promise is settled though a handler of its map ran event loops meanwhile", {
  skip_without_promises()
  cl <- local_cluster(2)
  folder <- local_folder()
  # The first element waits until it may warn, the others until the handler of that is done.
  maps <- function(word) {
    word <- file.path(folder, word)
    task_map(cl[1L], 1:3, function(i) {
      while (!file.exists(if (i == 1) paste0(word, "-go") else word)) Sys.sleep(0.01) # tidy: a word
      if (i == 1) warning("first")
      i
    })
  }
  go <- function(word) file.create(file.path(folder, paste0(word, "-go")))
  # Makes another promise and runs the loop until that is settled.
  on_warning <- function(word) {
    function(w) {
      other <- NULL
      promises::then(task_submit(cl[2L], function() "other"), function(value) other <<- value)
      run_loop_until(function() other)
      file.create(file.path(folder, word))
      run_loop_until(function() {
        later::run_now(0.01)
        if (any(cluster_status(cl[1L])$state == "idle")) TRUE
      })
      expect_identical(other, "other")
      invokeRestart("muffleWarning")
    }
  }
  got <- NULL
  put <- function(value) got <<- value
  # Within the loop, by asking for the map, and when the promise is made.
  map <- maps("one")
  promises::then(map, put)
  go("one")
  withCallingHandlers(run_loop_until(function() got), warning = on_warning("one"))
  expect_identical(got, as.list(1:3))
  got <- NULL
  map <- maps("two")
  promises::then(map, put)
  go("two")
  withCallingHandlers(task_value(map), warning = on_warning("two"))
  expect_identical(run_loop_until(function() got), as.list(1:3))
  got <- NULL
  map <- maps("three")
  go("three")
  wait_until(any(vapply(map$tasks, task_done, NA)))
  withCallingHandlers(promises::then(map, put), warning = on_warning("three"))
  expect_identical(run_loop_until(function() got), as.list(1:3))
  expect_true(run_loop_until(function() if (later::loop_empty()) TRUE))
})

test_cluster("promises of another process or session aren't touched", {
  skip_without_promises()
  skip_without_fork()
  cl <- local_cluster(1)
  word <- file.path(local_folder(), "word")
  got <- NULL
  map <- task_map(cl, 1:2, function(i) {
    while (!file.exists(word)) Sys.sleep(0.01) # tidy: the test's word
    i
  })
  promises::then(map, function(value) got <<- value, function(error) got <<- error)
  in_child <- parallel::mccollect(parallel::mcparallel({
    tasks_are_over(later::current_loop()) # as a turn that was due would
    c(length(the_parallel$promises), length(the_parallel$listens), is.null(got))
  }))[[1L]]
  expect_identical(in_child, c(0L, 0L, 1L))
  file <- file.path(local_folder(), "map.rds")
  saveRDS(map, file)
  expect_error(promises::as.promise(readRDS(file)), "outside the process",
    class = "muster_error_input")
  file.create(word)
  expect_identical(run_loop_until(function() got), list(1L, 2L))
})

test_cluster("unloading rejects the promises that are left", {
  skip_without_promises()
  cl <- local_cluster(1)
  got <- NULL
  promises::then(task_submit(cl, Sys.sleep, 60), NULL, function(error) got <<- error)
  reject_promises() # as .onUnload() does
  expect_match(conditionMessage(run_loop_until(function() got)), "after muster was unloaded")
  expect_length(the_parallel$promises, 0L)
  expect_true(run_loop_until(function() if (later::loop_empty()) TRUE))
})
