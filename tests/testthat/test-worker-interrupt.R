# C1: a call that nobody wants any more costs no worker, and leaves nothing half done.

# A function to be interrupted: it says when it has done `code`, and goes on until then.
said <- function(file) {
  file.create(file)
  repeat Sys.sleep(0.01) # tidy: it is interrupted here
}

local_attached <- function(name, frame = parent.frame()) {
  library(name, character.only = TRUE)
  defer(function() {
    detach(paste0("package:", name), character.only = TRUE)
    unloadNamespace(name)
  }, frame)
}

test_cluster("C1: a map that is left by a warning, an error or an interrupt costs no worker", {
  cl <- local_cluster(2)
  pids <- node_pids(cl)
  helper <- function(i) i * 2
  warns <- function(i) {
    if (i == 3) warning("third")
    helper(i)
  }
  fails <- function(i) {
    total <<- i
    if (i == 3) stop("third")
    helper(i)
  }
  # A handler that leaves it like an interrupt of the user's.
  leaves <- function(i) {
    if (i == 3) message("third")
    helper(i)
  }
  for (k in 1:100) {
    expect_identical(tryCatch(cluster_map(cl, 1:4, warns), warning = function(w) 0), 0)
    expect_identical(tryCatch(cluster_map(cl, 1:4, fails), error = function(e) 0), 0)
    expect_identical(
      withRestarts(
        withCallingHandlers(cluster_map(cl, 1:4, leaves),
          message = function(m) invokeRestart("leave")
        ),
        leave = function() 0
      ), 0
    )
  }
  expect_identical(unlist(cluster_map(cl, 1:4, helper)), 2 * 1:4)
  expect_identical(node_pids(cl), pids)
  expect_identical(cluster_status(cl)$restarts, c(0L, 0L))
})

test_cluster("C1: a worker that loads a package for a task that is cancelled loads it to the end", {
  folder <- local_folder()
  library <- local_package("slowtoload", c(
    "value <- function() 7",
    ".onLoad <- function(libname, pkgname) {",
    "  folder <- Sys.getenv('SLOW_TO_LOAD')",
    "  if (folder == '') return()", # in the session
    "  file.create(file.path(folder, 'begun'))",
    "  while (!file.exists(file.path(folder, 'go'))) Sys.sleep(0.01)",
    "  file.create(file.path(folder, 'loaded'))",
    "}"
  ), exports = "value")
  local_attached("slowtoload")
  local_variables(SLOW_TO_LOAD = folder)
  cl <- local_cluster(1)
  pids <- node_pids(cl)
  task <- task_submit(cl, function() value())
  wait_until(file.exists(file.path(folder, "begun")))
  expect_true(task_cancel(task))
  pass_time(1.5) # longer than a call may go on after its interrupt
  file.create(file.path(folder, "go"))
  expect_identical(task_value(task_submit(cl, function() value())), 7)
  expect_true(file.exists(file.path(folder, "loaded")))
  expect_identical(node_pids(cl), pids)
})

test_cluster("C2: a worker that loads a package is not ended for a quicker copy", {
  folder <- local_folder()
  library <- local_package("slowonce", c(
    "value <- function() 7",
    ".onLoad <- function(libname, pkgname) {",
    "  folder <- Sys.getenv('SLOW_ONCE')",
    "  if (folder == '' || !dir.create(file.path(folder, 'first'), showWarnings = FALSE)) return()",
    "  done <- file.path(folder, 1:4)",
    "  while (!all(file.exists(done))) Sys.sleep(0.01)", # somebody else has made all parts
    "}"
  ), exports = "value")
  local_attached("slowonce")
  local_variables(SLOW_ONCE = folder)
  cl <- local_cluster(2)
  pids <- node_pids(cl)
  p <- partition_scatter(cl, data.frame(x = 1:4), parts = 4L)
  told <- partition_collect(partition_map(p, function(d, folder) {
    file.create(file.path(folder, d$x))
    data.frame(x = d$x * value())
  }, folder))
  expect_identical(told$x, 7 * 1:4)
  expect_identical(node_pids(cl), pids)
  expect_identical(clusterCall(cl, function() 1), list(1, 1))
  expect_identical(cluster_status(cl)$restarts, c(0L, 0L))
})

test_cluster("C1: what a call had changed when it was interrupted is undone", {
  cl <- local_cluster(1)
  folder <- local_folder()
  clusterCall(cl, function() {
    x <<- 1:3
    counter <<- local({
      n <- 0
      function() n <<- n + 1
    })
    options(muster.test.digits = 5)
    set.seed(42)
    NULL
  })
  state <- function() {
    list(x, environment(counter)$n, ls(globalenv()), getOption("muster.test.digits"),
      getOption("muster.test.new"), getwd(), search(), .Random.seed,
      pid = Sys.getpid()
    )
  }
  before <- clusterCall(cl, state)
  change <- function(said, file) {
    x[2L] <<- 9L
    y <<- 1
    counter()
    options(muster.test.digits = 6, muster.test.new = TRUE)
    setwd(tempdir())
    library(tools)
    runif(1)
    said(file)
  }
  environment(change) <- globalenv()
  task <- task_submit(cl, change, said, file.path(folder, "task"))
  wait_until(file.exists(file.path(folder, "task")))
  task_cancel(task)
  expect_identical(clusterCall(cl, state), before)
})

