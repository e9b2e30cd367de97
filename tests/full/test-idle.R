# Workers that have nothing to do take nothing.

test_that("64 idle workers, their server and their session take under 1 % of a core", {
  limit_time(120)
  session <- start_session(quote({
    cl <- cluster_start(64)
    tell(pids = unlist(clusterCall(cl, Sys.getpid)))
    repeat Sys.sleep(60)
  }))
  pids <- wait_told(session, "pids")$pids
  expect_length(pids, 64L)
  expect_length(marked_pids(session), 66L)
  pass_time(2)
  all <- marked_pids(session)
  before <- cpu_seconds(all)
  pass_time(10)
  used <- cpu_seconds(all) - before
  cat(sprintf("    %.3f s of CPU in 10 s\n", used))
  expect_lt(used, 0.1)
  expect_identical(marked_pids(session), all)
  tools::pskill(session$process$get_pid(), tools::SIGKILL)
  expect_all_gone(session)
})

test_that("workers that were busy are idle again", {
  limit_time(120)
  run <- run_session(quote({
    cl <- cluster_start(8)
    for (i in 1:3000) clusterCall(cl[1 + i %% 8], function() 1L)
    invisible(clusterApplyLB(cl, 1:2000, identity))
    cpu <- function() {
      sum(vapply(c(Sys.getpid(), node_pids), function(pid) {
        text <- sub("^.*[)] ", "", readLines(file.path("/proc", pid, "stat")))
        sum(as.numeric(strsplit(text, " ")[[1]][12:13])) / 100
      }, 0))
    }
    node_pids <- vapply(cl, function(node) node$pid, 0L)
    Sys.sleep(1)
    before <- cpu()
    Sys.sleep(5)
    tell(used = cpu() - before)
    stopCluster(cl)
  }))
  expect_done(run)
  cat(sprintf("    %.3f s of CPU in 5 s\n", run$told$used))
  expect_lt(run$told$used, 0.1)
})

test_that("a session that waits for an answer takes next to nothing", {
  limit_time(60)
  run <- run_session(quote({
    cl <- cluster_start(32)
    before <- sum(proc.time()[1:2])
    clusterCall(cl[1:2], Sys.sleep, 6)
    tell(used = sum(proc.time()[1:2]) - before)
    stopCluster(cl)
  }))
  expect_done(run)
  cat(sprintf("    %.3f s of CPU in 6 s\n", run$told$used))
  expect_lt(run$told$used, 0.1)
})
