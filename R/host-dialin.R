# Hosts that come by themselves: the session listens, and `muster host --connect` dials in there.
#
# The hosts of a launcher share a listener for each start, an environment: keys, by which its hosts
# are known, and, once it is open, pointer, invitation, and own_key: the file of the key, if the
# session made it.

by_dialin <- function(host) identical(host$by, "dialin")

#' Workers on hosts that dial in
#'
#' Describes workers on hosts that connect to your session by themselves, for those that you can't
#' reach from here: tasks of a batch array, machines in a cloud, containers, hosts behind a firewall
#' that lets connections out only. Your session listens at one port; on each host, somebody or a
#' script runs one line, which the session prints and `cluster_invite()` gives:
#'
#' ```
#' muster host --connect login1:4432 --key ~/muster-key
#' ```
#'
#' It may run before the session listens, as it tries again for ten minutes; see [muster_host()].
#' In a script for Slurm, PBS, SGE or LSF it is all that the job has to run.
#'
#' Both ends prove that they have the same key, in TLS 1.3, before either reads anything else of the
#' other; then everything is encrypted. The key is a file of one line that only you may read. On
#' hosts that share your home directory, a path there is enough: `key = "~/muster-key"` makes the
#' file the first time. To others, copy it as you would a private key of ssh.
#'
#' One connection serves all workers of a host. Once a host has joined, its workers are those of any
#' other: they heal there, and when the session or the cluster ends, `muster host` ends, and all
#' that it has started. If the host is lost, its work goes to other workers, and the session waits
#' for another one in its place: run the line again.
#'
#' @param hosts How many hosts may join, from 1 to 10,000. More than that are refused.
#' @param workers How many workers on each host, from 1 to 10,000. `NULL` (default): as many as
#'   [availableCores()] gives there.
#' @param ... Must be empty: the arguments after it must be named.
#' @param port The port to listen at, from 1 to 65535; 0 (default): any that is free.
#' @param address The address or name of this machine that hosts connect to, and where it listens.
#'   `NULL` (default): the machine's own name; it listens at all of its addresses.
#' @param key Path of the file with the key: it is made if there is none. `NULL` (default): a new
#'   key for each start, in the session's temporary directory, removed when the cluster stops.
#' @param timeout For how many seconds [cluster_start()] waits for a host, above 0; default `Inf`.
#' @returns `launch_dialin()`: an object of class `"muster_launcher"`, for [cluster_start()], alone
#'   or in a list with others. `cluster_invite()`: a character vector, the line for each of the
#'   cluster's launchers of this kind.
#' @section Starting:
#' [cluster_start()] returns when all hosts have joined. With `wait = 1` it returns when one worker
#' is there, with `wait = 0` at once; the others join while calls run or wait, as they come. Then
#' `workers` must be a number.
#' @section Errors:
#' `muster_error_input`: an argument has the wrong type; `key` isn't a key file, or others may read
#' it; muster was built without OpenSSL. `muster_error_launch`, raised by [cluster_start()]: the
#' session can't listen there, or a host has another version of muster or R. `muster_error_timeout`:
#' fewer hosts than expected have joined within `timeout`.
#' @section Security:
#' Whoever has the key can run code as you, here and on the hosts. It is never in a command's
#' arguments, in an environment variable, in a message or in R's memory: only its path is. A peer
#' that doesn't prove it within two seconds is cut off, and nothing but TLS reads a byte of what it
#' sends; see docs/SECURITY.md in the sources.
#' @section Cost:
#' One file descriptor for the port, one thread, and one connection for each host. A call over TLS
#' takes some ten microseconds more than over a bare connection.
#' @section Source:
#' The listener and handshake of R's `parallel` (one socket for all workers, and a worker that dials
#' again when it isn't answered), with the key and one connection a host instead of one a worker.
#' @seealso [launch_ssh()], [launch_slurm()], [launch_command()] for hosts that the session reaches.
#' @examples
#' launch_dialin(hosts = 4, workers = 16, port = 4432)
#'
#' \dontrun{
#' cl <- cluster_start(launch_dialin(4, 16, port = 4432, key = "~/muster-key"), wait = 0)
#' cluster_invite(cl)
#' }
#' @export
launch_dialin <- function(hosts = 1L, workers = NULL, ..., port = 0L, address = NULL, key = NULL,
                          timeout = Inf) {
  call <- sys.call()
  check_dots(...,
    hints = paste0(
      "Arguments: hosts, workers, port, address, key, timeout. All but the first two must be named."
    ), call = call
  )
  hosts <- check_count(hosts, "hosts", max = 10000L, call = call)
  if (!is.null(workers)) workers <- check_counts(workers, 1L, call)
  port <- check_count(port, "port", min = 0L, max = 65535L, call = call)
  if (!is.null(address)) {
    where <- check_remote_host(address, call, "address")
    if (!is.na(where$port)) {
      abort_input("address", "without a port, which is `port`", address, call)
    }
    address <- where$host
  }
  timeout <- check_seconds(timeout, "timeout", infinite = TRUE, call = call)
  key <- if (is.null(key)) "" else usable_key(check_string(key, "key", call = call), call)
  host <- list(
    by = "dialin", waits = TRUE, queue_timeout = timeout,
    dialin = list(port = port, address = address, key = key)
  )
  new_launcher(rep(list(list(workers = workers, host = host)), hosts))
}

