# Workers in jobs of a real Slurm, see helper-slurm.R.

# What has to be in the jobs' environment for this session's muster to be found.
with_muster <- function(frame = parent.frame()) {
  withr::local_envvar(R_LIBS = paste(.libPaths(), collapse = ":"), .local_envir = frame)
}

test_cluster("workers in jobs of Slurm are like those here, and no job is left", {
  skip_without_fork()
  skip_without_proc()
  local_slurm()
  with_muster()
  cl <- cluster_start(launch_slurm(jobs = 2, workers = 8))
  defer(function() cluster_stop(cl))
  expect_length(cl, 16L)
  hosts <- vapply(cl, function(node) node$host, "")
  expect_setequal(hosts, c("n1", "n2")) # each job takes a node
  expect_identical(unlist(clusterCall(cl, Sys.getenv, "SLURMD_NODENAME")), hosts)
  expect_identical(clusterApply(cl, 1:32, function(i) i^2), as.list((1:32)^2))
  x <- as.numeric(1:1e5)
  clusterExport(cl, "x", environment())
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(healed(clusterEvalQ(cl, sum(x)))$value, rep(list(sum(x)), 16L))
  there <- processes(node_pids(cl))
  cluster_stop(cl)
  wait_until(!any(still_runs(there)))
  wait_until(no_jobs())
})

test_cluster("a job that is cancelled is asked for again, and says so", {
  skip_without_fork()
  skip_without_proc()
  local_slurm()
  with_muster()
  cl <- cluster_start(list(1, launch_slurm(jobs = 1, workers = 2)))
  defer(function() cluster_stop(cl))
  clusterEvalQ(cl, a <- 7)
  job <- clusterCall(cl[2L], Sys.getenv, "SLURM_JOB_ID")[[1L]]
  there <- processes(node_pids(cl[2:3]))
  system2("scancel", job)
  wait_until(!any(still_runs(there)))
  got <- healed(clusterEvalQ(cl, a))
  expect_identical(got$value, list(7, 7, 7))
  expect_match(got$text, "Its job in Slurm was cancelled.", fixed = TRUE)
  again <- clusterCall(cl[2L], Sys.getenv, "SLURM_JOB_ID")[[1L]]
  expect_false(again == job)
})

# A cluster whose job is over, and no other can start until free() is called: list(cl, free).
local_jobless <- function(..., frame = parent.frame()) {
  cl <- cluster_start(list(1, launch_slurm(jobs = 1, workers = 1, ...)))
  defer(function() cluster_stop(cl), frame)
  x <- 7
  clusterExport(cl, "x", environment())
  # Its node fails, and all others are taken.
  system2("scontrol", c("update", "nodename=n1", "state=drain", "reason=test"))
  free <- local_full_queue(2L, frame)
  there <- processes(cl[[2L]]$pid)
  system2("scancel", clusterCall(cl[2L], Sys.getenv, "SLURM_JOB_ID")[[1L]])
  wait_until(!still_runs(there))
  list(cl = cl, free = free)
}

test_cluster("while another job is pending, work goes elsewhere", {
  skip_without_fork()
  skip_without_proc()
  local_slurm()
  with_muster()
  less <- local_jobless()
  got <- healed(cluster_map(less$cl, 1:20, function(i) i))
  expect_identical(got$value, as.list(1:20))
  expect_identical(cluster_status(less$cl)$state, c("idle", "pending"))
  expect_match(got$text, "Its job in Slurm was cancelled.", fixed = TRUE)
  less$free()
  back <- healed(clusterEvalQ(less$cl, x))
  expect_identical(back$value, list(7, 7))
  expect_match(back$text, "has joined: 1 worker.", fixed = TRUE)
})

test_cluster("a job that is pending for too long again is given up", {
  skip_without_fork()
  skip_without_proc()
  local_slurm()
  with_muster()
  less <- local_jobless(queue_timeout = 3)
  text <- ""
  expect_error(
    withCallingHandlers(clusterCall(less$cl, function() 5), muster_message = function(m) {
      text <<- paste0(text, conditionMessage(m))
      invokeRestart("muffleMessage")
    }),
    class = "muster_error_lost"
  )
  expect_match(text, "Waiting for Slurm to start 1 job", fixed = TRUE)
  expect_match(text, "was pending for 3 s", fixed = TRUE)
  expect_identical(cluster_status(less$cl)$state, c("idle", "lost"))
  wait_until(no_jobs())
  less$free()
  back <- healed(cluster_resize(less$cl, 2))
  expect_identical(healed(clusterEvalQ(back$value, x))$value, list(7, 7))
})

