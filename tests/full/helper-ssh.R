# A real sshd on the loopback.

# An sshd of this test's own: list(host, port, dir, options), for as long as the test runs. more:
# lines for its configuration.
local_sshd <- function(more = character(), frame = parent.frame()) {
  sshd <- Sys.which("sshd")
  if (!nzchar(sshd)) sshd <- Find(file.exists, "/usr/sbin/sshd")
  skip_if(is.null(sshd), "there is no sshd")
  skip_if(!nzchar(Sys.which("ssh")) || !nzchar(Sys.which("ssh-keygen")), "there is no ssh")
  dir <- tempfile("sshd-")
  dir.create(dir, mode = "0700")
  withr::defer(unlink(dir, recursive = TRUE), envir = frame)
  # It wants this one where it runs as root.
  root <- identical(unname(Sys.info()[["effective_user"]]), "root")
  if (root && !dir.exists("/run/sshd")) {
    dir.create("/run/sshd")
    withr::defer(unlink("/run/sshd", recursive = TRUE), envir = frame)
  }
  for (key in c("host", "user")) {
    system2("ssh-keygen", c("-q", "-t", "ed25519", "-N", "''", "-f", file.path(dir, key)))
  }
  withr::local_preserve_seed(.local_envir = frame) # processx draws, too
  port <- freePort(20000:30000)
  writeLines(c(
    paste("Port", port), "ListenAddress 127.0.0.1", paste0("HostKey ", dir, "/host"),
    paste0("AuthorizedKeysFile ", dir, "/user.pub"), "PidFile none", "StrictModes no", "UsePAM no",
    "PasswordAuthentication no", "KbdInteractiveAuthentication no",
    "PermitRootLogin prohibit-password", "MaxStartups 100", more
  ), file.path(dir, "config"))
  log <- file.path(dir, "log")
  server <- processx::process$new(sshd, c("-D", "-e", "-f", file.path(dir, "config")),
    stderr = log
  )
  withr::defer(server$kill_tree(), envir = frame)
  up <- wait_until(any(grepl("listening on", readLines(log))) || !server$is_alive())
  skip_if_not(up && server$is_alive(), paste("sshd doesn't run:", readLines(log)[1L]))
  there <- list(
    host = paste0("127.0.0.1:", port), port = port, dir = dir, pid = server$get_pid(),
    options = c(
      "-i", file.path(dir, "user"), "-F /dev/null -o IdentitiesOnly=yes",
      "-o StrictHostKeyChecking=no -o LogLevel=ERROR",
      paste0("-o UserKnownHostsFile=", dir, "/known")
    )
  )
  login <- paste(c("ssh", there$options, "-p", port, "127.0.0.1 exit 7"), collapse = " ")
  skip_if_not(identical(system(login), 7L), "this user can't log in by ssh")
  there
}

# What has to run there so that this session's muster is found.
host_prologue <- function() {
  libraries <- paste(.libPaths(), collapse = ":")
  paste0("export R_LIBS=", shQuote(libraries))
}

there_by_ssh <- function(there, workers = 1L, ...) {
  launch_ssh(there$host, workers,
    prologue = host_prologue(), rscript = file.path(R.home("bin"), "Rscript"),
    options = there$options, ...
  )
}
