# No process outlives its session, however that ends; nor do temporary files.

build_faults()

# A session with three workers that are busy in the way `work` says: a function that
# each of them runs, with the file to make first as its argument; NULL for idle ones.
# `before` is code that the session runs before it waits to be killed.
busy_session <- function(work, start = "fork", before = NULL, frame = parent.frame()) {
  session <- start_session(bquote({
    cl <- cluster_start(3, start = .(start))
    work <- .(work)
    if (!is.null(work)) {
      busy <- file.path(tempdir(), paste0("busy-", 1:3))
      for (i in 1:3) parallel:::sendCall(cl[[i]], work, list(busy[i]))
      while (!all(file.exists(busy))) Sys.sleep(0.01)
    }
    .(before)
    tell(workers = vapply(cl, function(node) node$pid, 0L), pid = Sys.getpid())
    repeat Sys.sleep(60)
  }), frame = frame)
  session$facts <- wait_told(session, "pid")
  session
}

# Kills the session and expects that the rest follows.
# left: directories that may stay, in the dead session's own, which R leaves as well.
expect_death_followed <- function(session, but = integer(), signal = tools::SIGKILL,
                                  left = NULL) {
  expect_gt(length(setdiff(marked_pids(session), but)), 3L)
  expect_gt(length(files_left(session)), 0L)
  tools::pskill(session$facts$pid, signal)
  expect_all_gone(session, but)
  files <- grep("/muster/.", files_left(session), value = TRUE)
  if (!is.null(left)) files <- grep(left, files, value = TRUE, invert = TRUE)
  expect_identical(files, character())
}

test_that("idle workers end with a session that was killed", {
  limit_time(60)
  session <- busy_session(NULL)
  expect_length(marked_pids(session), 5L) # session, server, three workers
  expect_death_followed(session)
  expect_identical(grep("/muster$", files_left(session), value = TRUE), character())
})

test_that("standbys end with a session that was killed, whoever has ended before", {
  limit_time(120)
  skip_without_checkpoints()
  for (gone in c("nobody", "workers", "server", "both")) {
    session <- busy_session(NULL, before = quote({
      # One call asks for a checkpoint, which the session reads in a later call; a second
      # checkpoint that it hadn't read would leave the first alive as well.
      parallel::clusterCall(cl, Sys.sleep, 1)
      while (sum(muster::cluster_journal(cl)$kind == "checkpoint") < 3L) {
        parallel::clusterCall(cl, function() NULL)
      }
    }))
    expect_length(marked_pids(session), 8L) # session, server, three workers, their standbys
    workers <- session$facts$workers
    server <- parent_of(workers[1L])
    if (gone %in% c("server", "both")) tools::pskill(server, tools::SIGKILL)
    if (gone %in% c("workers", "both")) tools::pskill(workers, tools::SIGKILL)
    left <- c(nobody = 8L, workers = 5L, server = 7L, both = 4L)
    wait_until(length(marked_pids(session)) == left[[gone]])
    if (gone == "both") { # the session and three standbys
      tools::pskill(session$facts$pid, tools::SIGKILL)
      expect_all_gone(session)
      expect_identical(grep("/muster/.", files_left(session), value = TRUE), character())
    } else {
      expect_death_followed(session)
    }
  }
})

test_that("workers that compute in R end with a session that was killed", {
  limit_time(60)
  expect_death_followed(busy_session(quote(function(file) {
    file.create(file)
    repeat sum(sqrt(runif(1e4)))
  })))
})

test_that("workers that compute in C end with a session that was killed", {
  limit_time(60)
  library <- faults_library()
  expect_death_followed(busy_session(bquote(function(file) {
    dyn.load(.(library))
    file.create(file)
    .Call("faults_compute", 600)
  })))
})

test_that("what workers started by system() ends with a session that was killed", {
  limit_time(60)
  session <- busy_session(quote(function(file) {
    system("sleep 1000 & sleep 1001 & (sleep 1002; true) &")
    file.create(file)
    system("sleep 1003")
  }))
  expect_gte(length(marked_pids(session)), 5L + 3L * 4L)
  expect_death_followed(session)
})

test_that("a worker that ignores signals ends with a session that was killed", {
  limit_time(60)
  library <- faults_library()
  expect_death_followed(busy_session(bquote(function(file) {
    dyn.load(.(library))
    for (signal in c(1L, 2L, 13L, 15L)) .Call("faults_ignore", signal)
    file.create(file)
    .Call("faults_compute", 600)
  })))
})

test_that("spawned workers, idle or computing in R or C, end with a session that was killed", {
  limit_time(120)
  library <- faults_library()
  expect_death_followed(busy_session(NULL, "spawn"))
  expect_death_followed(busy_session(quote(function(file) {
    file.create(file)
    repeat sum(sqrt(runif(1e4)))
  }), "spawn"))
  expect_death_followed(busy_session(bquote(function(file) {
    system("sleep 1000 &")
    dyn.load(.(library))
    file.create(file)
    .Call("faults_compute", 600)
  }), "spawn"))
})

