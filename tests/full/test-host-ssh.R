# Hosts by ssh, over a real sshd on the loopback.

test_cluster("a host by ssh has workers like those here, and keeps nothing", {
  skip_without_fork()
  skip_without_proc()
  there <- local_sshd()
  cl <- cluster_start(there_by_ssh(there, 2L))
  defer(function() cluster_stop(cl))
  expect_identical(cl[[1L]]$host, there$host)
  expect_length(cl, 2L)
  expect_identical(clusterApply(cl, 1:4, function(i) i^2), as.list((1:4)^2))
  expect_true(all(nzchar(unlist(clusterCall(cl, Sys.getenv, "SSH_CONNECTION")))))
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(healed(clusterCall(cl, function() 5))$value, list(5, 5))
  server <- parent_of(cl[[1L]]$pid)
  host <- processes(c(server, parent_of(server), node_pids(cl)))
  cluster_stop(cl)
  wait_until(!any(still_runs(host)))
})

# What goes wrong with a host, by the field `reason`.
failed_start <- function(launcher, class = "muster_error_launch") {
  expect_error(cluster_start(launcher), class = class)
}

test_cluster("what is wrong with a host by ssh is said, with what ssh said", {
  skip_without_fork()
  there <- local_sshd()
  dir <- there$dir
  plain <- function(...) launch_ssh(there$host, 1L, options = there$options, ...)
  empty <- failed_start(plain(prologue = "export R_LIBS= R_LIBS_SITE=/none R_LIBS_USER=/none",
    rscript = paste0(dir, "/none/Rscript")
  ))
  expect_identical(empty[c("reason", "host")], list(reason = "R", host = there$host))
  writeLines("no program", file.path(dir, "Rscript"))
  Sys.chmod(file.path(dir, "Rscript"), "0600")
  expect_identical(failed_start(plain(rscript = file.path(dir, "Rscript")))$reason, "R")
  without <- failed_start(launch_ssh(there$host, 1L,
    prologue = paste0("export R_LIBS=", dir, " R_LIBS_SITE=", dir, " R_LIBS_USER=", dir),
    rscript = file.path(R.home("bin"), "Rscript"), options = there$options
  ))
  expect_identical(without$reason, "muster")
  expect_match(conditionMessage(without), "Install muster there", fixed = TRUE)
  name <- failed_start(launch_ssh("no-such-host.invalid", 1L, options = there$options))
  expect_identical(name$reason, "name")
  system2("ssh-keygen", c("-q", "-t", "ed25519", "-N", "''", "-f", file.path(dir, "other")))
  options <- sub(file.path(dir, "user"), file.path(dir, "other"), there$options, fixed = TRUE)
  login <- failed_start(launch_ssh(there$host, 1L, options = options))
  expect_identical(login$reason, "login")
  expect_match(conditionMessage(login), "ssh-copy-id", fixed = TRUE)
  unknown <- sub("StrictHostKeyChecking=no", "StrictHostKeyChecking=yes", there$options)
  unknown <- sub("/known", "/nobody", unknown)
  expect_identical(failed_start(launch_ssh(there$host, 1L, options = unknown))$reason, "key")
  server <- socket_listen()
  nobody <- paste0("127.0.0.1:", server$port)
  socket_close(server)
  closed <- failed_start(launch_ssh(nobody, 1L, options = there$options))
  expect_identical(closed$reason, "network")
  expect_match(closed$output, "refused")
})

test_cluster("a host by ssh that accepts and is silent is an error in time", {
  skip_without_fork()
  skip_if(!nzchar(Sys.which("ssh")), "there is no ssh")
  local_settings(muster.start_timeout = 0.5)
  server <- socket_listen()
  defer(function() socket_close(server))
  silent <- failed_start(
    launch_ssh(paste0("127.0.0.1:", server$port), 1L, options = "-F /dev/null"),
    "muster_error_timeout"
  )
  expect_match(silent$host, "127.0.0.1", fixed = TRUE)
})
