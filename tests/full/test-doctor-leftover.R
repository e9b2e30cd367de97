# Leftover workers, made: a daemon that a worker forked off, and one of makeCluster() that
# computes.

skip_without_proc()
build_faults()

leftover_pids <- function() {
  command <- doctor(items = "leftover")$command
  as.integer(strsplit(sub("^kill -KILL ", "", command), " ", fixed = TRUE)[[1L]])
}

test_that("what a worker forked off and outlives a killed session is shown, and stays", {
  limit_time(120)
  library <- faults_library()
  session <- start_session(bquote({
    cl <- cluster_start(1L)
    left <- unlist(parallel::clusterCall(cl, function(library) {
      dyn.load(library)
      .Call("faults_daemon")
    }, .(library)))
    tell(session = Sys.getpid(), worker = cl[[1L]]$pid, left = left)
    Sys.sleep(600)
  }))
  told <- wait_told(session, "left")
  worker <- processes(told$worker)
  left <- processes(told$left)
  expect_false(any(c(told$worker, told$left) %in% leftover_pids()))
  tools::pskill(told$session, tools::SIGKILL)
  wait_until(!still_runs(worker))
  found <- doctor(items = "leftover")
  expect_identical(found$verdict, "attention")
  expect_match(found$value, paste0(told$left, " (of session ", told$session, ")"), fixed = TRUE)
  expect_false(told$worker %in% leftover_pids())
  # Shown, never killed.
  expect_true(still_runs(left))
  tools::pskill(told$left, tools::SIGKILL)
  wait_until(!told$left %in% leftover_pids())
})

test_that("a worker of makeCluster() that computes on without its session is shown", {
  limit_time(120)
  session <- start_session(quote({
    cl <- parallel::makeCluster(1L)
    pid <- unlist(parallel::clusterCall(cl, Sys.getpid))
    parallel:::sendCall(cl[[1L]], function() {
      end <- Sys.time() + 600
      while (Sys.time() < end) sqrt(2)
    }, list())
    tell(session = Sys.getpid(), worker = pid)
    Sys.sleep(600)
  }))
  told <- wait_told(session, "worker")
  worker <- processes(told$worker)
  expect_false(told$worker %in% leftover_pids())
  tools::pskill(told$session, tools::SIGKILL)
  wait_until(told$worker %in% leftover_pids())
  expect_match(doctor(items = "leftover")$value, paste0(told$worker, " (of makeCluster())"),
    fixed = TRUE)
  expect_true(still_runs(worker))
  tools::pskill(told$worker, tools::SIGKILL)
  wait_until(!told$worker %in% leftover_pids())
})
