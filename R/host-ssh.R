# Hosts by ssh: the command that leads there.

#' Workers on other hosts, by ssh
#'
#' Describes workers on hosts that you can log in to with ssh. Give the result to [cluster_start()],
#' alone or beside others; `cluster_start(c("node1", "node2"))` is short for
#' `cluster_start(launch_ssh(c("node1", "node2")))`.
#'
#' Each host gets one ssh, whatever its number of workers; all hosts are reached at once. ssh must
#' get in without asking for anything: by a key, an agent or a ticket. Users, ports, jump hosts and
#' shared connections are those of your `~/.ssh/config`. Everything travels through ssh: no port is
#' opened on either side, and no other program has to run there but R, with muster installed in the
#' same version. The login shell may be any, and may print.
#'
#' A host is lost when ssh ends, or when nothing is heard from it for a minute. Work that its
#' workers had goes to others, and ssh is tried again, see Healing in [cluster_start()].
#'
#' @param hosts Character vector, without duplicates: names or addresses of hosts, or names from
#'   `~/.ssh/config`, each perhaps with a user before and a port behind it: `"ann@node1:2200"`.
#' @param workers How many workers on each host: one whole number, or one for each host. `NULL`
#'   (default): as many as [availableCores()] gives there.
#' @param ... Must be empty: the arguments after it must be named.
#' @param prologue Shell commands to run there before R starts, as in `"module load R/4.5"`: a
#'   character vector, one line each. They run in a login shell (`bash -l`, or `sh -l` where there
#'   is no bash), so that what `/etc/profile` defines is there. R is started whatever their exit
#'   status; where that fails, the error has the status and what they printed. `NULL` (default):
#'   none, and no such shell.
#' @param rscript The Rscript to run there: a string, by default `"Rscript"`, which is looked for on
#'   the `PATH` of a login without a terminal.
#' @param ssh The ssh to run here: a string, by default `"ssh"`.
#' @param options More options of ssh: a character vector of text for a shell, as in
#'   `c("-i ~/.ssh/cluster", "-J gate")`.
#' @param install If `TRUE`, a host that has no muster, or another version, gets this session's: its
#'   sources are sent there and compiled, which takes about a minute and needs a C compiler, into a
#'   library of their own in your cache there (`tools::R_user_dir("muster", "cache")`). Once for
#'   each version of muster and R; hosts that share the home directory share it. Default `FALSE`.
#' @returns An object of class `"muster_launcher"`.
#' @section Errors:
#' `muster_error_input`: an argument has the wrong type. [cluster_start()] raises
#' `muster_error_launch` when a host can't be used, and `muster_error_timeout` when one doesn't
#' answer within `getOption("muster.start_timeout")` seconds (default 120). Both have fields `host`,
#' `command`, `output` (the last lines that ssh printed) and `reason`: `"name"` (there is no such
#' host), `"network"` (it can't be reached), `"key"` (its host key isn't known, or has changed),
#' `"login"` (it refuses you), `"prologue"` (it ended the shell, or its exit status isn't 0 and no
#' Rscript can be run after it), `"R"` (no Rscript can be run there), `"muster"` (it isn't installed
#' there), `"version"` (another one is), `"install"` (it can't be installed), or `"other"`. Nothing
#' is left on any host.
#' @section Cost:
#' None. When the cluster starts: a login, and the time in which R loads muster there; see
#' [launch_command()].
#' @section Source:
#' The hosts of `makeClusterPSOCK()` in package parallelly, which starts an ssh for each worker, to
#' which workers connect back.
#' @seealso [launch_command()] for other ways to a host, [makeClusterPSOCK()] for R's own workers.
#' @examples
#' launch_ssh(c("node1", "ann@node2:2200"), workers = c(16, 4), prologue = "module load R")
#' \dontrun{
#' cl <- cluster_start(list(launch_local(4), launch_ssh("node1", workers = 16)))
#' }
#' @export
launch_ssh <- function(hosts, workers = NULL, ..., prologue = NULL, rscript = "Rscript",
                       ssh = "ssh", options = character(), install = FALSE) {
  call <- sys.call()
  check_dots(...,
    hints = paste0(
      "Arguments: hosts, workers, prologue, rscript, ssh, options, install. ",
      "All but the first two must be named."
    ), call = call
  )
  check_given(hosts, "hosts", call)
  if (!is.character(hosts) || !length(hosts)) {
    abort_input("hosts", "a character vector of hosts", hosts, call)
  }
  check_unique_hosts(hosts, "hosts", call)
  where <- lapply(hosts, check_remote_host, call = call, name = "hosts")
  if (!is.null(workers)) workers <- check_counts(workers, length(hosts), call)
  prologue <- check_texts(prologue, "prologue", call)
  check_string(rscript, "rscript", call)
  check_string(ssh, "ssh", call)
  options <- check_texts(options, "options", call)
  check_install(install, call)
  there <- command_there(prologue, rscript, host_code(install))
  installs <- if (install) command_there(prologue, rscript, install_code())
  new_launcher(lapply(seq_along(hosts), function(i) {
    run <- function(there) {
      paste(c(
        "exec", quoted_if_needed(ssh), options, "-T -o BatchMode=yes",
        if (!is.na(where[[i]]$port)) paste("-p", where[[i]]$port),
        quoted_if_needed(where[[i]]$host), shQuote(there)
      ), collapse = " ")
    }
    host <- list(command = run(there), name = hosts[i], by = "ssh")
    if (install) host$install <- run(installs)
    list(workers = workers[i], host = host)
  }))
}

