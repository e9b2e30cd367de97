# Hosts that come after the cluster has started: cluster_start(wait =).

test_that("`wait` is a number of workers", {
  expect_error(cluster_start(1, wait = -1), "`wait`", class = "muster_error_input")
  expect_error(cluster_start(1, wait = "all"), "`wait`", class = "muster_error_input")
})

test_cluster("a cluster works with the workers that are there, and others join it", {
  skip_if_limited()
  skip_without_fork()
  late <- local_late(2L)
  cl <- cluster_start(list(1, late$launcher), wait = 1)
  defer(function() cluster_stop(cl))
  expect_length(cl, 3L)
  expect_identical(cluster_status(cl)$state, c("idle", "pending", "pending"))
  expect_output(print(cl), "3 workers on host .localhost. .*, workers 2, 3 pending")
  x <- 7
  clusterExport(cl[1L], "x", environment())
  expect_identical(cluster_map(cl, 1:20, function(i) i), as.list(1:20))
  task <- task_submit(cl[2L], function() 5)
  expect_false(task_done(task))
  file.create(late$file)
  got <- healed(clusterCall(cl, function() exists("x", globalenv())))
  expect_identical(got$value, list(TRUE, FALSE, FALSE))
  expect_identical(got$messages, "muster_message_joined")
  expect_match(got$text, "Host \"far\" has joined: 2 workers.", fixed = TRUE)
  expect_identical(task_value(task), 5)
  expect_identical(vapply(cl, function(node) node$host, ""), c("localhost", "far", "far"))
  expect_identical(cluster_status(cl)$state, rep("idle", 3L))
  # They heal as others do.
  tools::pskill(cl[[3L]]$pid, 9L)
  expect_identical(healed(clusterCall(cl, function() 5))$value, list(5, 5, 5))
  cl[[4L]] <- cloneNode(cl[[2L]], shutdown = FALSE)
  expect_identical(clusterCall(cl[4L], function() 5), list(5))
})

test_cluster("a call to a worker that is pending waits for it", {
  skip_without_fork()
  late <- local_late(1L)
  cl <- cluster_start(list(1, late$launcher), wait = 1)
  defer(function() cluster_stop(cl))
  x <- 7
  task_submit(cl[1L], function(file) {
    Sys.sleep(0.3)
    file.create(file)
  }, late$file)
  got <- healed({
    clusterExport(cl, "x", environment())
    clusterEvalQ(cl, x)
  })
  expect_identical(got$value, list(7, 7))
})

test_cluster("a host that doesn't come after all is given up, until cluster_resize()", {
  skip_without_fork()
  file <- tempfile()
  defer(function() unlink(file))
  open <- paste0("test -e ", file, " || { echo closed today >&2; exit 5; }; ", host_command())
  late <- local_late(1L, open)
  cl <- cluster_start(list(1, late$launcher), wait = 1)
  defer(function() cluster_stop(cl))
  file.create(late$file)
  got <- healed({
    wait_until(cluster_map(cl, 1, identity)[[1L]] == 1 && cluster_status(cl)$state[2L] == "lost")
    cluster_map(cl, 1:20, function(i) i)
  })
  expect_identical(got$value, as.list(1:20))
  expect_identical(got$messages, "muster_message_server")
  expect_match(got$text, "No workers can start on host \"far\".", fixed = TRUE)
  expect_match(got$text, "closed today", fixed = TRUE)
  expect_error(clusterCall(cl, function() 5), "No workers could start on its host",
    class = "muster_error_lost"
  )
  file.create(file)
  back <- healed(cluster_resize(cl, 2))
  expect_identical(clusterCall(back$value, function() 5), list(5, 5))
})

