# The crash matrix: whatever ends a worker, at whatever moment, the call gets its whole
# answer, or an error that says why not; and the cluster is as good as before.
#
# A fault is what happens to a worker (faults.c does it from within, at the right moment),
# a moment is where the worker is in a call. A fault with a file happens once, to whichever
# worker comes to it first: it must heal. One without happens at each attempt: poison.

build_faults()

faults <- c("exit", "quit", "SIGSEGV", "SIGKILL", "SIGTERM", "SIGSTOP", "garbage")

# How a worker with this fault is seen to end. One that stops, or talks nonsense, is
# killed by us.
exit_codes <- c(exit = 3L, quit = 4L)
signals <- c(
  SIGSEGV = 11L, SIGKILL = 9L, SIGTERM = 15L, SIGSTOP = 9L, garbage = 9L
)

bomb <- function(value, order) .Call("faults_bomb", value, order)

# Calls that come to their fault at a moment: function(cl, order), order c(what, file).
# Each answers list(10, 20, ... 60), or as many 10s as there are workers.
large <- 1e7 # 80 MB: time enough for a thread to find the moment
at_moment <- list(
  unserializing = function(cl, order) {
    items <- as.list(1:6)
    items[[4]] <- bomb(4L, c(order, "unserialize"))
    parLapply(cl, items, remote(function(i) i * 10L))
  },
  running = function(cl, order) {
    parLapply(cl, 1:6, function(i, order) {
      if (i == 4L) .Call("faults_act", order)
      i * 10L
    }, order)
  },
  serializing = function(cl, order) {
    parLapply(cl, 1:6, function(i, order) {
      if (i == 4L) .Call("faults_bomb", 40L, order) else i * 10L
    }, c(order, "serialize"))
  },
  receiving = function(cl, order) {
    arm(cl, c(order, "receiving"))
    until_met(order, clusterCall(cl, function(x) as.integer(length(x) / 1e6), numeric(large)))
  },
  sending = function(cl, order) {
    arm(cl, c(order, "sending"))
    values <- until_met(order, clusterCall(cl, function(n) numeric(n) + 1, large / 4))
    lapply(values, function(x) as.integer(sum(x) / 2.5e5))
  },
  idle = function(cl, order) {
    arm(cl, c(order, "0.05"))
    wait_until(file.exists(order[2L]))
    clusterCall(cl, function() 10L)
  }
)

# On a busy machine the thread may sleep through a message; then it meets the next one.
until_met <- function(order, call) {
  call <- substitute(call)
  value <- eval(call, parent.frame())
  for (k in 1:20) {
    if (!nzchar(order[2L]) || file.exists(order[2L])) break
    value <- eval(call, parent.frame())
  }
  value
}

# Each worker gets a thread that waits for the moment. The thread is nothing that a
# journal would know of: a worker that comes back has none.
arm <- function(cl, order) clusterCall(cl, function(order) .Call("faults_arm", order), order)

expected_at <- function(moment, cl) {
  if (moment %in% c("receiving", "sending", "idle")) {
    rep(list(10L), length(cl))
  } else {
    as.list(1:6 * 10L)
  }
}

# R code can't quit where it doesn't run. Garbage from another thread in the middle of an
# answer is a part of the answer.
faults_at <- function(moment) {
  without <- if (moment %in% c("receiving", "sending", "idle")) "quit"
  if (moment == "sending") without <- c(without, "garbage")
  setdiff(faults, without)
}

# Large messages go through the sockets, so that something can happen to them there.
crash_cluster <- function(workers = 3, ..., heartbeat = 1, frame = parent.frame()) {
  local_settings(muster.share_min = Inf, frame = frame)
  library <- faults_library()
  dyn.load(library)
  cl <- local_cluster(workers, ...,
    setup = bquote(dyn.load(.(library))), heartbeat = heartbeat, frame = frame
  )
  export_to(cl)
  cl
}

export_to <- function(cl) {
  clusterExport(cl, "exported", list2env(list(exported = "still there")))
}

