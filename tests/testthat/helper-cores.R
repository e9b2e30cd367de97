# Helpers for test-cores-*.R.

# Calls test(proc, sys, cpu) on made-up trees of /proc, /sys/fs/cgroup and
# /sys/devices/system/cpu. files: a list of lines by path, such as "proc/self/cgroup" or
# "sys/cpu/a/cpu.cfs_quota_us"; "{sys}" in a line becomes the path of that tree. NULL
# lines make a directory, which no user can read as a file.
with_cores_tree <- function(files, test) {
  root <- tempfile("cores-tree-")
  on.exit(unlink(root, recursive = TRUE))
  base <- file.path(root, c("proc", "sys", "cpu"))
  for (dir in base) {
    dir.create(dir, recursive = TRUE)
  }
  for (name in names(files)) {
    path <- file.path(root, name)
    dir.create(if (is.null(files[[name]])) path else dirname(path),
      recursive = TRUE, showWarnings = FALSE
    )
    if (!is.null(files[[name]])) {
      writeLines(gsub("{sys}", base[2L], files[[name]], fixed = TRUE), path)
    }
  }
  test(base[1L], base[2L], base[3L])
}

# Runs code where availableCores() reads made-up trees.
with_cores_places <- function(code, proc, sys, cpu) {
  before <- as.list(cores_places)
  on.exit(list2env(before, cores_places))
  list2env(list(proc = proc, sys = sys, cpu = cpu), cores_places)
  code
}

cores_variables <- c(
  "SLURM_CPUS_PER_TASK", "SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURM_CPUS_ON_NODE",
  "SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_JOB_NODELIST", "SLURM_NODELIST",
  "NSLOTS", "PE_HOSTFILE", "PBS_NUM_PPN", "NCPUS", "PBS_NODEFILE", "PBS_NP", "PBS_NUM_NODES",
  "LSB_DJOB_NUMPROC", "LSB_HOSTS", "LSB_MCPU_HOSTS", "PJM_VNODE_CORE", "PJM_PROC_BY_NODE",
  "PJM_O_NODEINF", "PJM_VNODE", "_CONDOR_MACHINE_AD", "MC_CORES", "_R_CHECK_LIMIT_CORES_",
  "BIOCPARALLEL_WORKER_NUMBER", "IS_BIOC_BUILD_MACHINE", "BBS_HOME", "RSTUDIO", "RSTUDIO_TERM",
  "MUSTER_TEST_ANY"
)

# Runs code with none of the settings that availableCores() heeds, but those given, and
# with no memory of the warnings given before. options: a named list.
with_cores_settings <- function(code, env = character(), mc.cores = NULL, options = list()) {
  prefixed <- grep("^R_(MUSTER|PARALLELLY|FUTURE)_", names(Sys.getenv()), value = TRUE)
  known <- unique(c(cores_variables, prefixed, names(env)))
  env_before <- Sys.getenv(known, unset = NA)
  heeded <- grep(
    "^(muster|parallelly|future)[.].*(Cores|Workers|Connections|Multicore|fork|localhost)",
    names(base::options()), value = TRUE
  )
  cleared <- stats::setNames(vector("list", length(heeded)), heeded)
  options_before <- base::options(c(cleared, list(mc.cores = mc.cores)))
  more_before <- base::options(options)
  warned_before <- cores_warned$messages
  on.exit({
    Sys.unsetenv(known)
    cores_set_env(env_before[!is.na(env_before)])
    base::options(more_before)
    base::options(options_before)
    cores_warned$messages <- warned_before
  })
  Sys.unsetenv(known)
  cores_set_env(env)
  cores_warned$messages <- NULL
  code
}

# Sys.setenv() with a named character vector, which may be empty.
cores_set_env <- function(env) {
  if (length(env)) do.call(Sys.setenv, as.list(env))
}

# Functions of parallelly, to compare with; the test is skipped without it. It remembers
# what it read from the environment, so it's made to forget that.
cores_oracle <- function(name = "availableCores") {
  testthat::skip_if_not_installed("parallelly", "1.48.0")
  peer <- asNamespace("parallelly")
  for (scheduler in c("Slurm", "SGE", "PBS", "LSF", "PJM")) {
    cores_oracle_forget(peer, paste0("availableCores", scheduler), "n")
  }
  get(name, peer)
}

cores_oracle_forget <- function(peer, name, variable, value = NULL) {
  memory <- environment(get0(name, peer))
  if (is.null(memory) || identical(memory, peer) || !exists(variable, memory, inherits = FALSE)) {
    testthat::skip("this version of parallelly keeps its memory elsewhere")
  }
  assign(variable, value, memory)
}

# Runs code where parallelly reads control groups of a made-up tree, which must have
# proc/self/mounts.
with_oracle_tree <- function(code, proc) {
  testthat::skip_if_not_installed("parallelly", "1.48.0")
  peer <- asNamespace("parallelly")
  testthat::skip_if_not(
    all(c("procPath", "maxCores") %in% ls(peer)), "this parallelly reads no other trees"
  )
  single <- c(
    "getCGroupsMounts", "getCGroups", "getCGroups1CpuSet", "getCGroups1CpuPeriodMicroseconds",
    "getCGroups1CpuQuota", "getCGroups2CpuMax"
  )
  several <- c("getCGroupsRoot", "getCGroupsPath", "getCGroupsValue", "getCGroups2CpuSet")
  forget <- function() {
    for (name in single) {
      cores_oracle_forget(peer, name, ".cache")
    }
    for (name in several) {
      cores_oracle_forget(peer, name, ".cache", list())
    }
  }
  on.exit({
    peer$procPath(NA)
    peer$maxCores(NA)
    forget()
  })
  # The tree may have more CPUs than this machine. procPath() forgets maxCores().
  peer$procPath(proc)
  peer$maxCores(Inf)
  forget()
  code
}

cgroup_methods <- c(
  "cgroups.cpuset", "cgroups.cpuquota", "cgroups2.cpuset.cpus",
  "cgroups2.cpuset.cpus.effective", "cgroups2.cpu.max"
)

# The inverse of nodelist_expand(): numbered names of a run are put into brackets. It is slow
# and simple, and knows nothing of the code that it tests.
nodelist_compress <- function(hosts) {
  items <- character()
  at <- 1L
  while (at <= length(hosts)) {
    match <- regexec("^(.*?)([0-9]{1,9})([^0-9]*)$", hosts[at], perl = TRUE)
    parts <- regmatches(hosts[at], match)[[1L]]
    run <- at
    if (length(parts)) {
      number <- as.integer(parts[3L])
      next_name <- function() {
        sprintf("%s%0*d%s", parts[2L], nchar(parts[3L]), number + run + 1L - at, parts[4L])
      }
      while (run < length(hosts) && hosts[run + 1L] == next_name()) {
        run <- run + 1L
      }
    }
    items <- c(items, if (run == at) hosts[at] else {
      sprintf("%s[%s-%d]%s", parts[2L], parts[3L], number + run - at, parts[4L])
    })
    at <- run + 1L
  }
  paste(items, collapse = ",")
}
