# Launchers: where the workers of a cluster are to be, and how to get there.

# What this process knows of other hosts.
the_host <- new.env(parent = emptyenv())
the_host$listeners <- list() # where hosts dial in, see open_listener()
the_host$hosts <- list() # links: list(key, pointer, command, facts), by key
the_host$host_keys <- 0L # how many keys were given
the_host$launches <- 0L # how many commands of launchers were run
the_host$reached <- character() # keys of hosts that a start is about to use
the_host$ends <- list() # how hosts ended, see note_host_end()
the_host$left <- list() # links that workers leave, by name
the_host$begun <- list() # fork servers that boot there, see begin_host_server(), by key
the_host$words <- list() # functions that say what became of sites, see say_words()
the_host$told <- "" # what was said last of jobs that are pending
the_host$temp_root <- NULL # of a host process

# hosts: list(workers, host) of each; host: NULL for this machine, else list(command, name, by),
# with queued and queue_timeout where the command waits for a job; workers: NULL for as many as the
# host has cores.
new_launcher <- function(hosts) structure(list(hosts = hosts), class = "muster_launcher")

by_ssh <- function(host) identical(host$by, "ssh")
by_slurm <- function(host) identical(host$by, "slurm")

#' Workers on this machine, beside others
#'
#' `launch_local(8)` describes workers on this machine, for a cluster that has workers elsewhere,
#' too: `cluster_start(list(launch_local(8), launch_ssh("node1")))`.
#'
#' @param workers Number of workers, 1 to 10,000. Default: [availableCores()].
#' @returns An object of class `"muster_launcher"`, for [cluster_start()].
#' @section Errors:
#' `muster_error_input`: `workers` isn't such a number.
#' @section Cost:
#' None. When the cluster starts: see [cluster_start()].
#' @section Source:
#' Muster's own.
#' @seealso [launch_ssh()], [launch_slurm()], [launch_command()], [launch_dialin()].
#' @examples
#' launch_local(2)
#' @export
launch_local <- function(workers = availableCores()) {
  new_launcher(list(list(workers = check_workers(workers, missing(workers), sys.call()))))
}

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
#'   R. In it, `{workers}` stands for the number of workers, `{host}` for the host's name from
#'   `name`, and `{name}` for a new name each time the command is run, of lower case letters, digits
#'   and hyphens: for what is made by the command, as a pod.
#' @param workers How many workers, from 1 to 10,000: a number, or one for each of `name`. `NULL`:
#'   as many as [availableCores()] gives there.
#' @param name Names of hosts, as nodes and [cluster_status()] show them: a character vector without
#'   duplicates. The command is run for each. `NULL` (default): one host, with the name that it has
#'   itself.
#' @param queue_timeout Where the command may wait in a queue: for how many seconds, above 0. By
#'   default without limit, and what the command prints says whether it waits: `srun`, `salloc`,
#'   `bsub -I` and `qsub -I` do so. If you give a number, silence counts as waiting, too, as that of
#'   `qrsh`.
#' @returns An object of class `"muster_launcher"`.
#' @section Errors:
#' `muster_error_input`: an argument has the wrong type. [cluster_start()] raises
#' `muster_error_launch` when the command ends before it led to muster, or leads to another version
#' of muster or R, and `muster_error_timeout` when nothing answers within
#' `getOption("muster.start_timeout")` seconds, which don't include the time in a queue, or when it
#' waits there for longer than `queue_timeout`. Then the command is ended, which takes a job of this
#' machine's `srun` back; a job that was asked for through `ssh` stays in its queue, and ends when
#' it starts: the error has its number. Both have fields `host`, `command` and `output`: the
#' last lines that the command printed. If several hosts can't be used, one error names them all:
#' `host` and `command` have one for each, and `errors` is a list of their errors.
#' @section Recipes:
#' Where a client passes its words on as they are, `Rscript -e 'muster::muster_host()'` may stand
#' for `muster host`, and needs no program `muster` on the `PATH` there. Those that hand them to a
#' shell (`ssh`, `qrsh`, `bsub`) would need a second pair of quotes.
#'
#' * A container: `docker run -i --rm IMAGE muster host`; one that runs:
#'   `docker exec -i {host} muster host`, with `name`. The same with `podman`. `-i` passes the link
#'   on; `-t` must not be there.
#' * `apptainer exec IMAGE.sif muster host`
#' * Kubernetes: `kubectl run {name} -i --rm --quiet --restart=Never --image=IMAGE -- muster host`;
#'   a pod that runs: `kubectl exec -i {host} -- muster host`, with `name`.
#' * Slurm: see [launch_slurm()]. `srun -u -n1 -c{workers} muster host` works, too; without `-u`,
#'   srun keeps back what isn't a line.
#' * SGE: `qrsh -now no -pe smp {workers} muster host`
#' * LSF: `bsub -I -n {workers} -R "span[hosts=1]" muster host`
#' * An environment of conda: `conda run --no-capture-output -n ENV muster host`
#' @section Cost:
#' None. When the cluster starts: one process here and two on the host, besides its workers; five
#' file descriptors and a thread of the session for the host, none for its workers.
#' @section Source:
#' Launching by a command whose output is the connection is what `rsync` and `git` do.
#' @seealso [launch_ssh()], [launch_slurm()], [muster_host()], [cluster_start()].
#' @examples
#' # Over ssh this would be "ssh node1 Rscript -e 'muster::muster_host()'".
#' rscript <- file.path(R.home("bin"), "Rscript")
#' here <- launch_command(paste(rscript, "-e 'muster::muster_host()'"), workers = 2)
#' here
#' cl <- cluster_start(here)
#' cluster_map(cl, 1:4, function(i) i^2)
#' cluster_stop(cl)
#' @export
launch_command <- function(command, workers = 1L, name = NULL, queue_timeout = NULL) {
  call <- sys.call()
  check_string(command, "command", call = call)
  if (!is.null(name)) {
    check_strings(name, "name", call)
    check_unique_hosts(name, "name", call)
    if (!length(name)) abort_input("name", "NULL or names of hosts", name, call)
  }
  if (!is.null(queue_timeout)) {
    queue_timeout <- check_seconds(queue_timeout, "queue_timeout", infinite = TRUE, call = call)
  }
  count <- max(1L, length(name))
  if (!is.null(workers)) workers <- check_counts(workers, count, call)
  needs <- c("{workers}" = is.null(workers), "{host}" = is.null(name))
  for (mark in names(needs)[needs]) {
    if (has_mark(command, mark)) {
      abort_muster("input", paste0("`command` has ", mark, ", and `",
        if (mark == "{host}") "name" else "workers", "` is NULL."
      ), argument = "command", call = call)
    }
  }
  new_launcher(lapply(seq_len(count), function(i) {
    list(workers = workers[i], host = list(
      command = command, name = name[i], queue_timeout = queue_timeout,
      waits = !is.null(queue_timeout) || grepl(queue_programs, command)
    ))
  }))
}

