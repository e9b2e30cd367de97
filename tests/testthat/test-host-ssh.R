# Hosts by ssh: arguments and commands. tests/full has them over a real sshd.

test_that("launch_ssh() checks its arguments", {
  expect_error(launch_ssh(), class = "muster_error_input")
  expect_error(launch_ssh(4), "`hosts`", class = "muster_error_input")
  expect_error(launch_ssh(character()), class = "muster_error_input")
  expect_error(launch_ssh(c("a", "a")), "without duplicates", class = "muster_error_input")
  expect_error(launch_ssh("-oProxyCommand=x"), "can't begin with", class = "muster_error_input")
  expect_error(launch_ssh("a; reboot"), class = "muster_error_input")
  expect_error(launch_ssh("a:0"), "port", class = "muster_error_input")
  expect_error(launch_ssh("a", 0), "`workers`", class = "muster_error_input")
  expect_error(launch_ssh(c("a", "b"), 1:3), "`workers`", class = "muster_error_input")
  expect_error(launch_ssh("a", 1, "module load R"), "`...`", class = "muster_error_input")
  expect_error(launch_ssh("a", ssh = ""), "`ssh`", class = "muster_error_input")
  expect_error(launch_ssh("a", rscript = NA), "`rscript`", class = "muster_error_input")
  expect_error(launch_ssh("a", options = NA), "`options`", class = "muster_error_input")
  expect_error(cluster_start("4"), "`workers`", class = "muster_error_input")
  expect_error(cluster_start(c("a", "a")), "duplicates", class = "muster_error_input")
  expect_error(cluster_start(NA_character_), class = "muster_error_input")
})

test_that("each host of launch_ssh() has its own command and number of workers", {
  two <- launch_ssh(c("node1", "ann@node2:2200"), c(16, 4), options = c("-J gate", "-i 'my key'"))
  expect_identical(
    capture.output(print(two)),
    c("Launcher: 16 workers on node1, by ssh", "Launcher: 4 workers on ann@node2:2200, by ssh")
  )
  commands <- vapply(two$hosts, function(one) one$host$command, "")
  start <- "exec ssh -J gate -i 'my key' -T -o BatchMode=yes "
  expect_match(commands[1L], paste0(start, "node1 "), fixed = TRUE)
  expect_match(commands[2L], paste0(start, "-p 2200 ann@node2 "), fixed = TRUE)
  expect_output(print(launch_ssh("node1")), "a worker for each core on node1", fixed = TRUE)
})

test_that("what ssh ran isn't blamed for ssh's own failures, nor ssh for its", {
  reason <- function(output, code) launch_failure(list(by = "ssh"), output, code)$reason
  expect_identical(reason("ann@node1: Permission denied (publickey).", 255L), "login")
  expect_identical(reason("exec: /opt/R/Rscript: Permission denied", 126L), "R")
  expect_identical(reason("tput: not found\nConnection reset by peer", 255L), "network")
  expect_identical(reason("Connection refused\nRscript: Command not found.", 1L), "R")
  expect_identical(reason("Connection refused", NA_integer_), "network")
  expect_identical(reason("there is no package called \u2018muster\u2019", 1L), "muster")
  expect_identical(reason("a licence has expired", 1L), "other")
})

test_that("login shells of all kinds run what they are given, unchanged", {
  dir <- tempfile("it's \"one\" ")
  dir.create(dir)
  defer(function() unlink(dir, recursive = TRUE))
  rscript <- file.path(dir, "R script")
  writeLines(c("#!/bin/sh", "echo \"got $*, $WORD\"", "cat"), rscript)
  Sys.chmod(rscript, "0700")
  odd <- "it's \"q\" $HOME `id` $(id) \\ ! !! %s \u00e9"
  prologue <- c(
    "echo loud", "cat", "for i in 1 2; do", "  true", "done", paste0("WORD=", shQuote(odd)),
    "export WORD"
  )
  shells <- Sys.which(c("sh", "bash", "dash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish"))
  for (shell in shells[nzchar(shells)]) {
    errors <- file.path(dir, "errors")
    run <- function(prologue, code = host_code(FALSE)) {
      command <- shQuote(command_there(prologue, rscript, code))
      system2(shell, c("-c", command), stdout = TRUE, stderr = errors, input = "from the link")
    }
    got <- "got -e muster::muster_host(), "
    expect_identical(run(character()), c(got, "from the link"))
    expect_identical(enc2utf8(run(prologue)), c(paste0(got, odd), "from the link"))
    expect_true("loud" %in% readLines(errors))
    if (!file.exists(source_file())) next
    for (code in c(host_code(TRUE), install_code())) {
      expect_identical(run(character(), code), c(paste0("got -e ", code, ", "), "from the link"))
      expect_identical(enc2utf8(run(prologue, code)),
        c(paste0("got -e ", code, ", ", odd), "from the link")
      )
    }
  }
})