# All workers are there, each is what it was, and all verbs work. Their functions travel without
# a test's frames, 400 kB, which a watchman might take for the message that it waits for.
expect_as_before <- function(cl, workers = 3L, info = NULL) {
  expect_length(cl, workers)
  expect_identical(clusterCall(cl, remote(function() exported)),
    rep(list("still there"), workers),
    info = info
  )
  pids <- node_pids(cl)
  expect_length(unique(pids), workers)
  expect_identical(unlist(clusterCall(cl, Sys.getpid)), pids, info = info)
  square <- remote(function(i) i^2)
  expect_identical(unlist(parLapplyLB(cl, 1:20, square)), (1:20)^2, info = info)
  expect_identical(unlist(clusterApply(cl, 1:7, remote(function(i) -i))), -(1:7), info = info)
  expect_true(all(cluster_status(cl)$state == "idle"), info = info)
  expect_true(all(isNodeAlive(cl, timeout = 60)), info = info)
}

expect_fault_fields <- function(error, fault, info = NULL) {
  if (fault == "garbage" && identical(error$exit_code, 0L)) {
    # It saw the end of its channel before the signal came.
    expect_identical(error$signal, NA_integer_, info = info)
    return()
  }
  expect_identical(error$exit_code, unname(exit_codes[fault]), info = info)
  expect_identical(error$signal, unname(signals[fault]), info = info)
}

# One cell: the fault happens once.
expect_healed <- function(cl, moment, fault) {
  folder <- local_folder()
  order <- c(fault, file.path(folder, "once"))
  cell <- paste(fault, "while", moment)
  before <- restarts_of(cl)
  expect_identical(at_moment[[moment]](cl, order), expected_at(moment, cl), info = cell)
  expect_true(file.exists(order[2L]), info = cell)
  expect_as_before(cl, length(cl), cell)
  expect_identical(restarts_of(cl) - before, 1L, info = cell)
}

# One cell: the fault happens each time.
expect_poison <- function(cl, moment, fault, retries) {
  cell <- paste("always", fault, "while", moment)
  before <- restarts_of(cl)
  error <- expect_error(at_moment[[moment]](cl, c(fault, "")),
    class = "muster_error_lost", info = cell
  )
  expect_fault_fields(error, fault, cell)
  expect_identical(error$range, 3:4, info = cell)
  expect_identical(error$worker, 2L, info = cell)
  expect_identical(error$oom, FALSE, info = cell)
  expect_identical(error$results[c(1:2, 5:6)], as.list(c(10L, 20L, 50L, 60L)), info = cell)
  expect_identical(error$results[3:4], list(NULL, NULL), info = cell)
  expect_as_before(cl, length(cl), cell)
  expect_identical(restarts_of(cl) - before, retries + 1L, info = cell)
}

