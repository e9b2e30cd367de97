#' Start a cluster of R workers
#'
#' Starts R workers, on this machine or others, and returns when all of them are ready. The
#' result works with every function of package parallel that takes a cluster
#' (`parLapply()`, `clusterExport()`, `clusterMap()`, ...), and with packages that build on these.
#' [registerDoMuster()] has foreach's loops run on it.
#'
#' With `start = "fork"`, workers are forked by a *fork server*: a fresh R process, never your
#' session, that has one thread and the `packages` attached. It boots once (which takes about as
#' long as R itself does), stays for the session and serves later starts too, so each worker takes
#' a few milliseconds to start and shares the server's memory until it writes to it. With
#' `start = "spawn"`, every worker is a separate R process, and several boot at once. Either way,
#' workers are connected through inherited sockets: nothing listens, and R's limit on connections
#' doesn't apply.
#'
#' Workers are as clean as those of [parallel::makeCluster()]: an empty global
#' environment, R's default packages and yours attached, options as your profile
#' sets them, and their own random number stream and temporary directory. They start with your
#' session's current library paths, working directory and environment variables. What they print
#' is shown while a call waits for them, and kept for [cluster_logs()].
#'
#' A lost worker is replaced, and the task it was running runs again: see Healing.
#'
#' No worker outlives your R session, however the session ends: a second thread in each worker
#' ends it, together with all processes it has started, except those that created their own
#' process session (setsid).
#'
#' @param workers Number of workers, 1 to 10,000. Default: [availableCores()]. Inside a worker the
#'   default is 1, with a warning, so that nested clusters don't multiply. 0: everything is
#'   evaluated in the session, see Without workers. For workers on other hosts: names of hosts, as
#'   in `c("node1", "node2")`, see [launch_ssh()], where `"localhost"` is this machine; or a
#'   launcher, see [launch_command()] and [launch_slurm()]; or a list of numbers, names and
#'   launchers: `list(4, launch_ssh("node1", workers = 16))`.
#' @param ... Must be empty: the arguments after it must be named.
#' @param packages Character vector of packages to attach in each worker, or
#'   `NULL` for R's default packages only. With `"fork"` the fork server loads
#'   them once, except those known to break when forked: rJava, tcltk,
#'   reticulate, torch, tensorflow, keras, sparklyr and dqrng, which each worker
#'   attaches by itself. Attach other packages that start a Java virtual machine, use a GPU or
#'   open a GUI in `setup`, or use `"spawn"`.
#' @param setup Code that each worker runs once it is ready: a function without arguments, or an
#'   expression (`quote({...})`), evaluated in the worker's global environment. `NULL`: nothing.
#'   If it fails, the start fails. As usual, variables that a function assigns with `<-` are local
#'   to it; to create variables in the worker, give an expression.
#' @param start `"fork"` or `"spawn"`, see below. Default: `"fork"` where the system allows it
#'   (Linux), `"spawn"` elsewhere. If the fork server refuses, `"spawn"` is used, with a message;
#'   if you asked for `"fork"` yourself, a refusal is an error.
#' @param threads Number of threads that BLAS and OpenMP may use in each worker.
#'   Default 1: the workers are the parallelism. See Threads.
#' @param healing With what a worker comes back when it is lost. `"state"`, the default, or `TRUE`:
#'   as it was, with all that calls have made of it, see Healing. `"fresh"`: as `setup` and
#'   `packages` made it, so that nothing is kept and no call repeated; for clusters that run tasks,
#'   [cluster_map()] and the like, or functions that need no state. `FALSE`: it doesn't; a call to
#'   it is an error of class `muster_error_lost`, much as with a cluster from
#'   [parallel::makeCluster()], and the other workers remain usable.
#' @param retries How often to retry a task that was lost with its worker: a whole number from 0
#'   to 1,000, by default 2. With 0, the first loss is an error.
#' @param heartbeat Seconds without a response after which a worker counts as lost: at least 0.1,
#'   by default 10; `Inf` for never. A worker responds even while it computes; one that was
#'   stopped (SIGSTOP), or whose machine hangs, doesn't. On the session's host, a worker that waits
#'   for the processor isn't silent.
#' @param timeout Seconds that one task may take, by default `Inf`. One that takes longer is
#'   interrupted and is an error of class `muster_error_timeout`; if it is still running a second
#'   later, its worker is ended too. For parallel's functions, a task is what one worker is sent
#'   at a time: for `parLapply()`, its share of the elements.
#' @param wait How many workers have to be there before `cluster_start()` returns: a whole number,
#'   0 or more. Workers of hosts that take longer (jobs that are pending, hosts that boot) join
#'   later, see Workers that come later. Default `Inf`: all.
#' @param scale How many workers there are at least and at most, `c(0, 64)` for example: hosts are
#'   asked for when tasks wait, and given back when they have nothing to do, see Hosts that come and
#'   go. `NULL` (default): all are there all the time.
#' @param idle_timeout With `scale`: after how many seconds without work a host is given back.
#'   Default 300; `Inf`: never.
#' @param autoStop If `TRUE`, the default, a cluster is stopped when nothing refers to it any more
#'   and R's garbage collector finds it. If `FALSE`, it lives until [cluster_stop()] or the end of
#'   the session.
#' @returns An object of class `c("muster_cluster", "SOCKcluster", "cluster")`: a
#'   list of nodes, one for each worker, in order. A node is an environment of
#'   class `"muster_node"` with fields `rank` (from 1), `host` (`"localhost"` on this machine),
#'   `pid`, `start` (`"fork"` or `"spawn"`) and `threads`. Its field `con` is for code that inspects
#'   nodes' connections: `socketSelect(list(node$con), timeout = 0)` tells whether an answer was
#'   there when `con` was read. A later answer doesn't wake `socketSelect()`: with a longer
#'   `timeout` it waits the full time. To wait, read `con` again from time to time, or use
#'   [task_submit()] and [task_wait()]. For a function that takes only clusters whose first class
#'   is `"SOCKcluster"`, such as `rgenoud::genoud()`, pass
#'   `structure(cl, class = c("SOCKcluster", class(cl)))`, and stop `cl` itself afterwards.
#' @section Errors:
#' * `muster_error_input`: an argument is wrong, or a package isn't installed.
#' * `muster_error_limit`: not enough file descriptors or processes, or more
#'   workers than R CMD check allows. Where possible, this is checked before anything starts.
#' * `muster_error_launch`: a worker or the fork server didn't become ready. Fields `worker`,
#'   `pid`, `exit_code`, `signal`, `output` (the last lines it printed).
#' * `muster_error_lost`, `muster_error_timeout`: raised by later calls, see Healing.
#' * `muster_error_timeout`: the workers weren't ready within `getOption("muster.start_timeout")`
#'   seconds (default 120).
#'
#' An error leaves nothing running: everything that had started is stopped first.
#' @section Healing:
#' A task whose worker was lost runs again, so **its side effects may happen twice**
#' (files written, rows inserted). Use `retries = 0` if that must not happen.
#'
#' A worker is lost when its process ends, for whatever reason (noticed within milliseconds), or
#' when it doesn't respond for `heartbeat` seconds. Losses are noticed while one of your calls
#' waits, not at an idle prompt. A message of class `muster_message_restarted` says what happened
#' and what runs again; `options(muster.quiet = TRUE)` silences it.
#'
#' The new worker is what the lost one was. All calls of parallel's functions to a worker are kept,
#' in order, see [cluster_journal()], and are replayed. **Their side effects happen twice** (files
#' written, rows inserted); what they print isn't shown again. A worker begins with a random number
#' stream of its own, so that a replay draws the same numbers again. When replaying would take long,
#' the worker makes a checkpoint: a copy of its process, which stands by and takes its place when it
#' is lost. So variables, options, packages, data that was changed in place, connections, temporary
#' files and whatever else a process has are there again, and only the later calls are replayed.
#'
#' Tasks ([task_submit()], [cluster_map()], partitions) can run on any worker, so what they change
#' is not part of a worker's state: it is there again only if it was seen to change (global
#' variables, options, search path, working directory).
#'
#' **What a loss costs** is the replay. A checkpoint costs a fork, then a page fault for each page
#' of memory that the worker changes, which each worker measures. So checkpoints are rare: they take
#' at most 1 % of the processor time, and are made when their price and the replays to be expected
#' are least together. With a price of 0.1 s, and a loss in ten hours, as is assumed at first, that
#' is after 85 s of evaluation; where workers are lost more often, checkpoints are made more often.
#' `options(muster.checkpoints = 10)` makes one after each 10 s of evaluation, whatever it costs.
#' A checkpoint shares the memory of its worker until one of the two changes it. If it ends (it is
#' the first process that the system ends for lack of memory), another is made; if its worker ends
#' before that, the loss is an error of class `muster_error_lost` that says so. Workers that were
#' started by `start = "spawn"`, and those with threads of their own (of a C library), can't be
#' copied. For them, and with `options(muster.checkpoints = FALSE)`, all calls are replayed. If that
#' would take longer than `getOption("muster.replay_max")` seconds (default 600), or there was no
#' memory to keep the calls, the loss is an error of class `muster_error_lost`, too.
#' [cluster_status()] says beforehand for which workers that is so. A checkpoint on another host is
#' lost with the host; so all calls are kept there, too, and replayed if that takes no longer than
#' this, and if none of them drew random numbers after a task had. Where calls leave
#' nothing that later ones need, choose `healing = "fresh"`.
#'
#' When a whole host is lost, it is asked for again while the cluster goes on. Its workers are
#' `"pending"`: others get their tasks, calls to them wait. If the host can't be reached, that is
#' tried again after 1, 2, 4, ... seconds, for `getOption("muster.start_timeout")` seconds
#' together. Then its workers are given up until [cluster_resize()], or, if the cluster has no
#' other hosts, the call is an error of class `muster_error_lost`.
#'
#' After \code{\link[parallel:clusterSetRNGStream]{parallel::clusterSetRNGStream()}} a task that
#' runs again draws the same numbers as its lost attempt: results are the same with and without
#' losses, except for the load-balanced functions, whose results depend on chance anyway. Any
#' other generator draws on where it was, too, unless tasks drew from it: then it gets a new stream
#' in the new worker, with a warning of class `muster_warning_rng`.
#'
#' A task that was lost `retries + 1` times is an error of class `muster_error_lost`. Fields:
#' `range` (its first and last element), `element` (if it has only one), `worker`, `pid`,
#' `signal`, `exit_code`, `oom` (whether the system killed the worker for lack of memory, as far
#' as can be told; the task is then retried while no other worker has a task, and tasks that wait
#' are kept waiting for it, up to a minute, or twice as long as it had run), `killed_by` (for
#' SIGKILL: `"muster"`, `"system"` for lack of memory, or `"unknown"`, since systems don't tell
#' who sends signals; otherwise `""`), `output` (the last lines it printed) and `results` (the
#' values of the other tasks). The cluster remains usable. A worker that ends during its restart
#' more than 3 times within 5 seconds, or more than 10 times in a row without completing a task,
#' is given up; calls to it are errors of the same class.
#'
#' If a worker can't be replaced for lack of file descriptors, processes or memory, muster keeps
#' trying for 13 seconds. After that, calls to it through parallel's functions, and tasks, are
#' errors of classes `muster_error_limit` and `muster_error_lost`, with fields `errno`, `limit`
#' (on descriptors) and `results`. The next call or task for it, and [cluster_resize()], try
#' again.
#'
#' An interrupt (Ctrl-C) or a time limit returns to the prompt at once. The workers' tasks for
#' that call are interrupted, and what they had changed in their worker is undone (variables,
#' options, the working directory, attached packages, random numbers); a worker that loads packages
#' for a task finishes that first. A worker still running its task a second later is ended and
#' replaced. Later calls never receive answers to earlier ones.
#' @section Workers that come later:
#' With `wait = 8`, `cluster_start()` returns as soon as eight workers are there. The cluster has
#' all its nodes; workers on hosts that aren't there yet are `"pending"` in [cluster_status()].
#' Tasks and maps use the workers that are there. A call to a worker that is pending waits for it:
#' `clusterExport()` to all nodes waits for all, `clusterExport(cl[1:8], ...)` doesn't.
#'
#' Hosts join while your session waits in a call to any cluster, not while it sits at the prompt. A
#' message of class `muster_message_joined` tells; the call is held up while the host's fork server
#' boots (about 0.3 s). If a host can't be reached after all, another message says why, its workers
#' are given up, and [cluster_resize()] tries again. A host with `workers = NULL` is waited for.
#' @section Hosts that come and go:
#' `cluster_start(launch_slurm(workers = 16), scale = c(0, 128))` has 128 nodes and no job yet:
#' their workers are `"asleep"` in [cluster_status()]. A host is asked for when tasks have waited
#' for a second (at once if no worker is there), as many hosts as have workers for the tasks that
#' wait; and for a call to one of its workers, so that `clusterExport()` to all nodes asks for all
#' hosts. Workers on this machine, and on the hosts that come first until there are as many workers
#' as `scale` has at least, are always there. If the launchers have fewer workers than `scale` has
#' at most, the last one is used again and again, if that leads to another host each time:
#' [launch_slurm()], or [launch_command()] with `{name}`.
#'
#' A host whose workers have had nothing to do for `idle_timeout` seconds is given back, also while
#' your session sits at the prompt. What its workers know comes back with the next host, see
#' Healing, by replaying their calls. So a host stays if that isn't sure to give the same, or takes
#' longer than `idle_timeout`: its workers' state is only in a checkpoint, or calls of parallel's
#' functions drew random numbers after a task had. With `healing = "fresh"` there is nothing to
#' replay. A host with data of a partition stays, too.
#' @section Without workers:
#' `cluster_start(0)` is for finding what is wrong: `browser()`, `debug()` and `traceback()` work,
#' since whatever this cluster is given is evaluated in your session, at once and one after the
#' other. parallel's functions take it, and [cluster_map()], [cluster_pmap()], [task_map()],
#' [task_submit()], [task()], [tasks_collect()] and the like, [with_cluster()] and
#' [cluster_share()]; others say that they need workers. Results and random numbers for a `.seed`
#' are the same as with workers, but for those that [parallel::clusterSetRNGStream()] sets. Errors
#' of parallel's functions are raised as they are. `setup` is evaluated and `packages` are attached
#' in your session; the other arguments are not used. `clusterExport()` and [cluster_share()] don't
#' write over variables of your global environment: that is an error.
#'
#' @section Threads:
#' Workers that each use all cores would slow each other down. In each worker, code that uses BLAS
#' or OpenMP therefore gets `threads` threads, by default one: the environment variables
#' `OMP_NUM_THREADS`, `OPENBLAS_NUM_THREADS` and so on are set there. Workers from
#' [parallel::makeCluster()] have no limit.
#'
#' Some packages silently treat this number as a maximum: `data.table::setDTthreads(2)` in a
#' worker leaves it at 1 (version 1.18; 1.14 went to 2). If you have few workers on a machine with
#' many cores, start them with more threads: `cluster_start(2, threads = 4)`. `print(cl)` shows
#' how many threads a cluster's workers have. Packages that create threads by other means
#' (RcppParallel, ranger, arrow) have their own settings.
#' @section Memory:
#' R boots with room for 450,000 cells instead of its own 350,000, since muster's code takes 45,000
#' of them; the environment variable `R_NSIZE` sets another number. R first collects
#' garbage when vectors take 64 MB. In workers that hold parts of a partition (more than 16 MB of
#' them) that is a 32nd of the free memory for each core of their machine, at least 64 and at most
#' 256 MB, as each full collection takes some 30 ms. With the environment variables `R_VSIZE` or
#' `R_MAX_VSIZE` (see [Memory]) R's own values stay. A worker's vectors may take more than that at
#' any time.
#' @section Forking:
#' Only the fork server forks, and only while it has a single thread; otherwise it
#' refuses, with the reason. It boots with one BLAS and one OpenMP thread. If
#' a startup file or a package that you preload keeps file descriptors open, it refuses too, since
#' workers would share them. A new server is booted when R, the library paths, the startup files,
#' the packages (including when they are reinstalled) or the environment variables that are read
#' at startup (`LD_*`, `OMP_*`, locale, ...) have changed.
#'
#' Packages that are under `pkgload::load_all()` in the session when the cluster starts are loaded
#' so by each worker, from their sources: at its start if they are among `packages`, else when the
#' first call names them. That takes about half a second. Start another cluster after
#' `load_all()` has loaded changed sources. muster itself under `load_all()` needs `"spawn"`.
#' @section What packages fix when they are loaded:
#' A forked worker inherits its `packages` from the fork server, which loaded them once. Whatever
#' a package draws, creates or records while it loads would therefore be the same in all workers.
#' These are renewed in each worker:
#' * The port that package parallel draws for `makeCluster()`, unless the variable
#'   `R_PARALLEL_PORT` is a number. This lets clusters be started inside workers.
#' * R's random numbers, and those of C's `rand()`.
#' * `tempdir()`. If a package keeps a path inside the server's temporary directory in its
#'   namespace's variables, in options or in environment variables, the path is changed to the
#'   worker's own directory, which gets a copy of the contents. This lets callr and packages that
#'   import it be preloaded. Paths kept elsewhere (in C++, or in the frame of a finalizer) still
#'   lead to the server's directory, which all of its workers share and which exists as long as it
#'   does.
#' * The thread of package cli, the threads of data.table, the directory of terra.
#'
#' Everything else that a package sets when it is loaded is the same for all workers of a server:
#' * Random numbers, ids, process ids and times that it recorded. If that matters, load the
#'   package with `setup = quote(library(pkg))`, not with `packages =`, or use `start = "spawn"`.
#' * Environment variables that it read, except those whose change boots a new server. Set them
#'   before the first start, or use `setup`.
#' * A function that it registered to run when R ends (`reg.finalizer(onexit = TRUE)`) runs in each
#'   worker. If it deletes a file or ends a process by a recorded path or id, it does so for all
#'   workers.
#' * RcppParallel, from version 6.0 on, records the process it was loaded in. In a forked worker,
#'   packages that query it run their loops in one thread, whatever `threads` says.
#'
#' The following can't be preloaded: the fork server refuses, with the reason, and workers are
#' spawned instead (with `start = "fork"` that is an error). To use them in forked workers, load
#' them in `setup`:
#' * curl, later, and packages that import them (httr, httpuv, promises, shiny, plumber): they
#'   hold pipes or sockets from the moment they are loaded.
#' * nanonext and mirai, and other packages that start threads when they are loaded.
#' * Packages that leave more than 16 MB of temporary files.
#'
#' Connections to databases, Python, a Java virtual machine, a GPU and other handles must not be
#' created before a fork: create them in `setup` or in the task. The load hooks of DBI, RSQLite,
#' duckdb, arrow, sf, terra, xgboost, lightgbm and ranger create none, so these packages can be
#' preloaded. docs/FORKED-PACKAGES.md in the sources lists the packages and versions that were
#' examined.
#' @section Cost:
#' One process for each worker and, on this machine, three file descriptors of the session. A forked
#' worker takes 5 to 7 MB at first; a full garbage collection in it writes to most
#' of R's heap and ends the sharing (about 40 MB with the default packages). A
#' spawned one takes about 40 MB from the start.
#' @section Source:
#' Clusters follow the contract of [parallel::makeCluster()] and [parallel::clusterApply()].
#' @seealso [cluster_status()], [cluster_logs()], [cluster_resize()], [cluster_stop()],
#'   [availableCores()].
#' @examples
#' cl <- cluster_start(2)
#' parSapply(cl, 1:4, function(i) i^2)
#'
#' # A worker is killed in the middle of its work.
#' tools::pskill(cl[[1]]$pid, tools::SIGKILL)
#' parSapply(cl, 1:4, function(i) i^2)
#' cluster_stop(cl)
#' @export
cluster_start <- function(workers = availableCores(), ..., packages = NULL, setup = NULL,
                          start = c("fork", "spawn"), threads = 1L, healing = "state",
                          retries = 2L, heartbeat = 10, timeout = Inf, wait = Inf,
                          scale = NULL, idle_timeout = 300, autoStop = TRUE) {
  call <- sys.call()
  check_dots(...,
    hints = paste0(
      "Arguments: workers, packages, setup, start, threads, healing, retries, heartbeat, ",
      "timeout, wait, scale, idle_timeout, autoStop. All but the first must be named."
    ), call = call
  )
  check_not_booting(call)
  if (is.numeric(workers) && identical(as.double(workers), 0)) {
    return(start_here(packages, setup, call))
  }
  groups <- worker_groups(workers, missing(workers), call)
  packages <- if (all(vapply(groups, function(group) is.null(group$host), NA))) {
    check_packages(packages, call)
  } else {
    unique(check_strings(packages, "packages", call)) # they are looked for on each host
  }
  setup <- check_setup(setup, call)
  # Checked first: once an argument has been assigned to, missing() is FALSE.
  may_fall_back <- missing(start)
  start <- choose_start(check_choice(start, "start", c("fork", "spawn"), call), may_fall_back)
  threads <- check_count(threads, "threads", max = 1024L, call = call)
  policy <- check_policy(healing, retries, heartbeat, timeout, call)
  if (!identical(wait, Inf)) wait <- check_count(wait, "wait", min = 0L, call = call)
  scale <- check_scale(scale, policy[1L], call)
  groups <- scaled_groups(groups, scale, call)
  idle_timeout <- check_seconds(idle_timeout, "idle_timeout", infinite = TRUE, call = call)
  check_flag(autoStop, "autoStop", call = call)
  plan <- list(
    groups = groups, packages = packages, load = setup_packages(setup), setup = setup,
    start = start,
    threads = threads, policy = policy, enough = wait, scale = scale, idle_s = idle_timeout,
    call = call
  )
  opened <- start_cluster(plan, may_fall_back)
  if (!autoStop) {
    the_worker$kept <- c(the_worker$kept, opened$pointer)
  }
  new_cluster(new_nodes(opened$nodes, opened, opened$groups, opened$of, threads))
}

