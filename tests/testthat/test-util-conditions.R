error_of <- function(code) tryCatch(code, error = identity)

kinds <- c(
  "input", "launch", "connect", "timeout", "lost", "remote", "protocol", "limit", "internal"
)

test_that("each kind of error has its own class besides those of all", {
  for (kind in kinds) {
    error <- error_of(abort_muster(kind, "It can't be done."))
    expect_identical(
      class(error),
      c(paste0("muster_error_", kind), "muster_error", "error", "condition")
    )
  }
})

test_that("facts become fields, next to message and call", {
  call <- quote(cluster_start(2))
  error <- error_of(
    abort_muster("launch", "No.", worker = 3L, pid = NULL, signal = 9L, call = call)
  )
  expect_identical(error$worker, 3L)
  expect_identical(error$signal, 9L)
  expect_null(error$pid)
  expect_identical(conditionCall(error), call)
  expect_identical(conditionMessage(error), "No.")
})

test_that("an error names the user's function, not the one that checks", {
  check <- function() abort_muster("input", "Bad.")
  exported <- function() check()
  expect_identical(conditionCall(error_of(exported())), quote(check()))
  check <- function(call = sys.call(-1)) abort_muster("input", "Bad.", call = call)
  expect_identical(conditionCall(error_of(exported())), quote(exported()))
})

test_that("an error can be without a call", {
  expect_null(conditionCall(error_of(abort_muster("input", "Bad.", call = NULL))))
})

test_that("problem, details and hints have lines of their own, in this order", {
  error <- error_of(abort_muster("connect", "Can't reach 2 of 16 workers within 30 s.",
    details = c("worker 5 (node07:11562): connection refused.", "worker 9: no route."),
    hints = c("Try it by hand.", "Or raise `connect_timeout_s`.")
  ))
  expect_snapshot(writeLines(conditionMessage(error)))
  expect_identical(
    conditionMessage(error_of(abort_muster("input", "Bad.", details = character(), hints = NULL))),
    "Bad."
  )
})

test_that("a message with per cent signs and braces is shown as it is", {
  error <- error_of(abort_muster("input", "100 % of {x} and %s", details = "%d {y}"))
  expect_identical(conditionMessage(error), "100 % of {x} and %s\nx %d {y}")
})

test_that("a warning has classes and can be muffled", {
  warned <- function() {
    warn_muster("nested", "Careful.", hints = "Think.", depth = 2L)
    "went on"
  }
  seen <- NULL
  value <- withCallingHandlers(warned(), muster_warning_nested = function(w) {
    seen <<- w
    invokeRestart("muffleWarning")
  })
  expect_identical(value, "went on")
  expect_identical(
    class(seen), c("muster_warning_nested", "muster_warning", "warning", "condition")
  )
  expect_identical(conditionMessage(seen), "Careful.\ni Think.")
  expect_identical(seen$depth, 2L)
  expect_null(conditionCall(seen))
})

test_that("a message has classes, ends its line and can be muffled", {
  local_settings(muster.quiet = NULL)
  seen <- NULL
  withCallingHandlers(inform_muster("spawn", "One by one.", details = "It refused."),
    muster_message_spawn = function(m) {
      seen <<- m
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(
    class(seen), c("muster_message_spawn", "muster_message", "message", "condition")
  )
  expect_identical(conditionMessage(seen), "One by one.\nx It refused.\n")
})

test_that("options(muster.quiet = TRUE) silences messages, but not warnings and errors", {
  local_settings(muster.quiet = TRUE)
  expect_silent(inform_muster("spawn", "One by one."))
  expect_warning(warn_muster("nested", "Careful."), class = "muster_warning_nested")
  expect_error(abort_muster("input", "Bad."), class = "muster_error_input")
  for (value in list(NULL, FALSE, NA, "yes")) {
    options(muster.quiet = value)
    expect_message(inform_muster("spawn", "One by one."), class = "muster_message_spawn")
  }
})

test_that("a promise broken in C becomes an error that says it's ours", {
  # Taken from the namespace, since nobody is meant to call it.
  routine <- getNamespace("muster")$ffi_assert_fail
  error <- error_of(.Call(routine))
  expect_s3_class(error, c("muster_error_internal", "muster_error", "error"), exact = FALSE)
  expect_null(conditionCall(error))
  expect_match(conditionMessage(error), "asked for by a test")
  expect_match(conditionMessage(error), "process[.]c:[0-9]+")
})

test_that("the session can be used after a broken promise", {
  routine <- getNamespace("muster")$ffi_assert_fail
  for (i in 1:3) {
    expect_error(.Call(routine), class = "muster_error_internal")
  }
  expect_error(cluster_start(-1), class = "muster_error_input")
})

test_that("C7: a promise broken in the middle of a verb closes all clusters, and nothing hangs", {
  skip_without_fork()
  limit_time(60)
  broken <- "muster_error_internal"
  for (start in c("fork", "spawn")) {
    cl <- cluster_start(2, start = start)
    workers <- node_processes(cl)
    tasks <- list(task_submit(cl, Sys.sleep, 1000), task_submit(cl, identity, 1))
    error <- error_of(.Call(ffi_session_assert))
    expect_s3_class(error, broken)
    expect_match(conditionMessage(error), "asked for by a test.*All clusters .* have been closed")
    # None of their verbs does anything else; and R goes on.
    expect_error(clusterCall(cl, identity, 1), "asked for by a test", class = broken)
    expect_error(cluster_map(cl, 1:3, identity), class = broken)
    expect_error(task_submit(cl, identity, 1), class = broken)
    expect_identical(task_wait(tasks), c(TRUE, TRUE))
    for (task in tasks) {
      expect_error(task_value(task), class = broken)
      expect_identical(format(task), "muster task of a cluster that was closed")
    }
    expect_error(cluster_status(cl), class = broken)
    if (Sys.getenv("_R_CHECK_LIMIT_CORES_") == "") {
      expect_error(cluster_resize(cl, 3), class = broken)
    }
    expect_match(format(cl), "stopped")
    expect_false(isNodeAlive(cl[[1L]]))
    # Another cluster works, though the first is only stopped after that.
    other <- cluster_start(2, start = start)
    expect_identical(clusterCall(other, identity, 1), list(1, 1))
    expect_null(cluster_stop(cl))
    expect_identical(clusterCall(other, identity, 2), list(2, 2))
    rm(cl, tasks)
    gc()
    cluster_stop(other)
    wait_until(!any(still_exists(workers)))
  }
})
