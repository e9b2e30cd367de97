#' Count the cores that this process may use
#'
#' @description
#' Asks several sources (the machine, the kernel's limits on this process, the job scheduler, and
#' users' and administrators' settings) and returns the smallest of their answers. A count of the
#' machine's cores alone ([parallel::detectCores()]) is often far too high: in a container, in a
#' job of a cluster, on a machine shared with others, and under `R CMD check`.
#'
#' [cores_report()] tells where the number comes from.
#'
#' The name, arguments, defaults and methods are those of `availableCores()` in package
#' parallelly; section "Differences" lists the cases where the numbers may differ.
#'
#' @param constraints Character vector or `NULL` (default): what the cores are for. `"multicore"`:
#'   forked processes; the answer is 1 where forking isn't safe, as in RStudio's console.
#'   `"connections"` and `"connections-16"` add the method of that name.
#' @param methods Character vector: the sources to ask. If several sources give the deciding
#'   answer, the result is named after the first. By default all of these:
#'   - `"system"`: the machine's online CPUs.
#'   - `"/proc/self/status"`: the CPUs on which the kernel may run this process (line
#'     `Cpus_allowed_list`), as set by `taskset`, by a scheduler or by a CPU set. Linux only.
#'   - `"cgroups.cpuset"`, `"cgroups.cpuquota"`: CPU set and CPU quota of control groups,
#'     version 1 (containers, systemd, schedulers). Linux only.
#'   - `"cgroups2.cpuset.cpus"`, `"cgroups2.cpuset.cpus.effective"`, `"cgroups2.cpu.max"`: CPU
#'     set asked for, CPU set in force, and CPU quota of control groups, version 2. Linux
#'     only. For each kind of limit, the tightest one counts among the process's own group and all
#'     groups above it. Quotas are rounded, to at least 1.
#'   - `"nproc"`: what the program of that name prints. Linux only.
#'   - `"mc.cores"`: option `mc.cores`, or else environment variable `MC_CORES`. 0, which
#'     means no process besides this one, counts as 1. In a muster worker that has neither, the
#'     number of `threads` that it was started with (see [cluster_start()]): the other cores
#'     belong to other workers.
#'   - `"BiocParallel"`: environment variable `BIOCPARALLEL_WORKER_NUMBER`.
#'   - `"_R_CHECK_LIMIT_CORES_"`: 2 if this environment variable is set to anything but
#'     `""` and `"false"` (in any case); `R CMD check --as-cran` does that.
#'   - `"Bioconductor"`: 4 on a build machine of Bioconductor, where environment variable
#'     `IS_BIOC_BUILD_MACHINE` is true or `BBS_HOME` is set.
#'   - `"LSF"`: environment variable `LSB_DJOB_NUMPROC`, of LSF and OpenLava.
#'   - `"PJM"`: environment variables `PJM_VNODE_CORE` or else `PJM_PROC_BY_NODE`, of Fujitsu's
#'     Technical Computing Suite.
#'   - `"PBS"`: environment variables `PBS_NUM_PPN` (TORQUE) or else `NCPUS`.
#'   - `"SGE"`: environment variable `NSLOTS`, of all Grid Engines.
#'   - `"Slurm"`: environment variable `SLURM_CPUS_PER_TASK`; or else `SLURM_CPUS_ON_NODE`
#'     in a job on one node (by `SLURM_JOB_NUM_NODES` or `SLURM_NNODES`), and the first number
#'     in `SLURM_TASKS_PER_NODE` in a job on several.
#'   - `"HTCondor"`: `Cpus` in the file that environment variable `_CONDOR_MACHINE_AD` names.
#'   - `"fallback"`: option `muster.availableCores.fallback`, for administrators of shared
#'     machines. It decides only where all other answers come from the machine and
#'     none of them is below `"system"`.
#'   - `"custom"`: a function without arguments in option `muster.availableCores.custom`. Its
#'     number is rounded down, and `NA` means no answer. It may call `availableCores()`.
#'
#'   Others, on demand: `"mc.cores+1"`; `"connections"` for the number of unused R connections
#'   (clusters of package parallel need one for each worker, muster's need none) and
#'   `"connections-16"` for 16 less; and any other word, which is the name of an option or else of
#'   an environment variable that holds a number.
#' @param na.rm `TRUE` (default) to leave out sources without an answer, `FALSE` to include them
#'   as `NA`, which matters for `which = "all"`.
#' @param logical `TRUE` (default) if hardware threads of a core count as CPUs, `FALSE` if each
#'   core counts once. Affects method `"system"` only.
#' @param default The answer if no source has one: a number from 1 up, by default
#'   `c(current = 1L)`.
#' @param which `"min"` (default) for the smallest answer, `"max"` for the largest, `"all"` for
#'   all answers.
#' @param fraction Number above 0 and at most 1 (default): the fraction of the cores to keep; the
#'   result is rounded down.
#' @param omit Number of cores to leave to others, from 0 (default) up; subtracted after
#'   `fraction` is applied.
#' @param max Number from 1 up, by default `Inf`: the result is at most this many.
#'
#' @returns An integer of length 1, at least 1, whose name is the source that decided; with
#'   `which = "all"` a named integer vector of all sources that have an answer, in the
#'   order of `methods`. An asterisk after the name means that option `availableCores.min` raised
#'   the number.
#'
#' @section Options:
#' `muster.availableCores.methods`, `.logical`, `.fraction`, `.omit` and `.max` are the arguments'
#' defaults. `.methods.excludes` removes methods, `.system` replaces the machine's number of CPUs,
#' `.min` raises numbers below it (but not above the machine's number of CPUs), `.fallback` and
#' `.custom` are described above. `muster.fork.enable` and `muster.supportsMulticore.disableOn`
#' control constraint `"multicore"`, `muster.availableConnections` the constraints on connections.
#'
#' Each option also works with prefix `parallelly.` or `future.` in place of `muster.`, and,
#' except for functions, as an environment variable, such as `R_MUSTER_AVAILABLECORES_OMIT`, or
#' with `R_PARALLELLY_` or `R_FUTURE_`; lists are separated by commas. An option takes precedence
#' over a variable. Schedulers' variables are also read with these prefixes if the plain one isn't
#' set.
#'
#' @section Differences:
#' Numbers differ from those of parallelly 1.48 in these cases:
#' - Only what can't change is remembered between calls: variables and control groups are read
#'   again each time. Environment variables that stand for options are read when needed, not when
#'   the package is loaded.
#' - The smallest control group limit on the whole path counts, where parallelly reads only the
#'   innermost group that has the file. For a version 1 CPU set, the one in force
#'   (`cpuset.effective_cpus`) is read where the kernel provides it. Limits above the machine's
#'   number of CPUs are reported, not dropped with a warning.
#' - `"nproc"` is worked out from the kernel's files, without a process; the program is run only
#'   where these files are missing.
#' - `logical = FALSE` counts cores on Linux too.
#' - `MC_CORES` is also seen when it is set after package parallel was loaded.
#' - `BBS_HOME` counts whatever its value (except `"false"`): Bioconductor sets it to a directory.
#' - `"HTCondor"` is a source.
#' - Values that can't be used (zero, negative, with a fraction, not a number) are ignored with
#'   a warning, where parallelly raises an error for 0 and below and truncates fractions.
#' - `fraction` and `max` keep names, and with `which = "all"`, `max` caps each answer.
#' - `na.rm = FALSE` with no answer from several sources gives one `NA`, not none.
#'
#' @section Source:
#' Methods and their meaning: the help pages of `availableCores()` and of the options in package
#' parallelly. Files: the Linux manual pages proc(5), cpuset(7) and sched_setaffinity(2), and the
#' kernel's documents "Control Group v2" and "CFS Bandwidth Control". `_R_CHECK_LIMIT_CORES_`: the
#' manual "R Internals", section "Tools". `_CONDOR_MACHINE_AD`: HTCondor's manual, "Environment
#' variables of a job".
#'
#' @section Cost:
#' One or two milliseconds: a few small files of `/proc` and `/sys` are read, more of them if
#' control groups are deeply nested. No process is started, except on systems without these files
#' (macOS), where the first call of a session asks [parallel::detectCores()].
#'
#' @section Errors:
#' `muster_error_input` if an argument isn't as described, if the custom function returns anything
#' other than a number from 1 up or `NA`, or if option `availableCores.min` isn't a number from 1
#' to the machine's number of CPUs. Other options and variables that don't hold a number from 1 up
#' (`mc.cores`: from 0 up) are ignored with a warning of class `muster_warning_input`, once per
#' session for each value.
#'
#' @seealso [availableWorkers()] for the hosts of a job.
#' @examples
#' availableCores()
#' availableCores(which = "all")
#'
#' # Leave one core to others; this is still 1 where there is but one.
#' availableCores(omit = 1)
#'
#' # Half of the cores, but not more than 8.
#' availableCores(fraction = 0.5, max = 8)
#' @export
availableCores <- function(constraints = NULL,
                           methods = cores_option("availableCores.methods", c(
                             "system", "/proc/self/status", "cgroups.cpuset", "cgroups.cpuquota",
                             "cgroups2.cpuset.cpus", "cgroups2.cpuset.cpus.effective",
                             "cgroups2.cpu.max", "nproc", "mc.cores", "BiocParallel",
                             "_R_CHECK_LIMIT_CORES_", "Bioconductor", "LSF", "PJM", "PBS", "SGE",
                             "Slurm", "HTCondor", "fallback", "custom"
                           )),
                           na.rm = TRUE,
                           logical = cores_option("availableCores.logical", TRUE),
                           default = c(current = 1L),
                           which = c("min", "max", "all"),
                           fraction = cores_option("availableCores.fraction", 1),
                           omit = cores_option("availableCores.omit", 0L),
                           max = cores_option("availableCores.max", Inf)) {
  call <- sys.call()
  methods <- cores_asked(methods, constraints, "availableCores.methods.excludes", call)
  na.rm <- check_flag(na.rm, "na.rm", call)
  logical <- check_flag(logical, "logical", call)
  which <- check_choice(which, "which", c("min", "max", "all"), call)
  check_cores_number(default, "default", 1, call = call)
  check_cores_number(fraction, "fraction", 0, 1, call = call)
  check_cores_number(omit, "omit", 0, call = call)
  check_cores_number(max, "max", 1, infinite = TRUE, call = call)

  cores <- cores_counts(cores_ask(methods, cores_machine(logical = logical), call))
  if (na.rm) {
    cores <- cores[!is.na(cores)]
  }
  if (!length(cores)) {
    cores <- default
  } else if (which != "all") {
    cores <- cores_pick(cores_heed_fallback(cores), which)
  }
  if ("multicore" %in% constraints && !cores_multicore()) {
    cores[] <- 1L
  }
  cores_adjust(cores, fraction, trunc(omit), max, logical, call)
}

# A number in a range, which is open below for 0 to 1.
check_cores_number <- function(x, name, min, max = Inf, infinite = FALSE, call) {
  open <- is.finite(max)
  ok <- is.numeric(x) && length(x) == 1L && !is.na(x) && (infinite || is.finite(x)) &&
    x >= min && x <= max && !(open && x == min)
  if (!ok) {
    range <- if (open) paste("above", min, "and at most", max) else paste("from", min, "up")
    abort_input(name, paste("one number", range), x, call)
  }
}

# May this session fork? Not in RStudio's console, whose own threads don't survive a fork; its
# terminal is as good as any. Options overrule: fork.enable outright, and
# supportsMulticore.disableOn tells in which of RStudio's places not to.
cores_multicore <- function() {
  enable <- as.logical(cores_option("fork.enable", NA))
  if (length(enable) == 1L && !is.na(enable)) {
    return(enable)
  }
  if (Sys.getenv("RSTUDIO") != "1") {
    return(TRUE)
  }
  place <- if (nzchar(Sys.getenv("RSTUDIO_TERM"))) "rstudio_terminal" else "rstudio_console"
  !place %in% cores_option("supportsMulticore.disableOn", "rstudio_console")
}
