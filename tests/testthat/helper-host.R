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

if (nzchar(Sys.getenv("MUSTER_TEST_HOST"))) {
  cluster_start <- function(workers = 2L, ...) {
    by_link <- is.numeric(workers) && length(workers) == 1L && workers %in% 1:64 &&
      !identical(list(...)$start, "spawn")
    muster::cluster_start(if (by_link) here_by_link(workers, "localhost") else workers, ...)
  }
}
