# Who is said to have ended a worker, or the fork server: muster itself, the kernel for want of
# memory, or somebody who isn't known.

# What is told of a loss, and the error of `code`: list(messages, error).
told_of <- function(code) {
  told <- list()
  error <- withCallingHandlers(tryCatch(
    {
      force(code)
      NULL
    },
    muster_error = identity
  ), muster_message = function(m) {
    told <<- c(told, list(m))
    invokeRestart("muffleMessage")
  })
  list(messages = told, error = error)
}

expect_blamed <- function(condition, by, ..., never = character()) {
  expect_identical(condition$killed_by, by)
  text <- conditionMessage(condition)
  for (words in c(...)) expect_match(text, words, fixed = TRUE)
  for (words in never) expect_no_match(text, words, fixed = TRUE)
}

# The kernel ends two processes of a memory cgroup below this session's, which stays until the
# block ends: what it counted goes with it. FALSE where no such cgroup can be made.
end_some_for_memory <- function(frame = parent.frame()) {
  line <- grep(":memory:", readLines("/proc/self/cgroup"), value = TRUE)
  own <- if (length(line)) sub("^[0-9]+:memory:", "", line[1L]) else ""
  folder <- file.path("/sys/fs/cgroup/memory", own, basename(tempfile("muster-test-")))
  if (!suppressWarnings(dir.create(folder))) {
    return(FALSE)
  }
  defer(function() wait_until(system2("rmdir", folder, stderr = FALSE) == 0L), frame)
  limit <- file.path(folder, "memory.limit_in_bytes")
  if (inherits(tryCatch(cat("20000000", file = limit), error = identity), "error")) {
    return(FALSE)
  }
  eat <- sprintf("echo $$ > %s/cgroup.procs; exec head -c 100m /dev/zero | tail", folder)
  for (k in 1:2) system2("sh", c("-c", shQuote(eat)), stdout = FALSE, stderr = FALSE)
  kills <- grep("oom_kill ", readLines(file.path(folder, "memory.oom_control")), value = TRUE)
  length(kills) == 1L && as.numeric(sub("oom_kill ", "", kills)) > 0
}

test_cluster("what the heartbeat ended isn't blamed on memory that others ran out of", {
  skip_without_proc()
  cl <- local_cluster(2, heartbeat = 1, retries = 0)
  pid <- node_pids(cl)[2L]
  ends <- function(pid) {
    if (Sys.getpid() == pid) tools::pskill(pid, tools::SIGSTOP)
    1
  }
  kills <- .Call(ffi_oom_kills)
  skip_if_not(end_some_for_memory(environment()), "no memory cgroup can be made and limited here")
  expect_gt(.Call(ffi_oom_kills), kills)
  told <- told_of(clusterCall(cl, ends, pid))
  expect_s3_class(told$error, "muster_error_lost")
  expect_false(told$error$oom)
  expect_identical(told$error$signal, 9L)
  for (one in c(told$messages, list(told$error))) {
    expect_blamed(one, "muster", "killed by muster", "didn't respond within `heartbeat` seconds",
      never = c("memory", "unknown")
    )
  }
})

test_cluster("the kernel's count of this session's cgroup and those below is looked at", {
  skip_without_proc()
  before <- .Call(ffi_oom_kills)
  skip_if_not(end_some_for_memory(environment()), "no memory cgroup can be made and limited here")
  expect_gt(.Call(ffi_oom_kills), before)
})

test_cluster("a worker that ignores its interrupt was killed by muster, and it says so", {
  cl <- local_cluster(2)
  file <- tempfile()
  defer(function() unlink(file))
  task <- task_submit(cl, function(file) {
    # An interrupt that came before the handler is there would end it.
    repeat tryCatch(
      {
        file.create(file)
        Sys.sleep(60) # tidy: a deaf task
      },
      interrupt = function(e) NULL
    )
  }, file)
  wait_until(file.exists(file))
  pid <- node_pids(cl)[cluster_status(cl)$state == "busy"]
  worker <- processes(pid)
  task_cancel(task)
  told <- told_of(wait_until({
    clusterCall(cl, identity, 1)
    !still_exists(worker)
  }))
  restarted <- Filter(function(m) inherits(m, "muster_message_restarted"), told$messages)
  expect_length(restarted, 1L)
  expect_blamed(restarted[[1L]], "muster", paste0("(pid ", pid, ") was lost: killed by muster."),
    "its call kept running for a second after the interrupt",
    never = c("memory", "unknown", "SIGKILL")
  )
})

