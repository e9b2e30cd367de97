# Jobs of Slurm, with stand-ins for its clients, see stand-ins.sh. full/test-host-slurm.R has a
# real Slurm.

test_that("launch_slurm() checks its arguments", {
  outside()
  expect_error(launch_slurm(0), "`jobs`", class = "muster_error_input")
  expect_error(launch_slurm(1, 1.5), "`workers`", class = "muster_error_input")
  expect_error(launch_slurm(1, 1, "long"), "`...` must be empty", class = "muster_error_input")
  expect_error(launch_slurm(partition = 1), "`partition`", class = "muster_error_input")
  expect_error(launch_slurm(memory = 16), "`memory`", class = "muster_error_input")
  expect_error(launch_slurm(queue_timeout = 0), "`queue_timeout`", class = "muster_error_input")
  expect_error(launch_slurm(options = NA), "`options`", class = "muster_error_input")
})

test_that("launch_slurm() asks srun for what was asked for, and prints it", {
  outside()
  two <- launch_slurm(2, 16,
    partition = "long", account = "my group", memory = "8G", time = "1:00:00",
    options = "--gres=gpu:1", rscript = "/opt/R/bin/Rscript"
  )
  expect_length(two$hosts, 2L)
  expect_identical(filled_command(two$hosts[[2L]], "me-1"), paste(
    "srun -u -n1 -N1 --mpi=none -c16 --partition=long --account='my group' --mem=8G",
    "--time=1:00:00 --gres=gpu:1 -J me-1 /opt/R/bin/Rscript -e 'muster::muster_host()'"
  ))
  expect_output(print(two), "^Launcher: 16 workers in each of 2 jobs of Slurm$")
  expect_output(print(launch_slurm()), "^Launcher: a worker for each core in a job of Slurm$")
  prologue <- filled_command(launch_slurm(prologue = "module load R; x={name}")$hosts[[1L]])
  expect_match(prologue, "{\\nmodule load R; x={name}\\n} </dev/null >&2\\n", fixed = TRUE)
  expect_false(grepl("\n", prologue, fixed = TRUE))
})

test_that("inside a job there is a step on each of its nodes, and no new job unless asked for", {
  local_variables(
    SLURM_JOB_ID = "12", SLURM_JOB_NODELIST = "n[1-2]", SLURM_JOB_CPUS_PER_NODE = "4,2",
    SLURM_CPUS_PER_TASK = "", SLURM_CONF = "/etc/slurm.conf"
  )
  own <- launch_slurm()
  expect_identical(vapply(own$hosts, `[[`, 0L, "workers"), c(4L, 2L))
  expect_identical(vapply(own$hosts, function(one) one$host$name, ""), c("n1", "n2"))
  expect_match(filled_command(own$hosts[[2L]]), "--overlap -w n2 -c2 /", fixed = TRUE)
  expect_output(print(own), "2 workers on n2, by Slurm", fixed = TRUE)
  expect_identical(launch_slurm(workers = 3)$hosts[[1L]]$workers, 3L)
  new <- launch_slurm(jobs = 1)$hosts[[1L]]$host
  expect_true(new$queued)
  expect_true("SLURM_JOB_ID" %in% new$unset)
  expect_false("SLURM_CONF" %in% new$unset)
  expect_error(launch_slurm(time = "1:00:00"), "job 12 of Slurm", class = "muster_error_input")
  local_variables(SLURM_JOB_NODELIST = "", SLURM_NODELIST = "")
  expect_error(launch_slurm(), "SLURM_JOB_NODELIST", class = "muster_error_input")
})

# Recorded from Slurm 22.05, but for the lack of memory, the preemption and the account.
refused <- "srun: error: Unable to allocate resources:"
said <- c(
  partition = "srun: error: invalid partition specified: nope",
  request = paste(refused, "Requested node configuration is not available"),
  request = paste(refused, "Invalid feature specification"),
  request = "srun: error: Invalid generic resource (gres) specification",
  request = "srun: unrecognized option '--nosuch'",
  account = paste(refused, "Invalid account or account/partition combination specified"),
  slurm = paste(refused, "Unable to contact slurm controller (connect failure)"),
  slurm = "srun: fatal: Could not establish a configuration source",
  slurm = "sh: 14: srun: not found",
  cancelled = "slurmstepd-n1: error: *** STEP 16.0 ON n1 CANCELLED AT 2026-11-26T19:44:40 ***",
  cancelled = "srun: Job has been cancelled",
  time = paste(
    "slurmstepd-n1: error: *** STEP 18.0 ON n1 CANCELLED AT 2026-11-26T19:47:43",
    "DUE TO TIME LIMIT ***"
  ),
  preempted = paste(
    "slurmstepd: error: *** STEP 18.0 ON n1 CANCELLED AT 2026-11-26T19:47:43",
    "DUE TO PREEMPTION ***"
  ),
  node = "srun: error: Node failure on n1",
  memory = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.",
  memory = "srun: error: node1: task 0: Out Of Memory",
  R = "slurmstepd-n1: error: execve(): /none/Rscript: No such file or directory",
  muster = "Error in loadNamespace(x) : there is no package called \u2018muster\u2019",
  other = "srun: error: n1: task 0: Exited with exit code 1"
)