for (start in c("fork", "spawn")) local({
  start <- start
  say <- function(...) paste0(..., " (start = \"", start, "\")")
  if (start == "fork" && !.Call(ffi_can_fork)) {
    return()
  }
  # A spawned worker takes long to come back.
  few <- function(of) if (start == "fork") of else intersect(of, c("exit", "SIGKILL"))

  for (moment in names(at_moment)) local({
    moment <- moment
    test_cluster(say("what ends a worker once while it is ", moment, " is healed"), {
      local_settings(muster.quiet = TRUE)
      cl <- crash_cluster(start = start)
      for (fault in few(faults_at(moment))) expect_healed(cl, moment, fault)
    })
  })

  for (moment in c("unserializing", "running", "serializing")) local({
    moment <- moment
    test_cluster(say("what ends each worker while it is ", moment, " is poison"), {
      local_settings(muster.quiet = TRUE)
      cl <- crash_cluster(start = start, retries = 1)
      for (fault in few(faults_at(moment))) expect_poison(cl, moment, fault, 1L)
    })
  })

  for (moment in c("receiving", "sending")) local({
    moment <- moment
    test_cluster(say("what ends each worker while it is ", moment, " is poison"), {
      local_settings(muster.quiet = TRUE, muster.share_min = Inf)
      library <- faults_library()
      for (fault in few(setdiff(faults_at(moment), "SIGSTOP"))) {
        # Without a journal: a call that was answered would end the worker in each replay.
        cl <- cluster_start(2, start = start, retries = 1, healing = "fresh", setup = bquote({
          exported <- "still there"
          dyn.load(.(library))
          .Call("faults_arm", .(c(fault, "", moment)))
        }))
        call <- if (moment == "receiving") {
          quote(clusterCall(cl[2], length, numeric(large)))
        } else {
          quote(clusterCall(cl[2], function(n) numeric(n) + 1, large / 4))
        }
        # On a busy machine the watchman may sleep through a message: then the call is
        # answered, and the next one meets it.
        error <- NULL
        for (k in 1:20) {
          error <- tryCatch(
            {
              eval(call)
              NULL
            },
            error = identity
          )
          if (!is.null(error)) break
        }
        expect_s3_class(error, "muster_error_lost")
        expect_fault_fields(error, fault, fault)
        expect_identical(error$worker, 2L)
        expect_as_before(cl, 2L, fault)
        restarts <- cluster_status(cl)$restarts
        expect_identical(restarts[1L], 0L)
        expect_gte(restarts[2L], 2L)
        cluster_stop(cl)
      }
    })
  })

  test_cluster(say("without healing what ends a worker is an error, and others go on"), {
    for (moment in names(at_moment)) {
      for (fault in few(intersect(faults_at(moment), c("exit", "SIGKILL", "garbage")))) {
        cell <- paste(fault, "while", moment)
        folder <- tempfile("folder-")
        dir.create(folder)
        order <- c(fault, file.path(folder, "once"))
        cl <- crash_cluster(start = start, healing = FALSE)
        error <- expect_error(at_moment[[moment]](cl, order),
          class = "muster_error_lost", info = cell
        )
        expect_fault_fields(error, fault, cell)
        expect_as_before(cl[-error$worker], 2L, cell)
        again <- expect_error(clusterCall(cl[error$worker], Sys.getpid),
          class = "muster_error_lost", info = cell
        )
        expect_identical(again$worker, error$worker)
        cluster_stop(cl)
        unlink(folder, recursive = TRUE)
      }
    }
  })

  # ---- before hello, and before ready

  test_cluster(say("a setup that ends the worker fails the start"), {
    local_settings(muster.quiet = TRUE)
    library <- faults_library()
    for (fault in few(c("exit", "quit", "SIGSEGV", "SIGKILL", "SIGTERM", "garbage"))) {
      error <- expect_error(
        cluster_start(2, start = start, setup = bquote({
          dyn.load(.(library))
          .Call("faults_act", .(c(fault, "")))
          Sys.sleep(1) # tidy: garbage is to be read before READY comes
        })),
        class = "muster_error_launch", info = fault
      )
      if (fault != "garbage") expect_fault_fields(error, fault, fault)
    }
  })

  test_cluster(say("a worker that is ended in its setup when it comes back comes again"), {
    local_settings(muster.quiet = TRUE)
    library <- faults_library()
    for (fault in few(c("exit", "SIGSEGV", "SIGKILL", "garbage"))) {
      folder <- local_folder()
      # The first of three workers that come to the second file is ended.
      cl <- cluster_start(3, start = start, setup = bquote({
        dyn.load(.(library))
        if (file.exists(.(file.path(folder, "started")))) {
          .Call("faults_act", .(c(fault, file.path(folder, "once"))))
        }
      }))
      export_to(cl)
      file.create(file.path(folder, "started"))
      tools::pskill(node_pids(cl)[2L], tools::SIGKILL)
      expect_as_before(cl, 3L, fault)
      expect_true(file.exists(file.path(folder, "once")))
      # Garbage comes in too late to matter, or costs one more life.
      expect_gte(cluster_status(cl)$restarts[2L], if (fault == "garbage") 1L else 2L)
      cluster_stop(cl)
    }
  })
})

