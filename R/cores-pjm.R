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
