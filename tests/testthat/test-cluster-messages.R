# What errors and messages say: calls that led to an error, crashes, limits, large frames.

test_cluster("an error shows the calls that led there, and names task_debug()", {
  cl <- local_cluster(2)
  inner <- remote(function(i) if (i > 1) stop("deep ", i) else i)
  outer <- function(i, inner) inner(i) + 1
  environment(outer) <- globalenv()
  error <- expect_error(cluster_map(cl, 1:4, outer, inner), class = "muster_error_remote")
  expect_match(conditionMessage(error), paste0(
    "^Element 2 raised an error: deep 2\nx In: inner[(]i[)]\nx On worker [12]\n",
    "i task_debug[(][)] evaluates it again"
  ))
  nested <- remote(function(i) {
    first <- function(i) second(i)
    second <- function(i) third(i)
    third <- function(i) stop("here")
    first(i)
  })
  error <- expect_error(task_value(task_submit(cl, nested, 1)), class = "muster_error_remote")
  expect_match(conditionMessage(error), "In: third(i)\nx Called by: second(i), by first(i)",
    fixed = TRUE)
  expect_match(error$stack, "first(i)", fixed = TRUE, all = FALSE)
})

test_cluster("the error of a map is that of its first element in order, however late", {
  cl <- local_cluster(2)
  word <- file.path(local_folder(), "word")
  f <- remote(function(i, word) {
    if (i == 2) {
      file.create(word)
      stop("second")
    }
    while (!file.exists(word)) Sys.sleep(0.01) # tidy: until the other has failed
    if (i == 1) stop("first")
    i
  })
  error <- expect_error(cluster_map(cl, 1:4, f, word), "Element 1 raised an error: first")
  expect_identical(error$element, 1L)
})

test_cluster("a crash prints the user's part of the traceback only", {
  cl <- local_cluster(1)
  crash <- remote(function() tools::pskill(Sys.getpid(), 11L))
  said <- function(code) {
    error <- suppressMessages(expect_error(code, class = "muster_error_lost"))
    lines <- cluster_logs(cl)$line
    expect_match(lines, "caught segfault", all = FALSE)
    expect_match(lines, "tools::pskill(", fixed = TRUE, all = FALSE)
    expect_no_match(lines, "ffi_|serve_calls|task_attempt")
    expect_no_match(conditionMessage(error), "ffi_|serve_calls|task_attempt")
    expect_match(conditionMessage(error), "tools::pskill", fixed = TRUE)
  }
  said(task_value(task_submit(cl, crash, .retries = 0)))
  said(cluster_map(cl, 1, remote(function(i) tools::pskill(Sys.getpid(), 11L))))
  said(clusterEvalQ(cl, tools::pskill(Sys.getpid(), 11L)))
})

test_cluster("an error of a time limit names the limit that there was", {
  cl <- local_cluster(1, timeout = 30, retries = 0)
  long <- remote(function(i) Sys.sleep(60))
  expect_error(task_value(task_submit(cl, long, 1, .timeout = 0.2)),
    "^The task took longer than `.timeout`, 0.20 s,", class = "muster_error_timeout")
  expect_error(cluster_map(cl, 1, long, .timeout = 0.2),
    "Element 1 took longer than `.timeout`, 0.20 s,", class = "muster_error_timeout")
  short <- local_cluster(1, timeout = 0.2, retries = 0)
  expect_error(task_value(task_submit(short, long, 1)),
    "^The task took longer than the cluster's `timeout`, 0.20 s,", class = "muster_error_timeout")
})

test_cluster("a variable that is locked in the worker is named as such", {
  cl <- local_cluster(1)
  local_globals()
  assign("of_both", 2, envir = globalenv())
  clusterEvalQ(cl, {
    of_both <- 1
    lockBinding("of_both", globalenv())
  })
  uses <- function(i) of_both
  environment(uses) <- globalenv()
  error <- expect_error(cluster_map(cl, 1, uses), "`?of_both", class = "muster_error_remote")
  expect_match(conditionMessage(error), "locked there", fixed = TRUE)
  expect_no_match(conditionMessage(error), "list2env|lend_globals")
})

test_cluster("a compact sequence counts as what is sent of it", {
  cl <- local_cluster(1)
  local_globals()
  assign("many", seq_len(4e8), envir = globalenv())
  counts <- function(i) length(many)
  environment(counts) <- globalenv()
  expect_silent(got <- cluster_map(cl, 1, counts))
  expect_identical(got, list(400000000L))
  local_globals()
  assign("many", rep(0.5, 1000), envir = globalenv())
  local_settings(muster.globals_max = 7000)
  expect_error(cluster_map(cl, 1, counts), "`many`: 8,048 bytes", class = "muster_error_limit")
})

test_cluster("large data where a task's function was made are named once", {
  cl <- local_cluster(1)
  app <- new.env(parent = globalenv())
  app$flights <- numeric(2e6)
  app$few <- 1
  delayedAssign("lazy", stop("evaluated"), assign.env = app)
  makeActiveBinding("active", function() stop("evaluated"), app)
  adds <- local(function(x) x + few, app)
  said <- expect_message(task <- task_submit(cl, adds, 1), class = "muster_message_large")
  expect_match(conditionMessage(said), "^`flights` [(]16 MB[)] is where your function was made")
  expect_identical(task_value(task), 2)
  expect_silent(expect_identical(task_value(task_submit(cl, adds, 2)), 3))
})