test_cluster("C1: where that can't be undone the worker is replaced, and has what it had before", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(1)
  folder <- local_folder()
  clusterCall(cl, function() {
    x <<- 1
    makeActiveBinding("computed", function() 5, globalenv())
    NULL
  })
  change <- function(said, file) {
    rm("computed", envir = globalenv())
    x <<- 2
    said(file)
  }
  environment(change) <- globalenv()
  task <- task_submit(cl, change, said, file.path(folder, "task"))
  wait_until(file.exists(file.path(folder, "task")))
  task_cancel(task)
  expect_identical(clusterCall(cl, function() c(x, computed)), list(c(1, 5)))
  expect_identical(cluster_status(cl)$restarts, 1L)
})

test_cluster("C1: a time limit leaves nothing half done either", {
  cl <- local_cluster(1)
  clusterCall(cl, function() x <<- 1)
  pids <- node_pids(cl)
  expect_error(
    cluster_map(cl, 1, function(i) {
      x <<- 2
      repeat Sys.sleep(0.01) # tidy: it is interrupted here
    }, .timeout = 0.5),
    class = "muster_error_timeout"
  )
  expect_identical(clusterCall(cl, function() x), list(1))
  expect_identical(node_pids(cl), pids)
})

# A verb's call that has done `code` in its worker, and is left there by Ctrl-C.
interrupt_verb <- function(cl, change) {
  session <- Sys.getpid()
  call <- function(change, session) {
    change()
    tools::pskill(session, tools::SIGINT)
    repeat Sys.sleep(0.01) # tidy: it is interrupted here
  }
  environment(call) <- environment(change) <- globalenv()
  expect_identical(
    tryCatch(clusterCall(cl, call, change, session), interrupt = function(e) "left"), "left"
  )
}

test_cluster("S4: large values are changed in place, and what an interrupted call did is undone", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(1)
  clusterCall(cl, function() {
    x <<- numeric(1e6)
    rows <<- list(y = numeric(1e6))
    NULL
  })
  make_checkpoints(cl)
  change <- function(i) {
    x[i] <<- i
    rows$y[i] <<- i
    c(x = format(.Internal(address(x))), y = format(.Internal(address(rows$y))))
  }
  first <- clusterCall(cl, change, 1) # may copy them: somebody had them until now
  for (i in 2:5) expect_identical(clusterCall(cl, change, i), first, info = i)
  sums <- function() c(sum(x), sum(rows$y))
  expect_identical(clusterCall(cl, sums), list(c(15, 15)))
  # Who joins is told of it, though nobody saw it.
  more <- cluster_resize(cl, 2)
  expect_identical(clusterCall(more, sums), list(c(15, 15), c(15, 15)))
  cl <- cluster_resize(more, 1)
  # A task's changes can be undone, so it holds them.
  folder <- local_folder()
  interrupted <- function(said, file) {
    x[7L] <<- 1e6
    said(file)
  }
  environment(interrupted) <- globalenv()
  task <- task_submit(cl, interrupted, said, file.path(folder, "task"))
  wait_until(file.exists(file.path(folder, "task")))
  task_cancel(task)
  expect_identical(clusterCall(cl, sums), list(c(15, 15)))
  expect_identical(cluster_status(cl)$restarts, 0L)
  # A verb's can't; its worker comes back with what it had.
  interrupt_verb(cl, function() {
    x[7L] <<- 1e6
    rows$y[7L] <<- 1e6
  })
  expect_identical(clusterCall(cl, sums), list(c(15, 15)))
  expect_identical(cluster_status(cl)$restarts, 1L)
})

test_cluster("S1: what stays of an interrupted call is there after a loss, too", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(1)
  clusterCall(cl, function() {
    known <<- list(new.env())
    n <<- 0
    NULL
  })
  interrupt_verb(cl, function() {
    assign("unseen", 1, known[[1L]])
    n <<- 1
  })
  wait_until({
    clusterCall(cl, function() NULL)
    "checkpoint" %in% cluster_journal(cl)$kind
  })
  state <- function() list(mget("unseen", envir = known[[1L]], ifnotfound = 0), n)
  before <- clusterCall(cl, state)
  expect_identical(before[[1L]][[2L]], 0)
  tools::pskill(cl[[1L]]$pid, tools::SIGKILL)
  expect_identical(clusterCall(cl, state), before)
})