test_cluster("a call that took too long and ignored its interrupt was ended by muster", {
  cl <- local_cluster(1, timeout = 1)
  told <- told_of(clusterCall(cl, function() {
    repeat tryCatch(Sys.sleep(60), interrupt = function(e) NULL) # tidy: a deaf task
  }))
  expect_s3_class(told$error, "muster_error_timeout")
  told <- c(told$messages, told_of(clusterCall(cl, identity, 1))$messages)
  expect_length(told, 1L)
  expect_blamed(told[[1L]], "muster", "killed by muster", "after the interrupt")
})

test_cluster("who else has killed a worker isn't known, also while its call is cancelled", {
  cl <- local_cluster(2, retries = 0)
  told <- told_of(clusterCall(cl[1], function() tools::pskill(Sys.getpid(), 9L)))
  for (one in c(told$messages, list(told$error))) {
    expect_blamed(one, "unknown", "killed by signal 9 (SIGKILL) from an unknown sender",
      never = "memory"
    )
  }
  file <- tempfile()
  defer(function() unlink(file))
  task <- task_submit(cl, function(file) {
    tryCatch(
      {
        file.create(file)
        Sys.sleep(60) # tidy: slow
      },
      interrupt = function(e) tools::pskill(Sys.getpid(), 9L)
    )
  }, file)
  wait_until(file.exists(file))
  pid <- node_pids(cl)[cluster_status(cl)$state == "busy"]
  worker <- processes(pid)
  began <- proc.time()[["elapsed"]]
  task_cancel(task)
  told <- told_of(wait_until({
    clusterCall(cl, identity, 1)
    !still_exists(worker)
  }))
  # On a machine that is busy with others muster's own kill may have come first.
  if (proc.time()[["elapsed"]] - began < 1) {
    expect_blamed(told$messages[[1L]], "unknown", "from an unknown sender", never = "by muster")
  }
  # No signal, or another one, has no such words.
  told <- told_of(clusterCall(cl[1], function() tools::pskill(Sys.getpid(), 15L)))
  expect_blamed(told$error, "", "killed by signal 15 (SIGTERM).", never = "sender")
})

test_cluster("without healing the error says who has killed a worker, too", {
  cl <- local_cluster(2, healing = FALSE)
  error <- told_of(clusterCall(cl[1], function() tools::pskill(Sys.getpid(), 9L)))$error
  expect_blamed(error, "unknown", "from an unknown sender")
  killNode(cl[[2]])
  error <- told_of(clusterCall(cl[2], identity, 1))$error
  expect_blamed(error, "muster", "killed by muster", "killNode()")
})

test_that("a fork server that goes away in a start is replaced, once", {
  limit_time(90)
  run <- run_session(quote({
    cluster_stop(cluster_start(1))
    server <- children()
    stopifnot(length(server) == 1L)
    tools::pskill(server, tools::SIGSTOP)
    while (!any(grepl("^State:\\sT", readLines(file.path("/proc", server, "status"))))) NULL
    system(paste("(sleep 1; kill -9", server, ") >/dev/null 2>&1 &"))
    said <- NULL
    cl <- withCallingHandlers(cluster_start(4), muster_message_server = function(m) {
      said <<- conditionMessage(m)
    })
    works <- clusterCall(cl, identity, 1)
    cluster_stop(cl)
    # Here it is the workers that end each server that forks them. 32 are forked at once: there
    # is always one that is still to come.
    outcome <- outcome_of(cluster_start(33, setup = quote({
      # Behind the name, which may have blanks: the state, the parent.
      stat <- strsplit(sub(".*[)] ", "", readLines("/proc/self/stat")), " ")[[1L]]
      tools::pskill(as.integer(stat[2L]), 9L)
      Sys.sleep(60) # tidy: until it is ended with the start
    })))
    cl <- cluster_start(2)
    tell(
      said = said, works = works, outcome = outcome, again = clusterCall(cl, identity, 1),
      children = length(children())
    )
    cluster_stop(cl)
  }))
  expect_match(run$told$said, "The fork server ended; starting another one.")
  expect_identical(run$told$works, list(1, 1, 1, 1))
  outcome <- run$told$outcome
  expect_identical(outcome$class[1L], "muster_error_launch")
  expect_match(outcome$message, "Can't start worker [0-9]+ of 33")
  expect_match(outcome$message, "The fork server, .*, ended during the start[.]")
  expect_match(outcome$message, "It ended: killed by signal 9 (SIGKILL) from an", fixed = TRUE)
  expect_match(outcome$message, "Start the cluster again", fixed = TRUE)
  expect_no_match(outcome$message, "104|System error")
  expect_identical(run$told$again, list(1, 1))
  expect_identical(run$told$children, 1L)
})

test_that("other errors of the system have their words", {
  expect_match(errno_text(5L), "Input/output error (system error 5)", fixed = TRUE)
})
