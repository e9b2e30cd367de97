# What job schedulers tell of a job, in the environment or in a file that they name there:
# cores_*() how many cores it has on this host, workers_*() its hosts.

# ---- LSF

# IBM Spectrum LSF and OpenLava: `bsub -n 8`.

cores_lsf <- function() cores_env_count("LSB_DJOB_NUMPROC")

# Hosts of the job in LSF's order, one for each slot; NULL if there's no list. LSB_HOSTS
# has a word for each slot; LSB_MCPU_HOSTS, for jobs where that gets too long, has pairs
# of host and number of slots.
workers_lsf <- function() {
  found <- cores_env("LSB_HOSTS")
  if (!is.null(found)) {
    hosts <- cores_split(found$text, "[, \t\n]+")
    return(workers_repeat(hosts, rep(1L, length(hosts)), paste0("`", found$name, "`")))
  }
  found <- cores_env("LSB_MCPU_HOSTS")
  if (is.null(found)) {
    return(NULL)
  }
  words <- cores_split(found$text, "[ \t\n]+")
  first <- seq(1L, length(words), by = 2L)
  counts <- vapply(words[first + 1L], cores_whole, 1L, USE.NAMES = FALSE)
  source <- paste0("Environment variable `", found$name, "`")
  if (anyNA(counts) || any(counts < 1L)) {
    cores_warn_ignored(source, "pairs of a host and a number of slots", found$text)
    return(NULL)
  }
  workers_repeat(words[first], counts, source)
}

# ---- PBS

# PBS: TORQUE (`qsub -l nodes=2:ppn=4`), PBS Professional and OpenPBS (`-l select=2:ncpus=4`).

cores_pbs <- function() cores_env_count(c("PBS_NUM_PPN", "NCPUS"))

# Hosts of the job in the order of their names; NULL if there's no list. The file has a line
# for each worker.
workers_pbs <- function() {
  file <- workers_file("PBS_NODEFILE")
  if (is.null(file)) {
    return(NULL)
  }
  hosts <- workers_plain(file)
  if (is.null(hosts)) {
    return(NULL)
  }
  workers_pbs_compare(length(hosts), file$source)
  hosts[order(hosts)]
}

# TORQUE tells the number of workers twice more. PBS Professional doesn't, and need not.
workers_pbs_compare <- function(count, source) {
  slots <- cores_env_count("PBS_NP")$count
  nodes <- cores_env_count("PBS_NUM_NODES")$count
  per_node <- cores_env_count("PBS_NUM_PPN")$count
  numbers <- c(
    "`PBS_NP` says" = slots,
    "`PBS_NUM_NODES` times `PBS_NUM_PPN` is" = as.numeric(nodes) * per_node
  )
  for (says in names(numbers)[!is.na(numbers) & numbers != count]) {
    cores_warn(
      paste0(source, " lists ", count, " workers, but ", says, " ", numbers[[says]], "."),
      "The file takes precedence."
    )
  }
}

# ---- PJM

# Fujitsu's Technical Computing Suite, whose commands begin with "pj": `pjsub -L vnode-core=8`.

cores_pjm <- function() cores_env_count(c("PJM_VNODE_CORE", "PJM_PROC_BY_NODE"))

# Hosts of the job in the file's order, each as often as a node has cores for the job;
# NULL if there's no list. The file has a line for each node.
workers_pjm <- function() {
  file <- workers_file("PJM_O_NODEINF")
  hosts <- if (!is.null(file)) workers_plain(file)
  if (is.null(hosts)) {
    return(NULL)
  }
  nodes <- cores_env_count("PJM_VNODE")$count
  if (!is.na(nodes) && nodes != length(hosts)) {
    cores_warn(
      paste0(file$source, " lists ", length(hosts), " nodes, but `PJM_VNODE` says ", nodes, "."),
      "The file takes precedence."
    )
  }
  each <- cores_pjm()$count
  if (is.na(each)) {
    cores_warn(
      paste(file$source, "lists nodes, but no variable gives the number of cores of each."),
      "One for each node is assumed; set `PJM_VNODE_CORE` or `PJM_PROC_BY_NODE`."
    )
    each <- 1L
  }
  workers_repeat(hosts, rep(each, length(hosts)), file$source)
}

# ---- SGE

# Grid Engine (SGE and its descendants): `qsub -pe <environment> <slots>`.

cores_sge <- function() cores_env_count("NSLOTS")

# Hosts of the job, each as often as it has slots, in the order of their names; NULL if
# there's no list. Lines of the file: host, slots, queue, processors.
workers_sge <- function() {
  file <- workers_file("PE_HOSTFILE")
  if (is.null(file)) {
    return(NULL)
  }
  fields <- strsplit(file$lines, "[ \t]+", useBytes = TRUE)
  hosts <- vapply(fields, `[`, "", 1L)
  counts <- vapply(fields, function(field) cores_whole(field[2L]), 1L)
  if (anyNA(counts) || any(counts < 1L)) {
    return(workers_reject(file, "a host and a number of slots in each line"))
  }
  order <- order(hosts, counts)
  hosts <- workers_repeat(hosts[order], counts[order], file$source)
  slots <- cores_sge()$count
  if (!is.na(slots) && length(hosts) < slots) {
    cores_warn(
      paste0(file$source, " lists ", length(hosts), " slots, but `NSLOTS` says ", slots, "."),
      "The file takes precedence."
    )
  }
  hosts
}

# ---- Slurm

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

# ---- HTCondor

# HTCondor: `request_cpus = 4` in the submit file.
#
# HTCondor describes the slot that a job runs in, in the file that _CONDOR_MACHINE_AD names;
# one of its lines is "Cpus = 4". By default it limits a job to shares of CPU time only, which
# bind when others want the rest, so nothing else on the machine would tell.

cores_condor <- function() {
  found <- cores_env("_CONDOR_MACHINE_AD")
  if (is.null(found)) {
    return(cores_silent("_CONDOR_MACHINE_AD isn't set"))
  }
  lines <- read_kernel_file(found$text)
  pattern <- "^Cpus *= *([0-9]+) *$"
  line <- grep(pattern, lines, ignore.case = TRUE, value = TRUE)
  count <- if (length(line) == 1L) cores_whole(sub(pattern, "\\1", line, ignore.case = TRUE))
  if (is.null(count) || is.na(count) || count < 1L) {
    return(cores_silent("no number of Cpus in ", found$text))
  }
  cores_answer(count, "\"", line, "\" in ", found$text)
}
