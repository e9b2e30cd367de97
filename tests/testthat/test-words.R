# What errors and objects say of themselves.

test_cluster("U5: errors of maps name the element by its name, and are of the error's own class", {
  cl <- local_cluster(1)
  fails <- function(x) {
    if (x > 1) {
      stop(structure(
        class = c("no_fit", "error", "condition"),
        list(message = "it doesn't fit", call = NULL, residual = 3)
      ))
    }
    x
  }
  error <- tryCatch(cluster_map(cl, c(a = 1, b = 2), fails), no_fit = identity)
  expect_match(conditionMessage(error), "Element 2 (`b`) raised an error: it doesn't", fixed = TRUE)
  expect_s3_class(error, "muster_error_remote")
  expect_identical(error$residual, 3)
  expect_identical(error$element, 2L)
  expect_s3_class(error$condition, "no_fit")
  error <- tryCatch(cluster_map(cl, c(1, 2), fails), muster_error_remote = identity)
  expect_match(conditionMessage(error), "Element 2 raised an error", fixed = TRUE)
  task <- task_submit(cl, fails, 2)
  expect_identical(tryCatch(task_value(task), no_fit = function(e) e$residual), 3)
  # An ordinary error isn't of more classes than before.
  plain <- tryCatch(cluster_map(cl, 1, function(x) stop("plain")), error = class)
  expect_identical(plain,
    c("muster_error_remote", "muster_error", "simpleError", "error", "condition")
  )
  lost <- tryCatch(
    cluster_map(cl, c(first = 1), function(x) tools::pskill(Sys.getpid(), 9L), .retries = 0),
    muster_error_lost = identity
  )
  expect_match(conditionMessage(lost), "Element 1 (`first`)", fixed = TRUE)
})

test_cluster("U7: tasks that took too long, unknown options and many rows are told as they are", {
  cl <- local_cluster(1, timeout = 1)
  task <- task_submit(cl, function() Sys.sleep(60)) # tidy: slow
  expect_error(task_value(task), class = "muster_error_timeout")
  expect_match(format(task), "timed out", fixed = TRUE)
  error <- tryCatch(task_submit(cl, identity, 1, .speculate = 3), muster_error_input = identity)
  expect_match(conditionMessage(error), "`.speculate` isn't an argument", fixed = TRUE)
  expect_no_match(conditionMessage(error), "Do you mean")
  error <- tryCatch(task_submit(cl, identity, 1, .arg = 3), muster_error_input = identity)
  expect_match(conditionMessage(error), "Do you mean `.args`?", fixed = TRUE)
  p <- partition_scatter(cl, data.frame(x = raw(2e6)), parts = 1L)
  expect_match(format(p), "2,000,000 rows", fixed = TRUE)
})

test_that("U8: who is asked to report a mistake is told where", {
  where <- utils::packageDescription("muster", fields = c("URL", "BugReports"))
  expect_match(where$URL, "^https://")
  expect_match(where$BugReports, "^https://")
  failure <- tryCatch(abort_internal("x > 0 (a.c:1)", FALSE), muster_error_internal = identity)
  expect_match(conditionMessage(failure), where$BugReports, fixed = TRUE)
  lost <- tryCatch(job_get(0), muster_error_internal = identity)
  expect_match(conditionMessage(lost), where$BugReports, fixed = TRUE)
})

test_cluster("U5: errors speak of arguments as their user has written them", {
  cl <- local_cluster(1)
  con <- textConnection("text")
  defer(function() close(con))
  where <- function(code) tryCatch(code, muster_error_input = function(e) e$reference)
  expect_identical(where(cluster_map(cl, 1:2, function(i, k) 1, con)), "..1")
  expect_identical(where(cluster_map(cl, 1:2, function(i, k) 1, k = con)), "k")
  expect_identical(where(cluster_map(cl, list(1, con), function(i) 1)), ".x[[2]]")
  expect_identical(where(task_submit(cl, function(i, k) 1, 1, list(con))), "..2[[1]]")
  p <- partition_scatter(cl, data.frame(x = 1:4))
  wrong <- tryCatch(partition_summarise(p, .by = x, x = n()), error = identity)
  expect_identical(wrong$argument, "...")
})

test_that("whatever C knows to be wrong with a worker has words", {
  expect_setequal(names(whys), names(why_words))
  expect_identical(why_text(whys[["killed"]]), "it was ended by killNode()")
  expect_identical(why_text("what the worker said"), "what the worker said")
  expect_null(why_text(NULL))
})
