test_cluster("the status of each worker is a row", {
  cl <- local_cluster(2)
  clusterCall(cl[2L], identity, 1)
  status <- cluster_status(cl)
  expect_identical(names(status), c(
    "worker", "host", "pid", "state", "done", "running", "restarts", "heartbeat", "rss", "cpu",
    "healing", "task", "job"
  ))
  expect_identical(status$worker, 1:2)
  expect_identical(status$done, c(0, 1))
  expect_identical(status$state, c("idle", "idle"))
  expect_identical(status$running, c(NA_real_, NA_real_))
  gate <- file.path(local_folder(), "gate")
  parallel:::sendCall(cl[[1L]], function(gate) {
    while (!file.exists(gate)) Sys.sleep(0.01) # tidy: its work
  }, list(gate))
  status <- cluster_status(cl)
  expect_identical(status$state, c("busy", "idle"))
  expect_gte(status$running[1L], 0)
  file.create(gate)
  parallel:::recvResult(cl[[1L]])
  if (built_with("proc")) {
    expect_gt(status$rss[1L], 1e6)
  } else {
    expect_identical(status$rss[1L], NA_real_)
  }
})

test_cluster("what workers print is shown in calls and kept", {
  cl <- local_cluster(2)
  file <- tempfile()
  defer(function() unlink(file))
  con <- file(file, "w")
  sink(con, type = "message")
  clusterCall(cl, function() {
    cat("by R\nunfinished")
    system("echo by a child")
    message("by message()")
    NULL
  })
  sink(type = "message")
  close(con)
  expect_true(all(c("worker 1: by R", "worker 2: by message()") %in% readLines(file)))
  logs <- cluster_logs(cl)
  expect_setequal(unique(logs$worker), 1:2)
  expect_true(any(grepl("by a child", logs$line)))
  expect_identical(names(cluster_logs(cl[1L])), c("worker", "time", "task", "line"))
  expect_identical(unique(cluster_logs(cl[1L])$worker), 1L)
})

test_cluster("lines have the time, and the label of the task that printed them", {
  cl <- local_cluster(1)
  began <- Sys.time()
  gate <- file.path(local_folder(), "gate")
  first <- task_submit(cl, function(gate) {
    while (!file.exists(gate)) Sys.sleep(0.01) # tidy: its work
  }, gate, .label = "first")
  # They run one after the other, so that what several have printed is read at once.
  says <- function(i) {
    cat(i, "")
    if (i %% 2 == 0) cat("\n")
    system(paste("echo child of", i))
    cat("end of", i)
  }
  tasks <- lapply(1:40, function(i) {
    task_submit(cl, says, i, .label = if (i %% 3) paste("task", i))
  })
  file.create(gate)
  suppressMessages(task_wait(tasks))
  clusterCall(cl, cat, "of no task")
  logs <- cluster_logs(cl)
  number <- suppressWarnings(as.integer(sub("^[^0-9]*([0-9]+).*$", "\\1", logs$line)))
  expected <- ifelse(number %% 3, paste("task", number), NA)
  expect_identical(logs$task, as.character(expected))
  expect_setequal(number[!is.na(number)], 1:40)
  expect_s3_class(logs$time, "POSIXct")
  expect_false(is.unsorted(logs$time))
  # The clock of the machine may be set meanwhile.
  expect_lt(abs(as.numeric(logs$time[1L]) - as.numeric(began)), 86400)
  # Often, what several have printed is read at once.
  quick <- lapply(1:400, function(i) {
    task_submit(cl, cat, "quick", i, .label = paste("quick", i))
  })
  suppressMessages(task_wait(quick))
  logs <- utils::tail(cluster_logs(cl), 400L)
  expect_identical(logs$line, paste("quick", 1:400))
  expect_identical(logs$task, logs$line)
  # What a worker said last, and what others say once it is there again.
  flag <- file.path(local_folder(), "flag")
  lost <- lapply(1:6, function(i) {
    task_submit(cl, .label = paste("line", i), .retries = 1, function(i, flag) {
      cat("line", i)
      if (i == 3 && file.create(flag)) {
        if (length(dir(dirname(flag))) == 1L && file.create(paste0(flag, 2))) {
          tools::pskill(Sys.getpid(), tools::SIGKILL)
        }
      }
    }, i, flag)
  })
  suppressWarnings(suppressMessages(task_wait(lost)))
  logs <- utils::tail(cluster_logs(cl), 7L)
  expect_identical(logs$line, paste("line", c(1, 2, 3, 3, 4, 5, 6)))
  expect_identical(logs$task, logs$line)
  # What looks like the end of a call.
  task_value(task_submit(cl, .label = "nul", function() {
    out <- pipe("cat", "wb")
    writeBin(c(charToRaw("one"), as.raw(c(0, 0, 0)), charToRaw("two")), out)
    close(out)
  }))
  task_value(task_submit(cl, cat, "after", .label = "after"))
  logs <- utils::tail(cluster_logs(cl), 3L)
  expect_identical(logs$line, c("one", "two", "after"))
  expect_identical(logs$task[-2L], c("nul", "after"))
})