test_cluster("a startup file that ends each worker that comes back makes it lost", {
  local_settings(muster.quiet = TRUE)
  folder <- local_folder()
  flag <- file.path(folder, "started")
  writeLines(
    sprintf("if (file.exists(\"%s\")) quit(\"no\", 5)", flag), file.path(folder, "profile")
  )
  local_variables(R_PROFILE_USER = file.path(folder, "profile"))
  cl <- local_cluster(2, start = "spawn")
  export_to(cl)
  file.create(flag)
  tools::pskill(node_pids(cl)[1L], tools::SIGKILL)
  error <- expect_error(clusterCall(cl, Sys.getpid), class = "muster_error_lost")
  expect_identical(error$worker, 1L)
  expect_identical(error$exit_code, 5L)
  expect_as_before(cl[2], 1L)
  # What is lost stays lost, whatever becomes of the file.
  unlink(flag)
  expect_error(clusterCall(cl[1], Sys.getpid), class = "muster_error_lost")
})

test_cluster("a startup file that ends a worker once when it comes back is healed", {
  local_settings(muster.quiet = TRUE)
  folder <- local_folder()
  flag <- file.path(folder, "started")
  code <- "if (file.exists(\"%1$s.x\")) if (file.rename(\"%1$s.x\", \"%1$s.y\")) quit(\"no\", 5)"
  writeLines(sprintf(code, flag), file.path(folder, "profile"))
  local_variables(R_PROFILE_USER = file.path(folder, "profile"))
  cl <- local_cluster(2, start = "spawn")
  export_to(cl)
  file.create(paste0(flag, ".x"))
  tools::pskill(node_pids(cl)[1L], tools::SIGKILL)
  expect_as_before(cl, 2L)
  expect_true(file.exists(paste0(flag, ".y")))
  expect_identical(cluster_status(cl)$restarts[1L], 2L)
})

test_cluster("to come back may take longer than a heartbeat", {
  local_settings(muster.quiet = TRUE)
  folder <- local_folder()
  cl <- local_cluster(2, heartbeat = 1, setup = bquote({
    if (file.exists(.(file.path(folder, "started")))) Sys.sleep(1.5) # tidy: slow
  }))
  export_to(cl)
  file.create(file.path(folder, "started"))
  tools::pskill(node_pids(cl)[2L], tools::SIGKILL)
  expect_as_before(cl, 2L)
  expect_identical(cluster_status(cl)$restarts, c(0L, 1L))
})

test_cluster("a node whose worker isn't there has no pid that stands for others", {
  local_settings(muster.quiet = TRUE)
  # The host comes back once a file is there: until then its worker has no process.
  far <- local_late()
  file.create(far$file)
  cl <- local_cluster(list(1, far$launcher))
  gone <- cl[[2]]$pid
  unlink(far$file)
  tools::pskill(far_host(cl), tools::SIGKILL)
  wait_until({
    clusterCall(cl[1], identity, 1)
    cluster_status(cl)$state[2L] == "pending"
  })
  expect_identical(cluster_status(cl)$pid[2L], NA_integer_)
  expect_identical(cl[[2]]$pid, gone) # 0 would be this session's own process group
  file.create(far$file)
  pid <- clusterCall(cl[2], Sys.getpid)[[1L]]
  expect_false(pid == gone)
  expect_identical(cl[[2]]$pid, pid)
})

# ---- out of memory

test_cluster("a call that gets no memory fails, and its worker goes on", {
  cl <- crash_cluster()
  pids <- node_pids(cl)
  clusterCall(cl[2], function() .Call("faults_limit_memory", 64e6))
  expect_error(clusterCall(cl[2], function() length(numeric(5e7))), "cannot allocate")
  # Serializing needs as much again.
  expect_error(clusterCall(cl[2], function() numeric(5e6) + 1), "memory")
  expect_identical(node_pids(cl), pids)
  expect_as_before(cl)
})

