# Every call that can fail is made to fail, one after the other: each start, call and stop
# ends well or in an error that has a name, and nothing is left. Only in a build with
# fault points (CPPFLAGS += -DMST_FAULTS).

skip_without_faults <- function() {
  skip_if_not(isTRUE(.Call(ffi_build_flags)[2L]), "this build of muster has no fault points")
}

errnos <- c(
  EINTR = 4L, EIO = 5L, EAGAIN = 11L, ENOMEM = 12L, EMFILE = 24L, EPIPE = 32L, ECONNRESET = 104L
)

# Runs start, call and stop again and again, with call 1, 2, 3 ... of the point failing,
# until a run meets none. Tells what each run came to.
fault_session <- function(point, error, start, frame = parent.frame()) {
  run_session(frame = frame, timeout_s = 230, env = c(MUSTER_LOOP = NA), bquote({
    arm <- function(nth) .Call(muster:::ffi_fault_arm, .(point), nth, .(unname(errnos[[error]])))
    disarm <- function() .Call(muster:::ffi_fault_arm, "", 0L, 0L)
    # What fails is known at once: no start may need this limit.
    options(muster.start_timeout = 15)
    large <- seq_len(1e5) + 0
    use <- function() {
      cl <- NULL
      on.exit({
        met <<- max(met, disarm())
        if (!is.null(cl)) stopCluster(cl)
      })
      cl <- cluster_start(2, start = .(start))
      stopifnot(
        identical(clusterCall(cl, function() 1L), list(1L, 1L)),
        identical(clusterCall(cl, rev, large)[[2]], rev(large)),
        identical(unlist(clusterApplyLB(cl, 1:6, function(i) i)), 1:6)
      )
      stopCluster(cl)
    }
    met <- 0L
    # What is there when nothing fails: also a start that finds its server ready.
    state <- function() {
      use()
      gc()
      files <- list.files(tempdir(), all.files = TRUE, recursive = TRUE, include.dirs = TRUE)
      list(
        fds = length(list.files("/proc/self/fd")), children = length(running(children())),
        # A server that was lost with its channel is followed by another.
        files = sub("server-[0-9a-f]+", "server", files)
      )
    }
    # A server that is lost takes its directory with it, but in its own time.
    settled <- function(before) {
      end <- Sys.time() + 60
      repeat {
        now <- state()
        if (identical(now, before) || Sys.time() > end) {
          return(now)
        }
        Sys.sleep(0.02) # tidy: a wait
      }
    }
    use()
    before <- state()
    runs <- list()
    for (nth in seq_len(400L)) {
      met <- 0L
      # A wait that nothing ends is ended here, by an error that has no name.
      setTimeLimit(elapsed = 90, transient = TRUE)
      arm(nth)
      caught <- outcome_of(use())
      setTimeLimit()
      hit <- met >= nth
      after <- settled(before)
      runs[[nth]] <- list(caught = caught, before = before, after = after)
      before <- after # what one run left is not held against the next
      if (!hit) break
    }
    tell(runs = runs, hit = hit)
  }))
}

# R's own words for no memory, and those of muster where R raises the error.
no_memory <- "no memory|cannot allocate|Cannot allocate"

expect_faults_survived <- function(run, harmless = FALSE) {
  expect_done(run)
  expect_false(run$told$hit) # the last run met no fault
  expect_gt(length(run$told$runs), 1L)
  cat(sprintf("    %d calls failed\n", length(run$told$runs) - 1L))
  for (nth in seq_along(run$told$runs)) {
    one <- run$told$runs[[nth]]
    caught <- one$caught
    named <- is.null(caught) || any(startsWith(caught$class, "muster_error_")) ||
      (!harmless && grepl(no_memory, caught$message))
    if (harmless) named <- is.null(caught)
    expect_false(inherits_kind(caught, "timeout"), info = paste("call", nth))
    expect_true(named, info = paste(c("call", nth, caught$class, caught$message), collapse = "\n"))
    expect_identical(one$after, one$before, info = paste("after call", nth))
  }
  expect_nothing_left(run$session)
  expect_identical(tempdirs_left(run$session), character())
}

cases <- list(
  net.pair = c("EMFILE", "ENOMEM"), net.pipe = c("EMFILE", "ENOMEM"),
  net.send = c("ENOMEM", "EIO", "EPIPE", "ECONNRESET"),
  net.recv = c("ENOMEM", "EMFILE", "ECONNRESET"), base.realloc = "ENOMEM", pool.alloc = "ENOMEM",
  share.memfd = "EMFILE", share.write = "ENOMEM", share.seal = "ENOMEM", share.map = "ENOMEM"
)

