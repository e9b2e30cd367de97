# Other hosts: what a launcher says, the link to a host process, and fork servers there.

#' Workers on other hosts, by a command
#'
#' Describes workers on another host (or in a container, a pod, a job) that a command leads to: one
#' that runs [muster_host()] there, and whose standard input and output are those of that process.
#' `ssh`, `srun`, `docker run -i`, `kubectl exec -i` and many others do that. Give the result to
#' [cluster_start()].
#'
#' The command is run by `sh`, once for all workers of the host. What it carries is the link: it
#' needs no port, no key and no listener, and is as trustworthy as the command itself. The command
#' must carry all bytes as they are, which is checked first. What it prints to standard error, and
#' what startup files print before muster's first byte, appears in the error if the start fails.
#'
#' On the host, a fork server forks the workers, as it does here. They heal there: one that is lost
#' is replaced within milliseconds, without the network. When the session ends, however it ends, the
#' link ends, and everything on the host with it.
#'
#' @param command A string, for `sh`: leads to an R on the host that runs `muster::muster_host()`.
#'   muster must be installed there, in the same version, with the same major and minor version of
#'   R.
#' @param workers How many workers, from 1 to 10,000.
#' @param name A string: the host's name, as nodes and [cluster_status()] show it. `NULL` (default):
#'   the name that the host itself has.
#' @returns An object of class `"muster_launcher"`.
#' @section Errors:
#' `muster_error_input`: an argument has the wrong type. [cluster_start()] raises
#' `muster_error_launch` when the command ends before it led to muster, or leads to another version
#' of muster or R, and `muster_error_timeout` when nothing answers within
#' `getOption("muster.start_timeout")` seconds. Both have fields `host`, `command` and `output`: the
#' last lines that the command printed.
#' @section Cost:
#' None. When the cluster starts: one process here and two on the host, besides its workers; six
#' file descriptors of the session for each worker.
#' @section Source:
#' Launching by a command whose output is the connection is what `rsync` and `git` do.
#' @seealso [muster_host()], [cluster_start()].
#' @examples
#' # Over ssh this would be "ssh node1 Rscript -e 'muster::muster_host()'".
#' rscript <- file.path(R.home("bin"), "Rscript")
#' here <- launch_command(paste(rscript, "-e 'muster::muster_host()'"), workers = 2)
#' here
#' cl <- cluster_start(here)
#' cluster_map(cl, 1:4, function(i) i^2)
#' cluster_stop(cl)
#' @export
launch_command <- function(command, workers = 1L, name = NULL) {
  call <- sys.call()
  check_string(command, "command", call = call)
  workers <- check_count(workers, "workers", max = 10000L, call = call)
  if (!is.null(name)) check_string(name, "name", call = call)
  structure(list(command = command, workers = workers, name = name), class = "muster_launcher")
}

#' @export
print.muster_launcher <- function(x, ...) {
  cat("Launcher: ", x$workers, if (x$workers == 1L) " worker" else " workers", " by\n  ",
    x$command, "\n",
    sep = ""
  )
  invisible(x)
}

# Each cluster has a link of its own.
keyed_host <- function(launcher) {
  the$host_keys <- the$host_keys + 1L
  c(unclass(launcher), key = as.character(the$host_keys))
}

# ---- The link to a host

# The link counts as broken after so many seconds without a byte; relays exchange signs of life six
# times as often.
host_silence <- 60

# host_link() gives list(key, pointer, facts) of the plan's host: the one that there is, or another.
host_link <- function(plan) {
  key <- plan$host$key
  known <- the$hosts[[key]]
  if (!is.null(known) && is_up(known)) {
    return(known)
  }
  if (!is.null(known)) .Call(ffi_remote_end, known$pointer)
  the$hosts[[key]] <- NULL
  link <- start_link(plan)
  the$hosts[[key]] <- link
  link
}

is_up <- function(link) identical(.Call(ffi_remote_state, link$pointer)$state, "up")

start_link <- function(plan) {
  host <- plan$host
  timeout <- plan_timeout(plan)
  pointer <- .Call(
    ffi_remote_start, if (is.null(host$name)) "" else host$name,
    list("/bin/sh", c("sh", "-c", host$command)), character(), c(timeout, host_silence)
  )
  if (is.list(pointer)) {
    abort_muster(launch_kind(pointer$errno), "Can't run the command that leads to a host.",
      details = paste0(pointer$call, ": ", pointer$error), hints = errno_hint(pointer$errno),
      errno = pointer$errno, command = host$command, call = plan$call
    )
  }
  up <- FALSE
  on.exit(if (!up) .Call(ffi_remote_end, pointer))
  if (!.Call(ffi_remote_wait, pointer, timeout)) {
    abort_link(.Call(ffi_remote_state, pointer), plan)
  }
  facts <- .Call(ffi_remote_state, pointer)$facts
  check_facts(facts, plan)
  .Call(
    ffi_remote_is, pointer, facts$build, if (is.null(host$name)) facts$node else host$name,
    identical(facts$processes, process_space())
  )
  up <- TRUE
  list(key = host$key, pointer = pointer, facts = facts)
}