test_that("what srun prints is understood", {
  for (i in seq_along(said)) {
    known <- launch_failure(list(by = "slurm"), said[[i]], 1L)
    expect_identical(known$reason, names(said)[i])
  }
})

test_cluster("a job that is pending is told of, and waited for", {
  skip_without_fork()
  outside()
  dir <- local_clients()
  local_variables(R_LIBS = paste(.libPaths(), collapse = ":"), SLURM_JOB_ID = "")
  told <- NULL
  cl <- withCallingHandlers(
    cluster_start(launch_slurm(workers = 1, partition = "full")),
    muster_message_pending = function(m) {
      told <<- conditionMessage(m)
      unlink(file.path(dir, "pending"))
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(told, "Waiting for Slurm to start 1 job: 4711 (Priority).\n")
  expect_identical(clusterCall(cl, function() 5), list(5))
  cluster_stop(cl)
})

test_cluster("a job that is pending for too long is taken back", {
  skip_without_fork()
  outside()
  dir <- local_clients()
  late <- healed(expect_error(
    cluster_start(launch_slurm(workers = 1, partition = "full", queue_timeout = 0.5)),
    "Job 4711 of Slurm was pending for 0.5 s",
    class = "muster_error_timeout"
  ))$value
  expect_identical(late[c("reason", "job")], list(reason = "pending", job = "4711"))
  wait_until(!file.exists(file.path(dir, "pending")))
  expect_match(readLines(file.path(dir, "cancelled"))[1L], "-n muster-[a-z0-9-]+ -t PENDING")
})

test_that("the time that a job has left is understood", {
  skip_without_fork()
  dir <- local_clients()
  left <- function(text) {
    writeLines(text, file.path(dir, "left"))
    slurm_left("a")
  }
  expect_identical(left("0:05"), 5)
  expect_identical(left("59:59"), 3599)
  expect_identical(left("2:03:04"), 7384)
  expect_identical(left("1-02:03:04"), 93784)
  for (text in c("UNLIMITED", "INVALID", "NOT_SET", "", "no such job")) {
    expect_identical(left(text), Inf)
  }
  expect_identical(slurm_left(character()), numeric())
  expect_identical(slurm_left(c("a", "b")), c(Inf, Inf)) # squeue said something else
})

# On a busy machine the first look, 2 s after a job has begun, may be behind us.
look_now <- function(cl) {
  at <- c(as.integer(names(the_host$hosts)[1L]), .subset2(cl[[1L]], "id"), 2L)
  .Call(ffi_site_tell, at, site_facts[["undone"]], site_do[["look_left"]])
}

test_cluster("workers leave a job before its time limit, and lose nothing", {
  local_seed(1)
  skip_if_limited()
  skip_without_fork()
  skip_without_proc()
  outside()
  dir <- local_clients()
  local_variables(R_LIBS = paste(.libPaths(), collapse = ":"), SLURM_JOB_ID = "")
  cl <- cluster_start(list(1, launch_slurm(workers = 2)))
  defer(function() cluster_stop(cl))
  x <- 7
  clusterExport(cl, "x", environment())
  clusterSetRNGStream(cl, 1)
  draws <- clusterCall(cl, function() stats::runif(1))
  before <- processes(node_pids(cl[2:3]))
  limit <- file.path(dir, "left")
  writeLines("0:08", limit)
  look_now(cl)
  text <- character()
  slow <- task_submit(cl[2L], function() {
    Sys.sleep(3) # tidy: longer than it takes until the limit is seen
    5
  })
  withCallingHandlers(
    wait_until({
      expect_identical(cluster_map(cl, 1:20, function(i) i), as.list(1:20))
      any(grepl("has joined", text, fixed = TRUE))
    }),
    muster_message = function(m) {
      text <<- c(text, conditionMessage(m))
      unlink(limit) # the next job has none
      invokeRestart("muffleMessage")
    }
  )
  expect_match(text[1L], "^The job of host .* ends in 8 s; another one is asked for.")
  expect_match(text[2L], "has joined: [12] workers?[.]") # the slow one comes later
  expect_length(text, 2L)
  expect_identical(task_value(slow), 5)
  expect_identical(clusterEvalQ(cl, x), list(7, 7, 7))
  wait_until(!any(still_runs(before)))
  # Their streams go on.
  clusterSetRNGStream(cl, 1)
  expect_identical(clusterCall(cl, function() stats::runif(1)), draws)
  wait_until({
    clusterCall(cl, function() 5)
    length(muster:::the_host$hosts) == 1L
  })
})