# In an environment that is attached: a promise that is interrupted when it is evaluated for the
# first time. With `read`, as R makes them for a package's functions.
promise_slow <- function(cl, folder, read, name = "slow") {
  clusterCall(cl, function(folder, read, name) {
    from <- new.env()
    from$lazyLoadDBfetch <- function(folder) {
      first <- dir.create(file.path(folder, "begun"), showWarnings = FALSE)
      while (first) Sys.sleep(0.01) # tidy: it is interrupted here
      function() 5
    }
    from$folder <- folder
    slow <- if ("slow" %in% search()) as.environment("slow") else attach(NULL, name = "slow")
    if (read) {
      delayedAssign(name, lazyLoadDBfetch(folder), from, slow)
    } else {
      delayedAssign(name, {
        lazyLoadDBfetch(folder)
      }, from, slow)
    }
    NULL
  }, folder, read, name)
}

cancel_slow <- function(cl, folder, name = "slow") {
  task <- task_submit(cl, function(name) get(name)(), name)
  wait_until(file.exists(file.path(folder, "begun")))
  expect_true(task_cancel(task))
}

# What the next calls see of it. A warning that is left would break it for good.
expect_slow <- function(cl, name = "slow") {
  told <- function(...) tryCatch(get(name)(), warning = conditionMessage)
  expect_identical(task_value(task_submit(cl, told)), 5)
  expect_identical(cluster_map(cl, 1, told), list(5))
  p <- partition_map(partition_scatter(cl, data.frame(x = 1)), function(d) {
    data.frame(x = get(name)())
  })
  expect_identical(partition_collect(p)$x, 5)
  expect_identical(clusterCall(cl, function(name) get(name)(), name), list(5))
}

test_cluster("C17: a package's function that was read in a call that is interrupted is whole", {
  cl <- local_cluster(1)
  pids <- node_pids(cl)
  folder <- local_folder()
  promise_slow(cl, folder, TRUE)
  cancel_slow(cl, folder)
  expect_slow(cl)
  # So is one that came there after the first was looked for.
  folder <- local_folder()
  promise_slow(cl, folder, TRUE, "slower")
  cancel_slow(cl, folder, "slower")
  expect_slow(cl, "slower")
  expect_identical(node_pids(cl), pids)
})

test_cluster("C17: a promise of the user's that was interrupted is what it was before", {
  cl <- local_cluster(1)
  folder <- local_folder()
  promise_slow(cl, folder, FALSE)
  suppressMessages({ # that the worker is replaced
    cancel_slow(cl, folder)
    expect_slow(cl)
  })
})

test_cluster("C17: after a cancelled call, what is detached doesn't stay in memory", {
  cl <- local_cluster(1)
  cancel <- function() {
    folder <- local_folder()
    task <- task_submit(cl, function(folder) {
      dir.create(file.path(folder, "begun"))
      repeat Sys.sleep(0.01) # tidy: it is interrupted here
    }, folder)
    wait_until(file.exists(file.path(folder, "begun")))
    expect_true(task_cancel(task))
  }
  clusterCall(cl, function() {
    options(seen = new.env())
    count <- function(name) {
      seen <- getOption("seen")
      force(name)
      function(e) assign(name, TRUE, seen)
    }
    reg.finalizer(attach(list(x = 1), name = "data"), count("data"))
    # R 4.6 copies promises to a package's place in the search path.
    reg.finalizer(attach(list(y = 1), name = "package:none"), count("package"))
    NULL
  })
  pids <- node_pids(cl)
  cancel()
  clusterCall(cl, function() {
    detach("data")
    detach("package:none")
    NULL
  })
  cancel()
  freed <- clusterCall(cl, function() {
    gc()
    sort(names(getOption("seen")))
  })
  expect_identical(freed, list(c("data", "package")))
  expect_identical(node_pids(cl), pids)
})

test_cluster("a package's environment that was being read at the interrupt is read to its end", {
  cl <- local_cluster(1)
  folder <- local_folder()
  said <- file.path(folder, "said")
  # As packages are kept: a function whose environment has a variable. Reading it takes a while.
  clusterCall(cl, function(base, said) {
    code <- new.env()
    code$f <- as.function(alist(cache), list2env(list(cache = 7), parent = globalenv()))
    tools:::makeLazyLoadDB(code, base)
    db <- lazyLoadDBexec(base, function(db) db)
    db$key <- ls(db$env)[1L]
    place <- db$env[[db$key]]
    rm(list = db$key, envir = db$env)
    makeActiveBinding(db$key, function() {
      if (!file.exists(said)) {
        file.create(said)
        Sys.sleep(100) # tidy: until the interrupt
      }
      place
    }, db$env)
    assign("kept", db, globalenv())
  }, file.path(folder, "code"), said)
  task <- task_submit(cl, function() get("kept", globalenv())$envhook(get("kept", globalenv())$key))
  wait_until(file.exists(said))
  task_cancel(task)
  got <- clusterCall(cl, function() {
    env <- kept$envhook(kept$key)
    list(env$cache, identical(env, kept$envenv[[kept$key]]))
  })[[1L]]
  expect_identical(got, list(7, TRUE))
})
