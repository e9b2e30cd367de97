#' Start a cluster with the interface of parallelly
#'
#' `makeClusterPSOCK()` has the same name, arguments and defaults as the function in package
#' parallelly. Scripts written for that function run unchanged, but workers on this machine are
#' muster's own: they are forked in milliseconds and replaced when they are lost, see
#' [cluster_start()].
#'
#' @param workers Number of workers on this machine, or names of hosts, one for each worker: for
#'   several workers on a host, repeat its name. The port of the host's ssh server may follow, as
#'   in `"host:2200"`. `I(n)` says that you know that `n` is a large number.
#' @param makeNode Function that makes a node, by default `makeNodePSOCK()`.
#' @param port Port where this session listens for workers without muster: a number, several
#'   to choose from, `"random"` for one of 11000 to 11999 (or of environment variable
#'   `R_PARALLELLY_RANDOM_PORTS`), `"auto"` (default) for environment variable
#'   `R_PARALLEL_PORT` and otherwise `"random"`. Muster's own workers need none.
#' @param user User name on other hosts; `NULL` (default): ssh's own choice.
#' @param ... Arguments of `makeNodePSOCK()`.
#' @param autoStop If `TRUE`, the cluster is stopped when R's garbage collector finds it.
#'   `FALSE` by default.
#' @param tries,delay With `setup_strategy = "sequential"`: how many attempts are made to start a
#'   worker (3), and the seconds between them (15).
#' @param validate If `TRUE`, the default, nodes have a field `session_info` with what the worker
#'   reports about itself: R's version, system, pid, libraries.
#' @param verbose If `TRUE`, messages report each step.
#' @param worker Name or address of the host, by default `"localhost"`. Its attribute
#'   `localhost`, `TRUE` or `FALSE`, says whether it is this machine if the name doesn't.
#' @param master Name of this machine as the worker knows it. `NULL` (default): `"localhost"`
#'   for workers here or behind a tunnel, else this machine's name.
#' @param connectTimeout Seconds for a worker to start, by default 120.
#' @param timeout Seconds without hearing from the session after which a worker without muster
#'   gives up, by default 30 days. Muster's own workers notice at once when the session is gone.
#' @param rscript Words of the command that starts R. `"*"` stands for Rscript: this R's, or
#'   the one on the other host's `PATH`, see `homogeneous`. A word `NAME=value` sets a
#'   variable. With `I()` the words are text for a shell.
#' @param homogeneous `TRUE` if Rscript has the same path on the other host. `NULL` (default): as
#'   in parallelly, `TRUE` for this machine and for hosts without a dot in their name.
#' @param rscript_args Arguments for Rscript, as text for a shell.
#' @param rscript_envs Environment variables: `c(NAME = "value")` is set, `"NAME"` without
#'   a name is copied from here, `c(NAME = NA)` is unset.
#' @param rscript_libs Library paths of the workers; `"*"` stands for those that R would use
#'   anyway. `NULL` (default): for muster's own workers this session's paths, otherwise R's own on
#'   that host.
#' @param rscript_startup R code that each worker runs before anything else: an expression,
#'   strings, or a list of both. Packages that it names are loaded once, by the fork server.
#' @param rscript_call R code that turns an R process into a worker. Anything but `NULL` selects
#'   R's own worker.
#' @param rscript_sh Shell for which commands are quoted: `"auto"` (default) and `"sh"` for
#'   POSIX shells, `"cmd"` for Windows hosts, `"none"` for no quoting. If there are two: the first
#'   for the worker's command, the second for the whole command that is passed to ssh.
#' @param default_packages Packages to attach; `"*"` stands for
#'   `getOption("defaultPackages")`; `NULL`: R's own default.
#' @param methods If `FALSE`, package methods is left out of the default.
#' @param socketOptions Option `socketOptions` of workers without muster. With
#'   `"no-delay"`, the default, neither end waits to fill a packet (Nagle's algorithm is off).
#'   `NULL` or `"NULL"` restores the system's behaviour.
#' @param useXDR If `TRUE`, numbers travel in big-endian order to workers without muster: for
#'   hosts of another byte order. `FALSE` by default.
#' @param outfile File for what workers print. `"/dev/null"` (default): nowhere. `NULL`: it
#'   is shown here.
#' @param renice Number to add to the workers' niceness, as nice(1) does; `NA` (default): none.
#' @param rshcmd,rshopts Command that reaches another host, by default ssh, and its options
#'   as text for a shell.
#' @param revtunnel If `TRUE`, workers reach this session through the tunnel of their ssh
#'   connection; `FALSE`: directly. `NA` (default): `TRUE` for ssh.
#' @param rshlogfile File for messages of ssh; `TRUE` for a temporary one. `NULL` (default):
#'   none.
#' @param rank Number of the worker.
#' @param manual If `TRUE`, the commands are shown and you run them yourself, each with the lines
#'   shown below it, which it reads from its standard input, see Security.
#' @param dryrun If `TRUE`, the commands are shown and nothing is started.
#' @param quiet If `TRUE`, `dryrun` and `manual` show nothing.
#' @param setup_strategy `"parallel"` (default): all workers start at once. `"sequential"`:
#'   one after the other.
#' @param calls If `TRUE`, the command of a worker without muster names the calls that led
#'   here.
#' @param action `"launch"` (default) starts the worker; `"options"` returns what would be
#'   started.
#' @returns `makeClusterPSOCK()`: a cluster, an object of class `c("muster_psock",
#'   "muster_cluster", "SOCKcluster", "cluster")`; if some workers are without muster,
#'   `"muster_joined"` stands in place of `"muster_cluster"`. `makeNodePSOCK()`: a node. With
#'   `dryrun = TRUE` a list of `NULL`, as parallelly's.
#' @section Differences to parallelly:
#' The formal arguments and the output of `dryrun` are the same, with these exceptions.
#' * When one of muster's own workers is lost, it is replaced and its task runs again, see Healing
#'   in [cluster_start()]. `options(muster.healing = FALSE)` gives parallelly's behaviour: a call
#'   to a lost worker is an error.
#' * Asking for more local workers than parallelly allows gives a warning of class
#'   `muster_warning_load`, not an error.
#' * Arguments about TCP (`port`, `master`, `timeout`, `socketOptions`, `useXDR`, `calls`)
#'   have no effect on workers that don't use TCP.
#' * `connectTimeout` is enforced.
#' * Muster's own workers have the session's library paths, and one thread for BLAS and
#'   OpenMP unless `rscript_envs` has `OMP_NUM_THREADS` and so on, as in
#'   `rscript_envs = c(OMP_NUM_THREADS = "4")`: see Threads in [cluster_start()].
#' * Names of hosts and users, paths and values are quoted wherever a shell would not read them as
#'   plain words. Host names with shell metacharacters are refused.
#' * A host's port, as in `"host:2200"`, is given to ssh as `-p 2200`.
#' * The command that is run differs from what `dryrun` shows: R reads variables, libraries
#'   and start-up code from its standard input, see Security.
#' * With `renice`, variables come before `nice` in the command. ssh is told
#'   not to ask for passwords (`BatchMode`) and to end when a tunnel can't be made.
#' * The number of workers must be whole. Unknown arguments are errors of class
#'   `muster_error_input`.
#' * Nodes have no `con`.
#' @section Which worker is started:
#' On this machine, with this R, muster's own workers are started. `rscript_envs`, `rscript_libs`,
#' `rscript_args`, `default_packages`, `renice` and `rscript = c("nice", "*")` are settings of a
#' fork server, and one server is booted for each combination of them; `rscript_startup` runs in
#' each worker. With any other command that ends in `"*"`, each worker is started separately.
#' Another R, a container, `rscript_call`, `manual = TRUE` and other hosts get R's own worker
#' (`parallel:::.workRSOCK`), which this session drives over TCP without using R's connections, so
#' that their limit doesn't apply. Such workers aren't replaced.
#' @section Security:
#' This session listens for workers without muster: on the loopback interface, or on all
#' interfaces if a host connects directly (`revtunnel = FALSE`). Any user of the machine can
#' connect, so each worker proves its identity with its own random secret. Until a peer has sent
#' the secret, nothing that it sends is read as R data, and none of your data is sent to it; a
#' wrong secret closes the connection.
#'
#' Every user can also read the command lines of all processes (`ps`). So the secret and the
#' values of `rscript_envs`, `rscript_libs` and `rscript_startup` aren't in them: a worker without
#' muster reads them from its standard input, which gets through ssh, `sudo`, wrappers and
#' containers. `docker run` and similar commands get `-i` so that they pass it on, unless
#' `rscript` is wrapped in `I()`. A command that starts R without a standard input, such as
#' `ssh -n`, `ssh -f` or a wrapper that redirects it, can't start a worker: it fails at once, and
#' the error says so. With `manual = TRUE`, paste each command together with the lines shown below
#' it. `rscript`, `rscript_args`, `rscript_call` and `rshopts` become part of command lines: never
#' put passwords there.
#'
#' All later traffic is neither encrypted nor authenticated, as with [parallel::makeCluster()]:
#' use the tunnel. The worker trusts whoever listens where it connects to be the session; with a
#' tunnel, that is a port on the other host's loopback interface.
#' @section Errors:
#' `muster_error_input`: an argument is wrong. `muster_error_launch`: a worker ended before it had
#' connected, with fields `worker`, `host`, `command`, `exit_code`, `signal`, `output`.
#' `muster_error_timeout`: a worker didn't connect within `connectTimeout`.
#' `muster_error_connect`: no port was available. Everything that had started is stopped first.
#' @section Cost:
#' Workers on this machine: as [cluster_start()], and one query to the first of them if `validate`
#' is `TRUE`. Others: one R process and one connection each; all start at once.
#' @section Source:
#' The help of `makeClusterPSOCK()` in package parallelly. The protocol of R's own workers:
#' `parallel:::.workRSOCK`.
#' @examples
#' cl <- makeClusterPSOCK(2, rscript_envs = c(PI = "3.14"))
#' clusterEvalQ(cl, Sys.getenv("PI"))
#' parallel::stopCluster(cl)
#'
#' # What would be run for a worker elsewhere:
#' cl <- makeClusterPSOCK("n1.example.org", user = "ann", dryrun = TRUE)
#' @export
makeClusterPSOCK <- function(workers, makeNode = makeNodePSOCK, port = c("auto", "random"),
                             user = NULL, ..., autoStop = FALSE,
                             tries = getOption2("parallelly.makeNodePSOCK.tries", 3L),
                             delay = getOption2("parallelly.makeNodePSOCK.tries.delay", 15),
                             validate = getOption2("parallelly.makeNodePSOCK.validate", TRUE),
                             verbose = isTRUE(getOption("parallelly.debug"))) {
  call <- sys.call()
  if (missing(workers)) {
    abort_muster("input", "`workers` must be given: a number, or names of hosts.", call = call)
  }
  check_not_booting(call)
  check_flag(autoStop, "autoStop", call)
  tries <- check_count(tries, "tries", call = call)
  if (!identical(as.numeric(delay), 0)) {
    delay <- check_seconds(delay, "delay", call = call)
  }
  check_flag(validate, "validate", call)
  ports <- choose_port(port, call)
  makeNode <- check_make_node(makeNode, names(list(...)), call)
  hosts <- worker_hosts(workers, call)
  if (!identical(makeNode, makeNodePSOCK)) {
    nodes <- lapply(seq_along(hosts), function(i) {
      makeNode(hosts[[i]], port = ports[1L], user = user, ..., rank = i)
    })
    return(join_nodes(nodes))
  }
  options <- lapply(seq_along(hosts), function(i) {
    # All workers of a number are alike.
    if (i > 1L && is.numeric(workers)) return(NULL)
    tryCatch(
      makeNodePSOCK(hosts[[i]],
        port = port, user = user, ..., rank = i, action = "options", verbose = verbose
      ),
      muster_error = function(e) raise_condition(with_call(e, call))
    )
  })
  for (i in which(vapply(options, is.null, NA))) {
    options[[i]] <- options[[1L]]
    options[[i]]$rank <- i
  }
  if (!inherits(workers, "AsIs")) {
    check_load(sum(vapply(options, `[[`, NA, "local")), call)
  }
  if (options[[1L]]$dryrun) {
    return(show_commands(options, ports[1L]))
  }
  psock_start(options, port, tries, delay, validate, autoStop, call)
}

