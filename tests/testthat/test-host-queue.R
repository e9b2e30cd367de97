# Commands of launch_command() that wait in a queue.

test_that("what a command prints says whether it waits, and for which job", {
  queued <- "srun: job 4711 queued and waiting for resources\n"
  expect_identical(waits_in_queue(""), NA)
  expect_identical(waits_in_queue("Welcome\n"), NA)
  expect_true(waits_in_queue(paste0("Welcome\n", queued)))
  expect_false(waits_in_queue(paste0(queued, "srun: job 4711 has been allocated resources\n")))
  bsub <- "Job <12> is submitted to default queue <normal>.\n<<Waiting for dispatch ...>>\n"
  expect_true(waits_in_queue(bsub))
  expect_false(waits_in_queue(paste0(bsub, "<<Starting on node1>>\n")))
  expect_true(waits_in_queue("qsub: waiting for job 7.server to start\n"))
  expect_false(waits_in_queue(
    "qsub: waiting for job 7.server to start\nqsub: job 7.server ready\n"
  ))
  # A job that was put back.
  runs <- "srun: job 4711 has been allocated resources\n"
  expect_true(waits_in_queue(paste0(queued, runs, queued)))
  expect_identical(job_of_output(queued), "4711")
  expect_identical(job_of_output(bsub), "12")
  expect_identical(job_of_output("qsub: waiting for job 7.server to start"), "7.server")
  expect_null(job_of_output("Welcome"))
})

test_that("only commands that may wait in a queue are watched, or those with queue_timeout", {
  waits <- function(...) launch_command(...)$hosts[[1L]]$host$waits
  expect_false(waits("ssh node1 muster host"))
  expect_false(waits("ssh srunner muster host"))
  expect_true(waits("ssh login \"srun -u -n1 muster host\""))
  expect_true(waits("qrsh -now no muster host"))
  expect_true(waits("my_queue muster host", queue_timeout = 60))
  expect_error(launch_command("x", queue_timeout = 0), class = "muster_error_input")
  expect_error(launch_command("x", queue_timeout = "a"), class = "muster_error_input")
})

test_cluster("E3 the time in a queue isn't that of the start", {
  clients <- local_clients()
  local_settings(muster.start_timeout = 20)
  told <- character()
  cl <- withCallingHandlers(
    cluster_start(launch_command(
      "sh -c 'srun -u -n1 -J one --partition=full muster host'", name = "far"
    )),
    muster_message_pending = function(m) {
      told <<- c(told, conditionMessage(m))
      options(muster.start_timeout = 120)
      unlink(file.path(clients, "pending"))
    }
  )
  defer(function() cluster_stop(cl))
  expect_match(told, "^Waiting for 1 job to start: 4711 [(]by `sh -c 'srun ", all = TRUE)
  expect_identical(clusterEvalQ(cl, 1), list(1))
})

test_cluster("E3 past queue_timeout the command ends, which takes its job back", {
  clients <- local_clients()
  error <- suppressMessages(expect_error(
    cluster_start(launch_command(
      "srun -u -n1 -J one --partition=full muster host", name = "far", queue_timeout = 0.5
    )),
    "The command waited in a queue for 0.5 s", class = "muster_error_timeout"
  ))
  expect_identical(error$reason, "pending")
  expect_identical(error$job, "4711")
  expect_match(conditionMessage(error), "If job 4711 is still in the queue, it ends as soon as")
  wait_until(!file.exists(file.path(clients, "pending")))
})

test_cluster("E3 once a command has come through, the start has its own time", {
  local_settings(muster.start_timeout = 0.5)
  says <- "echo 'srun: job 5 queued and waiting for resources' >&2"
  runs <- "echo 'srun: job 5 has been allocated resources' >&2"
  error <- suppressMessages(expect_error(
    cluster_start(launch_command(paste0(says, "; ", runs, "; exec sleep 600 # srun"))),
    "within 0.5 s", class = "muster_error_timeout"
  ))
  expect_match(error$output, "allocated")
  # Silence doesn't count as waiting.
  expect_error(cluster_start(launch_command("exec sleep 600 # qrsh")), "within 0.5 s",
    class = "muster_error_timeout")
})

test_cluster("E3 with queue_timeout silence counts as waiting", {
  local_settings(muster.start_timeout = 0.2)
  there <- tempfile()
  defer(function() unlink(there))
  command <- paste0("until test -e ", there, "; do sleep 0.05; done; ", host_command())
  cl <- withCallingHandlers(
    cluster_start(launch_command(command, name = "far", queue_timeout = 300)),
    muster_message_pending = function(m) {
      expect_match(conditionMessage(m), "one [(]by `until test")
      options(muster.start_timeout = 120)
      file.create(there)
    }
  )
  defer(function() cluster_stop(cl))
  expect_identical(clusterEvalQ(cl, 1), list(1))
})

test_cluster("E4 a host process in a cancelled job leaves no directory", {
  folder <- local_folder()
  command <- paste0("export SLURM_JOB_ID=1 TMPDIR=", shQuote(folder), "; ", host_command())
  cl <- cluster_start(launch_command(command, name = "far"), healing = FALSE)
  defer(function() cluster_stop(cl))
  host <- clusterEvalQ(cl, dirname(dirname(dirname(tempdir()))))[[1L]]
  expect_true(length(list.files(folder)) > 0L)
  facts <- Filter(function(one) identical(one$facts$node, NULL) || !is.null(one$facts$pid),
    as.list(the_host$hosts))
  pid <- facts[[length(facts)]]$facts$pid
  tools::pskill(pid, tools::SIGTERM)
  wait_until(!length(list.files(folder)))
  expect_identical(list.files(folder), character())
})