check_dots <- function(..., hints, call) {
  if (...length() == 0L) {
    return()
  }
  # Not with names(list(...)), which evaluates the arguments; ...names() needs R 4.1.3.
  given <- c(names(substitute(list(...)))[-1L], "")[1L]
  shown <- if (nzchar(given)) paste0("`", given, "`") else "an argument without a name"
  abort_muster("input", paste0("`...` must be empty, not ", shown, "."),
    hints = hints, call = call
  )
}

# A profile that starts a cluster would start itself again in every worker.
check_not_booting <- function(call) {
  if (nzchar(Sys.getenv("MUSTER_BOOT"))) {
    abort_muster("input", "Can't start a cluster while a worker boots.",
      details = "A startup file (.Rprofile or Rprofile.site) calls cluster_start().",
      hints = "Do so only if interactive(), or in your script.",
      call = call
    )
  }
}

check_workers <- function(workers, is_default, call) {
  if (is_default && the$worker) {
    warn_muster("nested", "A cluster started inside a worker has 1 worker by default.",
      hints = "Give `workers` a number if you mean more.", call = call
    )
    return(1L)
  }
  check_given(workers, "workers", call)
  workers <- check_count(workers, "workers", max = 10000L, call = call)
  check_core_limit(workers, call)
  workers
}