test_cluster("a pending job is told of, waited for, and taken back", {
  skip_without_fork()
  local_slurm()
  with_muster()
  free <- local_full_queue()
  told <- character()
  late <- expect_error(
    withCallingHandlers(
      cluster_start(launch_slurm(workers = 2, queue_timeout = 3)),
      muster_message_pending = function(m) {
        told <<- c(told, conditionMessage(m))
        invokeRestart("muffleMessage")
      }
    ),
    "was pending for 3 s",
    class = "muster_error_timeout"
  )
  expect_identical(late$reason, "pending")
  expect_match(told[1L], "Waiting for Slurm to start 1 job: [0-9]+ \\((Resources|Priority)\\)")
  wait_until(no_jobs())
  # Start time counts from the moment when it runs.
  local_settings(muster.start_timeout = 2)
  cl <- withCallingHandlers(
    cluster_start(launch_slurm(workers = 2)),
    muster_message_pending = function(m) {
      Sys.sleep(2)
      free()
      invokeRestart("muffleMessage")
    }
  )
  expect_identical(clusterCall(cl, function() 5), list(5, 5))
  cluster_stop(cl)
  wait_until(no_jobs())
})

test_cluster("a cluster works while its jobs are pending, and they join it", {
  skip_without_fork()
  local_slurm()
  with_muster()
  free <- local_full_queue()
  cl <- cluster_start(list(1, launch_slurm(jobs = 2, workers = 8)), wait = 1)
  defer(function() cluster_stop(cl))
  expect_identical(cluster_status(cl)$state, rep(c("idle", "pending"), c(1L, 16L)))
  node <- function(i) Sys.getenv("SLURMD_NODENAME", "here")
  text <- ""
  wait_until({ # squeue is asked after a second
    got <- healed(cluster_map(cl, 1:20, node))
    text <- paste0(text, got$text)
    nzchar(text)
  })
  expect_identical(unique(got$value), list("here"))
  expect_match(text, "Waiting for Slurm to start 2 jobs", fixed = TRUE)
  free()
  got <- healed(clusterCall(cl, node))
  expect_identical(sum(got$messages == "muster_message_joined"), 2L)
  expect_setequal(unlist(got$value), c("here", "n1", "n2"))
  cluster_stop(cl)
  wait_until(no_jobs())
})

test_cluster("what Slurm refuses is an error with its reason", {
  skip_without_fork()
  local_slurm()
  with_muster()
  reason <- function(...) {
    error <- expect_error(cluster_start(launch_slurm(workers = 1, ...)),
      class = "muster_error_launch"
    )
    expect_match(error$command, "^srun ")
    error$reason
  }
  expect_identical(reason(partition = "nosuch"), "partition")
  expect_identical(reason(memory = "900T"), "request")
  expect_identical(reason(time = "1x"), "request")
  expect_identical(reason(options = "--nosuch"), "request")
  expect_identical(reason(rscript = "/none/Rscript"), "R")
  expect_identical(
    reason(prologue = "export R_LIBS=/none R_LIBS_USER=/none R_LIBS_SITE=/none"), "muster"
  )
  empty <- tempfile()
  defer(function() unlink(empty))
  file.create(empty)
  local_variables(SLURM_CONF = empty)
  expect_identical(reason(), "slurm")
})

test_cluster("inside a job its own nodes are used, and new jobs can be asked for", {
  skip_without_fork()
  local_slurm()
  with_muster()
  script <- tempfile(fileext = ".R")
  out <- tempfile()
  defer(function() unlink(c(script, out)))
  code <- quote({
    library(muster)
    cl <- cluster_start(launch_slurm())
    own <- list(
      hosts = vapply(cl, function(node) node$host, ""),
      jobs = unique(unlist(clusterCall(cl, Sys.getenv, "SLURM_JOB_ID")))
    )
    cluster_stop(cl)
    cl <- cluster_start(launch_slurm(jobs = 1, workers = 1))
    new <- list(
      host = cl[[1L]]$host, jobs = unlist(clusterCall(cl, Sys.getenv, "SLURM_JOB_ID"))
    )
    cluster_stop(cl)
    saveRDS(list(own = own, new = new, job = Sys.getenv("SLURM_JOB_ID")), commandArgs(TRUE))
  })
  writeLines(deparse(code), script)
  # As sbatch's script or salloc's shell would do it.
  status <- system2("salloc", c(
    "-N2", "-c4", "--ntasks-per-node=1", file.path(R.home("bin"), "Rscript"), script, out
  ), stdout = FALSE, stderr = FALSE)
  expect_identical(status, 0L)
  got <- readRDS(out)
  expect_identical(got$own$hosts, rep(c("n1", "n2"), each = 4L))
  expect_identical(got$own$jobs, got$job)
  expect_false(got$new$jobs == got$job)
  wait_until(!length(slurm_jobs()))
})

