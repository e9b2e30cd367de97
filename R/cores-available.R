#' Count the cores that this process may use
#'
#' @description
#' Asks the machine, the kernel's limits on this process, the job scheduler and R's own
#' settings, and returns the least of their answers. A count of the machine's cores
#' alone ([parallel::detectCores()]) is often far too high: in a container, in a job
#' of a cluster, on a machine shared with others, and under `R CMD check`.
#'
#' The name, the arguments and the names of methods follow `availableCores()` of package
#' parallelly.
#'
#' @param methods Character vector, by default all of those below: the sources to ask. Of
#'   sources with the same answer the first one gives its name to the result. A source
#'   that has nothing to say is left out.
#'   - `"system"`: CPUs of the machine that are online.
#'   - `"affinity"`: CPUs which the kernel may run this process on, as set by `taskset`, by
#'     a scheduler or by a CPU set. Linux only.
#'   - `"cgroup"`: limits of control groups (containers, systemd, schedulers), version 1
#'     and 2: CPU quotas and CPU sets of the process's own group and of all groups above
#'     it. Quotas are rounded down, to at least 1. Linux only.
#'   - `"mc.cores"`: option `mc.cores`, or else environment variable `MC_CORES`. 0, which
#'     means no process besides this one, counts as 1.
#'   - `"_R_CHECK_LIMIT_CORES_"`: 2 if this environment variable is set to anything but
#'     `""` and `"false"` (in any case); `R CMD check --as-cran` does that.
#'   - `"Slurm"`: environment variable `SLURM_CPUS_PER_TASK`.
#'   - `"SGE"`: environment variable `NSLOTS`, of all Grid Engines.
#'   - `"PBS"`: environment variable `PBS_NUM_PPN`.
#' @param which `"min"` (default) for the least answer, `"max"` for the greatest, `"all"` for
#'   all answers.
#' @param omit Whole number of cores from 0 up, by default 0: how many cores to
#'   leave to others. The result is at least 1 whatever is omitted.
#'
#' @returns An integer of length 1, at least 1, whose name is the source that decided; with
#'   `which = "all"` a named integer vector of all sources that have an answer, in the
#'   order of `methods`. `c(current = 1L)` if none has.
#'
#' @section Source:
#' Methods and their meaning: the help page of `availableCores()` in package parallelly.
#' Differences: a quota of 1.5 CPUs counts as 1, where parallelly rounds to 2; the limits of
#' all control groups above the process count, where parallelly reads one of them;
#' `MC_CORES` is also seen when it is set after package parallel was loaded; values that
#' can't be used are ignored with a warning, where parallelly stops at 0 and below and
#' cuts off fractions.
#'
#' Files: the Linux manual pages proc(5), cpuset(7) and sched_setaffinity(2), and the kernel's
#' documents "Control Group v2" and "CFS Bandwidth Control". `_R_CHECK_LIMIT_CORES_`: the
#' manual "R Internals", section "Tools".
#'
#' @section Cost:
#' Under a millisecond: a few small files of `/proc` and `/sys` are read, more of them
#' the deeper control groups are nested. No process is started, except on systems
#' without these files (macOS), where the first call of a session asks
#' [parallel::detectCores()].
#'
#' @section Errors:
#' `muster_error_input` if an argument isn't as described. A value of an environment variable
#' or option that isn't a whole number from 1 up (`mc.cores`: 0 up) is ignored with a
#' warning of class `muster_warning_input`, once a session for each value. Only a number in
#' option `mc.cores` is cut to a whole one, as [parallel::mclapply()] does.
#'
#' @examples
#' availableCores()
#' availableCores(which = "all")
#'
#' # Leave one core to others; this is still 1 where there is but one.
#' availableCores(omit = 1)
#' @export
availableCores <- function(methods = c(
                             "system", "affinity", "cgroup", "mc.cores",
                             "_R_CHECK_LIMIT_CORES_", "Slurm", "SGE", "PBS"
                           ),
                           which = c("min", "max", "all"), omit = 0L) {
  methods <- check_cores_methods(methods)
  which <- check_choice(which, "which", c("min", "max", "all"))
  omit <- check_count(omit, "omit", min = 0L)
  cores <- vapply(methods, function(method) cores_methods[[method]](), 1L)
  cores <- cores[!is.na(cores)]
  if (!length(cores)) {
    cores <- c(current = 1L)
  }
  cores <- switch(which,
    min = cores[which.min(cores)],
    max = cores[which.max(cores)],
    all = cores
  )
  pmax(cores - omit, 1L)
}

# Each source's reader: a function without arguments that returns an integer from 1 up, or
# NA if it has nothing to say. Wrapped, so that the order of files doesn't matter.
cores_methods <- list(
  system = function() cores_system(),
  affinity = function() cores_affinity(),
  cgroup = function() cores_cgroup(),
  mc.cores = function() cores_mc(),
  `_R_CHECK_LIMIT_CORES_` = function() cores_check_limit(),
  Slurm = function() cores_scheduler("Slurm"),
  SGE = function() cores_scheduler("SGE"),
  PBS = function() cores_scheduler("PBS")
)

check_cores_methods <- function(methods, call = sys.call(-1)) {
  methods <- unname(check_strings(methods, "methods", call = call))
  unknown <- setdiff(methods, names(cores_methods))
  if (length(unknown)) {
    known <- paste0("\"", names(cores_methods), "\"", collapse = ", ")
    abort_input("methods", paste("made up of", known), unknown[1L], call)
  }
  methods
}
