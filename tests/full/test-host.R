# Another host that fails, and sessions that do: the host is a process of this machine.

behind <- function(workers = 2, frame = parent.frame()) {
  skip_without_fork()
  skip_without_proc()
  local_cluster(here_by_link(workers), frame = frame)
}
server_of <- function(cl) parent_of(cl[[1L]]$pid)
host_of <- function(cl) parent_of(server_of(cl))

test_cluster("a host that is lost is started again, and its workers know what they knew", {
  cl <- behind(2)
  clusterEvalQ(cl, a <- 7)
  for (signal in c(tools::SIGKILL, tools::SIGHUP)) {
    there <- processes(c(host_of(cl), server_of(cl), node_pids(cl)))
    tools::pskill(host_of(cl), signal)
    got <- healed(clusterEvalQ(cl, a))
    expect_identical(got$value, list(7, 7))
    expect_setequal(got$messages, paste0("muster_message_", c("server", "restarted", "joined")))
    wait_until(!any(still_runs(there)))
  }
})

# What a cluster with workers on a host computes whose link ends after so many bytes, once; "error"
# if it can't start.
with_cut <- function(way, bytes) {
  once <- tempfile()
  on.exit(unlink(once, recursive = TRUE))
  cut <- paste0("dd bs=1 count=", bytes, " status=none")
  host <- sub(" exec ", " ", host_command(), fixed = TRUE)
  command <- paste0(
    "if mkdir ", once, " 2>/dev/null; then ",
    if (way == "to") paste(cut, "|", host) else paste(host, "|", cut),
    "; else ", host_command(), "; fi"
  )
  cl <- tryCatch(cluster_start(list(1, launch_command(command, 2, "far"))),
    muster_error_launch = function(e) NULL
  )
  if (is.null(cl)) {
    return("error")
  }
  on.exit(cluster_stop(cl), add = TRUE)
  x <- as.numeric(1:2000)
  clusterExport(cl, "x", environment())
  list(
    cluster_map(cl, 1:20, function(i) i^2), clusterApply(cl, 1:6, function(i) sum(x) + i),
    clusterCall(cl, function(n) numeric(n) + 1, 5000L), clusterEvalQ(cl, x[7])
  )
}

test_cluster("a link that ends after any number of bytes is an error of the start, or heals", {
  skip_without_fork()
  want <- list(
    as.list((1:20)^2), as.list(sum(1:2000) + as.numeric(1:6)), rep(list(numeric(5000) + 1), 3L),
    rep(list(7), 3L)
  )
  seen <- c(error = 0L, healed = 0L)
  # Where the host has nothing to say for 10 s it notices the end of "from" no earlier.
  cuts <- list(to = c(0, seq(100, 20000, by = 1111)), from = c(0, seq(2800, 20000, by = 1111)))
  for (way in names(cuts)) {
    for (bytes in cuts[[way]]) {
      got <- healed(with_cut(way, bytes))
      failed <- identical(got$value, "error")
      if (!failed) expect_identical(got$value, want, info = paste(way, bytes))
      if (failed) seen["error"] <- seen["error"] + 1L
      if ("muster_message_joined" %in% got$messages) seen["healed"] <- seen["healed"] + 1L
    }
  }
  expect_true(all(seen > 0L))
})

test_cluster("a map goes on when its host is lost in the middle", {
  cl <- behind(2)
  file <- tempfile()
  defer(function() unlink(file))
  host <- host_of(cl)
  got <- healed(cluster_map(cl, 1:40, function(i) {
    if (i == 20 && !file.exists(file)) {
      file.create(file)
      tools::pskill(host, 9L)
      Sys.sleep(10) # tidy: the worker's work
    }
    i * 2
  }))
  expect_identical(unlist(got$value), 1:40 * 2)
})

test_cluster("a fork server that is lost on a host is replaced there", {
  cl <- behind(2)
  clusterEvalQ(cl, a <- 7)
  host <- host_of(cl)
  tools::pskill(server_of(cl), 9L)
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(healed(clusterEvalQ(cl, a))$value, list(7, 7))
  expect_identical(host_of(cl), host)
})

test_cluster("a worker that comes back on a host comes from its checkpoint", {
  cl <- behind(1)
  clusterEvalQ(cl, a <- 7)
  make_checkpoints(cl)
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(healed(clusterEvalQ(cl, a))$value, list(7))
})

test_cluster("a host that is lost takes checkpoints along, and its workers know what they knew", {
  cl <- behind(2)
  clusterEvalQ(cl, {
    a <- 7
    x <- as.numeric(1:1e6)
  })
  make_checkpoints(cl)
  clusterApply(cl, 1:2, function(i) b <<- i)
  tools::pskill(host_of(cl), tools::SIGKILL)
  got <- healed(clusterEvalQ(cl, list(a, sum(x), b)))
  expect_identical(got$value, list(list(7, sum(1:1e6), 1L), list(7, sum(1:1e6), 2L)))
  make_checkpoints(cl)
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(healed(clusterEvalQ(cl, c(a, b)))$value, list(c(7, 1), c(7, 2)))
})

test_that("a session that is killed leaves nothing on a host", {
  skip_without_fork()
  limit_time(60)
  session <- start_session(bquote({
    cl <- cluster_start(launch_command(.(host_command()), 2))
    root <- dirname(dirname(parallel::clusterCall(cl[1L], tempdir)[[1L]]))
    tell(root = root, pid = Sys.getpid())
    repeat Sys.sleep(60)
  }))
  facts <- wait_told(session, "pid")
  expect_true(dir.exists(facts$root))
  expect_gt(length(marked_pids(session)), 4L)
  tools::pskill(facts$pid, tools::SIGKILL)
  expect_all_gone(session)
  expect_length(list.files(session$tmpdir), 1L) # the dead session's own
})

test_that("a session that ends without a stop leaves nothing on a host", {
  skip_without_fork()
  limit_time(60)
  session <- start_session(bquote({
    cl <- cluster_start(launch_command(.(host_command()), 2))
    parallel::clusterCall(cl, function() file.create(tempfile()))
    tell(pid = Sys.getpid())
  }))
  wait_told(session, "pid")
  expect_all_gone(session)
  expect_identical(list.files(session$tmpdir), character())
})

test_cluster("Q2 the tasks of a frozen host's workers go to idle ones, and they come back", {
  limit_time(60)
  cl <- local_cluster(list(1, here_by_link(2)), heartbeat = 1)
  far <- node_pids(cl)[2:3]
  frozen <- c(far, parent_of(far[1L]), parent_of(parent_of(far[1L])))
  defer(function() for (pid in frozen) tools::pskill(pid, tools::SIGCONT))
  begun <- file.path(local_folder(), "begun")
  tasks <- lapply(1:6, function(i) {
    task_submit(cl, remote(function(i, begun) {
      file.create(paste0(begun, i))
      Sys.sleep(0.5)
      i * 2
    }), i, begun)
  })
  wait_until(sum(file.exists(paste0(begun, 1:6))) == 3L)
  for (pid in frozen) tools::pskill(pid, tools::SIGSTOP)
  got <- suppressMessages(tasks_collect(tasks))
  expect_identical(got, as.list(1:6 * 2))
  expect_identical(process_stat(frozen[4L])[1L], "T") # nobody waited for the host
  for (pid in rev(frozen)) tools::pskill(pid, tools::SIGCONT)
  expect_identical(suppressMessages(clusterCall(cl, function() 1)), list(1, 1, 1))
})