# The same rule as parallel's own, see ?parallel::makeCluster.
check_core_limit <- function(workers, call) {
  limit <- tolower(Sys.getenv("_R_CHECK_LIMIT_CORES_", ""))
  if (nzchar(limit) && !limit %in% c("false", "warn") && workers > 2L) {
    abort_muster("limit", paste0("Can't start ", workers, " workers under R CMD check."),
      details = "_R_CHECK_LIMIT_CORES_ allows 2.", call = call
    )
  }
}

# Whether there is room for the workers of all groups. Those behind a link take no descriptors, but
# the link does; a host that isn't reached yet may decide how many it has.
check_room <- function(plans, call) {
  count <- vapply(plans, function(plan) max(1L, plan$workers), 0L)
  far <- vapply(plans, function(plan) !is.null(plan$host), NA)
  check_core_limit(sum(count), call)
  if (sum(count) > 10000L) {
    abort_muster("limit", paste0("Can't start ", sum(count), " workers: 10,000 is the most."),
      call = call
    )
  }
  check_limits(sum(count[!far]), call, links = sum(far))
}

check_packages <- function(packages, call) {
  packages <- check_strings(packages, "packages", call)
  there <- nzchar(vapply(packages, package_path, ""))
  if (!all(there)) {
    missing <- packages[!there]
    abort_muster("input",
      paste0(
        "`packages` must be installed: there is no ",
        paste0("\"", missing, "\"", collapse = ", "), "."
      ),
      details = paste("Looked in", .libPaths()),
      hints = paste0("install.packages(c(", paste0("\"", missing, "\"", collapse = ", "), "))"),
      packages = missing, call = call
    )
  }
  unique(packages)
}

