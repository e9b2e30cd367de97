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