host_shown <- function(plan) {
  if (is.null(plan$host$name)) "the host" else paste0("host \"", plan$host$name, "\"")
}

abort_link <- function(state, plan) {
  timed_out <- state$state == "starting" || state$why == "timeout"
  ended <- state$how != exits[["none"]]
  abort_muster(if (timed_out) "timeout" else "launch",
    if (timed_out) {
      paste0("No answer came from ", host_shown(plan), " within ", plan_timeout(plan), " s.")
    } else {
      paste0("The command didn't lead to muster on ", host_shown(plan), ".")
    },
    details = c(
      if (state$why != "closed" && nzchar(state$error)) paste0("The reason: ", state$error, "."),
      if (ended) paste0("It ended: ", end_text(state), "."),
      output_lines(paste0(state$output, state$skipped))
    ),
    hints = c(
      paste("The command:", plan$host$command),
      "It must run muster::muster_host() there; try it by hand: it prints <muster host 1>."
    ),
    host = plan$host$name, command = plan$host$command, pid = state$pid,
    exit_code = exit_field(state, "code"), signal = exit_field(state, "signal"),
    output = paste0(state$output, state$skipped), call = plan$call
  )
}

# What both ends must have in common: the protocol between session and workers, and R's objects.
check_facts <- function(facts, plan) {
  ours <- host_facts()
  same <- c(
    "muster" = identical(facts$version, ours$version),
    "R" = identical(facts$r, ours$r),
    "byte order" = identical(facts$endian, ours$endian)
  )
  if (!all(same)) {
    fields <- c("muster" = "version", "R" = "r", "byte order" = "endian")[names(same)[!same]]
    abort_muster("launch", paste0("Can't use ", host_shown(plan), ": it has another version."),
      details = paste0(
        names(fields), ": ", unlist(facts[fields]), " there, ", unlist(ours[fields]), " here"
      ),
      hints = "Install the same version there.",
      host = plan$host$name, command = plan$host$command, call = plan$call
    )
  }
}

# ---- Fork servers there

# again: a link may end while a server is asked for.
host_server <- function(plan, again = TRUE) {
  link <- host_link(plan)
  late <- is_late(plan$packages)
  packages <- plan$packages[!late]
  load <- setdiff(c(plan$packages[late], plan$load), not_preloaded)
  key <- paste(c(link$key, packages, "-", load, deparse(plan$boot)), collapse = "\n")
  drop_gone_servers()
  for (server in the$servers) {
    if (identical(server$key, key) && server_ready(server$pointer)) {
      return(server)
    }
  }
  server <- tryCatch(boot_host_server(plan, link, packages, load, key), error = identity)
  if (inherits(server, "error")) {
    if (again && !is_up(link)) {
      return(host_server(plan, again = FALSE))
    }
    stop(server) # tidy: raised above
  }
  if (is.null(server$refused)) {
    the$servers <- c(the$servers, list(server))
  }
  server
}

boot_host_server <- function(plan, link, packages, load, key) {
  order <- list(name = basename(tempfile("server-")), boot = plan$boot)
  base <- file.path(link$facts$root, order$name)
  setup <- list(
    libraries = "*", packages = packages, load = load, tmpdir = link$facts$tmpdir, base = base,
    early = plan$workers <= early_workers_max
  )
  pointer <- .Call(ffi_remote_server, link$pointer, order, setup)
  if (!is.list(pointer)) {
    wait_for_server(pointer, "", plan$call, function() {
      list(key = key, pointer = pointer, base = "", env = character(), host = link)
    })
  } else {
    abort_muster(launch_kind(pointer$errno), "Can't ask the host for a fork server.",
      details = paste0(pointer$call, ": ", pointer$error), hints = errno_hint(pointer$errno),
      errno = pointer$errno, host = plan$host$name, call = plan$call
    )
  }
}

# As worker_orders(), where paths, libraries and variables are the host's own.
host_orders <- function(plan, packages, server) {
  list(
    directory = getwd(), # if the host has it
    umask = NA,
    libraries = "*",
    variables = chosen_variables(list(set = character(), unset = character()), plan),
    packages = packages,
    dev = list(),
    threads = plan$threads,
    thread_variables = if (plan$threads != 1L) thread_variables(plan$threads),
    tmpdir = server$host$facts$tmpdir,
    base = NULL, # its fork server's
    setup = plan$setup,
    setup_name = plan$setup_name,
    outfile = plan$outfile,
    share_min = share_min(),
    track = plan$policy[1L] > 0
  )
}

# Links are ended with the last cluster that has workers there: then the host process ends, and the
# job or container with it.
drop_hosts <- function() {
  plans_drop()
  used <- unlist(lapply(the$plans, function(one) one$plan$host$key))
  for (key in setdiff(names(the$hosts), used)) {
    link <- the$hosts[[key]]
    there <- vapply(the$servers, function(server) identical(server$host$key, key), NA)
    left <- vapply(the$servers[there], function(server) !end_server(server$pointer, ""), NA)
    if (!any(left)) {
      the$servers <- the$servers[!there]
      the$hosts[[key]] <- NULL
      .Call(ffi_remote_end, link$pointer)
    }
  }
}
