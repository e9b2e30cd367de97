# Workers that have nothing to do take nothing: their threads sleep, and nearly nothing wakes them.
# Wakes are counted, not CPU time: a busy machine makes each wake dearer, never more of them.

# Each thread of some processes: its name, how often it went to sleep, whether it is asleep.
threads_of <- function(pids) {
  files <- Sys.glob(file.path("/proc", pids, "task", "*", "status"))
  lines <- lapply(files, readLines)
  field <- function(name) {
    vapply(lines, function(x) sub("^.*:\\s+", "", grep(name, x, value = TRUE)), "")
  }
  list(
    name = dirname(files), asleep = startsWith(field("^State:"), "S"),
    slept = as.numeric(field("^voluntary_ctxt_switches:"))
  )
}

# Expects that the processes come to rest: for two seconds none of their threads is awake at both
# ends, or is woken more often than this. One that polls, or spins, never comes to rest.
expect_rest <- function(pids, wakes_per_s) {
  awake <- NULL
  wait_until({
    began <- proc.time()[["elapsed"]]
    before <- threads_of(pids)
    pass_time(2)
    after <- threads_of(pids)
    most <- wakes_per_s * (proc.time()[["elapsed"]] - began) + 1
    awake <- if (!identical(before$name, after$name)) "threads came or went" else {
      after$name[after$slept - before$slept > most | !(before$asleep | after$asleep)]
    }
    !length(awake)
  }, fail = FALSE)
  expect_identical(awake, character())
}

# A worker's second thread looks for the session each half second at most: LOOK_MS in
# src/fork/watch.c.
idle_wakes <- 2

test_that("64 idle workers, their server and their session sleep", {
  limit_time(120)
  session <- start_session(quote({
    cl <- cluster_start(64)
    tell(pids = unlist(clusterCall(cl, Sys.getpid)))
    repeat Sys.sleep(60)
  }))
  pids <- wait_told(session, "pids")$pids
  expect_length(pids, 64L)
  all <- marked_pids(session)
  expect_length(all, 66L)
  expect_rest(all, idle_wakes)
  expect_identical(marked_pids(session), all)
  tools::pskill(session$process$get_pid(), tools::SIGKILL)
  expect_all_gone(session)
})

test_that("workers that were busy are idle again", {
  limit_time(120)
  session <- start_session(quote({
    cl <- cluster_start(8)
    for (i in 1:3000) clusterCall(cl[1 + i %% 8], function() 1L)
    invisible(clusterApplyLB(cl, 1:2000, identity))
    tell(done = TRUE)
    repeat Sys.sleep(60)
  }))
  wait_told(session, "done")
  expect_rest(marked_pids(session), idle_wakes)
})

test_that("a session that waits for an answer sleeps, but for 20 looks a second", {
  limit_time(60)
  session <- start_session(quote({
    cl <- cluster_start(32)
    tell(waits = TRUE)
    clusterCall(cl[1:2], Sys.sleep, 600)
  }))
  wait_told(session, "waits")
  # FFI_SLICE_MS in src/ffi/ffi.h: Ctrl-C is looked for.
  expect_rest(marked_pids(session), 1000 / 50)
})
