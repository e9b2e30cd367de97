# Package future's backend. All of future's own conformance suite runs in
# tests/full/test-parallel-future.R.

skip_without_future <- function() skip_if_not_installed("future", "1.40.0")

# It attaches itself, and sets options, when the first future is evaluated here.
if (requireNamespace("future", quietly = TRUE)) {
  future::plan("sequential")
  future::value(future::future(1))
}

# A plan until the calling block ends.
local_plan <- function(..., frame = parent.frame()) {
  skip_without_future()
  future::plan(muster_future, ...)
  defer(function() future::plan("sequential"), frame)
  future::plan("backend")
}

# Futures from code, with what it uses of the calling frame.
futures <- function(x, fun, ...) {
  lapply(x, function(x) future::future(fun(x), ...))
}

immediate <- function(text) {
  structure(class = c("immediateCondition", "message", "condition"),
    list(message = text, call = NULL)
  )
}

# What `code` signals at once, in its order.
heard <- function(code) {
  said <- character()
  value <- withCallingHandlers(code, immediateCondition = function(c) {
    said <<- c(said, conditionMessage(c))
    invokeRestart("muffleMessage")
  })
  list(said = said, value = value)
}

test_cluster("futures are evaluated by workers, with globals, packages, seeds and errors", {
  local_seed(1)
  backend <- local_plan(workers = 2)
  expect_s3_class(backend, "MusterFutureBackend")
  expect_identical(future::nbrOfWorkers(), 2L)
  expect_identical(future::nbrOfFreeWorkers(), 2L)
  y <- 10
  twice <- function(x) 2 * x + y
  expect_identical(future::value(futures(1:5, twice)), lapply(1:5, twice))
  pids <- future::value(futures(1:4, function(x) Sys.getpid()))
  expect_false(Sys.getpid() %in% unlist(pids))
  random <- function() {
    set.seed(42)
    future::value(futures(1:3, function(x) stats::rnorm(x), seed = TRUE))
  }
  far <- random()
  old <- future::plan("sequential")
  expect_identical(far, random())
  future::plan(old) # its workers had ended
  expect_identical(far, random())
  expect_error(future::value(future::future(stop("boo"))), "^boo$", class = "simpleError")
  expect_identical(future::value(future::future(file_ext("a.b"), packages = "tools")), "b")
  shown <- capture.output(value <- future::value(future::future({
    cat("one\n")
    2
  })))
  expect_identical(list(shown, value), list("one", 2))
  expect_warning(future::value(future::future(warning("careful"))), "careful")
})

test_cluster("what a future doesn't capture of its output is shown as its worker's", {
  local_settings(muster.quiet = FALSE)
  local_plan(workers = I(1))
  shown <- function(stdout) {
    capture.output(future::value(future::future(cat("said\n"), stdout = stdout)))
  }
  expect_identical(shown(NA), "worker 1: said")
  expect_identical(shown(FALSE), character())
  expect_identical(shown(TRUE), "said")
  options(muster.quiet = TRUE)
  expect_identical(shown(NA), character())
})

test_cluster("conditions are relayed at once, by whatever waits, and each once", {
  folder <- local_folder()
  local_plan(workers = I(1))
  go <- file.path(folder, "go")
  speak <- function(x) {
    message(immediate("one"))
    while (!file.exists(go)) Sys.sleep(0.01) # tidy: the session's answer
    message(immediate("two"))
    x
  }
  f <- future::future(speak(3))
  first <- heard(while (!length(f[[".signaledConditions"]])) future::resolved(f))
  expect_identical(first$said, "one")
  expect_false(future::resolved(f))
  expect_identical(future::nbrOfFreeWorkers(), 0L)
  file.create(go)
  # The next future waits for this one, and relays it.
  other <- heard(future::future(4))
  expect_identical(other$said, "two")
  last <- heard(future::value(f))
  expect_identical(last$value, 3)
  expect_identical(future::value(other$value), 4)
  expect_identical(last$said, character())
})

