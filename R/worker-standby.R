# What a worker does around the fork that makes its standby, and a standby when it takes the
# worker's place. src/fork/standby.c has the rest.

# Other threads than muster's would not be there in the copy. cli's may be: it only tells when
# progress bars are due.
pause_threads <- function() {
  first_error(if (has_cli()) do.call(.Call, list(asNamespace("cli")$clic_stop_thread)))
}

resume_threads <- function() {
  first_error(if (has_cli()) start_cli(asNamespace("cli"), asNamespace("cli")$clienv))
}

has_cli <- function() isNamespaceLoaded("cli") && Sys.getenv(cli_variable) == ""

# Jobs and parts are sent again, or made again, to whoever needs them.
take_place <- function() {
  resume_threads()
  for (key in names(the$jobs)) job_drop(key)
  the$parts <- list()
  the$failing <- NULL
}
