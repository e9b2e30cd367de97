# What cluster_results() gives when a map was ended early.

test_cluster("what was done is there after an interrupt, an error or a jump", {
  cl <- local_cluster(1)
  session <- Sys.getpid()
  interrupts <- function(i) {
    if (i == 4) {
      tools::pskill(session, tools::SIGINT)
      Sys.sleep(600) # tidy: until it is ended
    }
    i * 10
  }
  x <- c(a = 1, b = 2, c = 3, d = 4, e = 5)
  told <- NULL
  # Each element is a piece.
  ended <- withCallingHandlers(
    tryCatch(cluster_map(cl, x, interrupts, .retries = 0, .timeout = 900),
      interrupt = function(e) "interrupted"
    ),
    muster_message_ended = function(m) {
      told <<- conditionMessage(m)
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(ended, "interrupted")
  expect_identical(cluster_results(), list(a = 10, b = 20, c = 30, d = NULL, e = NULL))
  expect_identical(told, "3 of 5 elements have a result: see cluster_results().\n")
  said <- capture_messages(error <- tryCatch(
    cluster_map(cl, x, function(x) if (x == 2) stop("two") else x), error = identity
  ))
  expect_false(any(grepl("have a result", said))) # the error says where they are
  expect_identical(cluster_results()[["a"]], 1)
  expect_identical(unname(cluster_results()), unname(error$results))
  left <- tryCatch(
    cluster_map(cl, x, function(x) if (x == 2) warning("two") else x), warning = function(w) "left"
  )
  expect_identical(left, "left")
  expect_identical(cluster_results()[c("a", "b")], list(a = 1, b = "two"))
  # Left while the results of several pieces are taken. A handler knows that it leaves.
  said <- capture_messages(tryCatch(
    cluster_map(cl, x, function(x) {
      if (x == 3) warning("three")
      x
    }, .retries = 0, .timeout = 900),
    warning = function(w) "left"
  ))
  expect_identical(said, character())
  expect_identical(cluster_results()[c("a", "b", "c")], list(a = 1, b = 2, c = 3))
  cluster_map(cl, 1:2, identity)
  expect_null(cluster_results())
})

test_cluster("with .on_error = \"return\" an interrupt leaves values and conditions", {
  cl <- local_cluster(1)
  session <- Sys.getpid()
  ends <- function(i) {
    if (i == 1) stop("one")
    if (i == 2) {
      return("two")
    }
    tools::pskill(session, tools::SIGINT)
    Sys.sleep(600) # tidy: until it is ended
  }
  suppressMessages(tryCatch(
    cluster_map(cl, 1:3, ends, .on_error = "return", .retries = 0, .timeout = 900),
    interrupt = function(e) NULL
  ))
  results <- cluster_results()
  # The first one's condition is made when its answer is taken, which the interrupt may have left.
  if (!is.null(results[[1L]])) expect_s3_class(results[[1L]], "muster_error_remote")
  expect_identical(results[2:3], list("two", NULL))
})
