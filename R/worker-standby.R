# A worker's preparations for the fork that makes its standby, and a standby's when it replaces the
# worker. src/fork/standby.c has the rest.

# Threads other than muster's wouldn't exist in the copy. cli's may run: it only says when progress
# bars are due.
pause_threads <- function() {
  first_error(if (has_cli()) do.call(.Call, list(asNamespace("cli")$clic_stop_thread)))
}

resume_threads <- function() {
  first_error(if (has_cli()) start_cli(asNamespace("cli"), asNamespace("cli")$clienv))
}

has_cli <- function() isNamespaceLoaded("cli") && Sys.getenv(cli_variable) == ""

# Jobs and parts are sent, or made, again when they are needed.
take_place <- function() {
  resume_threads()
  for (key in names(the$jobs)) job_drop(key)
  the$parts <- list()
  the$failing <- NULL
}
