# A real Slurm on this machine: a controller and three nodes of eight CPUs, n1 to n3.

# local_slurm() starts one for as long as the test runs, and sets SLURM_CONF, which all of Slurm's
# commands look at.
local_slurm <- function(frame = parent.frame()) {
  path <- paste(Sys.getenv("PATH"), "/usr/sbin", "/sbin", sep = ":")
  withr::local_envvar(PATH = path, .local_envir = frame)
  programs <- Sys.which(c("srun", "squeue", "scancel", "slurmctld", "slurmd", "munged", "munge"))
  skip_if_not(all(nzchar(programs)), "there is no Slurm")
  withr::local_preserve_seed(.local_envir = frame) # processx draws, too
  dir <- tempfile("slurm-", "/tmp") # names of sockets are short
  dir.create(dir, mode = "0755")
  withr::defer(unlink(dir, recursive = TRUE), envir = frame)
  daemon <- function(program, ...) {
    log <- file.path(dir, paste0(basename(tempfile(program)), ".log"))
    one <- processx::process$new(programs[[program]], c(...),
      stdout = log, stderr = log, poll_connection = FALSE
    )
    withr::defer(if (!one$interrupt() || one$wait(3000)$is_alive()) one$kill_tree(), envir = frame)
    one
  }
  key <- file.path(dir, "munge.key")
  writeBin(as.raw(1:128), key)
  Sys.chmod(key, "0600")
  socket <- file.path(dir, "munge.socket")
  daemon("munged", "--foreground", "--force", paste0("--key-file=", key),
    paste0("--socket=", socket), paste0("--pid-file=", dir, "/munge.pid"),
    paste0("--seed-file=", dir, "/munge.seed")
  )
  answers <- c("--no-input", paste0("--socket=", socket))
  wait_until(system2("munge", answers, stdout = FALSE, stderr = FALSE) == 0L)
  conf <- file.path(dir, "slurm.conf")
  writeLines(slurm_conf(dir, socket), conf)
  for (one in c("state", "n1", "n2", "n3")) dir.create(file.path(dir, one))
  withr::local_envvar(SLURM_CONF = conf, .local_envir = frame)
  daemon("slurmctld", "-D", "-c", "-f", conf)
  for (node in c("n1", "n2", "n3")) daemon("slurmd", "-D", "-f", conf, "-N", node)
  idle <- function() {
    suppressWarnings(system2("sinfo", c("-h", "-t", "idle", "-o", "%D"), TRUE, FALSE))
  }
  wait_until(identical(c(idle(), "")[1L], "3"), 30)
  dir
}

slurm_conf <- function(dir, socket) {
  user <- Sys.info()[["effective_user"]]
  host <- sub("[.].*", "", Sys.info()[["nodename"]])
  port <- function() freePort(20000:30000)
  node <- function(name) {
    paste0(
      "NodeName=", name, " NodeHostname=", host, " NodeAddr=127.0.0.1 Port=", port(),
      " CPUs=8 State=UNKNOWN"
    )
  }
  c(
    "ClusterName=test", paste0("SlurmctldHost=", host, "(127.0.0.1)"),
    paste0("SlurmUser=", user), paste0("SlurmdUser=", user),
    "AuthType=auth/munge", paste0("AuthInfo=socket=", socket), "CredType=cred/munge",
    "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none",
    "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "ReturnToService=2",
    "SlurmdParameters=config_overrides", "JobAcctGatherType=jobacct_gather/none",
    "SchedulerParameters=sched_interval=1,bf_interval=1",
    paste0("StateSaveLocation=", dir, "/state"), paste0("SlurmdSpoolDir=", dir, "/%n"),
    paste0("SlurmctldPidFile=", dir, "/slurmctld.pid"),
    paste0("SlurmdPidFile=", dir, "/slurmd.%n.pid"),
    paste0("SlurmctldPort=", port()), node("n1"), node("n2"), node("n3"),
    "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
  )
}

# Jobs in the queue: "id name state" each.
slurm_jobs <- function() system2("squeue", c("-h", "-o", shQuote("%i %j %T")), TRUE)
no_jobs <- function() !length(grep(" muster-", slurm_jobs()))

# A job on all CPUs of some nodes, as long as the test runs or until stop() is called, which is
# returned.
local_full_queue <- function(nodes = 3L, frame = parent.frame()) {
  hog <- processx::process$new("srun",
    c(paste0("-N", nodes), paste0("-n", nodes), "-c8", "-J", "hog", "sleep", "600"),
    poll_connection = FALSE
  )
  stop <- function() {
    system2("scancel", c("-n", "hog"))
    wait_until(!any(grepl(" hog ", slurm_jobs())))
  }
  withr::defer({
    if (hog$is_alive()) stop()
    hog$wait()
  }, envir = frame)
  wait_until(any(grepl(" hog RUNNING", slurm_jobs())))
  stop
}