test_that("a session that is killed while its workers start leaves nothing", {
  limit_time(120)
  for (start in c("fork", "spawn")) {
    session <- start_session(bquote({
      tell(pid = Sys.getpid())
      cluster_start(8, start = .(start), setup = quote(Sys.sleep(600)))
    }))
    session$facts <- wait_told(session, "pid")
    wait_until(length(marked_pids(session)) >= 5L)
    # An R that is killed while it boots can't take its own directory away.
    booting <- if (start == "spawn") "/muster/booted(/Rtmp[^/]*)?$"
    expect_death_followed(session, left = booting)
  }
})

test_that("a session that is killed while its fork server boots leaves nothing", {
  limit_time(60)
  session <- start_session(quote({
    tell(pid = Sys.getpid())
    cluster_start(2)
  }))
  session$facts <- wait_told(session, "pid")
  wait_until(length(marked_pids(session)) >= 2L)
  tools::pskill(session$facts$pid, tools::SIGKILL)
  expect_all_gone(session)
})

test_that("a killed session's forked children that live on keep no worker alive", {
  limit_time(120)
  fork_child <- quote({
    job <- parallel::mcparallel(Sys.sleep(1200))
    tell(child = job$pid)
  })
  for (start in c("fork", "spawn")) {
    session <- busy_session(quote(function(file) {
      file.create(file)
      repeat sum(sqrt(runif(1e4)))
    }), start, fork_child)
    child <- session$facts$child
    known <- processes(child)
    expect_death_followed(session, but = child)
    expect_true(still_runs(known))
    tools::pskill(child, tools::SIGKILL)
  }
})

test_that("workers end with a session that is ended by SIGTERM or SIGHUP", {
  limit_time(60)
  library <- faults_library()
  for (signal in c(tools::SIGTERM, tools::SIGHUP)) {
    # Under nohup a session ignores SIGHUP, as this one may.
    heeds <- bquote({
      dyn.load(.(library))
      .Call("faults_heed", .(signal))
    })
    expect_death_followed(busy_session(NULL, before = heeds), signal = signal)
  }
})

# ---- Sessions that end by themselves

ending_session <- function(end, start = "fork", frame = parent.frame()) {
  run_session(frame = frame, bquote({
    cl <- cluster_start(3, start = .(start))
    other <- cluster_start(1, start = .(start), autoStop = FALSE)
    stopifnot(length(unique(unlist(clusterCall(cl, Sys.getpid)))) == 3L)
    clusterEvalQ(cl, writeLines("text", tempfile()))
    .(end)
  }))
}

expect_ended_clean <- function(run, status) {
  expect_identical(run$status, status, info = describe_run(run))
  expect_nothing_left(run$session)
  expect_identical(tempdirs_left(run$session), character())
}

test_that("a script that ends without stopping its clusters leaves nothing", {
  limit_time(60)
  expect_ended_clean(ending_session(quote(invisible())), 0L)
  expect_ended_clean(ending_session(quote(invisible()), "spawn"), 0L)
})

test_that("a session that ends by quit() leaves nothing", {
  limit_time(60)
  expect_ended_clean(ending_session(quote(quit(status = 3))), 3L)
  expect_ended_clean(ending_session(quote(quit(status = 4, runLast = FALSE))), 4L)
})

test_that("a script that ends by an error leaves nothing", {
  limit_time(60)
  run <- ending_session(quote(stop("enough")))
  expect_ended_clean(run, 1L)
  expect_match(run$stderr, "enough")
})

test_that("a session ends although its workers compute", {
  limit_time(60)
  for (start in c("fork", "spawn")) {
    run <- ending_session(quote({
      for (node in cl) parallel:::sendCall(node, function() repeat sum(runif(1e4)), list())
    }), start)
    expect_ended_clean(run, 0L)
  }
})

test_that("unloading the package ends its workers and servers", {
  limit_time(60)
  run <- run_session(quote({
    cl <- cluster_start(2)
    detach("package:muster")
    unloadNamespace("muster")
    tell(children = children())
  }))
  expect_done(run)
  expect_identical(run$told$children, integer())
  expect_nothing_left(run$session)
})

# ---- The fork server