test_cluster("a session that is killed leaves no job, pending or running", {
  skip_without_fork()
  skip_without_proc()
  local_slurm()
  with_muster()
  session <- function() {
    code <- "library(muster); cl <- cluster_start(launch_slurm(2, 8)); Sys.sleep(100)"
    processx::process$new(file.path(R.home("bin"), "Rscript"), c("-e", code),
      poll_connection = FALSE
    )
  }
  running <- session()
  wait_until(sum(grepl(" muster-.* RUNNING", slurm_jobs())) == 2L, 30)
  running$signal(9L)
  wait_until(no_jobs(), 30)
  free <- local_full_queue()
  pending <- session()
  wait_until(sum(grepl(" muster-.* PENDING", slurm_jobs())) == 2L, 30)
  pending$signal(9L)
  wait_until(no_jobs(), 30)
  stopped <- session()
  wait_until(sum(grepl(" muster-.* PENDING", slurm_jobs())) == 2L, 30)
  stopped$interrupt()
  wait_until(no_jobs(), 30)
  stopped$wait()
  expect_true(no_jobs())
})

test_cluster("a cluster outlives the time limit of its job, and loses nothing", {
  skip_without_fork()
  skip_without_proc()
  local_slurm()
  with_muster()
  cl <- cluster_start(list(1, launch_slurm(jobs = 1, workers = 2, time = "1")))
  defer(function() cluster_stop(cl))
  x <- 7
  clusterExport(cl, "x", environment())
  before <- processes(node_pids(cl[2:3]))
  text <- ""
  wait_until(
    {
      got <- healed(cluster_map(cl, 1:40, function(i) {
        Sys.sleep(0.02) # tidy: the worker's work
        c(i, x)
      }))
      expect_identical(got$value, lapply(1:40, function(i) c(i, 7)))
      text <- paste0(text, got$text)
      grepl("has joined", text, fixed = TRUE)
    },
    90
  )
  expect_match(text, "^The job of host \"n1\" ends in [0-9]+ s; another one is asked for.")
  expect_no_match(text, "lost", fixed = TRUE)
  expect_identical(healed(clusterEvalQ(cl, x))$value, list(7, 7, 7))
  wait_until(!any(still_runs(before)))
  cluster_stop(cl)
  wait_until(no_jobs())
})

test_cluster("a stopped srun leaves no job", {
  skip_without_fork()
  skip_without_proc()
  local_slurm()
  with_muster()
  cl <- cluster_start(launch_slurm(1, 2))
  shell <- .Call(muster:::ffi_remote_state, muster:::the_host$hosts[[1L]]$pointer)$pid
  srun <- as.integer(first_line(file.path("/proc", shell, "task", shell, "children")))
  there <- processes(srun)
  tools::pskill(srun, tools::SIGSTOP)
  cluster_stop(cl)
  expect_false(still_runs(there))
  wait_until(no_jobs())
})

slow_draws <- function(cl) {
  cluster_map(cl, 1:200, function(i) {
    Sys.sleep(0.02)
    stats::median(stats::rnorm(50))
  }, .seed = 3)
}

test_cluster("workers here, by ssh and in a job do one job whole, whatever is killed", {
  skip_without_fork()
  skip_without_proc()
  there <- local_sshd()
  local_slurm()
  with_muster()
  near <- local_cluster(2)
  want <- slow_draws(near)
  cl <- cluster_start(list(2, there_by_ssh(there, 2L), launch_slurm(1, 2)))
  defer(function() cluster_stop(cl))
  x <- 7
  clusterExport(cl, "x", environment())
  expect_setequal(vapply(cl, function(node) node$host, ""), c("localhost", there$host, "n1"))
  pids <- node_pids(cl)
  all <- processes(pids)
  links <- vapply(as.list(muster:::the_host$hosts), function(link) {
    .Call(muster:::ffi_remote_state, link$pointer)$pid
  }, 0L)
  ssh <- Filter(function(pid) startsWith(first_line(file.path("/proc", pid, "comm")), "ssh"), links)
  expect_length(ssh, 1L)
  # One worker of each; a moment later ssh, and the job.
  killer <- processx::process$new("sh", c("-c", paste(
    "sleep 0.3; kill -9", paste(pids[c(1L, 3L, 5L)], collapse = " "), "; sleep 0.3; kill -9", ssh,
    "; scancel -t RUNNING -u $(id -un)"
  )), poll_connection = FALSE)
  got <- healed(slow_draws(cl))
  killer$wait()
  expect_identical(got$value, want)
  again <- healed(clusterEvalQ(cl, x))
  expect_identical(again$value, rep(list(7), 6L))
  said <- paste(got$text, again$text)
  expect_match(said, "Its job in Slurm was cancelled.", fixed = TRUE)
  expect_match(said, "(SIGKILL)", fixed = TRUE)
  expect_false(any(pids[-2L] %in% node_pids(cl)))
  there <- processes(node_pids(cl))
  cluster_stop(cl)
  wait_until(no_jobs())
  wait_until(!any(still_runs(c(all, there))))
})
