# Fork servers that were killed: what they leave. How clusters go on is in test-heal.R.

build_faults()

test_cluster("servers that were killed leave no zombies, and no directory that is of no use", {
  skip_without_fork()
  local_settings(muster.quiet = TRUE)
  server <- function() utils::tail(the_cluster$servers, 1L)[[1L]]
  server_process <- function() processes(.Call(ffi_server_state, server()$pointer)$pid)
  cl <- local_cluster(2)
  first <- server()$base
  killed <- bases <- NULL
  for (round in 1:3) {
    killed <- c(killed, server_process())
    bases <- c(bases, server()$base)
    tools::pskill(c(process_pids(utils::tail(killed, 1L)), node_pids(cl[1L])), 9L)
    expect_identical(unlist(clusterCall(cl, Sys.getpid)), node_pids(cl))
    # The session is the only one that can wait for them.
    expect_false(any(still_exists(utils::head(killed, -1L))))
  }
  # Its workers, and those that came in their place, live in the first one's.
  expect_identical(dir.exists(bases), c(TRUE, FALSE, FALSE))
  where <- unlist(clusterCall(cl, tempdir))
  expect_identical(dirname(where), rep(first, 2L))
  expect_true(all(dir.exists(where)))
  expect_length(the_cluster$servers, 2L)
  cluster_stop(cl)
  expect_false(any(still_exists(killed)))
  expect_false(any(dir.exists(bases)))
  expect_length(the_cluster$servers, 1L)
})

test_cluster("a server that was killed with nobody using it goes at the next start", {
  skip_without_fork()
  cluster_stop(cluster_start(1))
  server <- utils::tail(the_cluster$servers, 1L)[[1L]]
  pid <- .Call(ffi_server_state, server$pointer)$pid
  known <- processes(pid)
  tools::pskill(pid, 9L)
  wait_until(!still_runs(known))
  cluster_stop(cluster_start(1))
  expect_false(still_exists(known))
  expect_false(dir.exists(server$base))
})

test_that("C10: an interrupt leaves a start whose server is stopped, and waits for nothing", {
  limit_time(60)
  run <- run_session(quote({
    cl <- cluster_start(1)
    server <- parent_of(clusterCall(cl, Sys.getpid)[[1L]])
    tools::pskill(server, tools::SIGSTOP)
    system(sprintf("(sleep 0.5; kill -INT %d) &", Sys.getpid()))
    caught <- outcome_of(cluster_start(2, heartbeat = Inf))
    # Whoever waited until the server counts as silent has ended it.
    there <- length(running(server))
    tools::pskill(server, tools::SIGCONT)
    tell(caught = caught$message, there = there, works = clusterCall(cl, identity, 1))
    other <- cluster_start(2)
    tell(same = parent_of(clusterCall(other, Sys.getpid)[[1L]]) == server)
    cluster_stop(other)
    cluster_stop(cl)
    end <- Sys.time() + 30
    while (length(running(children())) > 1L && Sys.time() < end) Sys.sleep(0.01) # tidy: a wait
    tell(children = length(running(children())))
  }))
  expect_done(run)
  expect_identical(run$told$caught, "interrupted")
  expect_identical(run$told$there, 1L)
  expect_identical(run$told$works, list(1))
  expect_true(run$told$same)
  expect_identical(run$told$children, 1L) # the fork server
  expect_nothing_left(run$session)
  expect_identical(tempdirs_left(run$session), character())
})

test_that("C15: what a lost worker leaves in its temporary directory goes, without a server too", {
  limit_time(60)
  run <- run_session(quote({
    options(muster.quiet = TRUE)
    cl <- cluster_start(2)
    leave_file <- function() {
      dir.create(file.path(tempdir(), "folder"))
      cat("x", file = file.path(tempdir(), "folder", "file"))
      list(pid = Sys.getpid(), dir = tempdir())
    }
    left <- lapply(1:2, function(k) {
      worker <- clusterCall(cl[1], leave_file)[[1L]]
      if (k == 2L) tools::pskill(parent_of(worker$pid), 9L)
      tools::pskill(worker$pid, 9L)
      clusterCall(cl, identity, 1)
      end <- Sys.time() + 30
      while (dir.exists(worker$dir) && Sys.time() < end) clusterCall(cl, identity, 1)
      dir.exists(worker$dir)
    })
    others <- unlist(clusterCall(cl, function() dir.exists(tempdir())))
    tell(left = unlist(left), others = others)
  }))
  expect_done(run)
  expect_identical(run$told$left, c(FALSE, FALSE))
  expect_identical(run$told$others, c(TRUE, TRUE))
  expect_nothing_left(run$session)
  expect_identical(tempdirs_left(run$session), character())
})

# What a session that adopts does to its fork servers and workers, and the zombies that stay.
adopting_session <- function(code, frame = parent.frame()) {
  run_session(frame = frame, bquote({
    dyn.load(.(faults_library()))
    stopifnot(.Call("faults_adopt") == 0L)
    # Every thread of this process may have some.
    zombies <- function() {
      found <- Filter(function(pid) {
        stat <- suppressWarnings(try(readLines(file.path("/proc", pid, "stat")), silent = TRUE))
        grepl(paste("[)] Z", Sys.getpid(), ""), stat)
      }, list.files("/proc", "^[0-9]+$"))
      as.integer(found)
    }
    # Those of `pids` that are zombies while the session works on.
    left <- function(cl, pids) {
      end <- Sys.time() + 20
      while (any(pids %in% zombies()) && Sys.time() < end) clusterCall(cl, identity, 1)
      intersect(pids, zombies())
    }
    pids_of <- function(cl) unlist(clusterCall(cl, Sys.getpid))
    .(code)
  }))
}

test_that("C16: a session that is process 1, or adopts, reaps the workers of a killed server", {
  limit_time(120)
  run <- adopting_session(quote({
    cl <- cluster_start(2)
    first <- pids_of(cl)
    server <- parent_of(first[1L])
    tools::pskill(server, 9L)
    tools::pskill(first[1L], 9L)
    how <- NULL
    second <- withCallingHandlers(pids_of(cl), muster_message_restarted = function(m) {
      how <<- conditionMessage(m)
    })
    tell(how = how, left = left(cl, c(server, first[1L])))
    # The other one is still the first server's when the second is killed, too.
    server <- parent_of(second[1L])
    tools::pskill(c(server, second), 9L)
    third <- pids_of(cl)
    tell(again = left(cl, c(server, second)))
    tools::pskill(parent_of(third[1L]), 9L)
    cluster_stop(cl)
    tell(stopped = zombies())
  }))
  expect_done(run)
  expect_match(run$told$how, "killed by signal 9", fixed = TRUE)
  expect_identical(run$told$left, integer())
  expect_identical(run$told$again, integer())
  expect_identical(run$told$stopped, integer())
  expect_nothing_left(run$session)
})

test_that("C16: ... and those that a server left unreaped when it was stopped", {
  limit_time(120)
  run <- adopting_session(quote({
    cl <- cluster_start(2, heartbeat = 1)
    first <- pids_of(cl)
    server <- parent_of(first[1L])
    tools::pskill(server, tools::SIGSTOP)
    tools::pskill(first[1L], 9L)
    second <- pids_of(cl)
    tell(others = second[2L] == first[2L], left = left(cl, c(server, first[1L])))
    cluster_stop(cl)
    tell(stopped = zombies())
  }))
  expect_done(run)
  expect_true(run$told$others)
  expect_identical(run$told$left, integer())
  expect_identical(run$told$stopped, integer())
  expect_nothing_left(run$session)
})
