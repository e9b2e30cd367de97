#' muster: clusters of R workers that start in a blink
#'
#' [cluster_start()] starts workers; every function of package parallel that takes a cluster
#' works on them, and so does what is built on it, such as foreach with doParallel.
#' [cluster_map()] and [task_submit()] are muster's own ways to use them; [cluster_share()]
#' gives them large data. Workers that are lost are replaced, and what they did runs again.
#' [cluster_status()] tells what they do. [cluster_stop()], or [parallel::stopCluster()],
#' ends them. [availableCores()] tells how many there should be.
#'
#' [makeClusterPSOCK()] and its kin are package parallelly's, on muster. [socket_listen()] and
#' [socket_connect()] give sockets of their own. [discover()] finds hosts and services, and
#' [doctor()] looks at what this machine does to clusters; both are commands, too:
#' [muster_cli()], [muster_cli_install()].
#'
#' New here? `vignette("start", "muster")`. From another package: `vignette("moving", "muster")`.
#' What messages mean: `vignette("troubleshooting", "muster")`.
#'
#' @section Options:
#' * `muster.quiet`: `TRUE` silences muster's messages and what workers print. Default
#'   `FALSE`.
#' * `muster.progress`: what is shown while the session waits, see Progress. Default `"auto"`.
#' * `muster.healing`: `FALSE` makes clusters of [makeClusterPSOCK()] without healing. Default
#'   `TRUE`.
#' * `muster.globals_max`: bytes that [cluster_map()] may send of what a function uses of the
#'   global environment. Default 500 MB (5e8).
#' * `muster.share_min`: bytes from which on a vector in a call's arguments, or in its value,
#'   travels in shared memory, see [cluster_share()]. At least 4096; `Inf` switches that off.
#'   Workers take the value that it has when their cluster starts. Default 262144 (256 kB).
#' * `muster.references`: what is refused among arguments and values of [cluster_map()] and
#'   tasks, because it is of no use in another process: `"connections"` (the default),
#'   `"error"` (external pointers, too) or `"ignore"` (nothing).
#' * `muster.discover_max`: addresses that [discover()] asks without being told twice. Default
#'   65,536.
#' * `muster.shuffle_links`: how workers are linked for [partition_shuffle()] and its like:
#'   `"pairs"` (the default): by pairs of sockets that the session makes; `"listen"`: they
#'   connect to each other's listeners, of which each worker has as many as `handlers` says
#'   (the only way on a system without SCM_RIGHTS).
#' * `muster.shuffle_patience`: two numbers of seconds, from 0.05 to 3600: without an answer
#'   for the first, a block is asked for again, on a new connection; after the second it is made
#'   again elsewhere. Default `c(2.5, 10)`.
#' * `muster.start_timeout`: seconds until a start that hangs is given up.
#'   Default 120.
#' * `muster.raise_nofile`: `TRUE` lets [cluster_start()] raise this session's
#'   soft limit on open files when it needs to. Default `FALSE`, because R itself
#'   can't use file descriptors from 1024 on for its own connections.
#' @section Progress:
#' [cluster_map()], `partition_*()`, [task_wait()] and the verbs of package parallel that take a
#' cluster (`parLapply()`, `clusterApply()`, `clusterApplyLB()`, `clusterCall()` and others) can
#' show how far they are, once they have taken 2 s: on one line of the terminal, on stderr, which
#' goes away at the end, at an error and at an interrupt. Messages and what workers print
#' take it away for a moment, and are never mixed with it. `options(muster.progress = )` says
#' where:
#' * `"auto"`, the default: in an interactive session in a terminal, or in RStudio's console.
#' * `TRUE`, or a string, which is shown before the rest: in scripts, too; a message every 5 s
#'   where there is no terminal.
#' * `FALSE`: nowhere.
#'
#' In knitr, testthat and R CMD check the option is ignored; there only the argument `.progress`
#' of [cluster_map()] counts, which has messages shown.
#'
#' `parLapply()` sends each worker all of its elements at once, so its line moves when a worker is
#' done. Conditions of package progressr arrive while the workers compute, under
#' `future::plan(cluster, workers = cl)`.
#' @section Source:
#' The interface is that of package parallel, see [parallel::makeCluster()]. What each part
#' follows is said on its page.
#' @useDynLib muster, .registration = TRUE
#' @importFrom methods setOldClass
#' @importFrom parallel stopCluster
"_PACKAGE"

# S4 code (BiocParallel, for one) finds the class by this. It looks at the first class alone.
setOldClass(c("SOCKcluster", "cluster"))
