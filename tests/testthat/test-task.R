test_cluster("tasks run while the session goes on, and give their values", {
  cl <- local_cluster(2)
  tasks <- lapply(1:6, function(i) task_submit(cl, function(i) i^2, i))
  expect_s3_class(tasks[[1L]], "muster_task")
  expect_identical(task_wait(tasks), rep(TRUE, 6L))
  expect_identical(vapply(tasks, task_value, 0), (1:6)^2)
  expect_identical(task_value(tasks[[2L]]), 4) # again
  expect_match(format(tasks[[2L]]), "done")
  expect_null(task_value(task_submit(cl, function() NULL)))
  expect_identical(task_value(task_submit(cl, "sum", 1, 2)), 3)
})

test_cluster("waiting for any task ends with the first that is done", {
  cl <- local_cluster(2)
  slow <- task_submit(cl, Sys.sleep, 20)
  quick <- task_submit(cl, function() "quick")
  expect_identical(task_wait(list(slow, quick), any = TRUE), c(FALSE, TRUE))
  expect_identical(task_done(list(slow, quick)), c(FALSE, TRUE))
  expect_error(task_value(slow, timeout = 0.05), class = "muster_error_timeout")
  expect_identical(task_wait(slow, timeout = 0.05), FALSE)
  expect_true(task_cancel(slow))
  expect_error(task_value(slow), class = "muster_error_cancelled")
  expect_false(task_cancel(slow))
})

test_cluster("quick tasks don't wait behind a slow one while another worker is free", {
  cl <- local_cluster(2)
  folder <- local_folder()
  # Ends only when all others have ended.
  slow <- task_submit(cl, function(folder) {
    end <- Sys.time() + 60
    while (length(list.files(folder)) < 8L && Sys.time() < end) Sys.sleep(0.01) # tidy: its work
    length(list.files(folder))
  }, folder)
  quick <- lapply(1:8, function(i) {
    task_submit(cl, function(i, folder) file.create(file.path(folder, i)), i, folder)
  })
  expect_identical(task_value(slow), 8L)
  expect_true(all(vapply(quick, task_value, NA)))
})

# A task that runs until there is a file.
until_file <- function(i, gate) {
  while (!file.exists(gate)) Sys.sleep(0.01) # tidy: its work
  i
}

test_cluster("a worker has one task and one in reserve, for a while, and others wait", {
  cl <- local_cluster(1)
  gate <- file.path(local_folder(), "gate")
  tasks <- lapply(1:4, function(i) task_submit(cl, until_file, i, gate))
  states <- function() sub("^.*, ([a-z]+).*$", "\\1", vapply(tasks, format, ""))
  expect_identical(states()[c(1L, 3L, 4L)], c("running", "queued", "queued"))
  # It is sent ahead, and comes back from behind a call that takes long.
  expect_true(states()[2L] %in% c("next", "queued"))
  wait_until(states()[2L] == "queued")
  file.create(gate)
  expect_true(all(task_wait(tasks)))
})

test_cluster("a task that waits can be cancelled, and others go on", {
  cl <- local_cluster(1)
  gate <- file.path(local_folder(), "gate")
  tasks <- lapply(1:6, function(i) task_submit(cl, until_file, i, gate))
  expect_identical(task_cancel(tasks[c(2, 5)]), c(TRUE, TRUE))
  file.create(gate)
  expect_identical(vapply(tasks[-c(2, 5)], task_value, 0L), c(1L, 3L, 4L, 6L))
})

test_cluster("an error of a task is one of the session, with where it came from", {
  cl <- local_cluster(1)
  task <- task_submit(cl, function() {
    inner <- function() stop("no good")
    inner()
  })
  condition <- tryCatch(task_value(task), muster_error_remote = identity)
  expect_s3_class(condition, "muster_error_remote")
  expect_match(conditionMessage(condition), "no good")
  expect_identical(condition$remote_call, "inner()")
  expect_true("inner()" %in% condition$stack)
  expect_s3_class(condition$condition, "simpleError")
})

