# What is said of a full disk on a host, and of workers that killNode() has ended.

test_cluster("H7: a disk that is full on a host is an error that names the host", {
  skip_without_fork()
  # The host process can't make the directory for its workers' files, as on a full disk.
  code <- paste(
    "tempdir(); ns <- asNamespace(\"muster\"); root <- ns$host_root",
    "full <- function() { path <- tempfile(\"full-\"); file.create(path); path }",
    "unlockBinding(\"host_root\", ns); assign(\"host_root\", full, ns); muster::muster_host()",
    sep = "; "
  )
  rscript <- file.path(R.home("bin"), "Rscript")
  command <- paste0(
    "R_LIBS=", shQuote(paste(.libPaths(), collapse = ":")), " exec ", rscript, " -e ", shQuote(code)
  )
  failed <- expect_error(cluster_start(launch_command(command, 1, "far")),
    class = "muster_error_launch"
  )
  expect_match(conditionMessage(failed), paste0(
    "^The fork server on host \"far\" ended.*",
    "Can't create a directory for the workers' temporary files.*\n.*no space left"
  ))
  expect_identical(failed$host, "far")
})

test_cluster("H7: a command that does nothing hints at a full disk there", {
  skip_without_fork()
  failed <- expect_error(cluster_start(launch_command("true", 1, "far")),
    class = "muster_error_launch"
  )
  expect_match(conditionMessage(failed), "on host \"far\".*exit status 0.*full disk")
  other <- expect_error(cluster_start(launch_command("echo no >&2; exit 0", 1, "far")))
  expect_false(grepl("full disk", conditionMessage(other), fixed = TRUE))
})

test_cluster("H7: what killNode() has ended says so, also of R's own workers", {
  cl <- makeClusterPSOCK(2, rscript_call = "parallel:::.workRSOCK()")
  defer(function() parallel::stopCluster(cl))
  expect_s3_class(cl[[1L]], "muster_stock_node")
  expect_true(killNode(cl[[1L]], tools::SIGKILL))
  tools::pskill(cl[[2L]]$pid, tools::SIGKILL)
  lost <- expect_error(clusterCall(cl[1L], identity, 1), class = "muster_error_lost")
  expect_match(conditionMessage(lost), "by muster.\nx it was ended by killNode()", fixed = TRUE)
  expect_identical(lost$killed_by, "muster")
  lost <- expect_error(clusterCall(cl[2L], identity, 1), class = "muster_error_lost")
  expect_match(conditionMessage(lost), "killed by signal 9 (SIGKILL) from an unknown", fixed = TRUE)
  expect_identical(lost$killed_by, "unknown")
})

test_cluster("H7: partitions on two hosts are refused with an index for one of them", {
  skip_without_fork()
  cl <- local_cluster(list(1, here_by_link(2, "far")))
  refused <- function(cl) {
    conditionMessage(expect_error(partition_scatter(cl, data.frame(x = 1:4)),
      class = "muster_error_input"
    ))
  }
  expect_match(refused(cl), "as in cl[2:3].", fixed = TRUE)
  expect_match(refused(cl[c(2L, 1L)]), "as in cl[1].", fixed = TRUE)
  expect_match(refused(cl[c(2L, 1L, 3L)]), "cl[cluster_status(cl)$host == \"far\"].", fixed = TRUE)
  expect_identical(nrow(partition_collect(partition_scatter(cl[2:3], data.frame(x = 1:4)))), 4L)
})