test_cluster("a worker that gets no memory for a message is replaced, and gets it again", {
  # Its limit is part of its state, so it limits itself only once, and there is no copy that has it.
  local_settings(muster.quiet = TRUE, muster.checkpoints = FALSE)
  cl <- crash_cluster()
  clusterCall(cl[2], function(flag) {
    if (!file.exists(flag)) .Call("faults_limit_memory", 32e6)
    file.create(flag)
  }, file.path(local_folder(), "flag"))
  expect_identical(clusterCall(cl, length, numeric(2e7)), rep(list(20000000L), 3L))
  expect_as_before(cl)
  expect_identical(cluster_status(cl)$restarts, c(0L, 1L, 0L))
})

test_cluster("a worker that can't read shared memory says so, and goes on", {
  library <- faults_library()
  cl <- local_cluster(2, setup = bquote(dyn.load(.(library))))
  export_to(cl)
  pids <- node_pids(cl)
  clusterCall(cl[2], function() .Call("faults_limit_memory", 32e6))
  error <- expect_error(clusterCall(cl, length, numeric(2e7)), class = "muster_error_memory")
  expect_match(conditionMessage(error), "Worker 2.*read a call of 160 MB.*ulimit -v")
  task <- task_submit(cl[2], length, numeric(2e7))
  expect_error(task_value(task), class = "muster_error_memory")
  expect_identical(node_pids(cl), pids)
  expect_as_before(cl, 2L)
})

test_cluster("a message for which no worker has memory is poison", {
  local_settings(muster.quiet = TRUE, muster.share_min = Inf)
  library <- faults_library()
  cl <- local_cluster(2, retries = 1, setup = bquote({
    dyn.load(.(library))
    .Call("faults_limit_memory", 32e6)
  }))
  export_to(cl)
  error <- expect_error(clusterCall(cl[1], length, numeric(2e7)), class = "muster_error_lost")
  expect_match(error$output, "no memory for a message")
  expect_as_before(cl, 2L)
})

test_cluster("tasks that only fit alone succeed when they are tried again", {
  skip_without_proc()
  procs <- file.path(local_cgroup("memory", c(memory.limit_in_bytes = 440e6)), "cgroup.procs")
  cl <- crash_cluster(4)
  local_settings(muster.quiet = TRUE)
  eats <- remote(function(procs, i) {
    cat(Sys.getpid(), file = procs)
    x <- lapply(1:25, function(k) raw(1e7) | as.raw(1L))
    Sys.sleep(0.2)
    i
  })
  tasks <- lapply(1:8, function(i) task_submit(cl, eats, procs, i))
  expect_identical(lapply(tasks, task_value), as.list(1:8))
  expect_gt(sum(cluster_status(cl)$restarts), 0)
  expect_identical(cluster_map(cl, 1:8, function(i, eats, procs) eats(procs, i), eats, procs),
    as.list(1:8)
  )
  expect_as_before(cl, 4L)
})

test_cluster("a worker that the kernel kills for memory is replaced, its call runs alone", {
  skip_without_proc()
  folder <- local_cgroup("memory", c(memory.limit_in_bytes = 256e6))
  procs <- file.path(folder, "cgroup.procs")
  cl <- crash_cluster(2)
  eats <- function(procs, n) {
    if (n > 0) {
      cat(Sys.getpid(), file = procs)
      x <- lapply(seq_len(n), function(i) raw(1e7) | as.raw(1L))
    }
    "done"
  }
  told <- NULL
  answer <- withCallingHandlers(
    tryCatch(clusterMap(cl, eats, procs, c(0L, 100L)), error = identity),
    muster_message_restarted = function(m) {
      told <<- c(told, conditionMessage(m))
      invokeRestart("muffleMessage")
    }
  )
  expect_s3_class(answer, "muster_error_lost")
  expect_identical(answer$signal, 9L)
  expect_identical(answer$oom, TRUE)
  expect_match(conditionMessage(answer), "no memory left")
  expect_match(told, "no memory left", all = FALSE)
  expect_identical(answer$results[[1L]], "done")
  expect_as_before(cl, 2L)
})