test_cluster("warnings and messages of a task are signalled with its value", {
  cl <- local_cluster(1)
  task <- task_submit(cl, function() {
    warning("careful")
    message("by the way")
    5
  })
  expect_warning(expect_message(expect_identical(task_value(task), 5), "by the way"), "careful")
  # Large values of the call stay where they are.
  large <- task_submit(cl, function(x, y) warning("about ", y), sqrt(1:1e5), 1)
  condition <- tryCatch(task_value(large), warning = identity)
  expect_identical(conditionCall(condition), quote(fun(`<numeric>`, 1)))
  # Those that the task handles itself stay there.
  task <- task_submit(cl, function() {
    tryCatch(warning("seen"), warning = function(w) "handled")
  })
  expect_silent(expect_identical(task_value(task), "handled"))
})

test_cluster("tasks survive the loss of their workers", {
  cl <- local_cluster(2)
  tasks <- lapply(1:8, function(i) {
    task_submit(cl, function(i) {
      Sys.sleep(0.05)
      i
    }, i)
  })
  for (node in cl) tools::pskill(node$pid, 9L)
  expect_identical(suppressMessages(vapply(tasks, task_value, 0L)), 1:8)
  poison <- task_submit(cl, function() tools::pskill(Sys.getpid(), 9L))
  condition <- tryCatch(suppressMessages(task_value(poison)), muster_error_lost = identity)
  expect_s3_class(condition, "muster_error_lost")
  expect_identical(condition$signal, 9L)
  expect_identical(task_value(task_submit(cl, identity, 1)), 1)
})

test_cluster("tasks and parallel's verbs share a cluster", {
  cl <- local_cluster(2)
  tasks <- lapply(1:20, function(i) task_submit(cl, function(i) i, i))
  expect_identical(unlist(parLapply(cl, 1:4, function(i) i)), 1:4)
  expect_identical(vapply(tasks, task_value, 0L), 1:20)
})

test_cluster("a task keeps its cluster alive", {
  task <- local({
    cl <- cluster_start(1)
    task_submit(cl, function() 5)
  })
  invisible(gc())
  expect_identical(task_value(task), 5)
  rm(task)
  invisible(gc())
})

test_cluster("tasks go to the nodes that were given", {
  cl <- local_cluster(2)
  pids <- vapply(1:6, function(i) task_value(task_submit(cl[2L], Sys.getpid)), 0L)
  expect_identical(unique(pids), cl[[2L]]$pid)
})

test_cluster("what is no task, no function or no cluster is refused", {
  cl <- local_cluster(1)
  expect_error(task_submit(1, identity), class = "muster_error_input")
  expect_error(task_submit(cl, 1), class = "muster_error_input")
  expect_error(task_value(1), class = "muster_error_input")
  expect_error(task_done(list(1)), class = "muster_error_input")
  expect_error(task_cancel("x"), class = "muster_error_input")
  task <- task_submit(cl, identity, 1)
  copy <- unserialize(serialize(task, NULL))
  expect_error(task_value(copy), class = "muster_error_input")
  waiting <- lapply(1:4, function(i) task_submit(cl, Sys.sleep, 10))
  cluster_stop(cl)
  expect_error(task_value(waiting[[4L]]), class = "muster_error_lost")
  expect_error(task_submit(cl, identity, 1), class = "muster_error_input")
})

# R computes, without a call of muster's, until there are n files, or 60 s have passed.
compute_until_files <- function(folder, n) {
  end <- Sys.time() + 60
  while (length(list.files(folder)) < n && Sys.time() < end) sum(sqrt(1:1e4))
  length(list.files(folder))
}

note_task <- function(i, folder) file.create(file.path(folder, i))

test_cluster("the queue is served while R computes", {
  cl <- local_cluster(2)
  folder <- local_folder()
  tasks <- lapply(1:50, function(i) task_submit(cl, note_task, i, folder))
  expect_identical(compute_until_files(folder, 50L), 50L)
  expect_true(all(vapply(tasks, task_value, NA)))
})

test_cluster("a worker that is lost while R computes comes back, and its task with it", {
  cl <- local_cluster(2)
  folder <- local_folder()
  die_once <- function(folder) {
    if (file.create(file.path(folder, "a")) && !file.exists(file.path(folder, "b"))) {
      file.create(file.path(folder, "b"))
      tools::pskill(Sys.getpid(), 9L)
      Sys.sleep(60) # tidy: until the signal is there
    }
    file.create(file.path(folder, "c"))
  }
  task <- task_submit(cl, die_once, folder)
  expect_identical(compute_until_files(folder, 3L), 3L)
  expect_message(expect_true(task_value(task)), "was lost")
})