# What is shown of workers while expr is evaluated.
shown <- function(expr) sort(capture.output(invisible(expr), type = "message"))

test_cluster("C13: what a call printed is shown when it ends, also a line without an end", {
  cl <- local_cluster(2, setup = quote(cat("set up")))
  wait_until(sum(cluster_logs(cl)$line == "set up") == 2L) # it may be read after the start
  expect_identical(shown(clusterCall(cl, cat, "50 %")), c("worker 1: 50 %", "worker 2: 50 %"))
  expect_identical(shown(clusterCall(cl[1L], cat, "next\n")), "worker 1: next")
  expect_identical(shown(clusterCall(cl[2L], cat, "tail")), "worker 2: tail")
  expect_identical(utils::tail(cluster_logs(cl)$line, 2L), c("next", "tail"))
  expect_identical(shown(clusterCall(cl[1L], function() NULL)), character())
  expect_identical(shown(try(clusterCall(cl[1L], function() {
    cat("half")
    stop("on purpose")
  }), silent = TRUE)), "worker 1: half")
  expect_identical(shown(task_value(task_submit(cl[1L], cat, "task"))), "worker 1: task")
})

test_cluster("C13: lines of calls that follow each other at once stay apart, a call's stay whole", {
  cl <- local_cluster(1)
  files <- replicate(2, tempfile())
  defer(function() unlink(files))
  slow <- function(files) {
    cat("le")
    file.create(files[1L])
    while (!file.exists(files[2L])) Sys.sleep(0.01) # tidy: its work
    cat("ft\n")
  }
  # A call that is sent may show what came meanwhile.
  first <- shown({
    parallel:::sendCall(cl[[1L]], cat, list("before"))
    parallel:::sendCall(cl[[1L]], slow, list(files))
    parallel:::sendCall(cl[[1L]], cat, list("after"))
    wait_until(file.exists(files[1L]))
    parallel:::recvResult(cl[[1L]])
  })
  expect_identical(first, "worker 1: before")
  file.create(files[2L])
  expect_identical(
    shown(for (i in 1:2) parallel:::recvResult(cl[[1L]])),
    c("worker 1: after", "worker 1: left")
  )
  expect_identical(shown({
    tasks <- lapply(c("one", "two", "three"), function(text) task_submit(cl, cat, text))
    for (task in tasks) task_value(task)
  }), paste("worker 1:", c("one", "three", "two")))
})

test_cluster("C12: a program that a worker left behind never waits for somebody to read", {
  cl <- local_cluster(1)
  go <- file.path(local_folder(), "go")
  file <- paste0(go, "ne")
  text <- strrep("x", 99)
  # What it prints while its call goes on would be that call's.
  command <- sprintf("(until [ -e %s ]; do sleep 0.01; done; yes %s | head -n 6000; touch %s) &",
    shQuote(go), text, shQuote(file))
  clusterCall(cl, system, command)
  file.create(go)
  # Far more than a pipe holds, while nobody calls muster. Nothing of it appears meanwhile.
  expect_identical(shown(wait_until(file.exists(file))), character())
  lines <- shown(clusterCall(cl, function() NULL))
  lost <- sub("^[(]([0-9]+) lines of workers were not shown[)]$", "\\1", lines[1L])
  expect_identical(as.integer(lost) + length(lines) - 1L, 6000L)
  expect_identical(unique(lines[-1L]), paste("worker 1:", text))
  # While there is a task, too.
  unlink(file)
  clusterCall(cl, system, command)
  task <- task_submit(cl, function() NULL)
  wait_until(file.exists(file))
  shown(task_value(task))
})

