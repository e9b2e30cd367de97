# The host process: what a session's command leads to on another host.

#' Serve a session on another host
#'
#' What a command that you give to [launch_command()] has to run on the host:
#' `Rscript -e 'muster::muster_host()'`. It greets the session over standard input and output,
#' starts fork servers when the session asks for them, and carries what they and their workers say.
#' It ends, and ends everything that it has started, when the session or the link ends. By hand, it
#' prints `<muster host 1>` and waits for a session.
#'
#' When it is told to end by SIGTERM, as in a pod or container that is stopped, it tells the
#' session, whose workers then finish what they have and move to another host, which is asked for
#' by the same command. It ends when they have left; a second SIGTERM ends it at once. Where the
#' session sits at the prompt, or the time until SIGKILL is too short, the host is lost as any
#' other. In a job of Slurm, which tells all of its processes, it ends at once.
#'
#' Standard output belongs to the link from then on; whatever else is printed goes to standard
#' error.
#'
#' With `connect`, this process joins a session that listens, see [launch_dialin()]: it connects,
#' proves the key, and tries again while nobody answers. It says so when it has joined. On the
#' command line: `muster host --connect node1:4432 --key ~/muster-key`.
#' @param connect `NULL` (default): serve the session whose command runs this. Or a string,
#'   `"address:port"`: where a session listens.
#' @param key With `connect`: the path of the key's file, which only you may read. It may be a pipe,
#'   as `/dev/fd/3`.
#' @param timeout With `connect`: for how many seconds it tries to join, above 0, by default 600;
#'   then for as long again it waits for a session that is busy. `Inf`: without limit.
#' @returns `NULL`, invisibly, when the session has ended.
#' @section Errors:
#' `muster_error_connect`: nobody answered within two minutes or `timeout`, or what answered isn't a
#' session, or the link changes bytes; the key can't be used, or the session needs no more hosts.
#' `muster_error_input`: an argument has the wrong type.
#' @section Cost:
#' One process of R and, for each session, one for a fork server, which all workers are forked from.
#' @section Source:
#' A server that speaks over standard input and output is what `sftp-server` and
#' `git-upload-pack` are.
#' @seealso [launch_command()], [launch_dialin()].
#' @examples
#' \dontrun{
#' # On the host, by a command of the session's:
#' # ssh node1 Rscript -e 'muster::muster_host()'
#' muster_host()
#' }
#' @export
muster_host <- function(connect = NULL, key = NULL, timeout = 600) {
  call <- sys.call()
  if (is.null(connect)) await_session(call) else dial_session(connect, key, timeout, call)
  the_host$temp_root <- host_root()
  on.exit(unlink(the_host$temp_root, recursive = TRUE))
  .Call(ffi_host_say, host_facts())
  # Slurm tells all processes of a job; that is the loss of the host.
  .Call(ffi_host_heed, nzchar(Sys.getenv("SLURM_JOB_ID")))
  while (!is.null(order <- .Call(ffi_host_next, the_host$temp_root))) {
    serve_order(order)
  }
  .Call(ffi_host_end, 5)
  invisible()
}

# await_session() greets the session whose command runs this process.
await_session <- function(call) {
  opened <- .Call(
    ffi_host_open, c(host_greeting_s, host_linger_s), nzchar(Sys.getenv("SLURM_JOB_ID"))
  )
  if (is.list(opened)) {
    abort_muster("connect", "No session answered.",
      details = opened$error,
      hints = c(
        "Without `connect`, muster_host() is for commands that are given to launch_command()."
      ),
      errno = opened$errno, call = call
    )
  }
}

host_greeting_s <- 120
# A session that isn't heard is given up after this time: a laptop may sleep.
host_linger_s <- 900

# A directory of its own, which its last fork server removes if this process can't.
host_root <- function() {
  root <- file.path(dirname(tempdir()), basename(tempfile("muster-")))
  dir.create(root, mode = "0700")
  root
}

host_facts <- function() {
  list(
    version = as.character(getNamespaceVersion("muster")), build = the$build,
    r = paste(R.version$major, sub("[.].*", "", R.version$minor), sep = "."),
    endian = .Platform$endian, node = node_name(), pid = Sys.getpid(),
    cores = unname(availableCores()), root = temp_root(), tmpdir = Sys.getenv("TMPDIR", NA),
    processes = process_space(), job = job_number()
  )
}

# The number of the job that this process is in, "" if it is in none.
job_number <- function() {
  sge <- if (nzchar(Sys.getenv("SGE_TASK_ID"))) "JOB_ID" # others call their variables so, too
  numbers <- Sys.getenv(c("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", sge))
  c(numbers[nzchar(numbers)], "")[[1L]]
}

# Slurm's nodes have names of their own.
node_name <- function() {
  name <- if (nzchar(Sys.getenv("SLURM_JOB_ID"))) Sys.getenv("SLURMD_NODENAME") else ""
  if (nzchar(name)) name else Sys.info()[["nodename"]]
}

# Two processes for which this is the same see each other by their pids.
process_space <- function() {
  boot <- one_line(read_kernel_file(file.path(proc_place(), "sys/kernel/random/boot_id")))
  space <- Sys.readlink(file.path(proc_place(), "self/ns/pid"))
  known <- !is.na(boot) && nzchar(space) %in% TRUE
  if (known) paste(boot, space) else paste("unknown", Sys.getpid())
}

serve_order <- function(order) {
  failure <- first_error({
    base <- temp_dir(order$order$name, NULL)
    home <- temp_dir(server_home(basename(base)), NULL)
    command <- boot_command("server", order$order$boot, 1L, home)
    started <- .Call(ffi_host_spawn, command[[1L]], command[[2L]], command[[3L]], order$fds)
    if (is.list(started)) stop(started$call, ": ", started$error) # tidy: for first_error()
  })
  if (!is.null(failure)) {
    .Call(ffi_host_refuse, order$fds, paste0("Can't start a fork server: ", failure, "\n"))
  }
}
