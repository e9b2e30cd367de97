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

# Runs code with none of the settings that availableCores() heeds, but those given, and
# with no memory of the warnings given before.
with_cores_settings <- function(code, env = character(), mc.cores = NULL) {
  known <- c(
    "SLURM_CPUS_PER_TASK", "NSLOTS", "PBS_NUM_PPN", "MC_CORES", "_R_CHECK_LIMIT_CORES_"
  )
  env_before <- Sys.getenv(known, unset = NA)
  options_before <- options(mc.cores = mc.cores)
  warned_before <- cores_warned$messages
  on.exit({
    Sys.unsetenv(known)
    cores_set_env(env_before[!is.na(env_before)])
    options(options_before)
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

# parallelly's availableCores(), to compare with; the test is skipped without it. It
# remembers what it read from the environment, so it's made to forget that.
cores_oracle <- function() {
  testthat::skip_if_not_installed("parallelly")
  peer <- asNamespace("parallelly")
  for (name in c("availableCoresSlurm", "availableCoresSGE", "availableCoresPBS")) {
    memory <- environment(get(name, peer))
    if (is.null(memory) || identical(memory, peer) || !exists("n", memory, inherits = FALSE)) {
      testthat::skip("this version of parallelly keeps its memory elsewhere")
    }
    assign("n", NULL, memory)
  }
  get("availableCores", peer)
}
