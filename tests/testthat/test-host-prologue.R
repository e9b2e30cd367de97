# Prologues that fail: whose fault it is, and what is said. With stand-ins, see stand-ins.sh.

# A command that runs what ssh would run on the host.
local_ssh <- function(frame = parent.frame()) {
  dir <- local_clients(frame)
  local_variables(R_LIBS = paste(.libPaths(), collapse = ":"), frame = frame)
  ssh <- file.path(dir, "ssh")
  writeLines(c("#!/bin/sh", "for last; do :; done", "exec sh -c \"$last\""), ssh)
  Sys.chmod(ssh, "0755")
  ssh
}

test_cluster("H5: a prologue that fails is the error, with its status and what it printed", {
  skip_without_fork()
  outside()
  ssh <- local_ssh()
  fails <- function(launcher, ..., shown = 1L) {
    failed <- healed(expect_error(cluster_start(launcher), class = "muster_error_launch"))$value
    expect_identical(failed$reason, "prologue")
    text <- conditionMessage(failed)
    for (part in c(...)) expect_match(text, part, fixed = TRUE)
    expect_false(grepl("[\\\\]0[0-7]{2}|exit status of the prologue: [0-9]", text))
    expect_length(grep("^x +no module", strsplit(text, "\n", fixed = TRUE)[[1L]]), shown)
  }
  load <- c("echo no module >&2", "(exit 7)")
  said <- c("The prologue failed on", "its exit status is 7", "x   no module")
  none <- c("/none/Rscript: No such file", "No Rscript can be run after it")
  fails(launch_ssh("node1", 1, prologue = load, rscript = "/none/Rscript", ssh = ssh),
    said, none, "on host \"node1\""
  )
  fails(launch_slurm(1, 1, prologue = load, rscript = "/none/Rscript"), said, none)
  ended <- "It ended its shell before R could start"
  fails(launch_ssh("node1", 1, prologue = c(load[1L], "exit 7"), ssh = ssh), said, ended)
  fails(launch_slurm(1, 1, prologue = c("set -e", load)), said, ended)
  fails(launch_slurm(1, 1, prologue = "exit 7"), said[1:2], ended, shown = 0L)
})

test_cluster("H5: a prologue whose last command isn't true is no failure where R can be run", {
  skip_without_fork()
  outside()
  ssh <- local_ssh()
  prologue <- "[ -f /none ] && . /none"
  for (launcher in list(
    launch_ssh("node1", 1, prologue = prologue, ssh = ssh), launch_slurm(1, 1, prologue = prologue)
  )) {
    cl <- local_cluster(launcher)
    expect_identical(clusterCall(cl, function() 5), list(5))
    cluster_stop(cl)
  }
})

test_that("H5: an R of another version names the status of a prologue that failed", {
  plan <- list(host = list(by = "ssh", name = "node1", key = "none"))
  failed <- expect_error(
    check_facts(
      utils::modifyList(host_facts(), list(r = "3.6")), plan,
      paste0("no module\n", prologue_mark, " 7\n")
    ),
    class = "muster_error_launch"
  )
  expect_match(conditionMessage(failed),
    "The prologue's exit status was 7.\nx It printed:\nx   no module", fixed = TRUE
  )
})

test_that("H5: what ended a job isn't its prologue's fault", {
  reason <- function(...) launch_failure(list(by = "slurm"), paste0(..., "\n"), 1L)$reason
  mark <- paste0(prologue_mark, " ")
  expect_identical(reason("srun: Job has been cancelled\n", mark, "1 ended"), "cancelled")
  expect_identical(reason(mark, "143 ended"), "other")
  expect_identical(reason(mark, "1"), "other")
  expect_identical(reason(mark, "1\nthere is no package called 'muster'"), "muster")
  expect_identical(reason(mark, "1 ended"), "prologue")
  expect_identical(reason(mark, "1\nRscript: not found"), "prologue")
})