test_that("workers go on without their fork server, and a new one is booted", {
  limit_time(90)
  run <- run_session(quote({
    cl <- cluster_start(3)
    pids <- unlist(clusterCall(cl, Sys.getpid))
    workers <- processes(pids)
    server <- parent_of(pids[1])
    tools::pskill(server, tools::SIGKILL)
    while (parent_of(pids[1]) == server) Sys.sleep(0.01)
    answers <- unlist(clusterCall(cl, Sys.getpid))
    mapped <- unlist(parLapplyLB(cl, 1:50, function(i) i^2))
    after <- cluster_start(2)
    other <- unlist(clusterCall(after, Sys.getpid))
    stopCluster(cl)
    tell(
      same = identical(answers, pids), mapped = mapped,
      server = server, new_server = parent_of(other[1]), left = workers[still_runs(workers)]
    )
    tell(still = unlist(clusterCall(after, Sys.getpid)), other = other)
    stopCluster(after)
  }))
  expect_done(run)
  expect_true(run$told$same)
  expect_identical(run$told$mapped, (1:50)^2)
  expect_length(run$told$left, 0L)
  expect_false(run$told$server == run$told$new_server)
  expect_identical(run$told$still, run$told$other)
  expect_nothing_left(run$session)
  expect_identical(tempdirs_left(run$session), character())
})

test_that("workers whose server was killed end with their session", {
  limit_time(60)
  session <- busy_session(quote(function(file) {
    file.create(file)
    repeat sum(sqrt(runif(1e4)))
  }))
  server <- parent_of(session$facts$workers[1L])
  tools::pskill(server, tools::SIGKILL)
  wait_until(parent_of(session$facts$workers[1L]) != server)
  tools::pskill(session$facts$pid, tools::SIGKILL)
  expect_all_gone(session)
  expect_identical(grep("/muster/.", files_left(session), value = TRUE), character())
})

test_that("a fork server that hangs is replaced in time, and nothing is left after it", {
  limit_time(90)
  session <- start_session(quote({
    cl <- cluster_start(1)
    tell(worker = cl[[1]]$pid, pid = Sys.getpid())
    while (!file.exists(file.path(tempdir(), "stopped"))) Sys.sleep(0.01)
    again <- cluster_start(2)
    tell(again = unlist(clusterCall(again, function() 7L)))
    stopCluster(again)
    stopCluster(cl)
  }))
  told <- wait_told(session, "worker")
  server <- parent_of(told$worker)
  known <- processes(server)
  signal_file <- function(name) {
    file.create(file.path(Sys.glob(file.path(session$tmpdir, "Rtmp*")), name))
  }
  tools::pskill(server, tools::SIGSTOP)
  signal_file("stopped")
  run <- wait_session(session)
  expect_done(run)
  expect_identical(run$told$again, c(7L, 7L))
  expect_false(still_exists(known))
  expect_nothing_left(session)
  expect_identical(tempdirs_left(session), character())
})

test_that("a fork server that is stopped ends with its session anyway", {
  limit_time(60)
  session <- busy_session(NULL)
  server <- parent_of(session$facts$workers[1L])
  tools::pskill(server, tools::SIGSTOP)
  tools::pskill(session$facts$pid, tools::SIGKILL)
  expect_all_gone(session)
})

# A process that is stopped can't look whether its session is gone. Some systems send
# SIGHUP to those that are orphaned, but not where who adopts them is of the same terminal
# session, as the first process of a container is: here the test's session is.
test_that("workers and servers that are stopped end with a session that was killed", {
  skip_without_feature("parent signal")
  library <- faults_library()
  for (stopped in c("spawn", "fork", "server")) {
    limit_time(60)
    session <- start_session(bquote({
      dyn.load(.(library))
      stopifnot(.Call("faults_adopt") == 0L)
      script <- tempfile(fileext = ".R")
      writeLines(deparse(quote({
        cl <- muster::cluster_start(2, start = .(if (stopped == "spawn") stopped else "fork"))
        fields <- function(pid) strsplit(readLines(file.path("/proc", pid, "stat")), " ")[[1L]]
        pids <- cl[[1L]]$pid
        if (.(stopped == "server")) pids <- c(pids, as.integer(fields(pids)[4L]))
        for (pid in pids) {
          tools::pskill(pid, tools::SIGSTOP)
          while (fields(pid)[3L] != "T") Sys.sleep(0.01)
        }
        tools::pskill(Sys.getpid(), tools::SIGKILL)
      })), script)
      status <- system2(file.path(R.home("bin"), "Rscript"), script)
      tell(status = status, pid = Sys.getpid())
      repeat Sys.sleep(60)
    }))
    told <- wait_told(session, "pid")
    expect_true(told$status %in% c(9L, 137L), info = stopped)
    expect_all_gone(session, but = told$pid)
    tools::pskill(told$pid, tools::SIGKILL)
  }
})

test_that("a session that ends while its fork server is stopped doesn't hang", {
  limit_time(60)
  session <- start_session(quote({
    cl <- cluster_start(2)
    tell(worker = cl[[1]]$pid)
    while (!file.exists(file.path(tempdir(), "stopped"))) Sys.sleep(0.01)
  }))
  server <- parent_of(wait_told(session, "worker")$worker)
  tools::pskill(server, tools::SIGSTOP)
  file.create(file.path(Sys.glob(file.path(session$tmpdir, "Rtmp*")), "stopped"))
  run <- wait_session(session)
  expect_done(run)
  expect_nothing_left(session)
})
