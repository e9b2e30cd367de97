# Slurm: `sbatch --cpus-per-task=4`, `--ntasks=16`, `--nodes=2`.

# CPUs for one task if the job asked for them that way; or else what the job has on
# this node. Of a job on several nodes it's the first node's number of tasks.
cores_slurm <- function() {
  answer <- cores_env_count("SLURM_CPUS_PER_TASK")
  if (!is.na(answer$count)) {
    return(answer)
  }
  nodes <- cores_env_count(c("SLURM_JOB_NUM_NODES", "SLURM_NNODES"))
  if (is.na(nodes$count) || nodes$count == 1L) {
    on_node <- cores_env_count("SLURM_CPUS_ON_NODE")
    return(if (is.na(on_node$count)) answer else on_node)
  }
  found <- cores_env("SLURM_TASKS_PER_NODE")
  counts <- slurm_counts(found)
  if (is.null(counts)) {
    return(answer)
  }
  cores_answer(counts[1L], cores_quote(found$name, found$text), ", ", nodes$reason())
}

# Hosts of the job in Slurm's order, each as often as the job has CPUs there; NULL if there's no
# list. CPUs count by tasks where the job asked for CPUs per task.
workers_slurm <- function() {
  list <- cores_env(c("SLURM_JOB_NODELIST", "SLURM_NODELIST"))
  hosts <- if (!is.null(list)) nodelist_expand(list$text, paste0("`", list$name, "`"))
  if (!length(hosts)) {
    return(NULL)
  }
  found <- cores_env(c("SLURM_JOB_CPUS_PER_NODE", "SLURM_TASKS_PER_NODE"))
  if (is.null(found)) {
    cores_warn(
      paste0("`", list$name, "` lists nodes, but no variable gives the number of CPUs of each."),
      "One for each node is assumed; set `SLURM_JOB_CPUS_PER_NODE`."
    )
    return(hosts)
  }
  counts <- slurm_counts(found)
  if (is.null(counts)) {
    return(NULL)
  }
  if (length(counts) != length(hosts)) {
    cores_warn(
      paste0("`", list$name, "` lists ", length(hosts), " nodes, but `", found$name, "` has ",
             length(counts), " counts."),
      "Both are ignored when listing the available workers.",
      value = c(list$text, found$text)
    )
    return(NULL)
  }
  counts <- slurm_cap_counts(counts, found)
  workers_repeat(hosts, counts, paste0("`", list$name, "`"))
}

slurm_cap_counts <- function(counts, found) {
  per_task <- cores_env_count("SLURM_CPUS_PER_TASK")$count
  if (!is.na(per_task) && any(counts < per_task)) {
    cores_warn(
      paste0("`", found$name, "` grants some node fewer CPUs than `SLURM_CPUS_PER_TASK`, ",
             per_task, "."),
      "The smaller of the two is used for each node.",
      value = found$text
    )
  }
  pmin(counts, per_task, na.rm = TRUE)
}

# Counts per node, as in "2(x3),1" for 2, 2, 2, 1. NULL for what isn't such a list.
# found: list(name, text) of the variable, or NULL if it isn't set.
slurm_counts <- function(found) {
  if (is.null(found)) {
    return(NULL)
  }
  parts <- cores_split(gsub("[ \t]", "", found$text, useBytes = TRUE))
  pattern <- "^0*+([1-9][0-9]{0,8})(?:\\(x0*+([1-9][0-9]{0,8})\\))?$"
  valid <- length(parts) > 0L && all(grepl(pattern, parts, perl = TRUE, useBytes = TRUE))
  if (valid) {
    times <- sub(pattern, "\\2", parts, perl = TRUE)
    times <- as.numeric(ifelse(nzchar(times), times, "1"))
    valid <- sum(times) <= nodelist_max
  }
  if (!valid) {
    source <- paste0("Environment variable `", found$name, "`")
    cores_warn_ignored(source, "a list of counts such as 2(x3),1", found$text)
    return(NULL)
  }
  rep(as.integer(sub(pattern, "\\1", parts, perl = TRUE)), times)
}