test_cluster("a quiet session shows nothing of workers", {
  cl <- local_cluster(1)
  local_settings(muster.quiet = TRUE)
  expect_silent(clusterCall(cl, function() cat("noise\n")))
  expect_identical(cluster_logs(cl)$line, "noise")
})

test_cluster("a journal shows the calls that are kept", {
  local_settings(muster.checkpoints = FALSE)
  cl <- local_cluster(1)
  x <- 1
  clusterExport(cl, "x", environment())
  clusterEvalQ(cl, library(stats4))
  journal <- cluster_journal(cl)
  expect_identical(journal$kind, c("call", "call"))
  expect_identical(journal$call[2L], "library(stats4)")
  expect_true(all(journal$bytes > 0))
})

test_cluster("only clusters of muster have a status", {
  for (f in list(cluster_status, cluster_logs, cluster_journal)) {
    expect_error(f(list()), class = "muster_error_input")
  }
  cl <- local_cluster(1)
  cluster_stop(cl)
  expect_identical(cluster_status(cl)$state, "stopped")
  expect_error(cluster_logs(cl), class = "muster_error_input")
  expect_error(cluster_journal(cl), class = "muster_error_input")
})

test_cluster("a cluster's status is printed in units, and its columns are numbers", {
  cl <- local_cluster(1)
  status <- cluster_status(cl)
  # Left out when it is printed.
  status$healing <- "state"
  for (column in c("running", "heartbeat", "rss", "cpu")) expect_type(status[[column]], "double")
  status$running <- 75
  status$heartbeat <- 0.1234
  status$rss <- 34567890
  status$cpu <- 8000
  expect_output(expect_invisible(expect_identical(print(status), status)),
    "75 s +0 +0.12 s +34.6 MB +2.2 h$"
  )
  status[1L, c("running", "rss")] <- NA
  expect_output(print(status), "idle +0 +0 +0.12 s +2.2 h$")
  # Of a part of the columns, too, and of one that somebody has overwritten.
  expect_output(print(status[c("worker", "cpu")]), "1 2.2 h$")
  status$cpu <- "much"
  expect_output(print(status), "much$")
  expect_identical(nrow(status[status$worker > 1L, ]), 0L)
  expect_output(print(status[status$worker > 1L, ]), "0 rows")
  expect_identical(
    vapply(c(0, 0.996, 9.96, 99.9, 100, 5969, 5970, 172799, 172800), short_time, ""),
    c("0.00 s", "1.0 s", "10 s", "100 s", "1.7 min", "99 min", "1.7 h", "48 h", "2.0 d")
  )
})

test_cluster("H8: cluster_status() shows R's own workers, too", {
  cl <- makeClusterPSOCK(2, rscript_call = "parallel:::.workRSOCK()")
  status <- cluster_status(cl)
  expect_s3_class(status, "muster_status")
  expect_identical(status$host, c("localhost", "localhost"))
  expect_identical(status$pid, vapply(unclass(cl), function(node) node$pid, 0L))
  expect_identical(status$state, c("idle", "idle"))
  expect_true(all(is.na(status[c("done", "running", "restarts", "heartbeat", "task", "job")])))
  if (file.exists("/proc/self/stat")) expect_true(all(status$rss > 1e6))
  expect_output(print(status), "localhost")
  # One that computes, one that was killed, beside muster's own.
  parallel:::sendCall(cl[[1L]], Sys.sleep, list(1))
  killNode(cl[[2L]])
  own <- local_cluster(1)
  both <- cluster_status(c(own, cl))
  expect_identical(both$state, c("idle", "busy", "lost"))
  expect_named(both, names(cluster_status(own)))
  parallel::stopCluster(cl)
  expect_identical(cluster_status(cl)$state, c("stopped", "stopped"))
  # Of parallel's nodes less is known.
  expect_identical(
    cluster_status(structure(list(structure(list(host = "far"), class = "SOCKnode")),
      class = c("SOCKcluster", "cluster")
    ))[c("worker", "host", "pid", "state")],
    structure(
      data.frame(worker = 1L, host = "far", pid = NA_integer_, state = NA_character_),
      class = c("muster_status", "data.frame")
    )
  )
  expect_error(cluster_status(cl[0]), class = "muster_error_input")
})