check_unique_hosts <- function(hosts, name, call) {
  if (anyDuplicated(hosts)) {
    abort_input(name, "hosts without duplicates", hosts, call,
      hints = "For more workers on a host see `workers` of launch_ssh() and launch_command()."
    )
  }
}

# One whole number, or one for each of n hosts; gives n.
check_counts <- function(workers, n, call) {
  good <- is.numeric(workers) && length(workers) %in% c(1L, n) && !anyNA(workers) &&
    all(workers >= 1 & workers <= 10000 & workers == trunc(workers))
  if (!good) {
    abort_input("workers",
      "NULL, a whole number from 1 to 10,000, or one for each host", workers, call
    )
  }
  rep_len(as.integer(workers), n)
}

# cluster_start(c("localhost", "node1")): this machine needs no ssh.
named_groups <- function(hosts, call) {
  numbers <- grepl("^[0-9]*$", hosts)
  if (!length(hosts) || anyNA(hosts) || any(numbers)) {
    abort_input("workers", "a number, names of hosts, or launchers", hosts, call)
  }
  check_unique_hosts(hosts, "workers", call)
  unlist(lapply(hosts, function(host) {
    if (host == "localhost") {
      return(launch_local()$hosts)
    }
    check_remote_host(host, call, "workers")
    launch_ssh(host)$hosts
  }), recursive = FALSE)
}

# ---- The command there

# command_there() gives what a login shell of any kind (sh, csh, fish) has to run: within single
# quotes all of them leave everything but "!", quotes, backslashes and newlines alone.
command_there <- function(prologue, rscript, code) {
  # Not with shQuote(), whose double quotes csh reads in another way.
  rscript <- paste0("'", gsub("'", "'\\''", rscript, fixed = TRUE), "'")
  run <- paste0(rscript, " -e '", code, "'")
  paste("exec", if (length(prologue)) after_prologue(prologue, run) else run)
}

# after_prologue() gives the command that runs these lines in a login shell, and then `run`,
# whatever their status, which is printed for prologue_status() if it isn't 0: by a trap where the
# prologue itself ends the shell. The prologue mustn't read from the link, nor write to it.
after_prologue <- function(prologue, run) {
  script <- paste(c(
    paste("muster_end() { set -- $? $1; [ $1 = 0 ] || echo", prologue_mark, "$* >&2; }"),
    "trap \"muster_end ended\" EXIT", "{", prologue, "} </dev/null >&2", "muster_end",
    "trap - EXIT", paste("exec", run)
  ), collapse = "\n")
  # One line, since Slurm's clients and ps show a newline as a number: printf %b makes newlines of
  # "\n", and a backslash of two. Outside of quotes, a backslash means the same to all shells.
  marks <- c("\n" = "\\n", "\\" = "'\\\\\\\\'", "'" = "'\\''", "!" = "'\\!'")
  script <- enc2utf8(script)
  at <- gregexpr("[\n\\\\'!]", script)
  regmatches(script, at) <- lapply(regmatches(script, at), function(found) unname(marks[found]))
  paste0(
    "sh -c 'p=$(printf %b \"$1\"); ",
    "command -v bash >/dev/null && exec bash -lc \"$p\"; exec sh -lc \"$p\"' sh '", script, "'"
  )
}
