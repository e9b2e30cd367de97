# What a worker does with calls that ask at the console or leave R little to work with.

# What one worker answers to a call of f.
ask <- function(cl, f, ...) clusterCall(cl[1L], f, ...)[[1L]]

# Forked workers where the system has them, and booted ones.
starts <- function() if (.Call(ffi_can_fork)) c("fork", "spawn") else "spawn"

# What R would read from the keyboard comes from the script that booted the worker: nothing
# of the session's may stand there, and no file that has its descriptor.
test_cluster("code that reads from the console in a worker finds its end, and goes on", {
  answers <- expect_as_psock(list(
    browser = function(cl) {
      ask(cl, function() {
        browser()
        "went on"
      })
    },
    debug = function(cl) {
      ask(cl, function() {
        f <- function() {
          x <- 1
          x + 1
        }
        debug(f)
        f()
      })
    },
    all = function(cl) ask(cl, function() readLines(stdin())),
    one = function(cl) ask(cl, function() readLines(stdin(), 1L)),
    file = function(cl) ask(cl, function() readLines("stdin")),
    scan = function(cl) ask(cl, function() scan(n = 1L, quiet = TRUE)),
    text = function(cl) ask(cl, function() scan("stdin", "", quiet = TRUE)),
    code = function(cl) ask(cl, function() as.character(parse(stdin()))),
    readline = function(cl) ask(cl, function() readline("? ")),
    children = function(cl) ask(cl, function() system("cat", intern = TRUE)),
    menu = function(cl) ask(cl, function() tryCatch(menu("a"), error = conditionMessage)),
    recover = function(cl) {
      ask(cl, function() {
        options(error = recover)
        tryCatch(stop("boom"), error = conditionMessage)
      })
    },
    # Files that are opened later have other numbers.
    later = function(cl) {
      ask(cl, function() {
        path <- tempfile()
        writeLines(as.character(1:3), path)
        files <- lapply(1:20, function(i) file(path, "r"))
        read <- readLines(stdin())
        for (con in files) close(con)
        read
      })
    }
  ))
  # From R 4.5 on, browser() is an error where nobody can type.
  expect_match(answers$browser, "went on|non-interactive browser")
  expect_identical(answers[c("all", "later")], list(all = character(), later = character()))
})

test_cluster("code that reads from the console again and again takes none of muster's messages", {
  for (start in starts()) {
    cl <- local_cluster(1, start = start, heartbeat = 1, retries = 0)
    # As long as it takes for several questions whether the worker lives.
    expect_identical(ask(cl, function() {
      end <- Sys.time() + 2
      read <- character()
      while (Sys.time() < end) read <- c(read, readLines(stdin()))
      read
    }), character())
    cluster_stop(cl)
  }
})

test_cluster("a worker answers calls after options(expressions = ) was set low", {
  for (start in starts()) {
    cl <- local_cluster(1, start = start, timeout = 30)
    pid <- node_pids(cl)
    # This call itself may be too deep.
    try(ask(cl, function() {
      options(expressions = 25)
      1
    }), silent = TRUE)
    expect_identical(ask(cl, function() 1 + 1), 2)
    deep <- function(n) if (n > 0) sys.function()(n - 1) else "there"
    expect_error(ask(cl, deep, 1000), "nested too deeply")
    expect_error(ask(cl, function() stop("its own")), "its own")
    expect_identical(ask(cl, deep, 3), "there")
    expect_identical(clusterApply(cl, 1:2, function(i) i), list(1L, 2L))
    expect_identical(cluster_map(cl, 1:2, function(i) i), list(1L, 2L))
    ask(cl, function() options(expressions = 5000))
    expect_identical(ask(cl, deep, 1000), "there")
    expect_identical(node_pids(cl), pid)
    cluster_stop(cl)
  }
})

test_cluster("a worker that can't begin with any call ends, and says why", {
  local_settings(muster.quiet = TRUE)
  for (start in starts()) {
    cl <- local_cluster(1, start = start, retries = 0, timeout = 30)
    try(ask(cl, function() {
      # As if nothing helped.
      ours <- asNamespace("muster")
      unlockBinding("lift_expressions", ours)
      assign("lift_expressions", function() NULL, ours)
      options(expressions = 25)
    }), silent = TRUE)
    lost <- tryCatch(ask(cl, function() 1 + 1), error = identity)
    expect_s3_class(lost, "muster_error_lost")
    expect_match(conditionMessage(lost), "this worker can't go on")
    cluster_stop(cl)
  }
})

test_cluster("R1: functions keep arguments without a value, and promises that nobody asked for", {
  local_globals()
  eval(quote({
    asked <- FALSE
    make <- function(a, b) function(x = 0) a + x
    without <- make(1)
    late <- make(2, asked <<- TRUE)
  }), globalenv())
  env <- globalenv()
  cl <- local_cluster(2)
  clusterExport(cl, c("without", "late"), env)
  expect_identical(clusterEvalQ(cl, c(without(), late())), list(c(1, 2), c(1, 2)))
  has_none <- clusterEvalQ(cl, identical(substitute(b, environment(without)), quote(expr = )))
  expect_identical(has_none, list(TRUE, TRUE))
  call <- eval(quote(function() c(without(), late())), env)
  expect_identical(task_value(task_submit(cl, call)), c(1, 2))
  expect_identical(cluster_map(cl, 1:2, env$without), list(2, 3))
  expect_identical(cluster_map(cl, 1:2, env$late), list(3, 4))
  expect_identical(parallel::parLapply(cl, 1:2, env$late), list(3, 4))
  expect_false(env$asked)
  expect_identical(sum(cluster_status(cl)$restarts), 0L)
})

test_cluster("the first workers don't wait until the server has warmed up, later ones profit", {
  skip_without_fork()
  skip_without_proc()
  local_variables(R_MUSTER_TEST = "a server of this test's own")
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  # The server loads package tools when it warms up.
  is_warm <- function() clusterEvalQ(cl, "tools" %in% loadedNamespaces())
  expect_identical(is_warm(), list(FALSE, FALSE))
  maps <- file.path("/proc", parent_of(cl[[1L]]$pid), "maps")
  wait_until(any(grepl("tools[.]so", readLines(maps))))
  tools::pskill(cl[[2L]]$pid, tools::SIGKILL)
  expect_identical(is_warm(), list(FALSE, TRUE))
  # What it warmed up with is gone: a worker has a directory of its own, and files of its own.
  dirs <- clusterEvalQ(cl, c(dirname(tempdir()), list.files(tempdir())))
  expect_identical(dirs[[1L]], dirs[[2L]])
  own <- basename(unlist(clusterEvalQ(cl, tempdir())))
  expect_setequal(list.files(dirs[[1L]][1L]), c("server", own))
})