test_cluster("a cluster that stops takes back what is pending", {
  skip_without_fork()
  skip_without_proc()
  pid <- tempfile()
  defer(function() unlink(pid))
  late <- launch_command(paste0("echo $$ >", pid, "; exec sleep 100"), 1L, "far")
  cl <- cluster_start(list(1, late), wait = 1)
  wait_until(length(readLines(pid)) == 1L)
  command <- processes(as.integer(readLines(pid)))
  cluster_stop(cl)
  wait_until(!any(still_runs(command)))
  expect_false(any(still_runs(command)))
})

test_cluster("with too few workers there the start waits, and fails with the first that fails", {
  skip_without_fork()
  late <- local_late(1L)
  local({
    local_settings(muster.start_timeout = 0.5)
    expect_error(cluster_start(list(1, late$launcher), wait = 2), class = "muster_error_timeout")
  })
  file.create(late$file)
  cl <- cluster_start(list(1, late$launcher), wait = 2)
  expect_identical(cluster_status(cl)$state, c("idle", "idle"))
  cluster_stop(cl)
})

test_cluster("L5 hosts that join later boot at once", {
  skip_if_limited()
  skip_without_fork()
  limit_time(60)
  there <- local_folder()
  boots <- local_folder()
  # Each fork server waits in its startup file for those of the other hosts.
  profile <- tempfile(fileext = ".R")
  defer(function() unlink(profile))
  writeLines(c(
    "if (any(grepl('boot.R', commandArgs(), fixed = TRUE))) {",
    sprintf("  file.create(file.path('%s', Sys.getpid()))", boots),
    sprintf("  while (length(list.files('%s')) < 3L) Sys.sleep(0.01)", boots),
    "}"
  ), profile)
  command <- paste0(
    "until test -e ", there, "/all; do sleep 0.05; done; R_PROFILE_USER=", profile, " ",
    host_command()
  )
  hosts <- lapply(1:3, function(i) launch_command(command, 1, paste0("host", i)))
  cl <- local_cluster(c(list(1), hosts), wait = 1)
  file.create(file.path(there, "all"))
  expect_identical(healed(clusterCall(cl, function() 5))$value, list(5, 5, 5, 5))
  expect_length(list.files(boots), 3L)
})

test_cluster("a host that waits for another at the start isn't late", {
  skip_without_fork()
  limit_time(60)
  local_settings(muster.start_timeout = 3)
  pending <- paste0(
    "echo 'srun: job 12 queued and waiting for resources' >&2; sleep 7; ", host_command()
  )
  local_settings(muster.quiet = TRUE)
  cl <- cluster_start(list(here_by_link(1L), launch_command(pending, 1L, queue_timeout = 50)))
  defer(function() cluster_stop(cl))
  expect_identical(clusterCall(cl, function() 5), list(5, 5))
})

test_cluster("nodes of a host are started again, each by a link of its own", {
  skip_without_fork()
  limit_time(60)
  cl <- cluster_start(here_by_link(2L))
  cluster_stop(cl)
  again <- structure(lapply(1:2, function(i) cloneNode(cl[[i]])), class = class(cl))
  defer(function() stopCluster(again))
  expect_identical(clusterCall(again, function() 5), list(5, 5))
})

test_cluster("a message's handler may wait while several hosts are lost", {
  skip_if_limited()
  skip_without_fork()
  skip_without_proc()
  limit_time(60)
  cl <- cluster_start(list(1, here_by_link(1L, "a"), here_by_link(1L, "b")))
  defer(function() cluster_stop(cl))
  hosts <- vapply(cl[2:3], function(node) parent_of(parent_of(node$pid)), 0L)
  tools::pskill(hosts, 9L)
  waits <- TRUE
  back <- withCallingHandlers(clusterCall(cl, function() 5), muster_message = function(m) {
    if (waits && grepl("is gone", conditionMessage(m), fixed = TRUE)) {
      waits <<- FALSE
      suppressMessages(wait_until({
        clusterCall(cl[1L], function() 5)
        all(cluster_status(cl)$state == "idle")
      }))
    }
    invokeRestart("muffleMessage")
  })
  expect_identical(back, list(5, 5, 5))
  expect_false(waits)
})