# The directory of a package: in a library, or where load_all() found it; "" if there is none. Not
# with system.file(), which reads one of the package's files through an R connection, and returns
# "" when no connection is left.
package_path <- function(package) {
  path <- dev_path(package)
  if (!nzchar(path) && !grepl("/", package, fixed = TRUE)) {
    paths <- file.path(.libPaths(), package)
    path <- c(paths[file.exists(file.path(paths, "Meta", "package.rds"))], "")[1L]
  }
  path
}

check_setup <- function(setup, call) {
  ok <- is.null(setup) || is.function(setup) || is.language(setup)
  if (!ok) {
    abort_input("setup", "NULL, a function or an expression such as quote({...})", setup, call)
  }
  if (is.function(setup) && length(formals(args(setup))) > 0L &&
    any(vapply(formals(args(setup)), is_required, NA))) {
    abort_input("setup", "a function that can be called without arguments", setup, call)
  }
  warn_locals(setup, call)
  setup
}

# Packages that it loads, as far as its code shows: the fork server loads them once.
setup_packages <- function(setup) {
  code_packages(list(if (is.function(setup)) body(setup) else setup))
}

is_required <- function(default) is.symbol(default) && !nzchar(as.character(default))

choose_start <- function(start, is_default) {
  if (is_default && !.Call(ffi_can_fork)) "spawn" else start
}