test_cluster("gc of tasks doesn't keep the others from being served", {
  cl <- local_cluster(2)
  folder <- local_folder()
  for (i in 1:100) task_submit(cl, note_task, i, folder)
  gc() # of tasks that nobody refers to
  expect_identical(compute_until_files(folder, 100L), 100L)
})

test_cluster("an interrupted wait leaves the queue served", {
  cl <- local_cluster(2)
  folder <- local_folder()
  tasks <- lapply(1:20, function(i) {
    task_submit(cl, function(i, folder) {
      Sys.sleep(0.05) # tidy: longer than the wait below
      file.create(file.path(folder, i))
    }, i, folder)
  })
  setTimeLimit(elapsed = 0.1, transient = TRUE)
  expect_error(task_wait(tasks), "time limit")
  setTimeLimit()
  task_done(tasks[[1L]])
  expect_identical(compute_until_files(folder, 20L), 20L)
})

test_cluster("a child of mclapply() leaves the tasks of its parent alone", {
  cl <- local_cluster(2)
  folder <- local_folder()
  tasks <- lapply(1:20, function(i) task_submit(cl, note_task, i, folder))
  inside <- parallel::mclapply(1:2, function(i) {
    if (i == 2L) own <- cluster_start(1) # a session of the child's own
    gc()
    class(tryCatch(task_value(tasks[[i]]), error = identity))[1L]
  }, mc.cores = 2L)
  expect_identical(unlist(inside), rep("muster_error_input", 2L))
  expect_true(all(vapply(tasks, task_value, NA)))
})

# As Rcpp::cppFunction() makes them, without a compiler: the pointer is a constant of the code.
pointer_function <- function() {
  address <- getNativeSymbolInfo("ffi_scan", getLoadedDLLs()[["muster"]])$address
  as.function(c(alist(x = ), as.call(list(quote(.Call), address, quote(x)))), envir = globalenv())
}

test_cluster("C14: functions whose code has a pointer are named, and refused where that is asked", {
  cl <- local_cluster(1)
  fun <- pointer_function()
  local_globals()
  assign("in_code", fun, envir = globalenv())
  uses <- as.function(alist(v = , in_code(v)), envir = globalenv())
  hint <- "in a package"
  # Compiled and not, alone and as a global.
  error <- expect_error(cluster_map(cl, 1:2, fun))
  expect_match(conditionMessage(error), "`.fun` is a function whose code has an external pointer")
  error <- expect_error(cluster_map(cl, 1:2, uses))
  expect_match(conditionMessage(error), "`in_code` is a function whose code has")
  expect_match(gsub("\\s+", " ", conditionMessage(error)), hint, fixed = TRUE)
  error <- expect_error(task_value(task_submit(cl, fun, 1)))
  expect_match(conditionMessage(error), "Rcpp::cppFunction", fixed = TRUE)
  local_settings(muster.references = "error")
  for (one in list(fun, uses, compiler::cmpfun(fun))) {
    expect_error(cluster_map(cl, 1:2, one), "external pointer", class = "muster_error_input")
    expect_error(task_submit(cl, one, 1), "external pointer", class = "muster_error_input")
  }
  expect_error(task_submit(cl, identity, fun), "external pointer", class = "muster_error_input")
  expect_identical(clusterCall(cl, identity, 1), list(1))
})

# ---- options of a single task

test_cluster("a label names its task wherever it is spoken of", {
  cl <- local_cluster(1)
  word <- file.path(local_folder(), "word")
  waits <- task_submit(cl, function() {
    while (!file.exists(word)) Sys.sleep(0.01) # tidy: the test's word
  }, .label = "caf\u00e9 1")
  wait_until(identical(cluster_status(cl)$task, "caf\u00e9 1"))
  expect_match(format(waits), "^muster task [0-9]+ [(]`caf\u00e9 1`[)], running")
  expect_error(task_value(waits, 0.01), "Task `caf\u00e9 1` isn't done after 0.01 s",
    class = "muster_error_timeout")
  file.create(word)
  expect_null(task_value(waits))
  expect_identical(cluster_status(cl)$task, NA_character_)
  failed <- task_submit(cl, function() stop("no"), .label = "fails")
  expect_error(task_value(failed),
    "^Task `fails` raised an error: no\nx In: fun[(][)]\nx On worker 1",
    class = "muster_error_remote"
  )
  cancelled <- task_submit(cl, Sys.sleep, 60, .label = "long")
  task_cancel(cancelled)
  expect_error(task_value(cancelled), "Task `long` was cancelled", class = "muster_error_cancelled")
  expect_error(task_submit(cl, identity, 1, .label = ""), class = "muster_error_input")
  expect_error(task_submit(cl, identity, 1, .label = 1), class = "muster_error_input")
})

