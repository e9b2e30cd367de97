# What is said of hosts: which one, which job, why it is gone, why it can't be used.

test_cluster("H1: losses name the host and its job", {
  skip_without_fork()
  far <- launch_command(paste("export PBS_JOBID=4711.head;", host_command()), 1L, "far")
  cl <- local_cluster(list(1, far))
  expect_identical(cluster_status(cl)$job, c(NA, "4711.head"))
  expect_output(print(cluster_status(cl)), "4711.head", fixed = TRUE)
  die <- function() tools::pskill(Sys.getpid(), 9L)
  got <- healed({
    lost <- expect_error(task_value(task_submit(cl[2L], die, .retries = 0)),
      class = "muster_error_lost"
    )
  })
  who <- "Worker 2 \\(pid [0-9]+ on far, job 4711.head\\)"
  expect_match(got$text[1L], paste(who, "was lost: killed by signal 9"))
  expect_match(conditionMessage(lost), paste(who, "ended: killed by signal 9"))
  expect_identical(lost[c("host", "job")], list(host = "far", job = "4711.head"))
  # Nothing of that on this machine.
  here <- healed(expect_error(task_value(task_submit(cl[1L], die, .retries = 0)),
    class = "muster_error_lost"
  ))
  expect_match(here$text[1L], "Worker 1 \\(pid [0-9]+\\) was lost")
  expect_null(here$value$host)
})

test_cluster("H2: a task that is lost with its host says so, and for how long it had run", {
  skip_without_fork()
  skip_without_proc()
  cl <- local_cluster(list(1, here_by_link(1L, "far")))
  task <- task_submit(cl[2L], Sys.sleep, 100, .retries = 0)
  wait_until(identical(cluster_status(cl)$state[2L], "busy"))
  tools::pskill(far_host(cl), 9L)
  got <- healed(expect_error(task_value(task), class = "muster_error_lost"))
  expect_match(conditionMessage(got$value), paste0(
    "Worker 2 \\(pid [0-9]+ on far\\) ended: its host is gone[.]\n",
    "x The task had run for [0-9.]+ s[.]"
  ))
  expect_false(grepl("fork server", conditionMessage(got$value), fixed = TRUE))
  # Once another is there, what is lost there isn't lost with the former one.
  again <- healed(clusterCall(cl[2L], function() 5))
  expect_identical(again$value, list(5))
  expect_null(host_end(list(host = "far", job = "")))
})

test_cluster("H2: without healing, too, what is lost with its host says so", {
  skip_if_limited()
  skip_without_fork()
  skip_without_proc()
  cl <- local_cluster(here_by_link(1L, "far"), healing = FALSE)
  tools::pskill(far_host(cl), 9L)
  lost <- expect_error(clusterCall(cl, function() 5), class = "muster_error_lost")
  expect_match(conditionMessage(lost), "on far\\) is lost[.]\nx It ended: its host is gone[.]\n")
  expect_false(grepl("fork server", conditionMessage(lost), fixed = TRUE))
})

test_that("H2: a time limit is named with its length", {
  plan <- list(host = list(by = "slurm", name = "node1", time = "0:01"))
  note_host_end(plan, list(), "Its job in Slurm reached its time limit (0:01).")
  defer(function() note_host_end(plan, list(), NULL))
  lost <- list(how = exits[["unknown"]], host = "node1", job = "", output = "", ours = FALSE)
  expect_identical(end_text(lost), "its job in Slurm reached its time limit (0:01)")
  expect_identical(
    end_text(utils::modifyList(lost, list(host = "node2"))),
    "its exit status is unknown (its fork server is gone)"
  )
})

test_cluster("H3: a job that can never start is an error at once", {
  skip_without_fork()
  outside()
  dir <- local_clients()
  writeLines("PartitionTimeLimit", file.path(dir, "reason"))
  never <- healed(expect_error(
    cluster_start(launch_slurm(workers = 1, partition = "full")),
    "Job 4711 of Slurm can never start: PartitionTimeLimit",
    class = "muster_error_launch"
  ))$value
  expect_identical(never[c("reason", "job")], list(reason = "request", job = "4711"))
  wait_until(!file.exists(file.path(dir, "pending")))
  expect_true(all(grepl(never_starts, c(
    "BadConstraints", "InvalidAccount", "JobHeldUser", "DependencyNeverSatisfied",
    "QOSMaxWallDurationPerJobLimit", "AssocMaxCpuPerJobLimit", "PartitionConfig"
  ))))
  expect_false(any(grepl(never_starts, c(
    "Priority", "Resources", "Dependency", "QOSMaxJobsPerUserLimit", "AssocGrpCpuLimit",
    "ReqNodeNotAvail", "BeginTime", "None"
  ))))
})

test_cluster("H4: a verb that waits for a worker without a host says for which", {
  skip_without_fork()
  late <- local_late(1L)
  cl <- cluster_start(list(1, late$launcher), wait = 1)
  defer(function() cluster_stop(cl))
  task_submit(cl[1L], function(file) {
    Sys.sleep(3)
    file.create(file)
  }, late$file)
  # A function from here has all of this file as its source, and sending that waits for the task.
  got <- healed(clusterCall(cl, identity, 5), waiting = TRUE)
  expect_identical(got$value, list(5, 5))
  told <- grep("^Waiting for", got$text, value = TRUE)
  expect_length(told, 1L)
  expect_match(told, "Waiting for worker 2 on host \"far\" \\(asked for [0-9.]+ s ago\\)[.]")
})

test_cluster("H6: one error names all hosts that can't be used", {
  skip_without_fork()
  hosts <- list(
    1, launch_command("sleep 0.2; echo broken >&2; exit 3", 1, "a"), here_by_link(1, "b"),
    launch_command("echo gone >&2; exit 4", 1, "c")
  )
  failed <- expect_error(cluster_start(hosts), "2 hosts can't be used",
    class = "muster_error_launch"
  )
  expect_identical(failed$host, c("a", "c"))
  expect_match(conditionMessage(failed), paste0(
    "on host \"a\"[.]\n.*exit status 3.*broken.*on host \"c\"[.]\n.*exit status 4.*gone"
  ))
  expect_length(failed$errors, 2L)
})

test_cluster("H7: a worker whose host never came says why", {
  skip_without_fork()
  local_settings(muster.start_timeout = 1)
  late <- local_late(1L, "echo closed today >&2; exit 5")
  cl <- cluster_start(list(1, late$launcher), wait = 1)
  defer(function() cluster_stop(cl))
  file.create(late$file)
  wait_until({
    healed(cluster_map(cl, 1, identity))
    cluster_status(cl)$state[2L] == "lost"
  })
  lost <- expect_error(clusterCall(cl[2L], function() 5), class = "muster_error_lost")
  expect_match(conditionMessage(lost), "^Worker 2 is lost[.]\n.*No workers could start on its host")
  expect_match(conditionMessage(lost), "closed today", fixed = TRUE)
})

test_that("H7: a name that nobody knows isn't a login that failed", {
  status <- list(how = exits[["code"]], number = 255L, output = paste(
    "ssh: Could not resolve hostname node1.invalid: Name or service not known"
  ))
  expect_match(launch_hint(list(local = FALSE, host = "node1.invalid"), status), "no host of that")
})

test_that("H7: a time without a unit is refused with what it could mean", {
  expect_error(launch_slurm(time = 60), "must be a string", class = "muster_error_input")
})