# Three descriptors for each worker on this machine and six for each link, a few for the session
# itself, and some that R and the user need for files.
check_limits <- function(workers, call, links = 0L) {
  need <- 3 * workers + 6 * links + 48
  limits <- .Call(ffi_limits)
  if (limits[3L] + need > limits[1L] && isTRUE(getOption("muster.raise_nofile"))) {
    limits[1L] <- .Call(ffi_limits_raise, limits[3L] + need + 1024)
  }
  if (limits[3L] + need > limits[1L]) {
    most <- max(0, (limits[1L] - limits[3L] - 48) %/% 3)
    abort_muster("limit",
      paste0(
        "Can't start ", workers, " workers: they need ", need,
        " file descriptors, and the limit is ", format(limits[1L]), "."
      ),
      details = c(
        paste0(format(limits[3L]), " are in use. ", most, " workers would fit."),
        paste0("The hard limit is ", format(limits[2L]), ".")
      ),
      hints = c(
        paste0("Before R starts: ulimit -n ", ceiling((limits[3L] + need) / 1024 + 1) * 1024),
        "Or options(muster.raise_nofile = TRUE), see ?muster."
      ),
      need = need, limit = limits[1L], call = call
    )
  }
}

# A worker's pid changes when it is replaced, so it is looked up each time. cluster: list(pointer,
# id). groups, of: see start_cluster(); a group's plan is for cloneNode(), and copies don't have it.
# threads: how many each worker was told to use, NULL if that is decided elsewhere.
new_nodes <- function(pointers, cluster, groups, of, threads = NULL, from = 1L) {
  lapply(seq_along(pointers), function(i) {
    group <- groups[[of[i]]]
    node <- list2env(
      list(
        cluster = cluster$pointer, id = cluster$id, rank = from + i - 1L,
        host = .Call(ffi_node_host, pointers[[i]]), start = group$start,
        threads = threads, plan = .Call(ffi_hide, pointers[[i]], group$plan)
      ),
      parent = emptyenv()
    )
    # C code records changes there, see src/ffi/session/node.c.
    notes <- .Call(ffi_node_notes, pointers[[i]])
    node <- structure(node, class = "muster_node", peer = pointers[[i]], notes = notes)
    about <- list2env(list(first = .Call(ffi_node_pid, node)), parent = topenv())
    makeActiveBinding("pid", light_function(quote(pid_of(node, first)), node, about), node)
    if (isTRUE(group$moves)) {
      rm("host", envir = node)
      makeActiveBinding("host", light_function(quote(host_of(node)), node), node)
    }
    makeActiveBinding("con", light_function(quote(con_of(node)), node), node)
    node
  })
}

