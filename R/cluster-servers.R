# Fork servers of this session: when one is reused, and when a new one is booted.
#
# A server is identified by its key: everything that it read or loaded when it booted. As long as
# the key is the same, a new server would be the same. Settings that may change without a new boot
# (working directory, other variables) are sent with each fork.

# At most this many are kept; the least recently used without workers is ended.
servers_max <- 4L

# Packages that don't survive a fork, or would give every worker the same state:
# a Java virtual machine, Tcl's notifier, Python, CUDA, own random generators.
not_preloaded <- c(
  "rJava", "tcltk", "reticulate", "torch", "tensorflow", "keras", "sparklyr", "dqrng"
)

# fork_server() gives list(pointer, base, env) of a server that has `packages` attached and
# `load` loaded and is ready, or list(refused = reason). Raises muster_error_launch.
# boot: how R is started, see boot_command(). workers: of the cluster that a new one is booted for.
fork_server <- function(packages, load, call, boot = NULL, workers = Inf) {
  drop_gone_servers()
  key <- server_key(packages, load, boot)
  for (i in seq_along(the_cluster$servers)) {
    server <- the_cluster$servers[[i]]
    if (identical(server$key, key) && server_ready(server$pointer)) {
      temp_dir(basename(server$base), call) # still there, and not full
      the_cluster$servers <- c(the_cluster$servers[-i], list(server))
      return(server)
    }
  }
  drop_unused_servers(keep = servers_max - 1L)
  server <- boot_server(packages, load, key, call, boot, workers)
  if (is.null(server$refused)) {
    the_cluster$servers <- c(the_cluster$servers, list(server))
  }
  server
}

# In a forked child the parent's servers are not ours.
own_servers <- function() {
  if (the_cluster$servers_pid != Sys.getpid()) {
    the_cluster$servers <- list()
    the_cluster$servers_pid <- Sys.getpid()
  }
}

server_ready <- function(pointer) identical(.Call(ffi_server_state, pointer)$state, "ready")

# A killed server leaves a zombie, which is reaped at once, and its directory, which is removed
# with the last cluster whose workers have their directories in it.
drop_gone_servers <- function() {
  own_servers()
  ready <- vapply(the_cluster$servers, function(server) server_ready(server$pointer), NA)
  left <- vapply(the_cluster$servers[!ready], function(server) {
    !end_server(server$pointer, server$base)
  }, NA)
  the_cluster$servers <- c(the_cluster$servers[!ready][left], the_cluster$servers[ready])
}

# Ends servers without workers while more than `keep` are ready.
drop_unused_servers <- function(keep) {
  for (server in the_cluster$servers) {
    ready <- vapply(the_cluster$servers, function(one) server_ready(one$pointer), NA)
    if (sum(ready) <= keep) {
      break
    }
    if (server_ready(server$pointer) && end_server(server$pointer, server$base)) {
      others <- function(one) !identical(one$pointer, server$pointer)
      the_cluster$servers <- Filter(others, the_cluster$servers)
    }
  }
}

# FALSE while it is needed: it has workers, or its directory has those of workers. A server that
# was killed couldn't remove the directory itself. base: "" for a server on another host, which
# removes its own.
end_server <- function(pointer, base) {
  ended <- .Call(ffi_server_end, pointer) && !(nzchar(base) && is_base_used(base))
  if (ended && nzchar(base)) {
    unlink(base, recursive = TRUE)
  }
  ended
}

# When a cluster gets another server, its workers' directories stay where they were.
is_base_used <- function(base) {
  plans_drop()
  base %in% unlist(lapply(the_cluster$plans, `[[`, "bases"))
}

server_key <- function(packages, load, boot = NULL) {
  variables <- .Call(ffi_environment)
  variables <- variables[
    is_read_at_boot(names(variables)) & names(variables) != "R_SESSION_TMPDIR"
  ]
  files <- c(r_program(), startup_files(), package_stamp(c("muster", packages, load)))
  paste(c(
    .libPaths(), packages, "-", load, temp_root(), paste(names(variables), variables),
    paste(files, as.numeric(file.mtime(files))), deparse(boot)
  ), collapse = "\n")
}

