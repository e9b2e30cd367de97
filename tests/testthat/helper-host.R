# With MUSTER_TEST_HOST=yes the clusters that tests start have their workers behind a link, as on
# another host: whatever works here must work there.

# A command that leads to a host process on this machine.
host_command <- function() {
  libraries <- paste(.libPaths(), collapse = ":")
  rscript <- file.path(R.home("bin"), "Rscript")
  paste0("R_LIBS=", shQuote(libraries), " exec ", rscript, " -e 'muster::muster_host()'")
}

here_by_link <- function(workers = 1L, ...) launch_command(host_command(), workers, ...)

# A host that is there once a file is, or is a failure then: list(file, launcher).
local_late <- function(workers = 1L, command = host_command(), frame = parent.frame()) {
  file <- tempfile("there-")
  defer(function() unlink(file), frame)
  wait <- paste0("until test -e ", file, "; do sleep 0.05; done; ", command)
  list(file = file, launcher = launch_command(wait, workers, "far"))
}

# The host process of the last worker.
far_host <- function(cl) parent_of(parent_of(cl[[length(cl)]]$pid))

# As outside of any job of Slurm.
outside <- function(frame = parent.frame()) {
  local_variables(SLURM_JOB_ID = "", SLURM_JOB_NODELIST = "", SLURM_NODELIST = "", frame = frame)
}

# A folder on the PATH with stand-ins for clients, see stand-ins.sh, and with muster. Returns it.
local_clients <- function(frame = parent.frame()) {
  dir <- local_folder(frame)
  clients <- c(
    "docker", "podman", "kubectl", "srun", "squeue", "scancel", "qrsh", "bsub", "conda", "apptainer"
  )
  file.copy(test_path("stand-ins.sh"), file.path(dir, clients))
  writeLines(c("#!/bin/sh", host_command()), file.path(dir, "muster"))
  Sys.chmod(file.path(dir, c(clients, "muster")), "0755")
  local_variables(
    PATH = paste(dir, Sys.getenv("PATH"), sep = ":"), STAND_INS = dir, frame = frame
  )
  dir
}

# ---- Behind a link

behind_link <- function() nzchar(Sys.getenv("MUSTER_TEST_HOST"))

# Of a test whose subject there is on this machine only. why: what it is.
skip_behind_link <- function(why) testthat::skip_if(behind_link(), paste("behind a link:", why))

# Evaluates code that starts its clusters on this machine, whatever the mode.
here_only <- function(code) {
  before <- the_mode$here
  on.exit(the_mode$here <- before)
  the_mode$here <- TRUE
  code
}

# The process that workers name in their titles: the session, or the host process.
worker_owner <- function(cl) if (behind_link()) far_host(cl) else Sys.getpid()

the_mode <- new.env()
the_mode$here <- FALSE
the_mode$began <- FALSE

# What cluster_start() has made of its arguments is changed, not the arguments: so errors name the
# user's call, and wrong arguments are refused as ever. Workers that are to be booted stay here, as
# those beside others by a list of launchers, and those of makeClusterPSOCK(), whose plan has no
# `enough`.
if (behind_link()) {
  local({
    package <- asNamespace("muster")
    start <- get("start_cluster", package)
    by_link <- function(plan, may_fall_back) {
      only <- plan$groups[[1L]]
      moves <- !the_mode$here && !is.null(plan$enough) && length(plan$groups) == 1L &&
        is.null(only$host) && !is.null(only$workers) && only$workers <= 64L && plan$start == "fork"
      if (moves) {
        there <- launch_command(host_command(), only$workers, "localhost")
        plan$groups <- lapply(there$hosts, with_key)
      }
      start(plan, may_fall_back)
    }
    unlockBinding("start_cluster", package)
    assign("start_cluster", by_link, package)
    lockBinding("start_cluster", package)
  })
}