for (point in names(cases)) {
  for (error in cases[[point]]) {
    # Workers that boot take longer: one way to fail is enough for them.
    for (start in c("fork", if (error == cases[[point]][1L]) "spawn")) local({
      point <- point
      error <- error
      start <- start
      name <- paste0(point, " may fail by ", error, " at each of its calls (", start, ")")
      test_that(name, {
        skip_without_faults()
        limit_time(240)
        expect_faults_survived(fault_session(point, error, start))
      })
    })
  }
}

test_that("system calls that a signal ends, or that would have to wait, are made again", {
  skip_without_faults()
  limit_time(240)
  for (point in c("net.send", "net.recv")) {
    for (error in c("EINTR", "EAGAIN")) {
      expect_faults_survived(fault_session(point, error, "fork"), harmless = TRUE)
    }
  }
})

# A startup file arms the point in the fork server and so in all its workers.
test_that("faults in fork servers and workers end in errors that have a name", {
  skip_without_faults()
  limit_time(900)
  for (point in c("net.pair", "net.pipe", "net.send", "net.recv", "base.realloc")) {
    profile <- withr::local_tempfile(fileext = ".R", lines = deparse(bquote(
      if (nzchar(Sys.getenv("MUSTER_BOOT"))) {
        invisible(.Call(loadNamespace("muster")$ffi_fault_arm, .(point),
          as.integer(Sys.getenv("MUSTER_TEST_NTH")), 12L))
      }
    )))
    run <- run_session(env = c(R_PROFILE_USER = profile), timeout_s = 180, quote({
      options(muster.start_timeout = 15)
      # The variable is read at boot: each start has a server of its own.
      runs <- lapply(c(1:10, 15, 20, 25, 30), function(nth) {
        Sys.setenv(MUSTER_TEST_NTH = nth, OMP_NUM_THREADS = nth)
        outcome_of({
          cl <- cluster_start(2)
          on.exit(stopCluster(cl))
          stopifnot(
            identical(clusterCall(cl, function() 1L), list(1L, 1L)),
            identical(clusterCall(cl, rev, 1:1e5)[[2]], rev(1:1e5))
          )
        })
      })
      tell(runs = runs)
    }))
    expect_done(run)
    expect_length(run$told$runs, 14L)
    failed <- sum(lengths(run$told$runs) > 0L)
    cat(sprintf("    %s: %d of 14 starts failed\n", point, failed))
    # net.pair only spares the warming, and what there is no memory to send is sent later.
    if (!point %in% c("net.pair", "net.send")) expect_gt(failed, 0L)
    for (nth in seq_along(run$told$runs)) {
      caught <- run$told$runs[[nth]]
      named <- is.null(caught) || any(startsWith(caught$class, "muster_error_")) ||
        grepl(no_memory, caught$message)
      expect_true(named, info = paste(c(point, nth, caught$class, caught$message), collapse = "\n"))
    }
    expect_nothing_left(run$session)
    expect_identical(tempdirs_left(run$session), character())
  }
})

test_that("C7: a promise broken while the I/O thread serves ends it, and the next verb says so", {
  skip_without_faults()
  limit_time(60)
  run <- run_session(quote({
    cl <- cluster_start(2)
    pids <- vapply(cl, function(node) node$pid, 0L)
    task <- task_submit(cl, Sys.sleep, 1000)
    threads <- .Call(muster:::ffi_threads_count)[1L]
    .Call(muster:::ffi_fault_arm, "pool.assert", -1L, 0L)
    while (.Call(muster:::ffi_threads_count)[1L] == threads) NULL
    met <- .Call(muster:::ffi_fault_arm, "", -1L, 0L)
    caught <- list(outcome_of(task_value(task)), outcome_of(clusterCall(cl, identity, 1)))
    other <- cluster_start(2)
    values <- clusterCall(other, identity, 1)
    cluster_stop(cl)
    cluster_stop(other)
    tell(met = met, caught = caught, values = values)
  }))
  expect_done(run)
  expect_identical(run$told$met, 1L)
  for (caught in run$told$caught) {
    expect_true("muster_error_internal" %in% caught$class)
    expect_match(caught$message, "mst_fault.*session[.]c:[0-9]+")
  }
  expect_identical(run$told$values, list(1, 1))
  expect_nothing_left(run$session)
})
