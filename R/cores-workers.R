#' List the hosts that workers may run on
#'
#' @description
#' In a scheduler's job, lists the hosts that the job was granted, each repeated once for each of
#' its cores on that host; elsewhere, `"localhost"` as often as [availableCores()] allows.
#'
#' The name, arguments, defaults and methods are those of `availableWorkers()` in package
#' parallelly; section "Differences" lists the cases where the answers may differ.
#'
#' @param constraints Character vector or `NULL` (default), as for [availableCores()].
#' @param methods Character vector: the sources to ask, in this order. All are sources of
#'   [availableCores()]; these list hosts:
#'   - `"LSF"`: environment variable `LSB_HOSTS`, or else `LSB_MCPU_HOSTS`.
#'   - `"PJM"`: the file that `PJM_O_NODEINF` names, each host as often as `PJM_VNODE_CORE` or
#'     `PJM_PROC_BY_NODE` says.
#'   - `"PBS"`: the file that `PBS_NODEFILE` names, sorted.
#'   - `"SGE"`: the file that `PE_HOSTFILE` names, sorted.
#'   - `"Slurm"`: the compressed list in `SLURM_JOB_NODELIST` or else `SLURM_NODELIST`, as
#'     `"node[01-04,7],x2[1-2]"`; each host as often as `SLURM_JOB_CPUS_PER_NODE` or else
#'     `SLURM_TASKS_PER_NODE` says, as `"2(x3),1"`, but not more often than
#'     `SLURM_CPUS_PER_TASK`.
#'   - `"custom"`: a function without arguments in option `muster.availableWorkers.custom`. It
#'     may call `availableWorkers()`.
#'   - Any other word that isn't a method of [availableCores()]: an option or environment
#'     variable of this name that holds names of hosts with commas or blanks between them,
#'     or a number.
#' @param na.rm `TRUE` (default) to leave out missing hosts of a custom function.
#' @param logical Passed on to [availableCores()].
#' @param default Names of hosts, by default `"localhost"`: the answer if no source has one.
#' @param which `"auto"` (default) for the first source in the order of `methods` that has an
#'   answer, where all sources about this machine (the kernel, users' settings, checks) together
#'   count as one, with the smallest of their answers; `"min"` and `"max"` for the shortest and
#'   longest answer; `"all"` for all.
#' @param ... Other arguments of [availableCores()], for sources that give a number: `fraction`,
#'   `omit`, `max`.
#'
#' @returns A character vector of host names, one for each worker; with `which = "all"` a named
#'   list of such vectors, one for each source, empty where it has no answer.
#'
#' @section Options:
#' `muster.availableWorkers.methods` and `muster.localhost.hostname` are defaults of `methods` and
#' `default`, the latter also the name of this machine in answers;
#' `muster.availableWorkers.methods.excludes` removes methods. Other prefixes and environment
#' variables: see [availableCores()].
#'
#' @section Differences:
#' Answers differ from those of parallelly 1.48 in these cases, besides the numbers of
#' [availableCores()]:
#' - Slurm's lists are expanded here, and the program `scontrol` isn't run; names may have several
#'   brackets, and text after them.
#' - `"min"` is the shortest answer, where parallelly gives `default` as soon as one source
#'   has none.
#' - `"auto"` respects all limits of this machine, where parallelly ignores version 2 CPU sets.
#' - Option `availableCores.fallback` works as in [availableCores()], where parallelly drops it on
#'   machines that have `nproc`.
#' - `LSB_MCPU_HOSTS` is read where `LSB_HOSTS` isn't set.
#' - A number in an option or variable that a method names isn't taken for a host.
#' - Blank lines in files are skipped. A list that contradicts a scheduler's other variables gives
#'   a warning only if these are set. Values that can't be used are ignored with a warning, where
#'   parallelly raises an error for some.
#'
#' @section Errors:
#' `muster_error_input` if an argument isn't as described, or if the custom function returns
#' anything other than host names. Lists that can't be parsed, missing files and contradictions
#' give a warning of class `muster_warning_input`, once per session for each.
#'
#' @section Source:
#' The help page of `availableWorkers()` in package parallelly, and the manuals of Slurm (sbatch,
#' "Output environment variables"), Grid Engine (qsub), TORQUE, IBM Spectrum LSF and Fujitsu's
#' Technical Computing Suite.
#'
#' @section Cost:
#' That of [availableCores()], plus reading the scheduler's file. No process is started.
#'
#' @examples
#' availableWorkers()
#' availableWorkers(max = 1)
#' @export
availableWorkers <- function(constraints = NULL,
                             methods = cores_option("availableWorkers.methods", c(
                               "mc.cores", "BiocParallel", "_R_CHECK_LIMIT_CORES_", "Bioconductor",
                               "LSF", "PJM", "PBS", "SGE", "Slurm", "custom", "cgroups.cpuset",
                               "cgroups.cpuquota", "cgroups2.cpuset.cpus",
                               "cgroups2.cpuset.cpus.effective", "cgroups2.cpu.max", "nproc",
                               "system", "fallback"
                             )),
                             na.rm = TRUE,
                             logical = cores_option("availableCores.logical", TRUE),
                             default = cores_option("localhost.hostname", "localhost"),
                             which = c("auto", "min", "max", "all"),
                             ...) {
  call <- sys.call()
  methods <- cores_asked(methods, constraints, "availableWorkers.methods.excludes", call)
  which <- check_choice(which, "which", c("auto", "min", "max", "all"), call)
  check_hosts(default, "default", call)
  if (!length(default)) {
    abort_input("default", "one or more names of hosts", default, call)
  }
  methods <- cores_asked(methods, NULL, "availableCores.methods.excludes", call)
  named <- sapply(methods, workers_named, simplify = FALSE)
  counted <- methods[lengths(named) == 0L]
  cores <- workers_counts(counted, constraints, logical, ...)[methods]
  names(cores) <- methods
  hosts <- workers_ask(cores, named, na.rm, call)
  if (which == "all") {
    return(hosts)
  }
  workers <- workers_pick(hosts, cores, which)
  if (length(workers)) workers else default
}