# Makes a function without arguments that evaluates code with `node` and the variables in `about`.
# It must be short when serialized: the functions of all nodes travel with the cluster whenever a
# user's function was defined where the cluster is visible, and the package's own functions are
# serialized with their compiled code. R marks a function when it is first called, and the mark is
# serialized too, so the function is called here, before there is a node.
light_function <- function(code, node, about = topenv()) {
  around <- list2env(list(node = NULL), parent = about)
  light <- as.function(list(code), around)
  light()
  around$node <- node
  light
}

# NULL in a copy and in a stopped node: nobody would close a connection that is made later.
con_of <- function(node) {
  answer_in_place()
  if (.Call(ffi_node_outcome, node) == outcomes[["fine"]]) {
    node_con(.Call(ffi_nodes_wait, list(node), 0))
  }
}

# Once the cluster is stopped, the last known pid; in a copy, the first one.
pid_of <- function(node, first) {
  now <- .Call(ffi_node_pid, node)
  if (is.na(now)) first else now
}

# Of a worker that was pending when the cluster started.
host_of <- function(node) .Call(ffi_node_host, attr(node, "peer"))

new_cluster <- function(nodes) {
  structure(nodes, class = cluster_class("muster_cluster"))
}

# 0: no healing, 1: with state, 2: without.
check_healing <- function(healing, name, call) {
  mode <- which(vapply(list(FALSE, TRUE, "state", "fresh"), identical, NA, healing))
  if (!length(mode)) {
    abort_input(name, "\"state\", \"fresh\", TRUE or FALSE", healing, call)
  }
  c(0, 1, 1, 2)[mode]
}

# -1: none, 0: when they pay, else after so many seconds of evaluation.
check_checkpoints <- function(value, call) {
  if (isTRUE(value) || isFALSE(value)) {
    return(if (value) 0 else -1)
  }
  check_seconds(value, "options(muster.checkpoints)", call = call)
}

check_policy <- function(healing, retries, heartbeat, timeout, call) {
  mode <- check_healing(healing, "healing", call)
  retries <- check_count(retries, "retries", min = 0L, max = 1000L, call = call)
  heartbeat <- check_seconds(heartbeat, "heartbeat", infinite = TRUE, call = call)
  timeout <- check_seconds(timeout, "timeout", infinite = TRUE, call = call)
  checkpoints <- check_checkpoints(getOption("muster.checkpoints", TRUE), call)
  replay <- check_seconds(getOption("muster.replay_max", 600), "options(muster.replay_max)",
    infinite = TRUE, call = call
  )
  c(mode, retries, max(heartbeat, 0.1), max(timeout, 0.001), checkpoints, replay)
}
