#' muster: fast-starting, self-healing clusters of R workers
#'
#' [cluster_start()] starts workers; every function of package parallel that takes a cluster
#' works on them, and so do packages that build on these; foreach's loops after
#' [registerDoMuster()], package future's futures after `plan(muster_future)`.
#' [cluster_map()] and [task_submit()] are muster's own ways to use them; [cluster_share()] gives
#' them large data. Lost workers are replaced, and their tasks run again. [cluster_status()] shows
#' what the workers are doing. [cluster_stop()], or [parallel::stopCluster()], ends them.
#' [availableCores()] tells how many there should be.
#'
#' [makeClusterPSOCK()] and related functions have package parallelly's interface, with muster's
#' workers. [socket_listen()] and [socket_connect()] open sockets for your own use. [discover()]
#' finds hosts and services, and [doctor()] checks whether this machine is ready for clusters;
#' both are shell commands too: [muster_cli()], [muster_cli_install()].
#'
#' New here? `vignette("start", "muster")`. Moving from another package?
#' `vignette("moving", "muster")`. One job by parallel, foreach, future, purrr, promises and muster:
#' `vignette("frontends", "muster")`. What messages mean: `vignette("troubleshooting", "muster")`.
#'
#' @section Options:
#' * `muster.quiet`: `TRUE` silences muster's messages, its progress, and the workers' output.
#'   Default `FALSE`.
#' * `muster.progress`: what is shown while the session waits, see Progress. Default `"auto"`.
#' * `muster.healing`: the argument `healing` of [cluster_start()], for clusters from
#'   [makeClusterPSOCK()]. Default `"state"`.
#' * `muster.checkpoints`: when workers make copies of themselves, see Healing in [cluster_start()].
#'   `TRUE`: when it pays. `FALSE`: never. A number: after so many seconds of evaluation. Clusters
#'   take the value that it has when they start. Default `TRUE`.
#' * `muster.replay_max`: for how many seconds at most a lost worker that has no such copy repeats
#'   its calls, see Healing in [cluster_start()]. Clusters take the value that it has when they
#'   start. Default 600.
#' * `muster.globals_max`: the maximum size, in bytes, of the global objects of a function that
#'   [cluster_map()] sends. Default 500 MB (5e8).
#' * `muster.queue_max`: how many bytes of calls may wait in a cluster's queue before submitting
#'   another task waits, or with `.wait = FALSE` isn't done, see Cost in [task_submit()]. Default
#'   256 MB (2.56e8).
#' * `muster.share_min`: size in bytes from which a vector in a call's arguments, or in its value,
#'   is passed in shared memory, see [cluster_share()]. At least 4096; `Inf` turns that off.
#'   Workers take the value that it has when their cluster starts. Default 262144 (256 kB).
#' * `muster.references`: which objects are refused among the arguments and values of
#'   [cluster_map()] and tasks, because they don't work in another process: `"connections"` (the
#'   default), `"error"` (external pointers, too) or `"ignore"` (nothing).
#' * `muster.discover_max`: how many addresses [discover()] probes without asking for
#'   confirmation. Default 65,536.
#' * `muster.shuffle_links`: how workers get rows of each other in [partition_shuffle()] and related
#'   functions: `"direct"` (the default): by opening each other's shared memory, where the system
#'   lets them; `"listen"`: they connect to each other's listeners, of which each worker has as many
#'   as `muster.shuffle_handlers` says.
#' * `muster.shuffle_patience`: two numbers of seconds, from 0.05 to 3600: after the first without
#'   an answer, a block is requested again, on a new connection; after the second, it is made
#'   again elsewhere. Default `c(2.5, 10)`.
#' * `muster.start_timeout`: seconds after which a start that hangs is given up. Default 120.
#' * `muster.raise_nofile`: `TRUE` lets [cluster_start()] raise this session's
#'   soft limit on open files when it needs to. Default `FALSE`, because R itself
#'   can't use file descriptors from 1024 on for its own connections.
#' @section Progress:
#' [cluster_map()], `partition_*()`, [task_wait()] and the functions of package parallel that take
#' a cluster (`parLapply()`, `clusterApply()`, `clusterApplyLB()`, `clusterCall()` and others) can
#' show how far they are, once they have taken 2 s: on one line of the terminal, on stderr, which
#' disappears at the end, at an error and at an interrupt. Messages and workers' output remove it
#' for a moment, and are never mixed with it. `options(muster.progress = )` says where it is
#' shown:
#' * `"auto"`, the default: in an interactive session in a terminal, or in RStudio's console.
#' * `TRUE`, or a string, which is shown before the rest: in scripts too; a message every 5 s
#'   where there is no terminal.
#' * `FALSE`: nowhere.
#'
#' `options(muster.quiet = TRUE)` silences it, too. In knitr, testthat and R CMD check the option is
#' ignored. What a call itself asks for is always shown: by the argument `.progress` of
#' [cluster_map()], or `progress` of foreach's loops.
#'
#' `parLapply()` sends each worker all of its elements at once, so its line moves when a worker is
#' done.
#'
#' With package progressr functions report their own steps, shown as its users choose
#' (`progressr::handlers("cli")`, say). They are shown while workers compute, whether the function
#' is called by [cluster_map()], [task_submit()], a loop of foreach or a future: see Conditions at
#' once in [task_submit()].
#' @section Package future:
#' `future::plan(muster::muster_future)` has futures run on muster's workers, see [muster_future()].
#' `future::plan(cluster, workers = cl)` works too, but each future costs more, and future ignores
#' `cancel()` there: the worker goes on to the end, and `value()` waits for it. With
#' `interrupts = TRUE`, `cancel()` ends the worker, and future has another one in its place, which
#' isn't in `cl`.
#' @section Source:
#' The interface is that of package parallel, see [parallel::makeCluster()]. Each page names the
#' source that its part follows.
#' @useDynLib muster, .registration = TRUE
#' @importFrom parallel stopCluster
"_PACKAGE"