test_cluster("a future whose worker is killed is tried again, and says nothing twice", {
  skip_without_checkpoints()
  folder <- local_folder()
  local_plan(workers = I(1))
  died <- file.path(folder, "died")
  f <- future::future({
    message(immediate("one"))
    if (!file.exists(died)) {
      file.create(died)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    message(immediate("two"))
    5
  })
  got <- healed(heard(future::value(f)))
  expect_identical(got$value, list(said = c("one", "two"), value = 5))
  expect_identical(got$messages, "muster_message_restarted")
})

test_cluster("a future that kills each worker is an error that says so", {
  local_plan(workers = I(1), retries = 0)
  f <- future::future(tools::pskill(Sys.getpid(), tools::SIGKILL), label = "deadly")
  got <- healed(tryCatch(future::value(f), error = identity))$value
  expect_s3_class(got, "FutureInterruptError")
  expect_s3_class(got$parent, "muster_error_lost")
  expect_match(conditionMessage(got), "deadly.*signal 9")
  expect_identical(future::value(future::future(1)), 1)
})

test_cluster("cancel() ends the work, not the worker", {
  skip_if_not_installed("future", "1.49.0")
  folder <- local_folder()
  local_plan(workers = I(1))
  pid <- future::value(future::future(Sys.getpid()))
  began <- file.path(folder, "began")
  f <- future::future({
    file.create(began)
    repeat Sys.sleep(0.1) # tidy: until it is cancelled
  })
  wait_until(file.exists(began))
  future::cancel(f)
  expect_true(future::resolved(f))
  expect_error(future::value(f), class = "FutureInterruptError")
  expect_identical(future::value(future::future(Sys.getpid())), pid)
})

test_cluster("a future leaves nothing behind in its worker", {
  local_seed(1)
  cl <- local_cluster(1)
  x <- 1
  clusterExport(cl, "x", environment())
  local_plan(workers = cl)
  f <- future::future({
    assign("x", 2, envir = globalenv())
    assign("y", 3, envir = globalenv())
    options(digits = 3)
    set.seed(1)
    stats::runif(1)
  }, seed = TRUE)
  expect_length(future::value(f), 1L)
  expect_identical(
    clusterEvalQ(cl, list(x, ls(globalenv()), getOption("digits"))), list(list(1, "x", 7L))
  )
  future::plan("sequential")
  expect_identical(cluster_status(cl)$state, "idle") # it is its user's
})

test_cluster("workers of a plan end with it, and those of nested plans are used again", {
  skip_if_limited()
  backend <- local_plan(workers = 2)
  pids <- node_pids(backend[["cluster"]])
  known <- processes(pids)
  future::plan(list(future::tweak(muster_future, workers = I(1)),
    future::tweak(muster_future, workers = 2)
  ))
  wait_until(!any(still_exists(known)))
  inner <- function() {
    future::value(future::future({
      fs <- lapply(1:4, function(i) future::future(Sys.getpid()))
      c(Sys.getpid(), sort(unique(unlist(future::value(fs)))))
    }))
  }
  first <- inner()
  expect_identical(anyDuplicated(first), 0L)
  expect_length(first, 3L)
  expect_identical(inner(), first)
})

test_cluster("`workers` may be a function, one, a cluster; others are errors", {
  skip_without_future()
  defer(function() future::plan("sequential"))
  future::plan(muster_future, workers = 1)
  expect_identical(future::value(future::future(Sys.getpid())), Sys.getpid())
  future::plan(muster_future, workers = function() I(1))
  expect_false(future::value(future::future(Sys.getpid())) == Sys.getpid())
  for (workers in list(-1, 0L, I(0), function() 0)) {
    expect_error(future::plan(muster_future, workers = workers), class = "muster_error_input")
  }
  expect_error(future::plan(muster_future, workers = structure(list(), class = "cluster")),
    class = "muster_error_input"
  )
  expect_error(future::plan(muster_future, workers = 2, retries = -1), class = "muster_error_input")
  expect_error(muster_future(workers = 2), "plan", class = "muster_error_input")
})

test_cluster("references go along, as future allows them", {
  local_plan(workers = I(1))
  con <- rawConnection(raw())
  defer(function() close(con))
  expect_s3_class(future::value(future::future({
    con
    stdin()
  })), "connection")
})

test_cluster("H8: plan() takes `packages` for all workers", {
  local_plan(workers = 2, packages = "splines")
  attached <- function(...) future::value(future::future("package:splines" %in% search(), ...))
  expect_true(attached())
  expect_true(attached(packages = "stats4"))
  expect_length(formals(future::plan("next"))$packages, 1L)
  local_plan(workers = 2)
  expect_false(attached())
  # Alone, in tweak(), with others, and again.
  one <- future::tweak(muster_future, packages = "splines")
  two <- future::tweak(future::tweak(one, workers = I(1)), packages = c("splines", "stats4"))
  expect_identical(attr(one, "tweaks"), list(packages = "splines"))
  future::plan(two)
  searched <- future::value(future::future(search()))
  expect_true(all(c("package:splines", "package:stats4") %in% searched))
  expect_error(future::plan(muster_future, packages = "splines", globals = "x"), "globals")
})

# A library with a package future of an old version, and nothing in it.
local_old_future <- function(frame = parent.frame()) {
  library <- local_folder(frame)
  source <- file.path(local_folder(frame), "future")
  dir.create(source)
  writeLines(c("Package: future", "Version: 1.33.2", "Title: Old", "License: MIT"),
    file.path(source, "DESCRIPTION")
  )
  file.create(file.path(source, "NAMESPACE"))
  system2(file.path(R.home("bin"), "R"), c("CMD", "INSTALL", "--no-docs", "-l", library, source),
    stdout = FALSE, stderr = FALSE
  )
  library
}

test_cluster("H8: an old future on a host is an error with its version and the host", {
  skip_without_future()
  skip_without_fork()
  libraries <- paste(c(local_old_future(), .libPaths()), collapse = ":")
  far <- launch_command(sub("R_LIBS=\\S+", paste0("R_LIBS=", libraries), host_command()), 1L, "far")
  said <- paste0(
    "Package future 1.33.2 on host \"", node_name(), "\" is too old: muster_future needs 1.40.0"
  )
  failed <- expect_error(future::plan(muster_future, workers = list(far)))
  expect_match(conditionMessage(failed), "on host \"far\"", fixed = TRUE)
  expect_match(conditionMessage(failed), said, fixed = TRUE)
  # A cluster that was there before.
  future::plan("sequential")
  cl <- local_cluster(far)
  local_plan(workers = cl)
  expect_error(future::value(future::future(1)), said, fixed = TRUE, class = "FutureError")
})
