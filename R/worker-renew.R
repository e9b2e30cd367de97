# Renews, in each worker, what packages set when the fork server loaded them.
#
# A port drawn at random, a path in a temporary directory, a thread: a worker that boots by itself
# has its own, so a forked one must get its own, too. Most can be found without knowing the package
# (worker-keep.R); `renewals` has the others. ?cluster_start has a section on those that can't be
# renewed, and docs/FORKED-PACKAGES.md on the packages examined.

# For packages loaded by the server. A change in a package after the version examined must not fail
# the worker: after an error, everything stays as in the server.
# package = function(namespace)
renewals <- list(
  # R 4.2.2 to 4.5: .onLoad draws the port of makeCluster(), the same for all workers: if two use it
  # at the same time, one fails.
  parallel = function(ns) renew_port(ns$defaultClusterOptions),
  # cli 3.6.0 to 3.6.6: .onLoad starts the thread that says when progress bars are due.
  cli = function(ns) if (the_worker$cli_waits) start_cli(ns, ns$clienv),
  # data.table 1.14.8 to 1.18.6: sets itself to one thread in forked processes. Called like this, it
  # reads its variables as on loading; OMP_NUM_THREADS is the worker's own by now.
  data.table = function(ns) ns$setDTthreads(),
  # terra 1.7-3 to 1.9-27: .onAttach copies tempdir() into a C++ object.
  terra = function(ns) {
    if (!is.null(ns$.terra_environment$options)) ns$terraOptions(tempdir = tempdir())
  }
)

# renew_worker() must run after the worker has its temporary directory, variables and threads, and
# before any of the user's code. In a booted worker it does nothing.
renew_worker <- function() {
  if (is.null(the_worker$kept)) {
    return(invisible())
  }
  first_error(renew_files(the_worker$kept))
  renewals <- the_worker$kept$renewals
  for (package in names(renewals)) {
    first_error(renewals[[package]](asNamespace(package)))
  }
  .Call(ffi_rand_seed)
  invisible()
}

# Those for packages of this server.
keep_renewals <- function() {
  list(renewals = renewals[names(renewals) %in% loadedNamespaces()])
}

renew_files <- function(kept) {
  if (length(kept$files)) {
    copy_files(kept$copies, tempdir(), kept$files)
    # Files with a hidden path may have been deleted by another worker.
    copy_files(kept$copies, kept$dir, kept$files)
  }
  for (at in kept$bindings) {
    value <- get(at$name, at$env, inherits = FALSE)
    first_error(.Call(ffi_rebind, at$env, at$name, own_path(value, kept$dirs)))
  }
  if (length(kept$options)) options(own_path(options()[kept$options], kept$dirs))
  if (length(kept$variables)) {
    variables <- own_path(Sys.getenv(kept$variables, names = TRUE), kept$dirs)
    do.call(Sys.setenv, as.list(variables))
  }
}

# Replaces the server's directory by this worker's in paths.
own_path <- function(value, dirs) {
  if (is.character(value)) {
    for (dir in dirs) {
      hit <- grep(dir, value, fixed = TRUE, useBytes = TRUE)
      value[hit] <- gsub(dir, tempdir(), value[hit], fixed = TRUE)
    }
  } else if (is_plain_list(value)) {
    class <- oldClass(value)
    value <- unclass(value)
    for (i in which(vapply(value, has_path, NA, dirs = dirs))) {
      value[[i]] <- own_path(value[[i]], dirs)
    }
    oldClass(value) <- class
  }
  value
}

# Ports 11000 to 11999, as parallel draws them. Process ids are close to each other, so the workers
# of a cluster get different ones, and the server's draw keeps sessions apart. A port that the user
# chose stays.
renew_port <- function(options) {
  chosen <- grepl("^[0-9]+$", Sys.getenv("R_PARALLEL_PORT")) || !options$port %in% 11000:11999
  if (!chosen) options$port <- 11000L + (options$port + Sys.getpid()) %% 1000L
}

# ---- Package cli

# cli starts a thread when it is loaded, and a process with threads must not fork: ggplot2,
# testthat, RSQLite and other packages that import cli could not be preloaded. It starts none if
# this variable is set. The server boots with it, see boot_command(); a value of the user's stays.
cli_variable <- "CLI_NO_THREAD"
cli_word <- "muster"

let_cli_go <- function() {
  the_worker$cli_waits <- Sys.getenv(cli_variable) == cli_word
  if (the_worker$cli_waits) Sys.unsetenv(cli_variable)
}

# As cli does when the tick time is changed, which also checks the variable. By do.call(), since R
# CMD check evaluates the arguments of .Call().
start_cli <- function(ns, times) {
  do.call(.Call, list(ns$clic_tick_set, times$tick_time, times$speed_time))
}

# ---- Standbys

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

# Jobs and parts are sent, or made, again when they are needed.
take_place <- function() {
  resume_threads()
  for (key in ls(the_worker$jobs)) drop_job(key)
  the_worker$parts <- list()
  the_worker$warm <- the_worker$fixed <- double()
  the_worker$failing <- NULL
}