# Commands that may wait in a queue.
queue_programs <- "\\b(srun|salloc|bsub|qsub|qrsh|qlogin|oarsub)\\b"

# "${host}" is the shell's.
mark_pattern <- function(mark) paste0("(?<![$])\\Q", mark, "\\E")
has_mark <- function(command, mark) grepl(mark_pattern(mark), command, perl = TRUE)

# A new name each time.
launch_name <- function() {
  the_host$launches <- the_host$launches + 1L
  here <- gsub("[^a-z0-9]+", "-", tolower(substr(Sys.info()[["nodename"]], 1L, 24L)))
  paste("muster", here, Sys.getpid(), the_host$launches, sep = "-")
}

# The command as it is run: with the job's name, or with its marks filled in.
filled_command <- function(plan, name = launch_name()) {
  command <- plan$host$command
  if (by_ssh(plan$host)) {
    return(command)
  }
  if (by_slurm(plan$host)) {
    # The last -J counts.
    return(paste(c(command[1L], if (is_queued(plan)) c("-J", name), command[2L]), collapse = " "))
  }
  values <- list("{workers}" = plan$workers, "{host}" = plan$host$name, "{name}" = name)
  values <- vapply(values[lengths(values) > 0L], function(value) {
    quoted_if_needed(as.character(value))
  }, "")
  marks <- gregexpr(paste(mark_pattern(names(values)), collapse = "|"), command, perl = TRUE)
  regmatches(command, marks) <- lapply(regmatches(command, marks), function(at) unname(values[at]))
  command
}

#' @export
print.muster_launcher <- function(x, ...) {
  jobs <- Filter(is_queued, x$hosts)
  awaited <- Filter(function(one) by_dialin(one$host), x$hosts)
  if (max(length(jobs), length(awaited)) > 1L) x$hosts <- x$hosts[1L] # all are alike
  for (one in x$hosts) {
    n <- one$workers
    workers <- if (is.null(n)) "a worker for each core" else number_of(n, "worker")
    where <- if (is.null(one$host)) {
      "on this machine"
    } else if (by_ssh(one$host)) {
      paste0("on ", one$host$name, ", by ssh")
    } else if (by_dialin(one$host)) {
      if (length(awaited) > 1L) {
        paste("on each of", length(awaited), "hosts that dial in")
      } else {
        "on a host that dials in"
      }
    } else if (by_slurm(one$host)) {
      if (!is_queued(one)) {
        paste0("on ", one$host$name, ", by Slurm")
      } else if (length(jobs) > 1L) {
        paste("in each of", length(jobs), "jobs of Slurm")
      } else {
        "in a job of Slurm"
      }
    } else {
      paste0("by\n  ", one$host$command)
    }
    cat("Launcher: ", workers, " ", where, "\n", sep = "")
  }
  invisible(x)
}

# ---- What cluster_start() was given

# worker_groups() gives list(workers, host) of each group: a number of workers, names of hosts, a
# launcher, or a list of these. Each host has a link of its own, which its key names.
worker_groups <- function(workers, is_default, call) {
  groups <- if (is.list(workers) && !inherits(workers, "muster_launcher") && length(workers)) {
    do.call(c, lapply(workers, launched_groups, is_default = FALSE, call = call))
  } else {
    launched_groups(workers, is_default, call)
  }
  lapply(groups, function(group) {
    if (is.null(group$host)) group else with_key(group)
  })
}

with_key <- function(group) {
  the_host$host_keys <- the_host$host_keys + 1L
  group$host$key <- as.character(the_host$host_keys)
  if (by_dialin(group$host)) group$host$listener$keys <- c(group$host$listener$keys, group$host$key)
  group
}

launched_groups <- function(workers, is_default, call) {
  if (!is_default && inherits(workers, "muster_launcher")) {
    with_listener(workers$hosts)
  } else if (!is_default && is.character(workers)) {
    named_groups(workers, call)
  } else {
    list(list(workers = check_workers(workers, is_default, call)))
  }
}
