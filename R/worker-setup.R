# Turns a process into the worker that the session asked for.

# worker_setup() carries out the orders of worker_orders(). Errors say what failed.
worker_setup <- function(orders) {
  set_variables(orders$variables, orders$tmpdir)
  set_directory(orders$directory)
  Sys.umask(orders$umask)
  libraries <- expand_libraries(orders$libraries)
  if (!identical(libraries, .libPaths())) {
    .libPaths(libraries)
  }
  set_threads(orders$threads, orders$thread_variables)
  renew_worker()
  .Call(ffi_share_min, orders$share_min)
  expect_dev(orders$dev)
  note_own_context(orders)
  attach_packages(orders$packages)
  clear_globals()
  if (!is.null(orders$stream)) .Call(ffi_stream_begin, orders$stream)
  run_setup(orders$setup, orders$setup_name)
  sink_output(orders$outfile)
}

# "*" stands for the libraries that this R had at its start.
expand_libraries <- function(libraries) {
  own <- libraries == "*"
  if (!any(own)) {
    return(libraries)
  }
  unlist(lapply(libraries, function(one) if (one == "*") the_worker$boot_libraries else one))
}

set_variables <- function(variables, tmpdir) {
  if (length(variables$set)) {
    do.call(Sys.setenv, as.list(variables$set))
  }
  Sys.unsetenv(variables$unset)
  if (is.na(tmpdir)) Sys.unsetenv("TMPDIR") else Sys.setenv(TMPDIR = tmpdir)
}

set_directory <- function(directory) {
  # It may have been removed since; workers then stay in their directory, as R does.
  if (length(directory) && dir.exists(directory)) {
    setwd(directory)
  }
}

# Sets the threads of loaded libraries; those loaded later read the variables.
set_threads <- function(threads, variables) {
  if (length(variables)) {
    parts <- strsplit(variables, "=", fixed = TRUE)
    do.call(Sys.setenv, structure(lapply(parts, `[[`, 2L), names = vapply(parts, `[[`, "", 1L)))
  }
  if (threads > 1L) {
    .Call(ffi_threads_set, threads)
  }
}

attach_packages <- function(packages) {
  for (package in packages) {
    if (package %in% names(the_worker$dev)) {
      attach_dev(package)
    } else {
      tryCatch(
        suppressPackageStartupMessages(library(package, character.only = TRUE)), # tidy: asked
        error = function(e) {
          stop_setup(paste0("Can't load package \"", package, "\": ", message_of(e)))
        }
      )
    }
  }
}

# A worker begins with an empty workspace and without its server's random stream, even if a startup
# file made variables.
clear_globals <- function() {
  seed <- ".Random.seed"
  if (exists(seed, envir = globalenv(), inherits = FALSE)) {
    rm(list = seed, envir = globalenv())
  }
}

# A tempdir() of its own, inside the directory that the session removes. The one that R remembers is
# gone; TMPDIR says where tempdir() makes another.
own_tempdir <- function(base, tmpdir) {
  Sys.setenv(TMPDIR = base)
  tempdir(check = TRUE)
  if (is.na(tmpdir)) Sys.unsetenv("TMPDIR") else Sys.setenv(TMPDIR = tmpdir)
}

run_setup <- function(setup, name = NULL) {
  tryCatch(
    if (is.function(setup)) {
      setup()
    } else {
      # A vector of expressions (expression(a, b)) is evaluated in order.
      for (part in if (is.expression(setup)) as.list(setup) else list(setup)) {
        eval(part, globalenv())
      }
    },
    error = function(e) {
      stop_setup(paste0("`", if (is.null(name)) "setup" else name, "` failed: ", message_of(e)))
    }
  )
  invisible()
}

# From here on, R's output goes to a file, or nowhere, as in workers of makeCluster(). Other
# programs' output still goes to the session.
sink_output <- function(outfile) {
  the_worker$own_sink <- 2L # standard error
  if (is.null(outfile)) {
    return(invisible())
  }
  to <- tryCatch(
    if (outfile == "/dev/null") file(outfile, open = "w") else file(outfile, open = "a"),
    error = function(e) stop_setup(paste0("Can't write to `outfile`: ", message_of(e)))
  )
  sink(to)
  sink(to, type = "message")
  the_worker$own_sink <- as.integer(to)
  if (outfile != "/dev/null") {
    cat(sprintf(
      "starting worker pid=%d on localhost at %s\n", Sys.getpid(), format(Sys.time(), "%H:%M:%OS3")
    ))
  }
  invisible(to)
}

stop_setup <- function(message) abort_muster("launch", message, call = NULL)