is_read_at_boot <- function(names) {
  grepl(
    paste0(
      "^(LD_|DYLD_|OMP_|OPENBLAS_|GOTO_|MKL_|BLIS_|KMP_|LC_|R_)|",
      "^(LANG|LANGUAGE|HOME|PATH|TZ|MC_CORES)$"
    ),
    names,
    useBytes = TRUE
  )
}

# The files that R reads when it starts, as ?Startup says.
startup_files <- function() {
  c(
    Sys.getenv("R_PROFILE", file.path(R.home("etc"), "Rprofile.site")),
    Sys.getenv("R_ENVIRON", file.path(R.home("etc"), "Renviron.site")),
    user_file("R_PROFILE_USER", ".Rprofile"), user_file("R_ENVIRON_USER", ".Renviron")
  )
}

# The variable's file, else that of the working directory, else that of the home.
user_file <- function(variable, name) {
  files <- c(normalizePath(name, mustWork = FALSE), file.path("~", name))
  Sys.getenv(variable, c(files[file.exists(files)], "")[1L])
}

# The file of each package whose time tells a reinstallation.
package_stamp <- function(packages) {
  file.path(vapply(packages, package_path, "", USE.NAMES = FALSE), "Meta", "package.rds")
}

# So few workers are forked before the server has warmed up, see warm_up(): that takes 100 ms, and
# saves each worker 14.
early_workers_max <- 4L

boot_server <- function(packages, load, key, call, boot = NULL, workers = Inf) {
  base <- temp_dir(basename(tempfile("server-")), call)
  home <- temp_dir(server_home(basename(base)), call)
  setup <- list(
    libraries = if (is.null(boot$libraries)) .libPaths() else boot$libraries,
    packages = packages, load = load,
    tmpdir = Sys.getenv("TMPDIR", NA), base = base, early = workers <= early_workers_max
  )
  variables <- session_variables()
  command <- boot_command("server", boot, 1L, home)
  pointer <- .Call(ffi_server_start, command[[1L]], command[[2L]], command[[3L]], setup)
  if (is.list(pointer)) {
    abort_muster(launch_kind(pointer$errno), "Can't start the fork server.",
      details = paste0(pointer$call, ": ", pointer$error), hints = errno_hint(pointer$errno),
      errno = pointer$errno, call = call
    )
  }
  define_classes() # while it boots
  wait_for_server(pointer, base, call, function() {
    list(key = key, pointer = pointer, base = base, env = variables)
  })
}

# made(): the entry for a server that is ready.
wait_for_server <- function(pointer, base, call, made, wait_s = start_timeout()) {
  # An interrupt must not leave an unregistered server behind.
  waited <- FALSE
  on.exit(if (!waited) end_server(pointer, base))
  if (.Call(ffi_server_wait, pointer, wait_s)) {
    waited <- TRUE
    return(made())
  }
  state <- .Call(ffi_server_state, pointer)
  if (state$state == "refused") {
    return(list(refused = state$text))
  }
  abort_boot(state, call)
}

abort_boot <- function(state, call) {
  if (state$state == "booting") {
    abort_muster("timeout",
      paste0("The fork server isn't ready after ", start_timeout(), " s."),
      details = output_lines(state$output),
      hints = c(
        "A startup file (.Rprofile) or a package may wait for something.",
        "See options(muster.start_timeout = ) in ?muster."
      ),
      pid = state$pid, output = state$output, call = call
    )
  }
  abort_muster("launch", "The fork server ended before it was ready.",
    details = c(
      if (nzchar(state$text)) state$text,
      paste0("It ended: ", end_text(state), "."), output_lines(state$output)
    ),
    hints = "Try it by hand: R --no-echo -e 'library(muster)'",
    pid = state$pid, exit_code = exit_field(state, "code"), signal = exit_field(state, "signal"),
    output = state$output, call = call
  )
}