# Numbers of cores by method, NA where there's none. Names are given anew, for availableCores()
# marks those whose numbers it raises.
workers_counts <- function(methods, constraints, logical, ...) {
  # Also without methods: the other arguments are checked there.
  cores <- availableCores(
    constraints = grep(connections_pattern, constraints, value = TRUE, invert = TRUE),
    methods = methods, na.rm = FALSE, logical = logical, which = "all", ...
  )
  if (length(methods)) stats::setNames(cores, methods) else integer()
}

# Each method's hosts: those that a scheduler or another setting lists, or else this machine for
# each core.
workers_ask <- function(cores, named, na.rm, call) {
  here <- cores_option("localhost.hostname", "localhost")
  hosts <- lapply(cores, function(count) rep(here, if (is.na(count)) 0L else count))
  for (method in unique(names(cores))) {
    listed <- c(named[[method]], workers_listed(method, call))
    if (na.rm) {
      listed <- listed[!is.na(listed)]
    }
    if (length(listed)) {
      hosts[[method]] <- listed
    }
  }
  hosts
}

# Hosts that a method lists, NULL if it lists none.
workers_listed <- function(method, call) {
  switch(method,
    LSF = workers_lsf(),
    PJM = workers_pjm(),
    PBS = workers_pbs(),
    SGE = workers_sge(),
    Slurm = workers_slurm(),
    custom = workers_custom(call)
  )
}

workers_custom <- function(call) {
  result <- cores_call_custom("availableWorkers.custom")
  if (is.null(result)) {
    return(NULL)
  }
  hosts <- if (is.atomic(result$value)) as.character(result$value) else result$value
  if (!is.character(hosts) || !all(nzchar(hosts))) {
    abort_custom("availableWorkers.custom", "names of hosts", result$value, call)
  }
  hosts
}

# Hosts in an option or variable that has the method's name, NULL if this is one of the known
# methods or the setting holds a number, which availableCores() reads.
workers_named <- function(method) {
  if (method %in% c(names(cores_methods), "custom") || grepl(connections_pattern, method)) {
    return(NULL)
  }
  text <- NULL
  for (name in paste0(c("future.", "parallelly.", "muster.", ""), method)) {
    value <- getOption(name)
    if (is.character(value) && !anyNA(value)) {
      text <- value
    }
  }
  if (is.null(text) && !grepl("=", method, fixed = TRUE)) {
    text <- cores_env(method)$text
  }
  if (is.null(text) || !is.na(cores_whole(text))) NULL else cores_split(text, "[, ]")
}

check_hosts <- function(x, name, call) {
  if (!is.character(x) || anyNA(x) || !all(nzchar(x))) {
    abort_input(name, "one or more names of hosts", x, call)
  }
}

# One of the lists. hosts: list of hosts by method. cores: the numbers behind those of this machine.
workers_pick <- function(hosts, cores, which) {
  hosts <- hosts[lengths(hosts) > 0L]
  if (length(hosts) > 1L && "fallback" %in% names(hosts)) {
    counts <- cores
    counts[names(hosts)] <- lengths(hosts)
    use <- cores_use_fallback(counts)
    hosts <- hosts[(names(hosts) == "fallback") == use]
  }
  if (!length(hosts)) {
    return(character())
  }
  if (which != "auto") {
    at <- if (which == "min") which.min(lengths(hosts)) else which.max(lengths(hosts))
    return(hosts[[at]])
  }
  first <- hosts[[1L]]
  local <- of_here(names(hosts))
  if (local[1L]) first[seq_len(min(lengths(hosts[local])))] else first
}

# Methods that count this machine's cores; schedulers count a job's.
of_here <- function(methods) {
  of_machine(methods) | methods %in% c(
    "mc.cores", "mc.cores+1", "BiocParallel", "_R_CHECK_LIMIT_CORES_", "Bioconductor"
  )
}
