# Workers behind a link, as on another host: the command leads to a host process on this machine.
# With MUSTER_TEST_HOST=yes all clusters of this folder are.

test_that("launch_command() checks its arguments and prints the command", {
  expect_error(launch_command(), class = "muster_error_input")
  expect_error(launch_command(""), class = "muster_error_input")
  expect_error(launch_command("ssh node1", workers = 0), class = "muster_error_input")
  expect_error(launch_command("ssh node1", name = 1), class = "muster_error_input")
  expect_output(print(launch_command("ssh node1 R", 3)), "3 workers by\n  ssh node1", fixed = TRUE)
  expect_output(print(launch_command("ssh node1 R")), "1 worker by", fixed = TRUE)
})

test_cluster("workers behind a link keep state, print and heal as those here", {
  skip_without_fork()
  cl <- local_cluster(here_by_link(2, "far"))
  expect_identical(cl[[1L]]$host, "far")
  expect_output(print(cl), "2 workers on host .far.")
  expect_true(all(cluster_status(cl)$rss > 1e6)) # the same machine, after all
  expect_identical(clusterApply(cl, 1:4, function(i) i^2), as.list((1:4)^2))
  x <- as.numeric(1:1e6)
  clusterExport(cl, "x", environment())
  expect_identical(clusterEvalQ(cl, sum(x)), list(sum(x), sum(x)))
  expect_identical(clusterEvalQ(cl[1L], x * 2)[[1L]], x * 2)
  first <- cl[[1L]]$pid
  tools::pskill(first, 9L)
  got <- healed(clusterEvalQ(cl, sum(x)))
  expect_identical(got$value, list(sum(x), sum(x)))
  expect_identical(got$messages, "muster_message_restarted")
  expect_false(cl[[1L]]$pid == first)
  clusterEvalQ(cl[2L], cat("hello from far\n"))
  expect_true("hello from far" %in% cluster_logs(cl)$line)
})

test_cluster("tasks, maps and random numbers behind a link are those of workers here", {
  skip_without_fork()
  far <- local_cluster(here_by_link(1))
  near <- local_cluster(1)
  draw <- function(i) stats::rnorm(3)
  expect_identical(
    cluster_map(far, 1:20, draw, .seed = 7), cluster_map(near, 1:20, draw, .seed = 7)
  )
  clusterSetRNGStream(far, 3)
  clusterSetRNGStream(near, 3)
  expect_identical(clusterCall(far, stats::runif, 2), clusterCall(near, stats::runif, 2))
  expect_identical(task_value(task_submit(far, function(x) x + 1, 41)), 42)
  expect_error(cluster_map(far, 1:3, function(i) if (i == 2) stop("two") else i), "two")
})

test_cluster("a call behind a link that takes too long is ended, and its worker goes on", {
  skip_without_fork()
  cl <- local_cluster(here_by_link(1), timeout = 0.2)
  expect_error(clusterCall(cl, function() repeat NULL), class = "muster_error_timeout")
  expect_identical(clusterCall(cl, function() 5), list(5))
})

test_cluster("what is printed before muster's first byte is skipped", {
  skip_without_fork()
  command <- sub("muster::muster_host()", "muster::muster_cli()", host_command(), fixed = TRUE)
  cl <- local_cluster(launch_command(paste("echo Welcome; echo to you;", command, "host")))
  expect_identical(clusterCall(cl, function() 5), list(5))
})

test_cluster("a command that fails is an error that says what it printed", {
  skip_without_fork()
  failed <- expect_error(
    cluster_start(launch_command("echo no such host >&2; exit 3", name = "node1")),
    class = "muster_error_launch"
  )
  expect_match(conditionMessage(failed), "didn't lead to muster on host \"node1\"", fixed = TRUE)
  expect_match(conditionMessage(failed), "exit status 3", fixed = TRUE)
  expect_match(conditionMessage(failed), "no such host", fixed = TRUE)
  expect_identical(failed$exit_code, 3L)
  expect_identical(failed$host, "node1")
  expect_match(failed$output, "no such host")
  talks <- expect_error(
    cluster_start(launch_command("yes | head -c 100000")), class = "muster_error_launch"
  )
  expect_match(conditionMessage(talks), "isn't muster's", fixed = TRUE)
})

test_cluster("a command that is silent is an error in time", {
  skip_without_fork()
  local_settings(muster.start_timeout = 0.2)
  late <- expect_error(
    cluster_start(launch_command("exec sleep 60")), class = "muster_error_timeout"
  )
  expect_match(conditionMessage(late), "within 0.2 s", fixed = TRUE)
})

test_cluster("a worker behind a link that can't be set up is an error as one here", {
  skip_without_fork()
  expect_error(
    cluster_start(here_by_link(1), setup = quote(stop("not today"))), "not today",
    class = "muster_error_launch"
  )
  expect_error(
    cluster_start(here_by_link(1), packages = "nosuchpackage"), "nosuchpackage",
    class = "muster_error_launch"
  )
})

test_cluster("what a lost worker left on its host is removed", {
  skip_without_fork()
  cl <- local_cluster(here_by_link(1), healing = "fresh")
  files <- clusterCall(cl, tempdir)[[1L]]
  expect_true(dir.exists(files))
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(healed(clusterCall(cl, function() 5))$value, list(5))
  wait_until(!dir.exists(files))
})

test_cluster("host process, fork server and files are gone when the cluster is stopped", {
  skip_without_fork()
  skip_without_proc()
  cl <- cluster_start(here_by_link(2))
  server <- parent_of(cl[[1L]]$pid)
  there <- processes(c(server, parent_of(server), node_pids(cl)))
  root <- dirname(dirname(clusterCall(cl[1L], tempdir)[[1L]]))
  expect_true(dir.exists(root))
  cluster_stop(cl)
  wait_until(!any(still_runs(there)))
  wait_until(!dir.exists(root))
})