#' @rdname launch_dialin
#' @param cl A cluster that was started with such a launcher.
#' @export
cluster_invite <- function(cl) {
  call <- sys.call()
  check_cluster(cl, call)
  kept <- the_cluster$plans[[as.character(.subset2(cl[[1L]], "id"))]]
  plans <- Filter(function(plan) by_dialin(plan$host), kept$plans)
  listeners <- unique(lapply(plans, function(plan) plan$host$listener))
  if (!length(listeners)) {
    abort_input("cl", "a cluster that was started with launch_dialin()", cl, call)
  }
  vapply(listeners, function(listener) listener$invitation, "")
}

# ---- Keys

# usable_key() gives the full path of a key file, which it makes if there is none.
usable_key <- function(path, call) {
  path <- path.expand(path)
  said <- .Call(ffi_key_check, path)
  if (is.list(said)) {
    abort_muster("input", paste0("Can't use the key \"", path, "\"."),
      details = capitalised(paste0(said$error, ".")),
      hints = paste(
        "A file that launch_dialin() has made, of mode 0600, or one that isn't there yet, in a",
        "directory where it can be made."
      ),
      argument = "key", path = path, errno = said$errno, call = call
    )
  }
  normalizePath(path)
}

# ---- Listeners

# with_listener() gives the hosts of a launcher for a start: those that dial in share a listener.
with_listener <- function(hosts) {
  listener <- new.env(parent = emptyenv())
  lapply(hosts, function(group) {
    if (by_dialin(group$host)) group$host$listener <- listener
    group
  })
}

# open_listener() has the session listen for a plan's host, and for the others of its launcher.
open_listener <- function(plan) {
  listener <- plan$host$listener
  if (!is.null(listener$pointer)) {
    return()
  }
  how <- plan$host$dialin
  key <- if (nzchar(how$key)) how$key else usable_key(tempfile("muster-key-"), plan$call)
  at <- if (is.null(how$address)) c("::", "0.0.0.0") else how$address
  suspendInterrupts({
    for (address in at) {
      opened <- .Call(
        ffi_gate_open, c(address, key), c(how$port, length(listener$keys), plan_timeout(plan))
      )
      if (is.null(opened$error)) break
    }
    if (is.null(opened$error)) {
      listener$pointer <- opened$pointer
      if (!nzchar(how$key)) listener$own_key <- key
      listener$invitation <- invitation(c(how$address, node_name())[1L], opened$port, key)
      the_host$listeners <- c(the_host$listeners, listener)
    }
  })
  if (!is.null(opened$error)) {
    if (!nzchar(how$key)) unlink(key)
    where <- paste0(if (is.null(how$address)) "" else paste0(how$address, ", "), "port ", how$port)
    abort_muster(launch_kind(opened$errno), paste0("The session can't listen at ", where, "."),
      details = paste0(opened$call, ": ", opened$error),
      hints = c(
        errno_hint(opened$errno),
        "`port = 0` takes any that is free; `address` must be one of this machine's."
      ),
      errno = opened$errno, call = plan$call
    )
  }
  n <- length(listener$keys)
  the_host$told <- waiting_text(n)
  say_later(function() {
    inform_muster("invite", paste0(
        "Waiting for ", number_of(n, "host"), ". Run there:\n  ", listener$invitation
      ), invitation = listener$invitation
    )
  })
}

