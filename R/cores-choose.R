# From the sources' answers to a number: which sources are asked, whose answer is taken,
# and what is taken off.

# Each source's reader: a function of the machine that gives an answer. Wrapped, so that the
# order of files doesn't matter.
cores_methods <- list(
  system = function(machine) cores_system(machine),
  `/proc/self/status` = function(machine) cores_affinity(machine),
  cgroups.cpuset = function(machine) cores_cgroup(machine, "cgroups.cpuset"),
  cgroups.cpuquota = function(machine) cores_cgroup(machine, "cgroups.cpuquota"),
  cgroups2.cpuset.cpus = function(machine) cores_cgroup(machine, "cgroups2.cpuset.cpus"),
  cgroups2.cpuset.cpus.effective = function(machine) {
    cores_cgroup(machine, "cgroups2.cpuset.cpus.effective")
  },
  cgroups2.cpu.max = function(machine) cores_cgroup(machine, "cgroups2.cpu.max"),
  nproc = function(machine) cores_nproc(machine),
  mc.cores = function(machine) cores_mc(),
  `mc.cores+1` = function(machine) cores_mc(plus = 1L),
  BiocParallel = function(machine) cores_biocparallel(),
  `_R_CHECK_LIMIT_CORES_` = function(machine) cores_check_limit(),
  Bioconductor = function(machine) cores_bioconductor(),
  LSF = function(machine) cores_lsf(),
  PJM = function(machine) cores_pjm(),
  PBS = function(machine) cores_pbs(),
  SGE = function(machine) cores_sge(),
  Slurm = function(machine) cores_slurm(),
  HTCondor = function(machine) cores_condor(),
  fallback = function(machine) cores_fallback()
)

connections_pattern <- "^connections(-[0-9]+)?$"

# Sources about the machine and this process, not about anybody's settings.
cores_machine_methods <- c(
  "system", "/proc/self/status", "cgroups.cpuset", "cgroups.cpuquota", "cgroups2.cpuset.cpus",
  "cgroups2.cpuset.cpus.effective", "cgroups2.cpu.max", "nproc"
)

of_machine <- function(methods) {
  methods %in% cores_machine_methods | grepl(connections_pattern, methods)
}

# The methods to ask: those given, without those that the option of this name excludes, and
# with those that constraints stand for.
cores_asked <- function(methods, constraints, excludes, call) {
  methods <- unname(check_strings(methods, "methods", call = call))
  constraints <- check_strings(constraints, "constraints", call = call)
  excludes <- cores_option(excludes, type = "character")
  if (length(excludes)) {
    methods <- methods[!methods %in% cores_split(as.character(excludes))]
  }
  more <- grep(connections_pattern, constraints, value = TRUE)
  if (length(more)) unique(c(methods, more)) else methods
}

# Answers of the methods, by their names.
cores_ask <- function(methods, machine, call) {
  answers <- lapply(methods, function(method) {
    read <- cores_methods[[method]]
    if (!is.null(read)) {
      read(machine)
    } else if (method == "custom") {
      cores_custom(call)
    } else if (grepl(connections_pattern, method)) {
      cores_connections(method)
    } else {
      cores_any(method)
    }
  })
  stats::setNames(answers, methods)
}

cores_counts <- function(answers) vapply(answers, `[[`, 1L, "count")

# Does the fallback count? Only if all answers come from the machine and none is below its number
# of CPUs: a lower one is already a limit on what may be used.
cores_use_fallback <- function(cores) {
  cores <- cores[!is.na(cores)]
  others <- cores[names(cores) != "fallback"]
  machine <- of_machine(names(others))
  "fallback" %in% names(cores) && all(machine) &&
    !any(others < others["system"], na.rm = TRUE)
}

# The fallback alone, or all but the fallback.
cores_heed_fallback <- function(cores) {
  if (length(cores) > 1L && "fallback" %in% names(cores)) {
    cores <- cores[(names(cores) == "fallback") == cores_use_fallback(cores)]
  }
  cores
}

# The least or the greatest answer; NA if there's none.
cores_pick <- function(cores, which) {
  at <- if (which == "min") which.min(cores) else which.max(cores)
  if (length(at)) cores[at] else cores[1L]
}

# Not fewer than option availableCores.min, marked by a star, then the part, the number left
# to others and the most.
cores_adjust <- function(cores, fraction, omit, max, logical, call) {
  min <- cores_min(logical, call)
  raised <- which(cores < min)
  cores[raised] <- min
  names(cores)[raised] <- paste0(names(cores)[raised], rep("*", length(raised)))
  names <- names(cores)
  if (fraction < 1) {
    cores <- pmax(floor(fraction * cores), 1)
  }
  cores <- pmin(pmax(cores - omit, 1), max)
  stats::setNames(as.integer(cores), names)
}

cores_min <- function(logical, call) {
  min <- cores_option("availableCores.min", 1L)
  if (!is.numeric(min) || length(min) != 1L || !is.finite(min) || min < 1) {
    abort_option("availableCores.min", "a number from 1 up", min, call)
  }
  min <- floor(min)
  # Reading the machine's number costs a file, and few users set the option.
  system <- if (min > 1) cores_system(cores_machine(logical = logical))$count
  if (isTRUE(min > system)) {
    abort_option("availableCores.min", paste("at most the machine's", system), min, call)
  }
  as.integer(min)
}

abort_option <- function(name, must, value, call) {
  abort_muster("input",
    paste0("Option `", name, "` must be ", must, ", not ", describe(value), "."),
    argument = name, call = call
  )
}