check_make_node <- function(makeNode, given, call) {
  if (!is.function(makeNode)) {
    abort_input("makeNode", "a function", makeNode, call)
  }
  known <- names(formals(args(makeNode)))
  unknown <- setdiff(given, c(known, ""))
  if (length(unknown) && !"..." %in% known) {
    abort_muster("input", paste0("Unused argument `", unknown[1L], "`."),
      hints = "See ?makeClusterPSOCK for the arguments of makeNodePSOCK().",
      argument = unknown[1L], call = call
    )
  }
  makeNode
}

with_call <- function(e, call) {
  e$call <- call
  e
}

# One host for each worker.
worker_hosts <- function(workers, call) {
  if (is.character(workers)) {
    if (!length(workers) || anyNA(workers)) {
      abort_input("workers", "a number, or names of hosts", workers, call)
    }
    # `[` would drop attributes such as `localhost`.
    return(if (length(workers) == 1L) list(workers) else as.list(as.vector(workers)))
  }
  count <- if (is.numeric(workers)) as.vector(unclass(workers)) else workers
  count <- check_workers(count, FALSE, call)
  as.list(rep(getOption2("parallelly.localhost.hostname", "localhost"), count))
}

show_commands <- function(options, port) {
  for (o in options) {
    if (!o$quiet) writeLines(launch_text(o, port))
  }
  structure(vector("list", length(options)), class = cluster_class("muster_psock"))
}
