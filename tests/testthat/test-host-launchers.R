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
  local_seed(1)
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
  tried <- tempfile()
  defer(function() unlink(tried))
  expect_error(
    cluster_start(launch_command(paste("echo tried >>", tried, "; exit 3"))),
    class = "muster_error_launch"
  )
  expect_identical(readLines(tried), "tried")
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

test_cluster("hosts of a cluster that is collected end at once, also those that are starting", {
  skip_without_fork()
  skip_without_proc()
  late <- local_late(1L)
  begun <- local({
    cl <- cluster_start(list(here_by_link(1, "a"), late$launcher), wait = 1)
    pids <- vapply(as.list(muster:::the_host$hosts), function(link) {
      .Call(muster:::ffi_remote_state, link$pointer)$pid
    }, 0L)
    processes(c(pids, far_host(cl[1L])))
  })
  expect_true(all(still_runs(begun)))
  for (i in 1:3) gc()
  wait_until(!any(still_runs(begun))) # nothing of muster's is called
  cluster_stop(cluster_start(1))
  expect_length(muster:::the_host$hosts, 0L)
})

# ---- Several together

test_that("launch_local() is checked as cluster_start()'s number", {
  expect_error(launch_local(0), "`workers`", class = "muster_error_input")
  expect_output(print(launch_local(2)), "2 workers on this machine", fixed = TRUE)
  expect_error(cluster_start(list()), class = "muster_error_input")
  expect_error(cluster_start(list(1, NULL)), class = "muster_error_input")
  expect_error(cluster_start(list(1, list(2))), class = "muster_error_input")
})

test_cluster("workers here and behind links make one cluster", {
  skip_if_limited()
  skip_without_fork()
  skip_without_proc()
  cl <- local_cluster(list(1, here_by_link(1, "a"), here_by_link(1, "b"), launch_local(1)))
  expect_identical(vapply(cl, function(node) node$host, ""), c("localhost", "a", "b", "localhost"))
  expect_output(print(cl), "hosts .localhost. \\(2\\), .a. \\(1\\), .b. \\(1\\)")
  expect_identical(unlist(clusterApply(cl, 1:8, function(i) i^2)), (1:8)^2)
  expect_identical(cluster_map(cl, 1:20, function(i) i), as.list(1:20))
  servers <- vapply(node_pids(cl), parent_of, 0L)
  expect_identical(servers[1L], servers[4L])
  expect_length(unique(servers), 3L)
  split <- expect_error(partition_scatter(cl, mtcars), class = "muster_error_input")
  expect_match(conditionMessage(split), "\"localhost\", \"a\", \"b\"", fixed = TRUE)
  p <- partition_scatter(cl[c(1L, 4L)], mtcars)
  expect_identical(partition_collect(p)$mpg, mtcars$mpg)
  cl <- cluster_resize(cl, 5)
  expect_identical(cl[[5L]]$host, "localhost")
  cl[[6L]] <- cloneNode(cl[[2L]], shutdown = FALSE)
  expect_identical(cl[[6L]]$host, "a")
  cluster_stop(cl)
  again <- cloneNode(cl[[3L]])
  expect_identical(again$host, "b")
  cluster_stop(new_cluster(list(again)))
})

test_cluster("the loss of one host leaves the others alone", {
  skip_if_limited()
  skip_without_fork()
  skip_without_proc()
  cl <- local_cluster(list(1, here_by_link(2, "a")))
  clusterEvalQ(cl, a <- 7)
  first <- cl[[1L]]$pid
  tools::pskill(far_host(cl), 9L)
  got <- healed(clusterEvalQ(cl, a))
  expect_identical(got$value, list(7, 7, 7))
  expect_identical(cl[[1L]]$pid, first)
  # One message for both workers, beside the host's.
  expect_identical(got$messages, paste0("muster_message_", c("server", "restarted", "joined")))
  expect_match(got$text, "Host \"a\" is gone; it is asked for again.", fixed = TRUE)
})

test_cluster("tasks of a lost host go to others while it is asked for again", {
  skip_if_limited()
  skip_without_fork()
  skip_without_proc()
  late <- local_late(2L)
  file.create(late$file)
  cl <- local_cluster(list(1, late$launcher))
  x <- 7
  clusterExport(cl, "x", environment())
  unlink(late$file)
  tasks <- lapply(1:6, function(i) {
    task_submit(cl, function(i) {
      Sys.sleep(0.1) # tidy: the worker's work
      i
    }, i)
  })
  tools::pskill(far_host(cl), 9L)
  got <- healed(vapply(tasks, task_value, 0L))
  expect_identical(got$value, 1:6)
  expect_identical(cluster_status(cl)$state, c("idle", "pending", "pending"))
  expect_identical(healed(cluster_map(cl, 1:20, function(i) i))$value, as.list(1:20))
  file.create(late$file)
  got <- healed(clusterEvalQ(cl, x))
  expect_identical(got$value, list(7, 7, 7))
  expect_identical(got$messages, "muster_message_joined")
  unlink(late$file)
  tools::pskill(far_host(cl), 9L)
  expect_identical(healed(cluster_map(cl, 1:20, function(i) i))$value, as.list(1:20))
  cluster_stop(cl) # while it is asked for
})