invitation <- function(address, port, key) {
  if (grepl(":", address, fixed = TRUE)) address <- paste0("[", address, "]")
  paste0("muster host --connect ", address, ":", port, " --key ", quoted_if_needed(key))
}

# drop_listeners() has the session listen no more where no host is expected. used: keys of hosts.
drop_listeners <- function(used) {
  for (listener in the_host$listeners) {
    if (any(listener$keys %in% used)) next
    .Call(ffi_gate_end, listener$pointer)
    unlink(listener$own_key)
    the_host$listeners <- Filter(function(one) !identical(one, listener), the_host$listeners)
  }
}

# ---- Hosts that are awaited

# await_host() is begin_link() for a host that comes by itself.
await_host <- function(plan) {
  key <- plan$host$key
  set_link_aside(key)
  open_listener(plan)
  listener <- plan$host$listener
  suspendInterrupts({
    pointer <- .Call(ffi_remote_await, "", listener$pointer, host_silence, as.integer(key))
    if (!is.list(pointer)) {
      the_host$hosts[[key]] <- list(
        key = key, pointer = pointer, command = listener$invitation, name = launch_name(),
        begun_s = proc.time()[["elapsed"]], awaited = TRUE
      )
    }
  })
  if (is.list(pointer)) {
    abort_muster(launch_kind(pointer$errno), "Can't wait for a host.",
      details = paste0(pointer$call, ": ", pointer$error), hints = errno_hint(pointer$errno),
      errno = pointer$errno, command = listener$invitation, call = plan$call
    )
  }
}

waiting_text <- function(hosts) paste0("Waiting for ", number_of(hosts, "host"), " to dial in.")

# How many hosts are awaited that haven't said what they are.
awaited_hosts <- function() {
  sum(vapply(the_host$hosts, function(link) isTRUE(link$awaited) && is.null(link$facts), NA))
}

# One that came and went doesn't matter while a session starts; one that can't be used does.
may_come_again <- function(error) {
  is.null(error$errno) && is.null(error$reason)
}

abort_nobody <- function(plan, link) {
  n <- awaited_hosts()
  abort_muster("timeout", paste0(
      if (n > 1L) paste(n, "hosts have") else "A host has", " not joined within ",
      plan$host$queue_timeout, " s."
    ),
    hints = c("`timeout` of launch_dialin() allows more.", paste("To run there:", link$command)),
    command = link$command, reason = "pending", call = plan$call
  )
}

# dial_session() connects a host process to the session at "address:port".
dial_session <- function(connect, key, timeout, call) {
  check_string(connect, "connect", call = call)
  where <- check_remote_host(connect, call, "connect")
  if (is.na(where$port)) {
    abort_input("connect", "an address and a port, as in \"node1:4432\"", connect, call)
  }
  check_string(key, "key", call = call)
  timeout <- check_seconds(timeout, "timeout", infinite = TRUE, call = call)
  wait_s <- min(timeout, forever_s)
  opened <- .Call(
    ffi_host_dial, c(where$host, path.expand(key)), c(where$port, wait_s), c(wait_s, host_linger_s)
  )
  if (is.list(opened)) {
    abort_muster("connect", paste0("Can't join the session at ", connect, "."),
      details = capitalised(paste0(opened$error, ".")),
      hints = "The session's cluster_invite() gives the line to run here.",
      errno = opened$errno, call = call
    )
  }
  inform_muster("joined", paste0("Joined the session at ", connect, "."))
}