test_cluster("of the tasks that wait, the one with the highest priority goes first", {
  cl <- local_cluster(1)
  folder <- local_folder()
  word <- file.path(folder, "word")
  file <- file.path(folder, "order")
  waits <- function() {
    while (!file.exists(word)) Sys.sleep(0.01) # tidy: the test's word
  }
  # The worker has this one, and for a while the next, which it would start without asking.
  first <- list(task_submit(cl, waits), task_submit(cl, function() NULL))
  wait_until(grepl("running", format(first[[1L]])))
  note <- function(i) cat(i, "\n", file = file, append = TRUE)
  priorities <- c(0L, -1L, 5L, 0L, 7L, 5L)
  tasks <- lapply(1:6, function(i) task_submit(cl, note, i, .priority = priorities[i]))
  file.create(word)
  task_wait(tasks)
  expect_identical(scan(file, integer(), quiet = TRUE), c(5L, 3L, 6L, 1L, 4L, 2L))
  expect_error(task_submit(cl, identity, 1, .priority = 0.5), class = "muster_error_input")
})

test_cluster("a task may have a time limit and retries of its own", {
  cl <- local_cluster(1)
  long <- task_submit(cl, Sys.sleep, 60, .timeout = 0.3, .label = "long")
  expect_error(task_value(long), "Task `long` took longer than", class = "muster_error_timeout")
  folder <- local_folder()
  dies <- function(file) {
    cat("x", file = file, append = TRUE)
    if (file.size(file) < 3) tools::pskill(Sys.getpid(), tools::SIGKILL)
    file.size(file)
  }
  never <- task_submit(cl, dies, file.path(folder, "never"), .retries = 0)
  lost <- healed(tryCatch(task_value(never), muster_error_lost = identity))$value
  expect_match(conditionMessage(lost), "lost with its worker once")
  often <- task_submit(cl, dies, file.path(folder, "often"), .retries = 2)
  expect_identical(healed(task_value(often))$value, 3)
  expect_error(task_submit(cl, identity, 1, .timeout = 0), class = "muster_error_input")
  expect_error(task_submit(cl, identity, 1, .retries = -1), class = "muster_error_input")
})

test_cluster("after errors a task runs again if that is asked for, with the same numbers", {
  cl <- local_cluster(1)
  file <- file.path(local_folder(), "tries")
  fails <- function(times) {
    number <- runif(1)
    cat(number, "\n", file = file, append = TRUE)
    tries <- length(scan(file, quiet = TRUE))
    if (tries <= times) stop("try ", tries)
    number
  }
  texts <- character()
  value <- withCallingHandlers(
    task_value(task_submit(cl, fails, 2, .error_retries = 2, .seed = 1)),
    muster_message_again = function(m) {
      texts <<- c(texts, conditionMessage(m))
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(texts, sprintf(
    "The task raised an error and runs again (attempt %d of 3): try %d\n", 2:3, 1:2
  ))
  numbers <- scan(file, quiet = TRUE)
  expect_length(numbers, 3L)
  expect_length(unique(numbers), 1L)
  expect_equal(value, numbers[1L], tolerance = 1e-6)
  unlink(file)
  error <- suppressMessages(tryCatch(
    task_value(task_submit(cl, fails, 5, .error_retries = 1, .seed = 1)),
    muster_error_remote = identity
  ))
  expect_match(conditionMessage(error), "try 2")
  expect_identical(as.character(error$remote_call), "fun(5)")
  # A cancelled one isn't an error.
  unlink(file)
  long <- task_submit(cl, function() {
    file.create(file)
    repeat Sys.sleep(0.1) # tidy: until it is ended
  }, .error_retries = 5)
  wait_until(file.exists(file))
  task_cancel(long)
  expect_identical(task_value(task_submit(cl, function() "free")), "free")
  expect_error(task_submit(cl, identity, 1, .error_retries = NA), class = "muster_error_input")
})