test_cluster("parts wait for their host, which is asked for again", {
  skip_without_fork()
  skip_without_proc()
  cl <- local_cluster(here_by_link(2, "a"))
  parts <- partition_map(partition_scatter(cl, mtcars), function(x) x[x$mpg > 20, ])
  tools::pskill(far_host(cl), 9L)
  expect_identical(healed(partition_collect(parts))$value$mpg, mtcars$mpg[mtcars$mpg > 20])
})

test_cluster("a lost host that isn't up at once is tried again", {
  skip_without_fork()
  skip_without_proc()
  down <- tempfile()
  defer(function() unlink(down))
  once <- paste0("test -e ", down, " && { rm ", down, "; exit 5; }; ", host_command())
  cl <- cluster_start(list(1, launch_command(once, 1, "a")))
  defer(function() cluster_stop(cl))
  cl[[3L]] <- cloneNode(cl[[2L]], shutdown = FALSE)
  file.create(down)
  tools::pskill(far_host(cl), 9L)
  got <- healed(clusterCall(cl, function() 5))
  expect_identical(got$value, list(5, 5, 5))
  expect_false(file.exists(down))
  expect_identical(got$messages, paste0("muster_message_", c("server", "restarted", "joined")))
  expect_match(got$text, "Host \"a\" has joined: 2 workers.", fixed = TRUE)
})

test_cluster("the only host of a cluster that can't be reached again is an error", {
  skip_without_fork()
  skip_without_proc()
  down <- tempfile()
  defer(function() unlink(down))
  local_settings(muster.start_timeout = 5)
  cl <- local_cluster(
    launch_command(paste0("test -e ", down, " && exit 5; ", host_command()), 1, "a")
  )
  file.create(down)
  tools::pskill(far_host(cl), 9L)
  expect_error(healed(clusterCall(cl, function() 5)), "no other can start",
    class = "muster_error_lost"
  )
  unlink(down)
  options(muster.start_timeout = NULL)
  expect_identical(healed(clusterCall(cl, function() 5))$value, list(5))
})

test_cluster("a host that can't be reached again is given up, and the others go on", {
  skip_without_fork()
  skip_without_proc()
  file <- tempfile()
  defer(function() unlink(file))
  once <- paste0("test -e ", file, " && { echo closed today >&2; exit 5; }; ", host_command())
  local_settings(muster.start_timeout = 5) # some tries
  cl <- local_cluster(list(1, launch_command(once, 1, "a")))
  file.create(file)
  tools::pskill(far_host(cl), 9L)
  got <- healed(cluster_map(cl, 1:20, function(i) i))
  expect_identical(got$value, as.list(1:20))
  expect_true("muster_message_server" %in% got$messages)
  expect_error(healed(clusterCall(cl, function() 5)), "No workers could start on its host",
    class = "muster_error_lost"
  )
  expect_identical(cluster_status(cl)$state, c("idle", "lost"))
  unlink(file)
  options(muster.start_timeout = NULL)
  back <- healed(cluster_resize(cl, 2))
  expect_identical(clusterCall(back$value, function() 5), list(5, 5))
})

test_cluster("the first host that fails ends the start, whichever others are awaited", {
  skip_if_limited()
  skip_without_fork()
  hosts <- list(
    1, launch_command("exec sleep 100", 1, "a"), here_by_link(1, "b"),
    launch_command("echo gone >&2; exit 3", 1, "c")
  )
  failed <- expect_error(cluster_start(hosts), class = "muster_error_launch")
  expect_identical(failed[c("host", "exit_code")], list(host = "c", exit_code = 3L))
})

test_cluster("a worker that can't be set up on one of several hosts is named with it", {
  skip_without_fork()
  far <- launch_command(paste0("export FAR=yes; ", host_command()), 1, "far")
  failed <- expect_error(
    cluster_start(list(1, far), setup = quote(if (nzchar(Sys.getenv("FAR"))) stop("not there"))),
    "worker 2 of 2 on host \"far\"",
    class = "muster_error_launch"
  )
  expect_match(conditionMessage(failed), "not there", fixed = TRUE)
  expect_identical(failed$worker, 2L)
})

test_cluster("workers on a host take no descriptors of the session", {
  skip_without_fork()
  skip_without_proc()
  open_now <- function() length(dir("/proc/self/fd"))
  local_cluster(here_by_link(1L))
  before <- open_now()
  cl <- local_cluster(here_by_link(6L))
  expect_identical(clusterCall(cl, function() 1), rep(list(1), 6))
  expect_lte(open_now() - before, 6L) # of the link
})
